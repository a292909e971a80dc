//! Components of other versions of `skillhost:tool`: some run, and the errors for the rest say
//! which host would run them.

use std::fs;

use serde_json::json;
use skillhost::{Grant, Host};

use crate::support::folders::Folders;
use crate::support::{block_on, builder, guests, model_text, repository};

/// Makes a host with only this component.
fn load(component: &[u8]) -> (Folders, Host) {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    fs::write(folders.outside.join("it.wasm"), component).unwrap();
    let host = builder().skills(&folders.root).tools(&folders.outside);
    let host = block_on(host.without_embedded_tools().build()).unwrap();
    (folders, host)
}

/// Returns the reason why a component is refused.
fn refusal(text: &str) -> String {
    let (_folders, host) = load(&wat::parse_str(text).unwrap());
    let [problem] = host.problems() else {
        panic!("{text}: {:?}", host.problems());
    };
    problem.clone()
}

/// Replaces a version in a guest, as if the guest were built with that version.
fn renamed(guest: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = guest.to_owned();
    let mut found = 0;
    for at in 0..=bytes.len() - from.len() {
        if bytes[at..].starts_with(from.as_bytes()) {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
            found += 1;
        }
    }
    assert!(found > 0, "there is no `{from}`");
    bytes
}

#[test]
fn refuses_unknown_version_and_names_known_ones() {
    let newer = "run it with a newer skillhost that knows";
    let known = concat!(
        "this host, skillhost ",
        env!("CARGO_PKG_VERSION"),
        ", knows version 0.1.1"
    );
    let export = |name: &str| {
        format!(r#"(component (instance $tools) (export "{name}" (instance $tools)))"#)
    };
    for (name, reasons) in [
        ("skillhost:tool/tools@0.2.0", vec![newer, "0.2.0", known]),
        ("skillhost:tool/tools@1.0.0", vec![newer, "1.0.0", known]),
        (
            "skillhost:tool/tools@0.0.1",
            vec!["which was never published", known],
        ),
        (
            "skillhost:tool/tools@0.1.0-draft",
            vec!["version 0.1.0-draft of `skillhost:tool` is a draft", known],
        ),
        (
            "skillhost:tool/tools",
            vec![
                "the name has no version",
                "write `@0.1.1` after the name",
                known,
            ],
        ),
    ] {
        let problem = refusal(&export(name));
        assert!(
            problem.contains(&format!("it exports `{name}`: ")),
            "{problem}"
        );
        for reason in reasons {
            assert!(problem.contains(reason), "{name}: {problem}");
        }
    }
}

#[test]
fn refuses_import_of_unknown_version() {
    let import =
        |name: &str| format!(r#"(component (import "{name}" (instance (export "f" (func)))))"#);
    for (name, reason) in [
        (
            "skillhost:tool/skills@0.2.0",
            "run it with a newer skillhost that knows 0.2.0",
        ),
        ("skillhost:tool/skills@0.0.9", "which was never published"),
        ("skillhost:tool/skills", "the name has no version"),
        (
            "skillhost:tool/skill@0.1.0",
            "did you mean `skillhost:tool/skills`?",
        ),
        ("skillhost:tool/network@0.1.0", "does not offer"),
        (
            "wasi:keyvalue/store@0.2.0",
            "which the host does not offer to tools",
        ),
    ] {
        let problem = refusal(&import(name));
        assert!(
            problem.contains(&format!("it imports `{name}`")),
            "{problem}"
        );
        assert!(problem.contains(reason), "{name}: {problem}");
    }
}

#[test]
fn refusal_names_malformed_version() {
    let good = fs::read(guests().join("count_lines.wasm")).unwrap();
    let name = "skillhost:tool/tools@0.1.1";
    for to in ["0.1.x", "00.10", "0.1-0", "     "] {
        let to = format!("skillhost:tool/tools@{to}");
        let (_folders, host) = load(&renamed(&good, name, &to));
        let [problem] = host.problems() else {
            panic!("{to}: {:?}", host.problems());
        };
        for part in [&*to, "is not valid", "invalid interface version"] {
            assert!(problem.contains(part), "{problem}");
        }
    }
}

#[test]
fn runs_later_patches_of_a_known_version() {
    let skills = fs::read(repository().join("guest-tools/dist/list_skills.wasm")).unwrap();
    let later = renamed(
        &renamed(
            &skills,
            "skillhost:tool/skills@0.1.1",
            "skillhost:tool/skills@0.1.4",
        ),
        "skillhost:tool/tools@0.1.1",
        "skillhost:tool/tools@0.1.4",
    );
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    fs::write(folders.outside.join("later.wasm"), later).unwrap();
    let host = builder().skills(&folders.root).tools(&folders.outside);
    let host = host.without_embedded_tools();
    let host = host.grant("later.wasm", Grant::new().skills(["*"]).unwrap());
    let host = block_on(host.build()).unwrap();
    assert_eq!(host.problems(), [] as [String; 0]);
    let listed = model_text(&host, "list_skills", json!({}));
    assert!(listed.contains("\"name\":\"a\""), "{listed}");
}

#[test]
fn chooses_known_version_among_several() {
    let (_folders, host) = load(
        &wat::parse_str(
            r#"(component
                (instance $future)
                (export "skillhost:tool/tools@0.9.0" (instance $future))
                (instance $known)
                (export "skillhost:tool/tools@0.1.0" (instance $known)))"#,
        )
        .unwrap(),
    );
    // The host chooses the known version, which has nothing to call.
    let [problem] = host.problems() else {
        panic!("{:?}", host.problems());
    };
    assert!(
        problem.contains("it does not export `skillhost:tool/tools@0.1.1`"),
        "{problem}"
    );
}
