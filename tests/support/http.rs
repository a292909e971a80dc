//! A server over HTTP in this process, and a client that says exactly what a
//! test wants said.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skillhost::{Host, HostBuilder};
use skillhost_mcp::http::{self, Metrics, Options, Shutdown};
use skillhost_mcp::{Live, Server};
use tokio::net::TcpSocket;

/// How long a test waits for an answer before it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that runs. It ends when this is dropped.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    pub(crate) host: Host,
    pub(crate) shutdown: Shutdown,
    thread: Option<JoinHandle<usize>>,
}

impl Serving {
    /// Serves a host at a port of loopback. The host has no problems.
    pub(crate) fn start(builder: HostBuilder, options: Options) -> Self {
        let (told, hears) = std::sync::mpsc::channel();
        let shutdown = Shutdown::default();
        let asked = shutdown.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let metrics = Arc::<Metrics>::default();
                let live = Arc::new(Live::new(builder.observer(metrics.clone())));
                let _watching = live.watch().unwrap();
                let host = live.load().await.unwrap();
                assert_eq!(host.problems(), [] as [String; 0]);
                let address = SocketAddr::from(([127, 0, 0, 1], 0));
                let server = http::Server::bind(address, options).await.unwrap();
                told.send((server.address(), host)).unwrap();
                let (occupied, ending, end) = (live.clone(), live.clone(), asked.clone());
                tokio::spawn(async move {
                    end.asked().await;
                    ending.close();
                });
                let server = server
                    .changes(live.changes())
                    .occupancy(move || occupied.loaded().map(|host| host.occupancy()))
                    .metrics(metrics);
                let handler = move || Ok(Server::new(live.clone()));
                server.serve(handler, &asked).await
            })
        });
        let (address, host) = hears.recv().unwrap();
        Self {
            address,
            host,
            shutdown,
            thread: Some(thread),
        }
    }

    /// Waits for the end. The answer is how many connections were broken off.
    pub(crate) fn wait(mut self) -> usize {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Asked twice, it waits for nobody.
        self.shutdown.ask();
        self.shutdown.ask();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking());
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

    /// What the model reads of the call that this answers.
    pub(crate) fn text(&self) -> String {
        let json = self.json();
        let text = json["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// A request, with what every proper one has.
#[derive(Clone)]
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

    /// A call as clients of before 2026-07-28 make it, after their handshake.
    pub(crate) fn call(id: u64, tool: &str, arguments: Value) -> Self {
        let params = json!({"name": tool, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        Self::post(body.to_string()).with("MCP-Protocol-Version", "2025-11-25")
    }

    /// The same in the revision 2026-07-28: everything is in the one request.
    pub(crate) fn call_2026(id: u64, tool: &str, arguments: Value) -> Self {
        let mut params = json!({"name": tool, "arguments": arguments});
        params["_meta"] = meta();
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        Self::post(body.to_string())
            .with("MCP-Protocol-Version", "2026-07-28")
            .with("Mcp-Method", "tools/call")
            .with("Mcp-Name", tool)
    }

    /// With this header in place of one of that name.
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

/// What a request of the revision 2026-07-28 says of itself.
pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// A connection from an address of this machine.
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

    /// One request on a connection of its own.
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

    /// Like [`Client::send`], to a server that may have closed already.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next answer. An error if the connection ends before it does.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let head = self.until(b"\r\n\r\n")?;
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        let mut answer = Answer {
            status: status.parse().unwrap(),
            headers: headers.collect(),
            body: String::new(),
        };
        let mut body = Vec::new();
        if answer.header("transfer-encoding") == Some("chunked") {
            let start = Instant::now();
            while let Some(chunk) = self.chunk()? {
                // A stream without end is no answer.
                if start.elapsed() > PATIENCE {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                body.extend(chunk);
            }
        } else if let Some(length) = answer.header("content-length") {
            body = self.exactly(length.parse().unwrap())?;
        }
        answer.body = String::from_utf8(body).unwrap();
        Ok(answer)
    }

    /// The next chunk of a body that is sent in chunks.
    pub(crate) fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.until(b"\r\n")?;
        let line = String::from_utf8(line).unwrap();
        let length = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut chunk = self.exactly(length + 2)?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    /// The head of the next answer, as it stands.
    pub(crate) fn head(&mut self) -> io::Result<String> {
        Ok(String::from_utf8(self.until(b"\r\n\r\n")?).unwrap())
    }

    /// What follows a head, of this length at least, up to the first pause.
    pub(crate) fn rest(&mut self, length: usize) -> Vec<u8> {
        let mut rest = self.exactly(length).unwrap();
        let pause = Some(Duration::from_millis(200));
        self.stream.set_read_timeout(pause).unwrap();
        while self.read().is_ok_and(|count| count > 0) {}
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        rest.append(&mut self.unread);
        rest
    }

    /// Whether the connection goes on, and nothing more was said.
    pub(crate) fn is_open(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let read = self.read();
        self.stream.set_nonblocking(false).unwrap();
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether the server closes the connection, and says nothing more.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.read(), Ok(0) | Err(_)) && self.unread.is_empty()
    }

    fn until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            let found = self
                .unread
                .windows(end.len())
                .position(|bytes| bytes == end);
            if let Some(at) = found {
                return self.exactly(at + end.len());
            }
            if self.read()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
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
