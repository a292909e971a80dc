//! A skill's files that lists leave out: version control, installed packages, caches.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use skillhost::{Config, Contents, Host, HostBuilder, Limits, OmittedNames, SkillFiles, check};

use crate::support::folders::Folders;
use crate::support::{block_on, build, builder, builder_with_guests, call, model_text};

const READ: &str = "read_file_in_skill";

/// Makes a skill with few files of its own, and more omitted files than a manifest may list.
fn skill_in_a_checkout() -> Folders {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "---\nname: a\ndescription: A.\n---\nText\n");
    folders.write("a/scripts/run.py", "");
    folders.write("a/env/notes.md", "");
    for number in 0..600 {
        folders.write(&format!("a/.git/objects/{number}"), "x");
    }
    for path in [
        "scripts/__pycache__/run.cpython-314.pyc",
        "scripts/node_modules/x/index.js",
        "node_modules/x/README.md",
        "venv/pyvenv.cfg",
        "venv/lib/x.py",
        ".venv/lib/x.py",
        ".DS_Store",
    ] {
        folders.write(&format!("a/{path}"), "x");
    }
    folders
}

fn manifest(host: &Host) -> SkillFiles {
    block_on(host.skill_resources().unwrap().manifest("a")).unwrap()
}

fn paths(files: &SkillFiles) -> Vec<&str> {
    files.files.iter().map(|file| &*file.path).collect()
}

#[test]
fn lists_leave_out_checkouts_and_caches() {
    let folders = skill_in_a_checkout();
    let host = build(builder().skills(&folders.root));
    let expected = ["SKILL.md", "env/notes.md", "scripts/run.py"];
    let listed = manifest(&host);
    assert_eq!(listed.over, None);
    assert_eq!(paths(&listed), expected);
    let resources = host.skill_resources().unwrap();
    assert_eq!(paths(&block_on(resources.files("a")).unwrap()), expected);
    let directory = |path| {
        let entries = block_on(resources.directory("a", path)).unwrap().entries;
        entries.into_iter().map(|entry| entry.name).collect()
    };
    let top: Vec<String> = directory(None);
    assert_eq!(top, ["SKILL.md", "env", "scripts"]);
    let text = model_text(&host, "list_files_in_skill", json!({"skill_name": "a"}));
    for name in [".git", "node_modules", "__pycache__", "venv", "DS_Store"] {
        assert!(!text.contains(name), "{text}");
    }
    // The help for a wrong path also lists a folder.
    let arguments = json!({"skill_name": "a", "file_path": "scripts"});
    let error = call(&host, READ, arguments).unwrap_err();
    let help = error.help().unwrap();
    assert!(
        help.contains("run.py") && !help.contains("node_modules"),
        "{help}"
    );
}

#[test]
fn omitted_files_are_read_by_exact_path() {
    let folders = skill_in_a_checkout();
    let host = build(builder().skills(&folders.root));
    let resources = host.skill_resources().unwrap();
    for path in [".git/objects/7", "venv/lib/x.py", ".DS_Store"] {
        let arguments = json!({"skill_name": "a", "file_path": path});
        assert_eq!(model_text(&host, READ, arguments), "x", "{path}");
        let read = block_on(resources.read("a", path));
        assert_eq!(read, Ok(Contents::Text("x".to_owned())), "{path}");
    }
    let listed = block_on(resources.directory("a", Some("venv/lib"))).unwrap();
    assert_eq!(listed.entries[0].name, "x.py");
    let arguments = json!({"skill_name": "a", "path": "node_modules"});
    let text = model_text(&host, "list_files_in_skill", arguments);
    assert_eq!(text, "node_modules/x/README.md  1 B");
}

#[test]
fn lists_do_not_enter_omitted_folders() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    for number in 0..500 {
        folders.write(&format!("a/.venv/lib/{number}"), "x");
    }
    let host = |names: OmittedNames| {
        let mut limits = Limits::default();
        limits.directory_entries = 100;
        build(
            builder()
                .skills(&folders.root)
                .limits(limits)
                .omitted_names(names),
        )
    };
    let some = manifest(&host(OmittedNames::default()));
    assert_eq!((paths(&some), some.left_out_count), (vec!["SKILL.md"], 0));
    // Without omitted names, the walk enters the folder and reaches the limit.
    let all = manifest(&host(OmittedNames::new([]).unwrap()));
    assert_eq!(all.left_out_count, 1, "{all:?}");
}

#[test]
fn lists_do_not_enter_omitted_folders_by_links() {
    let folders = Folders::new();
    for path in [
        "SKILL.md",
        ".git/refs/x",
        "env/own.md",
        "node_modules/p/x.md",
        "docs/y.md",
    ] {
        folders.write(&format!("a/{path}"), "x");
    }
    for (target, link) in [
        (".git", "gl"),
        ("gl", "gl2"),
        ("node_modules/p", "nm"),
        ("../.git/refs", "docs/refs"),
        ("docs", "shown"),
        ("env", "shown-env"),
        ("circle", "circle"),
    ] {
        symlink(target, folders.root.join("a").join(link)).unwrap();
    }
    let host = build(builder().skills(&folders.root));
    let text = model_text(&host, "list_files_in_skill", json!({"skill_name": "a"}));
    for hidden in ["gl", "nm", "refs", "x.md"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    for shown in ["docs/y.md", "shown/", "env/own.md", "shown-env/"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    let read = json!({"skill_name": "a", "file_path": "gl2/refs/x"});
    assert_eq!(model_text(&host, "read_file_in_skill", read), "x");
    let findings = check::check_folder(&folders.root.join("a")).unwrap();
    let mut messages = findings.into_iter().map(|finding| finding.message);
    assert!(messages.any(|message| message.contains(" and 5 more: ")));
}

#[test]
fn lists_do_not_tell_which_files_exist_outside() {
    let folders = Folders::new();
    for path in ["SKILL.md", "own/env/pyvenv.cfg"] {
        folders.write(&format!("a/{path}"), "x");
    }
    fs::create_dir(folders.outside.join("env")).unwrap();
    for (target, link) in [
        ("../../outside", "x"),
        ("x/env", "probe"),
        ("../../outside/env", "venv"),
        ("own/env", "own-env"),
    ] {
        symlink(target, folders.root.join("a").join(link)).unwrap();
    }
    let host = build(builder().skills(&folders.root));
    let list = || model_text(&host, "list_files_in_skill", json!({"skill_name": "a"}));
    let text = list();
    assert!(text.contains("probe") && text.contains("venv"), "{text}");
    assert!(!text.contains("own-env"), "{text}");
    fs::write(folders.outside.join("env/pyvenv.cfg"), "").unwrap();
    assert_eq!(list(), text);
}

#[test]
fn configuration_replaces_omitted_names() {
    let folders = skill_in_a_checkout();
    folders.write("a/drafts/x.md", "x");
    let config = |text: &str| Config::parse(text, "skillhost.toml", &folders.root);
    let host = |text: &str| build(HostBuilder::from_config(&config(text).unwrap()).unwrap());
    let some = host("skills = [\".\"]\nomitted_names = [\"drafts\", \".git\"]\n");
    let listed = manifest(&some);
    assert!(!paths(&listed).contains(&"drafts/x.md"));
    assert!(paths(&listed).contains(&"venv/lib/x.py"));
    let all = manifest(&host("skills = [\".\"]\nomitted_names = []\n"));
    assert!(all.over.is_some(), "{all:?}");
    for name in ["", ".", "..", "a/b", "a\\u0000"] {
        let text = format!("\nomitted_names = [\".git\", \"{name}\"]\n");
        let error = config(&text).unwrap_err().to_string();
        let start = "`skillhost.toml`, line 2: `omitted_names` has `";
        assert!(error.starts_with(start), "{name}: {error}");
    }
}

#[test]
fn third_party_component_lists_omitted_files() {
    let folders = skill_in_a_checkout();
    let host = build(builder_with_guests().skills(&folders.root));
    let listed = model_text(&host, "raw_list", json!({"skill_name": "a", "path": "."}));
    for name in [".git", "node_modules", "venv", ".DS_Store"] {
        assert!(listed.contains(name), "{listed}");
    }
}

#[test]
fn check_reports_number_and_size_of_omitted_files() {
    let folders = skill_in_a_checkout();
    let finding = |path: &str| {
        let findings = check::check_folder(&folders.root.join(path)).unwrap();
        let mut found = findings.into_iter();
        let found = found.find(|finding| finding.rule == "omitted-files");
        found.map(|finding| finding.message)
    };
    assert_eq!(
        finding("a").unwrap(),
        "lists of the skill's files leave out `.DS_Store` and 6 more: 607 files with 607 \
         bytes in total; `omitted_names` changes that"
    );
    folders.write("b/SKILL.md", "x");
    assert_eq!(finding("b"), None);
    fs::create_dir(folders.root.join("b/.git")).unwrap();
    let one = finding("b").unwrap();
    assert!(
        one.contains("leave out `.git`: 0 files with 0 bytes in total"),
        "{one}"
    );
}

#[test]
fn check_counts_a_bounded_number_of_files() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("a/.venv/lib/0", "");
    for number in 1..20_100 {
        fs::write(folders.root.join(format!("a/.venv/lib/{number}")), "").unwrap();
    }
    let findings = check::check_folder(&folders.root.join("a")).unwrap();
    let mut found = findings.iter();
    let found = found.find(|finding| finding.rule == "omitted-files");
    let message = &found.unwrap().message;
    assert!(
        message.contains("leave out `.venv`: at least 19999 files"),
        "{message}"
    );
}
