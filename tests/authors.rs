//! Mistakes of tool authors, and the message for each. `tests/kits/run` makes those that
//! need a compiler for WebAssembly.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::program::{Program, Run, finish};
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
fn a_new_project_is_complete_and_has_the_tools_name() {
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
        let found = files(&folder);
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
            for word in ["look_up_term", "look-up-term", "{{"] {
                assert!(
                    !text.contains(word),
                    "{language}: {}: {word}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn a_new_typed_project_is_complete_and_has_the_functions_name_in_each_spelling() {
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
            for word in [
                "look_up_term",
                "look-up-term",
                "lookUpTerm",
                "skillhost:tool",
            ] {
                assert!(
                    !text.contains(word),
                    "{language}: {}: {word}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn a_new_project_has_a_valid_configuration_skill_and_cases() {
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
fn a_rust_project_takes_the_sdk_from_the_given_place() {
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
        (vec![], "skillhost-guest = \"0.1.0\"\n".to_owned()),
    ] {
        let program = Program::new();
        let mut words = vec!["find-word", "--lang", "rust"];
        words.extend(arguments);
        assert_eq!(new(&program, &words).code, 0);
        let manifest = program.folder.path().join("find-word/Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        assert!(manifest.contains(&line), "{manifest}");
    }
}

/// A mistake: the files in the folder, the arguments, the exit code, and the texts on
/// stderr, about the mistake and its fix.
type Mistake = (
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
    i32,
    &'static [&'static str],
);

const MISTAKES: &[Mistake] = &[
    (
        &[("find-word/notes.txt", "mine")],
        &["new", "find-word", "--lang", "python"],
        2,
        &["the folder `find-word` exists and is not empty", "`--dir`"],
    ),
    (
        &[("find-word", "mine")],
        &["new", "find-word", "--lang", "python"],
        2,
        &["cannot use `find-word`", "`--dir`"],
    ),
    (
        &[],
        &["new", "FindWord", "--lang", "python"],
        2,
        &["`FindWord` cannot name a tool", "such as `find-word`"],
    ),
    (
        &[],
        &["new", "../find\nword", "--lang", "c"],
        2,
        &["`../find\\nword` cannot name a tool", "such as `find-word`"],
    ),
    (
        &[],
        &["new", "import", "--lang", "python"],
        2,
        &["`import` is a reserved word", "`import-text`"],
    ),
    (
        &[],
        &["new", "read-skill", "--lang", "c"],
        2,
        &[
            "`read-skill` is the name of a built-in tool",
            "choose another",
        ],
    ),
    (
        &[],
        &["new", "find-word", "--lang", "pyton"],
        2,
        &[
            "invalid value 'pyton'",
            "'python'",
            "rust, python, javascript, c",
        ],
    ),
    (&[], &["new", "find-word"], 2, &["--lang <LANG>"]),
    (
        &[],
        &["new", "u8", "--lang", "c", "--typed"],
        2,
        &["`u8` cannot name a function in WIT", "starts with a letter"],
    ),
    (
        &[],
        &[
            "new",
            "find-word",
            "--lang",
            "python",
            "--sdk-version",
            "0.1.0",
        ],
        2,
        &["`--sdk-path` and `--sdk-version` are for `--lang rust`"],
    ),
    (
        &[],
        &[
            "new",
            "find-word",
            "--lang",
            "rust",
            "--sdk-version",
            "\"}\n[x]",
        ],
        2,
        &["is not a version, such as `0.1.0`"],
    ),
    (
        &[("sdk/Cargo.toml", "[package]\nname = \"other\"\n")],
        &["new", "find-word", "--lang", "rust", "--sdk-path", "sdk"],
        2,
        &["`sdk` is not the crate `skillhost-guest`"],
    ),
    (
        &[],
        &["build"],
        2,
        &[
            "there is no tool project in `.`",
            "tool.py (Python)",
            "`skillhost new NAME",
        ],
    ),
    (
        &[],
        &["build", "nowhere"],
        2,
        &["cannot use the folder `nowhere`"],
    ),
    (
        &[("Cargo.toml", ""), ("tool.py", "")],
        &["build"],
        2,
        &["`Cargo.toml` (Rust) and `tool.py` (Python)", "`--lang`"],
    ),
    (
        &[("tool.py", "")],
        &["build"],
        1,
        &[
            "has no `wit/world.wit`, which a project in Python needs",
            "`skillhost new`",
        ],
    ),
    (
        &[("package.json", "{}")],
        &["build"],
        1,
        &["has no `src/tool.js`", "`skillhost new`"],
    ),
    (
        &[("module.wasm", "\0asm\x01\0\0\0")],
        &["inspect", "module.wasm"],
        4,
        &["it is a core module, not a component", "`skillhost build`"],
    ),
    (
        &[("dist/module.wasm", "\0asm\x01\0\0\0")],
        &["call", "list_skills", "--tools", "dist"],
        0,
        &["module.wasm", "it is a core module, not a component"],
    ),
    (
        &[("dist/none.wasm", "\0asm\x0d\0\x01\0")],
        &["call", "list_skills", "--tools", "dist"],
        0,
        &["none.wasm", "it does not export `skillhost:tool/tools@"],
    ),
    (
        &[("dist/tool.wasm", "print('hello')\n")],
        &["inspect", "dist/tool.wasm"],
        4,
        &[
            "`dist/tool.wasm` is not a component",
            "it is not WebAssembly",
            "`skillhost build` makes a component",
        ],
    ),
    (
        &[],
        &["test", "dist/find_word.wasm"],
        4,
        &[
            "`dist/find_word.wasm`",
            "the file does not exist; `skillhost build` makes one",
        ],
    ),
    (
        &[("dist/notes.txt", "mine")],
        &["test", "dist"],
        4,
        &["`dist`", "it is a folder: name the `.wasm` file in it"],
    ),
    // This project was not built yet.
    (
        &[
            (
                "skillhost.toml",
                "tools = [\"dist\"]\n[grants.\"find_word.wasm\"]\nskills = [\"a\"]\n",
            ),
            ("dist/.gitkeep", ""),
        ],
        &["call", "find_word", "{}"],
        4,
        &[
            "`skillhost.toml` grants something to `find_word.wasm`",
            "`skillhost build` makes one of a tool project",
        ],
    ),
    // This grant is for a tool that was renamed.
    (
        &[("skillhost.toml", "[grants.list_skill]\nskills = [\"a\"]\n")],
        &["call", "list_skills"],
        4,
        &[
            "`[grants.list_skill]` names no built-in tool",
            "did you mean `list_skills`?",
        ],
    ),
    (
        &[("tool.py", "")],
        &["build", "tool.py"],
        2,
        &["`tool.py` is not a folder"],
    ),
    (
        &[("src/tool.c", "int x;"), ("wit/world.wit", "package a:b;")],
        &["build"],
        1,
        &[
            "has no `requirements.txt`",
            "`skillhost new`",
            "copy the file",
        ],
    ),
];

#[test]
fn a_message_names_the_mistake_and_its_fix() {
    for (files, arguments, code, messages) in MISTAKES {
        let program = Program::new();
        for (path, content) in *files {
            program.write(path, content);
        }
        let run = program.run(arguments);
        assert_eq!(run.code, *code, "{arguments:?}: {run:?}");
        for message in *messages {
            assert!(
                run.stderr.contains(message),
                "{arguments:?}: {}",
                run.stderr
            );
        }
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        for (path, content) in *files {
            let path = program.folder.path().join(path);
            assert_eq!(fs::read(path).unwrap(), content.as_bytes(), "{arguments:?}");
        }
    }
}

#[test]
fn a_missing_compiler_is_named_with_its_source() {
    for (language, missing, place) in [
        (
            "rust",
            "there is no `cargo` on the PATH",
            "https://rustup.rs",
        ),
        (
            "python",
            "there is no `python3` on the PATH",
            "`python3-venv`",
        ),
        (
            "javascript",
            "there is no `node` on the PATH",
            "https://nodejs.org",
        ),
        ("c", "there is no `python3` on the PATH", "`python3-venv`"),
    ] {
        let program = Program::new();
        new(&program, &["find-word", "--lang", language]);
        let mut command = program.command(&["build", "find-word"]);
        command.env("PATH", program.folder.path());
        let run = finish(command, "");
        assert_eq!(run.code, 4, "{language}: {run:?}");
        assert!(run.stderr.contains(missing), "{language}: {}", run.stderr);
        assert!(run.stderr.contains(place), "{language}: {}", run.stderr);
    }
}

/// Scripts stand for compilers that are too old or lack the target.
#[test]
fn an_unsuitable_compiler_is_named_with_what_it_lacks() {
    for (language, programs, lacks) in [
        (
            "rust",
            [
                ("cargo", "exit 0"),
                (
                    "rustc",
                    "[ \"$1\" = --version ] && echo rustc 1.95.0 || exit 1",
                ),
            ],
            [
                "rustc 1.95.0 lacks the target `wasm32-wasip2`",
                "`rustup target add wasm32-wasip2`",
            ],
        ),
        (
            "python",
            [("python3", "echo 3 8"), ("other", "")],
            [
                "is Python 3.8; Python 3.10 or newer is needed",
                "python.org",
            ],
        ),
        (
            "javascript",
            [("node", "echo v18.1.0"), ("npm", "exit 1")],
            [
                "is Node.js v18.1.0; Node.js 20 or newer is needed",
                "nodejs.org",
            ],
        ),
    ] {
        let program = Program::new();
        new(&program, &["find-word", "--lang", language]);
        for (name, script) in programs {
            program.script(&format!("bin/{name}"), script);
        }
        let mut command = program.command(&["build", "find-word"]);
        command.env("PATH", program.folder.path().join("bin"));
        let run = finish(command, "");
        assert_eq!(run.code, 4, "{language}: {run:?}");
        for text in lacks {
            assert!(run.stderr.contains(text), "{language}: {}", run.stderr);
        }
    }
}

#[test]
fn a_tool_without_a_grant_is_refused_with_the_setting_that_would_allow_it() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let guests = crate::support::guests();
    let run = program.run(&[
        "call",
        "count_lines",
        "{\"skill_name\": \"a\", \"path\": \"SKILL.md\"}",
        "--tools",
        guests.to_str().unwrap(),
    ]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(
        run.stderr
            .contains("`grants.\"count_lines.wasm\".skills` in skillhost.toml would change it"),
        "{}",
        run.stderr
    );
}
