//! Unusable audit logs: with `best_effort` the host still answers calls, and reports each call
//! that it cannot record. Calls do not wait long for a locked log.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use skillhost::{AuditMode, Host};

use super::signed_log::{SignedLog, record};
use crate::support::program::Program;
use crate::support::watchdog::wait_until;
use crate::support::{build, call};

fn builder(log: &SignedLog, mode: AuditMode) -> skillhost::HostBuilder {
    let builder = Host::builder().without_embedded_tools();
    builder
        .audit(&log.path, mode)
        .audit_signer(log.signer() as _)
}

#[test]
fn starts_while_the_log_is_locked() {
    let log = SignedLog::new("checkpoint_records = 1\n");
    record(&log.host(), 1);
    let before = log.records("audit.jsonl").len();
    let lock = File::open(&log.path).unwrap();
    lock.lock().unwrap();
    let host = build(builder(&log, AuditMode::BestEffort));
    let error = call(&host, "none", json!({})).unwrap_err().to_string();
    assert!(!error.contains("could not be recorded"), "{error}");
    assert_eq!(log.records("audit.jsonl").len(), before);
    drop(lock);
    // The host tries again to open the log.
    wait_until("the host writes no record to the unlocked log", || {
        record(&host, 1);
        log.records("audit.jsonl").len() > before
    });
    drop(host);
    let report = log.verify(&["audit.jsonl"]);
    assert!(
        report.is_proven() && report.unproven_records == 0,
        "{report:?}"
    );
}

#[test]
fn starts_without_a_usable_log() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("foreign", "export PATH=/bin\n");
    let foreign = program.folder.path().join("foreign");
    fs::set_permissions(foreign, fs::Permissions::from_mode(0o600)).unwrap();
    for confine in ["off", "auto"] {
        for log in ["none/log", "foreign"] {
            for (mode, code) in [("required", 4), ("best_effort", 0)] {
                let text = format!("audit_file = \"{log}\"\naudit = \"{mode}\"\n");
                program.write("c.toml", &text);
                let arguments = [
                    "--config",
                    "c.toml",
                    "call",
                    "--confine",
                    confine,
                    "read_skill",
                    "skill_name=a",
                ];
                let run = program.run(&arguments);
                let about = format!("{confine} {log} {mode}: {run:?}");
                assert_eq!(run.code, code, "{about}");
                assert!(run.stderr.contains("cannot use the audit log"), "{about}");
                if code == 0 {
                    assert_eq!(run.stdout, "# A\n");
                    let lost = "of `read_skill` (output) in the audit log";
                    assert!(run.stderr.contains(lost), "{about}");
                }
            }
        }
    }
    let text = fs::read_to_string(program.folder.path().join("foreign")).unwrap();
    assert_eq!(text, "export PATH=/bin\n");
}

#[test]
fn waits_once_for_a_locked_log() {
    let waits_once = |mode, is_rotated| {
        let log = SignedLog::new("");
        let host = build(builder(&log, mode));
        record(&host, 1);
        if is_rotated {
            fs::rename(&log.path, log.beside("old")).unwrap();
            fs::write(&log.path, "").unwrap();
            fs::set_permissions(&log.path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let lock = File::open(&log.path).unwrap();
        lock.lock().unwrap();
        let start = Instant::now();
        for _ in 0..50 {
            call(&host, "none", json!({})).unwrap_err();
        }
        let waited = start.elapsed();
        // The first call waits two seconds, the others a few milliseconds each. On a busy machine
        // they take longer, but far less than two seconds each.
        assert!(
            waited < Duration::from_secs(2 * 50 / 3),
            "{mode:?} {is_rotated}: {waited:?}"
        );
        drop(lock);
        record(&host, 1);
        let last = log.records("audit.jsonl").pop();
        assert_eq!(last.unwrap()["tool"], "none");
    };
    thread::scope(|scope| {
        for mode in [AuditMode::Required, AuditMode::BestEffort] {
            for is_rotated in [false, true] {
                scope.spawn(move || waits_once(mode, is_rotated));
            }
        }
    });
}
