//! Pages of listings, and their cursors.

use std::collections::BTreeSet;
use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{INVALID_PARAMS, folders, open, skill_md, uris};
use crate::support::builder;
use crate::support::folders::Folders;
use crate::support::session::Session;

#[test]
fn pages_contain_entries_once_while_files_change() {
    let folders = Folders::new();
    for skill in ["a", "b", "c"] {
        folders.write(&format!("{skill}/SKILL.md"), skill_md(skill));
        for number in 0..749 {
            folders.write(&format!("{skill}/docs/{number:03}"), "x");
        }
    }
    let mut session = open(&folders);
    let (all, pages) = session.list_all("resources/list", json!({}), "resources");
    assert_eq!(pages, [1000, 1000, 250]);
    let listed = uris(&all);
    assert!(listed.is_sorted() && listed.iter().collect::<BTreeSet<_>>().len() == 2250);

    // The next page starts after the last entry, even if that entry is removed and others are
    // added before it.
    let first = session.ask("resources/list", json!({})).unwrap();
    assert_eq!(first["resources"][999]["uri"], "skill://b/docs/248");
    fs::remove_file(folders.root.join("b/docs/248")).unwrap();
    folders.write("b/docs/0000", "x");
    folders.write("a/docs/0000", "x");
    let next = json!({"cursor": first["nextCursor"]});
    let second = session.ask("resources/list", next.clone()).unwrap();
    assert_eq!(second["resources"][0]["uri"], "skill://b/docs/249");
    assert_eq!(session.ask("resources/list", next.clone()).unwrap(), second);
    // The same holds if the whole skill is removed.
    fs::remove_dir_all(folders.root.join("b")).unwrap();
    let second = session.ask("resources/list", next).unwrap();
    assert_eq!(second["resources"][0]["uri"], "skill://c/SKILL.md");

    for number in 0..1_051 {
        folders.write(&format!("a/many/{number:04}"), "x");
    }
    let (all, pages) = session.list_all(
        "resources/directory/read",
        json!({"uri": "skill://a/many"}),
        "resources",
    );
    assert_eq!((all.len(), pages), (1_051, vec![1000, 51]));
    assert!(uris(&all).is_sorted());
}

#[test]
fn cursors_name_only_listed_skills() {
    let flag = "disable-model-invocation: true";
    let unlisted = |name: &str| format!("---\nname: {name}\ndescription: About.\n{flag}\n---\n");
    let folders = Folders::new();
    // A page of skills ends before an unlisted one, and two pages have only unlisted ones.
    for number in 0..200 {
        let name = format!("a{number:03}");
        folders.write(&format!("{name}/SKILL.md"), skill_md(&name));
    }
    for number in 0..600 {
        let name = format!("b-secret{number:03}");
        folders.write(&format!("{name}/SKILL.md"), unlisted(&name));
    }
    folders.write("c/SKILL.md", skill_md("c"));
    let mut session = open(&folders);
    for (method, key) in [("skills/list", "skills"), ("resources/list", "resources")] {
        let (mut found, mut request) = (Vec::new(), json!({}));
        loop {
            let page = session.ask(method, request).unwrap();
            found.extend(page[key].as_array().unwrap().clone());
            let Some(cursor) = page.get("nextCursor") else {
                break;
            };
            let decoded = BASE64_URL_SAFE_NO_PAD.decode(cursor.as_str().unwrap());
            let decoded = String::from_utf8(decoded.unwrap()).unwrap();
            assert!(!decoded.contains("secret"), "{method}: {decoded}");
            request = json!({"cursor": cursor});
        }
        assert_eq!(found.len(), 201, "{method}");
        assert!(found[200].to_string().contains("skill://c/"), "{method}");
    }
}

/// A SKILL.md whose frontmatter is not closed, so that lists leave it out.
const UNCLOSED: &str = "---\nname: x\n";

/// The smallest limit on the bytes of a message over stdio.
const SMALL_MESSAGE: usize = 256 << 10;

#[test]
fn pages_end_before_message_limit() {
    let folders = Folders::new();
    // The URI of each file has 11 kB.
    let deep = vec!["\u{e9}".repeat(120); 15].join("/");
    for (skill, files) in [("a", 20), ("b", 8), ("c", 8)] {
        folders.write(&format!("{skill}/SKILL.md"), skill_md(skill));
        for number in 0..files {
            folders.write(&format!("{skill}/{deep}/{number:02}"), "");
        }
    }
    for number in 0..40 {
        // `skills/list` leaves out a skill with this name.
        let name = format!("d_{number:02}");
        let description = "\\e".repeat(20_000);
        let text = format!("---\nname: {name}\ndescription: \"{description}\"\n---\n");
        folders.write(&format!("{name}/SKILL.md"), text);
    }
    let mut session =
        Session::open_with_message_limit(builder().skills(&folders.root), SMALL_MESSAGE);
    let (all, pages) = session.list_all("resources/list", json!({}), "resources");
    assert_eq!(all.len(), 3 + 36 + 40);
    assert!(pages.len() > 3, "{pages:?}");
    let deep_uri = uris(&all)[1].rsplit_once('/').unwrap().0.to_owned();
    let (all, pages) = session.list_all(
        "resources/directory/read",
        json!({"uri": deep_uri}),
        "resources",
    );
    assert_eq!((all.len(), pages.len()), (20, 2));
    // The entry of the skill `a` is longer than a page.
    let (all, pages) = session.list_all("skills/list", json!({}), "skills");
    assert_eq!(uris(&all), ["skill://b/SKILL.md", "skill://c/SKILL.md"]);
    assert_eq!(pages, [1, 1]);
    let first = session.ask("skills/get", json!({"uri": "skill://a/SKILL.md"}));
    assert_eq!(first.unwrap()["skill"]["uri"], "skill://a/SKILL.md");
}

#[test]
fn limits_skills_files_and_bytes_of_page() {
    let folders = Folders::new();
    for number in 0..260 {
        let name = format!("a{number:03}");
        folders.write(&format!("{name}/SKILL.md"), skill_md(&name));
        // These skills are read before they are left out.
        for skill in ["b", "c"] {
            folders.write(&format!("{skill}{number:03}/SKILL.md"), UNCLOSED);
        }
    }
    folders.write("z/SKILL.md", skill_md("z"));
    let mut session = open(&folders);
    let (all, pages) = session.list_all("skills/list", json!({}), "skills");
    assert_eq!(pages, [200, 60, 0, 1]);
    let listed = uris(&all);
    assert!(listed.is_sorted() && listed.iter().collect::<BTreeSet<_>>().len() == 261);

    let folders = Folders::new();
    for name in ["a", "b", "c", "d"] {
        folders.write(&format!("{name}/SKILL.md"), skill_md(name));
        folders.write(&format!("{name}/big"), vec![0; (16 << 20) - (100 << 10)]);
    }
    let (_, pages) = open(&folders).list_all("skills/list", json!({}), "skills");
    assert_eq!(pages, [3, 1]);
    // A skill that is left out for its long entry counts, because it takes as long to read as a
    // listed one.
    for name in ["a", "b", "c", "d"] {
        let long = "\\e".repeat(30_000);
        let text = format!("---\nname: {name}\ndescription: x\nlong: \"{long}\"\n---\n");
        folders.write(&format!("{name}/SKILL.md"), text);
    }
    let builder = builder().skills(&folders.root);
    let mut session = Session::open_with_message_limit(builder, SMALL_MESSAGE);
    let (_, pages) = session.list_all("skills/list", json!({}), "skills");
    assert_eq!(pages, [0, 0]);
    // A skill that is left out for its frontmatter is not digested.
    for name in ["a", "b", "c", "d"] {
        folders.write(&format!("{name}/SKILL.md"), UNCLOSED);
    }
    let (_, pages) = open(&folders).list_all("skills/list", json!({}), "skills");
    assert_eq!(pages, [0]);

    let folders = Folders::new();
    for skill in 0..14 {
        let name = format!("a{skill:02}");
        folders.write(&format!("{name}/SKILL.md"), skill_md(&name));
        for number in 0..499 {
            folders.write(&format!("{name}/{number}"), "");
        }
    }
    let (_, pages) = open(&folders).list_all("skills/list", json!({}), "skills");
    assert_eq!(pages, [10, 4]);
}

#[test]
fn refuses_cursor_of_another_listing() {
    let folders = folders("a");
    for number in 0..1_001 {
        folders.write(&format!("a/docs/{number:04}"), "x");
    }
    let mut session = open(&folders);
    let cursor = |session: &mut Session, method: &str, params: Value| {
        session.ask(method, params).unwrap()["nextCursor"].clone()
    };
    let resources_cursor = cursor(&mut session, "resources/list", json!({}));
    let docs = json!({"uri": "skill://a/docs"});
    let docs_cursor = cursor(&mut session, "resources/directory/read", docs.clone());
    for invalid in [
        json!(""),
        json!("0"),
        json!("200"),
        json!("WyJza2lsbHMiXQ"),
        json!("x".repeat(100_000)),
    ] {
        for method in ["resources/list", "skills/list", "resources/directory/read"] {
            let params = json!({"uri": "skill://a/docs", "cursor": invalid});
            let (code, message) = session.error(method, params);
            assert_eq!(code, INVALID_PARAMS, "{method} {invalid}");
            assert!(message.contains("cursor"), "{method} {invalid}: {message}");
        }
    }
    for (method, params) in [
        ("skills/list", json!({"cursor": resources_cursor})),
        ("resources/list", json!({"cursor": docs_cursor})),
        (
            "resources/directory/read",
            json!({"uri": "skill://a/docs", "cursor": resources_cursor}),
        ),
        (
            "resources/directory/read",
            json!({"uri": "skill://a", "cursor": docs_cursor}),
        ),
    ] {
        assert_eq!(session.error(method, params).0, INVALID_PARAMS, "{method}");
    }
}
