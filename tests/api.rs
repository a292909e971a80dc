//! The Rust API, used as the program of an agent uses it.

use std::time::Duration;

use serde_json::json;
use skillhost::{CallError, Host, Limits, Load, Stop};

use crate::support::folders::Folders;
use crate::support::{
    build, builder, builder_with_guests, cancel_call_when, on_two_threads, repository,
};

fn assert_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn hosts_and_calls_are_send() {
    on_two_threads(async {
        let host = assert_send(builder().skills(repository().join("skills")).build());
        let host: Host = host.await.unwrap();
        let calls: Vec<_> = (0..64)
            .map(|number| {
                let host = host.clone();
                tokio::spawn(assert_send(async move {
                    let skill = ["calculator", "weather", "data_analysis", "none"][number % 4];
                    let outcome = host.call("get_skill", json!({"skill_name": skill})).await;
                    (skill, outcome)
                }))
            })
            .collect();
        for call in calls {
            let (skill, outcome) = call.await.unwrap();
            match outcome {
                Ok(output) => assert_eq!(output.record()["skill_name"], skill),
                Err(CallError::Failed(failure)) => {
                    assert_eq!(failure.unknown_skill.as_deref(), Some("none"));
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn calls_beyond_the_slots_wait_their_turn() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let mut limits = Limits::default();
    limits.time = Duration::from_millis(100);
    let host = build(builder_with_guests().skills(&folders.root).limits(limits));
    on_two_threads(async {
        let calls: Vec<_> = (0..200)
            .map(|_| {
                let host = host.clone();
                let arguments = json!({"skill_name": "a", "path": ""});
                tokio::spawn(async move { host.call("raw_sleep", arguments).await })
            })
            .collect();
        for call in calls {
            let stopped = call.await.unwrap();
            let timed_out = matches!(
                stopped,
                Err(CallError::Stopped {
                    stop: Stop::Time(_),
                    ..
                })
            );
            assert!(timed_out, "{stopped:?}");
        }
    });
}

#[test]
fn caller_that_gives_up_stops_the_guest() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let host = build(builder_with_guests().skills(&folders.root));
    crate::support::block_on(async {
        for tool in ["raw_loop", "raw_sleep"] {
            let arguments = json!({"skill_name": "a", "path": ""});
            let runs = || host.occupancy().memory > 0;
            cancel_call_when(&host, tool, arguments, runs).await;
            assert_eq!(host.occupancy().running, 0);
        }
        let output = host.call("raw_read", json!({"skill_name": "a", "path": "SKILL.md"}));
        assert_eq!(output.await.unwrap().text(), "# A\n");
    });
}

#[test]
fn full_queue_refuses_calls_and_loses_none() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let mut load = Load::default();
    (load.calls, load.queue) = (8, 24);
    // Third-party tools get 7 of the slots, and 21 places in the queue.
    load.calls_per_tool = Some(8);
    let mut limits = Limits::default();
    limits.time = Duration::from_millis(100);
    let host = builder_with_guests()
        .skills(&folders.root)
        .load(load)
        .limits(limits);
    let host = build(host);
    on_two_threads(async {
        let calls: Vec<_> = (0..200)
            .map(|_| {
                let host = host.clone();
                let arguments = json!({"skill_name": "a", "path": ""});
                tokio::spawn(async move { host.call("raw_sleep", arguments).await })
            })
            .collect();
        let (mut ran, mut busy) = (0, 0);
        for call in calls {
            match call.await.unwrap() {
                Err(CallError::Stopped {
                    stop: Stop::Time(_),
                    ..
                }) => ran += 1,
                Err(CallError::Stopped {
                    stop: Stop::Busy, ..
                }) => busy += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(ran + busy, 200);
        assert!(ran >= 28 && busy > 0, "{ran} ran, {busy} were refused");
        let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
        assert_eq!(
            host.call("raw_read", arguments).await.unwrap().text(),
            "# A\n"
        );
    });
}
