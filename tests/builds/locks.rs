//! Lock files with entries that are not packages of a registry.

use super::*;

#[test]
fn refuses_npm_lock_that_names_project_files() {
    let machine = Machine::with_project("javascript");
    let lock = "package-lock.json";
    let text = fs::read_to_string(machine.project.join(lock)).unwrap();
    let manifest = fs::read_to_string(machine.project.join("package.json")).unwrap();
    let with_key = |value: &str| text.replacen('{', &format!("{{\n  \"more\": {value},"), 1);
    let entry = "\"node_modules/@bytecodealliance/componentize-js\": {";
    let with_member = |member: &str| text.replacen(entry, &format!("{entry}\n{member},"), 1);
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let not_json = "`package-lock.json` is not a JSON object: ";
    let not_of_registry = "must name only packages of a registry";
    for (file, changed, message) in [
        // npm accepts these texts; a strict JSON parser does not.
        (lock, format!("\u{feff}{text}"), not_json),
        (lock, with_key(&deep), not_json),
        (lock, with_key("\"\\ud800\""), not_json),
        (lock, String::new(), not_json),
        // npm 6 wrote another format, which npm still reads.
        (
            lock,
            r#"{"lockfileVersion": 1, "dependencies": {"a": {"version": "file:a.tgz"}}}"#
                .to_owned(),
            "`lockfileVersion` is not 2 or 3",
        ),
        (
            lock,
            text.replacen("\"lockfileVersion\": 3", "\"lockfileVersion\": 1", 1),
            "`lockfileVersion` is not 2 or 3",
        ),
        // npm would install the folder `/project@0.23.0`.
        (lock, with_member("\"name\": \"/project\""), not_of_registry),
        // npm replaces a locked package if another package depends on something else.
        (
            lock,
            text.replacen(
                "\"@bytecodealliance/jco\": \"^",
                "\"@bytecodealliance/jco\": \"file:/project/",
                1,
            ),
            not_of_registry,
        ),
        (
            "package.json",
            manifest.replacen(
                '{',
                "{\"peerDependencies\": {\"acorn\": \"file:/a.tgz\"},",
                1,
            ),
            not_of_registry,
        ),
        (
            "package.json",
            format!("\u{feff}{manifest}"),
            "`package.json` is not a JSON object: ",
        ),
    ] {
        assert!(changed != text && changed != manifest, "{changed}");
        fs::write(machine.project.join(lock), &text).unwrap();
        fs::write(machine.project.join("package.json"), &manifest).unwrap();
        let run = machine.build_with_text(file, &changed);
        assert_eq!(run.code, 1, "{message}: {run:?}");
        assert!(run.stderr.contains(message), "{message}: {}", run.stderr);
    }
    assert_eq!(machine.install_count(), 0, "{:?}", machine.logged());
}

#[test]
fn pip_gets_only_checked_lines() {
    let machine = Machine::with_project("python");
    let lock = "requirements.txt";
    let text = fs::read_to_string(machine.project.join(lock)).unwrap();
    for more in [
        "one==1.0 --hash=sha256:00 \\\n    # a comment \\\n/project/evil-1.0-py3-none-any.whl\n",
        "evil-1.0-py3-none-any.whl;python_version=='3.12' --hash=sha256:00\n",
    ] {
        let run = machine.build_with_text(lock, &format!("{text}{more}"));
        assert_eq!(run.code, 1, "{more}: {run:?}");
        let message = "`requirements.txt`, line ";
        assert!(run.stderr.contains(message), "{}", run.stderr);
    }
    assert_eq!(machine.install_count(), 0, "{:?}", machine.logged());
    // pip ends the comment at the form feed.
    let more =
        "one==1.0 --hash=sha256:00 # a comment\u{c}--index-url=https://evil.example/simple\n";
    let run = machine.build_with_text(lock, &format!("{text}{more}"));
    assert_eq!(run.code, 0, "{run:?}");
    let received = fs::read_to_string(machine.path("log.requirements")).unwrap();
    assert!(
        received.contains("one==1.0 --hash=sha256:00\n"),
        "{received}"
    );
    assert!(!received.contains("evil.example"), "{received}");
}

#[test]
fn installs_nothing_from_lock_with_foreign_entry() {
    for (language, lock, named) in [
        ("javascript", "package-lock.json", "node_modules/one"),
        ("python", "requirements.txt", "./one.whl"),
        ("c", "requirements.txt", "./one.whl"),
    ] {
        let machine = Machine::with_project(language);
        let lock = machine.project.join(lock);
        let text = fs::read_to_string(&lock).unwrap();
        let text = match language {
            "javascript" => {
                let mut lock: Value = serde_json::from_str(&text).unwrap();
                lock["packages"][named] =
                    json!({"version": "1.0.0", "resolved": "file:../one.tgz"});
                lock.to_string()
            }
            _ => format!("{text}{named}\n"),
        };
        fs::write(&lock, text).unwrap();
        let run = machine.build();
        assert_eq!(run.code, 1, "{language}: {run:?}");
        assert!(run.stderr.contains(named), "{language}: {}", run.stderr);
        assert_eq!(machine.install_count(), 0, "{language}: {run:?}");
    }
}

#[test]
fn npm_gets_no_addresses_of_packages() {
    let machine = Machine::with_project("javascript");
    let file = machine.project.join("package-lock.json");
    let mut lock: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let compiler = &mut lock["packages"]["node_modules/@bytecodealliance/componentize-js"];
    compiler["resolved"] = json!("https://evil.example/owner/repository.git");
    let run = machine.build_with_text("package-lock.json", &lock.to_string());
    assert_eq!(run.code, 0, "{run:?}");
    let received = fs::read_to_string(machine.path("log.lock")).unwrap();
    assert!(received.contains("\"integrity\"") && !received.contains("evil.example"));
    // The project's own lock file is unchanged.
    assert!(fs::read_to_string(file).unwrap().contains("evil.example"));
}
