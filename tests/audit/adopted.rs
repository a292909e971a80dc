//! Records of other processes: which of them a running host continues and signs.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use skillhost::{AuditMode, Host};
use skillhost_audit::{ExternalCheckpoints, VerifyReport, verify};
use skillhost_sandbox::tool::audit::chain::Link;

use super::signed_log::{FEW_CHECKPOINTS, SignedLog, record};
use crate::support::build;
use crate::support::watchdog::wait_until;

const FORGED: &str = "nobody_called_this";

/// Returns unsigned records, and the link for the next record. The first record has `padding` more
/// bytes.
fn forged_records(mut link: Link, records: usize, padding: usize) -> (String, Link) {
    let mut text = String::new();
    for number in 0..records {
        let padding = "x".repeat(if number == 0 { padding } else { 0 });
        let mut line = format!(
            "{{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,\"tool\":\"{FORGED}{padding}\",\
             \"outcome\":\"output\"}}"
        )
        .into_bytes();
        link.seal(&mut line);
        link = link.next_after(&line);
        text += str::from_utf8(&line).unwrap();
        text.push('\n');
    }
    (text, link)
}

fn link_after(line: &str) -> Link {
    let line = line.trim_end().as_bytes();
    Link::parse(line).unwrap().next_after(line)
}

/// Replaces the log by a new file with mode 0600.
fn replace(log: &SignedLog, text: &str) {
    let new = log.beside("new");
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
    fs::rename(new, &log.path).unwrap();
}

/// Verifies files with all their checkpoints as external ones.
fn verify_external(log: &SignedLog, files: &[&str]) -> VerifyReport {
    let mut external = ExternalCheckpoints::default();
    let keys = [log.public.clone()];
    for file in files {
        let text = fs::read_to_string(log.beside(file)).unwrap();
        for line in text.lines().filter(|line| line.contains("\"signature\"")) {
            external.add(line.as_bytes(), &keys).unwrap();
        }
    }
    let files: Vec<_> = files.iter().map(|file| log.beside(file)).collect();
    verify(&files, &keys, external).unwrap()
}

#[test]
fn never_proves_a_forged_chain() {
    for is_appended in [false, true] {
        let log = SignedLog::new("checkpoint_records = 1\n");
        let host = log.host();
        record(&host, 2);
        let before = fs::read_to_string(&log.path).unwrap();
        let (chain, _) = forged_records(Link::FIRST, 50, 0);
        if is_appended {
            // One record that continues the host's chain, then a forged chain.
            let (linked, _) = forged_records(link_after(before.lines().last().unwrap()), 1, 0);
            let mut file = OpenOptions::new().append(true).open(&log.path).unwrap();
            file.write_all((linked + &chain).as_bytes()).unwrap();
        } else {
            fs::rename(&log.path, log.beside("old")).unwrap();
            replace(&log, &chain);
        }
        record(&host, 1);
        drop(host);
        let mut sets = vec![vec!["audit.jsonl"]];
        if is_appended {
            // Everything before the forged chain is cut off.
            let text = fs::read_to_string(&log.path).unwrap();
            fs::write(log.beside("cut"), &text[text.find(&chain).unwrap()..]).unwrap();
            sets.push(vec!["cut"]);
        } else {
            sets.push(vec!["old", "audit.jsonl"]);
        }
        for files in sets {
            assert!(!log.verify(&files).is_proven(), "{files:?}");
            let report = verify_external(&log, &files);
            assert!(!report.is_proven(), "{files:?}: {report:?}");
        }
    }
}

#[test]
fn finds_a_replaced_last_record() {
    for is_renamed in [true, false] {
        let log = SignedLog::new(FEW_CHECKPOINTS);
        let host = log.host();
        record(&host, 3);
        let text = fs::read_to_string(&log.path).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let before = lines[..3].concat();
        let mut junk = String::new();
        if is_renamed {
            let (records, _) = forged_records(link_after(lines[2]), 2, 0);
            replace(&log, &(before + &records));
        } else {
            // A longer record replaces the last one. Then come a record with the link that the host
            // expects next, and a record that continues the longer record's chain.
            let (first, link) = forged_records(link_after(lines[2]), 1, lines[3].len());
            junk = forged_records(link_after(lines[3]), 1, 0).0;
            let forged = [before, first, junk.clone(), forged_records(link, 1, 0).0].concat();
            assert!(forged.len() > text.len());
            let mut options = OpenOptions::new();
            let mut file = options.write(true).truncate(true).open(&log.path).unwrap();
            file.write_all(forged.as_bytes()).unwrap();
        }
        record(&host, 1);
        let text = fs::read_to_string(&log.path).unwrap();
        let text = if junk.is_empty() {
            text
        } else {
            text.replace(&junk, "")
        };
        fs::write(&log.path, text).unwrap();
        record(&host, 3);
        host.sign_audit_log();
        drop(host);
        let report = verify_external(&log, &["audit.jsonl"]);
        assert!(!report.is_proven(), "{is_renamed}: {report:?}");
    }
}

#[test]
fn continues_a_chain_that_another_process_began() {
    // The numbers of calls before both processes use one file. The longer chain does not win.
    for (before, between) in [(3, 1), (1, 3), (0, 1)] {
        let log = SignedLog::new(FEW_CHECKPOINTS);
        let host = log.host();
        record(&host, before);
        fs::rename(&log.path, log.beside("old")).unwrap();
        for _ in 0..between {
            record(&log.host(), 1);
        }
        record(&host, 2);
        record(&log.host(), 1);
        record(&host, 1);
        drop(host);
        let report = verify_external(&log, &["old", "audit.jsonl"]);
        assert_eq!(report.problems, [], "{before} {between}");
        assert_eq!(report.chains, 2);
        assert_eq!(report.unproven_records, 0, "{before} {between}");
        assert_eq!(log.verify(&["audit.jsonl"]).problems, []);
    }
}

#[test]
fn continues_after_files_it_has_not_seen() {
    for is_signed in [true, false] {
        let log = SignedLog::new(FEW_CHECKPOINTS);
        let host = || -> Host {
            if is_signed {
                return log.host();
            }
            let builder = Host::builder().without_embedded_tools();
            build(builder.audit(&log.path, AuditMode::Required))
        };
        let (idle, other) = (host(), host());
        let files = ["1", "2", "3", "audit.jsonl"];
        for file in &files[..3] {
            record(&other, 2);
            fs::rename(&log.path, log.beside(file)).unwrap();
        }
        // The idle process appends a record between two records of the other process.
        record(&other, 1);
        record(&idle, 1);
        record(&other, 1);
        drop((idle, other));
        let report = log.verify(&files);
        assert_eq!((report.problems, report.chains), (vec![], 1));
    }
}

#[test]
fn names_the_record_that_it_did_not_find() {
    for ends in [false, true] {
        for removes in [false, true] {
            let log = SignedLog::new(FEW_CHECKPOINTS);
            let (one, other) = (log.host(), log.host());
            record(&one, 1);
            record(&other, 1);
            record(&one, 1);
            let size = fs::metadata(&log.path).unwrap().len();
            // Only `other` knows this record.
            record(&other, 1);
            if removes {
                let file = OpenOptions::new().write(true).open(&log.path).unwrap();
                file.set_len(size).unwrap();
            }
            record(&one, 3);
            one.sign_audit_log();
            // The file loses the place at which `other` would find the change.
            let text = fs::read_to_string(&log.path).unwrap();
            replace(&log, &text);
            if ends {
                drop(other);
            } else {
                record(&other, 1);
                other.sign_audit_log();
                std::mem::forget(other);
            }
            let report = log.verify(&["audit.jsonl"]);
            let problems = report.problems.iter();
            let problems: Vec<&str> = problems.map(|found| &*found.problem).collect();
            let expected: &[&str] = if removes {
                &[
                    "the host that wrote this record knew another record 4: it was removed, or its file \
                   is missing",
                ]
            } else {
                &[]
            };
            assert_eq!(problems, expected, "ends: {ends}");
            assert_eq!(report.unproven_records, 0);
        }
    }
}

/// Returns the number of descriptors that this process has of a file.
fn descriptor_count(path: &Path) -> usize {
    let wanted = fs::metadata(path).unwrap();
    let wanted = (wanted.dev(), wanted.ino());
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let files = descriptors.filter_map(|entry| fs::metadata(entry.path()).ok());
    files
        .filter(|file| (file.dev(), file.ino()) == wanted)
        .count()
}

#[test]
fn follows_a_rotation_while_idle() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let [idle, other] = [(); 2].map(|()| runtime.block_on(log.builder().build()).unwrap());
    record(&other, 1);
    record(&idle, 1);
    fs::rename(&log.path, log.beside("1")).unwrap();
    record(&other, 2);
    wait_until("the idle process has not opened the new file", || {
        descriptor_count(&log.path) == 2
    });
    record(&other, 1);
    fs::rename(&log.path, log.beside("2")).unwrap();
    // The idle process has not read the last record, and the new file has no record yet.
    record(&idle, 1);
    record(&other, 1);
    drop((idle, other));
    let report = log.verify(&["1", "2", "audit.jsonl"]);
    assert_eq!((report.problems, report.chains), (vec![], 1));
}

#[test]
fn signs_existing_records_before_adding() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    replace(&log, &forged_records(Link::FIRST, 50, 0).0);
    let mode = fs::metadata(&log.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    record(&log.host(), 1);
    record(&log.host(), 1);
    let report = log.verify(&["audit.jsonl"]);
    assert_eq!(
        (report.before_checkpoint, report.last_proven),
        (50, Some(54))
    );
    // A new log begins with a checkpoint, so no record is before it.
    fs::remove_file(&log.path).unwrap();
    record(&log.host(), 5);
    assert_eq!(log.verify(&["audit.jsonl"]).before_checkpoint, 0);
}
