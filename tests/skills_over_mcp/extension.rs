//! The skills extension: listed skills, and skills that are not listed.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};
use skillhost::{AuditMode, Grant, SKILL_RESOURCES};

use super::{INVALID_PARAMS, children, folders, open, resources, skill_md, skills, uris};
use crate::support::builder;
use crate::support::folders::{CANARY, Folders};
use crate::support::program::Program;
use crate::support::session::Session;

/// A skill's folder, its SKILL.md, and its name and description in the listing. `None` if it is not
/// listed.
type Listed<'a> = (&'a str, String, Option<(&'a str, &'a str)>);

#[test]
fn lists_skills_as_every_client_accepts_them() {
    let cut = "x".repeat(1024);
    let front = |name: &str, rest: &str| format!("---\nname: {name}\n{rest}\n---\n# A\n\nText.\n");
    let cases: [Listed<'_>; 17] = [
        ("good", skill_md("good"), Some(("good", "About good."))),
        (
            "no-name",
            "---\ndescription: x\n---\n".to_owned(),
            Some(("no-name", "x")),
        ),
        (
            "no-description",
            front("no-description", ""),
            Some(("no-description", "Text.")),
        ),
        (
            "too-long",
            front("too-long", &format!("description: {cut}yz")),
            Some(("too-long", &cut)),
        ),
        (
            "no-frontmatter",
            "# A\n\nText.\n".to_owned(),
            Some(("no-frontmatter", "Text.")),
        ),
        (
            "no-yaml",
            front("no-yaml", "description: a: b"),
            Some(("no-yaml", "a: b")),
        ),
        ("12", front("12", "description: x"), Some(("12", "x"))),
        (
            "title",
            front("A Title", "description: x"),
            Some(("title", "x")),
        ),
        (
            "mismatch",
            front("other", "description: x"),
            Some(("other", "x")),
        ),
        (
            "Upper",
            front("upper", "description: x"),
            Some(("upper", "x")),
        ),
        (
            "ümlaut",
            front("umlaut", "description: x"),
            Some(("umlaut", "x")),
        ),
        // As `skill://twice/docs/…`, the skill would hide the folder `docs` that it contains.
        ("twice", front("docs", "description: x"), None),
        ("unclosed", "---\nname: unclosed\n".to_owned(), None),
        (
            "empty-text",
            "---\nname: empty-text\n---\n".to_owned(),
            None,
        ),
        ("under_score", skill_md("under_score"), None),
        ("many", skill_md("many"), None),
        ("large", skill_md("large"), None),
    ];
    let folders = Folders::new();
    for (folder, text, _) in &cases {
        folders.write(&format!("{folder}/SKILL.md"), text);
    }
    folders.write("twice/docs/x", "x");
    folders.write("lower/skill.md", skill_md("lower"));
    folders.write("binary/SKILL.md", b"---\nname: binary\n---\n\xff");
    fs::create_dir(folders.root.join("empty")).unwrap();
    for number in 0..600 {
        folders.write(&format!("many/{number}"), "");
    }
    folders.write("large/big", vec![0; 16 << 20]);
    let mut session = open(&folders);
    let listed = skills(&mut session);
    let encoded = |folder: &str| folder.replace('ü', "%C3%BC");
    let mut expected = vec![(
        "skill://lower/SKILL.md".to_owned(),
        json!({"name": "lower", "description": "About lower."}),
    )];
    for (folder, _, entry) in &cases {
        if let Some((name, description)) = entry {
            let prefix = encoded(folder);
            let uri = match name {
                name if name == folder => format!("skill://{prefix}/SKILL.md"),
                name => format!("skill://{prefix}/{name}/SKILL.md"),
            };
            expected.push((uri, json!({"name": name, "description": description})));
        }
    }
    let shown = listed.iter().map(|skill| {
        let uri = skill["uri"].as_str().unwrap().to_owned();
        (uri, skill["frontmatter"].clone())
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(shown, expected);

    let get = |folder: &str| json!({"uri": format!("skill://{}/SKILL.md", encoded(folder))});
    // `skills/get` also returns skills that are not listed, with the author's values.
    for (folder, name, description) in [
        ("no-description", "no-description", String::new()),
        ("too-long", "too-long", format!("{cut}yz")),
        ("unclosed", "unclosed", String::new()),
        (
            "under_score",
            "under_score",
            "About under_score.".to_owned(),
        ),
    ] {
        let skill = session.ask("skills/get", get(folder)).unwrap()["skill"].take();
        assert_eq!(
            skill["frontmatter"],
            json!({"name": name, "description": description}),
            "{folder}"
        );
        assert_eq!(skill["resources"].as_array().unwrap().len(), 1, "{folder}");
    }
    // Skills over the extension's limits have no digests.
    for name in ["many", "large"] {
        let skill = session.ask("skills/get", get(name)).unwrap()["skill"].take();
        assert_eq!(skill["frontmatter"]["name"], name);
        assert_eq!(skill["resources"], "dynamic");
    }
    for (name, why) in [
        ("twice", "its folder has a file or folder named `docs`"),
        (
            "mismatch",
            "the entry of this skill has the URI skill://mismatch/other/SKILL.md",
        ),
        ("binary", "not UTF-8"),
        ("empty", "`SKILL.md` is missing"),
    ] {
        let (code, message) = session.error("skills/get", get(name));
        assert_eq!(code, INVALID_PARAMS, "{name}");
        assert!(message.contains(why), "{name}: {message}");
    }
    // The files of unlisted skills are resources too.
    let listed = resources(&mut session);
    for uri in ["skill://mismatch/SKILL.md", "skill://large/big"] {
        assert!(uris(&listed).contains(&uri), "{uri}");
    }
    let many = listed.iter().map(|listed| listed["uri"].as_str().unwrap());
    let many = many.filter(|uri| uri.starts_with("skill://many/"));
    assert_eq!(many.count(), 601);
}

#[test]
fn reads_files_at_addresses_of_an_entry() {
    let folders = folders("good");
    folders.write("a/SKILL.md", skill_md("b"));
    folders.write("a/docs/x", "x");
    folders.write("c/skill.MD", skill_md("c"));
    fs::create_dir(folders.root.join("a/empty")).unwrap();
    let mut session = open(&folders);
    let listed = skills(&mut session);
    let manifest = |skill: &Value| uris(skill["resources"].as_array().unwrap()).join(" ");
    assert_eq!(
        manifest(&listed[0]),
        "skill://a/b/SKILL.md skill://a/b/docs/x"
    );
    assert_eq!(manifest(&listed[1]), "skill://c/SKILL.md");
    let entry = session.ask("skills/get", json!({"uri": "skill://a/b/SKILL.md"}));
    assert_eq!(entry.unwrap()["skill"], listed[0]);
    for skill in &listed {
        for file in skill["resources"].as_array().unwrap() {
            let read = session
                .ask("resources/read", json!({"uri": file["uri"]}))
                .unwrap();
            let text = read["contents"][0]["text"].as_str().unwrap();
            assert_eq!(json!(text.len()), file["size"], "{file}");
        }
    }
    let folder = |session: &mut Session, uri| uris(&children(session, uri)).join(" ");
    assert_eq!(
        folder(&mut session, "skill://a/b"),
        "skill://a/b/SKILL.md skill://a/b/docs skill://a/b/empty"
    );
    assert_eq!(
        folder(&mut session, "skill://a/b/docs"),
        "skill://a/b/docs/x"
    );
    assert_eq!(folder(&mut session, "skill://c"), "skill://c/SKILL.md");
    for uri in [
        "skill://a/x/SKILL.md",
        "skill://a/b/b/SKILL.md",
        "skill://a/a/SKILL.md",
        "skill://good/good/SKILL.md",
        "skill://a/B/SKILL.md",
        "skill://a/b/docs/y",
    ] {
        for method in ["resources/read", "skills/get"] {
            let (code, _) = session.error(method, json!({"uri": uri}));
            assert_eq!(code, INVALID_PARAMS, "{method} {uri}");
        }
    }
    // Once a file has this path, the address means the file.
    folders.write("a/b/SKILL.md", "inner");
    let read = session.ask("resources/read", json!({"uri": "skill://a/b/SKILL.md"}));
    assert_eq!(read.unwrap()["contents"][0]["text"], "inner");
}

#[test]
fn digests_files_only_for_an_entry() {
    let folders = folders("good");
    folders.write("ü/SKILL.md", skill_md("ü"));
    let log = folders.outside.join("log");
    let builder = builder().skills(&folders.root);
    let mut session = Session::open(builder.audit(&log, AuditMode::Required));
    resources(&mut session);
    skills(&mut session);
    let get = |name: &str| json!({"uri": format!("skill://{name}/SKILL.md")});
    session.ask("skills/get", get("good")).unwrap();
    let (_, message) = session.error("skills/get", get("%C3%BC"));
    assert!(message.contains("so the skill has no entry"), "{message}");
    let records = fs::read_to_string(&log).unwrap();
    let records = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let records: Vec<Value> = records.collect();
    let answer_sizes = |skill: &str| -> Vec<u64> {
        let records = records.iter().filter(|record| record["skill"] == skill);
        let bytes = records.map(|record| record["bytes"].as_u64().unwrap());
        bytes.collect()
    };
    // The first answer is of `resources/list`, without digests.
    let [without, listed, got] = answer_sizes("good")[..] else {
        panic!("{records:?}")
    };
    assert!(listed > without && got == listed, "{records:?}");
    let [without, listed, got] = answer_sizes("ü")[..] else {
        panic!("{records:?}")
    };
    assert!(listed == without && got == without, "{records:?}");
}

#[test]
fn listing_tells_how_to_find_missing_files() {
    let folders = folders("a");
    // These files sort before SKILL.md, so the walk ends before it reaches SKILL.md.
    for number in 0..16_400 {
        folders.write(&format!("a/A/{number:05}"), "");
    }
    let mut session = open(&folders);
    let listed = resources(&mut session);
    assert!(listed.len() < 10_000, "{}", listed.len());
    let about = listed
        .iter()
        .find(|listed| listed["uri"] == "skill://a/SKILL.md");
    let about = about.unwrap()["description"].as_str().unwrap();
    assert!(
        about.contains("Not all files of this skill are listed"),
        "{about}"
    );
    assert!(
        about.contains("`resources/directory/read` of skill://a"),
        "{about}"
    );
}

#[test]
fn frontmatter_keeps_keys_and_types() {
    let folders = Folders::new();
    let text = "---\nname: a\ndescription: >-\n  One\n  two.\nlicense: 'MIT'\nmetadata:\n  \
                version: 1.10\nallowed-tools: [Read]\nmodel: x\n---\nBody\n";
    folders.write("a/SKILL.md", text.replace('\n', "\r\n"));
    let mut session = open(&folders);
    assert_eq!(
        session
            .ask("skills/get", json!({"uri": "skill://a/SKILL.md"}))
            .unwrap()["skill"]["frontmatter"],
        json!({
            "name": "a", "description": "One two.", "license": "MIT",
            "metadata": {"version": 1.1}, "allowed-tools": ["Read"], "model": "x",
        })
    );
}

#[test]
fn lists_no_unreadable_files() {
    let folders = folders("a");
    let a = folders.root.join("a");
    folders.write("a/docs/x", "x");
    symlink("docs", a.join("inside")).unwrap();
    symlink("..", a.join("up")).unwrap();
    symlink(&folders.outside, a.join("outside")).unwrap();
    symlink(".", a.join("docs/loop")).unwrap();
    rustix::fs::mknodat(CWD, a.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    fs::hard_link(folders.outside.join("canary.txt"), a.join("hard")).unwrap();
    let mut session = open(&folders);
    let files = [
        "skill://a/SKILL.md",
        "skill://a/docs/x",
        "skill://a/inside/x",
    ];
    assert_eq!(uris(&resources(&mut session)), files);
    let skill = skills(&mut session).remove(0);
    assert_eq!(uris(skill["resources"].as_array().unwrap()), files);
    let root = ["skill://a/SKILL.md", "skill://a/docs", "skill://a/inside"];
    assert_eq!(uris(&children(&mut session, "skill://a")), root);
    for name in ["fifo", "hard", "up", "outside/canary.txt"] {
        let (code, message) = session.error(
            "resources/read",
            json!({"uri": format!("skill://a/{name}")}),
        );
        assert_eq!(code, INVALID_PARAMS, "{name}");
        assert!(!message.contains(CANARY), "{message}");
    }
}

#[test]
fn logs_one_line_about_unlisted_skills() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "---\nname: a\u{1b}[2J\n");
    program.write("skills/b/SKILL.md", skill_md("b"));
    program.write("skills/c_c/SKILL.md", skill_md("c_c"));
    program.write("skills/d_d/SKILL.md", skill_md("d_d"));
    symlink("/etc", program.folder.path().join("skills/b/etc")).unwrap();
    let meta = crate::support::http::meta();
    let request = |id| {
        let list =
            json!({"jsonrpc": "2.0", "id": id, "method": "skills/list", "params": {"_meta": meta}});
        format!("{list}\n")
    };
    let requests = request(1) + &request(2);
    let line = "`skills/list` leaves out 3 of 4 skills";
    for (log, details) in [(&[][..], 0), (&["--log", "info"], 1)] {
        let arguments: Vec<&str> = ["serve"].iter().chain(log).copied().collect();
        let run = program.run_with(&arguments, &requests);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let count_lines = |what: &str| {
            let lines = run.stderr.lines();
            lines.filter(|line| line.contains(what)).count()
        };
        for (what, count) in [
            (line, 1),
            (
                "2 without a name that the specification allows (`c_c`, `d_d`)",
                1,
            ),
            (
                "`skills/list` leaves out `a`: the frontmatter is not closed",
                details,
            ),
            ("the manifest of `b` lacks `etc` (outside)", details),
        ] {
            assert_eq!(count_lines(what), count, "{what}: {}", run.stderr);
        }
        assert!(!run.stderr.contains('\u{1b}'), "{}", run.stderr);
        let mut lines = run.stdout.lines();
        assert!(lines.all(|line| serde_json::from_str::<Value>(line).is_ok()));
    }
}

#[test]
fn skill_without_grant_looks_missing() {
    let folders = folders("a");
    folders.write("b/SKILL.md", skill_md("b") + CANARY);
    let grant = Grant::new().skills(["a"]).unwrap();
    let mut session = Session::open(
        builder()
            .skills(&folders.root)
            .grant(SKILL_RESOURCES, grant),
    );
    assert_eq!(uris(&skills(&mut session)), ["skill://a/SKILL.md"]);
    assert_eq!(uris(&resources(&mut session)), ["skill://a/SKILL.md"]);
    for (method, path) in [
        ("resources/read", "/SKILL.md"),
        ("skills/get", "/SKILL.md"),
        ("resources/directory/read", ""),
    ] {
        let there = session.error(method, json!({"uri": format!("skill://b{path}")}));
        let not_there = session.error(method, json!({"uri": format!("skill://x{path}")}));
        assert_eq!(there.0, INVALID_PARAMS);
        assert_eq!(there.1.replace("//b", "//x"), not_there.1, "{method}");
    }
}
