//! The skills of a root with depth: a cache of their names and paths, and when to search
//! again. `tree/search.rs` is the search.
//!
//! Cached names are not trusted: a call opens the path step by step through the root's
//! handle. If the path does not exist, the tree is searched again.

mod search;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Skill;
use super::freshness::{Freshness, is_recent};
use super::root_folder::RootFolder;
pub(super) use search::{Search, SearchBounds};

/// Calls with unknown names may spend at most this fraction (1 / `SEARCH_DIVISOR`) of the
/// time on searches. Guards against: a search of all folders for every such call.
const SEARCH_DIVISOR: u32 = 10;

/// The longest time that a search for a call runs before it yields.
const MAX_STRETCH: Duration = Duration::from_millis(1);

/// The maximum number of reported collisions. Guards against: 10,000 lines for the
/// operator.
const MAX_COLLISIONS: usize = 100;

/// The skills of a root with depth.
#[derive(Debug)]
pub(super) struct SkillTree {
    latest: Mutex<LatestSearch>,
    /// Locked by the call that searches.
    searching: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone)]
struct LatestSearch {
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
        let names = Search::new(root, SearchBounds::of(root)).run().into_names();
        Self {
            latest: Mutex::new(LatestSearch {
                names: Arc::new(names),
                ended: Instant::now(),
                took: start.elapsed(),
            }),
            searching: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the names from the last search.
    pub(super) fn names(&self) -> Arc<TreeNames> {
        self.latest().names
    }

    /// Returns the names. Searches the tree, unless the last search is recent enough.
    pub(super) fn names_as_of(&self, root: &RootFolder, freshness: Freshness) -> Arc<TreeNames> {
        let latest = self.latest();
        if freshness == Freshness::Recent && is_recent(latest.ended.elapsed(), latest.took) {
            return latest.names;
        }
        let start = Instant::now();
        let search = Search::new(root, SearchBounds::of(root));
        self.keep(search.run(), start)
    }

    /// Stores the names of a search.
    pub(super) fn keep(&self, search: Search<'_>, start: Instant) -> Arc<TreeNames> {
        let names = Arc::new(search.into_names());
        *self.lock() = LatestSearch {
            names: Arc::clone(&names),
            ended: Instant::now(),
            took: start.elapsed(),
        };
        names
    }

    /// Searches the tree for a call that did not find its skill, unless a search just
    /// ended. Returns whether the names may have changed.
    pub(super) async fn refresh(&self, root: &RootFolder) -> bool {
        let before = self.latest().ended;
        let _one = self.searching.lock().await;
        let latest = self.latest();
        if latest.ended != before {
            return true;
        }
        if before.elapsed() < latest.took * SEARCH_DIVISOR {
            return false;
        }
        let start = Instant::now();
        let mut search = Search::new(root, SearchBounds::of(root));
        let mut since = start;
        while search.step() {
            if since.elapsed() >= MAX_STRETCH {
                tokio::task::yield_now().await;
                since = Instant::now();
            }
        }
        self.keep(search, start);
        true
    }

    fn latest(&self) -> LatestSearch {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LatestSearch> {
        self.latest
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

impl TreeNames {
    /// Assigns names to the skills at these paths, which are in order of priority. The
    /// first skill of a name gets it. Others are named by their whole path with dots
    /// instead of slashes.
    ///
    /// A folder name with dots never gets a name that another skill has by its path.
    /// Otherwise the owner of one folder could choose what a grant for `author.name` reads.
    fn new(root: &RootFolder, paths: Vec<String>, mut problems: Vec<String>) -> Self {
        let mut names = Self::default();
        let mut hidden = Vec::new();
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let (dotted, plain): (Vec<String>, Vec<String>) =
            paths.into_iter().partition(|path| last(path).contains('.'));
        for path in plain {
            if !names.insert(last(&path), &path) {
                hidden.push(path);
            }
        }
        let mut collisions = 0;
        let mut qualify = |names: &mut Self, path: String| {
            let name = path.replace('/', ".");
            let first = names.paths.get(&last(&path)).map(ToString::to_string);
            let found = Skill::is_name(&name) && names.insert(name.clone(), &path);
            collisions += 1;
            if collisions > MAX_COLLISIONS {
                return;
            }
            let shown = |path: &str| root.path.join(path).display().to_string();
            let first = first.map(|first| shown(&first)).unwrap_or_default();
            let path = shown(&path);
            problems.push(if found {
                format!("`{path}` is the skill `{name}`: `{first}` has its name")
            } else {
                format!(
                    "skipped `{path}`: `{first}` has its name, and no skill can be named \
                     `{}`; rename a folder",
                    name.escape_debug()
                )
            });
        };
        hidden.sort_by_key(|path| path.contains('.'));
        for path in hidden {
            qualify(&mut names, path);
        }
        for path in dotted {
            if !names.insert(last(&path), &path) {
                qualify(&mut names, path);
            }
        }
        if let Some(more @ 1..) = collisions.checked_sub(MAX_COLLISIONS) {
            problems.push(format!(
                "`{}` has {more} more skills whose names are taken",
                root.path.display()
            ));
        }
        names.problems = problems;
        names
    }

    /// Adds a skill unless the name is taken.
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

    use super::*;
    use crate::catalog::{Catalog, SkillsRoot};

    #[tokio::test]
    async fn a_call_searches_again_unless_the_last_search_is_recent() {
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let roots = places.each_ref().map(|place| SkillsRoot {
            depth: 2,
            ..SkillsRoot::new(place.path())
        });
        let catalog = Catalog::open(&roots, None).unwrap();
        fs::create_dir(places[0].path().join("tea")).unwrap();
        fs::write(places[0].path().join("tea/SKILL.md"), "x").unwrap();
        let earlier = |root: usize, took: Duration| {
            let mut latest = catalog.roots[root].tree().unwrap().lock();
            latest.ended = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
            latest.took = took;
        };
        let names = || catalog.roots[0].tree().unwrap().names();
        earlier(0, Duration::from_secs(1));
        earlier(1, Duration::from_secs(1));
        assert!(!catalog.refresh().await);
        assert_eq!(names().names().count(), 0);
        // One root was searched.
        earlier(0, Duration::from_millis(99));
        assert!(catalog.refresh().await);
        assert_eq!(names().names().collect::<Vec<_>>(), ["tea"]);
    }
}
