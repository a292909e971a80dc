//! The cache of skill names. A root is listed again only if its folder has changed, because
//! reading the time of the last change is faster than reading ten thousand entries.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::freshness::{Freshness, MAX_AGE, SearchPause, is_recent};
use super::tree::TreeNames;
use crate::blocking;
use crate::guard::Folder;

/// The maximum number of cached names. Guards against: a root with millions of folders.
const MAX_CACHED: usize = 100_000;

/// The number of seconds within which two changes of a folder can get the same time.
const SAME_TIME: u64 = 2;

/// The names of a root's skills.
#[derive(Debug, Clone)]
pub(super) enum RootNames {
    Listed(Arc<Vec<String>>),
    Searched(Arc<TreeNames>),
}

impl RootNames {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Listed(one), Self::Listed(other)) => Arc::ptr_eq(one, other),
            (Self::Searched(one), Self::Searched(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    fn add_to(&self, names: &mut Vec<String>) {
        match self {
            Self::Listed(listed) => names.extend_from_slice(listed),
            Self::Searched(tree) => names.extend(tree.names().map(str::to_owned)),
        }
    }
}

/// The names from the last listing of a root's folder.
#[derive(Debug, Default)]
pub(super) struct FolderNames {
    listed: Mutex<Option<ListedNames>>,
    pause: Mutex<SearchPause>,
    /// Locked while a call with an unknown name lists the folder.
    refreshing: Mutex<()>,
}

#[derive(Debug)]
struct ListedNames {
    /// The first [`MAX_CACHED`] names.
    names: Arc<Vec<String>>,
    /// The stamp of the folder before the listing. `None` if `names` is incomplete.
    stamp: Option<Stamp>,
    /// True if the names cannot change while the stamp stays the same.
    is_settled: bool,
    start: Instant,
    took: Duration,
}

/// The times of a folder's last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: (i64, u32),
    changed: (i64, u32),
}

impl Stamp {
    fn of(folder: &Folder) -> Option<Self> {
        let status = folder.status().ok()?;
        Some(Self {
            modified: status.modified,
            changed: status.changed(),
        })
    }

    /// Returns whether every change after `now` changes the stamp.
    fn is_settled(self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH);
        let last = u64::try_from(self.modified.0.max(self.changed.0)).unwrap_or(u64::MAX);
        now.is_ok_and(|now| last.saturating_add(SAME_TIME) < now.as_secs())
    }
}

impl FolderNames {
    /// Returns the sorted names in a folder. `list` returns the names, and whether they depend
    /// on the folder alone.
    pub(super) fn get(
        &self,
        folder: &Folder,
        now: SystemTime,
        freshness: Freshness,
        list: impl FnOnce() -> (Vec<String>, bool),
    ) -> Arc<Vec<String>> {
        // Read before the listing, so that the next call notices a change during the listing.
        let stamp = Stamp::of(folder);
        let start = Instant::now();
        if let Some(cached) = &*lock(&self.listed)
            && cached.is_valid(freshness, stamp)
        {
            return Arc::clone(&cached.names);
        }
        let is_settled = stamp.is_some_and(|stamp| stamp.is_settled(now));
        let (mut names, folder_only) = list();
        names.sort_unstable();
        let names = Arc::new(names);
        let took = start.elapsed();
        lock(&self.pause).begin(took);
        if blocking::is_abandoned() {
            return names;
        }
        let is_small = names.len() <= MAX_CACHED;
        *lock(&self.listed) = Some(ListedNames {
            names: if is_small {
                Arc::clone(&names)
            } else {
                Arc::new(names[..MAX_CACHED].to_vec())
            },
            stamp: stamp.filter(|_| is_small),
            is_settled: is_settled && folder_only,
            start,
            took,
        });
        names
    }

    /// Returns whether [`refresh`](Self::refresh) would list the names. This is fast.
    pub(super) fn is_refresh_due(&self, folder: &Folder) -> bool {
        lock(&self.pause).is_over() && {
            let stamp = Stamp::of(folder);
            let listed = lock(&self.listed);
            let listed = listed.as_ref();
            !listed.is_some_and(|cached| cached.is_valid(Freshness::Recent, stamp))
        }
    }

    /// Lists the names for a call that did not find its skill, unless a listing has just ended
    /// or was stopped, or another such call is listing them.
    pub(super) fn refresh(
        &self,
        folder: &Folder,
        now: SystemTime,
        list: impl FnOnce() -> (Vec<String>, bool),
    ) {
        if let Ok(_turn) = self.refreshing.try_lock()
            && lock(&self.pause).is_over()
        {
            self.get(folder, now, Freshness::Recent, list);
        }
    }
}

impl ListedNames {
    /// Returns whether the names are fresh enough, given the folder's current stamp.
    fn is_valid(&self, freshness: Freshness, stamp: Option<Stamp>) -> bool {
        let age = self.start.elapsed();
        let is_unchanged = stamp.is_some() && self.stamp == stamp;
        match freshness {
            Freshness::Known => true,
            _ if self.is_settled => is_unchanged && age < MAX_AGE,
            Freshness::Recent => is_unchanged && is_recent(age, self.took),
            Freshness::Now => false,
        }
    }
}

/// The combined names of all roots, from the last request.
#[derive(Debug, Default)]
pub(super) struct CatalogNames(Mutex<Option<MergedNames>>);

#[derive(Debug)]
struct MergedNames {
    roots: Vec<RootNames>,
    names: Arc<Vec<String>>,
}

impl CatalogNames {
    /// Returns the combined names of roots, sorted.
    pub(super) fn merge(&self, roots: Vec<RootNames>) -> Arc<Vec<String>> {
        if let [RootNames::Listed(names)] = roots.as_slice() {
            return Arc::clone(names);
        }
        if let Some(merged) = &*lock(&self.0)
            && merged
                .roots
                .iter()
                .zip(&roots)
                .all(|(one, other)| one.is_same(other))
        {
            return Arc::clone(&merged.names);
        }
        let mut names = Vec::new();
        for root in &roots {
            root.add_to(&mut names);
        }
        names.sort_unstable();
        names.dedup();
        let names = Arc::new(names);
        *lock(&self.0) = (names.len() <= MAX_CACHED).then(|| MergedNames {
            roots,
            names: Arc::clone(&names),
        });
        names
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|broken| broken.into_inner())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;
    use crate::catalog::{Catalog, SkillsRoot};

    fn root(place: &Path, depth: usize) -> Catalog {
        let root = SkillsRoot {
            follow_links: true,
            depth,
            ..SkillsRoot::new(place)
        };
        Catalog::open(&[root], None).unwrap()
    }

    #[test]
    fn stamp_is_settled_after_a_few_seconds() {
        let at = |seconds| UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 900);
        for (modified, changed) in [(100, 90), (90, 100)] {
            let stamp = Stamp {
                modified: (modified, 0),
                changed: (changed, 0),
            };
            assert!(!stamp.is_settled(at(90)));
            assert!(!stamp.is_settled(at(100 + SAME_TIME)));
            assert!(stamp.is_settled(at(101 + SAME_TIME)));
        }
    }

    #[test]
    fn next_names_show_changes_of_a_root() {
        let place = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let skill = |name: &str| {
            fs::create_dir(place.path().join(name)).unwrap();
            fs::write(place.path().join(name).join("SKILL.md"), "x").unwrap();
        };
        for depth in [1, 2] {
            let catalog = root(place.path(), depth);
            for number in 0..50 {
                let name = format!("{depth}-{number:02}");
                skill(&name);
                assert_eq!(catalog.names().last(), Some(&name));
                fs::rename(place.path().join(&name), other.path().join(&name)).unwrap();
                assert_ne!(catalog.names().last(), Some(&name));
            }
        }
    }

    #[tokio::test]
    async fn abandoned_work_caches_no_names() {
        let place = tempfile::tempdir().unwrap();
        let catalog = Arc::new(root(place.path(), 1));
        let names = Arc::new(FolderNames::default());
        let get = |listed: &'static str| {
            let (catalog, names) = (Arc::clone(&catalog), Arc::clone(&names));
            let later = SystemTime::now() + 2 * Duration::from_secs(SAME_TIME);
            move || {
                let folder = &catalog.roots[0].base.folder;
                let list = || (vec![listed.to_owned()], true);
                names.get(folder, later, Freshness::Now, list)
            }
        };
        assert_eq!(
            *blocking::run_abandoned(get("incomplete")).await,
            ["incomplete"]
        );
        assert_eq!(*get("whole")(), ["whole"]);
        assert_eq!(*get("cached")(), ["whole"]);
    }

    #[test]
    fn lists_a_changed_or_changing_folder_again() {
        let place = tempfile::tempdir().unwrap();
        let (names, folder) = (FolderNames::default(), root(place.path(), 1));
        let folder = &folder.roots[0].base.folder;
        let lists_again = |now, freshness, folder_only| {
            let mut listed = false;
            names.get(folder, now, freshness, || {
                listed = true;
                (Vec::new(), folder_only)
            });
            listed
        };
        // Sets the age of the listing, and its duration to a second.
        let set_age = |age: Duration| {
            let mut cached = lock(&names.listed);
            let cached = cached.as_mut().unwrap();
            (cached.start, cached.took) = (Instant::now().checked_sub(age).unwrap(), MAX_AGE);
        };
        let now = SystemTime::now();
        let later = now + Duration::from_secs(3600);
        assert!(lists_again(now, Freshness::Now, true));
        set_age(Duration::ZERO);
        assert!(!lists_again(now, Freshness::Recent, true));
        // Created just now: another change may have the same time.
        assert!(lists_again(now, Freshness::Now, true));
        set_age(Duration::ZERO);
        fs::create_dir(place.path().join("tea")).unwrap();
        assert!(lists_again(later, Freshness::Recent, true));
        set_age(MAX_AGE / 2);
        assert!(!lists_again(later, Freshness::Now, true));
        set_age(MAX_AGE);
        assert!(lists_again(later, Freshness::Recent, false));
        set_age(Duration::ZERO);
        // The targets of links can change while the folder stays the same.
        assert!(!lists_again(later, Freshness::Recent, false));
        assert!(lists_again(later, Freshness::Now, false));
        set_age(MAX_AGE);
        assert!(lists_again(later, Freshness::Recent, false));
    }

    #[test]
    fn known_names_are_those_of_the_last_listing() {
        let place = tempfile::tempdir().unwrap();
        let (names, folder) = (FolderNames::default(), root(place.path(), 1));
        let folder = &folder.roots[0].base.folder;
        let get = |freshness, count: usize| {
            let list = || ((0..count).map(|number| number.to_string()).collect(), true);
            names.get(folder, SystemTime::now(), freshness, list).len()
        };
        assert_eq!(get(Freshness::Known, 1), 1);
        fs::create_dir(place.path().join("tea")).unwrap();
        assert_eq!(get(Freshness::Known, 2), 1);
        assert_eq!(get(Freshness::Now, 2), 2);
        // Only the first `MAX_CACHED` names are cached.
        assert_eq!(get(Freshness::Now, MAX_CACHED + 1), MAX_CACHED + 1);
        assert_eq!(get(Freshness::Known, 1), MAX_CACHED);
        assert_eq!(get(Freshness::Recent, 1), 1);
    }

    #[test]
    fn lists_a_folder_again_after_the_pause() {
        let place = tempfile::tempdir().unwrap();
        let catalog = root(place.path(), 1);
        let names = &catalog.roots[0].listed;
        let known = || catalog.shared_names(Freshness::Known).len();
        assert_eq!(known(), 0);
        fs::create_dir(place.path().join("tea")).unwrap();
        lock(&names.listed).as_mut().unwrap().took = Duration::ZERO;
        lock(&names.pause).end = Instant::now() + Duration::from_secs(3600);
        assert!(!catalog.roots[0].refresh());
        assert_eq!(known(), 0);
        lock(&names.pause).end = Instant::now();
        let turn = lock(&names.refreshing);
        assert!(!catalog.roots[0].refresh());
        assert_eq!(known(), 0);
        drop(turn);
        assert!(!catalog.roots[0].refresh());
        assert_eq!(known(), 1);
    }

    #[tokio::test]
    async fn stopped_listing_begins_a_pause() {
        let place = tempfile::tempdir().unwrap();
        let catalog = root(place.path(), 1);
        let names = Arc::new(FolderNames::default());
        let refreshed = Arc::clone(&names);
        let stopped = blocking::run_abandoned(move || {
            let start = Instant::now();
            let folder = &catalog.roots[0].base.folder;
            refreshed.refresh(folder, SystemTime::now(), || (Vec::new(), true));
            start
        });
        let start = stopped.await;
        assert!(lock(&names.listed).is_none());
        assert!(lock(&names.pause).end > start);
    }

    #[test]
    fn next_names_show_changed_targets_of_links() {
        let place = tempfile::tempdir().unwrap();
        let target = tempfile::tempdir().unwrap();
        symlink(target.path().join("tea"), place.path().join("tea")).unwrap();
        let catalog = root(place.path(), 1);
        // Late enough for the root to be settled.
        let later = SystemTime::now() + Duration::from_secs(3600);
        let names = || {
            let listed = catalog.roots[0].names_at(Freshness::Now, later);
            catalog.names.merge(vec![listed])
        };
        assert!(names().is_empty());
        fs::create_dir(target.path().join("tea")).unwrap();
        assert_eq!(*names(), ["tea"]);
    }

    #[test]
    fn names_of_several_roots_are_sorted_and_unique() {
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for (place, names) in places.iter().zip([["c", "a"], ["b", "a"]]) {
            for name in names {
                fs::create_dir(place.path().join(name)).unwrap();
            }
        }
        let roots = places.each_ref().map(|place| SkillsRoot::new(place.path()));
        let catalog = Catalog::open(&roots, None).unwrap();
        for _ in 0..2 {
            assert_eq!(catalog.names(), ["a", "b", "c"]);
        }
        fs::remove_dir(places[1].path().join("b")).unwrap();
        assert_eq!(catalog.names(), ["a", "c"]);
    }
}
