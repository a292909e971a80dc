//! An index of skills in memory. It finds the skills for a query in plain words.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use skillhost::{Catalog, SkillIndex as _, SkillsRoot};
//! use skillhost_index::MemoryIndex;
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../skills");
//! let catalog = Arc::new(Catalog::open(&[SkillsRoot::new(path)], None)?);
//! let index = MemoryIndex::build_now(&catalog);
//! let result = index.search("how much is a fifth of the price", 3, &|_| true);
//! assert_eq!(result.hits[0].name, "calculator");
//! # Ok(())
//! # }
//! ```
//!
//! A server creates an index with [`MemoryIndex::new`]. It calls [`SkillIndex::update`] when
//! it starts and whenever a skill may have changed. An update reads only files that have
//! changed: first their names and descriptions, then their bodies.
//!
//! # Ranking
//!
//! The ranking is BM25F over name, description, headings and prose, in this order of
//! weight.
//!
//! - English words are compared by their stems, and text without blanks between words by
//!   pairs of characters. Case, diacritics and hidden characters are ignored.
//! - A word that no skill contains is replaced with the most similar words that skills contain.
//! - `thesaurus.txt` adds the terms that skills use for the words of a query, mainly in
//!   English, Chinese, Japanese and German. A word and its synonyms are scored together.
//! - Only skills that the caller may see affect an answer.
//!
//! # Between processes
//!
//! A host with a cache gives the index a storage. An update saves the index there after more
//! than 100 changes. The next process loads it, compares the size, times and inode of
//! each SKILL.md, and reads the files that differ.
//!
//! # Limits
//!
//! | what | limit | beyond the limit |
//! |---|---|---|
//! | a SKILL.md | the first 128 KiB, 3,000 different terms | the rest is not searched |
//! | a description | 1,024 characters | the rest is not searched |
//! | the index | 56 MiB | the bodies of further skills are not searched |
//! | | 72 MiB | further skills are not found |
//! | | 81 MiB | a changed skill that takes more than before is not found |
//! | a query | 4 KiB, 64 terms | the rest is not read |
//! | an answer | 100 skills | |
//!
//! [`MemoryIndex::report`] names skills that exceed a limit, and the log shows their
//! number.

mod text;

mod typo;

mod thesaurus;

mod fields;

mod store;

mod allowed;

mod query;

mod rank;

mod report;

mod storage;

mod update;

mod worker;

mod texts;

use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use skillhost::{Catalog, IndexStorage, SearchResult, SkillIndex};

pub use report::{IndexReport, SkillNames};
pub use texts::TextIndex;

use allowed::AllowedSkills;
use storage::SavedIndex;
use store::Store;
use update::IndexLimits;
use worker::Worker;

/// An index of skills in memory.
pub struct MemoryIndex {
    shared: Arc<Shared>,
    worker: Worker,
}

/// The state that searches share with the thread of the index.
#[derive(Default)]
struct Shared {
    content: RwLock<Content>,
    saved_index: Mutex<SavedIndex>,
    limits: IndexLimits,
}

/// The content that searches read.
#[derive(Default)]
struct Content {
    store: Store,
    /// True once an update has read all names and descriptions.
    has_descriptions: bool,
    report: IndexReport,
}

impl MemoryIndex {
    /// Creates an empty index. Its thread starts with the first update.
    pub fn new() -> Self {
        Self {
            shared: Arc::default(),
            worker: Worker::default(),
        }
    }

    /// Creates an index and reads all skills of a catalog before it returns.
    ///
    /// This suits a process that searches once.
    pub fn build_now(catalog: &Catalog) -> Self {
        let index = Self::new();
        update::update(&index.shared, catalog, &|| false);
        index
    }

    /// Waits until the index has read all skills as of the last call of
    /// [`SkillIndex::update`]. Returns `false` after the timeout.
    ///
    /// Does the remaining work on this thread, because the index's own thread has a low
    /// priority.
    pub fn wait_until_ready(&self, timeout: Duration) -> bool {
        self.worker.wait_until_idle(&self.shared, timeout)
    }

    /// Returns the size of the index, and the skills that it omits in whole or in part.
    pub fn report(&self) -> IndexReport {
        self.shared.read().report.clone()
    }
}

impl Default for MemoryIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for MemoryIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryIndex").finish_non_exhaustive()
    }
}

impl SkillIndex for MemoryIndex {
    fn set_storage(&self, storage: Arc<dyn IndexStorage>) {
        self.shared.saved_index().set_storage(storage);
    }

    fn update(&self, catalog: &Arc<Catalog>) {
        self.worker.update(&self.shared, catalog);
    }

    fn search(&self, query: &str, limit: usize, allowed: &dyn Fn(&str) -> bool) -> SearchResult {
        let content = self.shared.read();
        if !content.has_descriptions {
            return SearchResult::default();
        }
        let skills = AllowedSkills::new(&content.store, allowed);
        SearchResult {
            hits: rank::search(&skills, query, limit),
            coverage: skills.coverage(),
        }
    }
}

#[cfg(test)]
mod tests;
