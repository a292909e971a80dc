//! The tables `[grants]` and `[pins]`: what components may do, and their digests.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::tables::Tables;
use skillhost_egress::{ASK, NetworkGrant, SecretUse};
use skillhost_sandbox::component::embedded;
use skillhost_sandbox::tool::grant::{FolderAccess, Grant};
use skillhost_sandbox::tool::limits::Limits;
use skillhost_skills::text::suggest;

/// The raw keys of a grant.
#[derive(Deserialize, Default)]
#[serde(default, expecting = "a `[grants.NAME]` table")]
pub(super) struct RawGrant {
    skills: Option<Vec<String>>,
    home: Option<bool>,
    hard_links: Option<bool>,
    view: RawView,
    /// Only names the key: `parse` reads the limits.
    #[serde(rename = "limits")]
    _limits: IgnoredAny,
    environment: BTreeMap<String, String>,
    scripts: Vec<String>,
    network: RawRules,
    network_private: Vec<Spanned<String>>,
    secrets: BTreeMap<String, Spanned<RawSecret>>,
}

/// The raw value of `network` in a grant.
enum RawRules {
    Ask,
    Rules(Vec<Spanned<String>>),
}

impl Default for RawRules {
    fn default() -> Self {
        Self::Rules(Vec::new())
    }
}

impl<'de> Deserialize<'de> for RawRules {
    /// Reads a word or a list. With an untagged enum, serde would lose the places of the rules in
    /// the file.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RulesVisitor)
    }
}

struct RulesVisitor;

impl<'de> Visitor<'de> for RulesVisitor {
    type Value = RawRules;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a list of rules such as [\"GET https://api.example.org/v1/*\"], or \"{ASK}\""
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RawRules, E> {
        match text {
            ASK => Ok(RawRules::Ask),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawRules, A::Error> {
        let mut rules = Vec::new();
        while let Some(rule) = list.next_element()? {
            rules.push(rule);
        }
        Ok(RawRules::Rules(rules))
    }
}

/// The raw keys of a secret.
#[derive(Deserialize)]
#[serde(expecting = "a table with `file`, `header` and `hosts`")]
pub(super) struct RawSecret {
    file: Spanned<PathBuf>,
    header: String,
    hosts: Vec<String>,
}

/// The raw value of `view`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum RawView {
    #[default]
    ReadOnly,
    CopyOnWrite,
}

impl RawGrant {
    /// Returns the grant. `place` is the place of the grant's table, for messages.
    pub(super) fn grant(
        mut self,
        limits: Limits,
        place: &str,
        tables: &Tables<'_>,
    ) -> anyhow::Result<Grant> {
        let grant = Grant::new().limits(limits);
        self.check_ask().with_context(|| place.to_owned())?;
        let grant = self.add_network(grant, tables)?;
        self.add_access(grant).with_context(|| place.to_owned())
    }

    /// Refuses `network_private` and `secrets` with `network = "ask"`: the person who is asked
    /// could not judge requests to private addresses or with secrets.
    fn check_ask(&self) -> anyhow::Result<()> {
        let key = match self {
            _ if !matches!(self.network, RawRules::Ask) => return Ok(()),
            _ if !self.network_private.is_empty() => "network_private",
            _ if !self.secrets.is_empty() => "secrets",
            _ => return Ok(()),
        };
        bail!(
            "`network = \"{ASK}\"` is only for public addresses, without secrets: remove `{key}`, \
             or write rules instead of \"{ASK}\""
        )
    }

    /// Adds the requests that the component may send, and the files of its secrets.
    fn add_network(&mut self, mut grant: Grant, tables: &Tables<'_>) -> anyhow::Result<Grant> {
        let (mut network, rules) = match std::mem::take(&mut self.network) {
            RawRules::Ask => (NetworkGrant::ask(), Vec::new()),
            RawRules::Rules(rules) => (NetworkGrant::new(), rules),
        };
        for rule in rules {
            let place = tables.place(rule.span().start);
            let rule = rule.into_inner().parse();
            network = network.rule(rule.with_context(|| format!("{place}: `network`"))?);
        }
        for address in std::mem::take(&mut self.network_private) {
            let place = tables.place(address.span().start);
            let address = address.into_inner().parse();
            let address = address.with_context(|| format!("{place}: `network_private`"))?;
            network = network.private(address);
        }
        for (name, secret) in std::mem::take(&mut self.secrets) {
            let place = tables.place(secret.span().start);
            let secret = secret.into_inner();
            let secret_use = SecretUse::new(&name, &secret.header, secret.hosts);
            network = network.secret(secret_use.with_context(|| place.clone())?);
            if self.environment.contains_key(&name) {
                bail!(
                    "{place}: `environment` and `secrets` both set the variable `{name}` of the \
                     guest"
                );
            }
            grant = grant.secret_file(name, tables.path(secret.file)?.path);
        }
        Ok(grant.network(network))
    }

    /// Adds the access to skills and folders, the scripts, and the environment variables.
    fn add_access(self, mut grant: Grant) -> anyhow::Result<Grant> {
        if let Some(skills) = self.skills {
            grant = grant.skills(skills)?;
        }
        if let Some(allowed) = self.home {
            grant = grant.home(allowed);
        }
        if let Some(allowed) = self.hard_links {
            grant = grant.hard_links(allowed);
        }
        grant = grant.scripts(self.scripts)?;
        if let RawView::CopyOnWrite = self.view {
            grant = grant.view(FolderAccess::CopyOnWrite);
        }
        for (name, value) in self.environment {
            grant = grant.environment(name, value);
        }
        Ok(grant)
    }
}

/// Refuses a grant that names neither a component file nor a built-in tool.
/// Guards against: a component that defines a tool of the granted name, and so gets the grant.
pub(super) fn check_name(name: &str) -> anyhow::Result<()> {
    if is_component_name(name) || embedded::names().any(|tool| tool == name) {
        return Ok(());
    }
    let shown = name.escape_debug();
    let nearest = suggest::nearest(name, embedded::names())
        .into_iter()
        .take(1);
    bail!(
        "`[grants.{shown}]` names no built-in tool{}; for another tool, name its component file, \
         such as `[grants.\"{shown}.wasm\"]`: the grant covers all of its tools",
        suggest::did_you_mean(nearest, '`')
    )
}

/// Refuses a pin that does not name a component file, or is not a SHA-256 digest.
pub(super) fn check_pin(file: &str, pin: &str) -> anyhow::Result<()> {
    if !is_component_name(file) {
        bail!("a pin names a component file, such as `count_lines.wasm`");
    }
    if pin.len() != 64 || !pin.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        bail!("a pin is a SHA-256 digest: 64 hex digits");
    }
    Ok(())
}

/// Returns whether a component file can have this name.
fn is_component_name(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "wasm") && !name.contains('/')
}
