//! Skills: folders that are found, read and held against the specification.
//! Nothing here knows tools.

pub(crate) mod catalog;
pub mod check;
pub(crate) mod descriptors;
pub(crate) mod entries;
pub mod frontmatter;
pub(crate) mod guard;
pub(crate) mod neighbours;
pub(crate) mod paragraph;
pub mod prompt;
pub(crate) mod search;
pub(crate) mod skill_md;
