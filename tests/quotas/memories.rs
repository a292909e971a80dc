//! The linear memories that calls share: how many there are, not their bytes.

use std::time::{Duration, Instant};

use skillhost::Stop;

use super::{SMALL, folders, is_stopped, limits, load, small_calls, start};
use crate::support::{build, builder, on_two_threads};

#[test]
fn components_with_many_memories_leave_memories_to_others() {
    let (folders, tools) = folders();
    // Sixteen calls have 32 memories together, and each of these takes eight.
    let load = load(|load| (load.calls, load.calls_per_tool) = (16, Some(12)));
    let host = builder()
        .skills(&folders.root)
        .tools(&tools)
        .limits(limits(Duration::from_millis(500)))
        .load(load);
    let host = build(host);
    on_two_threads(async {
        let loops = start(&host, &["heavy_loop".to_owned()], 6);
        let started = Instant::now();
        while host.occupancy().running < 4 {
            assert!(started.elapsed() < 20 * SMALL, "no call runs");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for (tool, arguments) in small_calls() {
            let answer = host.call(tool, arguments).await;
            assert!(answer.is_ok(), "{answer:?}");
        }
        for call in loops {
            let outcome = call.await.unwrap();
            let in_time = is_stopped(&outcome, |stop| matches!(stop, Stop::Time(_)));
            assert!(in_time, "{outcome:?}");
        }
    });
}
