//! Many clients and many calls.

use std::thread;

use serde_json::json;
use skillhost_server::Token;

use super::{TOKEN, options, serve};
use crate::support::http::{Client, Request};
use crate::support::memory::resident;
use crate::support::watchdog::wait_until;
use crate::support::{model_text, run_in_own_process, runs_in_own_process};

/// The number of connections at a time.
const CLIENTS: u64 = 50;

#[test]
fn ten_thousand_calls_leave_nothing_behind() {
    // Memory and descriptors belong to a process, so the test needs a process of its own.
    if !runs_in_own_process() {
        run_in_own_process("http::load::ten_thousand_calls_leave_nothing_behind", "");
        return;
    }
    let token = Token::new(TOKEN).unwrap();
    let server = serve(options(|options| options.token = Some(token)));
    let files = ["examples/basic.py", "config.json", "SKILL.md", "none"];
    let expected = files.map(|path| {
        let arguments = json!({"skill_name": "calculator", "file_path": path});
        model_text(&server.host, "read_file_in_skill", arguments)
    });
    let bearer = format!("Bearer {TOKEN}");
    let call_all = |calls: u64| {
        let client = |number: u64| {
            let mut connection = Client::connect(server.address);
            for call in 0..calls {
                let id = number * calls + call;
                let which = usize::try_from(id).unwrap() % files.len();
                let arguments = json!({"skill_name": "calculator", "file_path": files[which]});
                let request = Request::call(id, "read_file_in_skill", arguments);
                let answer = connection.ask(&request.with("Authorization", &bearer));
                assert_eq!(answer.json()["id"], id);
                assert_eq!(answer.text(), expected[which]);
            }
        };
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                scope.spawn(move || client(number));
            }
        });
    };
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    // Warm up: some memory is allocated once.
    call_all(20);
    let memory = resident();
    call_all(10_000 / CLIENTS);
    wait_until("a descriptor stays open", || descriptors() == before);
    let grown = resident().saturating_sub(memory);
    assert!(grown < 16 << 20, "{grown} bytes more than {memory}");
    let shown = Request::get("/metrics").with("Authorization", &bearer);
    let shown = Client::once(server.address, &shown).body;
    let counted = "skillhost_call_duration_seconds_count{tool=\"read_file_in_skill\"} 11004\n";
    assert!(shown.contains(counted), "{shown}");
}
