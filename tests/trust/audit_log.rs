//! Files that skillhost accepts as an audit log.

use super::*;

#[test]
fn refuses_log_that_does_not_end_in_record() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let log = folders.outside.join("log");
    let open = || {
        let builder = builder().skills(&folders.root);
        let built = block_on(builder.audit(&log, AuditMode::Required).build());
        built.map_err(|error| format!("{error:#}"))
    };
    let write = |text: &str| {
        fs::write(&log, text).unwrap();
        set_mode(&log, 0o600);
    };
    let text = || fs::read_to_string(&log).unwrap();
    let record = |host| call(&host, "read_skill", json!({"skill_name": "a"})).unwrap();
    for foreign in [
        "export PATH=/bin\n",
        "no line feed",
        "\n",
        "{}\n",
        "{\"time\":1}\n",
    ] {
        write(foreign);
        let error = open().err().unwrap();
        assert!(error.contains("not an audit record"), "{error}");
        assert!(error.contains(log.to_str().unwrap()), "{error}");
        assert_eq!(text(), foreign, "something was written");
    }
    write("");
    record(open().unwrap());
    let first = text();
    record(open().unwrap());
    assert_eq!(text().lines().count(), 2);
    // A new record marks the end of a torn one.
    for torn in [
        &first[..first.len() / 2],
        &first[..first.len() - 1],
        &first[..5],
    ] {
        write(&format!("{first}{torn}"));
        record(open().unwrap());
        let lines: Vec<String> = text().lines().map(str::to_owned).collect();
        assert_eq!((lines.len(), &*lines[1]), (4, torn));
        let outcome = |line: &str| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            record["outcome"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            (&*outcome(&lines[2]), &*outcome(&lines[3])),
            ("torn", "output")
        );
    }
    // The mark is written only once.
    write(&first[..first.len() / 2]);
    drop(open().unwrap());
    drop(open().unwrap());
    assert_eq!(text().lines().count(), 2);
}

#[test]
fn refuses_an_audit_log_that_is_a_symlink() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let (log, file) = (folders.outside.join("log"), folders.outside.join("file"));
    symlink("file", &log).unwrap();
    for exists in [false, true] {
        if exists {
            fs::write(&file, "").unwrap();
            set_mode(&file, 0o600);
        }
        let builder = builder().skills(&folders.root);
        let built = block_on(builder.audit(&log, AuditMode::Required).build());
        let error = format!("{:#}", built.err().unwrap());
        assert!(error.contains("it is a symlink"), "{error}");
        assert_eq!(file.exists(), exists, "the file was created");
    }
}

#[test]
fn dash_sends_audit_log_to_standard_error() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("skillhost.toml", "audit_file = \"-\"\n");
    for options in [["--audit", "-"], ["--config", "skillhost.toml"]] {
        let arguments = ["call", "read_skill", "{\"skill_name\":\"a\"}"];
        let run = program.run(&[&["--skills", "skills"], &options[..], &arguments].concat());
        assert_eq!((run.code, &*run.stdout), (0, "# A\n"), "{run:?}");
        let record = run
            .stderr
            .lines()
            .find(|line| line.starts_with('{'))
            .unwrap();
        let record: serde_json::Value = serde_json::from_str(record).unwrap();
        assert_eq!(record["tool"], "read_skill");
        assert!(!program.folder.path().join("-").exists());
    }
}

#[test]
fn next_record_follows_torn_one_on_new_line() {
    // A limit on the size of files acts like a full disk: writes are cut short.
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let calls: Vec<_> = (0..40)
        .map(|_| ("read_skill", json!({"skill_name": "a"})))
        .collect();
    let arguments = ["--skills", "skills", "--audit", "log", "serve"];
    let run = program.run_after_with("ulimit -f 4; trap '' XFSZ", &arguments, &session(&calls));
    assert!(run.stdout.contains("could not be recorded"), "{run:?}");
    let log = || fs::read_to_string(program.folder.path().join("log")).unwrap();
    let torn = log();
    assert!(!torn.ends_with('\n'), "{torn}");
    // Without the limit, each record is a line again.
    let run = program.run_with(&arguments, &session(&calls[..2]));
    assert!(run.stderr.contains("is torn"), "{run:?}");
    let whole = log();
    let after = whole.strip_prefix(&torn).unwrap();
    let after: Vec<serde_json::Value> = after
        .trim_start()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let outcomes: Vec<_> = after
        .iter()
        .map(|record| record["outcome"].as_str())
        .collect();
    assert_eq!(outcomes, [Some("torn"), Some("output"), Some("output")]);
}

#[test]
fn audit_log_of_another_user_needs_trust() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can change owners; CI runs as root.
    }
    let folders = Folders::new();
    let log = folders.outside.join("log");
    let open = |trust: Trust| {
        let builder = builder().without_embedded_tools().trust(trust);
        let built = block_on(builder.audit(&log, AuditMode::Required).build());
        built.map_err(|error| format!("{error:#}"))
    };
    let make_foreign_log = || {
        fs::write(&log, "").unwrap();
        set_mode(&log, 0o600);
        chown(&log, Some(54_321), None).unwrap();
    };
    let text = || fs::read_to_string(&log).unwrap();
    let record = |host| call(host, "none", json!({})).unwrap_err().to_string();
    make_foreign_log();
    let error = open(Trust::new()).err().expect("the log is refused");
    assert!(error.contains("it belongs to user 54321"), "{error}");
    let host = open(Trust::new().and(Principal::User(54_321))).unwrap();
    record(&host);
    assert_eq!(text().lines().count(), 1);
    // The other user's file then replaces the user's own log.
    fs::remove_file(&log).unwrap();
    let host = open(Trust::new()).unwrap();
    fs::rename(&log, folders.outside.join("own")).unwrap();
    make_foreign_log();
    let error = record(&host);
    assert!(error.contains("could not be recorded"), "{error}");
    assert_eq!(text(), "");
}
