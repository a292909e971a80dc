//! Answers that peers do not read, and the slots and memory that such answers hold.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::program::ServerProcess;
use super::{options, serve_guests, with_limits};
use crate::support::http::{Answer, Client, Request};
use crate::support::memory::status;
use crate::support::program::Program;
use crate::support::watchdog::wait_until;

const MIB: usize = 1 << 20;

/// Returns the request of a call whose answer is larger than any socket buffer.
fn large_read(id: u64) -> Request {
    let arguments = json!({"skill_name": "a", "file_path": "large.txt"});
    Request::call(id, "read_file_in_skill", arguments)
}

fn small_read(id: u64) -> Request {
    Request::call(id, "read_skill", json!({"skill_name": "a"}))
}

/// Returns a request that reads the file of [`large_read`] as a resource.
fn resource_read(id: u64) -> Request {
    let params = json!({"uri": "skill://a/large.txt"});
    let read = json!({"jsonrpc": "2.0", "id": id, "method": "resources/read", "params": params});
    Request::post(read.to_string()).with("MCP-Protocol-Version", "2025-11-25")
}

/// Sends a request, and reads the answer without its body.
fn ask_for_head(client: &mut Client, request: &Request) -> Answer {
    client.send(&request.bytes());
    client.answer_head().unwrap()
}

fn assert_busy(answer: &Answer) {
    let found = (answer.status, answer.header("retry-after"));
    assert_eq!(found, (503, Some("1")), "{answer:?}");
    let error = &answer.json()["error"];
    assert_eq!(
        (&error["code"], &error["data"]["retryAfter"]),
        (&json!(-32029), &json!(1))
    );
}

#[test]
fn request_holds_slot_until_answer_is_read() {
    let (server, folders) = serve_guests(options(|options| {
        options.limits.requests = 2;
        // Only a trusted proxy may have both slots.
        options.trusted_proxies = vec!["127.0.0.1".into()];
    }));
    folders.write("a/large.txt", "x".repeat(8 * MIB));
    let mut readers = [(); 2].map(|()| Client::connect(server.address));
    let heads = readers
        .each_mut()
        .map(|reader| ask_for_head(reader, &large_read(1)));
    assert_eq!(heads.each_ref().map(|head| head.status), [200; 2]);
    let mut other = Client::connect(server.address);
    for _ in 0..200 {
        assert_busy(&other.ask(&small_read(2)));
    }
    // An answer that is read or dropped frees its slot.
    let [mut read, given_up] = readers;
    let rest = read.body(&heads[0]).unwrap();
    assert!(rest.ends_with('}'), "the answer is incomplete");
    wait_until("the slot is still taken", || {
        other.ask(&small_read(3)).status == 200
    });
    wait_until("the slot of a small answer is still taken", || {
        let head = ask_for_head(&mut read, &large_read(4));
        head.status == 200 || read.body(&head).is_err()
    });
    assert_busy(&other.ask(&small_read(5)));
    drop(given_up);
    wait_until("the slot is still taken", || {
        other.ask(&small_read(6)).status == 200
    });
}

#[test]
fn unread_answers_are_limited() {
    let (server, folders) = serve_guests(with_limits(|limits| limits.answers = 20 * MIB));
    folders.write("a/large.txt", "x".repeat(8 * MIB));
    let mut readers = [(); 2].map(|()| Client::connect(server.address));
    assert_eq!(ask_for_head(&mut readers[0], &large_read(1)).status, 200);
    assert_eq!(ask_for_head(&mut readers[1], &resource_read(2)).status, 200);
    let mut other = Client::connect(server.address);
    for _ in 0..3 {
        assert_busy(&other.ask(&large_read(3)));
        assert_busy(&other.ask(&resource_read(4)));
        // A small answer fits.
        assert_eq!(other.ask(&small_read(5)).text(), "# A\n");
    }
    drop(readers);
    wait_until("the memory of answers is still taken", || {
        other.ask(&large_read(6)).status == 200
    });
    assert_eq!(other.ask(&resource_read(7)).status, 200);
    // Each byte becomes six in JSON, and the limit counts the bytes of the JSON.
    folders.write("a/large.txt", "\u{1}".repeat(4 * MIB));
    assert_busy(&other.ask(&large_read(8)));
    assert_eq!(other.ask(&small_read(9)).status, 200);
}

/// The number of large answers that peers request but do not read, more than `answers` allows.
const UNREAD_ANSWERS: usize = 40;

/// The size of a large answer, in bytes.
const LARGE: usize = 4_000_000;

/// The number of peers that do not finish their requests.
const PEERS: usize = 60;

#[test]
fn unread_answers_leave_no_memory_behind() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write(
        "skills/a/large.txt",
        format!("{}\n", "x".repeat(99)).repeat(LARGE / 100),
    );
    // `calls` bounds the memory for the answers of running calls.
    program.write(
        "skillhost.toml",
        "skills = [\"skills\"]\ncalls = 8\n[http]\nanswers = \"64MiB\"\n",
    );
    let server = ServerProcess::new(&program, &["--config", "skillhost.toml"], None);
    let address = server.address;
    wait_until("the server is not ready", || {
        Client::once(address, &Request::get("/readyz")).status == 200
    });
    assert_eq!(Client::once(address, &large_read(1)).text().len(), LARGE);
    let process = server.child.pid.to_string();
    let before = status(&process, "VmRSS:");
    // A busy machine can delay a round, so a delayed round is repeated.
    let is_delayed = |(slowest, round): &(Duration, Duration)| *slowest > *round / 4;
    let mut rounds = Vec::new();
    while rounds.len() < 3 || rounds.len() < 10 && rounds.iter().all(is_delayed) {
        rounds.push(run_round(&server));
    }
    // The peak includes answers up to their limit of 64 MiB, the output of running calls, and
    // answers that become JSON.
    let peak = status(&process, "VmHWM:") - before;
    // Freed memory returns to the system after the connections end.
    let mut after = 0;
    wait_until("the memory is not freed", || {
        after = status(&process, "VmRSS:").saturating_sub(before);
        after < 32 * MIB
    });
    assert!(peak < 256 * MIB, "{} MiB", peak / MIB);
    assert!(!rounds.iter().all(is_delayed), "{rounds:?}");
}

#[test]
fn unfinished_requests_leave_no_memory() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let server = ServerProcess::new(&program, &["--skills", "skills"], None);
    let address = server.address;
    wait_until("the server is not ready", || {
        Client::once(address, &Request::get("/readyz")).status == 200
    });
    let process = server.child.pid.to_string();
    let before = status(&process, "VmRSS:");
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Accept: application/json, text/event-stream\r\nContent-Length: 2000000\r\n\r\n";
    let part = [head.as_bytes(), &vec![b' '; 1_900_000]].concat();
    let mut peers: Vec<TcpStream> = Vec::new();
    for _ in 0..PEERS {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(&part).unwrap();
        peers.push(peer);
    }
    let held = || status(&process, "VmRSS:").saturating_sub(before);
    wait_until("the server holds no bodies", || held() > PEERS * MIB);
    drop(peers);
    wait_until("the memory is not freed", || held() < 48 * MIB);
}

/// Makes all peers send a request at once, read no body and disconnect. Returns the time of the
/// slowest probe, and the time until all peers had an answer.
fn run_round(server: &ServerProcess) -> (Duration, Duration) {
    let address = server.address;
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let probe = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while !is_done.load(Ordering::Relaxed) {
                let start = Instant::now();
                let answer = Client::once(address, &Request::get("/healthz"));
                assert_eq!(answer.status, 200);
                slowest = slowest.max(start.elapsed());
                thread::sleep(Duration::from_millis(5));
            }
            slowest
        });
        let mut peers: Vec<_> = (0..UNREAD_ANSWERS)
            .map(|_| Client::connect(address))
            .collect();
        let start = Instant::now();
        for peer in &mut peers {
            peer.send(&large_read(1).bytes());
        }
        let heads = peers.iter_mut().map(|peer| peer.head().unwrap());
        let answered = heads
            .filter(|head| head.starts_with("HTTP/1.1 200 "))
            .count();
        is_done.store(true, Ordering::Relaxed);
        // 64 MiB hold this many; the others get 503.
        assert!((1..=17).contains(&answered), "{answered}");
        let round = start.elapsed();
        (probe.join().unwrap(), round)
    })
}
