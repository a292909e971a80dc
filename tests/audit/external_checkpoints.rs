//! External checkpoints, which show that a log was cut, removed or replaced.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::SystemTime;

use skillhost_audit::{ExternalCheckpoints, VerifyReport, verify};
use skillhost_sandbox::tool::audit::chain::{CONTINUED, Link};

use super::signed_log::{FEW_CHECKPOINTS, SignedLog, record};
use crate::support::build;
use crate::support::program::{Program, finish};
use crate::support::watchdog::wait_until;

impl SignedLog {
    /// Returns the checkpoints of a file, one a line.
    fn checkpoints(&self, file: &str) -> String {
        let text = fs::read_to_string(self.beside(file)).unwrap();
        let lines = text.split_inclusive('\n');
        lines
            .filter(|line| line.contains("\"signature\""))
            .collect()
    }

    /// Verifies files with external checkpoints.
    fn verify_external(&self, files: &[&str], checkpoints: &str) -> VerifyReport {
        let keys = [self.public.clone()];
        fs::write(self.beside("external"), checkpoints).unwrap();
        let external = ExternalCheckpoints::read(&[self.beside("external")], &keys).unwrap();
        let files: Vec<_> = files.iter().map(|name| self.beside(name)).collect();
        verify(&files, &keys, external).unwrap()
    }

    /// Writes a new log with its own chain, in which each host makes one call. Returns the
    /// checkpoints.
    fn new_chain(&self, file: &str, calls: usize) -> String {
        for _ in 0..calls {
            record(&self.host(), 1);
        }
        fs::rename(&self.path, self.beside(file)).unwrap();
        self.checkpoints(file)
    }
}

fn problem_texts(report: &VerifyReport) -> Vec<&str> {
    let problems = report.problems.iter();
    problems.map(|problem| &*problem.problem).collect()
}

#[test]
fn sends_all_checkpoints_to_a_late_reader() {
    let mut log = SignedLog::new("");
    let external = log.beside("external");
    let go = log.beside("go");
    let reader = format!(
        "until [ -e {} ]; do sleep 0.01; done; exec cat > {}",
        go.display(),
        external.display()
    );
    log.settings =
        format!("checkpoint_records = 1\ncheckpoint_command = [\"sh\", \"-c\", \"{reader}\"]\n");
    let signer = log.signer();
    let host = build(log.signed_by(&signer));
    // More bytes than fit into a pipe.
    record(&host, 200);
    fs::write(go, "").unwrap();
    drop(host);
    // The signer is not dropped, as in a program that is killed now.
    std::mem::forget(signer);
    let all = log.checkpoints("audit.jsonl");
    assert!(all.len() > 64 << 10, "{}", all.len());
    wait_until("checkpoints are missing", || {
        fs::read_to_string(&external).is_ok_and(|external| external == all)
    });
}

#[test]
fn external_checkpoints_show_a_cut() {
    let log = SignedLog::new("checkpoint_records = 2\ncheckpoint_time = \"3600s\"\n");
    record(&log.host(), 6);
    let text = fs::read_to_string(&log.path).unwrap();
    let checkpoints: String = text
        .split_inclusive('\n')
        .filter(|line| line.contains("\"signature\""))
        .collect();
    let external_files = [log.beside("external")];
    fs::write(&external_files[0], &checkpoints).unwrap();
    let keys = [log.public.clone()];
    let check = || {
        let external = ExternalCheckpoints::read(&external_files, &keys).unwrap();
        verify(std::slice::from_ref(&log.path), &keys, external).unwrap()
    };
    let report = check();
    assert_eq!(
        (report.external_checkpoints, &*report.problems),
        (4, &[][..])
    );
    let cut: String = text.split_inclusive('\n').take(7).collect();
    fs::write(&log.path, &cut).unwrap();
    let report = check();
    assert_eq!(
        (report.external_checkpoints, report.last_proven),
        (3, Some(6))
    );
    assert!(
        report.problems[0]
            .problem
            .contains("the log is cut after record 6")
    );
    // External checkpoints must be signed.
    for wrong in [
        "{}\n",
        &checkpoints.replacen("\"sequence\":0", "\"sequence\":3", 1),
        "x",
    ] {
        fs::write(&external_files[0], wrong).unwrap();
        let error = ExternalCheckpoints::read(&external_files, &keys).unwrap_err();
        assert!(format!("{error:#}").contains("line 1"), "{error:#}");
    }
}

#[test]
fn distinguishes_missing_chain_from_another() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let one = log.new_chain("one", 3);
    // A new chain of the same length, a shorter and a longer one.
    for calls in [3, 1, 5] {
        let other = log.new_chain("other", calls);
        let external = [one.as_str(), &other].concat();
        for (file, missing) in [("other", 6), ("one", 2 * calls)] {
            let report = log.verify_external(&[file], &external);
            let [problem] = problem_texts(&report)[..] else {
                panic!("{file} of {calls} calls: {report:?}");
            };
            assert!(
                problem.contains("another chain") && problem.contains(&format!(" {missing} ")),
                "{file} of {calls} calls: {problem}"
            );
            assert!(!report.is_proven());
        }
        // A copy does not count as another chain.
        fs::copy(log.beside("other"), log.beside("copy")).unwrap();
        assert!(!log.verify_external(&["other", "copy"], &other).is_proven());
        // Each chain verifies by itself, and so do both with the checkpoints of both.
        assert!(log.verify_external(&["other"], &other).is_proven());
        for files in [["one", "other"], ["other", "one"]] {
            let report = log.verify_external(&files, &external);
            assert_eq!(problem_texts(&report), [""; 0]);
            assert_eq!(
                (report.external_checkpoints, report.unproven_records),
                (5 + calls as u64, 0)
            );
            assert_eq!(report.chains, 2);
            assert_eq!(report.records, 8 + 2 * calls as u64);
            // Without both chains' checkpoints, nothing connects them.
            for external in ["", &one, &other] {
                let report = log.verify_external(&files, external);
                assert_eq!(problem_texts(&report).len(), 1, "{report:?}");
            }
            // A record removed from one chain is still reported as missing.
            let text = fs::read_to_string(log.beside("one")).unwrap();
            let cut: String = text.split_inclusive('\n').take(6).collect();
            fs::write(log.beside("one"), cut).unwrap();
            let report = log.verify_external(&files, &external);
            assert!(
                problem_texts(&report)
                    .iter()
                    .any(|text| text.contains("cut after record 5")),
                "{report:?}"
            );
            fs::write(log.beside("one"), text).unwrap();
        }
    }
}

#[test]
fn leaves_unsigned_records_unproven() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let external = log.new_chain("one", 2);
    let text = fs::read_to_string(log.beside("one")).unwrap();
    // Like a log of a killed process.
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(log.beside("one"), lines[..4].concat()).unwrap();
    let first = external.split_inclusive('\n').next().unwrap().to_owned();
    let other = log.new_chain("other", 2);
    let report = log.verify_external(&["one", "other"], &[first, other].concat());
    assert_eq!(problem_texts(&report), [""; 0]);
    assert_eq!((report.records, report.unproven_records), (9, 1));
}

#[test]
fn finds_a_restored_log_by_its_checkpoints() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let record_twice = || {
        for _ in 0..2 {
            record(&log.host(), 1);
        }
    };
    record_twice();
    fs::copy(&log.path, log.beside("copy")).unwrap();
    record_twice();
    let first = log.checkpoints("audit.jsonl");
    fs::copy(log.beside("copy"), &log.path).unwrap();
    record_twice();
    let second = log.checkpoints("audit.jsonl");
    assert_eq!(
        problem_texts(&log.verify_external(&["audit.jsonl"], &second)),
        [""; 0]
    );
    let report = log.verify_external(&["audit.jsonl"], &[first, second].concat());
    assert_eq!(report.external_checkpoints, 5);
    let places: Vec<_> = report.problems.iter().map(|found| found.sequence).collect();
    assert_eq!(places, [Some(6), Some(8)], "{report:?}");
    assert!(
        problem_texts(&report)
            .iter()
            .all(|text| text.contains("differs from the external checkpoint")),
        "{report:?}"
    );
}

#[test]
fn unsigned_records_do_not_replace_a_chain() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let one = log.new_chain("one", 2);
    let other = log.new_chain("other", 2);
    let external = [one, other].concat();
    let text = fs::read_to_string(log.beside("one")).unwrap();
    let last = Link::parse(text.lines().last().unwrap().as_bytes()).unwrap();
    // The forged file claims to follow all external checkpoints.
    let mut forged = format!(
        "{{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,\"tool\":\"\",\"outcome\":\"{CONTINUED}\"}}"
    )
    .into_bytes();
    let link = Link {
        sequence: 1_000,
        ..last
    };
    link.seal(&mut forged);
    forged.push(b'\n');
    fs::write(log.beside("forged"), forged).unwrap();
    fs::set_permissions(log.beside("forged"), fs::Permissions::from_mode(0o600)).unwrap();
    for files in [["forged", "other"], ["other", "forged"]] {
        let report = log.verify_external(&files, &external);
        assert!(!report.is_proven(), "{report:?}");
    }
}

#[test]
fn ignores_checkpoints_older_than_the_log() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let host = log.host();
    record(&host, 2);
    host.sign_audit_log();
    fs::rename(&log.path, log.beside("audit.jsonl.1")).unwrap();
    record(&host, 2);
    drop(host);
    let external = ["audit.jsonl.1", "audit.jsonl"]
        .map(|file| log.checkpoints(file))
        .concat();
    let report = log.verify_external(&["audit.jsonl.1", "audit.jsonl"], &external);
    assert_eq!((report.external_checkpoints, report.missing_before), (4, 0));
    let report = log.verify_external(&["audit.jsonl"], &external);
    assert!(report.is_proven(), "{report:?}");
    assert_eq!((report.external_checkpoints, report.missing_before), (2, 4));
}

#[test]
fn finds_removed_file_that_begins_later_chain() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    record(&log.host(), 2);
    fs::rename(&log.path, log.beside("1")).unwrap();
    // The chains are sorted by their time.
    let end = SystemTime::now();
    wait_until("the clock stands still", || {
        end.elapsed().is_ok_and(|time| time.as_millis() > 1)
    });
    // A process that finds no log begins a chain, which continues in the next file.
    let host = log.host();
    record(&host, 2);
    fs::rename(&log.path, log.beside("2")).unwrap();
    record(&host, 2);
    drop(host);
    let files = ["1", "2", "audit.jsonl"];
    let external = files.map(|file| log.checkpoints(file)).concat();
    let report = log.verify_external(&files, &external);
    assert!(report.is_proven() && report.chains == 2, "{report:?}");
    for order in [["1", "audit.jsonl"], ["audit.jsonl", "1"]] {
        let report = log.verify_external(&order, &external);
        assert_eq!(
            problem_texts(&report),
            ["a new chain begins, and records 0 to 2 are missing before it"]
        );
        assert_eq!(report.missing_before, 0);
    }
    // The oldest files of a log may be removed.
    let report = log.verify_external(&["2", "audit.jsonl"], &log.checkpoints("2"));
    assert!(report.is_proven(), "{report:?}");
    let report = log.verify_external(&["audit.jsonl"], &log.checkpoints("audit.jsonl"));
    assert_eq!((report.is_proven(), report.missing_before), (true, 3));
}

#[test]
fn skips_torn_checkpoints() {
    let log = SignedLog::new("checkpoint_records = 1\n");
    record(&log.host(), 3);
    let all = log.checkpoints("audit.jsonl");
    let lines: Vec<&str> = all.split_inclusive('\n').collect();
    let [first, second, last @ ..] = &lines[..] else {
        panic!("{all}");
    };
    let matched = lines.len() as u64 - 1;
    for end in (1..second.len() - 1).step_by(7) {
        let (torn, last) = (&second[..end], last.concat());
        // The process that stores checkpoints was killed. Perhaps the next one appended to the
        // same line.
        for external in [
            format!("{first}{last}{torn}"),
            format!("{first}{torn}{last}"),
        ] {
            let report = log.verify_external(&["audit.jsonl"], &external);
            assert!(report.is_proven(), "{end}: {report:?}");
            assert_eq!(
                (report.external_checkpoints, report.torn_checkpoint_bytes),
                (matched, end as u64)
            );
        }
    }
    // Zero bytes of a power failure, also as many as are read at once. With 60 bytes fewer, a
    // checkpoint on the same line ends in the second part of the line.
    for zeros in [3, (256 << 10) - 60, 700 << 10] {
        for start in ["", &second[..40]] {
            let torn = format!("{start}{}", "\0".repeat(zeros));
            for line_end in ["", "\n"] {
                let external = format!("{first}{torn}{line_end}{}", last.concat());
                let report = log.verify_external(&["audit.jsonl"], &external);
                assert!(report.is_proven(), "{zeros} after {start:?}: {report:?}");
                assert_eq!(
                    (report.external_checkpoints, report.torn_checkpoint_bytes),
                    (matched, torn.len() as u64)
                );
            }
        }
    }
    // A checkpoint without its line feed counts.
    let report = log.verify_external(&["audit.jsonl"], all.trim_end());
    assert_eq!(
        (report.external_checkpoints, report.torn_checkpoint_bytes),
        (matched + 1, 0)
    );
    // The verb `verify` reports the torn bytes too.
    fs::write(log.beside("public"), log.public.to_pem().unwrap()).unwrap();
    fs::write(log.beside("torn"), format!("{all}{}", &first[..40])).unwrap();
    let mut command = Program::new().command(&[
        "audit",
        "verify",
        "audit.jsonl",
        "--key",
        "public",
        "--checkpoints",
        "torn",
    ]);
    command.current_dir(log.folder.path());
    let run = finish(command, "");
    let said = "40 bytes of torn checkpoints in the files of `--checkpoints` are ignored";
    assert!(run.code == 0 && run.stdout.contains(said), "{run:?}");
}

#[test]
fn counts_whole_checkpoints_without_line_feed() {
    let log = SignedLog::new("checkpoint_records = 1\n");
    record(&log.host(), 3);
    let all = log.checkpoints("audit.jsonl");
    let last = all.lines().last().unwrap();
    let count = all.lines().count() as u64;
    // The writer was killed before each line feed, or a power failure left zero bytes instead.
    for zeros in [0, 1, (256 << 10) - 60] {
        let external = all.replace('\n', &"\0".repeat(zeros));
        for line_end in ["", "\n"] {
            let report = log.verify_external(&["audit.jsonl"], &format!("{external}{line_end}"));
            assert!(report.is_proven(), "{zeros}: {report:?}");
            assert_eq!(
                (report.external_checkpoints, report.torn_checkpoint_bytes),
                (count, count * zeros as u64)
            );
        }
    }
    // No checkpoint, a torn or a whole one, then the first bytes of one, then all.
    let first = all.lines().next().unwrap();
    for (before, torn) in [("", 0), (&first[..60], 60), (first, 0)] {
        for (end, zeros) in (1..60).flat_map(|end| [(end, ""), (end, "\0\0\0")]) {
            let start = format!("{before}{}{zeros}", &first[..end]);
            let external = format!("{start}{all}{start}\n");
            let report = log.verify_external(&["audit.jsonl"], &external);
            assert!(report.is_proven(), "{start:?}: {report:?}");
            let torn = 2 * (torn + end + zeros.len()) as u64;
            assert_eq!(report.torn_checkpoint_bytes, torn, "{start:?}");
        }
    }
    let text = fs::read_to_string(&log.path).unwrap();
    let cut: String = text.split_inclusive('\n').take(2).collect();
    fs::write(&log.path, cut).unwrap();
    let report = log.verify_external(&["audit.jsonl"], &format!("{last}\0\n"));
    let [problem] = problem_texts(&report)[..] else {
        panic!("{report:?}");
    };
    assert!(
        problem.contains("the log is cut after record 1"),
        "{problem}"
    );
}
