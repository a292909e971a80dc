//! An index of skills in memory. It finds the skills for a request in plain words.
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
//! let found = index.search("how much is a fifth of the price", 3, &|_| true);
//! assert_eq!(found.hits[0].name, "calculator");
//! # Ok(())
//! # }
//! ```
//!
//! A server makes one with [`MemoryIndex::new`] and calls [`SkillIndex::update`] at its
//! start and whenever a skill may have changed. The index reads names and descriptions
//! first, then the bodies, and later only files that have changed.
//!
//! # Ranking
//!
//! BM25F over name, description, headings and prose, in this order of weight. Words of
//! English are compared by their stems, text of scripts without blanks by pairs of
//! characters, and all without case, diacritics and hidden characters. A word that no
//! skill has stands for the most similar ones that some have. Only the skills that the
//! asker may see count in all this: others change nothing in an answer. `thesaurus.txt` adds the
//! terms of skills for the words of people, in English, Chinese, Japanese, German and a
//! few of other languages. They count together with the word for which they stand.
//!
//! # Between processes
//!
//! A host with a cache gives the index a place in it. An update that reads more than 100
//! skills saves the index there, and the next process begins with it: it looks at each
//! SKILL.md's size, times and inode, and reads those that differ.
//!
//! # Bounds
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | a SKILL.md | the first 128 KiB, 3,000 different terms | the rest is not searched |
//! | a description | 1,024 characters | the rest is not searched |
//! | the index | 56 MiB | the bodies of further skills are not searched |
//! | | 72 MiB | further skills are not found |
//! | a request | 4 KiB, 64 terms | the rest is not read |
//! | an answer | 100 skills | |
//!
//! [`MemoryIndex::report`] names the skills to which a bound applies, and the log has
//! their number.

mod text;

mod typo;

mod thesaurus;

mod fields;

mod store;

mod allowed;

mod request;

mod rank;

mod report;

mod storage;

mod update;

mod worker;

use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use skillhost::{Catalog, IndexStorage, SearchResult, SkillIndex};

pub use report::{IndexReport, SkillNames};

use allowed::AllowedSkills;
use storage::Storage;
use store::Store;
use update::Room;
use worker::Worker;

/// An index of skills in memory.
pub struct MemoryIndex {
    shared: Arc<Shared>,
    worker: Worker,
}

/// What searches and the index's own thread share.
#[derive(Default)]
struct Shared {
    content: RwLock<Content>,
    storage: Mutex<Storage>,
    room: Room,
}

/// The content of the index.
#[derive(Default)]
struct Content {
    store: Store,
    /// True once an update has read all names and descriptions.
    has_descriptions: bool,
    report: IndexReport,
}

impl MemoryIndex {
    /// Makes an empty index. Its thread starts with the first update.
    pub fn new() -> Self {
        Self {
            shared: Arc::default(),
            worker: Worker::default(),
        }
    }

    /// Makes an index and reads all skills of a catalog before it returns, for a process
    /// that searches once.
    pub fn build_now(catalog: &Catalog) -> Self {
        let index = Self::new();
        update::update(&index.shared, catalog, &|| false);
        index
    }

    /// Waits until the index has read the skills as they were at the last update, and
    /// reads them on this thread: that of the index has a low priority. Returns false if
    /// that takes longer than the timeout.
    pub fn wait_until_ready(&self, timeout: Duration) -> bool {
        self.worker.wait_until_idle(&self.shared, timeout)
    }

    /// Returns the number of skills, and what the bounds have left out.
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
    fn keep_in(&self, storage: Arc<dyn IndexStorage>) {
        self.shared.storage().keep_in(storage);
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
