//! The skills of a root with a depth of 2 or more. Caches their names and paths, and decides when
//! to search again. `tree/search.rs` has the search.
//!
//! Cached names are not trusted: a call opens the path step by step through the root's
//! handle. If the path does not exist, the tree is searched again.

mod search;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::Skill;
use super::freshness::{Freshness, SearchPause, is_recent};
use super::root_folder::RootFolder;
use crate::blocking;
use crate::text::count::count;
pub(super) use search::{Search, SearchBounds};

/// The maximum number of reported collisions. Guards against: 10,000 lines for the
/// operator.
const MAX_COLLISIONS: usize = 100;

/// The skills of a root with a depth of 2 or more.
#[derive(Debug)]
pub(super) struct SkillTree(Mutex<Searches>);

/// The searches of a tree, at most one at a time. Each serves all threads that wait for it.
#[derive(Debug)]
struct Searches {
    latest: LatestSearch,
    pause: SearchPause,
    /// The number of searches so far, including a running one.
    begun: u64,
    is_running: bool,
    /// The threads that wait for the running search to end, each with the number of the first
    /// search that serves it.
    waiting: Vec<(u64, Thread)>,
}

#[derive(Debug)]
struct LatestSearch {
    /// The number of the search, in the order in which searches began.
    number: u64,
    names: Arc<TreeNames>,
    ended: Instant,
    took: Duration,
}

/// The names of the skills in a tree, and their paths.
#[derive(Debug, Default)]
pub(super) struct TreeNames {
    paths: BTreeMap<String, Arc<str>>,
    /// The problems found by the search, for the operator.
    pub(super) problems: Vec<String>,
}

impl SkillTree {
    /// Searches the tree of a root.
    pub(super) fn of(root: &RootFolder) -> Self {
        let start = Instant::now();
        let names = Search::of(root).run().into_names();
        let took = start.elapsed();
        let mut pause = SearchPause::default();
        pause.begin(took);
        Self(Mutex::new(Searches {
            latest: LatestSearch {
                number: 1,
                names: Arc::new(names),
                ended: Instant::now(),
                took,
            },
            pause,
            begun: 1,
            is_running: false,
            waiting: Vec::new(),
        }))
    }

    /// Returns the names from the last search.
    pub(super) fn names(&self) -> Arc<TreeNames> {
        Arc::clone(&self.lock().latest.names)
    }

    /// Returns the names. Searches the tree, unless the last search is recent enough.
    pub(super) fn names_as_of(&self, root: &RootFolder, freshness: Freshness) -> Arc<TreeNames> {
        let number = {
            let searches = self.lock();
            let latest = &searches.latest;
            match freshness {
                Freshness::Now => searches.begun + 1,
                Freshness::Recent if is_recent(latest.ended.elapsed(), latest.took) => {
                    return Arc::clone(&latest.names);
                }
                Freshness::Recent => searches.running_or_next(),
                Freshness::Known => return Arc::clone(&latest.names),
            }
        };
        self.names_of_search(number, || Search::of(root))
    }

    /// Returns whether [`refresh`](Self::refresh) would search the tree or wait for a search.
    pub(super) fn is_refresh_due(&self) -> bool {
        self.lock().is_refresh_due()
    }

    /// Searches the tree for a call that did not find its skill, unless a search has just ended
    /// or was stopped. Returns whether the names may have changed.
    pub(super) fn refresh(&self, root: &RootFolder) -> bool {
        let number = {
            let searches = self.lock();
            if !searches.is_refresh_due() {
                return false;
            }
            searches.running_or_next()
        };
        self.names_of_search(number, || Search::of(root));
        true
    }

    /// Returns the names from the search with this number, or from a later one. Searches the
    /// tree, or waits while another thread does.
    ///
    /// If the work of this thread is abandoned, returns the names from the last search, and
    /// stops a search that no other thread waits for.
    fn names_of_search<'r>(&self, number: u64, search: impl Fn() -> Search<'r>) -> Arc<TreeNames> {
        let this = thread::current();
        loop {
            let mut searches = self.lock();
            searches
                .waiting
                .retain(|(_, thread)| thread.id() != this.id());
            if searches.latest.number >= number || blocking::is_abandoned() {
                return Arc::clone(&searches.latest.names);
            }
            if searches.is_running {
                searches.waiting.push((number, this.clone()));
                drop(searches);
                thread::park();
                continue;
            }
            searches.is_running = true;
            searches.begun += 1;
            let number = searches.begun;
            drop(searches);
            let _running = RunningSearch(self);
            let start = Instant::now();
            let is_over = || blocking::is_abandoned() && !self.lock().serves(number);
            let found = search().run_until(is_over).map(Search::into_names);
            let took = start.elapsed();
            let mut searches = self.lock();
            searches.pause.begin(took);
            if let Some(names) = found {
                searches.latest = LatestSearch {
                    number,
                    names: Arc::new(names),
                    ended: Instant::now(),
                    took,
                };
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Searches> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

impl Searches {
    /// Returns whether a thread waits for the search with this number.
    fn serves(&self, number: u64) -> bool {
        self.waiting.iter().any(|(first, _)| *first <= number)
    }

    fn is_refresh_due(&self) -> bool {
        self.is_running || self.pause.is_over()
    }

    /// Returns the number of the running search, or of the next one.
    fn running_or_next(&self) -> u64 {
        self.begun + u64::from(!self.is_running)
    }
}

/// A running search. Dropping it wakes the threads that wait.
struct RunningSearch<'t>(&'t SkillTree);

impl Drop for RunningSearch<'_> {
    fn drop(&mut self) {
        let mut searches = self.0.lock();
        searches.is_running = false;
        for (_, thread) in searches.waiting.drain(..) {
            thread.unpark();
        }
    }
}

impl TreeNames {
    /// Assigns names to the skills at these paths, which are in order of priority.
    ///
    /// If several skills have the same name, the first one keeps it. The others are named by their
    /// path, with dots instead of slashes. For the name `author.name`, the skill at `author/name`
    /// has priority over a folder that is called `author.name`. Otherwise the owner of that folder
    /// could choose what a grant for `author.name` reads.
    fn new(root: &RootFolder, paths: Vec<String>, mut problems: Vec<String>) -> Self {
        let mut names = Self::default();
        let mut colliding = Vec::new();
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let (dotted, plain): (Vec<String>, Vec<String>) =
            paths.into_iter().partition(|path| last(path).contains('.'));
        for path in plain {
            if !names.insert(last(&path), &path) {
                colliding.push(path);
            }
        }
        let mut collisions = 0;
        let mut qualify = |names: &mut Self, path: String| {
            let name = path.replace('/', ".");
            let first = names.paths.get(&last(&path)).map(ToString::to_string);
            let is_named = Skill::is_name(&name) && names.insert(name.clone(), &path);
            collisions += 1;
            if collisions > MAX_COLLISIONS {
                return;
            }
            let shown = |path: &str| root.path.join(path).display().to_string();
            let first = first.map(|first| shown(&first)).unwrap_or_default();
            let path = shown(&path);
            problems.push(if is_named {
                format!("`{path}` is the skill `{name}`, because `{first}` has the same name")
            } else {
                format!(
                    "skipped `{path}`: `{first}` has the same name, and no skill can be named \
                     `{}`; rename one of the folders",
                    name.escape_debug()
                )
            });
        };
        colliding.sort_by_key(|path| path.contains('.'));
        for path in colliding {
            qualify(&mut names, path);
        }
        for path in dotted {
            if !names.insert(last(&path), &path) {
                qualify(&mut names, path);
            }
        }
        if let Some(more @ 1..) = collisions.checked_sub(MAX_COLLISIONS) {
            problems.push(format!(
                "`{}` has {} with the name of another skill",
                root.path.display(),
                count(more, "more skill")
            ));
        }
        names.problems = problems;
        names
    }

    /// Adds a skill, unless another skill has the name. Returns whether it was added.
    fn insert(&mut self, name: String, path: &str) -> bool {
        match self.paths.entry(name) {
            std::collections::btree_map::Entry::Occupied(_) => false,
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(path.into());
                true
            }
        }
    }

    /// Returns the names, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.paths.keys().map(String::as_str)
    }

    /// Returns the path of a skill.
    pub(super) fn path_of(&self, name: &str) -> Option<Arc<str>> {
        self.paths.get(name).cloned()
    }

    /// Returns the name and path of the skill at a path.
    pub(super) fn name_of(&self, path: &str) -> Option<(String, Arc<str>)> {
        let last = path.rsplit('/').next().unwrap_or_default().to_owned();
        [last, path.replace('/', ".")]
            .into_iter()
            .find_map(|name| match self.path_of(&name) {
                Some(found) if *found == *path => Some((name, found)),
                _ => None,
            })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::mpsc;

    use super::*;
    use crate::blocking::abandon;
    use crate::broker::Opener;
    use crate::catalog::{Catalog, SkillsRoot};

    fn deep(place: &Path) -> SkillsRoot {
        SkillsRoot {
            depth: 2,
            ..SkillsRoot::new(place)
        }
    }

    fn add_skill(place: &Path, name: &str) {
        fs::create_dir(place.join(name)).unwrap();
        fs::write(place.join(name).join("SKILL.md"), "x").unwrap();
    }

    #[tokio::test]
    async fn call_searches_again_once_the_pause_is_over() {
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let roots = places.each_ref().map(|place| deep(place.path()));
        let catalog = Arc::new(Catalog::open(&roots, None).unwrap());
        add_skill(places[0].path(), "tea");
        let trees = [0, 1].map(|root| catalog.roots[root].tree().unwrap());
        for tree in trees {
            tree.lock().pause.end = Instant::now() + Duration::from_secs(3600);
        }
        assert!(!catalog.refresh(()).await);
        assert_eq!(trees[0].names().names().count(), 0);
        trees[0].lock().pause.end = Instant::now();
        assert!(catalog.refresh(()).await);
        assert_eq!(trees[0].names().names().collect::<Vec<_>>(), ["tea"]);
        assert_eq!(trees.map(|tree| tree.lock().begun), [2, 1]);
    }

    #[test]
    fn known_names_are_those_of_the_last_search() {
        let fixture = Fixture::new();
        add_skill(fixture.place.path(), "tea");
        fixture.tree.lock().latest.took = Duration::ZERO;
        let names = |freshness| fixture.tree.names_as_of(&fixture.root, freshness);
        assert_eq!(names(Freshness::Known).names().count(), 0);
        assert_eq!(fixture.tree.lock().begun, 1);
        assert_eq!(names(Freshness::Recent).names().count(), 1);
        assert_eq!(names(Freshness::Known).names().count(), 1);
    }

    #[tokio::test]
    async fn stopped_search_begins_a_pause() {
        let fixture = Fixture::new();
        let (work, search) = fixture.blocked_search(2);
        let (lease, leased) = mpsc::channel::<()>();
        abandon(lease, work, || search.begun.recv().unwrap()).await;
        let begun = Instant::now();
        fixture.tree.lock().pause.end = begun;
        let stopped = Instant::now();
        drop(search.blocker);
        leased.recv().unwrap_err();
        let searches = fixture.tree.lock();
        assert_eq!(searches.latest.number, 1);
        assert!(searches.pause.end >= stopped + 10 * (stopped - begun));
        assert!(searches.pause.end > begun);
    }

    /// A root and its tree.
    struct Fixture {
        root: RootFolder,
        tree: SkillTree,
        place: tempfile::TempDir,
    }

    /// The control of a search that waits before its first step until `blocker` is dropped.
    struct BlockedSearch {
        begun: mpsc::Receiver<()>,
        blocker: mpsc::Sender<()>,
    }

    impl Fixture {
        fn new() -> Arc<Self> {
            let place = tempfile::tempdir().unwrap();
            let root = RootFolder::open(&deep(place.path()), &Opener::DIRECT).unwrap();
            let tree = SkillTree::of(&root);
            Arc::new(Self { root, tree, place })
        }

        /// Returns work that asks for the names of a search. If the work begins the search, the
        /// search waits for the [`BlockedSearch`].
        fn blocked_search(
            self: &Arc<Self>,
            number: u64,
        ) -> (
            impl FnOnce() -> Arc<TreeNames> + Send + use<>,
            BlockedSearch,
        ) {
            let fixture = Arc::clone(self);
            let (begin, begun) = mpsc::channel();
            let (blocker, blocked) = mpsc::channel();
            let work = move || {
                fixture.tree.names_of_search(number, || {
                    begin.send(()).unwrap();
                    blocked.recv().unwrap_err();
                    Search::of(&fixture.root)
                })
            };
            (work, BlockedSearch { begun, blocker })
        }

        fn wait_for_waiters(&self, threads: usize) {
            while self.tree.lock().waiting.len() != threads {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn threads_share_search_that_begins_after_they_ask() {
        let fixture = Fixture::new();
        let (first, search) = fixture.blocked_search(2);
        let first = thread::spawn(first);
        search.begun.recv().unwrap();
        let others = [(); 4].map(|()| {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || fixture.tree.names_as_of(&fixture.root, Freshness::Now))
        });
        fixture.wait_for_waiters(4);
        add_skill(fixture.place.path(), "tea");
        drop(search.blocker);
        first.join().unwrap();
        for other in others {
            let names = other.join().unwrap();
            assert_eq!(names.names().collect::<Vec<_>>(), ["tea"]);
        }
        assert_eq!(fixture.tree.lock().begun, 3);
    }

    #[tokio::test]
    async fn abandoned_search_stops_unless_others_wait_for_it() {
        // No other thread waits, or one waits for this search, or for the next.
        for (other, ended) in [(None, 1), (Some(2), 2), (Some(3), 3)] {
            let fixture = Fixture::new();
            add_skill(fixture.place.path(), "tea");
            let (work, search) = fixture.blocked_search(2);
            let (lease, leased) = mpsc::channel::<()>();
            abandon(lease, work, || search.begun.recv().unwrap()).await;
            let other = other.map(|number| {
                let (work, search) = fixture.blocked_search(number);
                let other = thread::spawn(work);
                fixture.wait_for_waiters(1);
                (other, search)
            });
            drop(search.blocker);
            leased.recv().unwrap_err();
            if let Some((other, search)) = other {
                if ended == 3 {
                    search.begun.recv().unwrap();
                    // The abandoned search was stopped.
                    assert_eq!(fixture.tree.lock().latest.number, 1);
                }
                drop(search.blocker);
                let names = other.join().unwrap();
                assert_eq!(names.names().collect::<Vec<_>>(), ["tea"]);
            }
            let searches = fixture.tree.lock();
            assert_eq!(searches.latest.number, ended);
            assert!(!searches.is_running);
        }
    }

    #[tokio::test]
    async fn abandoned_thread_waits_for_no_search() {
        let fixture = Fixture::new();
        let (first, search) = fixture.blocked_search(2);
        let first = thread::spawn(first);
        search.begun.recv().unwrap();
        let (second, _search) = fixture.blocked_search(3);
        let (lease, leased) = mpsc::channel::<()>();
        abandon(lease, second, || fixture.wait_for_waiters(1)).await;
        leased.recv().unwrap_err();
        fixture.wait_for_waiters(0);
        drop(search.blocker);
        first.join().unwrap();
        assert_eq!(fixture.tree.lock().begun, 2);
    }
}
