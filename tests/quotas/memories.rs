//! The linear memories that calls share: how many there are, not their bytes.

use super::{end_one_by_one, folders, load, small_calls, start};
use crate::support::watchdog::until;
use crate::support::{UNREACHED, build, builder, limits, on_two_threads};

#[test]
fn components_with_many_memories_leave_memories_to_others() {
    let (folders, tools) = folders();
    // Sixteen calls have 32 memories together, and each of these takes eight.
    let load = load(|load| (load.calls, load.calls_per_tool) = (16, Some(12)));
    let host = builder()
        .skills(&folders.root)
        .tools(&tools)
        .limits(limits(UNREACHED))
        .load(load);
    let host = build(host);
    on_two_threads(async {
        let loops = start(&host, &["heavy_loop".to_owned()], 6);
        until("not four calls run while two wait", || {
            let now = host.occupancy();
            (now.running, now.waiting) == (4, 2)
        })
        .await;
        for (tool, arguments) in small_calls() {
            let answer = host.call(tool, arguments).await;
            assert!(answer.is_ok(), "{answer:?}");
        }
        end_one_by_one(&host, loops, 4).await;
    });
}
