//! Catalogs: several roots, names of skills, and reported problems.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;
use skillhost::{Catalog, Listing, SkillsRoot};

use crate::support::folders::{CANARY, Folders};
use crate::support::program::run_unprivileged;
use crate::support::{build, builder, model_text};

fn list(folders: &[&Folders]) -> Listing {
    let roots: Vec<_> = folders
        .iter()
        .map(|folders| SkillsRoot::new(&folders.root))
        .collect();
    Catalog::open(&roots, None).unwrap().list()
}

fn skill_md(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\nText of {name}.\n")
}

#[test]
fn first_root_wins_and_hidden_skill_is_reported() {
    let (first, second) = (Folders::new(), Folders::new());
    first.write("both/SKILL.md", skill_md("both", "First."));
    second.write("both/SKILL.md", skill_md("both", "Second."));
    second.write("only/SKILL.md", skill_md("only", "Only."));
    let listing = list(&[&first, &second]);
    let found: Vec<_> = listing
        .skills
        .iter()
        .map(|s| (s.name.as_str(), s.description.as_str()))
        .collect();
    assert_eq!(found, [("both", "First."), ("only", "Only.")]);
    let [problem] = &listing.problems[..] else {
        panic!("{:?}", listing.problems);
    };
    assert!(
        problem.contains("/both` is hidden by a skill of the same name in an earlier folder")
            && problem.ends_with("; its full name is `root2.both`"),
        "{problem}"
    );
    let host = build(builder().skills(&first.root).skills(&second.root));
    let read = |skill| model_text(&host, "get_skill", json!({"skill_name": skill}));
    assert!(read("both").contains("First."));
    assert!(read("only").contains("Only."));
}

#[test]
fn lists_problems_of_faulty_skill_and_reads_files() {
    let folders = Folders::new();
    folders.write("good/SKILL.md", skill_md("good", "Good."));
    folders.write("none/file.txt", "text");
    folders.write(
        "broken/SKILL.md",
        "---\nname: [broken\n description: {\n---\nBody\n",
    );
    folders.write("broken/file.txt", "text");
    folders.write("Bad_Name/SKILL.md", skill_md("Bad_Name", "Named badly."));
    folders.write("Bad_Name/file.txt", "text");
    folders.write(
        "colon/SKILL.md",
        "---\nname: colon\ndescription: Use when: always\n---\nB\n",
    );
    let listing = list(&[&folders]);
    let names: Vec<_> = listing
        .skills
        .iter()
        .map(|skill| skill.name.as_str())
        .collect();
    assert_eq!(names, ["Bad_Name", "broken", "colon", "good", "none"]);
    let skill = |name| {
        listing
            .skills
            .iter()
            .find(|skill| skill.name == name)
            .unwrap()
    };
    assert_eq!(skill("good").problems, [] as [&str; 0]);
    assert_eq!(skill("colon").description, "Use when: always");
    assert_eq!(skill("none").problems, ["there is no `SKILL.md`"]);
    for (name, problem) in [("broken", "YAML"), ("Bad_Name", "only lowercase letters")] {
        let problems = skill(name).problems.join("; ");
        assert!(problems.contains(problem), "{name}: {problems}");
    }
    let host = build(builder().skills(&folders.root));
    for skill in ["none", "broken", "Bad_Name"] {
        let arguments = json!({"skill_name": skill, "file_path": "file.txt"});
        assert_eq!(model_text(&host, "read_file_in_skill", arguments), "text");
    }
}

#[test]
fn skips_entries_that_cannot_be_skills() {
    let folders = Folders::new();
    folders.write("good/SKILL.md", skill_md("good", "Good."));
    fs::write(folders.root.join("file.md"), "x").unwrap();
    fs::create_dir(folders.root.join(".git")).unwrap();
    symlink(&folders.outside, folders.root.join("linked")).unwrap();
    fs::create_dir(folders.root.join("a\\b")).unwrap();
    fs::create_dir(folders.root.join("a\nb")).unwrap();
    fs::create_dir(folders.root.join("a\u{9b}b")).unwrap();
    fs::create_dir(folders.root.join(std::ffi::OsStr::from_bytes(b"\xff\xfe"))).unwrap();
    let listing = list(&[&folders]);
    let names: Vec<_> = listing
        .skills
        .iter()
        .map(|skill| skill.name.as_str())
        .collect();
    assert_eq!(names, ["good"]);
    assert_eq!(listing.problems.len(), 5, "{:?}", listing.problems);
}

#[test]
fn reports_but_never_reads_skill_md_outside_skill() {
    let folders = Folders::new();
    fs::create_dir(folders.root.join("a")).unwrap();
    symlink(
        folders.outside.join("canary.txt"),
        folders.root.join("a/SKILL.md"),
    )
    .unwrap();
    let listing = list(&[&folders]);
    assert!(!format!("{listing:?}").contains(CANARY));
    assert_eq!(listing.skills[0].problems.len(), 1);
    let host = build(builder().skills(&folders.root));
    for tool in ["get_skill", "read_skill"] {
        let text = model_text(&host, tool, json!({"skill_name": "a"}));
        assert!(text.contains("Path traversal detected"), "{text}");
    }
}

#[test]
fn empty_root_lists_nothing() {
    let listing = list(&[&Folders::new()]);
    assert!(listing.skills.is_empty() && listing.problems.is_empty());
}

#[test]
fn each_call_reads_the_current_skill() {
    let folders = Folders::new();
    let (skill, aside) = (folders.root.join("skill"), folders.root.join("aside"));
    let write = |text: &str| folders.write("skill/file.txt", text);
    write("first");
    let host = build(builder().skills(&folders.root));
    let arguments = json!({"skill_name": "skill", "file_path": "file.txt"});
    let read = || model_text(&host, "read_file_in_skill", arguments.clone());
    let unknown = "ERROR: Skill 'skill' not found";
    type Change<'a> = (&'a str, &'a dyn Fn(), &'a str);
    let changes: [Change<'_>; 9] = [
        ("nothing", &|| {}, "first"),
        ("a changed file", &|| write("second"), "second"),
        (
            "moved away",
            &|| fs::rename(&skill, &aside).unwrap(),
            unknown,
        ),
        ("replaced", &|| write("third"), "third"),
        (
            "exchanged with the moved one",
            &|| {
                fs::rename(&skill, folders.root.join("third")).unwrap();
                fs::rename(&aside, &skill).unwrap();
            },
            "second",
        ),
        ("removed", &|| fs::remove_dir_all(&skill).unwrap(), unknown),
        ("created again", &|| write("fourth"), "fourth"),
        (
            "replaced by a link to it",
            &|| {
                fs::rename(&skill, &aside).unwrap();
                symlink(&aside, &skill).unwrap();
            },
            unknown,
        ),
        (
            "moved back",
            &|| {
                fs::remove_file(&skill).unwrap();
                fs::rename(&aside, &skill).unwrap();
            },
            "fourth",
        ),
    ];
    for (change, apply, expected) in changes {
        apply();
        for time in ["at first", "and again"] {
            let text = read();
            assert!(text.starts_with(expected), "{change}, {time}: {text}");
        }
    }
}

#[test]
fn lists_hard_linked_skill_md_only_if_allowed() {
    let folders = Folders::new();
    fs::create_dir(folders.root.join("a")).unwrap();
    let elsewhere = folders.outside.join("elsewhere.md");
    fs::write(&elsewhere, skill_md("a", CANARY)).unwrap();
    fs::hard_link(elsewhere, folders.root.join("a/SKILL.md")).unwrap();
    for allowed in [false, true] {
        let catalog = Catalog::open(&[SkillsRoot::new(&folders.root)], None).unwrap();
        let catalog = catalog.hard_links(allowed);
        let host = build(builder().skills(&folders.root).hard_links(allowed));
        let skill = catalog.read("a").unwrap();
        let file = allowed.then_some("SKILL.md");
        assert_eq!(skill.file.as_deref(), file, "{skill:?}");
        assert_eq!(skill.problems.is_empty(), allowed, "{skill:?}");
        for shown in [
            format!("{skill:?}"),
            format!("{:?}", catalog.list()),
            model_text(&host, "list_skills", json!({})),
            model_text(&host, "list_skills", json!({"limit": 10})),
        ] {
            assert_eq!(shown.contains(CANARY), allowed, "{shown}");
        }
    }
}

#[test]
fn unreadable_skill_is_not_read_from_later_root() {
    let (first, second) = (Folders::new(), Folders::new());
    first.write("both/SKILL.md", "Text of the first.\n");
    second.write("both/SKILL.md", "Text of the second.\n");
    let roots = [&first, &second].map(|folders| folders.root.to_str().unwrap().to_owned());
    let options = ["--skills", &*roots[0], "--skills", &*roots[1]];
    let call = ["call", "read_skill", "{\"skill_name\":\"both\"}"];
    let (skill, root) = (first.root.join("both"), first.root.clone());
    // In the first case the skill's folder cannot be opened. In the second the root can be listed,
    // but nothing in it can be opened.
    for (path, mode) in [(skill, 0o000), (root, 0o444)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let run = run_unprivileged(&[&options[..], &call].concat());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(run.code, 1, "{run:?}");
        for word in ["Text of", "not found"] {
            assert!(!run.stdout.contains(word), "{run:?}");
        }
    }
    let host = build(builder().skills(&first.root).skills(&second.root));
    let text = model_text(&host, "read_skill", json!({"skill_name": "both"}));
    assert_eq!(text, "Text of the first.\n");
}
