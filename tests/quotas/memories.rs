//! The number of linear memories that calls share.

use super::{changed_load, folders, small_calls, start};
use crate::support::watchdog::until;
use crate::support::{UNREACHED, build, builder, limits, on_two_threads};

#[test]
fn components_with_many_memories_leave_memories_to_others() {
    let (folders, tools) = folders();
    // Sixteen calls share 32 memories, and each call of `heavy_loop` takes eight.
    let load = changed_load(|load| (load.calls, load.calls_per_tool) = (16, Some(12)));
    let host = builder()
        .skills(&folders.root)
        .tools(&tools)
        .limits(limits(UNREACHED))
        .load(load);
    let host = build(host);
    on_two_threads(async {
        let loops = start(&host, &["heavy_loop".to_owned()], 6);
        // Each call of `heavy_loop` takes four slots.
        let three_run_while = async |waiting| {
            until("the number of running calls is not three", || {
                let now = host.occupancy();
                (now.running, now.waiting) == (12, waiting)
            })
            .await;
        };
        three_run_while(3).await;
        for (tool, arguments) in small_calls() {
            let answer = host.call(tool, arguments).await;
            assert!(answer.is_ok(), "{answer:?}");
        }
        for (call, waiting) in loops.into_iter().zip([2, 1, 0]) {
            call.abort();
            assert!(call.await.unwrap_err().is_cancelled());
            three_run_while(waiting).await;
        }
    });
}
