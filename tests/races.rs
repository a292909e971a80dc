//! Folders that change during calls: another thread keeps exchanging the file that a call reads
//! with something outside. No byte from outside appears, nothing blocks, and calls still read the
//! file while it is there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, RenameFlags};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skillhost::{Contents, Host, ResourceError, SkillsRoot, message};

use crate::support::filter::{Answer, answer_openat2_with};
use crate::support::folders::{CANARY, Folders};
use crate::support::{
    block_on, build, builder_with_guests, call, own_process_argument, run_in_own_process,
};

const INSIDE: &str = "INSIDE-91c2";

/// The duration of a race.
const TIME: Duration = Duration::from_millis(1000);

/// The maximum time of a call. A call that opened a FIFO would never end.
const LONGEST: Duration = Duration::from_secs(5);

/// Makes a skill `a` with a folder `swapped`, and the same files outside with the canary as text.
fn folders() -> (Folders, Host) {
    let folders = Folders::new();
    folders.write("a/SKILL.md", INSIDE);
    folders.write("a/swapped/f.txt", INSIDE);
    folders.write("a/swapped/below/f.txt", INSIDE);
    folders.write("a/file.txt", INSIDE);
    let outside = &folders.outside;
    for path in [
        "SKILL.md",
        "f.txt",
        "file.txt",
        "below/f.txt",
        "swapped/f.txt",
    ] {
        let path = outside.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{CANARY} and more")).unwrap();
    }
    fs::write(outside.join("canary-name"), CANARY).unwrap();
    let host = build(builder_with_guests().skills(&folders.root));
    (folders, host)
}

/// The numbers of a race's answered and refused calls.
#[derive(Debug, Default)]
struct RaceCounts {
    answered: u32,
    refused: u32,
}

/// Repeats `act` while `swap` runs without pause. Each `act` must end in time.
fn while_swapped(swap: impl Fn() + Sync, mut act: impl FnMut()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                swap();
            }
        });
        // The other thread must end even if a check fails.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(&is_over);
        let start = Instant::now();
        while start.elapsed() < TIME {
            let asked = Instant::now();
            act();
            assert!(asked.elapsed() < LONGEST, "a call waited");
        }
    });
}

/// Repeats these calls while `swap` runs without pause.
fn race(host: &Host, calls: &[(&str, Value)], swap: impl Fn() + Sync) -> RaceCounts {
    let mut counts = RaceCounts::default();
    let mut turn = calls.iter().cycle();
    while_swapped(swap, || {
        let (tool, arguments) = turn.next().unwrap();
        let answer = call(host, tool, arguments.clone());
        let debug_text = format!("{answer:?}");
        let text = message::model_text(answer.clone());
        for outside in [CANARY, "canary-name"] {
            assert!(
                !debug_text.contains(outside) && !text.contains(outside),
                "{tool} {arguments} reveals a file outside: {debug_text}"
            );
        }
        match answer {
            Ok(output) => {
                counts.answered += 1;
                match *tool {
                    "raw_list" => assert_eq!(output.text(), "below\nf.txt"),
                    // The size of the file inside.
                    "raw_stat" => assert!(output.text().ends_with(" 11"), "{output:?}"),
                    _ => assert_eq!(output.text(), INSIDE),
                }
            }
            Err(_) => counts.refused += 1,
        }
    });
    counts
}

/// Exchanges two files, atomically if the file system can.
fn exchange(a: &Path, b: &Path) {
    if rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).is_err() {
        let aside = a.with_extension("aside");
        fs::rename(a, &aside).unwrap();
        fs::rename(b, a).unwrap();
        fs::rename(&aside, b).unwrap();
    }
}

fn calls_of(path: &str) -> Vec<(&'static str, Value)> {
    let raw = json!({"skill_name": "a", "path": path});
    vec![
        (
            "read_file_in_skill",
            json!({"skill_name": "a", "file_path": path}),
        ),
        ("read_skill_file", raw.clone()),
        ("raw_read", raw.clone()),
        ("raw_stat", raw),
    ]
}

fn assert_both_occurred(counts: &RaceCounts) {
    assert!(counts.answered > 0 && counts.refused > 0, "{counts:?}");
}

fn swap_a_folder_with_a_link() {
    let (folders, host) = folders();
    let skill = folders.root.join("a");
    let (swapped, other) = (skill.join("swapped"), skill.join("other"));
    symlink(&folders.outside, &other).unwrap();
    let mut calls = calls_of("swapped/f.txt");
    calls.extend(calls_of("swapped/below/../f.txt"));
    calls.push(("raw_list", json!({"skill_name": "a", "path": "swapped"})));
    assert_both_occurred(&race(&host, &calls, || exchange(&swapped, &other)));
}

fn move_a_folder_out_and_back() {
    let (folders, host) = folders();
    // `..` leads outside from `below` after the move.
    let below = folders.root.join("a/swapped/below");
    let moved = folders.outside.join("moved");
    let calls = calls_of("swapped/below/../f.txt");
    assert_both_occurred(&race(&host, &calls, || {
        fs::rename(&below, &moved).unwrap();
        fs::rename(&moved, &below).unwrap();
    }));
}

fn swap_a_file_with(make: impl FnOnce(&Folders, &Path)) {
    let (folders, host) = folders();
    let skill = folders.root.join("a");
    let (file, other) = (skill.join("file.txt"), skill.join("other"));
    make(&folders, &other);
    let mut calls = calls_of("file.txt");
    // `stat` shows the size of a FIFO and of a hard link, which is not secret.
    calls.retain(|(tool, _)| *tool != "raw_stat");
    assert_both_occurred(&race(&host, &calls, || exchange(&file, &other)));
}

fn make_fifo(_: &Folders, path: &Path) {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn make_symlink_out(folders: &Folders, path: &Path) {
    symlink(folders.outside.join("file.txt"), path).unwrap();
}

fn make_hard_link_out(folders: &Folders, path: &Path) {
    fs::hard_link(folders.outside.join("file.txt"), path).unwrap();
}

fn swap_a_skill_with_a_link() {
    let (folders, host) = folders();
    let (skill, other) = (folders.root.join("a"), folders.root.join("other"));
    symlink(&folders.outside, &other).unwrap();
    let mut calls = calls_of("swapped/f.txt");
    calls.extend(calls_of("SKILL.md"));
    calls.push(("read_skill", json!({"skill_name": "a"})));
    assert_both_occurred(&race(&host, &calls, || exchange(&skill, &other)));
}

#[test]
fn parent_folder_swapped_with_symlink_reveals_nothing() {
    let folders = Folders::new();
    folders.write("author/a/SKILL.md", INSIDE);
    fs::create_dir(folders.outside.join("a")).unwrap();
    fs::write(folders.outside.join("a/SKILL.md"), CANARY).unwrap();
    let (author, other) = (folders.root.join("author"), folders.root.join("other"));
    symlink(&folders.outside, &other).unwrap();
    let root = SkillsRoot {
        depth: 2,
        ..SkillsRoot::new(&folders.root)
    };
    let host = build(builder_with_guests().skills_root(root));
    let mut calls = calls_of("SKILL.md");
    calls.push(("read_skill", json!({"skill_name": "a"})));
    assert_both_occurred(&race(&host, &calls, || exchange(&author, &other)));
}

#[test]
fn folder_swapped_with_a_symlink_reveals_nothing() {
    swap_a_folder_with_a_link();
}

#[test]
fn folder_moved_out_during_walk_reveals_nothing() {
    move_a_folder_out_and_back();
}

#[test]
fn file_swapped_with_fifo_does_not_block() {
    swap_a_file_with(make_fifo);
}

#[test]
fn file_swapped_with_a_symlink_reveals_nothing() {
    swap_a_file_with(make_symlink_out);
}

#[test]
fn file_swapped_with_hard_link_reveals_nothing() {
    swap_a_file_with(make_hard_link_out);
}

#[test]
fn skill_swapped_with_a_symlink_reveals_nothing() {
    swap_a_skill_with_a_link();
}

/// Repeats reading the skill's resources while `swap` runs. A manifest lists a file inside with
/// its digest, or leaves it out.
fn race_for_resources(host: &Host, swap: impl Fn() + Sync) {
    let resources = host.skill_resources().unwrap();
    let inside = Sha256::digest(INSIDE);
    let inside: String = inside.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut counts = RaceCounts::default();
    while_swapped(swap, || {
        let manifest = block_on(resources.manifest("a")).unwrap();
        for file in &manifest.files {
            assert_eq!(file.sha256.as_ref(), Some(&inside), "{file:?}");
            assert_eq!(file.size, INSIDE.len() as u64, "{file:?}");
        }
        let listed = block_on(resources.files("a")).unwrap();
        let folder = block_on(resources.directory("a", Some("swapped")));
        let debug_text = format!("{manifest:?} {listed:?} {folder:?}");
        assert!(!debug_text.contains("canary-name"), "{debug_text}");
        for path in ["swapped/f.txt", "file.txt"] {
            match block_on(resources.read("a", path)) {
                Ok(contents) => {
                    assert_eq!(contents, Contents::Text(INSIDE.to_owned()), "{path}");
                    counts.answered += 1;
                }
                Err(error) => {
                    assert!(!matches!(error, ResourceError::Stopped(_)), "{error}");
                    counts.refused += 1;
                }
            }
        }
    });
    assert_both_occurred(&counts);
}

#[test]
fn manifest_of_changing_skill_reveals_nothing_outside() {
    let (folders, host) = folders();
    let skill = folders.root.join("a");
    let (swapped, other) = (skill.join("swapped"), folders.outside.join("other"));
    symlink(&folders.outside, &other).unwrap();
    race_for_resources(&host, || exchange(&swapped, &other));
}

#[test]
fn manifest_ignores_fifos_symlinks_and_hard_links() {
    for make in [make_fifo, make_symlink_out, make_hard_link_out] {
        let (folders, host) = folders();
        let (file, other) = (folders.root.join("a/file.txt"), folders.outside.join("x"));
        make(&folders, &other);
        race_for_resources(&host, || exchange(&file, &other));
    }
}

/// Without `openat2` the host resolves paths step by step, which is easier to attack.
#[test]
fn races_reveal_nothing_without_openat2() {
    if own_process_argument().is_none() {
        run_in_own_process(
            "races::races_reveal_nothing_without_openat2",
            "without openat2",
        );
        return;
    }
    answer_openat2_with(Answer::Unknown);
    swap_a_folder_with_a_link();
    move_a_folder_out_and_back();
    swap_a_file_with(make_fifo);
    swap_a_file_with(make_symlink_out);
    swap_a_skill_with_a_link();
}
