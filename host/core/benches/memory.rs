//! Private memory: of an idle host with many skills and components, and of each call in
//! flight, compared with a sleeping thread.

mod support;

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::json;
use skillhost::{Grant, Host, Limits};
use support::{component_tool, components, guests, skills};

/// Calls in flight: the most that a host runs at a time by default.
const CALLS: usize = 64;

/// The number of components.
const COMPONENTS: usize = 100;

/// A time limit that no call reaches.
const LONG: Duration = Duration::from_secs(60);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let (root, cache) = (skills(10_000), tempfile::tempdir().unwrap());
    let grant = || {
        let mut limits = Limits::default();
        limits.time = LONG;
        Grant::new().skills(["*"]).unwrap().limits(limits)
    };
    let builder = || Host::builder().skills(root.path()).cache(cache.path());
    println!("{:<46} {:>10}", "bytes of the process's own", "KiB");

    let start = own();
    let host = runtime.block_on(builder().build()).unwrap();
    say("a host with five tools and 10,000 skills", own() - start);
    let listed = own();
    runtime
        .block_on(host.call("list_skills", json!({})))
        .unwrap();
    say("having listed them once", own() - listed);
    drop(host);

    let folder = components(COMPONENTS);
    let with_components = || builder().tools(folder.path());
    // Compiles the components, so that the measured start loads them from the cache.
    drop(runtime.block_on(with_components().build()).unwrap());
    let (without, before) = (own(), own());
    let host = runtime.block_on(builder().build()).unwrap();
    let without = own() - without;
    drop(host);
    let host = (0..COMPONENTS).fold(with_components(), |builder, number| {
        builder.grant(format!("{}.wasm", component_tool(number)), grant())
    });
    let host = runtime.block_on(host.build()).unwrap();
    let idle = own() - before - without;
    say("an idle component", idle / COMPONENTS as i64);
    let before = own();
    for number in 0..COMPONENTS {
        let arguments = json!({"skill_name": "skill-00000", "path": "SKILL.md"});
        let tool = component_tool(number);
        runtime.block_on(host.call(&tool, arguments)).unwrap();
    }
    let called = own() - before;
    say("one that has been called", called / COMPONENTS as i64);
    drop(host);

    let host = builder().tools(guests()).grant("unchecked.wasm", grant());
    let host = runtime.block_on(host.build()).unwrap();
    let sleep = || {
        let host = host.clone();
        let arguments = json!({"skill_name": "skill-00000", "path": ""});
        runtime.spawn(async move { host.call("raw_sleep", arguments).await })
    };
    let first = sleep();
    wait_for(&host, 1);
    let before = own();
    let others: Vec<_> = (1..CALLS).map(|_| sleep()).collect();
    wait_for(&host, CALLS);
    let calls = own() - before;
    say("a call in flight", calls / (CALLS as i64 - 1));
    for call in others.into_iter().chain([first]) {
        call.abort();
    }

    let before = own();
    for _ in 0..CALLS {
        thread::spawn(|| thread::sleep(LONG));
    }
    thread::sleep(Duration::from_millis(200));
    say(
        "a thread that sleeps (native)",
        (own() - before) / CALLS as i64,
    );
    runtime.shutdown_background();
}

/// Waits until this number of calls runs.
fn wait_for(host: &Host, calls: usize) {
    while host.occupancy().running < calls {
        thread::sleep(Duration::from_millis(10));
    }
    // The time in which the guests fall asleep.
    thread::sleep(Duration::from_millis(500));
}

/// Returns the private memory of this process, without files, in bytes.
fn own() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let line = lines
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<i64>().unwrap() << 10
}

fn say(what: &str, bytes: i64) {
    println!("{what:<46} {:>10.1}", bytes as f64 / 1024.0);
}
