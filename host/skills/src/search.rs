//! The interface of an index of skills: its queries and results.
//!
//! The index is in a separate crate, so that an embedder can leave it out or use another one.

use std::sync::Arc;

use crate::catalog::Catalog;

/// An index that finds the skills for a query in plain words.
///
/// An index may be older than the files. Before the host answers, it reads each found skill again,
/// and drops skills that no longer exist.
pub trait SkillIndex: Send + Sync {
    /// Sets the storage in which the index can save itself for the next process.
    ///
    /// A host with a cache calls this before the first update. The default implementation
    /// does not use the storage.
    fn set_storage(&self, storage: Arc<dyn IndexStorage>) {
        let _ = storage;
    }

    /// Reads the skills of this catalog on a thread of the index. Returns at once.
    ///
    /// The first call reads all skills, and later calls read those that have changed.
    fn update(&self, catalog: &Arc<Catalog>);

    /// Returns the skills that match best, best first. Does not wait for the disk.
    ///
    /// Returns at most `limit` skills, and only skills that `allowed` accepts. Other skills
    /// must not affect the result: neither its coverage, nor which words count as rare or
    /// unknown.
    ///
    /// Returns soon if the work of the calling thread is
    /// [abandoned](crate::blocking::is_abandoned). The result may then be incomplete, because the
    /// caller drops it.
    fn search(&self, query: &str, limit: usize, allowed: &dyn Fn(&str) -> bool) -> SearchResult;
}

/// A storage that keeps an index from one process to the next.
pub trait IndexStorage: Send + Sync {
    /// Returns the bytes that were saved last, or `None` if they are missing or damaged.
    fn load(&self) -> Option<Vec<u8>>;

    /// Replaces the saved bytes. An error is only logged, because the next process can read
    /// the skills again.
    fn save(&self, index: Vec<u8>);
}

/// The condition for offering `find_skills` to agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SearchOffer {
    /// Offered when the skills do not fit the budget of a prompt.
    #[default]
    Auto,
    /// Always offered.
    Always,
    /// Never offered. The index is not used.
    Never,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// The skills that match, best first.
    pub hits: Vec<SearchHit>,
    /// The part of the skills' text that was searched.
    pub coverage: Coverage,
}

/// A skill that matches a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The skill's name.
    pub name: String,
    /// The words and headings of the skill that match, best first.
    pub matches: Vec<String>,
}

/// The part of the skills' text that a search covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Coverage {
    /// No text, because the index has not read the descriptions yet.
    #[default]
    Nothing,
    /// Names and descriptions, because the index has not read all bodies yet.
    Descriptions,
    /// Names, descriptions and bodies, up to the limits of the index.
    All,
}
