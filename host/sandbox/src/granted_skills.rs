//! The skills that a guest may list and find: those that its grant names.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::tool::Stop;
use crate::tool::grant::{Scope, Skills};
use crate::tool::limits::Limits;
use skillhost_skills::catalog::{Catalog, Freshness, ScanStep, Skill};
use skillhost_skills::search::{Coverage, SkillIndex};

/// The longest time that a scan runs before it lets others run. Guards against: a
/// catalog of a million folders, and a call that is past its deadline.
const MAX_STRETCH: Duration = Duration::from_millis(1);

/// The most bytes of a request that are searched for. Guards against: a guest that
/// makes the index take apart all its memory.
const MAX_QUERY: usize = 16 * 1024;

/// The most hits of a search. Guards against: a guest that makes the host read
/// every skill.
const MAX_HITS: usize = 100;

/// The most times that the index is asked for one answer: once, and again for hits in
/// place of those that the host drops. Guards against: an index or a catalog of which
/// hardly any hit can be read.
const MAX_SEARCHES: usize = 8;

/// A catalog, filtered by a grant, and by the scope of a caller that has one.
#[derive(Clone, Default)]
pub struct GrantedSkills(Option<Arc<Inner>>);

struct Inner {
    catalog: Arc<Catalog>,
    index: Option<Arc<dyn SkillIndex>>,
    granted: Skills,
    scope: Option<Arc<Scope>>,
}

/// Some of the skills, in the order of their names.
#[derive(Default)]
pub(crate) struct SkillPage {
    pub(crate) skills: Vec<Skill>,
    /// The number of all.
    pub(crate) total: usize,
    /// The name that the next page starts from.
    pub(crate) next: Option<String>,
}

/// The answer to a search: skills, each with the reasons, best first.
#[derive(Default)]
pub(crate) struct FoundSkills {
    pub(crate) hits: Vec<(Skill, Vec<String>)>,
    pub(crate) coverage: Coverage,
}

/// What a call has listed so far, against its limits.
#[derive(Default)]
struct Count {
    skills: usize,
    bytes: usize,
}

impl GrantedSkills {
    /// Makes the list of the skills of a catalog that a grant allows.
    pub fn new(catalog: Arc<Catalog>, index: Option<Arc<dyn SkillIndex>>, granted: Skills) -> Self {
        Self(Some(Arc::new(Inner {
            catalog,
            index,
            granted,
            scope: None,
        })))
    }

    /// Returns the same skills as a caller with this scope sees them.
    pub fn within(&self, scope: Option<&Arc<Scope>>) -> Self {
        let (Some(inner), Some(scope)) = (&self.0, scope) else {
            return self.clone();
        };
        Self(Some(Arc::new(Inner {
            catalog: Arc::clone(&inner.catalog),
            index: inner.index.clone(),
            granted: inner.granted.clone(),
            scope: Some(Arc::clone(scope)),
        })))
    }

    /// Lists the skills as they are now. They count towards the limits of the call
    /// that asks.
    pub(crate) async fn list(&self, limits: &Limits) -> Result<Vec<Skill>, Stop> {
        let Some(inner) = self.0.as_deref() else {
            return Ok(Vec::new());
        };
        let mut scan = inner.catalog.scan(|name| inner.allow(name));
        let (mut skills, mut count) = (Vec::new(), Count::default());
        let mut since = Instant::now();
        while let Some(step) = scan.step() {
            if let ScanStep::Skill(skill) = step {
                count.add(&skill, limits)?;
                skills.push(skill);
            }
            if since.elapsed() >= MAX_STRETCH {
                tokio::task::yield_now().await;
                since = Instant::now();
            }
        }
        skills.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(skills)
    }

    /// Reads some of the skills as they are now: at most `limit`, from the first
    /// whose name is not before `from`.
    pub(crate) async fn page(
        &self,
        from: Option<String>,
        limit: usize,
        limits: &Limits,
    ) -> Result<SkillPage, Stop> {
        let limits = limits.clone();
        self.with(move |inner| inner.page(from.as_deref(), limit, &limits))
            .await
    }

    /// Searches for the skills that fit a request, and reads them as they are now.
    pub(crate) async fn find(
        &self,
        query: String,
        limit: usize,
        limits: &Limits,
    ) -> Result<FoundSkills, Stop> {
        let limits = limits.clone();
        self.with(move |inner| inner.find(&query, limit, &limits))
            .await
    }

    /// Runs work that reads files on a thread where it holds up no other call.
    async fn with<T: Default + Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, Stop> {
        let Some(inner) = self.0.clone() else {
            return Ok(T::default());
        };
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.unwrap_or_else(|error| Err(Stop::Trap(format!("cannot read the skills: {error}"))))
    }
}

impl Inner {
    fn allow(&self, name: &str) -> bool {
        let scope = self.scope.as_ref();
        self.granted.allow(name) && scope.is_none_or(|scope| scope.allows_skill(name))
    }

    fn page(&self, from: Option<&str>, limit: usize, limits: &Limits) -> Result<SkillPage, Stop> {
        let freshness = match from {
            None => Freshness::Now,
            Some(_) => Freshness::Recent,
        };
        let names = self.catalog.shared_names(freshness);
        let is_granted = |name: &&String| self.allow(name);
        let total = names.iter().filter(is_granted).count();
        if total > limits.directory_entries {
            return Err(Stop::DirectoryEntries(limits.directory_entries));
        }
        let start = from.map_or(0, |from| names.partition_point(|name| name.as_str() < from));
        let mut names = names[start..].iter().filter(is_granted);
        let (mut skills, mut count) = (Vec::new(), Count::default());
        while skills.len() < limit
            && let Some(name) = names.next()
        {
            // One that has gone since takes no place.
            let Some(skill) = self.catalog.read(name) else {
                continue;
            };
            count.add(&skill, limits)?;
            skills.push(skill);
        }
        Ok(SkillPage {
            skills,
            total,
            next: names.next().cloned(),
        })
    }

    fn find(&self, query: &str, limit: usize, limits: &Limits) -> Result<FoundSkills, Stop> {
        let Some(index) = &self.index else {
            return Ok(FoundSkills::default());
        };
        let query = &query[..query.floor_char_boundary(MAX_QUERY)];
        let limit = limit.min(MAX_HITS);
        let mut dropped: HashSet<String> = HashSet::new();
        let mut asked = limit;
        let mut searches = 1;
        loop {
            let found = index.search(query, asked, &|name| {
                self.allow(name) && !dropped.contains(name)
            });
            let is_last = searches == MAX_SEARCHES || found.hits.len() < asked;
            let dropped_before = dropped.len();
            let mut hits = Vec::new();
            for hit in found.hits.into_iter().take(asked) {
                if hits.len() == limit {
                    break;
                }
                match self.read_hit(&hit.name) {
                    Some(skill) => hits.push((skill, hit.matches)),
                    None => drop(dropped.insert(hit.name)),
                }
            }
            if hits.len() == limit || is_last || dropped.len() == dropped_before {
                let mut count = Count::default();
                for (skill, _) in &hits {
                    count.add(skill, limits)?;
                }
                return Ok(FoundSkills {
                    hits,
                    coverage: found.coverage,
                });
            }
            asked = (2 * asked).min(MAX_HITS);
            searches += 1;
        }
    }

    /// Reads a skill that the index has found. `None` if it has no SKILL.md, or is not
    /// allowed: the index may be behind the disk, and does not decide what is granted.
    fn read_hit(&self, name: &str) -> Option<Skill> {
        let skill = self.catalog.read(name).filter(|_| self.allow(name))?;
        skill.file.is_some().then_some(skill)
    }
}

impl Count {
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
    use std::sync::Mutex;

    use super::*;
    use crate::tool::grant::Grant;
    use skillhost_skills::catalog::SkillsRoot;
    use skillhost_skills::search::{SearchHit, SearchResult};

    /// Returns three skills of a catalog of four, each with 10 bytes of name and
    /// description, and the folder that they are in.
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
    async fn lists_what_is_granted_up_to_the_limits_of_the_call() {
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
    async fn a_page_goes_on_where_the_one_before_ended() {
        let (skills, _root) = granted();
        let limits = Limits::default();
        let first = skills.page(None, 2, &limits).await.unwrap();
        assert_eq!(names(&first.skills), ["a1", "b1"]);
        assert_eq!((first.total, first.next.as_deref()), (3, Some("c1")));
        let last = skills.page(first.next, 2, &limits).await.unwrap();
        assert_eq!(names(&last.skills), ["c1"]);
        assert_eq!((last.total, last.next), (3, None));
    }

    /// An index that finds all of its skills that are allowed, in their order, and notes
    /// what it was asked.
    #[derive(Default)]
    struct NotingIndex {
        names: Vec<String>,
        asked: Mutex<Vec<(String, usize)>>,
    }

    impl SkillIndex for NotingIndex {
        fn update(&self, _: &Arc<Catalog>) {}

        fn search(
            &self,
            query: &str,
            limit: usize,
            allowed: &dyn Fn(&str) -> bool,
        ) -> SearchResult {
            self.asked.lock().unwrap().push((query.to_owned(), limit));
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

    /// Makes 150 skills, and an index that finds them all.
    fn found_by_all() -> (GrantedSkills, Arc<NotingIndex>, tempfile::TempDir) {
        searched((0..150).map(|number| format!("s{number}")).collect())
    }

    /// Makes an index that finds these names, and a folder for each. A folder whose name
    /// begins with `s` is a skill: it has a SKILL.md.
    fn searched(names: Vec<String>) -> (GrantedSkills, Arc<NotingIndex>, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        for name in &names {
            let folder = root.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            if name.starts_with('s') {
                std::fs::write(folder.join("SKILL.md"), "Text.").unwrap();
            }
        }
        let catalog = Catalog::open(&[SkillsRoot::new(root.path())], None).unwrap();
        let index = Arc::new(NotingIndex {
            names,
            ..NotingIndex::default()
        });
        let noting: Arc<dyn SkillIndex> = Arc::clone(&index) as _;
        let skills = GrantedSkills::new(Arc::new(catalog), Some(noting), Skills::all());
        (skills, index, root)
    }

    #[tokio::test]
    async fn a_search_has_100_hits_at_most() {
        let (skills, index, _root) = found_by_all();
        for (limit, most) in [(7, 7), (100, 100), (101, 100), (usize::MAX, 100)] {
            let found = skills
                .find("tea".to_owned(), limit, &Limits::default())
                .await;
            assert_eq!(found.unwrap().hits.len(), most, "{limit}");
            let asked = index.asked.lock().unwrap().pop();
            assert_eq!(asked, Some(("tea".to_owned(), most)), "{limit}");
        }
    }

    #[tokio::test]
    async fn folders_without_documents_take_no_place_of_a_hit() {
        let mut names: Vec<String> = (0..60).map(|number| format!("empty{number}")).collect();
        names.extend((0..7).map(|number| format!("s{number}")));
        let (skills, _index, _root) = searched(names);
        for (limit, expected) in [(1, 1), (5, 5), (20, 7)] {
            let limits = Limits::default();
            let found = skills.find("tea".to_owned(), limit, &limits).await;
            let hits = found.unwrap().hits;
            let hits: Vec<&str> = hits.iter().map(|(skill, _)| &*skill.name).collect();
            assert_eq!(hits, ["s0", "s1", "s2", "s3", "s4", "s5", "s6"][..expected]);
        }
    }

    #[tokio::test]
    async fn a_search_that_drops_all_hits_asks_the_index_8_times_at_most() {
        let names = (0..300).map(|number| format!("empty{number}")).collect();
        let (skills, index, _root) = searched(names);
        let limits = Limits::default();
        let found = skills.find("tea".to_owned(), 1, &limits).await;
        assert_eq!(found.unwrap().hits.len(), 0);
        assert_eq!(index.asked.lock().unwrap().len(), 8);
    }

    #[tokio::test]
    async fn a_search_takes_16_kib_of_a_request_at_most_and_cuts_no_character() {
        const MOST: usize = 16 * 1024;
        let (skills, index, _root) = found_by_all();
        for (start, more, bytes) in [
            ("", 0, 0),
            ("", 8_192, MOST),
            ("", 8_193, MOST),
            ("x", 500_000, MOST - 1),
        ] {
            let query = format!("{start}{}", "ä".repeat(more));
            let found = skills.find(query.clone(), 1, &Limits::default()).await;
            assert_eq!(found.unwrap().hits.len(), 1);
            let (asked, _) = index.asked.lock().unwrap().pop().unwrap();
            assert_eq!(asked.len(), bytes, "{start}{more}");
            assert!(query.starts_with(&asked));
        }
    }
}
