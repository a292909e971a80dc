//! Resources: listing and reading files and folders.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use skillhost::SKILL_RESOURCES;

use super::{
    INVALID_PARAMS, bytes, children, digest, folders, open, read, resources, skill_md, skills, uris,
};
use crate::support::folders::CANARY;
use crate::support::session::Session;
use crate::support::{builder, repository};

#[test]
fn listed_files_match_their_manifest() {
    let mut session = Session::open(builder().skills(repository().join("skills")));
    let listed = resources(&mut session);
    let skills = skills(&mut session);
    // Two sample skills are missing: the extension allows no underscore in a name.
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
        for key in ["ttlMs", "cacheScope"] {
            assert!(got.get(key).is_some(), "{got}");
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
    let weather = listed
        .iter()
        .find(|listed| listed["uri"] == "skill://weather/SKILL.md");
    let (weather, frontmatter) = (weather.unwrap(), &skills[1]["frontmatter"]);
    assert_eq!(
        (&weather["name"], &weather["description"]),
        (&frontmatter["name"], &frontmatter["description"])
    );
    assert_eq!(weather["mimeType"], "text/markdown");
    let templates = session.ask("resources/templates/list", json!({})).unwrap();
    assert_eq!(
        templates["resourceTemplates"][0]["uriTemplate"],
        "skill://{skill}/{+path}"
    );
}

#[test]
fn folders_list_their_entries() {
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
        ("skill://a/SKILL.md", "the path is not a directory"),
        ("skill://a/none", "there is no such file"),
        ("skill://none", "there is no such skill"),
        ("skill://a/docs/", "a name in the URI's path is empty"),
    ] {
        let (code, message) = session.error("resources/directory/read", json!({"uri": uri}));
        assert_eq!(code, INVALID_PARAMS, "{uri}");
        assert!(message.contains(why), "{uri}: {message}");
    }
    let (code, message) = session.error("resources/read", json!({"uri": "skill://a/docs"}));
    assert_eq!(code, INVALID_PARAMS);
    assert!(message.ends_with("the path is a directory"), "{message}");
}

#[test]
fn no_uri_reads_outside_its_skill() {
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
            // rmcp itself repeats the whole URI of a skill.
            let is_short = method == "skills/get" || message.len() < 2000;
            assert!(is_short, "{method}");
        }
    }
    assert_eq!(bytes(&read(&mut session, "skill://a/docs/x.md")), b"x");
}

#[test]
fn each_request_sees_current_files() {
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
fn capabilities_name_served_resources_only() {
    let folders = folders("a");
    let mut session = open(&folders);
    let capabilities = session.ask("server/discover", json!({})).unwrap()["capabilities"].take();
    assert_eq!(capabilities["resources"], json!({}));
    let extension = &capabilities["extensions"]["io.modelcontextprotocol/skills"];
    assert_eq!(*extension, json!({"directoryRead": true}));

    let without_resources = builder().skills(&folders.root).disable(SKILL_RESOURCES);
    let mut session = Session::open(without_resources);
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
fn missing_resource_has_error_code_of_revision() {
    let folders = folders("a");
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut session = Session::open_revision(revision, builder().skills(&folders.root));
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
    // A long URI is not repeated.
    let long = format!("skill://a/{}", "x".repeat(1000));
    let error = open(&folders).ask("resources/read", json!({"uri": long}));
    assert_eq!(error.unwrap_err().get("data"), None);
}
