//! Skills that a site offers in `/.well-known/agent-skills/index.json`: `https://SITE#SKILL`.
//!
//! The format is version 0.2.0 of agent skills discovery. Each skill is a SKILL.md or an archive, with
//! an address and a digest.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::client::{Connections, MIN_BYTES_PER_SECOND, REQUEST_TIME, RegistrySettings, join};
use crate::digest::Digest;
use crate::layer;
use crate::manifest::{Descriptor, SKILL_LAYER};
use crate::quote::{quote, quote_error};
use crate::reference::{check_authority, is_loopback};
use crate::skill_files::{SkillFiles, SkillFilesBuilder};
use crate::zip;

/// The path of the index.
const INDEX: &str = "/.well-known/agent-skills/index.json";

/// The only supported version of the index.
pub(crate) const SCHEMA: &str = "https://schemas.agentskills.io/discovery/0.2.0/schema.json";

/// The maximum size of an index, in bytes.
const MAX_INDEX: u64 = 1 << 20;

/// The first bytes of an archive in gzip.
const GZIP: &[u8] = b"\x1f\x8b";

/// The maximum size of an artifact, in bytes.
const MAX_ARTIFACT: u64 = 16 << 20;

/// The maximum length of a skill's name in the format, in bytes.
const MAX_NAME: usize = 64;

/// The maximum number of skills that a message names.
const MAX_NAMED: usize = 10;

/// A skill of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteSource {
    /// `https` or `http`.
    scheme: &'static str,
    /// The host, with a port if it is not the default.
    authority: String,
    skill: String,
}

#[derive(Deserialize)]
struct Index {
    #[serde(rename = "$schema")]
    schema: Option<String>,
    skills: Vec<Value>,
}

#[derive(Deserialize)]
pub(crate) struct Entry {
    #[serde(rename = "type")]
    kind: String,
    url: String,
    digest: Option<Digest>,
}

impl SiteSource {
    /// Returns the source without its skill.
    pub(crate) fn place(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// Returns the name of the skill.
    pub(crate) fn skill(&self) -> &str {
        &self.skill
    }

    /// Fetches the files of the skill.
    ///
    /// # Errors
    ///
    /// If the site does not offer the skill, or sends anything but its files.
    pub(crate) fn fetch(&self, settings: &RegistrySettings) -> anyhow::Result<SkillFiles> {
        let fetch = || {
            let is_plain = self.scheme == "http";
            let connections = Connections::new(&self.authority, is_plain, settings);
            let time = settings.request_time.unwrap_or(REQUEST_TIME);
            let address = format!("{}{INDEX}", connections.origin());
            let index = connections.read(&address, MAX_INDEX, time);
            let entry = self.entry(&index.context("cannot read the index")?)?;
            let target = join(&address, &entry.url)?;
            let time = time + Duration::from_secs(MAX_ARTIFACT / MIN_BYTES_PER_SECOND);
            let bytes = connections.read(&target, MAX_ARTIFACT, time);
            let bytes = bytes.with_context(|| format!("cannot read `{}`", quote(&target)))?;
            if let Some(expected) = &entry.digest {
                let found = Digest::of(&bytes);
                ensure!(
                    found == *expected,
                    "its bytes have the digest {found}, but the index says {expected}"
                );
            }
            files(&entry.kind, &bytes)
        };
        fetch().with_context(|| format!("cannot read `{self}`"))
    }

    /// Returns the skill's entry in the index.
    pub(crate) fn entry(&self, index: &[u8]) -> anyhow::Result<Entry> {
        let index: Index = serde_json::from_slice(index)
            .map_err(quote_error)
            .context("the index is invalid")?;
        if index.schema.as_deref() != Some(SCHEMA) {
            let schema = index.schema.unwrap_or_else(|| "no schema".to_owned());
            bail!(
                "the index has another version than 0.2.0: {}",
                quote(&schema)
            );
        }
        let name = |entry: &Value| entry["name"].as_str().map(str::to_owned);
        let mut found = index
            .skills
            .iter()
            .filter(|entry| name(entry).is_some_and(|name| name == self.skill));
        let Some(entry) = found.next() else {
            let names = index.skills.iter().filter_map(name).take(MAX_NAMED);
            let names: Vec<String> = names.map(|name| quote(&name).to_string()).collect();
            bail!(
                "the site has no skill `{}`; it has: {}",
                self.skill,
                names.join(", ")
            );
        };
        ensure!(
            found.next().is_none(),
            "the site has the skill `{}` twice",
            self.skill
        );
        Entry::deserialize(entry)
            .map_err(quote_error)
            .context("its entry in the index is invalid")
    }
}

/// Returns the files of an artifact. Its kind is `skill-md` or `archive`.
pub(crate) fn files(kind: &str, bytes: &[u8]) -> anyhow::Result<SkillFiles> {
    match kind {
        "skill-md" => {
            let mut files = SkillFilesBuilder::default();
            files.add(b"SKILL.md", bytes.len() as u64, bytes)?;
            files.build()
        }
        "archive" => {
            if bytes.starts_with(zip::HEADER) {
                return zip::unpack(bytes);
            }
            ensure!(
                bytes.starts_with(GZIP),
                "its archive is neither a `.tar.gz` nor a `.zip`"
            );
            layer::unpack(&Descriptor::of(SKILL_LAYER, bytes), bytes)
        }
        kind => bail!(
            "its type is `{}`, neither `skill-md` nor `archive`",
            quote(kind)
        ),
    }
}

impl FromStr for SiteSource {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        parse(text).with_context(|| {
            let text = quote(text);
            format!("`{text}` is not a source such as `https://site.example#reports`")
        })
    }
}

fn parse(text: &str) -> anyhow::Result<SiteSource> {
    let (scheme, rest) = match text.split_once("://") {
        Some(("https", rest)) => ("https", rest),
        Some(("http", rest)) => ("http", rest),
        _ => bail!("it must start with `https://`"),
    };
    let (authority, skill) = rest.split_once('#').context("it names no `#SKILL`")?;
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    check_authority(authority)?;
    ensure!(
        scheme == "https" || is_loopback(authority),
        "plain HTTP works only with sites on this machine"
    );
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    ensure!(
        (1..=MAX_NAME).contains(&skill.len()) && skill.bytes().all(is_plain),
        "the skill's name must have 1 to {MAX_NAME} lower-case letters, digits or `-`"
    );
    Ok(SiteSource {
        scheme,
        authority: authority.to_owned(),
        skill: skill.to_owned(),
    })
}

impl fmt::Display for SiteSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.place(), self.skill)
    }
}
