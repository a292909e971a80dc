//! A web server on loopback, plain or with TLS, that records the requests that it receives.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::certificates::Pair;

/// The maximum size of a request, in bytes.
const MAX_REQUEST: usize = 1 << 20;

/// A running server. Its threads end with the test's process.
pub(crate) struct WebServer {
    /// The host `localhost` with the port.
    pub(crate) authority: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl WebServer {
    /// Starts a server that answers each request with these bytes.
    pub(crate) fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::start_with(None, whole(answer))
    }

    /// Starts a server that sends `start`, and then `piece` after each pause until its client
    /// leaves. Also returns a counter of the bytes that it has sent in pieces.
    pub(crate) fn start_endless(
        start: &'static str,
        piece: &'static str,
        pause: Duration,
    ) -> (Self, Arc<AtomicUsize>) {
        let sent = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&sent);
        let respond = move |_: &str, stream: &mut dyn Write| {
            stream.write_all(start.as_bytes())?;
            stream.flush()?;
            loop {
                thread::sleep(pause);
                stream.write_all(piece.as_bytes())?;
                stream.flush()?;
                count.fetch_add(piece.len(), Ordering::SeqCst);
            }
        };
        (Self::start_with(None, respond), sent)
    }

    /// Starts a server with TLS.
    pub(crate) fn start_tls(
        pair: &Pair,
        answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![certificate], key).unwrap();
        Self::start_with(Some(Arc::new(config)), whole(answer))
    }

    fn start_with(
        tls: Option<Arc<ServerConfig>>,
        respond: impl Fn(&str, &mut dyn Write) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (recorded, respond) = (Arc::clone(&requests), Arc::new(respond));
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (tls, recorded, respond) =
                    (tls.clone(), Arc::clone(&recorded), Arc::clone(&respond));
                thread::spawn(move || match tls {
                    None => exchange(stream, &recorded, &*respond),
                    Some(config) => {
                        let connection = ServerConnection::new(config).unwrap();
                        exchange(StreamOwned::new(connection, stream), &recorded, &*respond);
                    }
                });
            }
        });
        Self {
            authority: format!("localhost:{port}"),
            requests,
        }
    }

    /// Returns the requests so far: their heads and bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Reads a request, and answers it. A peer that gives up gets no answer.
fn exchange(
    mut stream: impl Read + Write,
    recorded: &Mutex<Vec<String>>,
    respond: &dyn Fn(&str, &mut dyn Write) -> io::Result<()>,
) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while bytes.len() < MAX_REQUEST && !is_whole(&bytes) {
        match stream.read(&mut piece) {
            Ok(read @ 1..) => bytes.extend_from_slice(&piece[..read]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&bytes).into_owned();
    recorded.lock().unwrap().push(request.clone());
    let _ = respond(&request, &mut stream);
    let _ = stream.flush();
}

/// Returns a function that sends the whole answer at once.
fn whole(
    answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
) -> impl Fn(&str, &mut dyn Write) -> io::Result<()> + Send + Sync + 'static {
    move |request, stream| stream.write_all(&answer(request))
}

/// Returns whether a request is complete: it has its head, and its last chunk or all bytes of its
/// stated length.
fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    if head.contains("transfer-encoding: chunked") {
        return body == "0\r\n\r\n" || body.ends_with("\r\n0\r\n\r\n");
    }
    let length = head.split_once("content-length: ");
    let length = length.and_then(|(_, rest)| rest.lines().next()?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

/// Returns a whole answer with this status and body.
pub(crate) fn answer(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}
