//! Unproven bytes in an audit log: how `verify` and `show` report them.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use skillhost_sandbox::tool::audit::chain::Link;

use super::signed_log::{FEW_CHECKPOINTS, SignedLog, record};
use crate::support::program::{Program, Run};

/// The tool of forged records.
const FORGED: &str = "forged";

/// Returns a complete record without a chain.
fn unchained() -> String {
    event(&format!("\"tool\":\"{FORGED}\",\"outcome\":\"output\""))
}

fn event(fields: &str) -> String {
    format!("{{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,{fields}}}")
}

/// Returns this number of chained records. The first record has this link.
fn chained(mut link: Link, records: usize) -> String {
    let mut text = String::new();
    for _ in 0..records {
        let mut line = unchained().into_bytes();
        link.seal(&mut line);
        link = link.next_after(&line);
        text += str::from_utf8(&line).unwrap();
        text.push('\n');
    }
    text
}

/// Returns lines that somebody without the key could add to a log, each with its description.
fn forgeries(log: &str, key: &str) -> Vec<(&'static str, String)> {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.last().unwrap().as_bytes();
    let next = Link::parse(last).unwrap().next_after(last);
    let (forged, torn) = (unchained(), &lines[1][..60]);
    let checkpoint = event("\"tool\":\"\",\"outcome\":\"checkpoint\",\"key\":\"KEY\"");
    let changed = lines[1].replacen("none", FORGED, 1);
    vec![
        ("a record", format!("{forged}\n")),
        ("a record without its line feed", forged.clone()),
        ("several records", format!("{forged}\n{forged}\n{forged}\n")),
        ("a record behind a torn one", format!("{torn}\n{forged}\n")),
        ("a record before a torn one", format!("{forged}\n{torn}")),
        (
            "a record on the line of a torn one",
            format!("{torn}{forged}\n"),
        ),
        (
            "a record on a line that does not end",
            format!("{torn}{forged}"),
        ),
        (
            "a record within a torn one",
            format!("{torn}\",\"x\":{forged},\n"),
        ),
        ("an existing record, changed", format!("{changed}\n")),
        ("a repeated record", format!("{}\n", lines[1])),
        ("a repeated checkpoint", format!("{}\n", lines[0])),
        ("another chain", chained(Link::FIRST, 3)),
        (
            "records of another chain with the next numbers",
            chained(
                Link {
                    chain: [7; 8],
                    ..next
                },
                3,
            ),
        ),
        (
            "records of the chain with a wrong digest",
            chained(
                Link {
                    previous: [7; 32],
                    ..next
                },
                3,
            ),
        ),
        (
            "records of the chain with later numbers",
            chained(
                Link {
                    sequence: 900,
                    ..next
                },
                3,
            ),
        ),
        (
            "a checkpoint without a chain",
            checkpoint.replace("KEY", key) + "\n",
        ),
        (
            "a record that claims to be chained",
            event("\"tool\":\"forged\",\"outcome\":\"output\",\"unchained\":false") + "\n",
        ),
        (
            "a record that is nested too deeply",
            event(&format!(
                "\"tool\":\"forged\",\"outcome\":\"output\",\"x\":{}{}",
                "[".repeat(500),
                "]".repeat(500)
            )) + "\n",
        ),
        (
            "a list instead of a record",
            "[\"2026-01-01T00:00:00.000Z\",null,null,null,\"forged\",null,null,\"output\",null,1,1]\n"
                .to_owned(),
        ),
        ("words", "noise\n".to_owned()),
        ("a blank line", "\n".to_owned()),
        ("a line that is too long", "x".repeat(600_000) + "\n"),
        (
            "a record after more bytes than the host reads",
            "x\n".repeat(100_000) + &forged + "\n",
        ),
    ]
}

fn append(log: &SignedLog, bytes: &str) {
    let mut file = OpenOptions::new().append(true).open(&log.path).unwrap();
    file.write_all(bytes.as_bytes()).unwrap();
}

/// Runs a verb of `skillhost audit` on files of the log's folder.
fn audit(log: &SignedLog, verb: &str, files: &[&str], more: &[&str]) -> Run {
    let files = files.iter().map(|file| log.beside(file));
    let files: Vec<String> = files
        .map(|file| file.to_str().unwrap().to_owned())
        .collect();
    let files = files.iter().map(String::as_str);
    let arguments = ["audit", verb].into_iter().chain(files);
    let arguments: Vec<&str> = arguments.chain(more.iter().copied()).collect();
    Program::new().run(&arguments)
}

/// Asserts that `show` marks all forged records.
#[track_caller]
fn assert_marked(log: &SignedLog, files: &[&str], about: &str) {
    let shown = audit(log, "show", files, &[]);
    let forged = |line: &&str| line.contains(FORGED);
    for line in shown.stdout.lines().filter(forged) {
        assert!(line.starts_with("unchained 2026-"), "{about}: {line}");
    }
    let json = audit(log, "show", files, &["--output", "json", "--tool", FORGED]);
    for line in json.stdout.lines() {
        assert!(line.ends_with(",\"unchained\":true}"), "{about}: {line}");
    }
    let listed = shown.stdout.lines().filter(forged).count();
    assert_eq!(json.stdout.lines().count(), listed, "{about}");
    // The operator always learns that something is wrong.
    for run in [shown, json] {
        assert_eq!(run.code, 0, "{about}: {run:?}");
        assert!(run.stderr.contains("audit verify"), "{about}: {run:?}");
    }
}

#[test]
fn reports_all_additions_made_without_key() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let key = log.public.id().to_owned();
    let host = log.host();
    record(&host, 2);
    host.sign_audit_log();
    drop(host);
    let before = fs::read_to_string(&log.path).unwrap();
    for (about, bytes) in forgeries(&before, &key) {
        // The next host runs already, or starts after the forgery. `None` means no next host.
        for is_next_running in [Some(true), Some(false), None] {
            fs::write(&log.path, &before).unwrap();
            let running = is_next_running
                .filter(|is_next_running| *is_next_running)
                .map(|_| log.host());
            append(&log, &bytes);
            let next_host = match is_next_running {
                Some(true) => running,
                // A host does not start with a file that is not a log.
                Some(false) if !bytes.starts_with('{') => continue,
                Some(false) => Some(log.host()),
                None => None,
            };
            let about = format!("{about}, {is_next_running:?}");
            if let Some(host) = next_host {
                record(&host, 2);
            }
            let report = log.verify(&["audit.jsonl"]);
            assert!(!report.problems.is_empty(), "{about}: {report:?}");
            assert_marked(&log, &["audit.jsonl"], &about);
        }
    }
}

#[test]
fn reports_additions_to_rotated_log() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let key = log.public.id().to_owned();
    let host = log.host();
    record(&host, 2);
    host.sign_audit_log();
    drop(host);
    let before = fs::read_to_string(&log.path).unwrap();
    for (about, bytes) in forgeries(&before, &key) {
        if !bytes.starts_with('{') {
            continue; // The host does not accept such a file as its log.
        }
        fs::write(&log.path, &before).unwrap();
        let host = log.host();
        fs::rename(&log.path, log.beside("audit.jsonl.1")).unwrap();
        fs::write(&log.path, &bytes).unwrap();
        fs::set_permissions(&log.path, fs::Permissions::from_mode(0o600)).unwrap();
        record(&host, 2);
        drop(host);
        let both = ["audit.jsonl.1", "audit.jsonl"];
        let report = log.verify(&both);
        assert!(!report.problems.is_empty(), "{about}: {report:?}");
        let shown = audit(&log, "show", &both, &[]);
        assert!(shown.stderr.contains("audit verify"), "{about}: {shown:?}");
    }
}

#[test]
fn counts_records_before_a_chain() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let old = format!("{}\n", unchained());
    fs::write(log.beside("audit.jsonl.1"), &old).unwrap();
    fs::write(&log.path, old.repeat(2)).unwrap();
    fs::set_permissions(&log.path, fs::Permissions::from_mode(0o600)).unwrap();
    record(&log.host(), 1);
    let both = ["audit.jsonl.1", "audit.jsonl"];
    let report = log.assert_proven(&both, 1);
    assert_eq!(report.unchained, 3);
    fs::write(log.beside("public"), log.public.to_pem().unwrap()).unwrap();
    let key = log.beside("public");
    let run = audit(&log, "verify", &both, &["--key", key.to_str().unwrap()]);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (
            0,
            "4 records, 0 to 3, with 2 checkpoints\n\
             162 bytes outside the chain are unchanged: torn records, or lines before the chain\n\
             3 lines in no chain: nothing proves who wrote them\n\
             proven up to record 3\n"
        )
    );
    assert_marked(&log, &both, "an old log");
    let shown = audit(&log, "show", &both, &[]).stdout;
    let is_marked = |line: &str| line.starts_with("unchained ");
    // The first line names the columns.
    let marked: Vec<bool> = shown.lines().skip(1).map(is_marked).collect();
    // Two records are in the chain: one describes the lines before it, and one is of the call.
    assert_eq!(marked, [true, true, true, false, false]);
}

#[test]
fn reports_unchained_lines_newer_than_chain() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    record(&log.host(), 2);
    let later = unchained().replace("2026-01-01", "9026-01-01");
    for (lines, is_problem) in [
        (format!("{}\n", unchained()), false),
        (format!("{}\n{later}\n", unchained()), true),
        (format!("{later}\n{}\n", unchained()), true),
        (later.clone(), true),
        ("other text\n".to_owned(), true),
        (format!("{{\"x\":1}}\n{}\n", unchained()), true),
    ] {
        fs::write(log.beside("audit.jsonl.0"), &lines).unwrap();
        let report = log.verify(&["audit.jsonl", "audit.jsonl.0"]);
        assert_eq!(
            !report.problems.is_empty(),
            is_problem,
            "{lines}: {report:?}"
        );
        assert_eq!(report.unchained > 0, !is_problem, "{lines}: {report:?}");
        // Without the chain, `verify` cannot know when it began.
        let alone = log.verify(&["audit.jsonl.0"]);
        assert!(alone.problems.is_empty(), "{lines}: {alone:?}");
    }
}

#[test]
fn excludes_unchained_records_from_call_counts() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    record(&log.host(), 2);
    let mut file = OpenOptions::new().append(true).open(&log.path).unwrap();
    let forged = event("\"tool\":\"get_skill\",\"outcome\":\"failed\",\"duration_us\":9000000");
    write!(file, "{forged}\n{forged}\n{}\n", unchained()).unwrap();
    let shown = audit(&log, "show", &["audit.jsonl"], &["--by", "tool"]).stdout;
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["TOOL", "CALLS", "ERRORS", "TIME", "UNCHAINED"]);
    let calls: Vec<(&str, &str, &str, &str)> = rows[1..]
        .iter()
        .map(|row| (row[0], row[1], row[2], *row.last().unwrap()))
        .collect();
    assert_eq!(
        calls[1..],
        [(FORGED, "0", "0", "1"), ("get_skill", "0", "0", "2")]
    );
    assert_eq!((calls[0].1, calls[0].3), ("2", "0"), "{shown}");
    let json = ["--by", "tool", "--output", "json"];
    let shown = audit(&log, "show", &["audit.jsonl"], &json).stdout;
    assert!(
        shown.contains("\"calls\":0,\"errors\":0,\"duration_us\":0,"),
        "{shown}"
    );
    assert!(shown.contains("\"unchained\":2"), "{shown}");
}

#[test]
fn marks_nothing_in_an_honest_log() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let host = log.host();
    record(&host, 2);
    let torn = fs::read_to_string(&log.path).unwrap()[..60].to_owned();
    append(&log, &torn);
    record(&host, 1);
    fs::rename(&log.path, log.beside("audit.jsonl.1")).unwrap();
    record(&host, 1);
    drop(host);
    append(&log, &torn);
    record(&log.host(), 1);
    for files in [&["audit.jsonl.1", "audit.jsonl"][..], &["audit.jsonl"]] {
        let shown = audit(&log, "show", files, &[]);
        assert!(!shown.stdout.contains("unchained"), "{shown:?}");
        assert!(!shown.stderr.contains("verify"), "{shown:?}");
    }
    log.assert_proven(&["audit.jsonl.1", "audit.jsonl"], 5);
}

#[test]
fn accepts_a_rotated_file_of_one_unended_record() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    record(&log.host(), 3);
    let text = fs::read_to_string(&log.path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // The disk was full at the line feed of the first record after a rotation.
    let files = ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"];
    fs::write(log.beside(files[0]), lines[..2].concat()).unwrap();
    fs::write(log.beside(files[1]), lines[2].trim_end()).unwrap();
    fs::write(&log.path, lines[3..].concat()).unwrap();
    log.assert_proven(&files, 3);
    let shown = audit(&log, "show", &files, &["--tool", "none"]);
    // The first line names the columns.
    let calls = shown.stdout.lines().count() - 1;
    assert_eq!((calls, &*shown.stderr), (3, ""), "{shown:?}");
}

#[test]
fn accepts_a_rotated_log_torn_anywhere() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let rotated = log.beside("audit.jsonl.1");
    let mut missing = 0;
    loop {
        let host = log.host();
        record(&host, 2);
        let size = fs::metadata(&log.path).unwrap().len();
        let file = OpenOptions::new().append(true).open(&log.path).unwrap();
        // The end of what another host wrote is missing: it was killed, or the disk was full.
        let other = log.host();
        record(&other, 1);
        let whole = fs::metadata(&log.path).unwrap().len();
        if whole - missing <= size {
            break;
        }
        file.set_len(whole - missing).unwrap();
        fs::rename(&log.path, &rotated).unwrap();
        record(&host, 1);
        drop(host);
        // A killed host writes no checkpoint at its end.
        std::mem::forget(other);
        let files = ["audit.jsonl.1", "audit.jsonl"];
        let report = log.verify(&files);
        assert_eq!(report.problems, [], "{missing} bytes missing");
        let shown = audit(&log, "show", &files, &[]);
        assert!(
            !shown.stdout.contains("unchained"),
            "{missing} bytes missing: {shown:?}"
        );
        for file in [&log.path, &rotated] {
            fs::remove_file(file).unwrap();
        }
        // Covers each of the record's last five bytes, and some earlier ones.
        missing += if missing < 5 { 1 } else { 41 };
    }
}
