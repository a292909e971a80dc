//! Roots with `depth`, skills with the same name, and the files found in a skill's folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;
use skillhost::{Grant, Host, MAX_DEPTH, SkillsRoot};

use crate::support::folders::{CANARY, Folders};
use crate::support::watchdog::wait_until;
use crate::support::{build, builder, model_text};

fn root_with_depth(path: impl AsRef<Path>, depth: usize) -> SkillsRoot {
    SkillsRoot {
        depth,
        ..SkillsRoot::new(path.as_ref())
    }
}

/// Writes a skill with its path in its text.
fn write(folders: &Folders, path: &str) {
    let name = path.rsplit('/').next().unwrap();
    let text = format!("---\nname: {name}\ndescription: At {path}.\n---\nText of {path}.\n");
    folders.write(&format!("{path}/SKILL.md"), text);
}

/// Returns the text of a skill for the model.
fn read(host: &Host, skill: &str) -> String {
    model_text(host, "read_skill", json!({"skill_name": skill}))
}

#[test]
fn finds_skills_to_depth_and_none_inside_skills() {
    let folders = Folders::new();
    for path in [
        "top",
        "a/one",
        "b/two",
        "b/c/three",
        "top/inner",
        "b/two/in",
    ] {
        write(&folders, path);
    }
    folders.write("a/odd/Skill.mD", "Odd spelling.\n");
    folders.write("a/none/README.md", "No skill.\n");
    write(&folders, "a/.hidden");
    write(&folders, ".git/four");
    for (depth, expected) in [
        (2, &["odd", "one", "top", "two"][..]),
        (3, &["odd", "one", "three", "top", "two"]),
        (MAX_DEPTH, &["odd", "one", "three", "top", "two"]),
        (usize::MAX, &["odd", "one", "three", "top", "two"]),
    ] {
        let host = build(builder().skills_root(root_with_depth(&folders.root, depth)));
        assert_eq!(host.catalog().names(), expected, "{depth}");
        let listing = host.catalog().list();
        let names: Vec<_> = listing.skills.iter().map(|skill| &*skill.name).collect();
        assert_eq!(names, expected, "{depth}");
        assert_eq!(listing.problems, [] as [String; 0], "{depth}");
        assert_eq!(read(&host, "one"), "Text of a/one.\n");
        assert_eq!(read(&host, "odd"), "Odd spelling.\n");
        for no_skill in [
            "a", "b", "none", "inner", "in", ".hidden", "a/one", "a.one", "four",
        ] {
            let text = read(&host, no_skill);
            assert!(text.contains("not found"), "{depth} {no_skill}: {text}");
        }
    }
}

#[test]
fn skills_with_same_name_get_distinct_names() {
    let folders = Folders::new();
    for path in ["b/x", "a/x", "c/d/x", "a/y", "e/b.x", "f/c/d.x", "c.d/x"] {
        write(&folders, path);
    }
    let host = |skills: &[&str]| {
        let grant = Grant::new().skills(skills).unwrap();
        let host = builder().skills_root(root_with_depth(&folders.root, 3));
        build(host.grant("read_skill", grant))
    };
    let all = host(&["*"]);
    let skills_with_paths = [
        ("x", "a/x"),
        ("b.x", "b/x"),
        ("c.d.x", "c/d/x"),
        ("y", "a/y"),
        // The folder `e/b.x` is not named `b.x`, because `b/x` already has this name.
        ("e.b.x", "e/b.x"),
        ("d.x", "f/c/d.x"),
    ];
    for (name, path) in skills_with_paths {
        assert_eq!(read(&all, name), format!("Text of {path}.\n"));
        let file = folders.root.join(path).join("SKILL.md");
        let text = model_text(&all, "read_skill_file", json!({"path": file}));
        assert!(text.contains(&format!("At {path}.")), "{text}");
        // A grant of one name covers nothing else.
        let one = host(&[name]);
        for (other, _) in skills_with_paths {
            let text = read(&one, other);
            assert_eq!(text.starts_with("Text of"), other == name, "{name}: {text}");
        }
        let definitions = one.definitions();
        let tool = definitions.iter().find(|tool| tool.name == "read_skill");
        let property = &tool.unwrap().input_schema["properties"]["skill_name"];
        assert_eq!(property["enum"], json!([name]));
    }
    let listing = all.catalog().list();
    assert_eq!(listing.skills.len(), skills_with_paths.len());
    let skipped = listing
        .problems
        .iter()
        .filter(|problem| problem.starts_with("skipped"));
    let skipped: Vec<_> = skipped.collect();
    assert!(
        skipped.len() == 1 && skipped[0].contains("/c.d/x`"),
        "{skipped:?}"
    );
    // The name in SKILL.md is compared with the folder's name, in which a dot is a problem.
    for skill in &listing.skills {
        let is_dotted = skill.name == "e.b.x" || skill.name == "d.x";
        assert_eq!(skill.problems.is_empty(), !is_dotted, "{}", skill.name);
    }
    let reported = |name: &str| {
        let problems = &listing.problems;
        problems
            .iter()
            .any(|problem| problem.contains(&format!("is the skill `{name}`, ")))
    };
    assert_eq!(listing.problems.len(), 4, "{:?}", listing.problems);
    assert!(reported("b.x") && reported("c.d.x") && reported("e.b.x"));
}

#[test]
fn skill_hidden_by_earlier_root_has_numbered_name() {
    let (first, second) = (Folders::new(), Folders::new());
    write(&first, "both");
    write(&second, "both");
    write(&second, "only");
    write(&second, "root1.only");
    for folders in [&first, &second] {
        write(folders, "all");
        folders.write("all/which.txt", "all");
    }
    write(&first, "root2.all");
    first.write("root2.all/which.txt", "first root2.all");
    let host = |skills: &[&str]| {
        let grant = Grant::new().skills(skills).unwrap();
        let host = builder().skills(&first.root).skills(&second.root);
        build(host.grant("read_file_in_skill", grant))
    };
    second.write("both/which.txt", "second");
    first.write("both/which.txt", "first");
    second.write("only/which.txt", "only");
    second.write("root1.only/which.txt", "root1.only");
    let read = |host: &Host, skill: &str| {
        let arguments = json!({"skill_name": skill, "file_path": "which.txt"});
        model_text(host, "read_file_in_skill", arguments)
    };
    let all = host(&["*"]);
    for (name, expected) in [
        ("both", "first"),
        ("root2.both", "second"),
        ("only", "only"),
        // `root1.only` is a folder. Nothing hides the skill `only`, so it has no numbered name.
        ("root1.only", "root1.only"),
        // The earlier root's folder wins, and the lists name it.
        ("root2.all", "first root2.all"),
    ] {
        assert_eq!(read(&all, name), expected);
    }
    for name in [
        "root1.both",
        "root2.only",
        "root02.both",
        "root+2.both",
        "root3.both",
    ] {
        assert!(read(&all, name).contains("not found"), "{name}");
    }
    // No list names the second root's `both`, because the operator's order hides it.
    assert_eq!(
        all.catalog().names(),
        ["all", "both", "only", "root1.only", "root2.all"]
    );
    assert!(!read(&host(&["both"]), "root2.both").contains("second"));
    assert_eq!(read(&host(&["root2.both"]), "root2.both"), "second");
    assert!(!read(&host(&["root2.both"]), "both").contains("first"));
}

#[test]
fn call_notices_added_moved_and_removed_skills() {
    let folders = Folders::new();
    write(&folders, "a/one");
    let host = build(builder().skills_root(root_with_depth(&folders.root, 2)));
    let path = |path: &str| folders.root.join(path);
    assert_eq!(read(&host, "one"), "Text of a/one.\n");
    type Change<'a> = (&'a str, &'a dyn Fn(), &'a str);
    let changes: [Change<'_>; 6] = [
        (
            "a move to another author",
            &|| {
                fs::create_dir(path("b")).unwrap();
                fs::rename(path("a/one"), path("b/one")).unwrap();
            },
            "Text of a/one.\n",
        ),
        (
            "an author's folder behind a symlink",
            &|| {
                fs::rename(path("b"), folders.outside.join("b")).unwrap();
                symlink(folders.outside.join("b"), path("b")).unwrap();
            },
            "Error: Skill 'one' not found.",
        ),
        (
            "a new skill",
            &|| write(&folders, "c/one"),
            "Text of c/one.\n",
        ),
        (
            "a symlink instead of the skill",
            &|| {
                fs::rename(path("c/one"), path("aside")).unwrap();
                symlink(&folders.outside, path("c/one")).unwrap();
            },
            "Error: Skill 'one' not found.",
        ),
        (
            "a folder without SKILL.md",
            &|| {
                fs::remove_file(path("c/one")).unwrap();
                fs::create_dir(path("c/one")).unwrap();
            },
            "Error: Skill 'one' not found.",
        ),
        (
            "a new SKILL.md",
            &|| write(&folders, "c/one"),
            "Text of c/one.\n",
        ),
    ];
    for (change, make, expected) in changes {
        make();
        // The host searches the folders again only after a while.
        wait_until(&format!("{change} is not noticed"), || {
            let text = read(&host, "one");
            assert!(!text.contains(CANARY), "{change}");
            text == expected
        });
    }
}

#[test]
fn does_not_search_linked_folders_for_skills() {
    let folders = Folders::new();
    write(&folders, "a/one");
    fs::create_dir_all(folders.outside.join("linked/inner")).unwrap();
    for path in ["linked/SKILL.md", "linked/inner/SKILL.md"] {
        fs::write(folders.outside.join(path), "# Linked\n").unwrap();
    }
    fs::create_dir(folders.outside.join("author")).unwrap();
    fs::rename(
        folders.outside.join("linked/inner"),
        folders.outside.join("author/inner"),
    )
    .unwrap();
    for (target, link) in [
        ("linked", "linked"),
        ("author", "author"),
        // Authors control the links in their folders.
        ("linked", "a/evil"),
        ("author", "a/author"),
    ] {
        symlink(folders.outside.join(target), folders.root.join(link)).unwrap();
    }
    for (follow_links, expected) in [(false, &["one"][..]), (true, &["linked", "one"])] {
        let root = SkillsRoot {
            follow_links,
            ..root_with_depth(&folders.root, MAX_DEPTH)
        };
        let host = build(builder().skills_root(root));
        assert_eq!(host.catalog().names(), expected);
        assert_eq!(read(&host, "linked") == "# Linked\n", follow_links);
        for name in ["inner", "evil"] {
            assert!(read(&host, name).contains("not found"), "{name}");
        }
        let path = folders.root.join("a/evil/SKILL.md");
        let text = model_text(&host, "read_skill_file", json!({"path": path}));
        assert!(!text.contains("# Linked"), "{text}");
        let problems = host.catalog().problems();
        assert_eq!(
            problems.len(),
            if follow_links { 2 } else { 4 },
            "{problems:?}"
        );
    }
}

#[test]
fn finds_skill_md_in_every_letter_case() {
    let folders = Folders::new();
    for spelling in ["SKILL.md", "SKILL.MD", "skill.md", "Skill.Md"] {
        folders.write(
            &format!("{}/{spelling}", spelling.replace('.', "_")),
            spelling,
        );
    }
    folders.write("both/SKILL.md", "upper");
    folders.write("both/skill.md", "lower");
    folders.write("none/docs/SKILL.md", "deeper");
    let host = build(builder().skills(&folders.root));
    let paths = ["SKILL.md", "SKILL.MD", "skill.md", "sKILL.md", "./SKILL.md"];
    let files = |skill: &str, path: &str| {
        [
            model_text(
                &host,
                "read_file_in_skill",
                json!({"skill_name": skill, "file_path": path}),
            ),
            model_text(
                &host,
                "read_skill_file",
                json!({"skill_name": skill, "path": path}),
            ),
        ]
    };
    for spelling in ["SKILL.md", "SKILL.MD", "skill.md", "Skill.Md"] {
        let skill = spelling.replace('.', "_");
        for path in paths {
            assert_eq!(files(&skill, path), [spelling; 2], "{path} of {skill}");
        }
        assert_eq!(read(&host, &skill), spelling);
        let text = model_text(&host, "get_skill", json!({"skill_name": skill}));
        assert!(
            text.contains(&format!("\"documentation\": \"{spelling}\"")),
            "{text}"
        );
    }
    // A file with exactly the requested name wins.
    assert_eq!(files("both", "skill.md"), ["lower"; 2]);
    assert_eq!(files("both", "SKILL.MD"), ["upper"; 2]);
    for (skill, path) in [
        ("none", "SKILL.md"),
        ("none", "docs/skill.md"),
        ("both", "skill.txt"),
    ] {
        for text in files(skill, path) {
            assert!(text.contains("not found"), "{text}");
        }
    }
}

#[test]
fn first_paragraph_describes_a_skill_without_description() {
    let folders = Folders::new();
    folders.write("bare/SKILL.md", "# Title\n\nReads PDF\nfiles.\n\nMore.\n");
    folders.write(
        "empty/SKILL.md",
        "---\nname: empty\ndescription: ''\n---\nBy its text.\n",
    );
    folders.write(
        "given/SKILL.md",
        "---\nname: given\ndescription: Given.\n---\nText.\n",
    );
    folders.write("nothing/SKILL.md", "---\nname: nothing\n---\n");
    let host = build(builder().skills(&folders.root));
    let listed = model_text(&host, "list_skills", json!({}));
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let expected = json!({"skills": [
        {"name": "bare", "description": "Reads PDF files."},
        {"name": "empty", "description": "By its text."},
        {"name": "given", "description": "Given."},
        {"name": "nothing", "description": ""},
    ]});
    assert_eq!(listed, expected);
}

#[test]
fn follows_no_link_that_replaces_skill() {
    let folders = Folders::new();
    write(&folders, "author/a");
    fs::create_dir_all(&folders.outside).unwrap();
    fs::write(folders.outside.join("SKILL.md"), CANARY).unwrap();
    let root = SkillsRoot {
        follow_links: true,
        ..root_with_depth(&folders.root, 2)
    };
    let host = build(builder().skills_root(root));
    assert_eq!(read(&host, "a"), "Text of author/a.\n");
    // The search has found the skill; the call opens its folder again.
    fs::rename(folders.root.join("author/a"), folders.root.join("author/b")).unwrap();
    symlink(&folders.outside, folders.root.join("author/a")).unwrap();
    let text = read(&host, "a");
    assert!(!text.contains(CANARY), "{text}");
}

#[test]
fn follows_no_link_that_replaces_parent_of_skill() {
    let folders = Folders::new();
    write(&folders, "author/a");
    fs::create_dir_all(folders.outside.join("author/a")).unwrap();
    fs::write(folders.outside.join("author/a/SKILL.md"), CANARY).unwrap();
    let root = SkillsRoot {
        follow_links: true,
        ..root_with_depth(&folders.root, 2)
    };
    let host = build(builder().skills_root(root));
    assert_eq!(read(&host, "a"), "Text of author/a.\n");
    // The search has found the skill; the call opens its path step by step.
    let author = folders.root.join("author");
    fs::rename(&author, folders.outside.join("moved")).unwrap();
    symlink(folders.outside.join("author"), &author).unwrap();
    for text in [
        read(&host, "a"),
        model_text(
            &host,
            "read_skill_file",
            json!({"path": author.join("a/SKILL.md")}),
        ),
        format!("{:?}", host.catalog().read("a")),
    ] {
        assert!(!text.contains(CANARY), "{text}");
    }
}
