//! The search index, across processes.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::support::program::{Program, Run, finish};

const SKILLS: usize = 120;

/// The log message for an index that was loaded from the cache.
const FROM_CACHE: &str = "loaded the index from the cache skills=120";

fn search(program: &Program, query: &str) -> Run {
    let query = format!("query={query}");
    let mut command = program.command(&["call", "--log", "debug", "find_skills", &query]);
    command.env("SKILLHOST_CACHE", program.folder.path().join("cache"));
    let run = finish(command, "");
    assert_eq!(run.code, 0, "{}", run.stderr);
    run
}

/// Returns the index files in the cache of confined processes.
fn cached_indexes(program: &Program) -> Vec<PathBuf> {
    let entries = fs::read_dir(program.folder.path().join("cache/confined")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "index")
    });
    paths
}

#[test]
fn reuses_index_of_earlier_process() {
    let program = Program::new();
    for number in 0..SKILLS {
        let text = format!("---\ndescription: Brews drink{number}.\n---\n# Samovar\n");
        program.write(&format!("skills/s{number}/SKILL.md"), text);
    }
    let first = search(&program, "drink7");
    assert!(first.stdout.starts_with("s7: Brews drink7."), "{first:?}");
    assert!(!first.stderr.contains(FROM_CACHE), "{}", first.stderr);
    let indexes = cached_indexes(&program);
    let [index] = &indexes[..] else {
        panic!("{indexes:?}");
    };
    assert_eq!(fs::metadata(index).unwrap().mode() & 0o777, 0o600);

    let second = search(&program, "drink7");
    assert!(second.stderr.contains(FROM_CACHE), "{}", second.stderr);
    assert_eq!(second.stdout, first.stdout);

    program.write(
        "skills/s7/SKILL.md",
        "---\ndescription: Bakes bread.\n---\n",
    );
    let changed = search(&program, "bread");
    assert!(
        changed.stdout.starts_with("s7: Bakes bread."),
        "{changed:?}"
    );
    assert!(!search(&program, "drink7").stdout.contains("s7:"));

    // A power failure can leave half of the file.
    let bytes = fs::read(index).unwrap();
    fs::write(index, &bytes[..bytes.len() / 2]).unwrap();
    let damaged = search(&program, "bread");
    assert!(!damaged.stderr.contains(FROM_CACHE), "{}", damaged.stderr);
    assert_eq!(damaged.stdout, changed.stdout);
}
