//! The interface of an index of skills. Lives here: what an index is asked and what it
//! answers. Not here: the index, which is a crate of its own, so that an embedder can
//! leave it out or bring another.

use std::sync::Arc;

use crate::catalog::Catalog;

/// An index that finds the skills for a request in plain words.
///
/// An index may be behind the disk. The host reads each skill again before it answers
/// with it, and drops one that has gone.
pub trait SkillIndex: Send + Sync {
    /// Gives the index a place where it may keep itself for the next process. A host with a
    /// cache does so before the first update. By default the index does not use it.
    fn keep_in(&self, storage: Arc<dyn IndexStorage>) {
        let _ = storage;
    }

    /// Reads the skills of this catalog, on a thread of the index's own: all at the
    /// first call, and what has changed at later ones. Returns at once.
    fn update(&self, catalog: &Arc<Catalog>);

    /// Returns the skills that fit best, best first: at most `limit`, and only those
    /// that `allowed` accepts. Other skills change nothing in the answer, not even which
    /// words are rare or unknown, or the coverage. It does not wait for the disk.
    fn search(&self, query: &str, limit: usize, allowed: &dyn Fn(&str) -> bool) -> SearchResult;
}

/// A place where an index is kept from one process to the next.
pub trait IndexStorage: Send + Sync {
    /// Returns what was saved last, unless it is missing or damaged.
    fn load(&self) -> Option<Vec<u8>>;

    /// Replaces what was saved. An error is only logged: the next process reads the skills.
    fn save(&self, index: Vec<u8>);
}

/// When agents see `find_skills`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SearchOffer {
    /// When the skills do not fit the budget of a prompt.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never. The index is not used.
    Never,
}

/// The answer to a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// The skills that fit, best first.
    pub hits: Vec<SearchHit>,
    /// The part of the skills' text that was searched.
    pub coverage: Coverage,
}

/// A skill that fits a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The skill's name.
    pub name: String,
    /// The reasons: words and headings of the skill that match, best first.
    pub matches: Vec<String>,
}

/// The part of the skills' text that a search went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Coverage {
    /// No text yet: the index has not read the names.
    #[default]
    Nothing,
    /// Names and descriptions. The bodies are still being read.
    Descriptions,
    /// Names, descriptions and bodies, up to the index's bounds.
    All,
}
