//! Sources of skills: registries, git repositories and sites.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;
use crate::git::GitSource;
use crate::reference::Reference;
use crate::site::SiteSource;

/// A source of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillSource {
    /// `oci://REGISTRY/REPOSITORY:TAG`.
    Registry(Reference),
    /// `git+https://HOST/REPOSITORY@VERSION#FOLDER`.
    Git(GitSource),
    /// `https://SITE#SKILL`.
    Site(SiteSource),
}

impl SkillSource {
    /// Returns the default name of the skill.
    pub fn default_name(&self) -> &str {
        match self {
            Self::Registry(reference) => reference.last_name(),
            Self::Git(source) => source.last_name(),
            Self::Site(source) => source.skill(),
        }
    }

    /// Returns this source with its version fixed to a manifest or a commit.
    ///
    /// A site has only one version, so its source stays the same.
    ///
    /// # Errors
    ///
    /// If the reference would be too long.
    pub fn fixed(&self, manifest: &Digest, commit: Option<&str>) -> anyhow::Result<Self> {
        Ok(match (self, commit) {
            (Self::Registry(reference), _) => Self::Registry(reference.fixed(manifest)?),
            (Self::Git(source), Some(commit)) => Self::Git(source.at(commit)),
            (other, _) => other.clone(),
        })
    }
}

impl FromStr for SkillSource {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if text.starts_with("git+") {
            text.parse().map(Self::Git)
        } else if text.starts_with("https://") || text.starts_with("http://") {
            text.parse().map(Self::Site)
        } else {
            text.parse().map(Self::Registry)
        }
    }
}

impl fmt::Display for SkillSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(reference) => reference.fmt(f),
            Self::Git(source) => source.fmt(f),
            Self::Site(source) => source.fmt(f),
        }
    }
}
