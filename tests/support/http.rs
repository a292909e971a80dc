//! A server over HTTP in this process, and a client that sends exactly the bytes that a test
//! chooses.

use std::io::{self, Read as _, Write as _};
use std::net::{self, IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skillhost::{Host, HostBuilder};
use skillhost_mcp::{Handler, LiveHost};
use skillhost_server::{self as http, HttpOptions, Metrics, Shutdown};
use tokio::net::TcpSocket;

use super::watchdog::{self, join};

/// The maximum time that a test waits for an answer. It is shorter than a server's default time
/// limits, so no such limit can end the wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server, which ends on drop.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) host: Host,
    pub(crate) shutdown: Shutdown,
    thread: Option<JoinHandle<usize>>,
}

impl TestServer {
    /// Serves a host on a loopback port. The host must have no problems.
    pub(crate) fn start(builder: HostBuilder, options: HttpOptions) -> Self {
        watchdog::watch();
        let (report, started) = std::sync::mpsc::channel();
        let shutdown = Shutdown::default();
        let server_shutdown = shutdown.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let metrics = Arc::<Metrics>::default();
                let live = Arc::new(LiveHost::new(builder.observer(metrics.clone())));
                let _watching = live.watch().unwrap();
                let host = live.load().await.unwrap();
                assert_eq!(host.problems(), [] as [String; 0]);
                let address = SocketAddr::from(([127, 0, 0, 1], 0));
                let server = http::Server::bind(address, options).await.unwrap();
                report.send((server.address().unwrap(), host)).unwrap();
                let (measured, closing) = (live.clone(), live.clone());
                let shutdown = server_shutdown.clone();
                tokio::spawn(async move {
                    shutdown.requested().await;
                    closing.close();
                });
                let server = server
                    .changes(live.changes())
                    .occupancy(move || measured.loaded().map(|host| host.occupancy()))
                    .metrics(metrics);
                let handler = move || Ok(Handler::new(live.clone()));
                server.serve(handler, &server_shutdown).await
            })
        });
        let started = started.recv_timeout(watchdog::patience());
        let (address, host) = started.expect("the server started");
        Self {
            address,
            host,
            shutdown,
            thread: Some(thread),
        }
    }

    /// Waits until the server has ended. Returns the number of aborted connections.
    pub(crate) fn wait(mut self) -> usize {
        join(self.thread.take().unwrap(), "the server's end").unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // A second request makes the server end without waiting for its connections.
        self.shutdown.request();
        self.shutdown.request();
        if let Some(thread) = self.thread.take() {
            // After a failed test, the server may never end.
            if !thread::panicking() {
                join(thread, "the server's end").unwrap();
            }
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The names are in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(given, _)| given == name);
        found.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the text of a call's result.
    pub(crate) fn text(&self) -> String {
        let json = self.json();
        let text = json["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

/// A client with one connection.
pub(crate) struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// A request with the headers of a well-formed one.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn get(path: &str) -> Self {
        Self {
            line: format!("GET {path} HTTP/1.1"),
            headers: vec![("Host", "localhost".into())],
            body: Vec::new(),
        }
    }

    pub(crate) fn post(body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self {
            line: "POST /mcp HTTP/1.1".into(),
            headers: vec![
                ("Host", "localhost".into()),
                ("Content-Type", "application/json".into()),
                ("Accept", "application/json, text/event-stream".into()),
                ("Content-Length", body.len().to_string()),
            ],
            body,
        }
    }

    /// Returns a call in the form of revisions before 2026-07-28.
    pub(crate) fn call(id: u64, tool: &str, arguments: Value) -> Self {
        let params = json!({"name": tool, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        Self::post(body.to_string()).with("MCP-Protocol-Version", "2025-11-25")
    }

    /// Returns a call in the revision 2026-07-28, complete in one request.
    pub(crate) fn call_2026(id: u64, tool: &str, arguments: Value) -> Self {
        let mut params = json!({"name": tool, "arguments": arguments});
        params["_meta"] = meta();
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        Self::post(body.to_string())
            .with("MCP-Protocol-Version", "2026-07-28")
            .with("Mcp-Method", "tools/call")
            .with("Mcp-Name", tool)
    }

    /// Sets a header.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(given, _)| *given != name);
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(given, _)| *given != name);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{}\r\n", self.line).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend(format!("{name}: {value}\r\n").bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(&self.body);
        bytes
    }
}

/// Returns the `_meta` of a request of the revision 2026-07-28.
pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Returns parameters of subscriptions that are too large in different ways.
pub(crate) fn large_subscriptions() -> [Value; 4] {
    let params = || json!({"_meta": meta(), "notifications": {"toolsListChanged": true}});
    let [mut uris, mut uri, mut values, mut text] = [(); 4].map(|()| params());
    let address = |number| format!("skill://a/{number}");
    let addresses = (0..19_900).map(address).collect::<Value>();
    uris["notifications"]["resourceSubscriptions"] = addresses;
    uri["notifications"]["resourceSubscriptions"] = json!([address(0).repeat(10_000)]);
    values["_meta"]["x"] = (0..300).map(|_| json!({"": 0})).collect();
    text["_meta"]["x"] = "x".repeat(100_000).into();
    [uris, uri, values, text]
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    /// Makes a client over a Unix socket. A `TcpStream` reads and writes any stream socket.
    pub(crate) fn over_unix(stream: UnixStream) -> Self {
        Self::over(OwnedFd::from(stream).into())
    }

    fn over(stream: TcpStream) -> Self {
        // Fails on a Unix socket, where it does not matter.
        let _ = stream.set_nodelay(true);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// Connects from an address of this machine.
    pub(crate) fn connect_from(from: IpAddr, address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let connected = runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((from, 0).into()).unwrap();
            socket.connect(address).await
        });
        let stream = connected.unwrap().into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        Self::over(stream)
    }

    /// Returns this client's address, as the server sees it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// Sends one request on a new connection.
    pub(crate) fn once(address: SocketAddr, request: &Request) -> Answer {
        Self::connect(address).ask(request)
    }

    pub(crate) fn ask(&mut self, request: &Request) -> Answer {
        self.send(&request.bytes());
        self.answer().unwrap()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends bytes to a server that may have closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Closes only the sending side.
    pub(crate) fn close_sending(&self) {
        self.stream.shutdown(net::Shutdown::Write).unwrap();
    }

    /// Reads the next answer. Returns an error if the connection ends first.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let mut answer = self.answer_head()?;
        answer.body = self.body(&answer)?;
        Ok(answer)
    }

    /// Reads the next answer without its body.
    pub(crate) fn answer_head(&mut self) -> io::Result<Answer> {
        let head = self.head()?;
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        Ok(Answer {
            status: status.parse().unwrap(),
            headers: headers.collect(),
            body: String::new(),
        })
    }

    /// Reads the body of an answer.
    pub(crate) fn body(&mut self, answer: &Answer) -> io::Result<String> {
        let mut body = Vec::new();
        if answer.header("transfer-encoding") == Some("chunked") {
            let start = Instant::now();
            while let Some(chunk) = self.chunk()? {
                // An endless stream is not an answer.
                if start.elapsed() > PATIENCE {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                body.extend(chunk);
            }
        } else if let Some(length) = answer.header("content-length") {
            body = self.read_exactly(length.parse().unwrap())?;
        }
        Ok(String::from_utf8(body).unwrap())
    }

    /// Reads the next chunk of a chunked body.
    pub(crate) fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.read_until(b"\r\n")?;
        let line = String::from_utf8(line).unwrap();
        let length = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut chunk = self.read_exactly(length + 2)?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    /// Reads the head of the next answer.
    pub(crate) fn head(&mut self) -> io::Result<String> {
        Ok(String::from_utf8(self.read_until(b"\r\n\r\n")?).unwrap())
    }

    /// Returns whether the connection is open and nothing more was sent.
    pub(crate) fn is_open(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let read = self.read();
        self.stream.set_nonblocking(false).unwrap();
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits for the end of the connection. Returns whether the server closes it and sends
    /// nothing more.
    pub(crate) fn is_closed(&mut self) -> bool {
        let is_closed = match self.read() {
            Ok(count) => count == 0,
            Err(error) => !is_timeout(&error),
        };
        is_closed && self.unread.is_empty()
    }

    /// Waits for the end of a stream. Chunks may come before it.
    #[track_caller]
    pub(crate) fn wait_until_end(&mut self) {
        watchdog::wait_until("the stream is open", || match self.chunk() {
            Ok(chunk) => chunk.is_none(),
            Err(error) => !is_timeout(&error),
        });
    }

    fn read_until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            let found = self
                .unread
                .windows(end.len())
                .position(|bytes| bytes == end);
            if let Some(at) = found {
                return self.read_exactly(at + end.len());
            }
            if self.read()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn read_exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < length {
            if self.read()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let rest = self.unread.split_off(length);
        Ok(std::mem::replace(&mut self.unread, rest))
    }

    fn read(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 16 << 10];
        let count = self.stream.read(&mut bytes)?;
        self.unread.extend(&bytes[..count]);
        Ok(count)
    }
}

/// Returns whether a read timed out.
fn is_timeout(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
    kinds.contains(&error.kind())
}
