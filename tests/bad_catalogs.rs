//! Catalogs that could break lists and searches: one changes between requests, another has
//! descriptions that are too long or unreadable.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use skillhost::prompt::{self, Style};
use skillhost::{Host, SearchOffer, exchange};
use skillhost_index::MemoryIndex;

use crate::support::folders::Folders;
use crate::support::mcp::{Client, NEWEST};
use crate::support::program::Program;
use crate::support::watchdog::{patience, wait_until};
use crate::support::{build, builder, call};

/// The number of changes to a catalog.
const ROUNDS: usize = 90;

fn skill(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n# {name}\n")
}

/// Returns the text of an answer.
fn ask(client: &mut Client, tool: &str, arguments: Value) -> String {
    let result = client.call(tool, arguments);
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn answers_from_a_catalog_that_changes_constantly() {
    let program = Program::new();
    let write = |name: &str, description: &str| {
        program.write(&format!("skills/{name}/SKILL.md"), skill(name, description));
    };
    let mut current = BTreeSet::new();
    for number in 0..ROUNDS {
        let name = format!("old-{number:03}");
        write(&name, "Ties knots.");
        current.insert(name);
    }
    program.write("skillhost.toml", "[search]\nfind_skills = \"always\"\n");
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    client.request("tools/list", json!({}));
    let mut last = String::new();
    for round in 0..ROUNDS {
        let (name, expected) = match round % 3 {
            0 => (format!("new-{round:03}"), format!("# new-{round:03}")),
            1 => ("old-000".to_owned(), "# old-000".to_owned()),
            _ => (format!("old-{round:03}"), "not found".to_owned()),
        };
        match round % 3 {
            2 => {
                fs::remove_dir_all(program.folder.path().join("skills").join(&name)).unwrap();
                current.remove(&name);
            }
            _ => {
                last = format!("splices{round}");
                write(&name, &format!("Ties knots and {last}."));
                current.insert(name.clone());
            }
        }
        let read = ask(&mut client, "read_skill", json!({"skill_name": name}));
        assert!(read.contains(&expected), "{name}: {read}");
        let listed = ask(&mut client, "list_skills", json!({"limit": 200}));
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let listed = listed["skills"].as_array().unwrap().iter();
        let listed = listed.map(|skill| skill["name"].as_str().unwrap().to_owned());
        assert_eq!(listed.collect::<BTreeSet<_>>(), current, "round {round}");
        let found = ask(
            &mut client,
            "find_skills",
            json!({"query": "tie a knot", "limit": 20}),
        );
        for line in found.lines().filter(|line| line.contains(": Ties ")) {
            let (name, _) = line.split_once(": ").unwrap();
            assert!(current.contains(name), "round {round}: {line}");
        }
    }
    // Once the changes stop, the index finds the last one.
    wait_until(&format!("`{last}` is not found"), || {
        ask(&mut client, "find_skills", json!({"query": last})).contains(&last)
    });
    assert_eq!(client.end().1, Some(0));
}

/// Makes skills with descriptions that are too long or unreadable, and a normal one.
fn odd_skills() -> Folders {
    let folders = Folders::new();
    let json = |text: &str| serde_json::to_string(text).unwrap();
    for (name, description) in [
        ("megabyte", "word ".repeat(200_000)),
        ("long", "word ".repeat(12_000)),
        ("controls", json(&"\u{7}\u{1b}[2J".repeat(200))),
        ("breaks", json(&"\n\r\u{2028}\u{85}".repeat(200))),
        ("invisible", json(&"\u{200b}\u{e0041}\u{202e}".repeat(300))),
        ("raw", "\u{1}\u{8}\u{1b}".repeat(300)),
        ("plain", "Ties knots.".to_owned()),
    ] {
        folders.write(&format!("{name}/SKILL.md"), skill(name, &description));
    }
    folders
}

fn odd_host(folders: &Folders) -> Host {
    let index = Arc::new(MemoryIndex::new());
    let host = build(
        builder()
            .skills(&folders.root)
            .index(Arc::clone(&index) as _)
            .search_offer(SearchOffer::Always),
    );
    host.update_index();
    assert!(index.wait_until_ready(patience()));
    host
}

#[test]
fn output_with_odd_descriptions_stays_within_limits() {
    let folders = odd_skills();
    let host = odd_host(&folders);
    let names = [
        "breaks",
        "controls",
        "invisible",
        "long",
        "megabyte",
        "plain",
        "raw",
    ];

    for style in [Style::List, Style::Xml] {
        let section = host.prompt(style).text;
        assert!(
            prompt::tokens(&section) <= 4000,
            "{}",
            prompt::tokens(&section)
        );
        let is_control = |c: char| c != '\n' && c.is_control();
        assert!(!section.contains(is_control), "{section:?}");
        assert!(section.contains("plain"), "{section}");
    }
    let definitions = exchange::mcp_tools(&host.definitions()).to_string();
    assert!(definitions.len() < 16 * 1024, "{}", definitions.len());

    let (mut listed, mut cursor) = (Vec::new(), json!({}));
    loop {
        let page = call(&host, "list_skills", cursor).unwrap().record();
        assert!(
            page.to_string().len() <= 33 * 1024,
            "{}",
            page.to_string().len()
        );
        let skills = page["skills"].as_array().unwrap().iter();
        listed.extend(skills.map(|skill| skill["name"].as_str().unwrap().to_owned()));
        match page.get("next_cursor") {
            Some(next) => cursor = json!({"cursor": next}),
            None => break,
        }
    }
    assert_eq!(listed, names);

    for name in names {
        let found = call(&host, "find_skills", json!({"query": name, "limit": 20})).unwrap();
        let text = found.text();
        assert!(text.starts_with(name), "{name}: {text}");
        assert!(text.len() <= 8 * 1024);
        assert!(
            !text.contains(|c: char| c != '\n' && c.is_control()),
            "{text:?}"
        );
        let body = call(&host, "read_skill", json!({"skill_name": name})).unwrap();
        assert!(body.text().contains(&format!("# {name}")), "{name}");
    }
}

#[test]
fn check_reports_odd_descriptions() {
    let folders = odd_skills();
    let program = Program::new();
    let run = program.run(&["check", folders.root.to_str().unwrap()]);
    assert_eq!(run.code, 1);
    for expected in [
        "megabyte:1: error: the frontmatter has ",
        "long:3: error: `description` has 59999 characters: at most 1024 are allowed",
        "long:3: warning: `description` ",
        "controls:3: warning: `description` has ",
        "invisible:3: warning: `description` has ",
        "breaks:3: ",
        "raw:3: ",
    ] {
        assert!(
            run.stdout.contains(expected),
            "no `{expected}` in {}",
            run.stdout
        );
    }
    assert!(!run.stdout.contains("plain:"), "{}", run.stdout);
    assert!(run.stdout.len() < 16 * 1024);
    let is_hidden = |c: char| c != '\n' && skillhost::line::is_hidden(c);
    assert!(!run.stdout.contains(is_hidden), "{:?}", run.stdout);
}
