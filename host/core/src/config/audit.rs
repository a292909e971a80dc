//! The setting `audit`. A string sets the mode for calls that cannot be recorded; the table
//! `[audit]` also configures checkpoints, which the crate `skillhost-audit` signs.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use toml::Spanned;

use super::ConfiguredPath;
use super::tables::Tables;
use skillhost_sandbox::declare_limits;
use skillhost_sandbox::tool::audit::AuditMode;
use skillhost_sandbox::tool::limits::DAY;

/// The settings of checkpoints: signed records of the audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoints {
    /// The file of the signing key. If it is `None`, there are no checkpoints.
    pub key_file: Option<ConfiguredPath>,
    /// The program that gets each checkpoint on its standard input.
    pub command: Option<CheckpointCommand>,
    /// The Unix socket that gets each checkpoint.
    pub socket: Option<ConfiguredPath>,
    /// The intervals between checkpoints.
    pub limits: CheckpointLimits,
}

/// A program that gets checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointCommand {
    /// A name on the PATH, or a path with a `/`.
    pub program: ConfiguredPath,
    /// The program's arguments.
    pub arguments: Vec<String>,
}

declare_limits! {
    /// The limits of the unsigned records at the end of the audit log.
    CheckpointLimits in "audit", "most of the log would be signatures" {
        /// Records after which there is a checkpoint.
        checkpoint_records: usize, Count "1000" in 1, u32::MAX;
        against "records that can be changed because nothing signs them yet"

        /// Longest time from a record to a checkpoint.
        checkpoint_time: Duration, Time "10s" in 100, DAY;
        against "unsigned records on a host with few calls"
    }
}

/// The raw value of `audit`.
#[derive(Default)]
pub(super) struct RawAudit(RawAuditTable);

/// The raw keys of the table, without the limits.
#[derive(Deserialize, Default)]
#[serde(default, expecting = "a table of settings")]
pub(super) struct RawAuditTable {
    mode: RawMode,
    key_file: Option<Spanned<PathBuf>>,
    checkpoint_command: Option<Spanned<Vec<String>>>,
    checkpoint_socket: Option<Spanned<PathBuf>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum RawMode {
    #[default]
    Required,
    BestEffort,
}

impl<'de> Deserialize<'de> for RawAudit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ModeOrTable)
    }
}

struct ModeOrTable;

impl<'de> Visitor<'de> for ModeOrTable {
    type Value = RawAudit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"required\", \"best_effort\" or a table of settings")
    }

    fn visit_str<E: serde::de::Error>(self, mode: &str) -> Result<RawAudit, E> {
        let mode = RawMode::deserialize(serde::de::value::StrDeserializer::<E>::new(mode))?;
        Ok(RawAudit(RawAuditTable {
            mode,
            ..RawAuditTable::default()
        }))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<RawAudit, A::Error> {
        RawAuditTable::deserialize(MapAccessDeserializer::new(table)).map(RawAudit)
    }
}

impl CheckpointCommand {
    /// Returns the command that these words are, or `None` if there are no words. A relative path
    /// with a `/` starts at the configuration's folder.
    fn new(words: Spanned<Vec<String>>, tables: &Tables<'_>) -> anyhow::Result<Option<Self>> {
        let span = words.span();
        let mut words = words.into_inner().into_iter();
        let Some(name) = words.next() else {
            return Ok(None);
        };
        let mut program = tables.path(Spanned::new(span, PathBuf::from(&name)))?;
        if !name.contains('/') {
            program.path = name.into();
        }
        Ok(Some(Self {
            program,
            arguments: words.collect(),
        }))
    }
}

impl RawAudit {
    pub(super) fn mode(&self) -> AuditMode {
        match self.0.mode {
            RawMode::Required => AuditMode::Required,
            RawMode::BestEffort => AuditMode::BestEffort,
        }
    }

    /// Returns the settings of checkpoints. Fails if a checkpoint sink is set without a signing
    /// key.
    pub(super) fn checkpoints(self, tables: &Tables<'_>) -> anyhow::Result<Checkpoints> {
        let Self(table) = self;
        let command = table.checkpoint_command.as_ref();
        let command = command.map(|command| ("checkpoint_command", command.span().start));
        let socket = table.checkpoint_socket.as_ref();
        let socket = socket.map(|socket| ("checkpoint_socket", socket.span().start));
        if let (None, Some((key, at))) = (&table.key_file, command.or(socket)) {
            bail!(
                "{}: `{key}` needs `key_file`, the key that signs checkpoints",
                tables.place(at)
            );
        }
        let command = match table.checkpoint_command {
            Some(command) if command.get_ref().first().is_none_or(String::is_empty) => bail!(
                "{}: `checkpoint_command` is a program and its arguments, such as [\"logger\"]",
                tables.place(command.span().start)
            ),
            Some(command) => CheckpointCommand::new(command, tables)?,
            None => None,
        };
        Ok(Checkpoints {
            key_file: tables.optional_path(table.key_file)?,
            command,
            socket: tables.optional_path(table.checkpoint_socket)?,
            limits: tables.limits()?,
        })
    }
}
