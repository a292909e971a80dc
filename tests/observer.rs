//! Observers: what they learn of the end of each call, and of a host's running calls and memory.

use std::sync::{Arc, Mutex};

use serde_json::json;
use skillhost::{CallEnd, CallTrace, Host, Observer};

use crate::support::folders::Folders;
use crate::support::watchdog::until;
use crate::support::{block_on, build, builder_with_guests, cancel_call_when, on_two_threads};

/// The end of a call: the tool, the outcome, the reason, and `true` if memory is reported.
type Note = (Option<String>, &'static str, Option<&'static str>, bool);

#[derive(Default)]
struct Notes(Mutex<Vec<Note>>);

impl Observer for Notes {
    fn ended(&self, call: &CallEnd<'_>) {
        let tool = call.tool.map(str::to_owned);
        let memory = call.memory.is_some_and(|bytes| bytes > 0);
        let mut notes = self.0.lock().unwrap();
        notes.push((tool, call.outcome.name(), call.outcome.reason(), memory));
    }
}

fn host(folders: &Folders) -> (Host, Arc<Notes>) {
    folders.write("a/SKILL.md", "# A\n");
    let notes = Arc::<Notes>::default();
    let builder = builder_with_guests().skills(&folders.root);
    (build(builder.observer(notes.clone())), notes)
}

#[test]
fn observer_learns_the_outcome_of_every_call() {
    let folders = Folders::new();
    let (host, notes) = host(&folders);
    let read = "read_file_in_skill";
    let calls = [
        (read, json!({"skill_name": "a", "file_path": "SKILL.md"})),
        (read, json!({"skill_name": "a", "file_path": "none"})),
        (read, json!({})),
        ("made\u{1b}up", json!({})),
        ("raw_panic", json!({"skill_name": "a", "path": "p"})),
    ];
    for (tool, arguments) in calls {
        let _ = block_on(host.call(tool, arguments));
    }
    let arguments = json!({"skill_name": "a", "path": "p"});
    let guest_runs = || host.occupancy().memory > 0;
    block_on(cancel_call_when(&host, "raw_sleep", arguments, guest_runs));
    let note = |tool: &str, outcome, reason, memory| (Some(tool.into()), outcome, reason, memory);
    let expected: [Note; 6] = [
        note(read, "output", None, true),
        note(read, "failed", Some("not-found"), true),
        note(read, "refused", Some("arguments"), false),
        (None, "refused", Some("unknown-tool"), false),
        note("raw_panic", "stopped", Some("trap"), true),
        note("raw_sleep", "cancelled", None, false),
    ];
    assert_eq!(*notes.0.lock().unwrap(), expected);
}

/// The traces of failed calls.
#[derive(Default)]
struct Traces(Mutex<Vec<CallTrace>>);

impl Observer for Traces {
    fn ended(&self, _: &CallEnd<'_>) {}

    fn traces(&self) -> bool {
        true
    }

    fn traced(&self, trace: CallTrace) {
        self.0.lock().unwrap().push(trace);
    }
}

#[test]
fn trace_of_failed_call_has_output_and_stack() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let traces = Arc::<Traces>::default();
    let builder = builder_with_guests().skills(&folders.root);
    let host = build(builder.observer(traces.clone()));
    for (tool, fails) in [("raw_print", false), ("raw_panic", true)] {
        let arguments = json!({"skill_name": "a", "path": "p"});
        let answer = block_on(host.call(tool, arguments));
        assert_eq!(answer.is_err(), fails, "{tool}: {answer:?}");
    }
    let traces = traces.0.lock().unwrap();
    let [trace] = &traces[..] else {
        panic!("{traces:?}");
    };
    assert!(trace.output.contains("panicked at"), "{trace:?}");
    assert!(!trace.frames.is_empty(), "{trace:?}");
}

#[test]
fn host_reports_its_occupancy() {
    let folders = Folders::new();
    let (host, _) = host(&folders);
    let nothing = (0, 0, 0);
    let now = || {
        let now = host.occupancy();
        (now.running, now.waiting, now.memory)
    };
    assert_eq!(now(), nothing);
    on_two_threads(async {
        let host = host.clone();
        let call = tokio::spawn(async move {
            host.call("raw_sleep", json!({"skill_name": "a", "path": "p"}))
                .await
        });
        let guest_runs = || now().2 > 0;
        until("no guest started", guest_runs).await;
        assert_eq!((now().0, now().1), (1, 0));
        call.abort();
        let _ = call.await;
    });
    assert_eq!(now(), nothing);
}
