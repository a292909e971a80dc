//! The interface of an index of skills. The index itself is the crate `skillhost-index`, so
//! that an embedder can omit it or use another.

use std::sync::Arc;

use crate::catalog::Catalog;

/// An index that finds skills for a request in plain words.
///
/// An index may be outdated. The host reads each skill that it finds again, and drops
/// removed ones.
pub trait SkillIndex: Send + Sync {
    /// Sets a storage where the index may save itself for the next process. A host with a
    /// cache calls this before the first update. The default implementation ignores it.
    fn keep_in(&self, storage: Arc<dyn IndexStorage>) {
        let _ = storage;
    }

    /// Starts reading the skills of a catalog on the index's own thread: all skills at the
    /// first call, changed ones later. Returns at once.
    fn update(&self, catalog: &Arc<Catalog>);

    /// Returns the best matching skills, best first: at most `limit`, and only those that
    /// `allowed` accepts. Other skills must not influence the answer, not even by which
    /// words are rare or unknown. Does not wait for the disk.
    fn search(&self, query: &str, limit: usize, allowed: &dyn Fn(&str) -> bool) -> SearchResult;
}

/// A storage for an index between processes.
pub trait IndexStorage: Send + Sync {
    /// Returns the last saved index, unless it is missing or damaged.
    fn load(&self) -> Option<Vec<u8>>;

    /// Replaces the saved index. Errors are only logged, because the next process can read
    /// the skills.
    fn save(&self, index: Vec<u8>);
}

/// The condition for offering `find_skills`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SearchOffer {
    /// If the skills exceed the budget of a prompt.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never; the index is not used.
    Never,
}

/// The answer to a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// The matching skills, best first.
    pub hits: Vec<SearchHit>,
    /// The part of the skills' text that was searched.
    pub coverage: Coverage,
}

/// A skill that matches a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The skill's name.
    pub name: String,
    /// The matching words and headings of the skill, best first.
    pub matches: Vec<String>,
}

/// The part of the skills' text that a search covered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Coverage {
    /// Nothing, because the index has not read the names yet.
    #[default]
    Nothing,
    /// Names and descriptions, while the bodies are still being read.
    Descriptions,
    /// Names, descriptions and bodies, up to the index's bounds.
    All,
}
