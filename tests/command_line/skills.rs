//! `skills` with a name, `find`, and the exit codes of both.

use serde_json::{Value, json};

use super::program;
use crate::support::program::Program;
use crate::support::terminal::run_on_terminal;

/// A skill with everything that `skills NAME` shows.
const TEA: &str = "---\nname: tea\ndescription: Brews\n  tea.\nlicense: MIT\n\
                   allowed-tools: Bash(kettle:*)\nmetadata:\n  author: a\nmodel: x\n---\n# Tea\n";

fn tea() -> Program {
    let program = program();
    program.write("skills/tea/SKILL.md", TEA);
    program.write("skills/tea/scripts/brew.py", "print(1)\n");
    program.write("skills/tea/scripts/a: b.py", "print(1)\n");
    program
}

#[test]
fn skills_shows_one_skill() {
    let program = tea();
    let folder = program.folder.path().canonicalize().unwrap();
    let folder = folder.join("skills/tea");
    let run = program.run(&["skills", "tea"]);
    let expected = format!(
        "tea\n  description: Brews tea.\n  folder: {}\n  files: 3 files, {} bytes\n  \
         license: MIT\n  allowed-tools: Bash(kettle:*)\n  metadata.author: a\n  model: x\n  \
         scripts:\n    \"scripts/a: b.py\"\n    scripts/brew.py\n",
        folder.display(),
        TEA.len() + 18,
    );
    assert_eq!((run.code, run.stdout), (0, expected), "{}", run.stderr);
    let run = program.run(&["skills", "tea", "--output", "json"]);
    let shown: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (&shown["files"], &shown["scripts"], &shown["declared"]),
        (
            &json!(3),
            &json!(["scripts/a: b.py", "scripts/brew.py"]),
            &json!({"license": "MIT", "allowed-tools": "Bash(kettle:*)",
                "metadata.author": "a", "model": "x"})
        )
    );
    let run = program.run(&["skills", "calculator"]);
    assert!(!run.stdout.contains("scripts"), "{}", run.stdout);
}

#[test]
fn skills_suggests_a_name_for_a_typo() {
    let program = tea();
    for (name, message) in [
        (
            "calculater",
            "there is no skill `calculater`; did you mean `calculator`?\n",
        ),
        ("zzz", "there is no skill `zzz`\n"),
        ("../skills/tea", "there is no skill `../skills/tea`\n"),
    ] {
        let run = program.run(&["skills", name]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{name}");
        assert_eq!(run.stderr, format!("skillhost: {message}"));
    }
}

#[test]
fn skills_reports_a_root_without_skills() {
    let program = tea();
    program.write("repo/skills/deep/SKILL.md", TEA);
    let run = program.run(&["skills", "--skills", "skills", "--skills", "repo"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("tea         Brews tea.\n"), "{run:?}");
    let hint = "did you mean `repo/skills`, or `--depth 2` (in a configuration `depth = 2`)?";
    assert!(run.stderr.contains(hint), "{}", run.stderr);
    let run = program.run(&["skills", "--skills", "repo", "--depth", "2"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "deep  Brews tea.\n"));
    let empty = Program::new().run(&["skills"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (1, ""));
}

#[test]
fn skills_never_cuts_a_name_on_a_terminal() {
    let program = Program::new();
    let name = "a-name-of-a-skill-that-is-longer-than-forty-columns-of-eighty";
    program.write(&format!("skills/{name}/SKILL.md"), TEA);
    let shown = run_on_terminal(&program, &["skills"], "");
    assert!(shown.text.contains(name), "{}", shown.text);
}

#[test]
fn find_searches_as_the_tool_does() {
    let program = tea();
    for number in 0..15 {
        let text = format!("---\ndescription: Ties knot {number}.\n---\n# Bowline\n");
        program.write(&format!("skills/knot-{number:02}/SKILL.md"), text);
    }
    // People can search even if agents are not offered the tool.
    program.write(
        "c.toml",
        "skills = [\"skills\"]\n[search]\nfind_skills = \"never\"\n",
    );
    for options in [&[][..], &["--config", "c.toml"]] {
        let run = program.run(&[options, &["find", "brew", "some", "tea"]].concat());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        assert!(
            run.stdout.starts_with("tea  Brews tea.\n  matches: "),
            "{}",
            run.stdout
        );
    }
    let names = |words: &[&str]| {
        let run = program.run(&[words, &["--output", "json"]].concat());
        let found: Value = serde_json::from_str(&run.stdout).unwrap();
        let found = found["skills"].as_array().unwrap().iter();
        let names: Vec<Value> = found.map(|skill| skill["name"].clone()).collect();
        (run.code, names)
    };
    assert_eq!(names(&["find", "bowline"]).1.len(), 10);
    assert_eq!(names(&["find", "bowline", "--limit", "2"]).1.len(), 2);
    assert_eq!(names(&["find", "bowline", "--limit", "100"]).1.len(), 15);
    assert_eq!(names(&["find", "zzzz"]), (1, Vec::new()));
    let run = program.run(&["find", "zzzz"]);
    assert!(run.stderr.contains("no skill fits"), "{}", run.stderr);
    for wrong in [
        &["find"][..],
        &["find", "x", "--limit", "0"],
        &["find", "x", "--limit", "101"],
    ] {
        assert_eq!(program.run(wrong).code, 2, "{wrong:?}");
    }
}
