//! When a log has a checkpoint.

use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::signed_log::{AT_THE_END, SignedLog, record};
use super::{put_at_descriptor, replace_descriptor};
use crate::support::block_on;

#[test]
fn a_checkpoint_comes_after_so_many_records_and_at_the_end() {
    let log = SignedLog::new("checkpoint_records = 10\ncheckpoint_time = \"3600s\"\n");
    let host = log.host();
    record(&host, 25);
    let report = log.verify(&["audit.jsonl"]);
    // The first checkpoint is the record 0, and the third the record 22.
    assert_eq!(
        (report.proven, report.unproven, report.checkpoints),
        (Some(22), 5, 3)
    );
    drop(host);
    let report = log.prove(&["audit.jsonl"], 25);
    assert_eq!(
        (report.first, report.last, report.checkpoints),
        (Some(0), Some(28), 4)
    );
}

#[test]
fn a_checkpoint_comes_after_a_time() {
    let log = SignedLog::new("checkpoint_time = \"100ms\"\n");
    let host = log.host();
    block_on(async {
        host.call("none", json!({})).await.unwrap_err();
        while log.verify(&["audit.jsonl"]).checkpoints == 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert_eq!(log.prove(&["audit.jsonl"], 1).checkpoints, 2);
}

#[test]
fn a_checkpoint_that_is_late_comes_with_the_next_record() {
    let log = SignedLog::new("checkpoint_time = \"100ms\"\n");
    let host = log.host();
    // Each call has a runtime of its own, and with it goes the timer.
    record(&host, 1);
    thread::sleep(Duration::from_millis(101));
    record(&host, 1);
    let report = log.verify(&["audit.jsonl"]);
    assert_eq!((report.checkpoints, report.unproven), (2, 0), "{report:?}");
}

#[test]
fn a_checkpoint_that_a_full_disk_had_no_room_for_comes_later() {
    let log = SignedLog::new(AT_THE_END);
    let host = log.host();
    record(&host, 2);
    // The log's file is replaced under its descriptor by one that is full.
    let number = replace_descriptor(&log.path, Path::new("/dev/full"));
    host.sign_audit_log();
    put_at_descriptor(number, &log.path);
    assert_eq!(log.verify(&["audit.jsonl"]).checkpoints, 1);
    drop(host);
    log.prove(&["audit.jsonl"], 2);
}
