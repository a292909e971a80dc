//! A client of the MCP server that speaks to it in this process, line by line,
//! and takes nothing of what it says for granted.

use std::io::{BufRead as _, BufReader, Lines, PipeReader, PipeWriter, Write as _, pipe};
use std::sync::Arc;

use serde_json::{Value, json};
use skillhost::HostBuilder;
use skillhost_mcp::{Live, Server, stdio};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::http::meta;

/// A client, and the server that answers it.
pub(crate) struct Session {
    _runtime: Runtime,
    input: PipeWriter,
    output: Lines<BufReader<PipeReader>>,
    id: u64,
    /// What each request says of itself, where it does.
    meta: Option<Value>,
}

impl Session {
    /// One whose requests are of the revision 2026-07-28.
    pub(crate) fn open(builder: HostBuilder) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let live = Arc::new(Live::new(builder));
        runtime.block_on(live.load()).unwrap();
        let (server_input, input) = pipe().unwrap();
        let (output, server_output) = pipe().unwrap();
        let end = CancellationToken::new();
        runtime.spawn(stdio::serve(
            Server::new(live),
            server_input,
            server_output,
            end,
        ));
        Self {
            _runtime: runtime,
            input,
            output: BufReader::new(output).lines(),
            id: 0,
            meta: Some(meta()),
        }
    }

    /// One of an earlier revision, with its handshake done.
    pub(crate) fn of_revision(revision: &str, builder: HostBuilder) -> Self {
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

    /// One request: its result, or its error.
    pub(crate) fn ask(&mut self, method: &str, mut params: Value) -> Result<Value, Value> {
        self.id += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        let id = self.id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let line = self.output.next().unwrap().unwrap();
            let mut message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return match message.get_mut("error") {
                    Some(error) => Err(error.take()),
                    None => Ok(message["result"].take()),
                };
            }
        }
    }

    /// The code and the message of the error that a request ends in.
    pub(crate) fn error(&mut self, method: &str, params: Value) -> (i64, String) {
        let error = self.ask(method, params.clone());
        let error = error.expect_err(&format!("{method} {params}"));
        let message = error["message"].as_str().unwrap().to_owned();
        (error["code"].as_i64().unwrap(), message)
    }

    /// All entries of a listing under this key, and how many a page had.
    pub(crate) fn all(
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
