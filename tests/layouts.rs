//! Layouts of folders of skills: symlinks, the usual places by name, hidden folders, skills in
//! skills, and Kubernetes volumes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use skillhost::{Catalog, Config, SkillsRoot, check};

use crate::support::folders::{CANARY, Folders};
use crate::support::mcp::Client;
use crate::support::program::{Program, Run, finish};
use crate::support::{block_on, build, builder, call, model_text};

mod volumes;

fn write_skill(program: &Program, path: &str) {
    let name = path.rsplit('/').next().unwrap();
    let text = format!("---\nname: {name}\ndescription: D.\n---\n{path}\n");
    program.write(&format!("{path}/SKILL.md"), text);
}

/// Runs the program in its folder `here`, with the home folder `home` beside it.
fn run(program: &Program, arguments: &[&str]) -> Run {
    let base = program.folder.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("here")).unwrap();
    let mut command = program.command(arguments);
    command
        .current_dir(base.join("here"))
        .env("HOME", base.join("home"));
    finish(command, "")
}

/// Returns the names of the listed skills, and stderr.
fn listed(program: &Program, options: &[&str]) -> (Vec<String>, String) {
    let run = run(program, &[options, &["skills"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let lines = run.stdout.lines();
    let names = lines.filter_map(|line| line.split_whitespace().next());
    (names.map(str::to_owned).collect(), run.stderr)
}

fn read(program: &Program, options: &[&str], name: &str) -> Run {
    let arguments = format!("{{\"skill_name\":\"{name}\"}}");
    run(
        program,
        &[options, &["call", "read_skill", &arguments]].concat(),
    )
}

#[test]
fn option_follows_links_in_named_roots() {
    let program = Program::new();
    write_skill(&program, "store/a");
    write_skill(&program, "store/b");
    write_skill(&program, "here/own/c");
    fs::create_dir(program.folder.path().join("here/links")).unwrap();
    for name in ["a", "b"] {
        let target = format!("../../store/{name}");
        symlink(target, program.folder.path().join("here/links").join(name)).unwrap();
    }
    let links = ["--skills", "links"];
    let run = self::run(&program, &[&links[..], &["skills"]].concat());
    assert_eq!((run.code, &*run.stdout), (1, ""), "{run:?}");
    let advice = "there are no skills in `links`: 2 symlinks such as `a` lead to skills, but are \
                  not followed; `--follow-root-links` follows symlinks in folders of `--skills`";
    assert!(run.stderr.contains(advice), "{run:?}");
    let (names, said) = listed(&program, &["--skills", "links", "--follow-root-links"]);
    assert_eq!(names, ["a", "b"]);
    assert!(!said.contains("symlink"), "{said}");
    let run = read(&program, &["--follow-root-links", "--skills", "links"], "a");
    assert_eq!(run.stdout, "store/a\n", "{run:?}");
    let checked = self::run(&program, &["check", "--follow-root-links", "links"]);
    assert!(checked.stderr.contains("checked 2 skills"), "{checked:?}");
    let checked = self::run(&program, &["check", "links"]);
    assert!(
        checked.stdout.contains("--follow-root-links"),
        "{checked:?}"
    );
}

#[test]
fn option_follows_no_link_out_of_current_folder() {
    let program = Program::new();
    write_skill(&program, "outside/secret");
    write_skill(&program, "here/store/a");
    write_skill(&program, "here/.claude/skills/plain");
    fs::create_dir(program.folder.path().join("here/skills")).unwrap();
    for root in ["here/skills", "here/.claude/skills"] {
        let at = |name: &str| program.folder.path().join(root).join(name);
        let up = if root == "here/skills" { ".." } else { "../.." };
        symlink(format!("{up}/store/a"), at("a")).unwrap();
        symlink(format!("{up}/../outside/secret"), at("secret")).unwrap();
    }
    for (options, names) in [
        (&["--follow-root-links"][..], &["a"][..]),
        (
            &["--follow-root-links", "--skills", "claude"],
            &["a", "plain"],
        ),
    ] {
        assert_eq!(listed(&program, options).0, names);
        let secret = read(&program, options, "secret");
        assert!(secret.code != 0, "{secret:?}");
        assert!(!secret.stdout.contains("outside/secret"), "{secret:?}");
        assert_eq!(read(&program, options, "a").stdout, "here/store/a\n");
    }
    let named = ["--follow-root-links", "--skills", "./.claude/skills"];
    assert_eq!(listed(&program, &named).0, ["a", "plain", "secret"]);
}

#[test]
fn names_mean_the_usual_places() {
    let program = Program::new();
    write_skill(&program, "here/.claude/skills/a");
    let claude = ["--skills", "claude"];
    assert_eq!(listed(&program, &claude).0, ["a"]);
    write_skill(&program, "home/.claude/skills/b");
    assert_eq!(listed(&program, &claude).0, ["a", "b"]);
    write_skill(&program, "home/.agents/skills/c");
    assert_eq!(listed(&program, &["--skills", "agents"]).0, ["c"]);
    let both = ["--skills", "agents", "--skills", "claude"];
    assert_eq!(listed(&program, &both).0, ["a", "b", "c"]);
    fs::remove_dir_all(program.folder.path().join("home")).unwrap();
    let run = run(&program, &["--skills", "agents", "skills"]);
    let home = program.folder.path().canonicalize().unwrap().join("home");
    let said = format!(
        "`--skills agents`: there is no folder `{}/.agents/skills`, and no usable \
         `.agents/skills` in the current folder; create one, or name another folder of skills",
        home.display()
    );
    assert!(run.code != 0 && run.stderr.contains(&said), "{run:?}");
}

#[test]
fn folder_with_a_usual_name_is_reached_by_its_path() {
    let program = Program::new();
    write_skill(&program, "here/claude/mine");
    write_skill(&program, "home/.claude/skills/b");
    let (names, said) = listed(&program, &["--skills", "claude"]);
    assert_eq!(names, ["b"]);
    assert!(said.contains("`--skills ./claude` names it"), "{said}");
    let (names, said) = listed(&program, &["--skills", "./claude"]);
    assert_eq!((names, said), (vec!["mine".to_owned()], String::new()));
}

#[test]
fn current_folder_replaces_no_skill_of_another_root() {
    let program = Program::new();
    write_skill(&program, "here/.claude/skills/a");
    write_skill(&program, "home/.claude/skills/a");
    write_skill(&program, "here/.claude/skills/b");
    write_skill(&program, "home/configured/b");
    program.write("home/skillhost.toml", "skills = [\"configured\"]\n");
    let options = ["--config", "../home/skillhost.toml", "--skills", "claude"];
    for (name, text) in [
        ("a", "home/.claude/skills/a\n"),
        ("b", "home/configured/b\n"),
    ] {
        assert_eq!(read(&program, &options, name).stdout, text);
    }
}

#[test]
fn usual_place_that_leads_out_is_not_used() {
    let program = Program::new();
    write_skill(&program, "outside/secret");
    fs::create_dir_all(program.folder.path().join("here/.claude")).unwrap();
    let place = program.folder.path().join("here/.claude/skills");
    symlink("../../outside", place).unwrap();
    let run = run(&program, &["--skills", "claude", "skills"]);
    assert!(run.code != 0 && run.stdout.is_empty(), "{run:?}");
    let said = "leads out of this folder and is not used; `--skills ./.claude/skills` uses it";
    assert!(run.stderr.contains(said), "{run:?}");
    // In the home folder, the symlink is followed: only the user can make it.
    write_skill(&program, "home/dotfiles/b");
    fs::create_dir(program.folder.path().join("home/.claude")).unwrap();
    let place = program.folder.path().join("home/.claude/skills");
    symlink("../dotfiles", place).unwrap();
    assert_eq!(listed(&program, &["--skills", "claude"]).0, ["b"]);
}

fn config(text: &str, folder: &Path) -> anyhow::Result<Config> {
    Config::parse(text, "skillhost.toml", folder)
}

#[test]
fn root_names_hidden_folders_to_search() {
    let folders = Folders::new();
    for path in [
        "skills/.curated/a",
        "skills/.system/b",
        "skills/.git/c",
        "skills/.venv/d",
        "skills/e",
        "skills/.curated/.git/f",
        ".hidden",
    ] {
        folders.write(&format!("{path}/SKILL.md"), "x");
    }
    let catalog = |hidden: &str| {
        let text = format!("skills = [{{ path = \".\", depth = 4{hidden} }}]\n");
        let config = config(&text, &folders.root).unwrap();
        Catalog::open(&config.skills_roots().unwrap(), None).unwrap()
    };
    assert_eq!(catalog("").names(), ["e"]);
    let some = catalog(", hidden = [\".curated\"]");
    assert_eq!(some.names(), ["a", "e"]);
    assert!(some.skill("a", Default::default()).is_ok());
    let all = catalog(", hidden = true");
    assert_eq!(all.names(), ["a", "b", "e"]);
    let problems = all.problems().join("; ");
    assert!(problems.contains("must not start with a dot"), "{problems}");
    assert_eq!(catalog(", hidden = false").names(), ["e"]);
    for (key, said) in [
        (
            "depth = 2, hidden = [\".git\"]",
            "needs names of hidden folders",
        ),
        (
            "depth = 2, hidden = [\"a\"]",
            "needs names of hidden folders",
        ),
        (
            "depth = 2, hidden = [\"../a\"]",
            "needs names of hidden folders",
        ),
        ("hidden = true", "`hidden` needs a `depth` of 2 or more"),
    ] {
        let text = format!("skills = [{{ path = \".\", {key} }}]\n");
        let error = config(&text, &folders.root).unwrap_err().to_string();
        assert!(error.contains(said), "{key}: {error}");
    }
}

#[test]
fn skill_in_a_skill_is_reported() {
    let folders = Folders::new();
    for path in ["a", "a/inner/b", "a/inner/b/deeper", "a/.git/c", "plain"] {
        folders.write(&format!("{path}/SKILL.md"), "x");
    }
    let root = |path: &str| SkillsRoot::new(folders.root.join(path));
    let catalog = |roots: &[SkillsRoot]| Catalog::open(roots, None).unwrap();
    let nested_count = |catalog: &Catalog, name: &str| {
        let findings = catalog.check(name).unwrap().unwrap();
        let nested = findings.iter().filter(|it| it.rule == "nested-skill");
        nested.count()
    };
    let outer = catalog(&[root("")]);
    assert_eq!(
        outer.nested_skills(),
        [
            "`a`: `inner/b/SKILL.md` counts as a file of this skill, not as a skill: move its \
             folder out of this one, or name its folder's parent as a folder of skills"
        ]
    );
    assert_eq!(
        (nested_count(&outer, "a"), nested_count(&outer, "plain")),
        (1, 0)
    );
    let both = catalog(&[root(""), root("a/inner")]);
    let nested = both.nested_skills();
    assert_eq!(nested.len(), 1, "{nested:?}");
    assert!(
        nested[0].starts_with("`b`: `deeper/SKILL.md` "),
        "{nested:?}"
    );
    assert_eq!(nested_count(&both, "a"), 0);
    let findings = check::check_folder(&folders.root.join("a")).unwrap();
    assert!(
        findings
            .iter()
            .any(|finding| finding.rule == "nested-skill")
    );
    let program = Program::new();
    write_skill(&program, "here/skills/a");
    write_skill(&program, "here/skills/a/b");
    let (names, said) = listed(&program, &[]);
    assert_eq!(names, ["a"]);
    assert!(said.contains("`b/SKILL.md` counts as a file"), "{said}");
}

#[test]
fn links_in_a_circle_are_one_problem() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    for number in 0..1000 {
        let next = format!("l{:03}", (number + 1) % 1000);
        symlink(next, folders.root.join(format!("l{number:03}"))).unwrap();
    }
    for (follow_links, depth, why) in [
        (false, 1, "it is a symlink"),
        (true, 1, "Too many levels"),
        (true, 3, ""),
    ] {
        let root = SkillsRoot {
            follow_links,
            depth,
            ..SkillsRoot::new(&folders.root)
        };
        let catalog = Catalog::open(&[root], None).unwrap();
        assert_eq!(catalog.names(), ["a"]);
        let problems = catalog.list().problems;
        if why.is_empty() {
            assert_eq!(problems, [""; 0]);
            continue;
        }
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0].contains("/l000` and 999 more: "),
            "{problems:?}"
        );
        assert!(problems[0].contains(why), "{problems:?}");
    }
}

#[test]
fn names_in_two_unicode_forms_are_reported() {
    let folders = Folders::new();
    for name in ["caf\u{e9}", "cafe\u{301}", "th\u{e9}"] {
        folders.write(&format!("{name}/SKILL.md"), name);
    }
    let host = build(builder().skills(&folders.root));
    assert_eq!(
        host.catalog().problems(),
        [
            "2 skills are named `caf\u{e9}`, in different Unicode forms of the same letters; \
             rename all but one"
        ]
    );
    for name in ["caf\u{e9}", "cafe\u{301}"] {
        let text = model_text(&host, "read_skill", json!({"skill_name": name}));
        assert_eq!(text, name);
    }
}
