//! New projects of tool authors. Tests of mistakes in them are in `mistakes.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::program::{Program, Run};
use crate::support::repository;

const LANGUAGES: [&str; 4] = ["rust", "python", "javascript", "c"];

fn new(program: &Program, arguments: &[&str]) -> Run {
    let mut words = vec!["new"];
    words.extend(arguments);
    program.run(&words)
}

/// Returns the paths of the files in a folder, relative to it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn new_project_is_complete_and_uses_name() {
    for language in LANGUAGES {
        let program = Program::new();
        let run = new(&program, &["find-word", "--lang", language]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{language}");
        for next in [
            "cd find-word\n",
            "skillhost build\n",
            "skillhost test dist/find_word.wasm --cases cases\n",
            "skillhost call find_word '{",
        ] {
            assert!(run.stdout.contains(next), "{language}: {}", run.stdout);
        }
        let folder = program.folder.path().join("find-word");
        let mut found = files(&folder);
        // The SDK's own files are the same in all projects.
        found.retain(|path| !path.starts_with("sdk"));
        for path in [
            "README.md",
            "skillhost.toml",
            "cases/terms.json",
            ".gitignore",
        ] {
            assert!(found.contains(&path.into()), "{language}: {path}");
        }
        let wit: Vec<_> = found
            .iter()
            .filter(|path| path.ends_with("tools.wit"))
            .collect();
        assert_eq!(wit.len(), 1, "{language}");
        assert_eq!(
            fs::read(folder.join(wit[0])).unwrap(),
            fs::read(repository().join("wit/tools.wit")).unwrap()
        );
        for path in found {
            let text = fs::read_to_string(folder.join(&path)).unwrap();
            for leftover in ["look_up_term", "look-up-term", "{{"] {
                assert!(
                    !text.contains(leftover),
                    "{language}: {}: {leftover}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn new_typed_project_is_complete_and_uses_name() {
    for language in LANGUAGES {
        let program = Program::new();
        let run = new(&program, &["find_two-words", "--typed", "--lang", language]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{language}");
        let folder = program.folder.path().join("find_two-words");
        let read = |path: &str| fs::read_to_string(folder.join(path)).unwrap();
        assert!(
            read("wit/terms.wit").contains("find-two-words: func("),
            "{language}"
        );
        assert!(
            read("cases/terms.json").contains("\"find_two_words\""),
            "{language}"
        );
        assert!(
            read("skillhost.toml").contains("find_two_words.wasm"),
            "{language}"
        );
        let (file, function) = match language {
            "rust" => ("src/lib.rs", "fn find_two_words("),
            "python" => ("tool.py", "def find_two_words("),
            "javascript" => ("src/tool.js", "findTwoWords("),
            _ => ("src/tool.c", "terms_find_two_words("),
        };
        assert!(read(file).contains(function), "{language}");
        for path in files(&folder) {
            let text = read(path.to_str().unwrap());
            // The template's tool, and the WIT package of tools without types.
            for leftover in [
                "look_up_term",
                "look-up-term",
                "lookUpTerm",
                "skillhost:tool",
            ] {
                assert!(
                    !text.contains(leftover),
                    "{language}: {}: {leftover}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn new_project_has_valid_configuration_and_cases() {
    let program = Program::new();
    new(&program, &["find-word", "--lang", "c", "--dir", "."]);
    let run = program.run(&["check"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.stderr.contains("checked 1 skill: 0 errors, 0 warnings"),
        "{run:?}"
    );
    let path = program.folder.path().join("skillhost.toml");
    let config = skillhost::Config::read(&path, &skillhost::Trust::new()).unwrap();
    assert!(config.grants.contains_key("find_word.wasm"));
    let mut cases = 0;
    for entry in fs::read_dir(program.folder.path().join("cases")).unwrap() {
        let text = fs::read(entry.unwrap().path()).unwrap();
        let found: serde_json::Value = serde_json::from_slice(&text).unwrap();
        for case in found.as_array().unwrap() {
            assert_eq!(case["tool"], "find_word");
            cases += 1;
        }
    }
    assert!(cases >= 8, "{cases}");
}

#[test]
fn rust_project_uses_chosen_sdk() {
    let sdk = repository().join("guest-tools/sdk").canonicalize().unwrap();
    let sdk = sdk.to_str().unwrap();
    for (arguments, line) in [
        (
            vec!["--sdk-path", sdk],
            format!("skillhost-guest = {{ path = \"{sdk}\" }}\n"),
        ),
        (
            vec!["--sdk-version", "^0.2"],
            "skillhost-guest = \"^0.2\"\n".to_owned(),
        ),
        (vec![], "skillhost-guest = { path = \"sdk\" }\n".to_owned()),
    ] {
        let program = Program::new();
        let mut words = vec!["find-word", "--lang", "rust"];
        let has_own_sdk = arguments.is_empty();
        words.extend(arguments);
        assert_eq!(new(&program, &words).code, 0);
        let project = program.folder.path().join("find-word");
        assert_eq!(project.join("sdk").exists(), has_own_sdk);
        let manifest = project.join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        assert!(manifest.contains(&line), "{manifest}");
    }
}
