//! Roots that an operator named by mistake, and the arguments of `check`.

use std::fs;
use std::os::unix::fs::symlink;

use skillhost::{Catalog, SkillsRoot};

use crate::support::folders::Folders;
use crate::support::program::Program;

/// Writes a skill.
fn write(folders: &Folders, path: &str) {
    folders.write(&format!("{path}/SKILL.md"), "# Title\n");
}

#[test]
fn suggests_the_intended_folder() {
    let folders = Folders::new();
    for path in ["repo/skills/a", "repo/skills/b", "repo/docs/c"] {
        write(&folders, path);
    }
    write(&folders, "plugins/p/skills/d");
    write(&folders, "dots/.curated/e");
    write(&folders, "far/1/2/3/4/f");
    folders.write("odd/g/Skill.md", "# Title\n");
    folders.write("empty/README.md", "x");
    fs::create_dir(folders.root.join("links")).unwrap();
    symlink("nowhere", folders.root.join("links/a")).unwrap();
    let advice = |path: &str, depth| {
        let root = folders.root.join(path);
        let root = SkillsRoot {
            depth,
            ..SkillsRoot::new(root)
        };
        let advice = Catalog::open(&[root], None).unwrap().advice();
        advice
            .join("; ")
            .replace(folders.root.to_str().unwrap(), "ROOT")
    };
    for (path, depth, expected) in [
        ("repo/skills", 1, ""),
        ("repo", 2, ""),
        ("plugins", 3, ""),
        (
            "repo",
            1,
            "there are no skills in `ROOT/repo`, but 3 folders below hold a SKILL.md: did you \
             mean `ROOT/repo/skills`, or `--depth 2` (in a configuration `depth = 2`)?",
        ),
        (
            "links",
            1,
            "no skills were found in `ROOT/links`: skipped `ROOT/links/a`: it is a symlink; \
             `--follow-root-links`, or `follow_root_links = true` on its folder in a \
             configuration, follows it",
        ),
        (
            "plugins",
            2,
            "there are no skills in `ROOT/plugins`, but 1 folder below holds a SKILL.md: did \
             you mean `ROOT/plugins/p/skills`, or `--depth 3` (in a configuration `depth = 3`)?",
        ),
        (
            "dots",
            1,
            "there are no skills in `ROOT/dots`, but 1 folder below holds a SKILL.md: did you \
             mean `ROOT/dots/.curated`?",
        ),
        (
            "repo/skills/a",
            1,
            "`ROOT/repo/skills/a` is a skill itself, not a folder of skills; did you mean \
             `ROOT/repo/skills`?",
        ),
        (
            "far",
            1,
            "there are no skills in `ROOT/far`, but 1 folder below holds a SKILL.md: did you mean \
             `ROOT/far/1/2/3/4`, or `--depth 5` (in a configuration `depth = 5`)?",
        ),
        (
            "odd/g",
            1,
            "`ROOT/odd/g` is a skill itself, not a folder of skills; did you mean `ROOT/odd`?",
        ),
        (
            "empty",
            1,
            "there are no skills in `ROOT/empty`: no folder in it has a SKILL.md",
        ),
    ] {
        assert_eq!(advice(path, depth), expected, "{path} {depth}");
    }
    let none = Catalog::open(&[], None).unwrap().advice();
    assert!(none[0].starts_with("there are no skills: "), "{none:?}");
}

#[test]
fn every_verb_reports_missing_skills() {
    let program = Program::new();
    program.write(
        "repo/skills/a/SKILL.md",
        "---\nname: a\ndescription: A.\n---\nText\n",
    );
    let suggestion = "1 folder below holds a SKILL.md: did you mean `repo/skills`, or `--depth 2` (in a configuration `depth = 2`)?";
    let call = ["call", "read_skill", "{\"skill_name\":\"a\"}"];
    for words in [
        &["skills"][..],
        &["prompt"],
        &["tools"],
        &["grants"],
        &["check"],
        &call,
    ] {
        let run_with =
            |option: &[&str]| program.run(&[&["--skills", "repo"], option, words].concat());
        let run = run_with(&[]);
        assert!(run.stderr.contains(suggestion), "{words:?}: {}", run.stderr);
        assert_eq!(
            run.code != 0,
            ["check", "call", "skills"].contains(&words[0]),
            "{words:?}"
        );
        let run = run_with(&["--depth", "2"]);
        assert!(
            !run.stderr.contains("no skills"),
            "{words:?}: {}",
            run.stderr
        );
        assert_eq!(run.code, 0, "{words:?}");
        let run = program.run(words);
        assert!(
            run.stderr.contains("there are no skills"),
            "{words:?}: {}",
            run.stderr
        );
    }
    assert_eq!(program.run(&["--depth", "9", "skills"]).code, 2);
    for (depth, code, message) in [
        ("2", 0, ""),
        ("0", 4, "line 1: `depth` is 0, but must be from 1 to 8"),
        ("9", 4, "line 1: `depth` is 9, but must be from 1 to 8"),
    ] {
        program.write(
            "skillhost.toml",
            format!("skills = [{{ path = \"repo\", depth = {depth} }}]\n"),
        );
        let run = program.run(&["skills"]);
        assert_eq!(run.code, code, "{}", run.stderr);
        assert!(run.stderr.contains(message), "{}", run.stderr);
        assert_eq!(run.stdout, if code == 0 { "a  A.\n" } else { "" });
    }
}

#[test]
fn check_accepts_skill_md_skill_and_root() {
    let program = Program::new();
    let skill = |name: &str| format!("---\nname: {name}\ndescription: A.\n---\nText\n");
    program.write("repo/skills/a/SKILL.md", skill("a"));
    program.write("repo/skills/b/SKILL.md", skill("b"));
    program.write(
        "other/c/SKILL.md",
        "---\nname: c\ndescription: C\u{200b}.\n---\n`scripts/x.py`\n",
    );
    program.write("file.md", "x");
    symlink("/etc/hostname", program.folder.path().join("other/link.md")).unwrap();
    fs::create_dir(program.folder.path().join("out")).unwrap();
    symlink("../file.md", program.folder.path().join("out/SKILL.md")).unwrap();
    fs::create_dir(program.folder.path().join("gone")).unwrap();
    symlink("none.md", program.folder.path().join("gone/SKILL.md")).unwrap();
    for (targets, code, lines, count) in [
        (&["repo/skills/a"][..], 0, &[][..], 1),
        (&["repo/skills/a/SKILL.md"], 0, &[], 1),
        (&["repo/skills"], 0, &[], 2),
        (
            &["repo/skills", "repo/skills/a", "repo/skills/b/SKILL.md"],
            0,
            &[],
            4,
        ),
        (&["--depth", "2", "repo"], 0, &[], 2),
        (
            &["repo"],
            1,
            &[
                "repo: error: there are no skills in `repo`, but 2 folders below hold a SKILL.md: \
               did you mean `repo/skills`, or `--depth 2` (in a configuration `depth = 2`)? [no-skill]",
            ],
            1,
        ),
        (
            &["other"],
            0,
            &[
                "other/c:3: warning: `description` has the hidden character U+200B: ",
                "other/c:5: warning: the body refers to `scripts/x.py`, but ",
            ],
            1,
        ),
        (
            &["file.md"],
            1,
            &["file.md: error: it is neither a SKILL.md nor a folder"],
            1,
        ),
        (&["none"], 1, &["none: error: cannot read the skill: "], 1),
        (
            &["none/SKILL.md"],
            1,
            &["none/SKILL.md: error: cannot read the skill: "],
            1,
        ),
        (
            &["out"],
            1,
            &["out: error: `SKILL.md` is a symlink that leads out of the skill's folder, "],
            1,
        ),
        (
            &["gone/SKILL.md"],
            1,
            &["gone/SKILL.md: error: `SKILL.md` is a symlink that leads to nothing: "],
            1,
        ),
    ] {
        let run = program.run(&[&["check"], targets].concat());
        let found: Vec<&str> = run.stdout.lines().collect();
        assert_eq!(found.len(), lines.len(), "{targets:?}: {}", run.stdout);
        for (found, expected) in found.iter().zip(lines) {
            assert!(found.starts_with(expected), "{targets:?}: {found}");
        }
        assert_eq!(run.code, code, "{targets:?}: {}", run.stderr);
        let summary = format!("checked {count} skill");
        assert!(run.stderr.contains(&summary), "{targets:?}: {}", run.stderr);
    }
}
