//! The skills that a guest may list and find, according to its grant, without unlisted skills.

use std::collections::HashSet;
use std::sync::Arc;

use crate::engine::CallSlot;
use crate::tool::Stop;
use crate::tool::grant::{Scope, Skills};
use crate::tool::limits::Limits;
use skillhost_skills::blocking;
use skillhost_skills::catalog::{Catalog, Freshness, ReadBudget, Skill};
use skillhost_skills::search::{Coverage, SkillIndex};
use skillhost_skills::text::digest::sha256_hex;

/// The maximum length of a query in bytes. Guards against: a guest whose query is as long as its
/// memory.
const MAX_QUERY_BYTES: usize = 16 * 1024;

/// The maximum number of hits of a search. Guards against: a guest that makes the host read every
/// skill.
const MAX_HITS: usize = 100;

/// The maximum number of searches of the index for one answer. Each search after the first replaces
/// hits that cannot be read. Guards against: a catalog with few readable hits.
const MAX_SEARCHES: usize = 8;

/// A catalog, filtered by a grant and by the caller's scope.
#[derive(Clone, Default)]
pub struct GrantedSkills {
    /// `None` if there are no skills.
    inner: Option<Arc<Inner>>,
    /// The slot of the call that reads the skills.
    slot: Option<Arc<CallSlot>>,
}

struct Inner {
    catalog: Arc<Catalog>,
    index: Option<Arc<dyn SkillIndex>>,
    granted: Skills,
    scope: Option<Arc<Scope>>,
}

/// A page of skills, in the order of their names.
#[derive(Default)]
pub(crate) struct SkillPage {
    pub(crate) skills: Vec<Skill>,
    /// The number of skills on all pages. It can include unlisted skills of other pages, which
    /// are not read.
    pub(crate) total: usize,
    /// The cursor of the next page, if there is one: a name, or an [`opaque_cursor`]. A page
    /// before the last can also be short or even empty.
    pub(crate) next: Option<String>,
}

/// The answer to a search: skills with the reasons for each, best first.
#[derive(Default)]
pub(crate) struct FoundSkills {
    pub(crate) hits: Vec<(Skill, Vec<String>)>,
    pub(crate) coverage: Coverage,
}

/// The skills and bytes that a call has listed so far.
#[derive(Default)]
struct ListedSkills {
    skills: usize,
    bytes: usize,
}

impl GrantedSkills {
    /// Filters a catalog by a grant.
    pub fn new(catalog: Arc<Catalog>, index: Option<Arc<dyn SkillIndex>>, granted: Skills) -> Self {
        Self::from_inner(Inner {
            catalog,
            index,
            granted,
            scope: None,
        })
    }

    /// Also filters the skills by a caller's scope.
    pub fn within(&self, scope: Option<&Arc<Scope>>) -> Self {
        let (Some(inner), Some(scope)) = (&self.inner, scope) else {
            return self.clone();
        };
        Self::from_inner(Inner {
            catalog: Arc::clone(&inner.catalog),
            index: inner.index.clone(),
            granted: inner.granted.clone(),
            scope: Some(Arc::clone(scope)),
        })
    }

    /// Makes each read hold the slot of a call, even after the call is dropped.
    pub(crate) fn in_slot(mut self, slot: &Arc<CallSlot>) -> Self {
        self.slot = Some(Arc::clone(slot));
        self
    }

    fn from_inner(inner: Inner) -> Self {
        Self {
            inner: Some(Arc::new(inner)),
            slot: None,
        }
    }

    /// Lists the current skills. They count towards the limits of the call.
    pub(crate) async fn list(&self, limits: &Limits) -> Result<Vec<Skill>, Stop> {
        let limits = limits.clone();
        let budget = ReadBudget::unbounded();
        let list = move |inner: &Inner| inner.page(None, usize::MAX, budget, &limits);
        Ok(self.run_blocking(list).await?.skills)
    }

    /// Reads a page of the current skills: at most `limit`, starting at the cursor `from`.
    pub(crate) async fn page(
        &self,
        from: Option<String>,
        limit: usize,
        limits: &Limits,
    ) -> Result<SkillPage, Stop> {
        let limits = limits.clone();
        let budget = ReadBudget::default();
        self.run_blocking(move |inner| inner.page(from.as_deref(), limit, budget, &limits))
            .await
    }

    /// Finds the skills that match a query, and reads their current descriptions.
    pub(crate) async fn find(
        &self,
        query: String,
        limit: usize,
        limits: &Limits,
    ) -> Result<FoundSkills, Stop> {
        let limits = limits.clone();
        self.run_blocking(move |inner| inner.find(&query, limit, &limits))
            .await
    }

    /// Runs work that reads files, on a thread where it delays no other call. The work holds
    /// the call's slot until it ends.
    async fn run_blocking<T: Default + Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, Stop> {
        let Some(inner) = self.inner.clone() else {
            return Ok(T::default());
        };
        let work = move || work(&inner);
        let result = match self.slot.clone() {
            Some(slot) => slot.run_blocking(work).await,
            None => blocking::run((), work).await,
        };
        result.unwrap_or_else(|error| Err(Stop::Trap(format!("cannot read the skills: {error}"))))
    }
}

impl Inner {
    fn allow(&self, name: &str) -> bool {
        let scope = self.scope.as_ref();
        self.granted.allow(name) && scope.is_none_or(|scope| scope.allows_skill(name))
    }

    /// Counts the allowed names. Each page counts them again, so this is fast if all names are
    /// allowed.
    fn count(&self, names: &[String]) -> usize {
        let scope = self.scope.as_ref();
        if self.granted.allow_all() && scope.is_none_or(|scope| scope.allows_every_skill()) {
            return names.len();
        }
        names.iter().filter(|name| self.allow(name)).count()
    }

    fn page(
        &self,
        from: Option<&str>,
        limit: usize,
        mut budget: ReadBudget,
        limits: &Limits,
    ) -> Result<SkillPage, Stop> {
        let freshness = match from {
            None => Freshness::Now,
            Some(_) => Freshness::Recent,
        };
        let names = self.catalog.shared_names(freshness);
        let mut total = self.count(&names);
        if total > limits.directory_entries {
            return Err(Stop::DirectoryEntries(limits.directory_entries));
        }
        let start = match from {
            None => 0,
            Some(from) if !from.starts_with('.') => {
                names.partition_point(|name| name.as_str() < from)
            }
            Some(from) => {
                let mut allowed = names.iter().map(|name| self.allow(name).then_some(name));
                allowed
                    .position(|name| name.is_some_and(|name| opaque_cursor(name) == from))
                    .unwrap_or(names.len())
            }
        };
        let (mut skills, mut listed) = (Vec::new(), ListedSkills::default());
        let mut next = None;
        for name in names[start..].iter().filter(|name| self.allow(name)) {
            if budget.is_spent() {
                next = Some(opaque_cursor(name));
                break;
            }
            match self.catalog.read_within(name, &mut budget) {
                Some(skill) if skill.unlisted.is_some() => {
                    budget.leave_out();
                    total -= 1;
                }
                // If only unlisted skills follow, a full page has no next page.
                Some(_) if skills.len() == limit => {
                    next = Some(name.clone());
                    break;
                }
                Some(skill) => {
                    listed.add(&skill, limits)?;
                    skills.push(skill);
                }
                // The skill was removed meanwhile.
                None => budget.leave_out(),
            }
        }
        Ok(SkillPage {
            skills,
            next,
            total,
        })
    }

    fn find(&self, query: &str, limit: usize, limits: &Limits) -> Result<FoundSkills, Stop> {
        let Some(index) = &self.index else {
            return Ok(FoundSkills::default());
        };
        let query = &query[..query.floor_char_boundary(MAX_QUERY_BYTES)];
        let limit = limit.min(MAX_HITS);
        let mut dropped: HashSet<String> = HashSet::new();
        let mut search_limit = limit;
        let mut searches = 1;
        loop {
            let result = index.search(query, search_limit, &|name| {
                self.allow(name) && !dropped.contains(name)
            });
            let is_last = searches == MAX_SEARCHES
                || result.hits.len() < search_limit
                || blocking::is_abandoned();
            let dropped_before = dropped.len();
            let mut hits = Vec::new();
            for hit in result.hits.into_iter().take(search_limit) {
                if hits.len() == limit {
                    break;
                }
                match self.read_hit(&hit.name) {
                    Some(skill) => hits.push((skill, hit.matches)),
                    None => drop(dropped.insert(hit.name)),
                }
            }
            if hits.len() == limit || is_last || dropped.len() == dropped_before {
                let mut listed = ListedSkills::default();
                for (skill, _) in &hits {
                    listed.add(skill, limits)?;
                }
                return Ok(FoundSkills {
                    hits,
                    coverage: result.coverage,
                });
            }
            search_limit = (2 * search_limit).min(MAX_HITS);
            searches += 1;
        }
    }

    /// Reads a skill that the index has found. Returns `None` if the skill has no readable
    /// SKILL.md, is unlisted or is not granted.
    ///
    /// The index can be outdated, and it does not enforce grants.
    fn read_hit(&self, name: &str) -> Option<Skill> {
        let skill = self
            .catalog
            .read_listed(name)
            .filter(|_| self.allow(name))?;
        skill.file.is_some().then_some(skill)
    }
}

/// Returns the cursor of a page that starts at an unread skill, which may be unlisted.
///
/// The cursor is not a [name](Skill::is_name), and reveals none. If the skill is removed before
/// the next page, that page is empty, so a model lists again and misses no skill.
pub fn opaque_cursor(name: &str) -> String {
    const DIGITS: usize = 32;
    format!(".{}", &sha256_hex(name.as_bytes())[..DIGITS])
}

impl ListedSkills {
    /// Counts a skill. The error is the limit that this would exceed.
    fn add(&mut self, skill: &Skill, limits: &Limits) -> Result<(), Stop> {
        self.bytes += skill.name.len() + skill.description.len();
        if self.bytes > limits.memory {
            return Err(Stop::Memory(limits.memory));
        }
        if self.skills == limits.directory_entries {
            return Err(Stop::DirectoryEntries(limits.directory_entries));
        }
        self.skills += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::{Mutex, mpsc};
    use std::task::Poll;

    use super::*;
    use crate::engine::EpochEngine;
    use crate::tool::grant::Grant;
    use crate::tool::limits::Load;
    use skillhost_skills::catalog::SkillsRoot;
    use skillhost_skills::search::{SearchHit, SearchResult};

    /// Returns three granted skills of a catalog of four, and the catalog's folder. Each skill
    /// has 10 bytes of name and description.
    fn granted() -> (GrantedSkills, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        for name in ["a1", "b1", "c1", "hidden"] {
            let folder = root.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            let text = format!("---\nname: {name}\ndescription: says it.\n---\n");
            std::fs::write(folder.join("SKILL.md"), text).unwrap();
        }
        let catalog = Catalog::open(&[SkillsRoot::new(root.path())], None).unwrap();
        let grant = Grant::new().skills(["?1"]).unwrap();
        let skills = GrantedSkills::new(Arc::new(catalog), None, grant.skills.unwrap());
        (skills, root)
    }

    fn names(skills: &[Skill]) -> Vec<&str> {
        skills.iter().map(|skill| skill.name.as_str()).collect()
    }

    #[tokio::test]
    async fn lists_granted_skills_up_to_the_limits() {
        let (skills, _root) = granted();
        let mut limits = Limits::default();
        for (entries, memory, expected) in [
            (3, 30, Ok(())),
            (2, 30, Err(Stop::DirectoryEntries(2))),
            (3, 29, Err(Stop::Memory(29))),
        ] {
            limits.directory_entries = entries;
            limits.memory = memory;
            let listed = skills.list(&limits).await;
            let page = skills.page(None, 3, &limits).await;
            if let (Ok(listed), Ok(page)) = (&listed, &page) {
                assert_eq!(names(listed), ["a1", "b1", "c1"]);
                assert_eq!(names(&page.skills), ["a1", "b1", "c1"]);
            }
            assert_eq!(listed.map(drop), expected);
            assert_eq!(page.map(drop), expected);
        }
    }

    #[tokio::test]
    async fn counts_no_skill_that_a_scope_excludes() {
        let (_, root) = granted();
        let catalog = Arc::new(Catalog::open(&[SkillsRoot::new(root.path())], None).unwrap());
        let excluded = BTreeSet::from(["b1".to_owned()]);
        let scope = Arc::new(Scope::new().without(BTreeSet::new(), excluded));
        for pattern in ["?1", "*"] {
            let grant = Grant::new().skills([pattern]).unwrap();
            let skills = GrantedSkills::new(Arc::clone(&catalog), None, grant.skills.unwrap());
            let skills = skills.within(Some(&scope));
            let page = skills.page(None, 10, &Limits::default()).await.unwrap();
            assert_eq!(page.total, page.skills.len());
            assert!(!names(&page.skills).contains(&"b1"));
        }
    }

    #[test]
    fn abandoned_reading_keeps_the_slot_of_its_call() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (skills, _root) = granted();
            let engine = EpochEngine::new(&Load::default(), 1 << 20, true).unwrap();
            let quota = engine.quota("t", false, 1 << 30);
            let slot = Arc::new(engine.enter(&quota, 1).await.unwrap());
            let (end, ended) = mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || ended.recv());
            {
                let (skills, limits) = (skills.in_slot(&slot), Limits::default());
                let mut page = pin!(skills.page(None, 1, &limits));
                assert!(poll_fn(|task| Poll::Ready(page.as_mut().poll(task).is_pending())).await);
                drop(slot);
                // The read asks for the only thread, which is busy.
                tokio::task::yield_now().await;
            }
            // The call has dropped the read.
            tokio::task::yield_now().await;
            assert_eq!(engine.occupancy().running, 1);
            drop(end);
            busy.await.unwrap().unwrap_err();
            // The only thread runs this after the read.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            assert_eq!(engine.occupancy().running, 0);
        });
    }

    #[tokio::test]
    async fn next_page_continues_after_the_last() {
        let (skills, _root) = granted();
        let limits = Limits::default();
        let first = skills.page(None, 2, &limits).await.unwrap();
        assert_eq!(names(&first.skills), ["a1", "b1"]);
        assert_eq!((first.total, first.next.as_deref()), (3, Some("c1")));
        let last = skills.page(first.next, 2, &limits).await.unwrap();
        assert_eq!(names(&last.skills), ["c1"]);
        assert_eq!((last.total, last.next), (3, None));
    }

    /// An index that finds all allowed names of a list in their order, and records its
    /// queries and limits.
    #[derive(Default)]
    struct RecordingIndex {
        names: Vec<String>,
        queries: Mutex<Vec<(String, usize)>>,
    }

    impl SkillIndex for RecordingIndex {
        fn update(&self, _: &Arc<Catalog>) {}

        fn search(
            &self,
            query: &str,
            limit: usize,
            allowed: &dyn Fn(&str) -> bool,
        ) -> SearchResult {
            self.queries.lock().unwrap().push((query.to_owned(), limit));
            let names = self.names.iter().filter(|name| allowed(name));
            let hit = |name: &String| SearchHit {
                name: name.clone(),
                matches: Vec::new(),
            };
            SearchResult {
                hits: names.take(limit).map(hit).collect(),
                coverage: Coverage::All,
            }
        }
    }

    /// Returns 150 skills, and an index that finds them all.
    fn many_skills() -> (GrantedSkills, Arc<RecordingIndex>, tempfile::TempDir) {
        indexed_folders((0..150).map(|number| format!("s{number}")).collect())
    }

    /// Creates a folder for each name, and an index that finds all names. A folder whose name
    /// starts with `s` has a SKILL.md.
    fn indexed_folders(
        names: Vec<String>,
    ) -> (GrantedSkills, Arc<RecordingIndex>, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        for name in &names {
            let folder = root.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            if name.starts_with('s') {
                std::fs::write(folder.join("SKILL.md"), "Text.").unwrap();
            }
        }
        let catalog = Catalog::open(&[SkillsRoot::new(root.path())], None).unwrap();
        let index = Arc::new(RecordingIndex {
            names,
            ..RecordingIndex::default()
        });
        let dyn_index: Arc<dyn SkillIndex> = Arc::clone(&index) as _;
        let skills = GrantedSkills::new(Arc::new(catalog), Some(dyn_index), Skills::all());
        (skills, index, root)
    }

    #[tokio::test]
    async fn search_returns_at_most_100_hits() {
        let (skills, index, _root) = many_skills();
        for (limit, hits) in [(7, 7), (100, 100), (101, 100), (usize::MAX, 100)] {
            let found = skills
                .find("tea".to_owned(), limit, &Limits::default())
                .await;
            assert_eq!(found.unwrap().hits.len(), hits, "{limit}");
            let query = index.queries.lock().unwrap().pop();
            assert_eq!(query, Some(("tea".to_owned(), hits)), "{limit}");
        }
    }

    #[tokio::test]
    async fn search_skips_folders_without_skill_md() {
        let mut names: Vec<String> = (0..60).map(|number| format!("empty{number}")).collect();
        names.extend((0..7).map(|number| format!("s{number}")));
        let (skills, _index, _root) = indexed_folders(names);
        for (limit, expected) in [(1, 1), (5, 5), (20, 7)] {
            let limits = Limits::default();
            let found = skills.find("tea".to_owned(), limit, &limits).await;
            let hits = found.unwrap().hits;
            let hits: Vec<&str> = hits.iter().map(|(skill, _)| &*skill.name).collect();
            assert_eq!(hits, ["s0", "s1", "s2", "s3", "s4", "s5", "s6"][..expected]);
        }
    }

    #[tokio::test]
    async fn hit_that_is_unlisted_now_is_dropped() {
        let names = (0..3).map(|number| format!("s{number}")).collect();
        let (skills, _index, root) = indexed_folders(names);
        let text = "---\ndisable-model-invocation: true\n---\nText.";
        std::fs::write(root.path().join("s1/SKILL.md"), text).unwrap();
        let limits = Limits::default();
        let found = skills.find("tea".to_owned(), 2, &limits).await.unwrap();
        let hits: Vec<&str> = found.hits.iter().map(|(skill, _)| &*skill.name).collect();
        assert_eq!(hits, ["s0", "s2"]);
        let listed = skills.list(&limits).await.unwrap();
        assert_eq!(self::names(&listed), ["s0", "s2"]);
    }

    #[tokio::test]
    async fn unreadable_hits_cause_at_most_8_searches() {
        let names = (0..300).map(|number| format!("empty{number}")).collect();
        let (skills, index, _root) = indexed_folders(names);
        let limits = Limits::default();
        let found = skills.find("tea".to_owned(), 1, &limits).await;
        assert_eq!(found.unwrap().hits.len(), 0);
        assert_eq!(index.queries.lock().unwrap().len(), 8);
    }

    /// An index whose searches last until the caller abandons them.
    struct AbandonedIndex {
        inner: Arc<RecordingIndex>,
        begun: mpsc::Sender<()>,
    }

    impl SkillIndex for AbandonedIndex {
        fn update(&self, _: &Arc<Catalog>) {}

        fn search(
            &self,
            query: &str,
            limit: usize,
            allowed: &dyn Fn(&str) -> bool,
        ) -> SearchResult {
            self.begun.send(()).unwrap();
            while !blocking::is_abandoned() {
                std::thread::park();
            }
            self.inner.search(query, limit, allowed)
        }
    }

    #[test]
    fn abandoned_search_stops_querying_the_index() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let names = (0..30).map(|number| format!("empty{number}")).collect();
            let (skills, inner, _root) = indexed_folders(names);
            let (begun, receiver) = mpsc::channel();
            let catalog = Arc::clone(&skills.inner.as_ref().unwrap().catalog);
            let index = AbandonedIndex {
                inner: Arc::clone(&inner),
                begun,
            };
            let skills = GrantedSkills::new(catalog, Some(Arc::new(index)), Skills::all());
            {
                let limits = Limits::default();
                let mut found = pin!(skills.find("tea".to_owned(), 1, &limits));
                assert!(poll_fn(|task| Poll::Ready(found.as_mut().poll(task).is_pending())).await);
                receiver.recv().unwrap();
            }
            // The only thread runs this after the search.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            assert_eq!(inner.queries.lock().unwrap().len(), 1);
        });
    }

    #[tokio::test]
    async fn search_cuts_queries_at_16_kib_between_characters() {
        const MAX: usize = 16 * 1024;
        let (skills, index, _root) = many_skills();
        for (start, more, bytes) in [
            ("", 0, 0),
            ("", 8_192, MAX),
            ("", 8_193, MAX),
            ("x", 500_000, MAX - 1),
        ] {
            let query = format!("{start}{}", "ä".repeat(more));
            let found = skills.find(query.clone(), 1, &Limits::default()).await;
            assert_eq!(found.unwrap().hits.len(), 1);
            let (cut_query, _) = index.queries.lock().unwrap().pop().unwrap();
            assert_eq!(cut_query.len(), bytes, "{start}{more}");
            assert!(query.starts_with(&cut_query));
        }
    }
}
