//! Grants and limits for reads of resources, and the audit records of the reads.

use std::fs;

use serde_json::{Value, json};
use skillhost::{
    AuditMode, CallError, Caller, Grant, Limits, ResourceError, SKILL_RESOURCES, Stop,
};

use super::{MIB, host, manifest, paths, read, resources};
use crate::support::folders::{CANARY, Folders};
use crate::support::{block_on, build, builder};

#[test]
fn skill_that_is_not_granted_is_not_read() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("b/SKILL.md", CANARY);
    let grant = Grant::new().skills(["a"]).unwrap();
    let host = build(
        builder()
            .skills(&folders.root)
            .grant(SKILL_RESOURCES, grant),
    );
    let resources = host.skill_resources().unwrap();
    assert_eq!(resources.skills(), ["a"]);
    assert!(block_on(resources.manifest("a")).is_ok());
    for skill in ["b", "none"] {
        let denied = || ResourceError::NotGranted;
        assert_eq!(block_on(resources.read(skill, "SKILL.md")), Err(denied()));
        assert_eq!(block_on(resources.directory(skill, None)), Err(denied()));
        assert_eq!(block_on(resources.files(skill)), Err(denied()));
        assert_eq!(block_on(resources.manifest(skill)), Err(denied()));
    }
    // A grant to another tool does not apply.
    let grant = Grant::new().skills(["a"]).unwrap();
    let host = build(builder().skills(&folders.root).grant("get_skill", grant));
    let resources = host.skill_resources().unwrap();
    assert!(block_on(resources.read("b", "SKILL.md")).is_ok());
}

#[test]
fn hard_link_is_read_if_operator_allows_it() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    fs::hard_link(folders.root.join("a/SKILL.md"), folders.root.join("a/two")).unwrap();
    let listed = manifest(&resources(&folders));
    assert_eq!((paths(&listed), listed.left_out_count), (vec![], 2));
    let grant = Grant::new().hard_links(true);
    let host = build(
        builder()
            .skills(&folders.root)
            .grant(SKILL_RESOURCES, grant),
    );
    let listed = manifest(&host.skill_resources().unwrap());
    assert_eq!(paths(&listed), ["SKILL.md", "two"]);
}

#[test]
fn resources_can_be_disabled_and_never_are_tools() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    let off = build(builder().skills(&folders.root).disable(SKILL_RESOURCES));
    let none = build(builder().skills(&folders.root).without_embedded_tools());
    let on = host(&folders);
    for host in [&off, &none] {
        assert!(host.skill_resources().is_none());
        assert!(
            host.grants()
                .iter()
                .all(|grant| grant.tool != SKILL_RESOURCES)
        );
    }
    for host in [&off, &none, &on] {
        let names = host.definitions().into_iter().map(|tool| tool.name);
        assert!(!names.into_iter().any(|name| name == SKILL_RESOURCES));
        let arguments = json!({"skill_name": "a", "operation": "files"});
        let called = block_on(host.call(SKILL_RESOURCES, arguments));
        assert!(
            matches!(called, Err(CallError::UnknownTool { .. })),
            "{called:?}"
        );
    }
}

#[test]
fn limits_apply_to_reads_of_resources() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("a/big", vec![b'x'; 8 * MIB]);
    let mut limits = Limits::default();
    limits.memory = 4 * MIB;
    let grant = Grant::new().limits(limits);
    let host = build(
        builder()
            .skills(&folders.root)
            .grant(SKILL_RESOURCES, grant),
    );
    let resources = host.skill_resources().unwrap();
    let stopped = Err(ResourceError::Stopped(Stop::Memory(4 * MIB)));
    assert_eq!(read(&resources, "big"), stopped);
    assert_eq!(read(&resources, "SKILL.md").unwrap().len(), 1);
}

#[test]
fn every_read_of_a_resource_is_recorded() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "secret");
    let log = folders.outside.join("audit.jsonl");
    let builder = builder().skills(&folders.root);
    let host = build(builder.audit(&log, AuditMode::Required));
    let resources = host
        .skill_resources()
        .unwrap()
        .with_caller(Caller::default().id("7"));
    read(&resources, "SKILL.md").unwrap();
    read(&resources, "none").unwrap_err();
    manifest(&resources);
    let text = fs::read_to_string(log).unwrap();
    assert!(!text.contains("secret"), "{text}");
    let records = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let records: Vec<Value> = records.collect();
    let expected = [
        (json!("SKILL.md"), "output", Value::Null),
        (json!("none"), "failed", json!("not-found")),
        (Value::Null, "output", Value::Null),
    ];
    assert_eq!(records.len(), expected.len(), "{text}");
    for (record, (path, outcome, reason)) in records.iter().zip(expected) {
        assert_eq!(record["tool"], SKILL_RESOURCES);
        assert_eq!(
            (&record["id"], &record["skill"]),
            (&json!("7"), &json!("a"))
        );
        assert_eq!((&record["path"], &record["reason"]), (&path, &reason));
        assert_eq!(record["outcome"], outcome);
    }
}
