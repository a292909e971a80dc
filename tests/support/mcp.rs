//! A client of `skillhost serve` that sends and reads raw lines of JSON-RPC, because an SDK would
//! hide what tests check.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use rustix::process::Pid;
use serde_json::{Value, json};

use super::process::Process;
use super::watchdog::{patience, wait_until};

/// The protocol revision without sessions.
pub(crate) const NEWEST: &str = "2026-07-28";
/// Two protocol revisions with sessions, and the newest one.
pub(crate) const REVISIONS: [&str; 3] = ["2025-06-18", "2025-11-25", NEWEST];

/// Returns the options that name the configuration of a folder, if the folder has one.
fn configured(folder: &Path) -> &'static [&'static str] {
    if folder.join("skillhost.toml").exists() {
        &["--config", "skillhost.toml"]
    } else {
        &[]
    }
}

/// Returns the complete input of a client that calls these tools.
pub(crate) fn session(calls: &[(&str, Value)]) -> String {
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let mut lines = vec![
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    lines.extend(calls.iter().zip(1..).map(|((name, arguments), id)| {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    }));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Returns a command that runs the server in a folder, with pipes for input and output.
pub(crate) fn server(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skillhost"));
    command
        .env_clear()
        .env("SKILLHOST_CACHE", super::cache())
        .arg("serve")
        .args(configured(folder))
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// A client and the server that it started.
pub(crate) struct Client {
    child: Process,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Arc<Mutex<String>>,
    /// True once the client has hung up: its thread closes the output at the next line.
    hung_up: Arc<AtomicBool>,
    /// Messages that arrived during a wait for another one.
    unclaimed: VecDeque<Value>,
    revision: &'static str,
    /// The capabilities that the client declares.
    capabilities: Value,
    next_id: u64,
}

impl Client {
    /// Starts the server in a folder, and opens a session if the revision has sessions.
    pub(crate) fn start(folder: &Path, arguments: &[&str], revision: &'static str) -> Self {
        let mut client = Self::start_unopened(folder, arguments, revision);
        client.open();
        client
    }

    /// Starts the server like [`Client::start`], and declares these capabilities.
    pub(crate) fn start_with(
        folder: &Path,
        arguments: &[&str],
        revision: &'static str,
        capabilities: Value,
    ) -> Self {
        let mut client = Self::start_unopened(folder, arguments, revision);
        client.capabilities = capabilities;
        client.open();
        client
    }

    /// Starts a server by a command, and opens a session if the revision has sessions.
    pub(crate) fn start_session(command: Command, revision: &'static str) -> Self {
        let mut client = Self::start_command(command, revision);
        client.open();
        client
    }

    /// Starts the server in a folder with these arguments, and sends nothing.
    pub(crate) fn start_unopened(
        folder: &Path,
        arguments: &[&str],
        revision: &'static str,
    ) -> Self {
        let mut command = server(folder);
        command.args(arguments);
        Self::start_command(command, revision)
    }

    /// Starts a server by a command, and sends nothing.
    pub(crate) fn start_command(mut command: Command, revision: &'static str) -> Self {
        command.stderr(Stdio::piped());
        let mut child = Process::start(&mut command);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        let hung_up = Arc::new(AtomicBool::new(false));
        let gone = Arc::clone(&hung_up);
        thread::spawn(move || {
            for line in stdout.lines() {
                if gone.load(Ordering::SeqCst) {
                    return;
                }
                let _ = send.send(line.unwrap());
            }
        });
        let stderr = child.collect_stderr();
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
            stderr,
            hung_up,
            unclaimed: VecDeque::new(),
            revision,
            capabilities: json!({}),
            next_id: 1,
        }
    }

    fn open(&mut self) {
        if self.revision == NEWEST {
            return;
        }
        let initialized = self.request(
            "initialize",
            json!({
                "protocolVersion": self.revision,
                "capabilities": self.capabilities,
                "clientInfo": {"name": "test", "version": "1"},
            }),
        );
        assert_eq!(initialized["result"]["protocolVersion"], self.revision);
        self.notify("notifications/initialized", json!({}));
    }

    /// Sends a line as it is.
    pub(crate) fn send_line(&mut self, line: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        stdin.write_all(line.as_ref()).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a part of a line.
    pub(crate) fn send_part(&mut self, part: &str) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        stdin.write_all(part.as_bytes()).unwrap();
    }

    /// Closes the server's input and output, as the kernel does when a client is killed.
    pub(crate) fn hang_up(&mut self) {
        drop(self.stdin.take());
        self.hung_up.store(true, Ordering::SeqCst);
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let request = self.request_line(&json!(id), method, params);
        self.send_line(request);
        id
    }

    /// Returns the line of a request, with the `_meta` that the revision needs.
    pub(crate) fn request_line(&self, id: &Value, method: &str, mut params: Value) -> String {
        if self.revision == NEWEST {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = NEWEST.into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                self.capabilities.clone();
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send_line(json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Waits until all components are loaded, by a call of an unknown tool.
    pub(crate) fn wait_for_components(&mut self) {
        let none = json!({"name": "none", "arguments": {}});
        let answer = self.request("tools/call", none);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        // Drops the notification about components that loaded after the session began.
        let late = "notifications/tools/list_changed";
        self.unclaimed.retain(|message| message["method"] != late);
    }

    /// Calls a tool and waits for its result.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = self.request("tools/call", params);
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Starts this number of endless calls of a tool, and waits for the progress of each.
    pub(crate) fn start_calls(&mut self, tool: &str, arguments: &Value, count: usize) -> Vec<u64> {
        let mut params = json!({"name": tool, "arguments": arguments});
        let mut send = |_| {
            params["_meta"]["progressToken"] = self.next_id.into();
            self.send("tools/call", params.clone())
        };
        let calls: Vec<u64> = (0..count).map(&mut send).collect();
        for id in &calls {
            self.find(|message| message["params"]["progressToken"] == *id);
        }
        calls
    }

    /// Waits for the answer to a request. Other messages stay in `unclaimed`.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.find(|message| message["id"] == id)
    }

    /// Returns the next notification or request of the server with this method. Waits if none has
    /// arrived.
    pub(crate) fn message_with_method(&mut self, method: &str) -> Value {
        self.find(|message| message["method"] == method)
    }

    /// Waits for the next message of any kind, except reports of progress.
    pub(crate) fn message(&mut self) -> Value {
        self.find(|message| message["method"] != "notifications/progress")
    }

    /// Returns the number of messages with this method that have arrived and that no function has
    /// returned yet.
    pub(crate) fn unclaimed_count(&mut self, method: &str) -> usize {
        self.receive();
        let has_method = |message: &&Value| message["method"] == method;
        self.unclaimed.iter().filter(has_method).count()
    }

    /// Stores the messages that have arrived.
    fn receive(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            self.unclaimed.push_back(parse_message(&line));
        }
    }

    fn find(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.unclaimed.iter().position(&wanted) {
            return self.unclaimed.remove(index).unwrap();
        }
        let end = Instant::now() + patience();
        loop {
            let remaining = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(remaining) else {
                panic!(
                    "nothing more came but {:?}; stderr: {}",
                    self.unclaimed,
                    self.stderr()
                );
            };
            let message = parse_message(&line);
            if wanted(&message) {
                return message;
            }
            self.unclaimed.push_back(message);
        }
    }

    /// Returns the log of the server.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Returns whether a request has been answered.
    pub(crate) fn has_answer(&mut self, id: u64) -> bool {
        self.receive();
        self.unclaimed.iter().any(|message| message["id"] == id)
    }

    /// Waits until the server has logged this text.
    pub(crate) fn wait_until_logged(&self, text: &str) {
        wait_until(&format!("`{text}` is not logged"), || {
            self.stderr().contains(text)
        });
    }

    /// Returns the processes that the server has started.
    pub(crate) fn children(&self) -> Vec<Pid> {
        self.child.children()
    }

    /// Returns the processes with this first argument that the server or its children have started.
    pub(crate) fn descendants(&self, argument: &str) -> Vec<Pid> {
        self.child.descendants(argument)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid
    }

    /// Closes the input and waits for the server to end. Returns its last messages and
    /// its exit code.
    pub(crate) fn end(mut self) -> (Vec<Value>, Option<i32>) {
        drop(self.stdin.take());
        let code = self.wait();
        let mut messages: Vec<Value> = self.unclaimed.drain(..).collect();
        messages.extend(self.lines.iter().map(|line| parse_message(&line)));
        (messages, code)
    }

    /// Waits for the server to end by itself.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().code()
    }
}

/// Reads a line of output, which must be a message of the protocol.
fn parse_message(line: &str) -> Value {
    let message: Value =
        serde_json::from_str(line).unwrap_or_else(|_| panic!("not a message: {line}"));
    assert_eq!(message["jsonrpc"], "2.0", "{line}");
    message
}
