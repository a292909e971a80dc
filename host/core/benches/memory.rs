//! The private memory of an idle host with many skills and components, and of each call in flight,
//! compared with a sleeping thread.

mod support;

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::json;
use skillhost::{Grant, Host, Limits};
use support::{component_tool, components, guests, skills};

/// The number of calls in flight: the default maximum of calls that a host runs at a time.
const CALLS: usize = 64;

/// The number of components.
const COMPONENTS: usize = 100;

/// The longest time of a call. The benchmark aborts all calls earlier.
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
    println!("{:<46} {:>10}", "private memory", "KiB");

    let start = private_bytes();
    let host = runtime.block_on(builder().build()).unwrap();
    report(
        "a host with five tools and 10,000 skills",
        private_bytes() - start,
    );
    let before_listing = private_bytes();
    runtime
        .block_on(host.call("list_skills", json!({})))
        .unwrap();
    report(
        "the same host, after listing them once",
        private_bytes() - before_listing,
    );
    drop(host);

    let folder = components(COMPONENTS);
    let with_components = || builder().tools(folder.path());
    // Compile the components now, so that the measured start only loads them.
    drop(runtime.block_on(with_components().build()).unwrap());
    let (start, before) = (private_bytes(), private_bytes());
    let host = runtime.block_on(builder().build()).unwrap();
    let host_only = private_bytes() - start;
    drop(host);
    let host = (0..COMPONENTS).fold(with_components(), |builder, number| {
        builder.grant(format!("{}.wasm", component_tool(number)), grant())
    });
    let host = runtime.block_on(host.build()).unwrap();
    let idle = private_bytes() - before - host_only;
    report("an idle component", idle / COMPONENTS as i64);
    let before = private_bytes();
    for number in 0..COMPONENTS {
        let arguments = json!({"skill_name": "skill-00000", "path": "SKILL.md"});
        let tool = component_tool(number);
        runtime.block_on(host.call(&tool, arguments)).unwrap();
    }
    let called = private_bytes() - before;
    report(
        "a component that has been called",
        called / COMPONENTS as i64,
    );
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
    let before = private_bytes();
    let others: Vec<_> = (1..CALLS).map(|_| sleep()).collect();
    wait_for(&host, CALLS);
    let calls = private_bytes() - before;
    report("a call in flight", calls / (CALLS as i64 - 1));
    for call in others.into_iter().chain([first]) {
        call.abort();
    }

    let before = private_bytes();
    for _ in 0..CALLS {
        thread::spawn(|| thread::sleep(LONG));
    }
    thread::sleep(Duration::from_millis(200));
    report(
        "a thread that sleeps (native)",
        (private_bytes() - before) / CALLS as i64,
    );
    runtime.shutdown_background();
}

/// Waits until this number of calls run.
fn wait_for(host: &Host, calls: usize) {
    while host.occupancy().running < calls {
        thread::sleep(Duration::from_millis(10));
    }
    // The host counts a call as running a moment before the call sleeps.
    thread::sleep(Duration::from_millis(500));
}

/// Returns the bytes of the process's anonymous memory.
fn private_bytes() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let line = lines
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<i64>().unwrap() << 10
}

fn report(name: &str, bytes: i64) {
    println!("{name:<46} {:>10.1}", bytes as f64 / 1024.0);
}
