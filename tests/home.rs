//! The home folder, which calls of `read_skill_file` read if they name no skill.

use std::fs;

use serde_json::{Value, json};
use skillhost::Host;

use crate::support::folders::{CANARY, Folders};
use crate::support::{build, builder, call, model_text};

fn setup() -> (Folders, Host) {
    let folders = Folders::new();
    folders.write("docx/SKILL.md", "# Docx\n");
    folders.write("docx/references/guide.md", "guide");
    let home = folders.outside.join("home");
    fs::create_dir_all(home.join("notes")).unwrap();
    fs::write(home.join("notes/today.md"), "one\ntwo\n").unwrap();
    let host = build(builder().skills(&folders.root).home(home));
    (folders, host)
}

fn read(host: &Host, path: &str) -> String {
    model_text(host, "read_skill_file", json!({ "path": path }))
}

#[test]
fn each_path_form_leads_to_home_or_skill() {
    let (folders, host) = setup();
    let absolute = |path: &str| folders.outside.join(path).display().to_string();
    let in_skill = folders
        .root
        .join("docx/references/guide.md")
        .display()
        .to_string();
    for path in [
        "notes/today.md",
        "~/notes/today.md",
        "./notes/../notes/today.md",
        &absolute("home/notes/today.md"),
    ] {
        assert_eq!(read(&host, path), "one\ntwo\n", "{path}");
    }
    assert_eq!(read(&host, &in_skill), "guide");
    for arguments in [
        json!({"path": "notes/today.md", "skill_name": null}),
        json!({"path": "notes/today.md", "skill_name": "", "offset": null, "limit": null}),
    ] {
        assert_eq!(
            model_text(&host, "read_skill_file", arguments),
            "one\ntwo\n"
        );
    }
}

#[test]
fn meta_has_no_absolute_path() {
    let (folders, host) = setup();
    let meta = |path: &str| -> Value {
        let outcome = call(&host, "read_skill_file", json!({"path": path, "limit": 1}));
        let text = skillhost::message::program_text(&outcome);
        assert!(
            !path.starts_with('/') || !text.contains("\"ok\": true") || !text.contains("/tmp/"),
            "{text}"
        );
        serde_json::from_str::<Value>(&text).unwrap()["meta"].clone()
    };
    assert_eq!(meta("~/notes/today.md")["path"], "~/notes/today.md");
    let in_skill = folders
        .root
        .join("docx/references/guide.md")
        .display()
        .to_string();
    assert_eq!(meta(&in_skill)["path"], "docx/references/guide.md");
}

#[test]
fn paths_outside_home_and_roots_are_path_traversal() {
    let (folders, host) = setup();
    let canary = folders.outside.join("canary.txt").display().to_string();
    let beside = format!("{}-x/file", folders.outside.join("home").display());
    let root = folders.root.display().to_string();
    for path in [
        "/etc/passwd",
        &canary,
        &beside,
        &root,
        "../canary.txt",
        "~/../canary.txt",
        "~root/.bashrc",
        "notes/../../canary.txt",
        &format!("{root}/docx/../../outside/canary.txt"),
        &format!("{root}/../outside/canary.txt"),
    ] {
        let text = read(&host, path);
        assert!(!text.contains(CANARY), "{path}");
        let expected = ["Path traversal detected", "not found"];
        assert!(
            expected.iter().any(|words| text.contains(words)),
            "{path}: {text}"
        );
    }
}

#[test]
fn call_without_skill_needs_home_folder() {
    let folders = Folders::new();
    let host = build(builder().skills(&folders.root));
    assert_eq!(
        read(&host, "notes.md"),
        "Cannot resolve 'notes.md': no skill_name was given and no home folder is configured"
    );
}

#[test]
fn reads_absolute_path_only_in_its_root() {
    let (first, second) = (Folders::new(), Folders::new());
    first.write("both/f", "first");
    second.write("both/f", "second");
    second.write("only/f", "only");
    let host = build(builder().skills(&first.root).skills(&second.root));
    let path = |folders: &Folders, path: &str| format!("{}/{path}", folders.root.display());
    assert_eq!(read(&host, &path(&first, "both/f")), "first");
    assert_eq!(read(&host, &path(&second, "only/f")), "only");
    assert_eq!(read(&host, &path(&second, "./only//f")), "only");
    for missing in [path(&second, "both/f"), path(&second, "none/f")] {
        let text = read(&host, &missing);
        assert_eq!(
            text,
            format!("File not found: {missing}. (Resolved from: {missing}, skill: none)")
        );
    }
}
