//! Tests of the watcher's limits on memory and work.

use std::fs;

use super::super::tests::{PATIENCE, SKILLS, TestRoot};
use super::*;

/// Returns a watcher that has scanned a root with 16 folders.
fn scanned() -> (TestRoot, Watcher) {
    let (root, mut watcher) = TestRoot::prepared(10_000);
    while !watcher.has_scanned {
        watcher.work();
    }
    (root, watcher)
}

#[tokio::test]
async fn watches_skill_folders_first() {
    let (root, mut watcher) = TestRoot::prepared(6);
    while !watcher.has_scanned {
        watcher.work();
    }
    for skill in 0..5 {
        // Nothing is polled here, so only a kernel event can report the change.
        fs::write(root.path(&format!("skills/skill-{skill}/SKILL.md")), "new").unwrap();
        watcher.read_events();
        assert_eq!(root.next(PATIENCE).await, Some(SKILLS), "{skill}");
    }
}

/// Works until nothing is left to do.
fn finish_work(watcher: &mut Watcher) {
    let start = Instant::now();
    while watcher.has_work() {
        watcher.work();
        assert!(start.elapsed() < PATIENCE, "the watcher does not finish");
    }
}

#[test]
fn asks_for_watches_again_after_each_round() {
    let (root, mut watcher) = TestRoot::prepared(10_000);
    // As if the kernel had no free watch.
    watcher.watches.pause();
    finish_work(&mut watcher);
    assert_eq!(root.counts().polled, 0);
    assert_eq!(root.counts().watched, 16);
}

#[test]
fn scans_again_after_too_many_new_folders() {
    let (root, mut watcher) = scanned();
    let [mut from, mut to] = ["a", "b"].map(|name| root.path(&format!("skills/skill-0/{name}")));
    fs::create_dir(&from).unwrap();
    // Each rename adds a new folder. The last one exceeds the limit.
    for _ in 0..MAX_TASKS {
        watcher.read_events();
        assert!(!watcher.tasks.is_empty());
        fs::rename(&from, &to).unwrap();
        std::mem::swap(&mut from, &mut to);
    }
    watcher.read_events();
    assert!(watcher.tasks.is_empty());
    watcher.check_roots();
    finish_work(&mut watcher);
    assert_eq!(watcher.watches.len(), 17);
}

#[test]
fn later_scans_take_half_of_thread_time() {
    let (root, mut watcher) = scanned();
    for number in 0..2_000 {
        fs::create_dir(root.path(&format!("skills/skill-0/docs/{number}"))).unwrap();
        watcher.read_events();
    }
    let (mut busy, mut total) = (Duration::ZERO, Duration::ZERO);
    let start = Instant::now();
    while watcher.has_work() {
        // On a machine without free watches, folders would be polled forever.
        assert!(start.elapsed() < PATIENCE, "the watcher does not finish");
        let (start_work, start_busy) = (Instant::now(), thread_time());
        let until = watcher.work();
        busy += thread_time().saturating_sub(start_busy);
        total += until.saturating_duration_since(start_work);
    }
    assert_eq!(watcher.watches.len(), 2_016);
    // The test itself uses some of the busy time, so the factor is less than 2.
    assert!(total > busy.mul_f64(1.7), "{busy:?} of {total:?}");
}
