//! Pages of listings, and their cursors.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::{INVALID_PARAMS, folders, open, skill_md, uris};
use crate::support::folders::Folders;
use crate::support::session::Session;

#[test]
fn pages_hold_each_entry_once_in_order_while_files_change() {
    let folders = Folders::new();
    for skill in ["a", "b", "c"] {
        folders.write(&format!("{skill}/SKILL.md"), skill_md(skill));
        for number in 0..749 {
            folders.write(&format!("{skill}/docs/{number:03}"), "x");
        }
    }
    let mut session = open(&folders);
    let (all, pages) = session.all("resources/list", json!({}), "resources");
    assert_eq!(pages, [1000, 1000, 250]);
    let seen = uris(&all);
    assert!(seen.is_sorted() && seen.iter().collect::<BTreeSet<_>>().len() == 2250);

    // The next page starts after the last entry, even if that is removed and others
    // are added before it.
    let first = session.ask("resources/list", json!({})).unwrap();
    assert_eq!(first["resources"][999]["uri"], "skill://b/docs/248");
    fs::remove_file(folders.root.join("b/docs/248")).unwrap();
    folders.write("b/docs/0000", "x");
    folders.write("a/docs/0000", "x");
    let next = json!({"cursor": first["nextCursor"]});
    let second = session.ask("resources/list", next.clone()).unwrap();
    assert_eq!(second["resources"][0]["uri"], "skill://b/docs/249");
    assert_eq!(session.ask("resources/list", next.clone()).unwrap(), second);
    // Even if the whole skill is removed.
    fs::remove_dir_all(folders.root.join("b")).unwrap();
    let second = session.ask("resources/list", next).unwrap();
    assert_eq!(second["resources"][0]["uri"], "skill://c/SKILL.md");

    for number in 0..1_051 {
        folders.write(&format!("a/many/{number:04}"), "x");
    }
    let (all, pages) = session.all(
        "resources/directory/read",
        json!({"uri": "skill://a/many"}),
        "resources",
    );
    assert_eq!((all.len(), pages), (1_051, vec![1000, 51]));
    assert!(uris(&all).is_sorted());
}

#[test]
fn pages_of_skills_are_bounded_by_number_by_files_and_by_bytes() {
    let folders = Folders::new();
    for number in 0..260 {
        let name = format!("a{number:03}");
        folders.write(&format!("{name}/SKILL.md"), skill_md(&name));
        // Left out, after they were read.
        folders.write(&format!("b{number:03}/SKILL.md"), skill_md("x"));
        folders.write(&format!("c{number:03}/SKILL.md"), skill_md("x"));
    }
    folders.write("z/SKILL.md", skill_md("z"));
    let mut session = open(&folders);
    let (all, pages) = session.all("skills/list", json!({}), "skills");
    assert_eq!(pages, [200, 60, 0, 1]);
    let seen = uris(&all);
    assert!(seen.is_sorted() && seen.iter().collect::<BTreeSet<_>>().len() == 261);

    let folders = Folders::new();
    for name in ["a", "b", "c", "d"] {
        folders.write(&format!("{name}/SKILL.md"), skill_md(name));
        folders.write(&format!("{name}/big"), vec![0; (16 << 20) - 100]);
    }
    let (_, pages) = open(&folders).all("skills/list", json!({}), "skills");
    assert_eq!(pages, [3, 1]);

    let folders = Folders::new();
    for skill in 0..14 {
        let name = format!("a{skill:02}");
        folders.write(&format!("{name}/SKILL.md"), skill_md(&name));
        for number in 0..499 {
            folders.write(&format!("{name}/{number}"), "");
        }
    }
    let (_, pages) = open(&folders).all("skills/list", json!({}), "skills");
    assert_eq!(pages, [10, 4]);
}

#[test]
fn a_cursor_of_another_listing_is_refused() {
    let folders = folders("a");
    for number in 0..1_001 {
        folders.write(&format!("a/docs/{number:04}"), "x");
    }
    let mut session = open(&folders);
    let cursor = |session: &mut Session, method: &str, params: Value| {
        session.ask(method, params).unwrap()["nextCursor"].clone()
    };
    let of_resources = cursor(&mut session, "resources/list", json!({}));
    let docs = json!({"uri": "skill://a/docs"});
    let of_docs = cursor(&mut session, "resources/directory/read", docs.clone());
    for bad in [
        json!(""),
        json!("0"),
        json!("200"),
        json!("WyJza2lsbHMiXQ"),
        json!("x".repeat(100_000)),
    ] {
        for method in ["resources/list", "skills/list", "resources/directory/read"] {
            let params = json!({"uri": "skill://a/docs", "cursor": bad});
            let (code, message) = session.error(method, params);
            assert_eq!(code, INVALID_PARAMS, "{method} {bad}");
            assert!(message.contains("cursor"), "{method} {bad}: {message}");
        }
    }
    for (method, params) in [
        ("skills/list", json!({"cursor": of_resources})),
        ("resources/list", json!({"cursor": of_docs})),
        (
            "resources/directory/read",
            json!({"uri": "skill://a/docs", "cursor": of_resources}),
        ),
        (
            "resources/directory/read",
            json!({"uri": "skill://a", "cursor": of_docs}),
        ),
    ] {
        assert_eq!(session.error(method, params).0, INVALID_PARAMS, "{method}");
    }
}
