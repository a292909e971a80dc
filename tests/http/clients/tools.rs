//! The slots and the memory of one tool, which clients share.

use std::fs;

use serde_json::json;
use skillhost::{HostBuilder, Load};

use super::{call, clients, message, serve_teams};
use crate::support::folders::Folders;
use crate::support::http::{Client, TestServer};
use crate::support::watchdog::wait_until;
use crate::support::{UNREACHED, limits};

/// A component with one function, `work`. It takes memory, and then answers 7 or loops.
const WORK: &str = r#"(component
  (core module $m
    (memory 1)
    (func (export "work") (param $pages i32) (param $loops i32) (result i32)
      (if (i32.lt_s (memory.grow (local.get $pages)) (i32.const 0)) (then unreachable))
      (if (local.get $loops) (then (loop $forever (br $forever))))
      (i32.const 7)))
  (core instance $i (instantiate $m))
  (func (export "work") (param "pages" u32) (param "loops" bool) (result u32)
    (canon lift (core func $i "work"))))"#;

/// The number of pages in 12 MiB.
const PAGES: u32 = 192;

/// Serves `work` to the client without a name, and to the client `one` with eight `calls`.
fn serve(change: impl FnOnce(HostBuilder) -> HostBuilder) -> (TestServer, [Folders; 2]) {
    let tools = Folders::new();
    let file = tools.outside.join("work.wasm");
    fs::write(&file, wat::parse_str(WORK).unwrap()).unwrap();
    let options = clients(&[("one", "calls = 8")]);
    let (server, folders) = serve_teams(options, |builder| change(builder.component(file)));
    (server, [tools, folders])
}

fn send(server: &TestServer, client: Option<&str>, pages: u32, loops: bool) -> Client {
    let arguments = json!({"pages": pages, "loops": loops});
    let params = json!({"name": "work", "arguments": arguments});
    let mut connection = Client::connect(server.address);
    connection.send(&message(client, "tools/call", params).bytes());
    connection
}

fn wait_for(server: &TestServer, running: usize, waiting: usize) {
    wait_until("the expected calls do not run and wait", || {
        let now = server.host.occupancy();
        (now.running, now.waiting) == (running, waiting)
    });
}

#[test]
fn other_client_gets_next_free_slot_of_tool() {
    for (greedy, other) in [(Some("one"), None), (None, Some("one"))] {
        let mut load = Load::default();
        load.calls = 8;
        let (server, _folders) = serve(|builder| builder.load(load));
        // One tool gets at most a quarter of the eight slots, so the other two calls wait.
        let mut flood = Vec::new();
        for (running, waiting) in [(1, 0), (2, 0), (2, 1), (2, 2)] {
            flood.push(send(&server, greedy, 0, true));
            wait_for(&server, running, waiting);
        }
        let mut connection = send(&server, other, 0, false);
        wait_for(&server, 2, 3);
        drop(flood.remove(0));
        assert_eq!(connection.answer().unwrap().text(), "7", "{greedy:?}");
    }
}

#[test]
fn client_leaves_memory_of_a_tool_to_others() {
    for (greedy, other) in [(Some("one"), None), (None, Some("one"))] {
        let (server, _folders) = serve(|builder| {
            let mut load = Load::default();
            load.calls_memory = Some(256 << 20);
            let mut limits = limits(UNREACHED);
            limits.memory = 16 << 20;
            builder.load(load).limits(limits)
        });
        // One client gets at most half of the tool's quarter of the memory.
        let _flood = [1, 2].map(|number| {
            let call = send(&server, greedy, PAGES, true);
            wait_until("the call does not take its memory", || {
                server.host.occupancy().memory > number * (12 << 20)
            });
            call
        });
        let arguments = |loops| json!({"pages": PAGES, "loops": loops});
        let refused = call(&server, greedy, "work", arguments(true));
        assert!(refused.text().contains("short of memory"), "{refused:?}");
        let answer = call(&server, other, "work", arguments(false));
        assert_eq!(answer.text(), "7", "{greedy:?}");
    }
}
