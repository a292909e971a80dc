//! Tests of the whole index, on skills in a temporary folder.

use std::cell::{Cell, RefCell};
use std::fs;
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use skillhost::{Catalog, Coverage, SkillIndex as _, SkillsRoot};
use skillhost_skills::blocking;
use tempfile::TempDir;

use crate::allowed::AllowedSkills;
use crate::query::Query;
use crate::update::{IndexLimits, update};
use crate::{MemoryIndex, Shared};

/// The longest time that a test waits for an index.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The minimum rate of the test queries that find their skill among the first three hits.
const MIN_HIT_RATE: f64 = 0.95;

pub(crate) fn write_skill(root: &Path, name: &str, description: &str, body: &str) {
    let folder = root.join(name);
    fs::create_dir_all(&folder).unwrap();
    let description = serde_json::to_string(description).unwrap();
    let text = format!("---\nname: {name}\ndescription: {description}\n---\n{body}");
    fs::write(folder.join("SKILL.md"), text).unwrap();
}

fn skills(skills: &[(&str, &str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, description, body) in skills {
        write_skill(root.path(), name, description, body);
    }
    root
}

pub(crate) fn open(root: &Path) -> Arc<Catalog> {
    let root = SkillsRoot::new(root.to_owned());
    Arc::new(Catalog::open(&[root], None).unwrap())
}

fn names(index: &MemoryIndex, query: &str, limit: usize) -> Vec<String> {
    let result = index.search(query, limit, &|_| true);
    result.hits.into_iter().map(|hit| hit.name).collect()
}

#[test]
fn finds_the_right_skill_for_plain_words() {
    let data: Value =
        serde_json::from_str(include_str!("../../../tests/vectors/search.json")).unwrap();
    let root = tempfile::tempdir().unwrap();
    for skill in data["skills"].as_array().unwrap() {
        let text = |key: &str| skill[key].as_str().unwrap();
        write_skill(root.path(), text("name"), text("description"), text("body"));
    }
    let index = MemoryIndex::build_now(&open(root.path()));
    let queries = data["requests"].as_array().unwrap();
    let mut missed = Vec::new();
    for query in queries {
        let (text, skill) = (query["request"].as_str(), query["skill"].as_str());
        let hits = names(&index, text.unwrap(), 3);
        if !hits.iter().any(|name| Some(name.as_str()) == skill) {
            missed.push(format!("{query}: {hits:?}"));
        }
    }
    let rate = 1.0 - missed.len() as f64 / queries.len() as f64;
    assert!(rate >= MIN_HIT_RATE, "{rate:.2}:\n{}", missed.join("\n"));
}

/// Runs work, abandons it when it calls its argument, and returns its result. The argument
/// returns once the work is abandoned.
async fn run_abandoned<T: Send + 'static>(work: impl FnOnce(&dyn Fn()) -> T + Send + 'static) -> T {
    let (start, started) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    {
        let mut running = pin!(blocking::run((), move || {
            let wait = || {
                start.send(()).unwrap();
                while !blocking::is_abandoned() {
                    thread::park();
                }
            };
            end.send(work(&wait)).unwrap();
        }));
        assert!(poll_fn(|task| Poll::Ready(running.as_mut().poll(task).is_pending())).await);
        started.recv_timeout(TIMEOUT).unwrap();
    }
    ended.recv_timeout(TIMEOUT).unwrap()
}

/// Returns an index of three skills about docker.
fn three_skills() -> Arc<MemoryIndex> {
    let description = "Builds docker images.";
    let root = skills(&["a", "b", "c"].map(|name| (name, description, "")));
    Arc::new(MemoryIndex::build_now(&open(root.path())))
}

#[tokio::test]
async fn abandoned_search_ends_early() {
    let index = three_skills();
    assert_eq!(names(&index, "docker", 3).len(), 3);
    for abandoned_at in [1, 3] {
        let index = Arc::clone(&index);
        let search = move |wait: &dyn Fn()| {
            let asked = Cell::new(0);
            let result = index.search("docker", 3, &|_| {
                asked.set(asked.get() + 1);
                if asked.get() == abandoned_at {
                    wait();
                }
                true
            });
            (asked.get(), result.hits.len())
        };
        assert_eq!(run_abandoned(search).await, (abandoned_at, 0));
    }
}

#[tokio::test]
async fn abandoned_search_compares_no_words() {
    let index = three_skills();
    let corrects = |index: &MemoryIndex, wait: &dyn Fn()| {
        let content = index.shared.read();
        let skills = AllowedSkills::new(&content.store, &|_| true);
        wait();
        let query = Query::read("dokcer", &skills);
        query
            .parts
            .iter()
            .flatten()
            .any(|term| term.term == "docker")
    };
    assert!(corrects(&index, &|| ()));
    assert!(!run_abandoned(move |wait| corrects(&index, wait)).await);
}

#[test]
fn finds_changed_skills_and_no_removed_ones() {
    let root = skills(&[
        ("tea", "Brews tea.", "# Samovar\n"),
        ("bread", "Bakes bread.", "# Sourdough\n"),
    ]);
    let catalog = open(root.path());
    let index = MemoryIndex::new();
    let nothing = index.search("tea", 5, &|_| true);
    assert_eq!(
        (nothing.hits.len(), nothing.coverage),
        (0, Coverage::Nothing)
    );
    index.update(&catalog);
    assert!(index.wait_until_ready(TIMEOUT));
    assert_eq!(index.search("tea", 5, &|_| true).coverage, Coverage::All);
    assert_eq!(names(&index, "samovar", 5), ["tea"]);

    write_skill(root.path(), "tea", "Brews coffee.", "# Percolator\n");
    write_skill(root.path(), "soup", "Cooks soup.", "");
    fs::remove_dir_all(root.path().join("bread")).unwrap();
    index.update(&catalog);
    assert!(index.wait_until_ready(TIMEOUT));
    for (query, expected) in [
        ("samovar", &[][..]),
        ("percolator", &["tea"]),
        ("sourdough", &[]),
        ("soup", &["soup"]),
    ] {
        assert_eq!(names(&index, query, 5), expected, "{query}");
    }
}

#[test]
fn continues_update_stopped_at_any_step() {
    let root = skills(&[
        ("tea", "Brews tea.", "# Samovar\n"),
        ("bread", "Bakes bread.", "# Sourdough\n"),
    ]);
    let catalog = open(root.path());
    let expected = MemoryIndex::build_now(&catalog);
    for steps in 0..10 {
        let index = MemoryIndex::new();
        let step = Cell::new(0);
        let is_stopped = || step.replace(step.get() + 1) == steps;
        while !update(&index.shared, &catalog, &is_stopped) {
            let coverage = index.search("tea", 1, &|_| true).coverage;
            assert_ne!(coverage, Coverage::All, "{steps}");
        }
        for query in ["tea", "samovar sourdough"] {
            let [result, expected] =
                [&index, &expected].map(|index| index.search(query, 5, &|_| true));
            assert_eq!(result, expected, "{steps}: {query}");
        }
    }
}

/// Returns the coverages of searches during an update, for a caller who may see one skill.
fn coverages(index: &MemoryIndex, catalog: &Catalog, allowed: &str) -> Vec<Coverage> {
    let seen = RefCell::new(Vec::new());
    let record_coverage = || {
        let result = index.search("tea", 1, &|name| name == allowed);
        seen.borrow_mut().push(result.coverage);
        false
    };
    update(&index.shared, catalog, &record_coverage);
    record_coverage();
    let mut seen = seen.into_inner();
    seen.dedup();
    seen
}

#[test]
fn coverage_depends_only_on_allowed_skills() {
    let root = skills(&[("tea", "Brews tea.", "# Samovar\n")]);
    let write_others = |body: &str| {
        for number in 0..150 {
            write_skill(root.path(), &format!("other-{number}"), "Bakes.", body);
        }
    };
    write_others("");
    let catalog = open(root.path());
    let index = MemoryIndex::new();
    let first = [Coverage::Nothing, Coverage::Descriptions, Coverage::All];
    assert_eq!(coverages(&index, &catalog, "tea"), first);
    let change = [Coverage::All, Coverage::Descriptions, Coverage::All];
    write_others("one");
    assert_eq!(coverages(&index, &catalog, "tea"), [Coverage::All]);
    write_others("three");
    assert_eq!(coverages(&index, &catalog, "other-7"), change);
    write_skill(root.path(), "tea", "Brews tea.", "");
    assert_eq!(coverages(&index, &catalog, "other-7"), [Coverage::All]);
    // One change looks like many, so a caller learns nothing about changes of hidden skills.
    write_skill(root.path(), "tea", "Brews coffee.", "");
    assert_eq!(coverages(&index, &catalog, "tea"), change);
}

#[test]
fn rewritten_skills_leave_little_dead_text() {
    let root = skills(&[]);
    for number in 0..100 {
        write_skill(root.path(), &format!("plain-{number}"), "Brews tea.", "");
    }
    let catalog = open(root.path());
    // The index has no storage, so no save compacts it.
    let index = MemoryIndex::new();
    let mut first = 0;
    for round in 0..50 {
        let body: String = (0..500).map(|word| format!("r{round}w{word}\n")).collect();
        write_skill(root.path(), "busy", "Tea.", &body);
        update(&index.shared, &catalog, &|| false);
        let bytes = index.report().bytes;
        first = if round == 0 { bytes } else { first };
        assert!(bytes < 5 * first / 2, "{round}: {bytes}");
        let hits = names(&index, &format!("r{round}w7"), 99);
        assert!(hits.contains(&"busy".to_owned()), "{round}: {hits:?}");
    }
}

#[test]
fn dead_text_displaces_no_bodies() {
    let root = skills(&[]);
    let write_version = |name: &str, round: usize| {
        let body: String = (0..200)
            .map(|word| format!("{name}r{round}w{word}\n"))
            .collect();
        write_skill(root.path(), name, "Tea.", &body);
    };
    for name in ["busy", "calm", "idle", "late", "mild"] {
        write_version(name, 0);
    }
    let catalog = open(root.path());
    let bytes = MemoryIndex::build_now(&catalog).report().bytes;
    let shared = Shared {
        limits: IndexLimits {
            bodies: bytes + bytes / 10,
            skills: 2 * bytes,
        },
        ..Shared::default()
    };
    for round in 0..20 {
        write_version("busy", round);
        update(&shared, &catalog, &|| false);
        let report = shared.read().report.clone();
        assert_eq!(report.without_body.first, [] as [&str; 0], "{round}");
    }
}

#[test]
fn gives_reasons_in_the_words_of_the_skill() {
    let root = skills(&[(
        "images",
        "Compresses\u{200b} JPEG pictures.",
        "# Choosing a Quality\n\nStart with eighty.\n",
    )]);
    let index = MemoryIndex::build_now(&open(root.path()));
    let result = index.search("compress with good quality", 5, &|_| true);
    let matches = &result.hits[0].matches;
    assert!(matches.contains(&"Compresses".to_owned()), "{matches:?}");
    assert!(
        matches.contains(&"Choosing a Quality".to_owned()),
        "{matches:?}"
    );
    // A heading that equals the word is not another reason.
    let root = skills(&[("tea", "Brews.", "# Tea\n\n## Green tea\n")]);
    let index = MemoryIndex::build_now(&open(root.path()));
    let result = index.search("tea", 5, &|_| true);
    assert_eq!(result.hits[0].matches, ["tea", "Green tea"]);
}

#[test]
fn counts_synonyms_once_and_ignores_function_words() {
    let root = skills(&[
        (
            "slides",
            "Makes slides of a presentation in PowerPoint, as PPTX.",
            "",
        ),
        (
            "brand-slides",
            "Puts slides into the house colours of Otter.",
            "",
        ),
        ("tables", "Fills tables. Un de que para el la una los.", ""),
        ("jazz", "Jazz.", ""),
    ]);
    let index = MemoryIndex::build_now(&open(root.path()));
    assert_eq!(
        names(&index, "slides in the colours of Otter", 1),
        ["brand-slides"]
    );
    assert_eq!(names(&index, "para una noche de jazz", 5), ["jazz"]);
    // A single function word may be a name.
    assert_eq!(names(&index, "el jazz", 5), ["jazz", "tables"]);
}

#[test]
fn finds_only_allowed_skills_up_to_the_limit() {
    let root = skills(&[
        ("one", "Tea.", ""),
        ("two", "Tea.", ""),
        ("three", "Tea.", ""),
    ]);
    let index = MemoryIndex::build_now(&open(root.path()));
    assert_eq!(names(&index, "tea", 2), ["one", "three"]);
    let result = index.search("tea", 5, &|name| name != "one");
    let hits: Vec<String> = result.hits.into_iter().map(|hit| hit.name).collect();
    assert_eq!(hits, ["three", "two"]);
    // Other skills do not take the place of allowed ones.
    let result = index.search("tea", 2, &|name| name == "two");
    let hits: Vec<String> = result.hits.into_iter().map(|hit| hit.name).collect();
    assert_eq!(hits, ["two"]);
    assert!(names(&index, "tea", 0).is_empty());
}

/// A generator of numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// Returns a word, sometimes with a typo. Some words are similar, and some are in the
    /// thesaurus.
    fn word(&mut self) -> String {
        const WORDS: [&str; 16] = [
            "docker",
            "docket",
            "rocker",
            "locker",
            "invoice",
            "novice",
            "voices",
            "tables",
            "cables",
            "excel",
            "spreadsheet",
            "translate",
            "picture",
            "image",
            "表格",
            "GitHub",
        ];
        let mut word = WORDS[self.below(WORDS.len())].to_owned();
        if word.is_ascii() && self.below(4) == 0 {
            let position = self.below(word.len());
            let letter = ["x", "o", "e", ""][self.below(4)];
            word.replace_range(position..=position, letter);
        }
        word
    }

    fn words(&mut self, max_count: usize) -> String {
        let words: Vec<String> = (0..=self.below(max_count)).map(|_| self.word()).collect();
        words.join(" ")
    }

    fn write_skill(&mut self, roots: &[&Path], name: &str) {
        let description = self.words(5);
        let body = format!("# {}\n\n{}\n", self.words(3), self.words(8));
        for root in roots {
            write_skill(root, name, &description, &body);
        }
    }
}

#[test]
fn answers_as_if_hidden_skills_did_not_exist() {
    let mut hits = 0;
    for seed in 0..50 {
        let mut random = Random(seed);
        let (all, visible) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let both = [all.path(), visible.path()];
        let count = 2 + random.below(14);
        for number in 0..count {
            let word = random.word();
            match random.below(3) {
                0 => random.write_skill(&both[..1], &format!("hidden-{number}")),
                1 => random.write_skill(&both, &format!("changed-{number}")),
                _ => random.write_skill(&both, &format!("{word}-{number}")),
            }
        }
        let catalog = open(all.path());
        let index = MemoryIndex::build_now(&catalog);
        // Former text of skills has no effect either.
        for number in 0..random.below(count) {
            random.write_skill(&both[..1], &format!("hidden-{number}"));
            random.write_skill(&both, &format!("changed-{number}"));
        }
        update(&index.shared, &catalog, &|| false);
        let visible_index = MemoryIndex::build_now(&open(visible.path()));
        for _ in 0..40 {
            let (query, limit) = (random.words(4), 1 + random.below(5));
            let result = index.search(&query, limit, &|name| !name.starts_with("hidden-"));
            let expected = visible_index.search(&query, limit, &|_| true);
            assert_eq!(result, expected, "{seed}: {query}");
            hits += result.hits.len();
        }
    }
    assert!(hits > 2000, "{hits}");
}

#[test]
fn answers_odd_and_long_queries() {
    let root = skills(&[("tea", "Brews tea.", ""), ("bread", "Bakes bread.", "")]);
    let index = MemoryIndex::build_now(&open(root.path()));
    let random: String = (0..10_000).map(|number| format!("qx{number}zz ")).collect();
    for (query, expected) in [
        ("", 0),
        (" \n\0\u{200b}", 0),
        ("the of and", 0),
        (".*+?^${}()|[]\\", 0),
        (&"tea ".repeat(25_000), 1),
        (&"茶".repeat(35_000), 0),
        (&random, 0),
    ] {
        assert_eq!(names(&index, query, 5).len(), expected);
    }
}

#[test]
fn answers_queries_in_every_writing_system() {
    let root = skills(&[("tea", "Brews tea.", "茶 чай")]);
    let index = MemoryIndex::build_now(&open(root.path()));
    // The planes with alphabets, and hidden tags. All other planes are Han, private or unassigned.
    let all = (0..0x2_0100).chain(0xe_0000..0xe_0200);
    let all: Vec<char> = all.filter_map(char::from_u32).collect();
    for chars in all.chunks(1000) {
        // The characters as one word, and each as a word of its own.
        let word: String = chars.iter().collect();
        let words: String = chars.iter().flat_map(|c| [*c, ' ']).collect();
        for query in [word, words] {
            let hits = index.search(&query, 5, &|_| true).hits;
            assert!(hits.len() <= 1, "{:?}", &chars[..1]);
        }
    }
    for (query, count) in [("ЧАЙ", 1), ("茶", 1), ("مرحبا", 0), ("𝔱𝔢𝔞", 1)] {
        assert_eq!(names(&index, query, 5).len(), count, "{query}");
    }
}

#[test]
fn repetition_and_hidden_characters_do_not_raise_rank() {
    let words: String = (0..150).map(|number| format!("word{number} ")).collect();
    let root = skills(&[
        (
            "honest",
            "Merges invoices.",
            "# Invoices\n\nHow to merge invoices.\n",
        ),
        ("repeating", &"invoices ".repeat(100), ""),
        ("stuffed", &format!("{words} merges invoices"), ""),
        ("hiding", "Draws cats.", &"invoices\u{e0041} ".repeat(1000)),
    ]);
    let index = MemoryIndex::build_now(&open(root.path()));
    assert_eq!(names(&index, "merge my invoices", 1), ["honest"]);
    assert_eq!(names(&index, "invoices", 1), ["honest"]);
}

#[test]
fn finds_odd_files_by_their_readable_text() {
    let root = skills(&[
        ("long", &"x".repeat(1 << 20), "# Otter\n"),
        ("control", &"\u{7}".repeat(100), "# Badger\n"),
        ("linked", "Brews.", "# Heron\n"),
    ]);
    let linked = root.path().join("linked/SKILL.md");
    fs::hard_link(linked, root.path().join("link")).unwrap();
    fs::create_dir(root.path().join("empty-folder")).unwrap();
    let bytes = [0xff; 3000];
    fs::create_dir(root.path().join("binary")).unwrap();
    fs::write(root.path().join("binary/SKILL.md"), bytes).unwrap();
    write_skill(root.path(), "latin", "Steeps.", "");
    let latin = root.path().join("latin/SKILL.md");
    let mut bytes = fs::read(&latin).unwrap();
    bytes.extend(b"x\n".repeat(45_000));
    bytes.push(0xe9);
    fs::write(latin, bytes).unwrap();
    let index = MemoryIndex::build_now(&open(root.path()));
    for (query, expected) in [
        ("badger", &["control"][..]),
        ("empty folder", &[]),
        ("linked heron", &[]),
        // The file is not UTF-8.
        ("binary", &[]),
        ("long", &["long"]),
        // The file is not UTF-8 after the part that lists read.
        ("steeps", &["latin"]),
    ] {
        assert_eq!(names(&index, query, 1), expected, "{query}");
    }
    let report = index.report();
    assert_eq!((report.skills, report.unreadable.count), (6, 1));
    assert!(report.truncated.first.contains(&"latin".to_owned()));
}

#[test]
fn keeps_no_text_of_unlisted_skills() {
    let root = skills(&[("tea", "Brews.", "# Otter\n"), ("plain", "Ties knots.", "")]);
    let file = root.path().join("tea/SKILL.md");
    let listed = fs::read_to_string(&file).unwrap();
    let hidden = listed.replacen("---\n", "---\ndisable-model-invocation: true\n", 1);
    let (catalog, shared) = (open(root.path()), Shared::default());
    for (bytes, is_found) in [
        (listed.clone().into_bytes(), true),
        (hidden.into_bytes(), false),
        (listed.clone().into_bytes(), true),
        (
            listed.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            false,
        ),
    ] {
        fs::write(&file, bytes).unwrap();
        assert!(update(&shared, &catalog, &|| false));
        let content = shared.read();
        let skills = AllowedSkills::new(&content.store, &|_| true);
        assert_eq!(skills.len(), if is_found { 2 } else { 1 });
        assert_eq!(skills.count_with("otter"), u32::from(is_found));
        let skill = content.store.get("tea").unwrap();
        assert_eq!(!skill.display_text.is_empty(), is_found);
        assert_eq!(content.report.unreadable.count, 0);
    }
}

#[test]
fn changed_skills_do_not_grow_a_full_index() {
    let root = skills(&[]);
    let write_all = |words: usize| {
        for number in 0..100 {
            let words = (0..words).map(|word| format!("w{number}x{word} "));
            let description = format!("Tea. {}", words.collect::<String>());
            write_skill(root.path(), &format!("skill-{number:03}"), &description, "");
        }
    };
    write_all(1);
    let catalog = open(root.path());
    let small = MemoryIndex::build_now(&catalog).report().bytes;
    let limits = IndexLimits {
        bodies: 0,
        skills: 2 * small,
    };
    let shared = Shared {
        limits,
        ..Shared::default()
    };
    let mut before = 100;
    for (words, found) in [
        (1, 100..=100),
        (100, 1..=50),
        // A skill with the same text stays.
        (100, 1..=50),
        (1, 100..=100),
    ] {
        write_all(words);
        // The second update reads what did not fit before.
        for _ in 0..2 {
            update(&shared, &catalog, &|| false);
            let bytes = shared.read().report.bytes;
            assert!(bytes < 3 * small, "{words}: {bytes} instead of {small}");
        }
        let report = shared.read().report.clone();
        assert!(found.contains(&report.skills), "{words}: {}", report.skills);
        assert_eq!(report.skills + report.left_out.count, 100, "{words}");
        assert!(words == 1 || before == 100 || report.skills == before);
        before = report.skills;
    }
}

#[test]
fn full_index_reports_what_it_leaves_out() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..300 {
        let body: String = (0..50).map(|word| format!("w{number}x{word}\n")).collect();
        write_skill(root.path(), &format!("skill-{number:03}"), "Tea.", &body);
    }
    let catalog = open(root.path());
    let build = |limits: IndexLimits| {
        let shared = Arc::new(Shared {
            limits,
            ..Shared::default()
        });
        update(&shared, &catalog, &|| false);
        shared.read().report.clone()
    };
    let complete = build(IndexLimits::default());
    assert_eq!((complete.skills, complete.without_body.count), (300, 0));
    let without_bodies = build(IndexLimits {
        bodies: 100_000,
        skills: 1 << 20,
    });
    assert_eq!(without_bodies.skills, 300);
    assert!(without_bodies.without_body.count > 0 && without_bodies.bytes < 200_000);
    assert_eq!(without_bodies.without_body.first.len(), 10);
    let without_skills = build(IndexLimits {
        bodies: 0,
        skills: 20_000,
    });
    assert!(without_skills.left_out.count > 0);
    assert_eq!(without_skills.left_out.count + without_skills.skills, 300);
}

#[test]
fn finds_the_sample_skills_for_everyday_queries() {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../skills");
    let catalog = Catalog::open(&[SkillsRoot::new(samples)], None).unwrap();
    let index = MemoryIndex::build_now(&catalog);
    for (query, skill) in [
        ("add numbers", "calculator"),
        ("multiply two prices", "calculator"),
        ("rain tomorrow", "weather"),
        ("find trends in my csv", "data_analysis"),
        ("demo users for my database", "test_data_factory"),
    ] {
        let result = index.search(query, 1, &|_| true);
        assert_eq!(result.hits[0].name, skill, "{query}");
    }
}

#[test]
fn searches_and_reports_the_start_of_long_documents() {
    // The blank lines exceed only the limit on bytes.
    let body = format!("# Otter\n{}# Badger\n", "\n".repeat(1 << 20));
    let root = skills(&[("long", "Tea.", &body), ("short", "Tea.", "# Heron\n")]);
    let index = MemoryIndex::build_now(&open(root.path()));
    assert_eq!(names(&index, "otter", 5), ["long"]);
    assert!(names(&index, "badger", 5).is_empty());
    let report = index.report();
    assert_eq!(
        (report.truncated.count, report.truncated.first),
        (1, vec!["long".to_owned()])
    );
}
