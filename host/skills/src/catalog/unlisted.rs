//! Unlisted skills, which lists for models leave out. A call by their exact name still works.
//!
//! Every list, search and suggestion for models uses this file. Lists for people have all skills.

use std::fmt;

use crate::encoding::EncodingFault;
use crate::frontmatter::{self, Frontmatter};

/// The reason why lists for models leave a skill out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unlisted {
    /// The author asks for this, with `disable-model-invocation: true`.
    Author,
    /// SKILL.md is not UTF-8, so it has no description that a model can read.
    Encoding(EncodingFault),
}

impl Unlisted {
    /// Returns the reason in the frontmatter of a SKILL.md, if there is one.
    pub fn in_frontmatter(frontmatter: &Frontmatter) -> Option<Self> {
        frontmatter
            .disables_model_invocation()
            .then_some(Self::Author)
    }

    /// Returns the reason in the start of a SKILL.md, if there is one. The start must contain
    /// the whole frontmatter.
    pub fn in_start(start: &str) -> Option<Self> {
        let fault = EncodingFault::of_start(start.as_bytes());
        fault
            .map(Self::Encoding)
            .or_else(|| Self::in_frontmatter(&frontmatter::read(start).frontmatter))
    }
}

impl fmt::Display for Unlisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Author => f.write_str("its author hides it from models"),
            Self::Encoding(fault) => fault.fmt(f),
        }
    }
}
