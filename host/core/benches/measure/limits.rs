//! The cost of a call's limits. Makes the same calls on an ordinary host, and on a host without
//! limits of time, memory, tables, handles and host calls, and without the code that interrupts a
//! guest.
//!
//! Calls alternate between the two hosts, so that a busy machine slows both. The output has the
//! median times, and the median of the ratios of all pairs of calls.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skillhost::Host;
use tokio::runtime::Runtime;

const PAIRS: usize = 20_000;

pub(super) fn run() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("skill");
    fs::create_dir(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "---\nname: skill\n---\nText.\n").unwrap();
    let line = "A line of ordinary text, as files of skills have them.\n";
    for (name, bytes) in [("4KiB", 4 << 10), ("64KiB", 64 << 10)] {
        let text = &line.repeat(bytes / line.len() + 1)[..bytes];
        fs::write(skill.join(name), text).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let builder = || Host::builder().skills(folder.path());
    let limited_host = runtime.block_on(builder().build()).unwrap();
    let unlimited_host = runtime.block_on(builder().unlimited().build()).unwrap();
    println!(
        "{:<28} {:>10} {:>10} {:>8}",
        "call", "limits", "none", "ratio"
    );
    for (name, tool, arguments) in [
        (
            "read_file_in_skill 4 KiB",
            "read_file_in_skill",
            json!({"skill_name": "skill", "file_path": "4KiB"}),
        ),
        (
            "read_file_in_skill 64 KiB",
            "read_file_in_skill",
            json!({"skill_name": "skill", "file_path": "64KiB"}),
        ),
        (
            "read_file_in_skill, missing",
            "read_file_in_skill",
            json!({"skill_name": "skill", "file_path": "none"}),
        ),
        ("read_skill", "read_skill", json!({"skill_name": "skill"})),
    ] {
        let time = |host: &Host| time(&runtime, host, tool, &arguments);
        for _ in 0..PAIRS / 20 {
            time(&limited_host);
            time(&unlimited_host);
        }
        let (mut limited, mut unlimited, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..PAIRS {
            // Alternate which host is first.
            let (with_limits, without_limits) = if number % 2 == 0 {
                let with_limits = time(&limited_host);
                (with_limits, time(&unlimited_host))
            } else {
                let without_limits = time(&unlimited_host);
                (time(&limited_host), without_limits)
            };
            limited.push(with_limits);
            unlimited.push(without_limits);
            ratios.push(with_limits.as_secs_f64() / without_limits.as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        println!(
            "{name:<28} {:>7.1} µs {:>7.1} µs {:>8.3}",
            median(limited).as_secs_f64() * 1e6,
            median(unlimited).as_secs_f64() * 1e6,
            ratios[ratios.len() / 2],
        );
    }
}

fn time(runtime: &Runtime, host: &Host, tool: &str, arguments: &Value) -> Duration {
    let arguments = arguments.clone();
    let start = Instant::now();
    let answer = runtime.block_on(host.call(tool, arguments));
    let _ = black_box(answer);
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
