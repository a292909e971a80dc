//! Shares of slots, queue, turns and memory. No tool takes another tool's share, and no
//! third-party tool takes the share of the built-in tools.

mod memories;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use skillhost::{
    CallError, Caller, Definition, Failure, Grant, Host, HostBuilder, Limits, Load, Output,
    ProgramTool, Stop,
};
use skillhost_server::HttpOptions;

use crate::support::folders::Folders;
use crate::support::http::{Client, Request, TestServer};
use crate::support::mcp;
use crate::support::memory::resident;
use crate::support::program::Program;
use crate::support::watchdog::{patience, until, wait_until};
use crate::support::{
    UNREACHED, build, builder, builder_with_guests, call, limits, on_two_threads,
    run_in_own_process, runs_in_own_process,
};

/// The suffixes of the names of tools that do the same. There are too few slots to
/// give each tool its own.
const SUFFIXES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// The maximum time of most small calls. The promise is 250 ms. Tests allow four times as much,
/// because other processes may use three quarters of the machine.
const MAX_SMALL_TIME: Duration = Duration::from_secs(1);

/// Returns a component of functions that need no skill, and so no grant: `compute_a` to
/// `compute_h` loop; `take_a` to `take_h` take all memory and then loop; `give_up` takes all
/// memory and then traps.
fn greedy() -> Vec<u8> {
    let functions: String = SUFFIXES
        .iter()
        .flat_map(|name| [("compute", name), ("take", name)])
        .map(|(what, name)| {
            format!(
                r#"(func (export "{what}-{name}") (result u32)
                    (canon lift (core func $i "{what}")))"#
            )
        })
        .collect();
    let text = format!(
        r#"(component
  (core module $m
    (memory 1)
    (func $fill (local $at i32)
      (block $full (loop $more
        (br_if $full (i32.lt_s
          (local.tee $at (memory.grow (i32.const 16))) (i32.const 0)))
        (memory.fill (i32.mul (local.get $at) (i32.const 65536))
          (i32.const 1) (i32.const 1048576))
        (br $more))))
    (func (export "compute") (result i32) (loop (br 0)) unreachable)
    (func (export "take") (result i32) (call $fill) (loop (br 0)) unreachable)
    (func (export "give-up") (result i32) (call $fill) unreachable))
  (core instance $i (instantiate $m))
  (func (export "give-up") (result u32) (canon lift (core func $i "give-up")))
  {functions})"#
    );
    wat::parse_str(text).unwrap()
}

/// Returns a component with the maximum number of memories and two functions: `heavy` answers, and
/// `heavy_loop` loops.
fn heavy() -> Vec<u8> {
    let instances: String = (0..8)
        .map(|number| format!("(core instance $i{number} (instantiate $m))\n"))
        .collect();
    let text = format!(
        r#"(component
  (core module $m (memory 1)
    (func (export "f") (result i32) (i32.const 7))
    (func (export "loop") (result i32) (loop (br 0)) unreachable))
  {instances}
  (func (export "heavy") (result u32) (canon lift (core func $i0 "f")))
  (func (export "heavy-loop") (result u32) (canon lift (core func $i0 "loop"))))"#
    );
    wat::parse_str(text).unwrap()
}

/// Returns a skill, and a folder with the components [`greedy`] and [`heavy`].
fn folders() -> (Folders, PathBuf) {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "---\nname: a\ndescription: A.\n---\n# A\n");
    let tools = folders.outside.join("tools");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("greedy.wasm"), greedy()).unwrap();
    fs::write(tools.join("heavy.wasm"), heavy()).unwrap();
    (folders, tools)
}

fn changed_load(change: impl FnOnce(&mut Load)) -> Load {
    let mut load = Load::default();
    change(&mut load);
    load
}

/// Returns two small calls of built-in tools.
fn small_calls() -> [(&'static str, Value); 2] {
    [
        ("read_skill", json!({"skill_name": "a"})),
        ("list_skills", json!({})),
    ]
}

/// Starts `times` calls of each of these tools.
fn start(
    host: &Host,
    tools: &[String],
    times: usize,
) -> Vec<tokio::task::JoinHandle<Result<Output, CallError>>> {
    let mut calls = Vec::new();
    for tool in tools {
        for _ in 0..times {
            let (host, tool) = (host.clone(), tool.clone());
            calls.push(tokio::spawn(
                async move { host.call(&tool, json!({})).await },
            ));
        }
    }
    calls
}

/// Cancels endless calls one by one, and checks that waiting calls get the free slots. At most
/// `most` run at a time.
async fn end_one_by_one(
    host: &Host,
    calls: Vec<tokio::task::JoinHandle<Result<Output, CallError>>>,
    most: usize,
) {
    let mut remaining = calls.len();
    for call in calls {
        assert!(!call.is_finished());
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        remaining -= 1;
        let expected = (remaining.min(most), remaining.saturating_sub(most));
        until("no other call runs", || {
            let now = host.occupancy();
            (now.running, now.waiting) == expected
        })
        .await;
    }
}

fn tool_names(what: &str, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{what}_{name}")).collect()
}

fn is_stopped(outcome: &Result<Output, CallError>, why: impl Fn(&Stop) -> bool) -> bool {
    matches!(outcome, Err(CallError::Stopped { stop, .. }) if why(stop))
}

/// Asserts that at least half of the times are below the bound, because other tests run beside
/// this one. A call that waited for a loop would never end.
fn assert_small(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let median = times[times.len() / 2];
    assert!(median < MAX_SMALL_TIME, "{what}: {times:?}");
}

#[test]
fn built_in_calls_are_answered_beside_looping_guests() {
    let (folders, tools) = folders();
    for (what, flooding, times) in [
        ("64 calls of one tool", &SUFFIXES[..1], 64),
        ("64 calls of eight tools", &SUFFIXES, 8),
        ("400 calls of eight tools", &SUFFIXES, 50),
    ] {
        let host = builder()
            .skills(&folders.root)
            .tools(&tools)
            .limits(limits(UNREACHED));
        let host = build(host);
        on_two_threads(async {
            for (tool, arguments) in small_calls() {
                host.call(tool, arguments).await.unwrap();
            }
            let loops = start(&host, &tool_names("compute", flooding), times);
            until("the loops do not run", || host.occupancy().running >= 16).await;
            let mut took = Vec::new();
            for _ in 0..10 {
                for (tool, arguments) in small_calls() {
                    let start = Instant::now();
                    let host = host.clone();
                    let answered =
                        tokio::spawn(async move { host.call(tool, arguments).await }).await;
                    answered.unwrap().unwrap();
                    took.push(start.elapsed());
                }
            }
            assert_small(what, took);
            assert!(host.occupancy().running >= 16);
            for call in loops {
                call.abort();
            }
        });
    }
}

#[test]
fn stdio_answers_built_in_calls_beside_looping_guests() {
    let (folders, tools) = folders();
    let program = Program::new();
    let (root, time) = (&folders.root, "limits.time = \"60m\"");
    program.write(
        "skillhost.toml",
        format!("skills = [{root:?}]\ntools = [{tools:?}]\n{time}\n"),
    );
    let mut client = mcp::Client::start(program.folder.path(), &[], "2025-11-25");
    for (tool, arguments) in small_calls() {
        client.call(tool, arguments);
    }
    for tool in tool_names("compute", &SUFFIXES) {
        for _ in 0..8 {
            client.send("tools/call", json!({"name": tool, "arguments": {}}));
        }
    }
    // The answer shows that the server has read all calls.
    client.request("ping", json!({}));
    let mut took = Vec::new();
    for _ in 0..10 {
        for (tool, arguments) in small_calls() {
            let start = Instant::now();
            let answer = client.call(tool, arguments);
            assert_eq!(answer["isError"], false, "{answer}");
            took.push(start.elapsed());
        }
    }
    assert_small("stdio", took);
}

#[test]
fn http_answers_built_in_calls_beside_looping_guests() {
    let (folders, tools) = folders();
    let builder = builder()
        .skills(&folders.root)
        .tools(&tools)
        .limits(limits(UNREACHED));
    let serving = TestServer::start(builder, HttpOptions::default());
    let mut client = Client::connect(serving.address);
    let mut ask = |id: u64, tool: &str, arguments: Value| {
        let answer = client.ask(&Request::call(id, tool, arguments));
        assert_eq!(answer.json()["result"]["isError"], false, "{answer:?}");
    };
    for (tool, arguments) in small_calls() {
        ask(1, tool, arguments);
    }
    let loops: Vec<Client> = tool_names("compute", &SUFFIXES)
        .iter()
        .flat_map(|tool| [tool; 8])
        .map(|tool| {
            let mut client = Client::connect(serving.address);
            client.send(&Request::call(1, tool, json!({})).bytes());
            client
        })
        .collect();
    wait_until("the loops do not run", || {
        serving.host.occupancy().running >= 16
    });
    let mut took = Vec::new();
    for number in 0..10 {
        for (tool, arguments) in small_calls() {
            let start = Instant::now();
            ask(number, tool, arguments);
            took.push(start.elapsed());
        }
    }
    assert_small("http", took);
    drop(loops);
}

#[test]
fn flood_of_one_tool_spares_other_tools() {
    let (folders, tools) = folders();
    let load = changed_load(|load| (load.calls, load.queue) = (8, 16));
    let host = builder_with_guests()
        .skills(&folders.root)
        .tools(&tools)
        .limits(limits(UNREACHED))
        .load(load);
    let host = build(host);
    on_two_threads(async {
        let mut flood = start(&host, &tool_names("compute", &SUFFIXES[..1]), 100);
        // A quarter of the slots and of the queue: 2 calls run and 4 wait.
        until("not all others are refused", || {
            flood.iter().filter(|call| call.is_finished()).count() == 94
        })
        .await;
        let now = host.occupancy();
        assert_eq!((now.running, now.waiting), (2, 4));
        // A call that waited for another one would wait forever.
        let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
        for tool in ["count_lines", "raw_read"] {
            let answer = host.call(tool, arguments.clone()).await;
            assert!(answer.is_ok(), "{answer:?}");
        }
        for refused in flood.extract_if(.., |call| call.is_finished()) {
            let outcome = refused.await.unwrap();
            assert!(
                is_stopped(&outcome, |stop| *stop == Stop::Busy),
                "{outcome:?}"
            );
        }
        end_one_by_one(&host, flood, 2).await;
    });
}

#[test]
fn calls_per_tool_limits_one_tool() {
    let text = "calls = 8\ncalls_per_tool = 5\n";
    let config = skillhost::Config::parse(text, "skillhost.toml", Path::new("/")).unwrap();
    let (folders, tools) = folders();
    let host = builder()
        .skills(&folders.root)
        .tools(tools)
        .limits(limits(UNREACHED))
        .load(config.load);
    let host = build(host);
    on_two_threads(async {
        let flood = start(&host, &tool_names("compute", &SUFFIXES[..1]), 8);
        until("not five calls run while three wait", || {
            let now = host.occupancy();
            (now.running, now.waiting) == (5, 3)
        })
        .await;
        end_one_by_one(&host, flood, 5).await;
    });
}

#[test]
fn components_with_many_memories_run_under_lowest_limits() {
    let (folders, tools) = folders();
    for (calls, per_tool) in [
        (0, None),
        (1, None),
        (2, None),
        (3, Some(1)),
        (4, None),
        (64, Some(1)),
    ] {
        let load = changed_load(|load| (load.calls, load.calls_per_tool) = (calls, per_tool));
        let host = build(builder().skills(&folders.root).tools(&tools).load(load));
        on_two_threads(async {
            for outcome in start(&host, &["heavy".to_owned()], 10) {
                assert_eq!(outcome.await.unwrap().unwrap().text(), "7", "{calls}");
            }
            for (tool, arguments) in small_calls() {
                assert!(host.call(tool, arguments).await.is_ok(), "{calls}");
            }
        });
    }
}

/// Returns a builder that gives `mib` MiB to all calls together, and at most that to each call.
fn builder_with_mib(folders: &Folders, tools: &PathBuf, mib: usize, time: Duration) -> HostBuilder {
    let mut limits = limits(time);
    limits.memory = limits.memory.min(mib << 20);
    builder()
        .skills(&folders.root)
        .tools(tools)
        .limits(limits)
        .load(changed_load(|load| load.calls_memory = Some(mib << 20)))
}

/// Waits until the total memory of the calls is at least `least` and stops growing. Returns it.
async fn settled_memory(host: &Host, least: usize) -> usize {
    let (mut memory, mut checks) = (0, 0);
    until("the calls do not take all memory", || {
        let now = host.occupancy().memory;
        checks = if now == memory { checks + 1 } else { 0 };
        memory = now;
        memory >= least && checks == 100
    })
    .await;
    memory
}

#[test]
fn call_that_exceeds_calls_memory_names_key() {
    let (folders, tools) = folders();
    let host = build(builder_with_mib(
        &folders,
        &tools,
        64,
        Duration::from_secs(10),
    ));
    let outcome = call(&host, "give_up", json!({}));
    assert!(
        is_stopped(&outcome, |stop| *stop == Stop::HostMemory),
        "{outcome:?}"
    );
    let error = outcome.unwrap_err();
    assert_eq!(
        error.model_text(),
        "ERROR: the tool 'give_up' was stopped: the host is short of memory, try again"
    );
    let operator = error.operator_text();
    assert!(
        operator.ends_with("; to change this, set `calls_memory` in skillhost.toml"),
        "{operator}"
    );
    // The call has returned its memory.
    assert_eq!(host.occupancy().memory, 0);
    // If there is enough, the call reaches its own limit.
    let host = build(builder_with_mib(
        &folders,
        &tools,
        128,
        Duration::from_secs(10),
    ));
    let outcome = call(&host, "give_up", json!({}));
    assert!(
        is_stopped(&outcome, |stop| matches!(stop, Stop::Memory(_))),
        "{outcome:?}"
    );
}

#[test]
fn third_party_memory_spares_built_in_calls() {
    if !runs_in_own_process() {
        run_in_own_process("quotas::third_party_memory_spares_built_in_calls", "alone");
        return;
    }
    const MIB: usize = 256;
    let (folders, tools) = folders();
    let host = build(builder_with_mib(&folders, &tools, MIB, UNREACHED));
    on_two_threads(async {
        for (tool, arguments) in small_calls() {
            host.call(tool, arguments).await.unwrap();
        }
        let before = resident();
        let ended = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&ended);
        let watch = thread::spawn(move || {
            let mut most = 0;
            while !has_ended.load(Ordering::Relaxed) {
                most = most.max(resident());
                thread::sleep(Duration::from_millis(2));
            }
            most
        });
        let hogs = start(&host, &tool_names("take", &SUFFIXES), 8);
        // The calls take all memory except the built-in tools' share. Each call may be one piece
        // short.
        let all = settled_memory(&host, (MIB << 20) * 5 / 8).await;
        assert!(all <= MIB << 20, "{all}");
        for (tool, arguments) in small_calls() {
            let answer = host.call(tool, arguments).await;
            assert!(answer.is_ok(), "{answer:?}");
        }
        for call in hogs {
            call.abort();
            let _ = call.await;
        }
        ended.store(true, Ordering::Relaxed);
        let most = watch.join().unwrap() - before;
        // Includes a quarter more, which the host may keep between calls.
        assert!(most <= (MIB << 20) * 5 / 4 + (16 << 20), "{most}");
        assert_eq!(host.occupancy().memory, 0);
    });
}

#[test]
fn limits_memory_of_one_tool() {
    let (folders, tools) = folders();
    const MIB: usize = 256;
    let mut small = limits(UNREACHED);
    small.memory = 16 << 20;
    let host = builder_with_mib(&folders, &tools, MIB, UNREACHED).limits(small);
    let host = build(host);
    on_two_threads(async {
        let hogs = start(&host, &tool_names("take", &SUFFIXES[..1]), 16);
        let memory = settled_memory(&host, MIB << 17).await;
        assert!(memory <= MIB << 18, "{memory}");
        let outcome = host.call("give_up", json!({})).await;
        let own_limit = |stop: &Stop| *stop == Stop::Memory(16 << 20);
        assert!(is_stopped(&outcome, own_limit), "{outcome:?}");
        for call in hogs {
            call.abort();
        }
    });
}

#[test]
fn refuses_memory_limit_above_calls_memory() {
    for (key, value, refused) in [
        ("limits.memory", "65MiB", true),
        ("limits.memory", "64MiB", false),
        ("grants.get_skill.limits.memory", "65MiB", true),
        ("grants.get_skill.limits.memory", "64MiB", false),
    ] {
        let program = Program::new();
        program.write("skills/a/SKILL.md", "# A\n");
        let text = format!("calls_memory = \"64MiB\"\n{key} = \"{value}\"\n");
        program.write("skillhost.toml", text);
        for arguments in [
            &["tools"][..],
            &["call", "get_skill", "{\"skill_name\":\"a\"}"],
        ] {
            let run = program.run(arguments);
            let about = format!("{key} {value}: {run:?}");
            assert_eq!(run.code, if refused { 4 } else { 0 }, "{about}");
            let both = [key, "calls_memory"].map(|key| format!("`{key}`"));
            let named = both.iter().all(|key| run.stderr.contains(key));
            assert_eq!(named, refused, "{about}");
        }
    }
    // Far more memory than the machine has.
    let mut much = Limits::default();
    much.memory = usize::MAX / 2;
    let grant = Grant::new().limits(much);
    let error = crate::support::block_on(builder().grant("get_skill", grant).build());
    let error = error.err().unwrap().to_string();
    assert!(error.contains("a quarter of the memory"), "{error}");
}

/// A program tool that counts its calls. Each call waits until the test ends it.
struct WaitingTool {
    definition: Definition,
    calls: AtomicUsize,
    end: Mutex<mpsc::Receiver<()>>,
}

impl ProgramTool for WaitingTool {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, _: &Caller, _: &Map<String, Value>) -> Result<String, Failure> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let ended = self.end.lock().unwrap().recv_timeout(patience());
        Ok(format!("{ended:?}"))
    }
}

#[test]
fn calls_of_program_tools_wait_for_slots() {
    let (end, waiting) = mpsc::channel();
    let schema = json!({"type": "object"}).as_object().cloned().unwrap();
    let tool = Arc::new(WaitingTool {
        definition: Definition::new("wait", "Wait", "Waits.", schema),
        calls: AtomicUsize::new(0),
        end: Mutex::new(waiting),
    });
    let load = changed_load(|load| {
        (load.calls, load.queue, load.calls_per_tool) = (4, 8, Some(2));
    });
    let host = build(builder().load(load).program_tool(tool.clone()));
    on_two_threads(async {
        let call = || {
            let host = host.clone();
            tokio::spawn(async move { host.call("wait", json!({})).await })
        };
        let calls: Vec<_> = (0..20).map(|_| call()).collect();
        // Half of the slots and of the queue: 2 calls run and 4 wait.
        until("no call was refused", || {
            let ended = calls.iter().filter(|call| call.is_finished());
            ended.count() == 14 && tool.calls.load(Ordering::SeqCst) == 2
        })
        .await;
        drop(end);
        let mut answered = 0;
        for call in calls {
            match call.await.unwrap() {
                Ok(_) => answered += 1,
                refused => assert!(is_stopped(&refused, |stop| matches!(stop, Stop::Busy))),
            }
        }
        assert_eq!(answered, 6);
    });
}
