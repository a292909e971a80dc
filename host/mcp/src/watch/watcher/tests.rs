//! Tests of the bounds on what waits and on the work, which nobody sees from outside.

use std::fs;

use super::super::tests::{PATIENCE, Root};
use super::*;

/// Returns a watcher that has seen all there is, of a root with 16 folders.
fn settled() -> (Root, Watcher) {
    let (root, mut watcher) = Root::prepared(10_000);
    while !watcher.scanned {
        watcher.work();
    }
    (root, watcher)
}

#[test]
fn folders_that_come_faster_than_they_are_visited_wait_up_to_a_bound_and_none_is_forgotten() {
    let (root, mut watcher) = settled();
    let [mut from, mut to] = ["a", "b"].map(|name| root.path(&format!("skills/skill-0/{name}")));
    fs::create_dir(&from).unwrap();
    // It comes again under each name. The last time is one too many.
    for _ in 0..MOST_TASKS {
        watcher.read_events();
        assert!(!watcher.tasks.is_empty());
        fs::rename(&from, &to).unwrap();
        std::mem::swap(&mut from, &mut to);
    }
    watcher.read_events();
    assert!(watcher.tasks.is_empty());
    watcher.check_roots();
    let start = Instant::now();
    while watcher.has_work() {
        watcher.work();
        assert!(start.elapsed() < PATIENCE, "it has work left");
    }
    assert_eq!(watcher.watches.len(), 17);
}

#[test]
fn scans_after_the_first_take_half_of_a_thread() {
    let (root, mut watcher) = settled();
    for number in 0..2_000 {
        fs::create_dir(root.path(&format!("skills/skill-0/docs/{number}"))).unwrap();
        watcher.read_events();
    }
    let (mut worked, mut taken) = (Duration::ZERO, Duration::ZERO);
    let start = Instant::now();
    while watcher.has_work() {
        // A machine without watches to spare would have it look in turns, for ever.
        assert!(start.elapsed() < PATIENCE, "it has work left");
        let (begun, before) = (Instant::now(), time_of_thread());
        let until = watcher.work();
        worked += time_of_thread().saturating_sub(before);
        taken += until.saturating_duration_since(begun);
    }
    assert_eq!(watcher.watches.len(), 2_016);
    // A part of the work here is not its own.
    assert!(taken > worked.mul_f64(1.7), "{worked:?} of {taken:?}");
}
