//! Folders that change under the hands: what a call looks at is swapped for
//! something outside, without pause. No byte from outside shows, nothing waits,
//! and what is inside is read whenever it is there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, RenameFlags};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skillhost::{Contents, Host, ResourceError, message};

use crate::support::filter::{Answer, answer_openat2_with};
use crate::support::folders::{CANARY, Folders};
use crate::support::{again, again_as, block_on, build, builder_with_guests, call};

const INSIDE: &str = "INSIDE-91c2";

/// How long a race goes on.
const TIME: Duration = Duration::from_millis(1000);

/// Longest that a call may take. What waits for a FIFO waits for ever.
const LONGEST: Duration = Duration::from_secs(5);

/// A skill `a` with a folder `swapped` that holds a file, and the same beside
/// it, outside, with the canary in it.
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

/// What the calls of a race came to.
#[derive(Debug, Default)]
struct Seen {
    answered: u32,
    refused: u32,
}

/// Does something, over and over, while `swap` goes on without pause. Each time
/// it may take so long and no longer.
fn while_swapped(swap: impl Fn() + Sync, mut act: impl FnMut()) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                swap();
            }
        });
        // Also when a check here fails: the other thread must end.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(&over);
        let start = Instant::now();
        while start.elapsed() < TIME {
            let asked = Instant::now();
            act();
            assert!(asked.elapsed() < LONGEST, "it waited");
        }
    });
}

/// Makes these calls, over and over, while `swap` goes on without pause.
fn race(host: &Host, calls: &[(&str, Value)], swap: impl Fn() + Sync) -> Seen {
    let mut seen = Seen::default();
    let mut turn = calls.iter().cycle();
    while_swapped(swap, || {
        let (tool, arguments) = turn.next().unwrap();
        let answer = call(host, tool, arguments.clone());
        let told = format!("{answer:?}");
        let text = message::model_text(answer.clone());
        for outside in [CANARY, "canary-name"] {
            assert!(
                !told.contains(outside) && !text.contains(outside),
                "{tool} {arguments} tells what lies outside: {told}"
            );
        }
        match answer {
            Ok(output) => {
                seen.answered += 1;
                match *tool {
                    "raw_list" => assert_eq!(output.text(), "below\nf.txt"),
                    // The size of what is inside.
                    "raw_stat" => assert!(output.text().ends_with(" 11"), "{output:?}"),
                    _ => assert_eq!(output.text(), INSIDE),
                }
            }
            Err(_) => seen.refused += 1,
        }
    });
    seen
}

/// Puts each in the other's place, in one step if the file system can.
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

fn both_were_seen(seen: &Seen) {
    assert!(seen.answered > 0 && seen.refused > 0, "{seen:?}");
}

fn a_folder_swapped_with_a_link() {
    let (folders, host) = folders();
    let skill = folders.root.join("a");
    let (swapped, other) = (skill.join("swapped"), skill.join("other"));
    symlink(&folders.outside, &other).unwrap();
    let mut calls = calls_of("swapped/f.txt");
    calls.extend(calls_of("swapped/below/../f.txt"));
    calls.push(("raw_list", json!({"skill_name": "a", "path": "swapped"})));
    both_were_seen(&race(&host, &calls, || exchange(&swapped, &other)));
}

fn a_folder_moved_out_and_back() {
    let (folders, host) = folders();
    // Whoever stands in `below` when it is moved, and goes up, is outside.
    let below = folders.root.join("a/swapped/below");
    let moved = folders.outside.join("moved");
    let calls = calls_of("swapped/below/../f.txt");
    both_were_seen(&race(&host, &calls, || {
        fs::rename(&below, &moved).unwrap();
        fs::rename(&moved, &below).unwrap();
    }));
}

fn a_file_swapped_with(make: impl FnOnce(&Folders, &Path)) {
    let (folders, host) = folders();
    let skill = folders.root.join("a");
    let (file, other) = (skill.join("file.txt"), skill.join("other"));
    make(&folders, &other);
    let mut calls = calls_of("file.txt");
    // A look tells the size of a FIFO and of a hard link, which is no secret.
    calls.retain(|(tool, _)| *tool != "raw_stat");
    both_were_seen(&race(&host, &calls, || exchange(&file, &other)));
}

fn fifo(_: &Folders, path: &Path) {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn link_out(folders: &Folders, path: &Path) {
    symlink(folders.outside.join("file.txt"), path).unwrap();
}

fn hard_link_out(folders: &Folders, path: &Path) {
    fs::hard_link(folders.outside.join("file.txt"), path).unwrap();
}

fn a_skill_swapped_with_a_link() {
    let (folders, host) = folders();
    let (skill, other) = (folders.root.join("a"), folders.root.join("other"));
    symlink(&folders.outside, &other).unwrap();
    let mut calls = calls_of("swapped/f.txt");
    calls.extend(calls_of("SKILL.md"));
    calls.push(("read_skill", json!({"skill_name": "a"})));
    both_were_seen(&race(&host, &calls, || exchange(&skill, &other)));
}

#[test]
fn a_folder_that_is_swapped_with_a_link_tells_nothing_of_where_it_leads() {
    a_folder_swapped_with_a_link();
}

#[test]
fn a_folder_that_is_moved_out_while_it_is_walked_leads_nowhere() {
    a_folder_moved_out_and_back();
}

#[test]
fn a_file_that_is_swapped_with_a_fifo_makes_nobody_wait() {
    a_file_swapped_with(fifo);
}

#[test]
fn a_file_that_is_swapped_with_a_link_tells_nothing_of_where_it_leads() {
    a_file_swapped_with(link_out);
}

#[test]
fn a_file_that_is_swapped_with_a_hard_link_tells_nothing_of_its_other_name() {
    a_file_swapped_with(hard_link_out);
}

#[test]
fn a_skill_that_is_swapped_with_a_link_tells_nothing_of_where_it_leads() {
    a_skill_swapped_with_a_link();
}

/// Reads the skill's resources, over and over, while `swap` goes on: in a
/// manifest is what is inside, with the digest of that, or nothing.
fn race_for_resources(host: &Host, swap: impl Fn() + Sync) {
    let resources = host.skill_resources().unwrap();
    let inside = Sha256::digest(INSIDE);
    let inside: String = inside.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut seen = Seen::default();
    while_swapped(swap, || {
        let manifest = block_on(resources.manifest("a")).unwrap();
        for file in &manifest.files {
            assert_eq!(file.sha256.as_ref(), Some(&inside), "{file:?}");
            assert_eq!(file.size, INSIDE.len() as u64, "{file:?}");
        }
        let listed = block_on(resources.files("a")).unwrap();
        let folder = block_on(resources.directory("a", Some("swapped")));
        let told = format!("{manifest:?} {listed:?} {folder:?}");
        assert!(!told.contains("canary-name"), "{told}");
        for path in ["swapped/f.txt", "file.txt"] {
            match block_on(resources.read("a", path)) {
                Ok(contents) => {
                    assert_eq!(contents, Contents::Text(INSIDE.to_owned()), "{path}");
                    seen.answered += 1;
                }
                Err(error) => {
                    assert!(!matches!(error, ResourceError::Stopped(_)), "{error}");
                    seen.refused += 1;
                }
            }
        }
    });
    both_were_seen(&seen);
}

#[test]
fn a_manifest_of_a_skill_that_changes_tells_nothing_of_what_lies_outside() {
    let (folders, host) = folders();
    let skill = folders.root.join("a");
    let (swapped, other) = (skill.join("swapped"), folders.outside.join("other"));
    symlink(&folders.outside, &other).unwrap();
    race_for_resources(&host, || exchange(&swapped, &other));
}

#[test]
fn a_manifest_waits_for_no_fifo_and_reads_no_other_name() {
    for make in [fifo, link_out, hard_link_out] {
        let (folders, host) = folders();
        let (file, other) = (folders.root.join("a/file.txt"), folders.outside.join("x"));
        make(&folders, &other);
        race_for_resources(&host, || exchange(&file, &other));
    }
}

/// Paths are then resolved step by step, which is easier to trip.
#[test]
fn the_races_are_won_without_openat2_too() {
    if again_as().is_none() {
        again(
            "races::the_races_are_won_without_openat2_too",
            "without openat2",
        );
        return;
    }
    answer_openat2_with(Answer::Unknown);
    a_folder_swapped_with_a_link();
    a_folder_moved_out_and_back();
    a_file_swapped_with(fifo);
    a_file_swapped_with(link_out);
    a_skill_swapped_with_a_link();
}
