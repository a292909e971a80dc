//! A client of an MCP server that runs in this process. They exchange lines over pipes.

use std::io::{BufRead as _, BufReader, PipeWriter, Write as _, pipe};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};
use skillhost::HostBuilder;
use skillhost_mcp::stdio::{self, StdioLimits};
use skillhost_mcp::{FolderWatch, Handler, LiveHost};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::http::meta;
use super::watchdog::{patience, watch};

/// A client and its server.
pub(crate) struct Session {
    _watching: Option<FolderWatch>,
    _runtime: Runtime,
    input: PipeWriter,
    lines: Receiver<String>,
    id: u64,
    /// The `_meta` of each request, if the revision needs it.
    meta: Option<Value>,
}

impl Session {
    /// Opens a session of the revision 2026-07-28.
    pub(crate) fn open(builder: HostBuilder) -> Self {
        Self::serve(builder, StdioLimits::default(), true)
    }

    /// Opens a session with a server that limits messages to `max_bytes` bytes.
    pub(crate) fn open_with_message_limit(builder: HostBuilder, max_bytes: usize) -> Self {
        let mut limits = StdioLimits::default();
        limits.message = max_bytes;
        Self::serve(builder, limits, true)
    }

    /// Opens a session with a server that still loads its components, and that watches folders.
    pub(crate) fn open_while_loading(builder: HostBuilder) -> Self {
        Self::serve(builder, StdioLimits::default(), false)
    }

    fn serve(builder: HostBuilder, limits: StdioLimits, loads_first: bool) -> Self {
        watch();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let live = Arc::new(LiveHost::new(builder));
        let mut watching = None;
        if loads_first {
            runtime.block_on(live.load()).unwrap();
        } else {
            let _entered = runtime.enter();
            watching = Some(live.watch().unwrap());
            let live = Arc::clone(&live);
            runtime.spawn(async move { live.load().await });
        }
        let (server_input, input) = pipe().unwrap();
        let (output, server_output) = pipe().unwrap();
        let end = CancellationToken::new();
        runtime.spawn(stdio::serve(
            Handler::new(live),
            limits,
            server_input,
            server_output,
            end,
        ));
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let _ = send.send(line.unwrap());
            }
        });
        Self {
            _watching: watching,
            _runtime: runtime,
            input,
            lines,
            id: 0,
            meta: Some(meta()),
        }
    }

    /// Opens a session of an earlier revision, with its handshake.
    pub(crate) fn open_revision(revision: &str, builder: HostBuilder) -> Self {
        let mut session = Self::open(builder);
        session.meta = None;
        let hello = json!({
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = session.ask("initialize", hello).unwrap();
        assert_eq!(answer["protocolVersion"], revision);
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    /// Sends a request. Returns its result or its error.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.begin(method, params);
        loop {
            let mut message = self.next();
            if message["id"] == id {
                return match message.get_mut("error") {
                    Some(error) => Err(error.take()),
                    None => Ok(message["result"].take()),
                };
            }
        }
    }

    /// Sends a request. Returns its id.
    pub(crate) fn begin(&mut self, method: &str, mut params: Value) -> u64 {
        self.id += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        let id = self.id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Waits for the server's next message.
    pub(crate) fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(patience());
        let line = line.unwrap_or_else(|error| panic!("no message: {error}"));
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request that fails. Returns the code and message of its error.
    pub(crate) fn error(&mut self, method: &str, params: Value) -> (i64, String) {
        let error = self.ask(method, params.clone());
        let error = error.expect_err(&format!("{method} {params}"));
        let message = error["message"].as_str().unwrap().to_owned();
        (error["code"].as_i64().unwrap(), message)
    }

    /// Requests all pages of a list. Returns the entries that they have under `key`, and each
    /// page's number of entries.
    pub(crate) fn list_all(
        &mut self,
        method: &str,
        params: Value,
        key: &str,
    ) -> (Vec<Value>, Vec<usize>) {
        let (mut entries, mut pages) = (Vec::new(), Vec::new());
        let mut params = params;
        loop {
            let mut page = self.ask(method, params.clone()).unwrap();
            let Value::Array(more) = page[key].take() else {
                panic!("{page}");
            };
            pages.push(more.len());
            entries.extend(more);
            match page.get("nextCursor") {
                Some(cursor) => params["cursor"] = cursor.clone(),
                None => return (entries, pages),
            }
            assert!(pages.len() < 1000, "no end of pages");
        }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }
}
