//! Skills over MCP: resources at `skill://<skill>/<path>`, and the skills
//! extension with its manifests and folders.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skillhost::{Grant, SKILL_RESOURCES};

use crate::support::builder;
use crate::support::folders::{CANARY, Folders};
use crate::support::program::Program;
use crate::support::repository;
use crate::support::session::Session;

const INVALID_PARAMS: i64 = -32602;

fn open(folders: &Folders) -> Session {
    Session::open(builder().skills(&folders.root))
}

fn skill_md(name: &str) -> String {
    format!("---\nname: {name}\ndescription: About {name}.\n---\n# {name}\n")
}

/// A root with a skill of this name, which is as it should be.
fn folders(name: &str) -> Folders {
    let folders = Folders::new();
    folders.write(&format!("{name}/SKILL.md"), skill_md(name));
    folders
}

fn uris(entries: &[Value]) -> Vec<&str> {
    entries
        .iter()
        .map(|entry| entry["uri"].as_str().unwrap())
        .collect()
}

fn resources(session: &mut Session) -> Vec<Value> {
    session.all("resources/list", json!({}), "resources").0
}

fn skills(session: &mut Session) -> Vec<Value> {
    session.all("skills/list", json!({}), "skills").0
}

fn children(session: &mut Session, uri: &str) -> Vec<Value> {
    session
        .all("resources/directory/read", json!({"uri": uri}), "resources")
        .0
}

/// The one content that a read has.
fn read(session: &mut Session, uri: &str) -> Value {
    let mut result = session.ask("resources/read", json!({"uri": uri})).unwrap();
    assert_eq!(result["contents"].as_array().unwrap().len(), 1);
    let content = result["contents"][0].take();
    assert_eq!(content["uri"], uri);
    content
}

fn bytes(content: &Value) -> Vec<u8> {
    match (content["text"].as_str(), content["blob"].as_str()) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(blob)) => BASE64_STANDARD.decode(blob).unwrap(),
        _ => panic!("{content}"),
    }
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digest}")
}

#[test]
fn every_file_that_is_listed_reads_as_its_manifest_says() {
    let mut session = Session::open(builder().skills(repository().join("skills")));
    let listed = resources(&mut session);
    let skills = skills(&mut session);
    // The others' names have an underscore, which the extension does not know.
    let names: Vec<&Value> = skills
        .iter()
        .map(|skill| &skill["frontmatter"]["name"])
        .collect();
    assert_eq!(names, ["calculator", "weather"]);
    for name in ["data_analysis", "test_data_factory"] {
        assert!(uris(&listed).contains(&&*format!("skill://{name}/SKILL.md")));
    }
    for skill in &skills {
        let got = session
            .ask("skills/get", json!({"uri": skill["uri"]}))
            .unwrap();
        assert_eq!(got["skill"], *skill);
        for cached in ["ttlMs", "cacheScope"] {
            assert!(got.get(cached).is_some(), "{got}");
        }
        assert!(got.get("nextCursor").is_none());
        for file in skill["resources"].as_array().unwrap() {
            let content = read(&mut session, file["uri"].as_str().unwrap());
            let bytes = bytes(&content);
            assert_eq!(file["size"], bytes.len());
            assert_eq!(file["digest"], digest(&bytes));
            let listed = listed
                .iter()
                .find(|listed| listed["uri"] == file["uri"])
                .unwrap();
            assert_eq!(listed["size"], file["size"]);
            assert_eq!(listed["mimeType"], content["mimeType"]);
        }
    }
    let about = listed
        .iter()
        .find(|listed| listed["uri"] == "skill://weather/SKILL.md");
    let (about, front) = (about.unwrap(), &skills[1]["frontmatter"]);
    assert_eq!(
        (&about["name"], &about["description"]),
        (&front["name"], &front["description"])
    );
    assert_eq!(about["mimeType"], "text/markdown");
    let templates = session.ask("resources/templates/list", json!({})).unwrap();
    assert_eq!(
        templates["resourceTemplates"][0]["uriTemplate"],
        "skill://{skill}/{+path}"
    );
}

#[test]
fn folders_are_walked_down_to_every_file_and_no_further() {
    let folders = folders("a");
    folders.write("a/docs/deep/x.md", "x");
    folders.write("a/docs/y.bin", b"\xff");
    folders.write("a/Makefile", "all:");
    fs::create_dir(folders.root.join("a/empty")).unwrap();
    let mut session = open(&folders);
    let root = children(&mut session, "skill://a");
    let seen: Vec<_> = root
        .iter()
        .map(|child| (&child["name"], &child["mimeType"]))
        .collect();
    let (directory, none) = (json!("inode/directory"), Value::Null);
    assert_eq!(
        seen,
        [
            (&json!("Makefile"), &none),
            (&json!("a"), &json!("text/markdown")),
            (&json!("docs"), &directory),
            (&json!("empty"), &directory),
        ]
    );
    assert_eq!(root[1]["uri"], "skill://a/SKILL.md");
    assert_eq!(root[1]["description"], "About a.");
    let docs = children(&mut session, "skill://a/docs");
    assert_eq!(uris(&docs), ["skill://a/docs/deep", "skill://a/docs/y.bin"]);
    assert_eq!(children(&mut session, "skill://a/empty"), [] as [Value; 0]);
    let content = read(&mut session, "skill://a/docs/y.bin");
    assert_eq!(
        (&content["blob"], &content["mimeType"]),
        (&json!("/w=="), &json!("application/octet-stream"))
    );
    assert_eq!(
        read(&mut session, "skill://a/Makefile")["mimeType"],
        "text/plain"
    );
    for (uri, why) in [
        ("skill://a/SKILL.md", "it is not a directory"),
        ("skill://a/none", "there is no such file"),
        ("skill://none", "there is no such skill"),
        ("skill://a/docs/", "a name in its path that is empty"),
    ] {
        let (code, message) = session.error("resources/directory/read", json!({"uri": uri}));
        assert_eq!(code, INVALID_PARAMS, "{uri}");
        assert!(message.contains(why), "{uri}: {message}");
    }
    let (code, message) = session.error("resources/read", json!({"uri": "skill://a/docs"}));
    assert_eq!(code, INVALID_PARAMS);
    assert!(message.ends_with("it is a directory"), "{message}");
}

#[test]
fn no_address_reads_outside_the_skill_that_it_names() {
    let folders = folders("a");
    folders.write("b/SKILL.md", CANARY);
    folders.write("a/docs/x.md", "x");
    symlink("../../outside/canary.txt", folders.root.join("a/out.txt")).unwrap();
    symlink("../../outside", folders.root.join("a/out")).unwrap();
    symlink("../outside", folders.root.join("c")).unwrap();
    let mut session = open(&folders);
    let outside = folders.outside.join("canary.txt").display().to_string();
    for uri in [
        "",
        "skill://",
        "skill:///etc/passwd",
        "skill://..",
        "skill://../outside/canary.txt",
        "skill://%2e%2e/outside/canary.txt",
        "skill://a/../b/SKILL.md",
        "skill://a/docs/../../b/SKILL.md",
        "skill://a/%2e%2e/b/SKILL.md",
        "skill://a/..%2fb%2fSKILL.md",
        "skill://a/%2e%2e%2fb/SKILL.md",
        "skill://a/..%5cb%5cSKILL.md",
        "skill://a/..\\b\\SKILL.md",
        "skill://a/%252e%252e/b/SKILL.md",
        "skill://a/%c0%ae%c0%ae/b/SKILL.md",
        "skill://a/out.txt",
        "skill://a/out/canary.txt",
        "skill://c/canary.txt",
        "skill://a%2f..%2fb/SKILL.md",
        "skill://a/SKILL.md/../../b/SKILL.md",
        "skill://a//etc/passwd",
        "skill://x@b/SKILL.md",
        "skill://b:80/SKILL.md",
        "skill://b/SKILL.md?x",
        "skill://b/SKILL.md#x",
        "SKILL://b/SKILL.md",
        "file:///etc/passwd",
        &format!("file://{outside}"),
        &format!("skill://a/{outside}"),
        &format!("skill://a{outside}"),
        &outside,
        &"skill://a/../".repeat(10_000),
        &format!("skill://a/{}", "ä".repeat(5000)),
    ] {
        for method in ["resources/read", "resources/directory/read", "skills/get"] {
            let (code, message) = session.error(method, json!({"uri": uri}));
            assert_eq!(code, INVALID_PARAMS, "{method} {uri}");
            assert!(!message.contains(CANARY), "{method} {uri}: {message}");
            // rmcp repeats the whole address of a skill before it asks us.
            let short = method == "skills/get" || message.len() < 2000;
            assert!(short, "{method}");
        }
    }
    assert_eq!(bytes(&read(&mut session, "skill://a/docs/x.md")), b"x");
}

#[test]
fn a_skill_that_the_extension_has_no_entry_for_is_left_out_and_the_others_are_not() {
    let long = "x".repeat(1025);
    let cases = [
        ("mismatch", skill_md("other"), "they must be the same"),
        (
            "no-name",
            "---\ndescription: x\n---\n".to_owned(),
            "`name` is missing",
        ),
        (
            "no-description",
            "---\nname: no-description\n---\n".to_owned(),
            "`description` is missing",
        ),
        (
            "too-long",
            format!("---\nname: too-long\ndescription: {long}\n---\n"),
            "at most 1024",
        ),
        (
            "no-frontmatter",
            "# A\n".to_owned(),
            "there is no frontmatter",
        ),
        (
            "unclosed",
            "---\nname: unclosed\n".to_owned(),
            "never closed",
        ),
        (
            "no-yaml",
            "---\nname: no-yaml\ndescription: a: b\n---\n".to_owned(),
            "not valid YAML",
        ),
        (
            "12",
            "---\nname: 12\ndescription: x\n---\n".to_owned(),
            "`name` is not text",
        ),
        (
            "infinite",
            "---\nname: infinite\ndescription: x\nmetadata:\n  a: .inf\n---\n".to_owned(),
            "JSON has no number",
        ),
        ("Upper", skill_md("Upper"), "lower-case letters"),
        ("under_score", skill_md("under_score"), "lower-case letters"),
        ("ümlaut", skill_md("ümlaut"), "lower-case letters"),
    ];
    let folders = folders("good");
    for (name, text, _) in &cases {
        folders.write(&format!("{name}/SKILL.md"), text);
    }
    folders.write("lower/skill.md", skill_md("lower"));
    folders.write("binary/SKILL.md", b"---\nname: binary\n---\n\xff");
    fs::create_dir(folders.root.join("empty")).unwrap();
    for number in 0..512 {
        folders.write(&format!("many/{number}"), "");
    }
    folders.write("many/SKILL.md", skill_md("many"));
    folders.write("large/SKILL.md", skill_md("large"));
    folders.write("large/big", vec![0; 16 << 20]);
    folders.write("zz/SKILL.md", skill_md("zz"));
    let mut session = open(&folders);
    let listed = skills(&mut session);
    assert_eq!(
        uris(&listed),
        ["skill://good/SKILL.md", "skill://zz/SKILL.md"]
    );

    let cases = cases.iter().map(|(name, _, why)| (*name, *why));
    for (name, why) in cases.chain([
        ("lower", "there is no `SKILL.md`"),
        ("binary", "not UTF-8"),
        ("empty", "there is no `SKILL.md`"),
        ("many", "more than 512 files"),
        ("large", "larger than 16 MiB"),
    ]) {
        let uri = format!("skill://{}/SKILL.md", name.replace('ü', "%C3%BC"));
        let (code, message) = session.error("skills/get", json!({"uri": uri}));
        assert_eq!(code, INVALID_PARAMS, "{name}");
        assert!(message.contains(why), "{name}: {message}");
    }
    // Their files are resources like any others.
    let listed = resources(&mut session);
    for uri in [
        "skill://mismatch/SKILL.md",
        "skill://lower/skill.md",
        "skill://large/big",
        "skill://many/SKILL.md",
    ] {
        assert!(uris(&listed).contains(&uri), "{uri}");
    }
    assert!(!uris(&listed).contains(&"skill://many/1"));
    assert_eq!(bytes(&read(&mut session, "skill://many/1")), b"");
    assert_eq!(children(&mut session, "skill://many").len(), 513);
}

#[test]
fn frontmatter_is_passed_on_with_every_key_and_its_type() {
    let folders = Folders::new();
    let text = "---\nname: a\ndescription: >-\n  One\n  two.\nlicense: 'MIT'\nmetadata:\n  \
                version: 1.10\nallowed-tools: [Read]\nmodel: x\n---\nBody\n";
    folders.write("a/SKILL.md", text.replace('\n', "\r\n"));
    let mut session = open(&folders);
    assert_eq!(
        skills(&mut session)[0]["frontmatter"],
        json!({
            "name": "a", "description": "One two.", "license": "MIT",
            "metadata": {"version": 1.1}, "allowed-tools": ["Read"], "model": "x",
        })
    );
}

#[test]
fn what_lies_in_a_skill_and_cannot_be_read_is_in_no_listing() {
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
fn the_operator_is_told_of_what_is_left_out() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", skill_md("other\u{1b}[2J"));
    program.write("skills/b/SKILL.md", skill_md("b"));
    symlink("/etc", program.folder.path().join("skills/b/etc")).unwrap();
    let meta = crate::support::http::meta();
    let request = |id| {
        let list =
            json!({"jsonrpc": "2.0", "id": id, "method": "skills/list", "params": {"_meta": meta}});
        format!("{list}\n")
    };
    let run = program.run_with(&["serve"], &(request(1) + &request(2)));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let about = |what: &str| {
        run.stderr
            .lines()
            .filter(|line| line.contains(what))
            .count()
    };
    assert_eq!(
        about("`a` is left out of the skills extension"),
        1,
        "{}",
        run.stderr
    );
    assert_eq!(
        about("the manifest of `b` is without `etc` (outside)"),
        1,
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains('\u{1b}'), "{}", run.stderr);
    assert!(
        run.stdout
            .lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok())
    );
}

#[test]
fn pages_hold_each_entry_once_in_order_whatever_happens_in_between() {
    let folders = Folders::new();
    for skill in ["a", "b", "c"] {
        folders.write(&format!("{skill}/SKILL.md"), skill_md(skill));
        for number in 0..149 {
            folders.write(&format!("{skill}/docs/{number:03}"), "x");
        }
    }
    let mut session = open(&folders);
    let (all, pages) = session.all("resources/list", json!({}), "resources");
    assert_eq!(pages, [200, 200, 50]);
    let seen = uris(&all);
    assert!(seen.is_sorted() && seen.iter().collect::<BTreeSet<_>>().len() == 450);

    // The next page starts after the last entry, though that goes and others
    // come before it.
    let first = session.ask("resources/list", json!({})).unwrap();
    assert_eq!(first["resources"][199]["uri"], "skill://b/docs/048");
    fs::remove_file(folders.root.join("b/docs/048")).unwrap();
    folders.write("b/docs/0000", "x");
    folders.write("a/docs/0000", "x");
    let next = json!({"cursor": first["nextCursor"]});
    let second = session.ask("resources/list", next.clone()).unwrap();
    assert_eq!(second["resources"][0]["uri"], "skill://b/docs/049");
    assert_eq!(session.ask("resources/list", next.clone()).unwrap(), second);
    // And though the whole skill goes.
    fs::remove_dir_all(folders.root.join("b")).unwrap();
    let second = session.ask("resources/list", next).unwrap();
    assert_eq!(second["resources"][0]["uri"], "skill://c/SKILL.md");

    for number in 0..251 {
        folders.write(&format!("a/many/{number:03}"), "x");
    }
    let (all, pages) = session.all(
        "resources/directory/read",
        json!({"uri": "skill://a/many"}),
        "resources",
    );
    assert_eq!((all.len(), pages), (251, vec![200, 51]));
    assert!(uris(&all).is_sorted());
}

#[test]
fn pages_of_skills_end_by_number_and_by_what_they_cost() {
    let folders = Folders::new();
    for number in 0..60 {
        let name = format!("a{number:02}");
        folders.write(&format!("{name}/SKILL.md"), skill_md(&name));
        // Left out, and looked at for nothing.
        folders.write(&format!("b{number:02}/SKILL.md"), skill_md("x"));
        folders.write(&format!("c{number:02}/SKILL.md"), skill_md("x"));
    }
    folders.write("z/SKILL.md", skill_md("z"));
    let mut session = open(&folders);
    let (all, pages) = session.all("skills/list", json!({}), "skills");
    assert_eq!(pages, [50, 10, 0, 1]);
    let seen = uris(&all);
    assert!(seen.is_sorted() && seen.iter().collect::<BTreeSet<_>>().len() == 61);

    let folders = Folders::new();
    for name in ["a", "b", "c", "d"] {
        folders.write(&format!("{name}/SKILL.md"), skill_md(name));
        folders.write(&format!("{name}/big"), vec![0; (16 << 20) - 100]);
    }
    let (_, pages) = open(&folders).all("skills/list", json!({}), "skills");
    assert_eq!(pages, [3, 1]);
}

#[test]
fn a_cursor_that_is_none_of_the_listing_is_refused() {
    let folders = folders("a");
    for number in 0..201 {
        folders.write(&format!("a/docs/{number:03}"), "x");
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

#[test]
fn skills_are_served_as_they_are_at_each_request() {
    let folders = folders("a");
    let mut session = open(&folders);
    let uri = "skill://a/SKILL.md";
    let before = session.ask("skills/get", json!({"uri": uri})).unwrap();
    folders.write("a/SKILL.md", skill_md("a") + "more\n");
    folders.write("a/new.md", "new");
    folders.write("b/SKILL.md", skill_md("b"));
    let after = session.ask("skills/get", json!({"uri": uri})).unwrap();
    assert_ne!(
        before["skill"]["resources"][0],
        after["skill"]["resources"][0]
    );
    assert_eq!(after["skill"]["resources"][1]["uri"], "skill://a/new.md");
    assert_eq!(uris(&skills(&mut session)), [uri, "skill://b/SKILL.md"]);
    assert_eq!(resources(&mut session).len(), 3);
    fs::remove_dir_all(folders.root.join("a")).unwrap();
    assert_eq!(uris(&skills(&mut session)), ["skill://b/SKILL.md"]);
    for method in ["skills/get", "resources/read"] {
        assert_eq!(session.error(method, json!({"uri": uri})).0, INVALID_PARAMS);
    }
}

#[test]
fn a_skill_that_is_not_granted_is_answered_like_one_that_is_not_there() {
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

#[test]
fn a_server_says_that_it_serves_resources_if_it_does() {
    let folders = folders("a");
    let mut session = open(&folders);
    let capabilities = session.ask("server/discover", json!({})).unwrap()["capabilities"].take();
    assert_eq!(capabilities["resources"], json!({}));
    let extension = &capabilities["extensions"]["io.modelcontextprotocol/skills"];
    assert_eq!(*extension, json!({"directoryRead": true}));

    let off = builder().skills(&folders.root).disable(SKILL_RESOURCES);
    let mut session = Session::open(off);
    let capabilities = session.ask("server/discover", json!({})).unwrap()["capabilities"].take();
    assert!(capabilities.get("resources").is_none() && capabilities.get("extensions").is_none());
    for (method, params) in [
        ("skills/list", json!({})),
        ("skills/get", json!({"uri": "skill://a/SKILL.md"})),
        ("resources/directory/read", json!({"uri": "skill://a"})),
        ("resources/read", json!({"uri": "skill://a/SKILL.md"})),
        ("resources/list", json!({})),
    ] {
        assert_eq!(session.error(method, params).0, -32601, "{method}");
    }
}

#[test]
fn what_is_not_there_has_the_code_of_the_clients_revision() {
    let folders = folders("a");
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut session = Session::of_revision(revision, builder().skills(&folders.root));
        assert_eq!(
            bytes(&read(&mut session, "skill://a/SKILL.md")),
            skill_md("a").as_bytes()
        );
        let (code, _) = session.error("resources/read", json!({"uri": "skill://a/none"}));
        assert_eq!(code, -32002, "{revision}");
    }
    let missing = json!({"uri": "skill://a/none"});
    let error = open(&folders).ask("resources/read", missing.clone());
    let error = error.unwrap_err();
    assert_eq!(error["code"], INVALID_PARAMS);
    assert_eq!(error["data"], missing);
    // No address is repeated that is longer than an error's text.
    let long = format!("skill://a/{}", "x".repeat(1000));
    let error = open(&folders).ask("resources/read", json!({"uri": long}));
    assert_eq!(error.unwrap_err().get("data"), None);
}
