//! The index as bytes, for the next process. Not here: where they are kept, which is the
//! host's.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use skillhost::{DocumentStamp, IndexStorage};

use crate::Shared;
use crate::fields::{FieldReader, Part};
use crate::store::{IndexedSkill, Store};

/// The version of the bytes' format.
const FORMAT: u32 = 1;

/// The changed skills that are worth saving: with fewer, the next process is as fast.
const MANY: usize = 100;

/// A skill with each kind of text, to notice another reading of skills.
const SAMPLE: &str = "---
description: Draws Straßen, 道路 and 길; see running_cars.
kind: maps
---
# Heading of Roads

Prose on `maps` in the evenings.
";

/// The place where the index is kept, and what is to do there.
#[derive(Default)]
pub(crate) struct Storage {
    place: Option<Arc<dyn IndexStorage>>,
    is_loaded: bool,
    /// The skills that were read since the index was saved.
    unsaved: usize,
}

/// An index as it is saved.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    reading: u64,
    skills: Vec<IndexedSkill>,
    /// The terms with the bytes of their postings.
    #[serde(borrow)]
    terms: Vec<(&'a str, &'a [u8])>,
}

impl Storage {
    pub(crate) fn keep_in(&mut self, place: Arc<dyn IndexStorage>) {
        self.place = Some(place);
    }
}

impl Shared {
    pub(crate) fn storage(&self) -> MutexGuard<'_, Storage> {
        self.storage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with the skills that an earlier process has read, once. They may have changed.
    pub(crate) fn load(&self) {
        let mut storage = self.storage();
        if std::mem::replace(&mut storage.is_loaded, true) {
            return;
        }
        let bytes = storage.place.as_ref().and_then(|place| place.load());
        let Some(bytes) = bytes else { return };
        match read(&bytes, self.room.skills) {
            Some(store) => {
                tracing::debug!(
                    skills = store.len(),
                    "the index begins with those in the cache"
                );
                self.write().store = store;
            }
            None => tracing::debug!("the index in the cache is of another version, or damaged"),
        }
    }

    /// Notes that a skill was read.
    pub(crate) fn note_read(&self) {
        self.storage().unsaved += 1;
    }

    /// Saves the index if that spares the next process much reading.
    pub(crate) fn save(&self, now: SystemTime) {
        let mut storage = self.storage();
        let Some(place) = storage.place.clone() else {
            return;
        };
        if storage.unsaved <= MANY {
            return;
        }
        storage.unsaved = 0;
        drop(storage);
        self.write().store.compact();
        let bytes = write(&self.read().store, now);
        match bytes {
            Ok(bytes) => place.save(bytes),
            Err(error) => tracing::warn!("cannot save the index: {error}"),
        }
    }
}

/// Returns the bytes of a store that has just been compacted.
fn write(store: &Store, now: SystemTime) -> postcard::Result<Vec<u8>> {
    let skills = store.skills().cloned().map(|skill| IndexedSkill {
        stamp: skill.stamp.map(|stamp| match stamp.is_settled(now) {
            true => stamp,
            false => DocumentStamp::UNKNOWN,
        }),
        ..skill
    });
    postcard::to_stdvec(&Stored {
        reading: reading(),
        skills: skills.collect(),
        terms: store
            .terms()
            .map(|(term, postings)| (term, postings.bytes()))
            .collect(),
    })
}

/// Returns the store of which these are the bytes. `None` if [`write()`] did not make them, or
/// this program reads skills in another way.
fn read(bytes: &[u8], most: usize) -> Option<Store> {
    let (stored, rest) = postcard::take_from_bytes::<Stored<'_>>(bytes).ok()?;
    if stored.reading != reading() || !rest.is_empty() {
        return None;
    }
    Store::restore(stored.skills, &stored.terms, most)
}

/// Returns a number for the way in which this program reads skills.
fn reading() -> u64 {
    let mut hasher = DefaultHasher::new();
    (FORMAT, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    let mut reader = FieldReader::new();
    let fields = reader.read("sample-skill", SAMPLE, Part::All);
    (fields.shown, fields.terms).hash(&mut hasher);
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
    use crate::update::update;

    const SKILLS: usize = MANY + 20;

    #[derive(Default)]
    struct Place(Mutex<Option<Vec<u8>>>);

    impl IndexStorage for Place {
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

    /// Returns an index that has loaded what is in a place, but has not looked at the disk.
    fn loaded(place: &Arc<Place>) -> MemoryIndex {
        let index = MemoryIndex::new();
        index.keep_in(Arc::clone(place) as _);
        index.shared.load();
        index
    }

    /// Returns the names of the skills that an update would read.
    fn changed(index: &MemoryIndex, catalog: &Catalog) -> Vec<String> {
        let content = index.shared.read();
        let is_same = |name: &String| {
            let stamp = catalog.document_stamp(name).unwrap();
            content.store.get(name).is_some_and(|it| it.stamp == stamp)
        };
        let mut names = catalog.names();
        names.retain(|name| !is_same(name));
        names
    }

    #[test]
    fn reads_only_skills_that_changed_since_another_process() {
        let root = tempfile::tempdir().unwrap();
        write_many(root.path());
        let catalog = open(root.path());
        let place = Arc::<Place>::default();
        let first = MemoryIndex::build_now(&catalog);
        first.keep_in(Arc::clone(&place) as _);
        first.shared.save(one_minute_later());

        let second = loaded(&place);
        assert_eq!(changed(&second, &catalog), [] as [&str; 0]);
        write_skill(root.path(), &name(5), "Bakes bread.", "");
        write_skill(root.path(), "newest", "Cooks soup.", "");
        std::fs::remove_dir_all(root.path().join(name(6))).unwrap();
        assert_eq!(changed(&second, &catalog), ["newest", &name(5)]);

        assert!(update(&second.shared, &catalog, &|| false));
        let expected = MemoryIndex::build_now(&catalog);
        for request in [
            "bread", "soup", "drink5", "drink6", "drinc7", "samovars", "hot", "leaf",
        ] {
            let [found, expected] =
                [&second, &expected].map(|it| it.search(request, 99, &|_| true));
            assert_eq!(found, expected, "{request}");
        }
        assert_eq!(second.report().skills, SKILLS);
    }

    #[test]
    fn reads_skills_again_that_had_just_changed() {
        let root = tempfile::tempdir().unwrap();
        write_many(root.path());
        let catalog = open(root.path());
        let place = Arc::<Place>::default();
        let index = MemoryIndex::new();
        index.keep_in(Arc::clone(&place) as _);
        assert!(update(&index.shared, &catalog, &|| false));
        assert_eq!(changed(&loaded(&place), &catalog).len(), SKILLS);
        // A skill whose SKILL.md was removed or became unreadable is read again too.
        let file = |number: usize| root.path().join(name(number)).join("SKILL.md");
        std::fs::remove_file(file(3)).unwrap();
        std::fs::hard_link(file(4), root.path().join("link")).unwrap();
        let second = loaded(&place);
        assert!(update(&second.shared, &catalog, &|| false));
        for request in ["drink3", "drink4", "drink5"] {
            let found = second.search(request, 9, &|_| true);
            let expected = MemoryIndex::build_now(&catalog).search(request, 9, &|_| true);
            assert_eq!(found, expected, "{request}");
        }
    }

    #[test]
    fn saves_only_what_spares_much_reading() {
        let root = tempfile::tempdir().unwrap();
        write_many(root.path());
        let catalog = open(root.path());
        let place = Arc::<Place>::default();
        let index = MemoryIndex::new();
        index.keep_in(Arc::clone(&place) as _);
        for (changes, is_saved) in [(SKILLS, true), (MANY / 2, false), (MANY / 2 + 1, true)] {
            for number in 0..changes {
                write_skill(
                    root.path(),
                    &name(number),
                    "Brews coffee.",
                    &"x".repeat(changes),
                );
            }
            assert!(update(&index.shared, &catalog, &|| false));
            let saved = place.0.lock().unwrap().take();
            assert_eq!(saved.is_some(), is_saved, "{changes}");
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_another_index() {
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
        let bytes = write(&index.shared.read().store, one_minute_later()).unwrap();
        let most = index.shared.room.skills;
        assert!(read(&bytes, most).is_some());
        assert!(read(&bytes, 100).is_none(), "more memory than there is");
        assert!(read(&[&bytes[..], &[0]].concat(), most).is_none());
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length], most).is_none(), "{length}");
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let Some(store) = read(&damaged, most) else {
                    continue;
                };
                for request in ["tea", "samovars", "lief", "skill"] {
                    let skills = AllowedSkills::new(&store, &|_| true);
                    let found = crate::rank::search(&skills, request, 9);
                    assert!(found.len() <= 3, "{at}: {value}");
                }
            }
        }
    }
}
