//! Saves the index for the next process, and loads it.
//!
//! The host decides where the bytes are stored.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use skillhost::IndexStorage;

use crate::Shared;
use crate::fields::{DocumentPart, FieldReader};
use crate::store::{IndexedSkill, Store};

/// The version of the format.
const FORMAT_VERSION: u32 = 2;

/// The maximum number of unsaved skills. The next process reads these again. The index is saved
/// when there are more.
const MAX_UNSAVED: usize = 100;

/// A skill with each kind of text. Its terms show whether this program reads skills in the same
/// way as the program that saved an index.
const SAMPLE: &str = "---
description: Draws Straßen, 道路 and 길; see running_cars.
kind: maps
---
# Heading of Roads

Prose on `maps` in the evenings.
";

/// The storage of the index, if it has one, and the state of the saved index.
#[derive(Default)]
pub(crate) struct SavedIndex {
    storage: Option<Arc<dyn IndexStorage>>,
    is_loaded: bool,
    /// The number of skills that were read since the index was saved.
    unsaved: usize,
}

/// The saved form of an index.
#[derive(Serialize, Deserialize)]
struct SerializedIndex<'a> {
    reader_fingerprint: u64,
    skills: Vec<IndexedSkill>,
    /// The terms, each with the bytes of its postings.
    #[serde(borrow)]
    terms: Vec<(&'a str, &'a [u8])>,
}

impl SavedIndex {
    pub(crate) fn set_storage(&mut self, storage: Arc<dyn IndexStorage>) {
        self.storage = Some(storage);
    }
}

impl Shared {
    pub(crate) fn saved_index(&self) -> MutexGuard<'_, SavedIndex> {
        let saved_index = self.saved_index.lock();
        saved_index.unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the skills that an earlier process has saved, in the first call only. The skills
    /// may have changed since.
    pub(crate) fn load(&self) {
        let mut saved_index = self.saved_index();
        if std::mem::replace(&mut saved_index.is_loaded, true) {
            return;
        }
        let storage = saved_index.storage.as_ref();
        let Some(bytes) = storage.and_then(|storage| storage.load()) else {
            return;
        };
        match deserialize(&bytes, self.limits.with_changes()) {
            Some(store) => {
                tracing::debug!(skills = store.len(), "loaded the index from the cache");
                self.write().store = store;
            }
            None => tracing::debug!(
                "ignoring the index in the cache: it is damaged or of another version"
            ),
        }
    }

    /// Counts a skill that was read and not saved yet.
    pub(crate) fn count_unsaved(&self) {
        self.saved_index().unsaved += 1;
    }

    /// Saves the index if more than [`MAX_UNSAVED`] skills are not saved yet.
    pub(crate) fn save(&self, now: SystemTime) {
        let mut saved_index = self.saved_index();
        let Some(storage) = saved_index.storage.clone() else {
            return;
        };
        if saved_index.unsaved <= MAX_UNSAVED {
            return;
        }
        saved_index.unsaved = 0;
        drop(saved_index);
        self.write().store.compact();
        let bytes = serialize(&self.read().store, now);
        match bytes {
            Ok(bytes) => storage.save(bytes),
            Err(error) => tracing::warn!("cannot save the index: {error}"),
        }
    }
}

/// Serializes a store that has just been compacted.
///
/// A skill that changed a moment before `now` gets no stamp, as if it had no SKILL.md, so that the next
/// process reads it again.
fn serialize(store: &Store, now: SystemTime) -> postcard::Result<Vec<u8>> {
    let skills = store.skills().cloned().map(|skill| IndexedSkill {
        stamp: skill.stamp.filter(|stamp| stamp.is_settled(now)),
        ..skill
    });
    postcard::to_stdvec(&SerializedIndex {
        reader_fingerprint: reader_fingerprint(),
        skills: skills.collect(),
        terms: store
            .terms()
            .map(|(term, postings)| (term, postings.bytes()))
            .collect(),
    })
}

/// Reads a store from the bytes of [`serialize`].
///
/// Returns `None` if the bytes are damaged, if a program that reads skills differently has
/// saved them, or if the store has more than `max_bytes`.
fn deserialize(bytes: &[u8], max_bytes: usize) -> Option<Store> {
    let (index, rest) = postcard::take_from_bytes::<SerializedIndex<'_>>(bytes).ok()?;
    if index.reader_fingerprint != reader_fingerprint() || !rest.is_empty() {
        return None;
    }
    Store::restore(index.skills, &index.terms, max_bytes)
}

/// Returns a hash that changes when this program reads skills differently.
fn reader_fingerprint() -> u64 {
    let mut hasher = DefaultHasher::new();
    (FORMAT_VERSION, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    let mut reader = FieldReader::new();
    let fields = reader.read("sample-skill", SAMPLE, DocumentPart::All);
    (fields.display_text, fields.terms).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;
    use std::time::Duration;

    use skillhost::{Catalog, SkillIndex as _};

    use super::*;
    use crate::MemoryIndex;
    use crate::allowed::AllowedSkills;
    use crate::tests::{open, write_skill};
    use crate::update::{IndexLimits, update};

    const SKILLS: usize = MAX_UNSAVED + 20;

    /// A storage in memory.
    #[derive(Default)]
    struct MemoryStorage(Mutex<Option<Vec<u8>>>);

    impl IndexStorage for MemoryStorage {
        fn load(&self) -> Option<Vec<u8>> {
            self.0.lock().unwrap().clone()
        }

        fn save(&self, index: Vec<u8>) {
            *self.0.lock().unwrap() = Some(index);
        }
    }

    fn name(number: usize) -> String {
        format!("skill-{number}")
    }

    fn write_many(root: &Path) {
        for number in 0..SKILLS {
            let description = format!("Brews drink{number} of leaves.");
            let body = format!("# Samovar {}\n\nHot water.\n", number % 7);
            write_skill(root, &name(number), &description, &body);
        }
    }

    fn one_minute_later() -> SystemTime {
        SystemTime::now() + Duration::from_secs(60)
    }

    /// Returns an index that is loaded from a storage, and has not read the disk yet.
    fn loaded(storage: &Arc<MemoryStorage>) -> MemoryIndex {
        let index = MemoryIndex::new();
        index.set_storage(Arc::clone(storage) as _);
        index.shared.load();
        index
    }

    /// Returns the names of the skills that an update would read.
    fn changed(index: &MemoryIndex, catalog: &Catalog) -> Vec<String> {
        let content = index.shared.read();
        let is_current = |name: &String| {
            let stamp = catalog.document_stamp(name).unwrap();
            let skill = content.store.get(name);
            skill.is_some_and(|skill| skill.stamp == stamp)
        };
        let mut names = catalog.names();
        names.retain(|name| !is_current(name));
        names
    }

    #[test]
    fn reads_only_skills_changed_since_the_last_process() {
        let root = tempfile::tempdir().unwrap();
        write_many(root.path());
        let catalog = open(root.path());
        let storage = Arc::<MemoryStorage>::default();
        let first = MemoryIndex::build_now(&catalog);
        first.set_storage(Arc::clone(&storage) as _);
        first.shared.save(one_minute_later());

        let second = loaded(&storage);
        assert_eq!(changed(&second, &catalog), [] as [&str; 0]);
        write_skill(root.path(), &name(5), "Bakes bread.", "");
        write_skill(root.path(), "newest", "Cooks soup.", "");
        std::fs::remove_dir_all(root.path().join(name(6))).unwrap();
        assert_eq!(changed(&second, &catalog), ["newest", &name(5)]);

        assert!(update(&second.shared, &catalog, &|| false));
        let expected = MemoryIndex::build_now(&catalog);
        for query in [
            "bread", "soup", "drink5", "drink6", "drinc7", "samovars", "hot", "leaf",
        ] {
            let [result, expected] =
                [&second, &expected].map(|index| index.search(query, 99, &|_| true));
            assert_eq!(result, expected, "{query}");
        }
        assert_eq!(second.report().skills, SKILLS);
    }

    #[test]
    fn loads_a_full_index_with_changed_skills() {
        let root = tempfile::tempdir().unwrap();
        write_many(root.path());
        let storage = Arc::<MemoryStorage>::default();
        let saved = MemoryIndex::build_now(&open(root.path()));
        saved.set_storage(Arc::clone(&storage) as _);
        saved.shared.save(one_minute_later());
        let bytes = saved.shared.read().store.bytes();
        for (limit, skills) in [
            (bytes, SKILLS),
            (bytes - bytes / 16, SKILLS),
            (bytes / 2, 0),
        ] {
            let limits = IndexLimits {
                bodies: limit,
                skills: limit,
            };
            let index = MemoryIndex {
                shared: Arc::new(Shared {
                    limits,
                    ..Shared::default()
                }),
                ..MemoryIndex::new()
            };
            index.set_storage(Arc::clone(&storage) as _);
            index.shared.load();
            assert_eq!(
                index.shared.read().store.len(),
                skills,
                "{limit} of {bytes}"
            );
        }
    }

    #[test]
    fn reads_recently_changed_skills_again() {
        let root = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        write_many(root.path());
        let catalog = open(root.path());
        let storage = Arc::<MemoryStorage>::default();
        let index = MemoryIndex::build_now(&catalog);
        index.set_storage(Arc::clone(&storage) as _);
        // As if writing and reading had taken a second at most.
        index.shared.save(now + Duration::from_secs(1));
        assert_eq!(changed(&loaded(&storage), &catalog).len(), SKILLS);
        // A skill is also read again if its SKILL.md was removed or became unreadable.
        let file = |number: usize| root.path().join(name(number)).join("SKILL.md");
        std::fs::remove_file(file(3)).unwrap();
        std::fs::hard_link(file(4), root.path().join("link")).unwrap();
        let second = loaded(&storage);
        assert!(update(&second.shared, &catalog, &|| false));
        for query in ["drink3", "drink4", "drink5"] {
            let result = second.search(query, 9, &|_| true);
            let expected = MemoryIndex::build_now(&catalog).search(query, 9, &|_| true);
            assert_eq!(result, expected, "{query}");
        }
    }

    #[test]
    fn saves_only_after_many_changes() {
        let root = tempfile::tempdir().unwrap();
        write_many(root.path());
        let catalog = open(root.path());
        let storage = Arc::<MemoryStorage>::default();
        let index = MemoryIndex::new();
        index.set_storage(Arc::clone(&storage) as _);
        for (changes, is_saved) in [
            (SKILLS, true),
            (MAX_UNSAVED / 2, false),
            (MAX_UNSAVED / 2 + 1, true),
        ] {
            for number in 0..changes {
                write_skill(
                    root.path(),
                    &name(number),
                    "Brews coffee.",
                    &"x".repeat(changes),
                );
            }
            assert!(update(&index.shared, &catalog, &|| false));
            let saved = storage.0.lock().unwrap().take();
            assert_eq!(saved.is_some(), is_saved, "{changes}");
        }
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..3 {
            write_skill(
                root.path(),
                &name(number),
                "Brews tea of leaves.",
                "# Samovar\n",
            );
        }
        let index = MemoryIndex::build_now(&open(root.path()));
        index.shared.write().store.compact();
        let bytes = serialize(&index.shared.read().store, one_minute_later()).unwrap();
        let max_bytes = index.shared.limits.skills;
        assert!(deserialize(&bytes, max_bytes).is_some());
        assert!(deserialize(&bytes, 100).is_none(), "too large");
        assert!(deserialize(&[&bytes[..], &[0]].concat(), max_bytes).is_none());
        for length in 0..bytes.len() {
            assert!(
                deserialize(&bytes[..length], max_bytes).is_none(),
                "{length}"
            );
        }
        for position in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[position] = value;
                let Some(store) = deserialize(&damaged, max_bytes) else {
                    continue;
                };
                let skills = AllowedSkills::new(&store, &|_| true);
                for query in ["tea", "samovars", "lief", "skill"] {
                    let hits = crate::rank::search(&skills, query, 9);
                    assert!(hits.len() <= 3, "{position}: {value}");
                }
            }
        }
    }
}
