//! Measures the cost of recording a call in the audit log, and how much of it the chain causes.
//!
//! Compares a host without a log, a host that logs to standard error without a chain, a lock or a
//! file, and a host that logs to a file. The calls name an unknown tool, so that little else takes
//! time. Measures the hosts alternately, because the machine's speed varies.
//!
//! Run `cargo bench --bench audit 2>/dev/null`, which hides the log on standard error.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use skillhost::{AuditMode, Caller, Host, Transport};
use tokio::runtime::Runtime;

/// The number of calls in a turn.
const CALLS: u32 = 200;
/// The number of turns of each host.
const TURNS: usize = 301;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    let host = |log: Option<PathBuf>| {
        let mut builder = Host::builder().without_embedded_tools();
        if let Some(log) = log {
            builder = builder.audit(log, AuditMode::Required);
        }
        runtime.block_on(builder.build()).unwrap()
    };
    let hosts = [
        ("no log", host(None)),
        ("standard error", host(Some("-".into()))),
        ("a file", host(Some(folder.path().join("log")))),
    ];
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..TURNS {
        for ((_, host), times) in hosts.iter().zip(&mut times) {
            times.push(run_turn(&runtime, host));
        }
    }
    println!("a refused call, median and best of {TURNS} turns:");
    for ((name, _), times) in hosts.iter().zip(&mut times) {
        times.sort();
        println!("{name:>15}: {:?} {:?}", times[TURNS / 2], times[0]);
    }
}

/// Makes the calls of a turn. Returns the average time of a call.
fn run_turn(runtime: &Runtime, host: &Host) -> Duration {
    let caller = Caller::new(Transport::Http).client("ci").id("17");
    let start = Instant::now();
    runtime.block_on(async {
        for _ in 0..CALLS {
            let arguments = json!({"skill_name": "calculator", "file_path": "SKILL.md"});
            let called = host.call_from(&caller, "none", arguments);
            called.await.unwrap_err();
        }
    });
    start.elapsed() / CALLS
}
