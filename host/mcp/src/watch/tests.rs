//! Tests of the watcher's thread, on real folders and with small limits.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use skillhost::Host;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::configured::ConfiguredFolders;
use super::new_advice;
use super::pending::{Pending, PendingChanges};
use super::visit::thread_time;
use super::watcher::Watcher;
use super::watches::WatchLimit;
use crate::live::FolderCounts;

/// A time longer than the tick of the clock that sets the times of files.
const TICK: Duration = Duration::from_millis(20);

/// The longest wait for a change.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A time longer than all waits and rounds of a watcher with few folders.
const LONG: Duration = Duration::from_millis(900);

/// A time longer than the wait for events that belong together.
const SHORT: Duration = Duration::from_millis(300);

pub(super) const SKILLS: Pending = Pending {
    skills: true,
    tools: false,
    roots: false,
    settings: false,
};

/// A root with skills, and the changes that are noticed in it.
pub(super) struct TestRoot {
    folder: TempDir,
    pending: Arc<PendingChanges>,
    counts: Arc<Mutex<FolderCounts>>,
    stop: Arc<OwnedFd>,
}

impl Drop for TestRoot {
    fn drop(&mut self) {
        rustix::io::write(&self.stop, &1_u64.to_ne_bytes()).unwrap();
    }
}

impl TestRoot {
    /// Makes five skills with three folders each, and starts to watch them.
    fn new(max_watched: usize) -> Self {
        let (root, watcher) = Self::prepared(max_watched);
        root.run(watcher);
        root.wait_for(|counts| counts.watched + counts.polled == 16);
        root
    }

    /// Makes the same skills. Returns a watcher of them that does not run yet.
    pub(super) fn prepared(max_watched: usize) -> (Self, Watcher) {
        let folder = tempfile::tempdir().unwrap();
        for skill in 0..5 {
            let inner = folder
                .path()
                .join(format!("skills/skill-{skill}/docs/deep"));
            fs::create_dir_all(&inner).unwrap();
            fs::write(inner.join("file"), "x").unwrap();
            fs::write(inner.join("../../SKILL.md"), "x").unwrap();
        }
        fs::create_dir_all(folder.path().join("skills/.git/objects")).unwrap();
        fs::create_dir_all(folder.path().join("outside/inner")).unwrap();
        std::thread::sleep(TICK);
        let builder = Host::builder().skills(folder.path().join("skills"));
        let configured = Arc::new(ConfiguredFolders::new(&builder).unwrap());
        let pending = Arc::new(PendingChanges::new(Arc::clone(&configured)));
        let counts = Arc::new(Mutex::new(FolderCounts::default()));
        let published = Arc::clone(&counts);
        let publish = move |counts| *published.lock().unwrap() = counts;
        let limit = WatchLimit::new(max_watched);
        let watcher = Watcher::new(configured, Arc::clone(&pending), limit, publish).unwrap();
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let root = Self {
            folder,
            pending,
            counts,
            stop,
        };
        (root, watcher)
    }

    fn run(&self, watcher: Watcher) {
        let stop = Arc::clone(&self.stop);
        std::thread::spawn(move || watcher.run(&stop));
    }

    /// Returns the number of folders that are watched and polled.
    pub(super) fn counts(&self) -> FolderCounts {
        *self.counts.lock().unwrap()
    }

    fn wait_for(&self, is_met: impl Fn(FolderCounts) -> bool) {
        let start = Instant::now();
        while !is_met(self.counts()) {
            assert!(start.elapsed() < PATIENCE, "{:?}", self.counts);
            std::thread::sleep(TICK);
        }
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Returns the next changes, if there are any in this time.
    pub(super) async fn next(&self, time: Duration) -> Option<Pending> {
        tokio::time::timeout(time, self.pending.next()).await.ok()
    }

    async fn expect(&self, expected: Pending, what: &str) {
        assert_eq!(self.next(PATIENCE).await, Some(expected), "{what}");
        self.settle().await;
    }

    /// Waits until no more changes are noticed. A change may be noticed twice.
    async fn settle(&self) {
        let is_polled = self.counts().polled > 0;
        while self
            .next(if is_polled { LONG } else { SHORT })
            .await
            .is_some()
        {}
    }
}

type Change = (&'static str, fn(&Path));

/// Returns changes in the last skill. Each change builds on the earlier ones in its row.
fn changes() -> Vec<Vec<Change>> {
    vec![
        vec![
            ("a file is written in place", |root| {
                fs::write(root.join("skill-4/docs/deep/file"), "more").unwrap();
            }),
            ("a file is replaced by another", |root| {
                fs::write(root.join("../outside/new"), "new").unwrap();
                let file = root.join("skill-4/docs/deep/file");
                fs::rename(root.join("../outside/new"), file).unwrap();
            }),
            ("the mode of a file changes", |root| {
                let mode = fs::Permissions::from_mode(0o600);
                fs::set_permissions(root.join("skill-4/docs/deep/file"), mode).unwrap();
            }),
        ],
        vec![
            ("a file is added", |root| {
                fs::write(root.join("skill-4/docs/added"), "x").unwrap();
            }),
            ("a file is removed", |root| {
                fs::remove_file(root.join("skill-4/docs/added")).unwrap();
            }),
        ],
        vec![
            ("a folder is moved in with its contents", |root| {
                fs::rename(root.join("../outside"), root.join("skill-4/docs/moved")).unwrap();
            }),
            ("a file is added to a folder that was moved in", |root| {
                fs::write(root.join("skill-4/docs/moved/inner/file"), "x").unwrap();
            }),
        ],
        vec![
            ("a folder is renamed", |root| {
                fs::rename(root.join("skill-4/docs"), root.join("skill-4/papers")).unwrap();
            }),
            ("a file is added to a renamed folder", |root| {
                fs::write(root.join("skill-4/papers/deep/added"), "x").unwrap();
            }),
            ("a symlink is added", |root| {
                symlink("file", root.join("skill-4/papers/deep/link")).unwrap();
            }),
        ],
        vec![
            ("a skill is added", |root| {
                fs::create_dir_all(root.join("skill-5/docs")).unwrap();
            }),
            ("a file is added to that skill", |root| {
                fs::write(root.join("skill-5/docs/file"), "x").unwrap();
            }),
            ("a skill is removed", |root| {
                fs::remove_dir_all(root.join("skill-4")).unwrap();
            }),
        ],
    ]
}

/// Makes each change with each of these limits on watched folders, and expects that it is noticed.
/// Each row has its own root.
async fn expect_each_change(limits: &[usize]) {
    let mut roots = JoinSet::new();
    for max_watched in limits.iter().copied() {
        for row in changes() {
            roots.spawn(async move {
                let root = TestRoot::new(max_watched);
                let watched = max_watched.min(16);
                root.wait_for(|counts| counts.watched == watched && counts.polled == 16 - watched);
                assert_eq!(root.next(LONG).await, None, "{max_watched}");
                for (what, change) in row {
                    change(&root.path("skills"));
                    root.expect(SKILLS, &format!("{what}, {max_watched} watched"))
                        .await;
                }
            });
        }
    }
    while let Some(ended) = roots.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test]
async fn notices_every_change_in_watched_folders() {
    expect_each_change(&[1_000]).await;
}

#[tokio::test]
async fn notices_every_change_beyond_watch_limit() {
    // Five watches are enough for the root and four skills, and one only for the root.
    expect_each_change(&[5, 1, 0]).await;
}

#[tokio::test]
async fn notices_changes_before_the_first_scan() {
    for max_watched in [1_000, 5] {
        for (what, change) in changes().into_iter().flatten().take(4) {
            let (root, watcher) = TestRoot::prepared(max_watched);
            change(&root.path("skills"));
            root.run(watcher);
            assert_eq!(root.next(PATIENCE).await, Some(SKILLS), "{what}");
        }
    }
}

#[tokio::test]
async fn ignores_folders_without_skills() {
    let ignores = async |max_watched| {
        let root = TestRoot::new(max_watched);
        fs::rename(root.path("skills/skill-0"), root.path("outside/was")).unwrap();
        root.expect(SKILLS, "a skill is moved elsewhere").await;
        fs::write(root.path("outside/was/docs/deep/file"), "more").unwrap();
        fs::write(root.path("skills/.git/objects/x"), "x").unwrap();
        assert_eq!(root.next(LONG).await, None, "{max_watched}");
    };
    tokio::join!(ignores(1_000), ignores(3));
}

#[tokio::test]
async fn notices_replaced_root() {
    let root = TestRoot::new(1_000);
    fs::create_dir_all(root.path("next/skill/docs")).unwrap();
    fs::rename(root.path("skills"), root.path("last")).unwrap();
    fs::rename(root.path("next"), root.path("skills")).unwrap();
    let replaced = Pending {
        skills: true,
        tools: true,
        roots: true,
        settings: false,
    };
    root.expect(replaced, "replaced").await;
    fs::write(root.path("skills/skill/docs/file"), "x").unwrap();
    root.expect(SKILLS, "written").await;
}

#[tokio::test]
async fn notices_changes_after_lost_events() {
    let (root, mut watcher) = TestRoot::prepared(1_000);
    while watcher.has_work() {
        watcher.work();
    }
    let docs = root.path("skills/skill-0/docs");
    // The kernel's queue holds 16,384 events by default.
    let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    for number in 0..queue.trim().parse::<usize>().unwrap() {
        fs::write(docs.join((number % 100).to_string()), "x").unwrap();
    }
    fs::create_dir(docs.join("unheard")).unwrap();
    root.run(watcher);
    let lost = Pending {
        tools: true,
        ..SKILLS
    };
    // Earlier changes may be noticed first.
    let mut next = root.next(PATIENCE).await;
    while next == Some(SKILLS) {
        next = root.next(PATIENCE).await;
    }
    assert_eq!(next, Some(lost));
    root.settle().await;
    root.wait_for(|counts| counts.watched == 17);
    fs::write(docs.join("unheard/file"), "x").unwrap();
    root.expect(SKILLS, "written").await;
}

#[tokio::test]
async fn handles_endless_changes() {
    let root = TestRoot::new(1_000);
    let file = root.path("skills/skill-0/log");
    let writing = tokio::spawn(async move {
        loop {
            fs::write(&file, "more").unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert_eq!(root.next(PATIENCE).await, Some(SKILLS));
    writing.abort();
}

#[test]
fn polling_takes_twentieth_of_thread_time() {
    // No folder is watched.
    let (root, mut watcher) = TestRoot::prepared(0);
    // A round takes several slices of work.
    for number in 0..2_000 {
        fs::create_dir(root.path(&format!("skills/skill-0/docs/{number}"))).unwrap();
    }
    let start = Instant::now();
    let is_polled = || root.counts().polled > 0;
    while !is_polled() {
        watcher.work();
        assert!(start.elapsed() < PATIENCE);
    }
    let (mut busy, mut total) = (Duration::ZERO, Duration::ZERO);
    while busy < Duration::from_millis(10) {
        let (start_work, start_busy) = (Instant::now(), thread_time());
        let until_next = watcher.work().saturating_duration_since(start_work);
        // Skips the pause between two rounds, which does not depend on the work.
        if until_next < Duration::from_millis(300) {
            busy += thread_time().saturating_sub(start_busy);
            total += until_next;
        }
        assert!(start.elapsed() < PATIENCE);
    }
    // Some of the measured time is the test's own.
    assert!(total > 15 * busy, "{busy:?} of {total:?}");
}

#[test]
fn advice_is_new_only_for_newly_empty_roots() {
    let advice = |roots: &[(&str, &str)]| {
        let roots = roots.iter();
        let owned = roots.map(|(root, advice)| (PathBuf::from(root), (*advice).to_owned()));
        owned.collect::<Vec<_>>()
    };
    for (before, now, expected) in [
        (&[][..], &[("/a", "none")][..], &["none"][..]),
        (&[("/a", "none")], &[("/a", "other files")], &[]),
        // One root loses its last skill, and another gets one.
        (&[("/a", "none")], &[("/b", "none in b")], &["none in b"]),
        // One root loses its last skill, and the advice about another changes.
        (
            &[("/a", "none")],
            &[("/a", "other files"), ("/b", "none in b")],
            &["none in b"],
        ),
        (&[("/a", "none")], &[], &[]),
    ] {
        let found = advice(now);
        assert_eq!(new_advice(&advice(before), &found), expected);
    }
}
