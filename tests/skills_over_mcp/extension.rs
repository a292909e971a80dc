//! The skills extension: entries, and skills without one.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};
use skillhost::{Grant, SKILL_RESOURCES};

use super::{
    INVALID_PARAMS, bytes, children, folders, open, read, resources, skill_md, skills, uris,
};
use crate::support::builder;
use crate::support::folders::{CANARY, Folders};
use crate::support::program::Program;
use crate::support::session::Session;

#[test]
fn only_valid_skills_have_entries() {
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
        ("unclosed", "---\nname: unclosed\n".to_owned(), "not closed"),
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
fn frontmatter_keeps_every_key_and_its_type() {
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
fn files_that_cannot_be_read_are_in_no_listing() {
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
fn skills_and_files_that_are_left_out_are_logged_once() {
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
fn a_skill_that_is_not_granted_looks_like_a_missing_one() {
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
