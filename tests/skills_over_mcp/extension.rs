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

#[test]
fn lists_skills_that_every_client_accepts() {
    let long = "x".repeat(1025);
    // `skills/get` returns these skills, with the values in their SKILL.md.
    let cases = [
        (
            "no-name",
            "---\ndescription: x\n---\n".to_owned(),
            json!("no-name"),
            json!("x"),
        ),
        (
            "no-description",
            "---\nname: no-description\n---\n".to_owned(),
            json!("no-description"),
            json!(""),
        ),
        (
            "too-long",
            format!("---\nname: too-long\ndescription: {long}\n---\n"),
            json!("too-long"),
            json!(long),
        ),
        (
            "no-frontmatter",
            "# A\n".to_owned(),
            json!("no-frontmatter"),
            json!(""),
        ),
        (
            "unclosed",
            "---\nname: unclosed\n".to_owned(),
            json!("unclosed"),
            json!(""),
        ),
        (
            "no-yaml",
            "---\nname: no-yaml\ndescription: a: b\n---\n".to_owned(),
            json!("no-yaml"),
            json!("a: b"),
        ),
        (
            "12",
            "---\nname: 12\ndescription: x\n---\n".to_owned(),
            json!("12"),
            json!("x"),
        ),
        (
            "tool-list",
            "---\nname: tool-list\ndescription: x\nallowed-tools: [Read]\n---\n".to_owned(),
            json!("tool-list"),
            json!("x"),
        ),
        (
            "Upper",
            skill_md("Upper"),
            json!("Upper"),
            json!("About Upper."),
        ),
        (
            "under_score",
            skill_md("under_score"),
            json!("under_score"),
            json!("About under_score."),
        ),
    ];
    let folders = folders("good");
    for (name, text, ..) in &cases {
        folders.write(&format!("{name}/SKILL.md"), text);
    }
    folders.write("mismatch/SKILL.md", skill_md("other"));
    folders.write("ümlaut/SKILL.md", skill_md("ümlaut"));
    folders.write("lower/skill.md", skill_md("lower"));
    folders.write("binary/SKILL.md", b"---\nname: binary\n---\n\xff");
    fs::create_dir(folders.root.join("empty")).unwrap();
    for number in 0..1_200 {
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

    let get = |name: &str| {
        let name = name.replace('ü', "%C3%BC");
        json!({"uri": format!("skill://{name}/SKILL.md")})
    };
    for (name, _, own_name, description) in &cases {
        let skill = session.ask("skills/get", get(name)).unwrap()["skill"].take();
        assert_eq!(skill["frontmatter"]["name"], *own_name, "{name}");
        assert_eq!(skill["frontmatter"]["description"], *description, "{name}");
        assert_eq!(skill["resources"].as_array().unwrap().len(), 1, "{name}");
    }
    // Over the extension's limits there are no digests.
    for name in ["many", "large"] {
        let skill = session.ask("skills/get", get(name)).unwrap()["skill"].take();
        assert_eq!(skill["frontmatter"]["name"], name);
        assert_eq!(skill["resources"], "dynamic");
    }
    for (name, why) in [
        (
            "mismatch",
            "`name` is `other`, not the folder's name, so the skill has no entry; read \
             skill://mismatch/SKILL.md instead",
        ),
        ("ümlaut", "its folder's name is not"),
        ("lower", "read skill://lower/skill.md"),
        ("binary", "not UTF-8"),
        ("empty", "`SKILL.md` is missing"),
    ] {
        let (code, message) = session.error("skills/get", get(name));
        assert_eq!(code, INVALID_PARAMS, "{name}");
        assert!(message.contains(why), "{name}: {message}");
    }
    // The files of unlisted skills are resources too.
    let listed = resources(&mut session);
    for uri in [
        "skill://mismatch/SKILL.md",
        "skill://lower/skill.md",
        "skill://large/big",
        "skill://many/SKILL.md",
    ] {
        assert!(uris(&listed).contains(&uri), "{uri}");
    }
    let many = listed.iter().map(|listed| listed["uri"].as_str().unwrap());
    assert_eq!(
        many.filter(|uri| uri.starts_with("skill://many/")).count(),
        1_201
    );
}

#[test]
fn digests_files_only_for_an_entry() {
    let folders = folders("good");
    folders.write("other/SKILL.md", skill_md("x"));
    let log = folders.outside.join("log");
    let builder = builder().skills(&folders.root);
    let mut session = Session::open(builder.audit(&log, AuditMode::Required));
    resources(&mut session);
    skills(&mut session);
    let get = |name: &str| json!({"uri": format!("skill://{name}/SKILL.md")});
    session.ask("skills/get", get("good")).unwrap();
    let (_, message) = session.error("skills/get", get("other"));
    assert!(message.contains("not the folder's name"), "{message}");
    let records = fs::read_to_string(&log).unwrap();
    let records = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let records: Vec<Value> = records.collect();
    let answers = |skill: &str| -> Vec<u64> {
        let records = records.iter().filter(|record| record["skill"] == skill);
        let bytes = records.map(|record| record["bytes"].as_u64().unwrap());
        bytes.collect()
    };
    // The first answer is of `resources/list`, without digests.
    let [without, listed, got] = answers("good")[..] else {
        panic!("{records:?}")
    };
    assert!(listed > without && got == listed, "{records:?}");
    let [without, listed, got] = answers("other")[..] else {
        panic!("{records:?}")
    };
    assert!(listed == without && got == without, "{records:?}");
}

#[test]
fn listing_tells_how_to_find_missing_files() {
    let folders = folders("a");
    // They sort before SKILL.md, so the walk ends before it.
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
    program.write("skills/a/SKILL.md", skill_md("other\u{1b}[2J"));
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
        let about = |what: &str| {
            let lines = run.stderr.lines();
            lines.filter(|line| line.contains(what)).count()
        };
        for (what, count) in [
            (line, 1),
            (
                "2 with a folder name that the specification does not allow (`c_c`, `d_d`)",
                1,
            ),
            (
                "`skills/list` leaves out `a`: the frontmatter is not YAML",
                details,
            ),
            ("the manifest of `b` lacks `etc` (outside)", details),
        ] {
            assert_eq!(about(what), count, "{what}: {}", run.stderr);
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
