//! The chain of an audit log across restarts, rotations, other processes, torn records and logs
//! of versions without a chain.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;

use serde_json::json;
use skillhost::{AuditMode, Caller, Host};
use skillhost_sandbox::tool::audit::chain::Link;

use super::signed_log::{FEW_CHECKPOINTS, SignedLog, record};
use crate::support::program::Program;
use crate::support::watchdog::patience;
use crate::support::{block_on, build, call};

#[test]
fn chains_a_log_without_a_signer() {
    let log = SignedLog::new("");
    let builder = Host::builder().without_embedded_tools();
    let host = build(builder.audit(&log.path, AuditMode::Required));
    record(&host, 3);
    drop(host);
    let report = log.verify(&["audit.jsonl"]);
    assert_eq!((report.records, report.checkpoints), (3, 0));
    assert!(report.problems.is_empty() && !report.is_proven());
    let text = fs::read_to_string(&log.path).unwrap();
    fs::write(&log.path, text.replacen("none", "n0ne", 1)).unwrap();
    assert_eq!(log.verify(&["audit.jsonl"]).problems.len(), 1);
}

#[test]
fn continues_the_chain_of_other_processes() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    for _ in 0..3 {
        record(&log.host(), 2);
    }
    let (one, other) = (log.host(), log.host());
    for _ in 0..3 {
        record(&one, 2);
        record(&other, 1);
    }
    // Both append at the same time.
    std::thread::scope(|threads| {
        for host in [&one, &other] {
            threads.spawn(|| record(host, 100));
        }
    });
    drop((one, other));
    log.assert_proven(&["audit.jsonl"], 6 + 9 + 200);
}

#[test]
fn continues_the_chain_after_a_rename() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let host = log.host();
    let late = log.host();
    record(&host, 2);
    // Another process writes the last record before the rotation.
    record(&late, 1);
    fs::rename(&log.path, log.beside("audit.jsonl.1")).unwrap();
    record(&host, 2);
    // Like logrotate's `create`: the new file exists before the host uses it.
    fs::rename(&log.path, log.beside("audit.jsonl.2")).unwrap();
    fs::write(&log.path, "").unwrap();
    fs::set_permissions(&log.path, fs::Permissions::from_mode(0o600)).unwrap();
    record(&host, 2);
    // The late process notices the rotations only now.
    record(&late, 1);
    drop((host, late));
    let files = ["audit.jsonl.1", "audit.jsonl.2", "audit.jsonl"];
    log.assert_proven(&files, 8);
    for file in &files[1..] {
        let first = &log.records(file)[0];
        assert_eq!(first["outcome"], "continued", "{file}");
        assert_eq!(first.get("gap_bytes"), None, "nothing is missing: {file}");
    }
    // A file is missing.
    let report = log.verify(&[files[0], files[2]]);
    assert!(report.problems[0].problem.contains("missing"), "{report:?}");
    assert_eq!(report.problems[0].line, 1);
    // The last file alone is a valid start.
    assert_eq!(log.verify(&[files[2]]).problems, []);
}

#[test]
fn refuses_a_new_log_with_wrong_mode_or_text() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let host = log.host();
    record(&host, 1);
    for (text, mode) in [("", 0o644), ("export PATH=/bin\n", 0o600)] {
        fs::rename(&log.path, log.beside("old")).unwrap();
        fs::write(&log.path, text).unwrap();
        fs::set_permissions(&log.path, fs::Permissions::from_mode(mode)).unwrap();
        let error = call(&host, "none", json!({})).unwrap_err();
        assert!(
            error.to_string().contains("could not be recorded"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&log.path).unwrap(), text);
        fs::rename(log.beside("old"), &log.path).unwrap();
        record(&host, 1);
    }
    drop(host);
    log.assert_proven(&["audit.jsonl"], 3);
}

#[test]
fn does_not_read_a_huge_log() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let host = log.host();
    record(&host, 1);
    let size = fs::metadata(&log.path).unwrap().len();
    let file = OpenOptions::new().write(true).open(&log.path).unwrap();
    // The file is sparse. Reading it would take hours.
    file.set_len(8 << 40).unwrap();
    let error = call(&host, "none", json!({})).unwrap_err().to_string();
    assert!(error.contains("could not be recorded"), "{error}");
    fs::rename(&log.path, log.beside("old")).unwrap();
    record(&host, 1);
    drop(host);
    file.set_len(size).unwrap();
    log.assert_proven(&["old", "audit.jsonl"], 2);
}

#[test]
fn continues_the_chain_after_a_copy() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let host = log.host();
    record(&host, 3);
    fs::copy(&log.path, log.beside("audit.jsonl.1")).unwrap();
    OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(&log.path)
        .unwrap();
    record(&host, 3);
    drop(host);
    log.assert_proven(&["audit.jsonl.1", "audit.jsonl"], 6);
    assert_eq!(log.records("audit.jsonl")[0]["outcome"], "continued");
}

#[test]
fn reports_a_log_cut_while_the_host_runs() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let host = log.host();
    record(&host, 5);
    let text = fs::read_to_string(&log.path).unwrap();
    let kept: String = text.split_inclusive('\n').take(2).collect();
    let file = OpenOptions::new().write(true).open(&log.path).unwrap();
    file.set_len(kept.len() as u64).unwrap();
    record(&host, 1);
    drop(host);
    let report = log.verify(&["audit.jsonl"]);
    assert_eq!(report.problems.len(), 1);
    let problem = &report.problems[0];
    assert_eq!((problem.line, problem.sequence), (3, Some(6)));
    assert!(
        problem.problem.contains("records 2 to 5 are missing"),
        "{problem:?}"
    );
}

#[test]
fn does_not_continue_a_forged_chain() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    // The first forged line, and the number of records that the forger adds at the end.
    for (changed, more) in [(3, 0), (2, 0), (3, 1), (2, 3)] {
        let host = log.host();
        record(&host, 3);
        let text = fs::read_to_string(&log.path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let mut link = Link::parse(lines[changed].as_bytes()).unwrap();
        let mut forged: String = lines[..changed]
            .iter()
            .flat_map(|line| [*line, "\n"])
            .collect();
        let last = [lines[3]].repeat(more);
        for line in lines[changed..].iter().chain(&last) {
            let (fields, _) = line.split_once(",\"sequence\"").unwrap();
            let mut line = format!("{fields}}}")
                .replace("none", "another")
                .into_bytes();
            link.seal(&mut line);
            link = link.next_after(&line);
            forged += str::from_utf8(&line).unwrap();
            forged.push('\n');
        }
        let mut file = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&log.path)
            .unwrap();
        file.write_all(forged.as_bytes()).unwrap();
        record(&host, 1);
        drop(host);
        let report = log.verify(&["audit.jsonl"]);
        assert!(!report.problems.is_empty(), "{changed} {more}: {report:?}");
        fs::remove_file(&log.path).unwrap();
    }
}

#[test]
fn continues_chains_of_others_in_long_files() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    record(&log.host(), 1);
    let text = fs::read_to_string(&log.path).unwrap();
    let old = "{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,\"tool\":\"read_skill\",\
               \"outcome\":\"output\"}\n";
    // Longer than the tail in which the host looks for a record.
    fs::write(&log.path, format!("{text}{}", old.repeat(8_000))).unwrap();
    let (one, other) = (log.host(), log.host());
    for _ in 0..3 {
        record(&one, 1);
        record(&other, 1);
    }
    drop((one, other));
    let report = log.verify(&["audit.jsonl"]);
    // The old records have no chain. All records after them are in one chain.
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert_eq!(report.problems[0].line, 4);
    assert_eq!((report.unproven_records, report.chains), (0, 1));
    let records = log.records("audit.jsonl");
    assert_eq!(
        records
            .iter()
            .filter(|record| record["tool"] == "none")
            .count(),
        7
    );
}

#[test]
fn vouches_for_a_log_without_a_chain() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let old = "{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,\"tool\":\"read_skill\",\
               \"component\":null,\"skill\":\"a\",\"path\":null,\"outcome\":\"output\",\
               \"reason\":null,\"bytes\":1,\"duration_us\":1,\"memory\":1}\n";
    // Longer than the tail that the host reads.
    let many = old.repeat(4_000);
    for (before, torn) in [(old, ""), (&*many, ""), (&*many, &old[..60])] {
        fs::write(&log.path, format!("{before}{torn}")).unwrap();
        fs::set_permissions(&log.path, fs::Permissions::from_mode(0o600)).unwrap();
        record(&log.host(), 2);
        record(&log.host(), 1);
        let report = log.assert_proven(&["audit.jsonl"], 3);
        let bytes = before.len() + torn.len() + usize::from(!torn.is_empty());
        assert_eq!(
            (report.first, report.unchanged_gap_bytes),
            (Some(0), bytes as u64)
        );
        let text = fs::read_to_string(&log.path).unwrap();
        fs::write(&log.path, text.replacen("read_skill", "read_skull", 1)).unwrap();
        assert_eq!(log.verify(&["audit.jsonl"]).problems.len(), 1);
        // The last line could be from a version without a chain, or from a forger.
        fs::write(&log.path, format!("{text}{old}")).unwrap();
        record(&log.host(), 1);
        let report = log.verify(&["audit.jsonl"]);
        assert_eq!(report.problems.len(), 1, "{report:?}");
        assert_eq!(report.problems[0].line, text.lines().count() as u64 + 1);
        fs::remove_file(&log.path).unwrap();
    }
}

#[test]
fn vouches_for_a_record_torn_anywhere() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    record(&log.host(), 2);
    let text = fs::read(&log.path).unwrap();
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let [start, first, second, checkpoint] = lines[..] else {
        panic!("{}", String::from_utf8_lossy(&text));
    };
    let before = start.len() + first.len();
    // Cuts at every byte of the line's start and of the chain's fields at its end.
    let ends = |line: &[u8]| {
        (1..60)
            .chain(line.len() - 110..line.len())
            .collect::<Vec<_>>()
    };
    for (before, line) in [(before, second), (before + second.len(), checkpoint)] {
        for end in ends(line) {
            fs::write(&log.path, &text[..before + end]).unwrap();
            let report = log.verify(&["audit.jsonl"]);
            assert_eq!((report.problems.len(), report.torn_bytes), (0, end as u64));
            record(&log.host(), 1);
            let report = log.verify(&["audit.jsonl"]);
            assert_eq!(
                (&*report.problems, report.unproven_records),
                (&[][..], 0),
                "cut at {end}"
            );
            // A record that lacks only its line feed is complete.
            let vouched = if end == line.len() - 1 {
                0
            } else {
                end as u64 + 1
            };
            assert_eq!(report.unchanged_gap_bytes, vouched, "cut at {end}");
        }
    }
}

#[test]
fn continues_the_chain_after_foreign_lines() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let host = log.host();
    record(&host, 1);
    // The second text is longer than the tail that the host reads.
    for times in [1, 100_000] {
        let noise = "noise\n".repeat(times);
        let mut file = OpenOptions::new().append(true).open(&log.path).unwrap();
        file.write_all(noise.as_bytes()).unwrap();
        record(&host, 1);
    }
    drop(host);
    let report = log.verify(&["audit.jsonl"]);
    let lines: Vec<u64> = report.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [3, 7]);
    assert_eq!((report.records, report.unproven_records), (7, 0));
}

#[test]
fn continues_the_chain_after_a_torn_start() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let host = log.host();
    record(&host, 2);
    let torn = fs::read_to_string(&log.path).unwrap()[..60].to_owned();
    let zeros = 700 << 10;
    for (end, zeros, old) in [(41, 0, "audit.jsonl.1"), (60, zeros, "audit.jsonl.2")] {
        fs::rename(&log.path, log.beside(old)).unwrap();
        // The disk was full at the first record after the rotation, or the power failed.
        let start = format!("{}{}", &torn[..end], "\0".repeat(zeros));
        fs::write(&log.path, start).unwrap();
        fs::set_permissions(&log.path, fs::Permissions::from_mode(0o600)).unwrap();
        record(&host, 2);
    }
    drop(host);
    let report = log.assert_proven(&["audit.jsonl.1", "audit.jsonl.2", "audit.jsonl"], 6);
    assert_eq!(report.unchanged_gap_bytes, 42 + 61 + zeros as u64);
    // The files in the opposite order, and then the last one alone.
    log.assert_proven(&["audit.jsonl", "audit.jsonl.2", "audit.jsonl.1"], 6);
    log.assert_proven(&["audit.jsonl"], 2);
}

#[test]
fn accepts_a_log_torn_several_times() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    record(&log.host(), 1);
    let text = fs::read_to_string(&log.path).unwrap();
    // The lengths of torn lines with a line feed, and of a last line without one.
    for (torn, last) in [
        (&[5][..], 0),
        (&[5], 5),
        (&[5], 60),
        (&[1, 40, 60, 2], 1),
        (&[2, 2, 2], 0),
    ] {
        let torn_lines: String = torn
            .iter()
            .map(|end| format!("{}\n", &text[..*end]))
            .collect();
        fs::write(&log.path, format!("{text}{torn_lines}{}", &text[..last])).unwrap();
        record(&log.host(), 1);
        let report = log.assert_proven(&["audit.jsonl"], 2);
        let last_line = last + usize::from(last > 0);
        assert_eq!(
            report.unchanged_gap_bytes,
            (torn_lines.len() + last_line) as u64,
            "{torn:?} {last}"
        );
    }
}

#[test]
fn accepts_zeros_after_a_torn_record() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    record(&log.host(), 1);
    let text = fs::read_to_string(&log.path).unwrap();
    let last = text.lines().last().unwrap();
    // The second number of zeros is larger than the tail that the host reads first.
    for zeros in [3, 300 << 10] {
        for start in ["", &last[..22], &last[..60], last] {
            let torn = format!("{start}{}", "\0".repeat(zeros));
            for line_end in ["", "\n"] {
                fs::write(&log.path, format!("{text}{torn}{line_end}")).unwrap();
                record(&log.host(), 1);
                let report = log.assert_proven(&["audit.jsonl"], 2);
                assert_eq!(
                    report.unchanged_gap_bytes,
                    torn.len() as u64 + 1,
                    "{start} {zeros}"
                );
            }
        }
    }
}

#[test]
fn does_not_append_through_a_link() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let host = log.host();
    record(&host, 1);
    let old = log.beside("old");
    fs::rename(&log.path, &old).unwrap();
    symlink("old", &log.path).unwrap();
    let before = fs::read(&old).unwrap();
    let error = call(&host, "none", json!({})).unwrap_err().to_string();
    assert!(error.contains("could not be recorded"), "{error}");
    assert_eq!(fs::read(&old).unwrap(), before);
    fs::rename(&old, &log.path).unwrap();
    record(&host, 1);
    drop(host);
    log.assert_proven(&["audit.jsonl"], 2);
}

#[test]
fn waits_in_bounded_time_for_a_lock() {
    let (sender, calls) = channel();
    let mut locks = Vec::new();
    for (mode, is_rotated) in [
        (AuditMode::Required, false),
        (AuditMode::Required, true),
        (AuditMode::BestEffort, false),
    ] {
        let log = SignedLog::new("");
        let host = Host::builder().without_embedded_tools();
        let host = build(host.audit(&log.path, mode));
        record(&host, 1);
        if is_rotated {
            // The locked file is the one that replaced the log.
            fs::rename(&log.path, log.beside("old")).unwrap();
            fs::write(&log.path, "").unwrap();
            fs::set_permissions(&log.path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let before = log.records("audit.jsonl").len();
        let lock = File::open(&log.path).unwrap();
        lock.lock().unwrap();
        let sender = sender.clone();
        let about = format!("{mode:?}, rotated: {is_rotated}");
        thread::spawn(move || {
            let error = call(&host, "none", json!({})).unwrap_err().to_string();
            sender.send((host, mode, about, error))
        });
        locks.push((log, lock, before));
    }
    let mut hosts = Vec::new();
    for _ in 0..locks.len() {
        // Only the call with `best_effort` is answered without a record.
        let ended = calls.recv_timeout(patience());
        let (host, mode, about, error) = ended.expect("a call waits for the lock forever");
        let is_refused = error.contains("could not be recorded");
        assert_eq!(is_refused, mode == AuditMode::Required, "{about}: {error}");
        hosts.push(host);
    }
    let mut logs = Vec::new();
    for (log, lock, before) in locks {
        assert_eq!(log.records("audit.jsonl").len(), before);
        drop(lock);
        logs.push(log);
    }
    hosts.iter().for_each(|host| record(host, 1));
    for log in logs {
        let last = log.records("audit.jsonl").pop().unwrap();
        assert_eq!(last["tool"], "none");
    }
}

#[test]
fn appends_after_many_records_of_others() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let (one, other) = (log.host(), log.host());
    record(&one, 1);
    // Large records of 12 KiB, together more than 300 KiB.
    let caller = Caller::default().id("\u{10ffff}".repeat(1_024));
    for _ in 0..30 {
        block_on(other.call_from(&caller, "none", json!({}))).unwrap_err();
    }
    assert!(fs::metadata(&log.path).unwrap().len() > 300 << 10);
    record(&one, 1);
    drop((one, other));
    log.assert_proven(&["audit.jsonl"], 32);
}

#[test]
fn prints_how_many_records_are_missing() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let host = log.host();
    record(&host, 3);
    fs::rename(&log.path, log.beside("old")).unwrap();
    record(&host, 2);
    drop(host);
    fs::write(log.beside("public"), log.public.to_pem().unwrap()).unwrap();
    let (file, key) = (log.path.as_path(), log.beside("public"));
    let run = Program::new().run(&[
        Path::new("audit"),
        Path::new("verify"),
        file,
        Path::new("--key"),
        &key,
    ]);
    // The file's first record says that it continues another file's chain.
    let said = "5 records, 4 to 8, with 2 checkpoints\n\
                the given files do not have the 4 records before their first one\n\
                proven up to record 8\n";
    assert_eq!((run.code, run.stdout.as_str()), (0, said), "{run:?}");
}
