//! Unlisted skills: lists, searches and suggestions for models leave them out, and calls by their
//! exact name work.

use std::sync::Arc;

use serde_json::{Value, json};
use skillhost::prompt::{self, SkillFinder, Style};
use skillhost::{Catalog, Host, HostBuilder, SearchOffer, SkillsRoot, exchange};
use skillhost_index::MemoryIndex;

use crate::support::folders::Folders;
use crate::support::program::Program;
use crate::support::session::Session;
use crate::support::watchdog::patience;
use crate::support::{build, builder, call, model_text};

/// The name of a listed skill. Unlisted skills sort before and after it.
const SHOWN: &str = "tea-shown";

fn skill_md(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: Brews tea.\n{more}---\n# {name}\n\nA samovar, café.\n")
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Returns the unlisted skills, each with the bytes of its SKILL.md.
fn unlisted() -> Vec<(&'static str, Vec<u8>)> {
    let flag = "disable-model-invocation: true\n";
    // In Latin-1, `é` is the byte 0xe9.
    let latin = skill_md("tea-latin", "").replace('é', "\u{1}");
    vec![
        ("tea-author", skill_md("tea-author", flag).into()),
        ("tea-bare", utf16(&skill_md("tea-bare", ""))),
        (
            "tea-latin",
            latin
                .bytes()
                .map(|b| if b == 1 { 0xe9 } else { b })
                .collect(),
        ),
        (
            "tea-utf16",
            utf16(&format!("\u{feff}{}", skill_md("tea-utf16", ""))),
        ),
        ("tea-wish", skill_md("tea-wish", flag).into()),
    ]
}

/// Returns a root with three listed skills, and also the unlisted ones if `has_unlisted`.
fn folders(has_unlisted: bool) -> Folders {
    let folders = Folders::new();
    folders.write(&format!("{SHOWN}/SKILL.md"), skill_md(SHOWN, ""));
    // `false` does not hide a skill, and neither does a string.
    for (name, value) in [("tea-false", "false"), ("tea-text", "\"true\"")] {
        let flag = format!("disable-model-invocation: {value}\n");
        folders.write(&format!("{name}/SKILL.md"), skill_md(name, &flag));
    }
    if has_unlisted {
        for (name, bytes) in unlisted() {
            folders.write(&format!("{name}/SKILL.md"), bytes);
            folders.write(&format!("{name}/notes.md"), format!("Notes of {name}."));
        }
    }
    folders
}

fn configured(folders: &Folders) -> HostBuilder {
    builder()
        .skills(&folders.root)
        .search_offer(SearchOffer::Always)
}

fn host(folders: &Folders) -> Host {
    let index = Arc::new(MemoryIndex::new());
    let host = build(configured(folders).index(Arc::clone(&index) as _));
    host.update_index();
    assert!(index.wait_until_ready(patience()));
    host
}

/// Returns the text and the help of a failed call.
fn failure(host: &Host, tool: &str, arguments: Value) -> String {
    let error = call(host, tool, arguments).unwrap_err();
    format!("{} {:?}", error.model_text(), error.help())
}

/// The name of something that lists skills, and a function that returns its text.
type Consumer = (&'static str, fn(&Host) -> String);

const CONSUMERS: [Consumer; 16] = [
    ("prompt", |host| host.prompt(Style::List).text),
    ("prompt in XML", |host| host.prompt(Style::Xml).text),
    ("prompt of a catalog", |host| {
        let finder = SkillFinder::List;
        prompt::section(host.catalog(), Style::List, 4000, finder).text
    }),
    ("lists of skills", |host| {
        let skills: Vec<_> = host.skills().collect();
        prompt::list(&skills) + &prompt::xml(&skills)
    }),
    ("definitions", |host| {
        let definitions = host.definitions();
        let formats = exchange::Format::ALL.into_iter();
        let tools = formats.map(|format| format.tools(&definitions).to_string());
        tools.collect()
    }),
    ("list_skills", |host| {
        model_text(host, "list_skills", json!({}))
    }),
    ("first page", |host| {
        model_text(host, "list_skills", json!({"limit": 3}))
    }),
    ("page after an unlisted skill", |host| {
        let page = json!({"cursor": "tea-shown"});
        let page = call(host, "list_skills", page).unwrap().record();
        // Its `total` may count skills of the other pages.
        page["skills"].to_string()
    }),
    ("list_skills with a query", |host| {
        model_text(host, "list_skills", json!({"query": "brew tea"}))
    }),
    ("find_skills", |host| {
        model_text(host, "find_skills", json!({"query": "brew tea"}))
    }),
    ("words of bodies", |host| {
        model_text(host, "find_skills", json!({"query": "samovar tea-wish"}))
    }),
    ("mistyped words", |host| {
        model_text(host, "find_skills", json!({"query": "samovr tea-wihs"}))
    }),
    ("similar names", |host| {
        failure(host, "get_skill", json!({"skill_name": "tea-wis"}))
    }),
    ("names of skills", |host| {
        failure(host, "get_skill", json!({"skill_name": "zzzzzzzz"}))
    }),
    ("call without a skill", |host| {
        failure(host, "read_skill_file", json!({"path": "/nowhere"}))
    }),
    ("suggestions of a catalog", |host| {
        format!("{:?}", host.catalog().nearest("tea-wis"))
    }),
];

#[test]
fn models_see_no_unlisted_skill() {
    let (with, without) = (folders(true), folders(false));
    let (with, without) = (host(&with), host(&without));
    for (consumer, ask) in CONSUMERS {
        let answer = ask(&with);
        for (name, _) in unlisted() {
            assert!(!answer.contains(name), "{consumer}: {name} in {answer}");
        }
        assert_eq!(answer, ask(&without), "{consumer}");
    }
    // The lists do have the listed skills.
    for (consumer, ask) in &CONSUMERS[..7] {
        let answer = ask(&with);
        for name in [SHOWN, "tea-false", "tea-text"] {
            assert!(answer.contains(name), "{consumer}: no {name} in {answer}");
        }
    }
}

#[test]
fn clients_list_no_unlisted_skill() {
    let folders = folders(true);
    let mut session = Session::open(configured(&folders));
    for (method, key) in [
        ("skills/list", "skills"),
        ("resources/list", "resources"),
        ("tools/list", "tools"),
    ] {
        let (entries, _) = session.list_all(method, json!({}), key);
        let entries = Value::from(entries).to_string();
        for (name, _) in unlisted() {
            assert!(!entries.contains(name), "{method}: {name} in {entries}");
        }
        for name in [SHOWN, "tea-false", "tea-text"] {
            assert!(entries.contains(name), "{method}: no {name} in {entries}");
        }
    }
    for (name, _) in unlisted() {
        let uri = format!("skill://{name}/notes.md");
        let read = session.ask("resources/read", json!({"uri": uri})).unwrap();
        assert_eq!(read["contents"][0]["text"], format!("Notes of {name}."));
    }
    let uri = json!({"uri": "skill://tea-wish/SKILL.md"});
    let entry = session.ask("skills/get", uri).unwrap();
    assert_eq!(entry["skill"]["frontmatter"]["name"], "tea-wish");
    let arguments = json!({"name": "read_skill", "arguments": {"skill_name": "tea-wish"}});
    let read = session.ask("tools/call", arguments).unwrap();
    assert_eq!(read["isError"], false, "{read}");
}

#[test]
fn calls_by_exact_name_read_unlisted_skills() {
    let folders = folders(true);
    let host = host(&folders);
    for (name, _) in unlisted() {
        let arguments = json!({"skill_name": name, "file_path": "notes.md"});
        let notes = model_text(&host, "read_file_in_skill", arguments);
        assert_eq!(notes, format!("Notes of {name}."));
    }
    for name in ["tea-author", "tea-wish"] {
        // The tool accepts the name although its schema's enum does not have it.
        let text = model_text(&host, "read_skill", json!({"skill_name": name}));
        assert!(text.starts_with(&format!("# {name}\n")), "{text}");
    }
}

#[test]
fn tool_without_listed_skills_has_no_enum() {
    let folders = Folders::new();
    let flag = "disable-model-invocation: true\n";
    folders.write("tea-wish/SKILL.md", skill_md("tea-wish", flag));
    let host = host(&folders);
    let definitions = host.definitions();
    let mut read_skill = definitions.iter().filter(|tool| tool.name == "read_skill");
    let schema = &read_skill.next().unwrap().input_schema;
    assert!(schema["properties"]["skill_name"].get("enum").is_none());
    assert!(host.prompt(Style::List).is_empty());
    assert_eq!(
        model_text(&host, "list_skills", json!({})),
        r#"{"skills": []}"#
    );
}

#[test]
fn next_list_follows_changed_frontmatter() {
    let folders = Folders::new();
    let write = |value: &str| {
        let flag = format!("disable-model-invocation: {value}\n");
        folders.write("tea/SKILL.md", skill_md("tea", &flag));
    };
    let index = Arc::new(MemoryIndex::new());
    write("true");
    let host = build(configured(&folders).index(Arc::clone(&index) as _));
    for (value, is_listed) in [("true", false), ("false", true), ("true", false)] {
        write(value);
        host.update_index();
        assert!(index.wait_until_ready(patience()));
        for (tool, arguments) in [
            ("list_skills", json!({})),
            ("find_skills", json!({"query": "samovar"})),
        ] {
            let text = model_text(&host, tool, arguments);
            assert_eq!(text.contains("Brews tea."), is_listed, "{value}: {text}");
        }
    }
}

#[test]
fn full_page_names_no_unlisted_skill_as_next() {
    let folders = Folders::new();
    for number in 0..9 {
        let flag = match number {
            2 | 3 | 7 | 8 => "disable-model-invocation: true\n",
            _ => "",
        };
        let name = format!("s{number}");
        folders.write(&format!("{name}/SKILL.md"), skill_md(&name, flag));
    }
    let host = build(builder().skills(&folders.root));
    let page = |arguments| call(&host, "list_skills", arguments).unwrap().record();
    let first = page(json!({"limit": 2}));
    assert_eq!(first["next_cursor"], "s4");
    let last = page(json!({"limit": 3, "cursor": "s4"}));
    assert_eq!(last["skills"].as_array().unwrap().len(), 3);
    assert_eq!(last.get("next_cursor"), None);
}

/// Lists all skills, page by page. Returns their names, the cursors, and the pages' lengths.
fn list_all(host: &Host) -> (Vec<String>, Vec<String>, Vec<usize>) {
    let (mut names, mut cursors, mut pages) = (Vec::new(), Vec::new(), Vec::new());
    let mut arguments = json!({});
    loop {
        let page = call(host, "list_skills", arguments).unwrap().record();
        let skills = page["skills"].as_array().unwrap();
        pages.push(skills.len());
        names.extend(skills.iter().map(|skill| skill["name"].to_string()));
        let Some(next) = page.get("next_cursor") else {
            return (names, cursors, pages);
        };
        cursors.push(next.to_string());
        arguments = json!({"cursor": next});
    }
}

#[test]
fn many_unlisted_skills_end_a_page_early() {
    let folders = Folders::new();
    let flag = "disable-model-invocation: true\n";
    for number in 0..600 {
        let name = format!("hidden-{number:03}");
        folders.write(&format!("{name}/SKILL.md"), skill_md(&name, flag));
    }
    for name in ["a", "hidden-300b", "z"] {
        folders.write(&format!("{name}/SKILL.md"), skill_md(name, ""));
    }
    let host = build(configured(&folders));
    let (names, cursors, pages) = list_all(&host);
    assert_eq!(names, [r#""a""#, r#""hidden-300b""#, r#""z""#]);
    // Each page but the last reads 256 unlisted skills.
    assert_eq!(pages, [1, 1, 1]);
    for cursor in &cursors {
        assert!(!cursor.contains("hidden"), "{cursor}");
    }
    // The cursor stays valid until the skill that it names is removed.
    let next = json!({"cursor": serde_json::from_str::<Value>(&cursors[0]).unwrap()});
    let second = call(&host, "list_skills", next.clone()).unwrap().record();
    assert_eq!(second["skills"][0]["name"], "hidden-300b");
    std::fs::remove_dir_all(folders.root.join("hidden-256")).unwrap();
    let host = build(configured(&folders));
    let gone = call(&host, "list_skills", next).unwrap_err();
    let advice = "call list_skills without cursor";
    assert!(gone.model_text().contains(advice), "{gone:?}");
    // The prompt, too, ends after 256 unlisted skills.
    for style in [Style::List, Style::Xml] {
        let section = host.prompt(style);
        assert_eq!((section.listed, section.unread), (1, 345), "{section:?}");
        assert!(section.text.contains("345 more skills"), "{section:?}");
        assert!(!section.text.contains("hidden"), "{section:?}");
        let warning = section.warning().unwrap();
        assert!(warning.contains("345 were not read"), "{warning}");
    }
}

#[test]
fn offers_prompt_without_reading_all_hidden_skills() {
    for (hidden, is_offered) in [(0, false), (256, false), (257, true)] {
        let folders = Folders::new();
        for number in 0..hidden {
            let name = format!("hidden-{number}");
            let text = skill_md(&name, "disable-model-invocation: true\n");
            folders.write(&format!("{name}/SKILL.md"), text);
        }
        let host = build(configured(&folders));
        assert_eq!(host.has_prompt(), is_offered, "{hidden}");
    }
}

#[test]
fn lists_read_4_mib_of_frontmatter() {
    let folders = Folders::new();
    let metadata = format!("metadata:\n  a: {}\n", "b".repeat(63 << 10));
    for number in 0..90 {
        let name = format!("large-{number:02}");
        let flag = match number % 2 {
            0 => "disable-model-invocation: true\n",
            _ => "",
        };
        let text = skill_md(&name, &format!("{metadata}{flag}"));
        folders.write(&format!("{name}/SKILL.md"), text);
    }
    let host = build(configured(&folders));
    let (names, _, pages) = list_all(&host);
    assert_eq!((names.len(), pages), (45, vec![32, 13]));
    let section = host.prompt(Style::List);
    assert_eq!((section.listed, section.unread), (32, 25));
    let definitions = host.definitions();
    let mut read_skill = definitions.iter().filter(|tool| tool.name == "read_skill");
    let schema = &read_skill.next().unwrap().input_schema;
    assert!(schema["properties"]["skill_name"].get("enum").is_none());
}

#[test]
fn lists_long_skill_cut_within_a_character() {
    let folders = Folders::new();
    // Each character has three bytes. With three different starts, the limit cuts one of them.
    for blanks in 0..3 {
        let name = format!("long-{blanks}");
        let text = skill_md(&name, "") + &" ".repeat(blanks) + &"茶".repeat(60_000);
        folders.write(&format!("{name}/SKILL.md"), text);
    }
    let host = host(&folders);
    for list in [
        model_text(&host, "list_skills", json!({})),
        model_text(&host, "find_skills", json!({"query": "brew tea"})),
        host.prompt(Style::List).text,
    ] {
        for blanks in 0..3 {
            assert!(list.contains(&format!("long-{blanks}")), "{list}");
        }
    }
}

#[test]
fn people_see_unlisted_skills_and_reasons() {
    let program = Program::new();
    for (name, bytes) in unlisted() {
        program.write(&format!("skills/{name}/SKILL.md"), bytes);
    }
    program.write("skills/tea-shown/SKILL.md", skill_md(SHOWN, ""));
    let run = program.run(&["skills"]);
    let marked = |line: &&str| line.contains("(not shown to models)");
    assert_eq!(run.stdout.lines().filter(marked).count(), 5, "{run:?}");
    assert!(run.stdout.contains("tea-shown   Brews tea."), "{run:?}");
    for (name, fault) in [
        ("tea-bare", "`SKILL.md` is UTF-16; save it as UTF-8"),
        ("tea-utf16", "`SKILL.md` is UTF-16; save it as UTF-8"),
        (
            "tea-latin",
            "`SKILL.md` is not UTF-8 on line 7; save it as UTF-8",
        ),
    ] {
        let line = format!("`{name}`: {fault}");
        assert!(run.stderr.contains(&line), "{line}: {}", run.stderr);
        let check = program.run(&["check", &format!("skills/{name}")]);
        let is_said = check
            .stdout
            .contains(&format!("error: {fault} [file-encoding]"));
        assert!(is_said && check.code == 1, "{check:?}");
    }
    let run = program.run(&["skills", "--output", "json"]);
    let listed: Value = serde_json::from_str(&run.stdout).unwrap();
    let skills = listed["skills"].as_array().unwrap();
    let reasons: Vec<_> = skills.iter().map(|skill| skill.get("unlisted")).collect();
    assert_eq!(reasons[0].unwrap(), "its author hides it from models");
    assert_eq!(reasons.iter().filter(|why| why.is_none()).count(), 1);
    let encoded = ["tea-bare", "tea-latin", "tea-utf16"];
    for skill in skills {
        let has_description = !encoded.contains(&skill["name"].as_str().unwrap());
        assert_eq!(skill["description"] == "Brews tea.", has_description);
    }
    let run = program.run(&["call", "get_skill", r#"{"skill_name":"tea-wis"}"#]);
    assert!(!run.stderr.contains("tea-wish"), "{run:?}");
    let run = program.run(&["prompt"]);
    assert_eq!(run.stdout.matches("  - tea-").count(), 1, "{run:?}");
}

#[test]
fn check_names_keys_of_other_hosts_once() {
    let program = Program::new();
    for name in ["one", "two"] {
        let more = "model: x\nhooks: []\ndisable-model-invocation: true\n";
        program.write(&format!("skills/{name}/SKILL.md"), skill_md(name, more));
    }
    let run = program.run(&["check"]);
    let line = "2 skills have keys of other hosts, which skillhost ignores: `hooks`, `model` \
                [key-ignored]\n";
    assert_eq!(run.stdout.matches("key-ignored").count(), 1, "{run:?}");
    assert!(run.stdout.ends_with(line), "{run:?}");
    assert_eq!(run.stdout.matches("[key-extension]").count(), 2, "{run:?}");
    assert!(
        run.stderr.contains("2 skills: 0 errors, 6 warnings"),
        "{run:?}"
    );
    assert_eq!(run.code, 0);
}

#[test]
fn note_says_what_other_hosts_replace() {
    let folders = Folders::new();
    let body = "Fix $ARGUMENTS with ${CLAUDE_SKILL_DIR}/fix.sh.\n\n- !`git status`\n";
    let text = format!("---\nname: fix\ndescription: Fixes.\n---\n{body}");
    folders.write("fix/SKILL.md", text);
    folders.write("plain/SKILL.md", skill_md("plain", ""));
    let note = "In these instructions:\n\
                `$ARGUMENTS` is not replaced here: it means the words that the user gave with \
                the skill's name\n\
                `${CLAUDE_SKILL_DIR}` is not replaced here: it means the skill's folder, so give \
                tools the path after it\n\
                `` !`command` `` is not run here: other hosts put the output of the command in \
                its place";
    for help in [true, false] {
        let builder = || builder().skills(&folders.root).help(help);
        let host = build(builder());
        for (tool, skill, expected) in [
            ("read_skill", "fix", help.then_some(note)),
            ("read_skill", "plain", None),
            // Models read its answer as JSON.
            ("get_skill", "fix", None),
        ] {
            let output = call(&host, tool, json!({"skill_name": skill})).unwrap();
            let found = host.placeholder_note(tool, &output);
            let found = found.map(sorted);
            assert_eq!(
                found,
                expected.map(|note| sorted(note.to_owned())),
                "{tool}"
            );
        }
        let mut session = Session::open(builder());
        let arguments = json!({"name": "read_skill", "arguments": {"skill_name": "fix"}});
        let result = session.ask("tools/call", arguments).unwrap();
        let content = result["content"].as_array().unwrap();
        assert_eq!(content[0]["text"], body);
        assert_eq!(content.len(), if help { 2 } else { 1 });
    }
}

fn sorted(note: String) -> Vec<String> {
    let mut lines: Vec<String> = note.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn catalog_reads_unlisted_skill_by_name() {
    let folders = folders(true);
    let catalog = Catalog::open(&[SkillsRoot::new(&folders.root)], None).unwrap();
    for (name, _) in unlisted() {
        assert!(catalog.has(name) && catalog.read(name).is_some(), "{name}");
        assert_eq!(catalog.read_listed(name), None, "{name}");
    }
    assert!(catalog.read_listed(SHOWN).is_some());
}

#[test]
fn help_on_a_link_names_no_unlisted_skill() {
    let folders = folders(true);
    folders.write("tea-text/notes.md", "Notes.");
    for (link, skill) in [("hidden.md", "tea-wish"), ("shown.md", "tea-text")] {
        let target = folders.root.join(skill).join("notes.md");
        let link = folders.root.join(SHOWN).join(link);
        std::os::unix::fs::symlink(target, link).unwrap();
    }
    let host = host(&folders);
    for (path, skill, is_named) in [
        ("hidden.md", "tea-wish", false),
        ("shown.md", "tea-text", true),
    ] {
        let arguments = json!({"skill_name": SHOWN, "file_path": path});
        let text = failure(&host, "read_file_in_skill", arguments);
        assert_eq!(text.contains(skill), is_named, "{text}");
    }
}
