//! Tests that hang: the watchdog names each one and kills its processes.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::support::process::{Process, output};
use crate::support::watchdog::PATIENCE_VARIABLE;
use crate::support::{block_on, own_process_argument, own_process_command, repository};

/// A time longer than the limit of the tests below.
const LONG: Duration = Duration::from_secs(60);

/// The test that hangs on purpose, in its own process.
const HANGS: &str = "hangs::names_hanging_test_and_kills_its_processes";

/// Starts a process that runs longer than any test may. Prints its id.
fn sleeper() -> Process {
    let process = Process::start(Command::new("sleep").arg("1000"));
    println!("pid {}.", process.pid);
    process
}

/// Waits as `way` says, or panics, while a process runs.
fn hang(way: &str) {
    match way {
        "for a process" => {
            sleeper().wait();
        }
        "for its output" => {
            let mut command = Command::new("sleep");
            let mut process =
                Process::start(command.arg("1000").stdout(std::process::Stdio::piped()));
            println!("pid {}.", process.pid);
            process.first_line();
        }
        "for nothing" => {
            let _process = sleeper();
            thread::sleep(LONG);
        }
        "for a future" => {
            let _process = sleeper();
            block_on(std::future::pending::<()>());
        }
        "at a panic" => {
            let _process = sleeper();
            panic!("on purpose");
        }
        way => panic!("{way}"),
    }
}

#[test]
fn names_hanging_test_and_kills_its_processes() {
    if let Some(way) = own_process_argument() {
        return hang(&way);
    }
    let ways = [
        ("for a process", "`sleep 1000` took longer than"),
        ("for its output", "`sleep 1000` printed no line"),
        (
            "for nothing",
            "hangs: it did not end in 2s; its processes: `sleep 1000`",
        ),
        ("for a future", "the future did not end in 1s"),
        ("at a panic", "on purpose"),
    ];
    let check = |way, message| {
        let run = output(own_process_command(HANGS, way).env(PATIENCE_VARIABLE, "1000"));
        let stdout = String::from_utf8_lossy(&run.stdout);
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(101), "{way}: {stdout}{stderr}");
        assert!(stderr.contains(message), "{way}: {stderr}");
        assert!(stderr.contains(HANGS), "{way}: {stderr}");
        let (_, pid) = stdout.split_once("pid ").unwrap();
        let (pid, _) = pid.split_once('.').unwrap();
        assert!(!Path::new("/proc").join(pid).exists(), "{way}: {pid}");
    };
    thread::scope(|scope| {
        for (way, message) in ways {
            scope.spawn(move || check(way, message));
        }
    });
}

#[test]
fn tests_bound_waits_for_processes_and_channels() {
    let mut folders = vec![repository().join("tests")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            // Skips code outside the suite, the code that bounds waits, and this file.
            if [
                "escapes",
                "fuzz",
                "guests",
                "clients",
                "process.rs",
                "hangs.rs",
            ]
            .contains(&name)
            {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files += 1;
                let source = std::fs::read_to_string(&path).unwrap();
                for wait in [".spawn()", ".wait_with_output(", ".recv()"] {
                    assert!(!source.contains(wait), "{}: {wait}", path.display());
                }
            }
        }
    }
    assert!(files > 60, "{files}");
}
