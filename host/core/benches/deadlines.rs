//! The delay between the deadline and the end of a call, for guests that never return. Calls each
//! endless tool of the hostile guest many times on an idle host.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use skillhost::{CallError, Grant, Host, Limits, Stop};

const DEADLINE: Duration = Duration::from_millis(50);
const TRIES: usize = 50;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("a");
    std::fs::create_dir(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "# A\n").unwrap();
    let attacks = [
        ("hostile_compute", 0),
        ("hostile_sleep", 0),
        ("hostile_poll_for_ever", 0),
        ("hostile_poll_one_often", 100),
        ("hostile_wait_for_the_end_of_time", 0),
        ("hostile_call_host_for_ever", 0),
        ("hostile_hold_files", 200),
        ("hostile_random_for_ever", 1 << 20),
    ];
    let mut limits = Limits::default();
    limits.time = DEADLINE;
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests/dist");
    let grant = Grant::new().skills(["a"]).unwrap().limits(limits);
    let builder = Host::builder().skills(folder.path()).tools(guests);
    let builder = builder.grant("hostile.wasm", grant);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let host = runtime.block_on(builder.build()).unwrap();
    println!("{:<34} {:>10} {:>10}", "late by", "median", "max");
    for (tool, number) in attacks {
        let mut late: Vec<Duration> = (0..TRIES)
            .map(|_| {
                let arguments = json!({"skill_name": "a", "number": number});
                let start = Instant::now();
                let ended = runtime.block_on(host.call(tool, arguments));
                let late = start.elapsed().saturating_sub(DEADLINE);
                let stopped = matches!(
                    ended,
                    Err(CallError::Stopped {
                        stop: Stop::Time(_),
                        ..
                    })
                );
                assert!(stopped, "{tool}: {ended:?}");
                late
            })
            .collect();
        late.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (median, max) = (late[TRIES / 2], late[TRIES - 1]);
        println!("{tool:<34} {:>7.1} ms {:>7.1} ms", ms(median), ms(max));
    }
}
