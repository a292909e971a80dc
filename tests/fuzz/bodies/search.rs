//! Searches a catalog. The input is a request and the skills, separated by NULs.
//!
//! The first letter selects the number of repeats of each text, 1 to 1,000. A skill's first line is
//! its name, and the rest is its SKILL.md. A search ends soon, finds only existing and allowed
//! skills, at most as many as requested, and gives short reasons.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use skillhost::{Catalog, SearchHit, SkillIndex as _, SkillsRoot};
use skillhost_index::MemoryIndex;

/// The maximum size of a repeated text, in bytes. The index cuts longer texts.
const LONGEST: usize = 256 * 1024;

/// The maximum number of skills, each a file.
const MOST_SKILLS: usize = 8;

/// The time limit of a search: generous for so few skills, even on a busy machine.
const SOON: Duration = Duration::from_secs(5);

/// The maximum number of reasons for a hit. The reasons are words and a heading.
const MOST_REASONS: usize = 8;

/// The maximum length of a reason with its ellipsis, in characters.
const LONGEST_REASON: usize = 81;

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut letters = text.chars();
    let times = 10_usize.pow(letters.next().map_or(0, u32::from) % 4);
    let mut texts = letters.as_str().split('\0');
    let repeated = |text: &str| text.repeat(times.min(1 + LONGEST / text.len().max(1)));
    let request = repeated(texts.next().unwrap_or_default());

    let folder = tempfile::tempdir().unwrap();
    for (number, text) in texts.take(MOST_SKILLS).enumerate() {
        let (name, text) = text.split_once('\n').unwrap_or(("", text));
        // A number replaces an invalid or used name.
        let path = folder.path().join(name.replace('/', "."));
        let path = if name.len() > 2 && fs::create_dir(&path).is_ok() {
            path
        } else {
            let path = folder.path().join(number.to_string());
            fs::create_dir_all(&path).unwrap();
            path
        };
        fs::write(path.join("SKILL.md"), repeated(text)).unwrap();
    }
    let root = SkillsRoot::new(folder.path());
    let catalog = Arc::new(Catalog::open(&[root], None).unwrap());
    let names = catalog.names();

    let start = Instant::now();
    let index = MemoryIndex::build_now(&catalog);
    let found = index.search(&request, 5, &|_| true);
    let took = start.elapsed();
    assert!(took < SOON, "{took:?}: {text:?}");
    assert_eq!(index.search(&request, 5, &|_| true), found, "{text:?}");
    assert_eq!(index.report().skills, names.len(), "{text:?}");
    check(&found.hits, &names, 5, &text);
    for name in &names {
        let allowed = |other: &str| other == name;
        let alone = index.search(&request, 1, &allowed).hits;
        let is_found = found.hits.iter().any(|hit| hit.name == *name);
        assert!(!is_found || !alone.is_empty(), "{name:?}: {text:?}");
        check(&alone, std::slice::from_ref(name), 1, &text);
    }
}

fn check(hits: &[SearchHit], names: &[String], most: usize, text: &str) {
    assert!(hits.len() <= most, "{text:?}");
    let found: BTreeSet<&str> = hits.iter().map(|hit| hit.name.as_str()).collect();
    assert_eq!(found.len(), hits.len(), "{text:?}");
    for hit in hits {
        assert!(names.contains(&hit.name), "{hit:?}: {text:?}");
        assert!(hit.matches.len() <= MOST_REASONS, "{hit:?}: {text:?}");
        for reason in &hit.matches {
            let length = reason.chars().count();
            assert!(
                (1..=LONGEST_REASON).contains(&length),
                "{reason:?}: {text:?}"
            );
            assert!(!reason.contains('\n'), "{reason:?}: {text:?}");
        }
    }
}
