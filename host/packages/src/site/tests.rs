//! Skills of sites, well-behaved and hostile.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{INDEX, SCHEMA, SiteSource};
use crate::client::RegistrySettings;
use crate::digest::Digest;
use crate::layer;
use crate::skill_files::SkillFiles;
use crate::skill_files::tests::skill_files;
use crate::tests::registry::{Answer, TestRegistry, answer};
use crate::zip;

const SKILL: &[u8] = b"---\nname: reports\ndescription: d\n---\n";

/// Starts a site with an index, and other responses by path.
fn site(index: &Value, others: &[(&'static str, Vec<u8>)]) -> TestRegistry {
    let server = TestRegistry::start();
    let index = answer("200 OK", &[], index.to_string().as_bytes());
    let others = others.to_vec();
    server.replace_answers(move |head| {
        let path = head.split(' ').nth(1).unwrap();
        if path == INDEX {
            return Some(Answer::Raw(index.clone()));
        }
        let found = others.iter().find(|(name, _)| *name == path);
        found.map(|(_, bytes)| Answer::Raw(bytes.clone()))
    });
    server
}

fn fetch(server: &TestRegistry) -> anyhow::Result<SkillFiles> {
    let source: SiteSource = format!("http://{}#reports", server.authority).parse()?;
    source.fetch(&RegistrySettings::default())
}

/// Returns an index with the skill `reports`, and an entry of an unknown type.
fn index(url: &str, digest: &Digest) -> Value {
    json!({"$schema": SCHEMA, "skills": [
        {"name": "other", "type": "future", "url": 1},
        {"name": "reports", "type": "skill-md", "description": "d", "url": url, "digest": digest,
         "more": 1},
    ]})
}

#[test]
fn parses_sites_and_skills() {
    for (text, shown) in [
        (
            "https://site.example#reports",
            "https://site.example#reports",
        ),
        ("https://site.example/#a-1", "https://site.example#a-1"),
        ("http://localhost:8080#a", "http://localhost:8080#a"),
    ] {
        assert_eq!(text.parse::<SiteSource>().unwrap().to_string(), shown);
    }
    for text in [
        "https://site.example",
        "https://site.example#",
        "https://site.example#..",
        "https://site.example#a/b",
        "https://site.example/x#a",
        "https://user@site.example#a",
        "http://site.example#a",
        "http://localhost:080#a",
        "https://[0::1]#a",
        "ftp://site.example#a",
    ] {
        assert!(text.parse::<SiteSource>().is_err(), "{text}");
    }
}

#[test]
fn fetches_skill_by_each_kind_of_address() {
    let digest = Digest::of(SKILL);
    let file = "/.well-known/agent-skills/reports/SKILL.md";
    let good = || answer("200 OK", &[], SKILL);
    for url in [file, "reports/SKILL.md", "./reports/SKILL.md"] {
        let files = fetch(&site(&index(url, &digest), &[(file, good())])).unwrap();
        assert_eq!(files.skill_md(), ("SKILL.md", SKILL), "{url}");
    }
    let moved = answer("302 Found", &[("location", "/new")], b"");
    let files = fetch(&site(
        &index("/old", &digest),
        &[("/old", moved), ("/new", good())],
    ));
    assert_eq!(files.unwrap().skill_md().1, SKILL);
}

#[test]
fn unpacks_archives_of_both_kinds() {
    let files = skill_files(&[("SKILL.md", "x"), ("scripts/a.py", "y")]).unwrap();
    let archive = layer::compress(&layer::pack(&files).unwrap()).unwrap();
    let fetch_archive = |bytes: &[u8]| {
        let mut index = index("/a", &Digest::of(bytes));
        index["skills"][1]["type"] = json!("archive");
        fetch(&site(&index, &[("/a", answer("200 OK", &[], bytes))]))
    };
    assert_eq!(fetch_archive(&archive).unwrap(), files);
    assert_eq!(
        fetch_archive(&zip::tests::archive_of(&files)).unwrap(),
        files
    );
    let cut = archive.len() - 20;
    for (bytes, why) in [
        (&archive[..cut], "not valid gzip"),
        (b"PK\x03\x04", "it has no end"),
        (b"Rar!", "neither a `.tar.gz` nor a `.zip`"),
        (b"", "neither a `.tar.gz` nor a `.zip`"),
    ] {
        let error = format!("{:#}", fetch_archive(bytes).unwrap_err());
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn hostile_sites_offer_nothing() {
    let digest = Digest::of(SKILL);
    let good = || vec![("/a", answer("200 OK", &[], SKILL))];
    let mut twice = index("/a", &digest);
    twice["skills"][0]["name"] = json!("reports");
    let mut older = index("/a", &digest);
    older["$schema"] = Value::Null;
    let mut kind = index("/a", &digest);
    kind["skills"][1]["type"] = json!("\u{1b}[2J");
    let mut missing = index("/a", &digest);
    missing["skills"][1]["name"] = json!("../reports\u{1b}[2J");
    let redirect = |to: &str| vec![("/a", answer("302 Found", &[("location", to)], b""))];
    for (index, others, why) in [
        (
            index("/a", &Digest::of(b"x")),
            good(),
            "its bytes have the digest",
        ),
        (index("/b", &digest), good(), "status 404"),
        (twice, good(), "the skill `reports` twice"),
        (older, good(), "another version than 0.2.0: no schema"),
        (kind, good(), "neither `skill-md` nor `archive`"),
        (missing, good(), "it has: other, ../reports"),
        (json!({"$schema": SCHEMA}), good(), "the index is invalid"),
        (json!([]), good(), "the index is invalid"),
        (index("../../a", &digest), good(), "an invalid address"),
        (
            index("http://user@localhost/a", &digest),
            good(),
            "an invalid address",
        ),
        (
            index("ftp://localhost/a", &digest),
            good(),
            "cannot reach the server",
        ),
        (
            index("http://10.0.0.1/a", &digest),
            good(),
            "plain HTTP to `10.0.0.1`",
        ),
        (
            index("https://10.0.0.1/a", &digest),
            good(),
            "whose address is not public",
        ),
        (
            index("https://[::1]/a", &digest),
            good(),
            "whose address is not public",
        ),
        (
            index("https://169.254.169.254/a", &digest),
            good(),
            "whose address is not public",
        ),
        (
            index("/a", &digest),
            redirect("https://10.0.0.1/a"),
            "cannot follow the redirect",
        ),
        (index("/a", &digest), redirect("/a"), "redirects more than"),
        (index(INDEX, &digest), vec![], "its bytes have the digest"),
    ] {
        let error = format!("{:#}", fetch(&site(&index, &others)).unwrap_err());
        assert!(error.contains(why), "{index}: {error}");
        assert!(!error.contains('\u{1b}'), "{error}");
    }
}

#[test]
fn bounds_size_and_time_of_index() {
    let server = TestRegistry::start();
    server.replace_answers(|_| Some(Answer::Raw(answer("200 OK", &[], &vec![b' '; 100 << 20]))));
    let error = format!("{:#}", fetch(&server).unwrap_err());
    assert!(
        error.contains("the response is larger than 1048576 bytes"),
        "{error}"
    );
    server.replace_answers(|_| Some(Answer::Slow(answer("200 OK", &[], &[b' '; 10_000]))));
    let begin = Instant::now();
    let source: SiteSource = format!("http://{}#reports", server.authority)
        .parse()
        .unwrap();
    let settings = RegistrySettings {
        request_time: Some(Duration::from_millis(300)),
        ..RegistrySettings::default()
    };
    assert!(source.fetch(&settings).is_err());
    assert!(begin.elapsed() < Duration::from_secs(20));
}
