//! What a record of the audit log costs a call, with its chain. The calls name no tool,
//! so nothing else takes time. In turns, because the machine is never the same:
//! `cargo bench --bench audit`.

use std::time::{Duration, Instant};

use serde_json::json;
use skillhost::{AuditMode, Caller, Host, Transport};
use tokio::runtime::Runtime;

/// The calls of a turn, and the turns of each host.
const CALLS: u32 = 2_000;
const TURNS: usize = 31;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    let host = |log: Option<&str>| {
        let mut builder = Host::builder().without_embedded_tools();
        if let Some(log) = log {
            builder = builder.audit(folder.path().join(log), AuditMode::Required);
        }
        runtime.block_on(builder.build()).unwrap()
    };
    let hosts = [host(None), host(Some("log"))];
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..TURNS {
        for (host, times) in hosts.iter().zip(&mut times) {
            times.push(turn(&runtime, host));
        }
    }
    let [without, with] = times.map(median);
    println!("a refused call without a log: {without:?}; with a log: {with:?}");
    println!("a record and its chain: {:?}", with.saturating_sub(without));
}

/// Returns the time of a call.
fn turn(runtime: &Runtime, host: &Host) -> Duration {
    let caller = Caller::new(Transport::Http).client("ci").id("17");
    let start = Instant::now();
    runtime.block_on(async {
        for _ in 0..CALLS {
            let arguments = json!({"skill_name": "calculator", "file_path": "SKILL.md"});
            host.call_from(&caller, "none", arguments)
                .await
                .unwrap_err();
        }
    });
    start.elapsed() / CALLS
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
