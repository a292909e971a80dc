//! Hostile guests that run beside other calls. They learn nothing about those calls, and each call
//! gets its own answer.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skillhost::{CallError, Grant, Host, Limits, Stop};

use super::{folders, host, next_call_works, runtime};
use crate::support::folders::CANARY;
use crate::support::{block_on, bounded, builder, call, guests};

#[test]
fn no_guessed_handle_reaches_file_of_another_call() {
    let folders = folders();
    folders.write("b/canary.txt", CANARY);
    let mut limits = Limits::default();
    limits.time = Duration::from_secs(300);
    let grant = Grant::new().skills(["b"]).unwrap().limits(limits);
    let host = host(&folders);
    // The same component keeps many files of another skill open meanwhile.
    let other = crate::support::build(
        builder()
            .skills(&folders.root)
            .tools(guests())
            .grant("hostile.wasm", grant),
    );
    block_on(async {
        let held = json!({"skill_name": "b", "path": "canary.txt", "number": 200});
        let hold = other.call("hostile_hold_files", held);
        let guess = async {
            for (tool, most) in [
                ("hostile_guess_file", 10_000),
                ("hostile_guess_listing", 300),
                ("hostile_guess_stream", 300),
                ("hostile_guess_drop", 300),
            ] {
                for number in (0..most).chain([i32::MAX as u64, u64::from(u32::MAX)]) {
                    let arguments = json!({"skill_name": "a", "number": number});
                    match host.call(tool, arguments).await {
                        Err(CallError::Stopped {
                            stop: Stop::Trap(_),
                            ..
                        }) => {}
                        // The guessed number was the call's own preopen.
                        Err(CallError::Failed(failure)) => {
                            assert_eq!(failure.message, "is-directory", "{tool} {number}");
                        }
                        Ok(output) if tool == "hostile_guess_drop" => {
                            assert_eq!(output.text(), "done");
                        }
                        Ok(output) => {
                            assert_eq!(
                                output.text(),
                                "SKILL.md\ndocs\nempty\nfull\nout\nsome",
                                "{tool} {number}"
                            )
                        }
                        Err(other) => panic!("{tool} {number}: {other:?}"),
                    }
                }
            }
        };
        tokio::select! {
            ended = hold => panic!("the call that holds files ended: {ended:?}"),
            () = guess => {}
        }
    });
}

#[test]
fn reads_changing_definition_only_once() {
    let folders = folders();
    let definition = |host: &Host| {
        let all = host.definitions().into_iter();
        let description = all.filter(|tool| tool.name == "hostile_change");
        description.map(|tool| tool.description).collect::<String>()
    };
    let cache = tempfile::tempdir().unwrap();
    // This folder has only one component, because a host with a new cache compiles all components.
    let tools = folders.outside.join("tools");
    fs::create_dir(&tools).unwrap();
    fs::copy(guests().join("hostile.wasm"), tools.join("hostile.wasm")).unwrap();
    let host = |cache: &Path| {
        let grant = Grant::new().skills(["a"]).unwrap();
        let host = Host::builder().skills(&folders.root).tools(&tools);
        let host = host.without_embedded_tools();
        crate::support::build(host.cache(cache).grant("hostile.wasm", grant))
    };
    let first = host(cache.path());
    let promised = definition(&first);
    assert!(promised.starts_with("This time it is "), "{promised}");
    assert!(call(&first, "hostile_change", json!({"skill_name": "a"})).is_ok());
    assert_eq!(definition(&first), promised);
    // The definition is cached with the code.
    assert_eq!(definition(&host(cache.path())), promised);
    let other = tempfile::tempdir().unwrap();
    assert_ne!(
        definition(&host(other.path())),
        promised,
        "the definition never changes"
    );
}

#[test]
fn two_hundred_callers_get_their_own_answers() {
    let folders = folders();
    for number in 0..200 {
        folders.write(&format!("a/{number}.txt"), format!("answer {number}"));
    }
    let host = host(&folders);
    let runtime = runtime();
    let start = Arc::new(tokio::sync::Barrier::new(200));
    let callers: Vec<_> = (0..200)
        .map(|number| {
            let (host, start) = (host.clone(), Arc::clone(&start));
            runtime.spawn(async move {
                start.wait().await;
                let path = format!("{number}.txt");
                // Every fourth call is an attack.
                if number % 4 == 0 {
                    let arguments = json!({"skill_name": "a", "path": path});
                    host.call("hostile_break_off", arguments).await
                } else {
                    let arguments = json!({"skill_name": "a", "file_path": path});
                    host.call("read_file_in_skill", arguments).await
                }
            })
        })
        .collect();
    for (number, caller) in callers.into_iter().enumerate() {
        // Each task has one result, so no answer comes twice.
        match bounded(&runtime, caller).unwrap() {
            Ok(output) => assert_eq!(output.text(), format!("answer {number}")),
            Err(CallError::Stopped {
                stop: Stop::Trap(_),
                ..
            }) => assert_eq!(number % 4, 0),
            Err(other) => panic!("{number}: {other:?}"),
        }
    }
    next_call_works(&host);
}
