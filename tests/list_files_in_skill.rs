//! The tool that lists a skill's files: long listings, limits, and hostile
//! folders. `contracts.rs` runs its cases in `vectors/`.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use skillhost::{CallError, Host};

use crate::support::folders::Folders;
use crate::support::{build, builder, call};

const TOOL: &str = "list_files_in_skill";

/// The maximum number of entries in an answer.
const MAX_ENTRIES: usize = 100;

/// Lists a folder. Returns the text for the model, and the record.
fn list(host: &Host, arguments: Value) -> (String, Value) {
    let output = call(host, TOOL, arguments).unwrap();
    (output.text().to_owned(), output.record())
}

fn paths(record: &Value) -> Vec<&str> {
    let entries = record["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["path"].as_str().unwrap())
        .collect()
}

#[test]
fn pages_of_a_large_folder_are_complete() {
    let folders = Folders::new();
    for number in 0..350 {
        let page = format!("# Page {number}\n");
        folders.write(&format!("a/pages/{number:03}.md"), page);
    }
    let host = build(builder().skills(&folders.root));
    let (text, record) = list(&host, json!({"skill_name": "a"}));
    // The folder's files do not fit, so the list shows only their number.
    assert_eq!(
        text,
        "pages/  350 entries\n\
         [folders with a count are not opened: give one as `path` to list it]"
    );
    assert_eq!(record["after"], Value::Null);
    let (mut seen, mut after, mut page_count) = (Vec::new(), Value::Null, 0);
    loop {
        let (text, record) = list(
            &host,
            json!({"skill_name": "a", "path": "pages", "after": after}),
        );
        page_count += 1;
        let shown = paths(&record);
        assert!(shown.len() <= MAX_ENTRIES);
        seen.extend(shown.into_iter().map(str::to_owned));
        after = record["after"].clone();
        let Some(next) = after.as_str() else { break };
        let more = 350 - seen.len();
        let line = format!("\n[{more} more: call again with after=\"{next}\"]");
        assert!(text.ends_with(&line), "{text}");
    }
    assert_eq!(page_count, 4);
    let all: Vec<String> = (0..350).map(|n| format!("pages/{n:03}.md")).collect();
    assert_eq!(seen, all);
    // `after` may be a name without its folder.
    let arguments = json!({"skill_name": "a", "path": "pages", "after": "347.md"});
    let (text, _) = list(&host, arguments);
    assert_eq!(
        text,
        "pages/348.md  11 B  Page 348\npages/349.md  11 B  Page 349"
    );
}

#[test]
fn opens_levels_that_fit_except_hidden_folders() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    folders.write("a/.hidden/HEAD", "x");
    folders.write("a/docs/deep/er/x.md", "# X\n");
    fs::create_dir(folders.root.join("a/empty")).unwrap();
    let host = build(builder().skills(&folders.root));
    let all = ".hidden/  1 entry\nSKILL.md  4 B  A\ndocs/deep/er/x.md  4 B  X\nempty/  empty";
    let (text, record) = list(&host, json!({"skill_name": "a"}));
    assert_eq!(text, all);
    assert_eq!(
        paths(&record),
        [
            ".hidden",
            "SKILL.md",
            "docs",
            "docs/deep",
            "docs/deep/er",
            "docs/deep/er/x.md",
            "empty"
        ]
    );
    for (depth, line) in [(1, "docs/  1 entry"), (2, "docs/deep/  1 entry")] {
        let (text, _) = list(&host, json!({"skill_name": "a", "depth": depth}));
        assert!(text.contains(line), "{text}");
    }
    for (path, expected) in [
        (".hidden", ".hidden/HEAD  1 B"),
        ("docs/deep/er/x.md", "docs/deep/er/x.md  4 B  X"),
    ] {
        let (text, _) = list(&host, json!({"skill_name": "a", "path": path}));
        assert_eq!(text, expected);
    }
}

#[test]
fn describes_files_by_their_start() {
    let folders = Folders::new();
    let cases = [
        ("a.md", "# Title #\n", Some("Title")),
        (
            "b.md",
            "---\ntitle: \"From the top\"\n---\n# Heading\n",
            Some("From the top"),
        ),
        (
            "c.md",
            "---\nname: c\n---\n\nText\n\n## Second **level**\n",
            Some("Second **level**"),
        ),
        (
            "d.md",
            "```sh\n# not this\n```\n\nUnderlined\n===\n",
            Some("Underlined"),
        ),
        ("e.md", "no heading\n", None),
        (
            "f.py",
            "#!/usr/bin/env python3\n# Copyright X\n\n\"\"\"\nDo it.\n\nMore.\n\"\"\"\n",
            Some("Do it."),
        ),
        ("g.py", "r'''Raw words.'''\n", Some("Raw words.")),
        (
            "h.py",
            "# /// script\n# requires-python = \"3\"\n# ///\n# Fetch pages.\nimport x\n",
            Some("Fetch pages."),
        ),
        ("i.py", "import x\n", None),
        (
            "j.sh",
            "#!/bin/sh\n# SPDX-License-Identifier: MIT\n#\n# Build all.\n",
            Some("Build all."),
        ),
        (
            "k.js",
            "/**\n * @fileoverview Draws charts.\n */\n",
            Some("Draws charts."),
        ),
        (
            "l.ts",
            "'use strict';\n// Parse input.\n",
            Some("Parse input."),
        ),
        ("m.js", "const x = 1; // no\n", None),
        (
            "run",
            "#!/usr/bin/env python3\n\"\"\"Runs.\"\"\"\n",
            Some("Runs."),
        ),
        ("n.txt", "# not described\n", None),
        (
            "o.md",
            "# Hid\u{202e}den\tand   spaced\n",
            Some("Hidden and spaced"),
        ),
        ("p.py", "\"\"\"\u{200b}\"\"\"\n", None),
    ];
    for (path, content, _) in cases {
        folders.write(&format!("a/{path}"), content);
    }
    let long = format!("# {}\n", "é".repeat(3000));
    folders.write("a/long.md", long);
    folders.write("a/binary.md", b"# \xff\xfe\n");
    let host = build(builder().skills(&folders.root));
    let cut = format!("{}…", "é".repeat(80));
    let last = [("long.md", "", Some(cut.as_str())), ("binary.md", "", None)];
    for (path, content, description) in cases.into_iter().chain(last) {
        let (_, record) = list(&host, json!({"skill_name": "a", "path": path}));
        let entry = &record["entries"][0];
        assert_eq!(
            entry["description"].as_str(),
            description,
            "{path}: {content}"
        );
    }
}

#[test]
fn shown_names_are_valid_arguments() {
    let folders = Folders::new();
    let cases = [
        ("with space.md", Some("\"with space.md\"")),
        ("quo\"te.md", Some("\"quo\\\"te.md\"")),
        ("zero\u{200b}width.md", Some("\"zero\\u200bwidth.md\"")),
        ("\u{202e}dm.exe", Some("\"\\u202edm.exe\"")),
        ("\u{e0041}tag.md", Some("\"\\udb40\\udc41tag.md\"")),
        ("[9 more", Some("\"[9 more\"")),
        ("数据.md", Some("数据.md")),
        ("हिन्दी.md", Some("हिन्दी.md")),
        ("new\nline.md", None),
        ("esc\u{1b}[2J.md", None),
        ("back\\slash.md", None),
    ];
    for (number, (name, _)) in cases.iter().enumerate() {
        folders.write(&format!("s{number}/{name}"), "x");
    }
    let long = "n".repeat(255);
    folders.write(&format!("long/{long}"), "x");
    let host = build(builder().skills(&folders.root));
    for (number, (name, shown)) in cases.into_iter().enumerate() {
        let skill = format!("s{number}");
        let (text, record) = list(&host, json!({"skill_name": skill}));
        let Some(shown) = shown else {
            assert_eq!(record["left_out"], 1, "{name:?}");
            let note = "[1 left out: no call can name them]";
            assert!(text.ends_with(note), "{text}");
            continue;
        };
        assert_eq!(text, format!("{shown}  1 B"));
        // The shown name is valid as an argument.
        let path = if shown.starts_with('"') {
            serde_json::from_str(shown).unwrap()
        } else {
            shown.to_owned()
        };
        let arguments = json!({"skill_name": skill, "file_path": path});
        assert!(call(&host, "read_file_in_skill", arguments).is_ok());
    }
    let (text, _) = list(&host, json!({"skill_name": "long"}));
    assert_eq!(text, format!("{long}  1 B"));
}

#[test]
fn follows_links_inside_the_skill_without_loops() {
    let folders = Folders::new();
    folders.write("b/SKILL.md", "# B\n");
    folders.write("a/docs/x.md", "# X\n");
    for (link, target) in [
        ("again", "docs"),
        ("docs/up", ".."),
        ("here", "docs/x.md"),
        ("loop", "loop"),
        ("nowhere", "none"),
        ("out", "../b/SKILL.md"),
    ] {
        symlink(target, folders.root.join("a").join(link)).unwrap();
    }
    let host = build(builder().skills(&folders.root));
    let (text, record) = list(&host, json!({"skill_name": "a"}));
    assert_eq!(
        text,
        "again/up/  6 entries\n\
         again/x.md  4 B  X\n\
         docs/  2 entries\n\
         here  4 B\n\
         loop  cannot be read: too many levels of symbolic links\n\
         nowhere  cannot be read: leads to nothing\n\
         out  cannot be read: leads out of the skill\n\
         [folders with a count are not opened: give one as `path` to list it]"
    );
    let entries = record["entries"].as_array().unwrap();
    let reason = |path: &str| {
        let entry = entries.iter().find(|entry| entry["path"] == path);
        entry.unwrap()["reason"].clone()
    };
    assert_eq!(reason("nowhere"), "leads to nothing");
    assert_eq!(reason("here"), Value::Null);
}

#[test]
fn answer_is_bounded_for_every_folder() {
    let folders = Folders::new();
    // A chain of folders with long names, and many folders of many files.
    let mut deep = "deep".to_owned();
    for _ in 0..14 {
        deep.push('/');
        deep.push_str(&"d".repeat(250));
    }
    folders.write(&format!("{deep}/x.md"), "# X\n");
    for folder in 0..60 {
        for file in 0..30 {
            folders.write(&format!("wide/{folder:02}/{file:02}.md"), "# T\n");
        }
    }
    fs::create_dir(folders.root.join("full")).unwrap();
    for number in 0..10_001 {
        fs::write(folders.root.join("full").join(number.to_string()), "").unwrap();
    }
    let host = build(builder().skills(&folders.root));
    for skill in ["deep", "wide"] {
        let (text, record) = list(&host, json!({"skill_name": skill, "depth": 4_000_000}));
        assert!(text.len() < 16 << 10, "{skill}: {}", text.len());
        assert!(paths(&record).len() <= MAX_ENTRIES, "{skill}");
    }
    let error = call(&host, TOOL, json!({"skill_name": "full"})).unwrap_err();
    assert!(matches!(error, CallError::Failed(_)));
    assert_eq!(
        error.model_text(),
        "ERROR: Cannot list '.': it has more than 10000 entries"
    );
}
