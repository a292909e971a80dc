//! A registry on a loopback address that keeps everything in memory. A test can replace any of its
//! answers, and so make the registry hostile.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use skillhost_skills::text::digest::sha256_hex;

/// The maximum size of a request's body, in bytes.
const MAX_BODY: u64 = 80 << 20;

/// The time between two bytes of a slow answer.
const DRIP: Duration = Duration::from_millis(20);

/// An answer that replaces the registry's own.
pub(crate) enum Answer {
    /// These bytes, as they are.
    Raw(Vec<u8>),
    /// These bytes, one at a time.
    Slow(Vec<u8>),
}

/// Returns the answer to a request's head, or `None` for the registry's own.
pub(crate) type Change = Box<dyn Fn(&str) -> Option<Answer> + Send + Sync>;

/// A running registry. Its threads end with the test's process.
pub(crate) struct TestRegistry {
    /// The host `localhost` with the port.
    pub(crate) authority: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    blobs: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Manifests with their media types, by digest and tag.
    manifests: Mutex<BTreeMap<String, (String, Vec<u8>)>>,
    heads: Mutex<Vec<String>>,
    change: Mutex<Option<Change>>,
    has_referrers_api: bool,
    /// The settings of TLS. `None` means plain HTTP.
    tls: Option<Arc<ServerConfig>>,
}

impl TestRegistry {
    /// Starts a registry without the referrers API, like Debian's.
    pub(crate) fn start() -> Self {
        Self::start_with(Shared::default())
    }

    /// Starts a registry with the referrers API.
    pub(crate) fn start_with_referrers() -> Self {
        Self::start_with(Shared {
            has_referrers_api: true,
            ..Shared::default()
        })
    }

    /// Starts a registry with TLS.
    pub(crate) fn start_with_tls(tls: ServerConfig) -> Self {
        Self::start_with(Shared {
            tls: Some(Arc::new(tls)),
            ..Shared::default()
        })
    }

    fn start_with(shared: Shared) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let authority = format!("localhost:{}", listener.local_addr().unwrap().port());
        let shared = Arc::new(shared);
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let shared = Arc::clone(&serving);
                thread::spawn(move || shared.serve(stream));
            }
        });
        Self { authority, shared }
    }

    /// Replaces answers from now on.
    pub(crate) fn replace_answers(
        &self,
        change: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static,
    ) {
        *self.shared.change.lock().unwrap() = Some(Box::new(change));
    }

    /// Stops replacing answers.
    pub(crate) fn restore_answers(&self) {
        *self.shared.change.lock().unwrap() = None;
    }

    /// Returns the heads of all requests since the last call of this function.
    pub(crate) fn take_request_heads(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.heads.lock().unwrap())
    }

    /// Writes a blob, and returns its descriptor.
    pub(crate) fn put_blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = format!("sha256:{}", sha256_hex(bytes));
        let descriptor = json!({"mediaType": media_type, "digest": digest, "size": bytes.len()});
        self.shared
            .blobs
            .lock()
            .unwrap()
            .insert(digest, bytes.to_vec());
        descriptor
    }

    /// Writes a manifest under a tag and under its digest, and returns the digest.
    pub(crate) fn put_manifest(&self, tag: &str, manifest: &Value) -> String {
        let media_type = manifest["mediaType"].as_str().unwrap();
        self.shared
            .put_manifest(tag, media_type, manifest.to_string().as_bytes())
    }

    /// Returns the manifest of a tag.
    pub(crate) fn manifest(&self, tag: &str) -> Option<Value> {
        let manifests = self.shared.manifests.lock().unwrap();
        Some(serde_json::from_slice(&manifests.get(tag)?.1).unwrap())
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        match &self.tls {
            None => self.exchange(stream),
            Some(tls) => {
                let connection = ServerConnection::new(Arc::clone(tls)).unwrap();
                self.exchange(StreamOwned::new(connection, stream));
            }
        }
    }

    fn exchange(&self, stream: impl Read + Write) {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse().unwrap())
        });
        let mut body = Vec::new();
        let length: u64 = length.unwrap_or(0);
        assert!(length <= MAX_BODY);
        let _ = (&mut reader).take(length).read_to_end(&mut body);
        self.heads.lock().unwrap().push(head.clone());
        let changed = self
            .change
            .lock()
            .unwrap()
            .as_ref()
            .and_then(|change| change(&head));
        let mut stream = reader.into_inner();
        match changed {
            Some(Answer::Slow(bytes)) => {
                for byte in bytes {
                    if stream.write_all(&[byte]).is_err() {
                        return;
                    }
                    thread::sleep(DRIP);
                }
            }
            Some(Answer::Raw(bytes)) => drop(stream.write_all(&bytes)),
            None => drop(stream.write_all(&self.answer(&head, body))),
        }
    }

    fn answer(&self, head: &str, body: Vec<u8>) -> Vec<u8> {
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (_, name) = path.rsplit_once('/').unwrap();
        let is_head = method == "HEAD";
        if path.contains("/blobs/uploads") {
            if method == "POST" {
                return answer(
                    "202 Accepted",
                    &[("location", "/v2/upload/blobs/uploads/1")],
                    b"",
                );
            }
            let digest = query.strip_prefix("digest=").unwrap().to_owned();
            assert_eq!(digest, format!("sha256:{}", sha256_hex(&body)));
            self.blobs.lock().unwrap().insert(digest, body);
            return answer("201 Created", &[], b"");
        }
        if path.contains("/blobs/") {
            return match self.blobs.lock().unwrap().get(name) {
                Some(_) if is_head => answer("200 OK", &[], b""),
                Some(blob) => answer("200 OK", &[], blob),
                None => answer("404 Not Found", &[], b""),
            };
        }
        if path.contains("/referrers/") && self.has_referrers_api {
            return answer("200 OK", &[], self.referrers(name).to_string().as_bytes());
        }
        if !path.contains("/manifests/") {
            return answer("404 Not Found", &[], b"");
        }
        if method == "PUT" {
            let media_type = header(head, "content-type");
            self.put_manifest(name, &media_type, &body);
            return answer("201 Created", &[], b"");
        }
        match self.manifests.lock().unwrap().get(name) {
            Some((media_type, bytes)) => {
                let digest = format!("sha256:{}", sha256_hex(bytes));
                let headers = [
                    ("content-type", &**media_type),
                    ("docker-content-digest", &digest),
                ];
                answer("200 OK", &headers, bytes)
            }
            None => answer("404 Not Found", &[], b""),
        }
    }

    fn put_manifest(&self, name: &str, media_type: &str, bytes: &[u8]) -> String {
        let digest = format!("sha256:{}", sha256_hex(bytes));
        let mut manifests = self.manifests.lock().unwrap();
        for name in [name, &digest] {
            manifests.insert(name.to_owned(), (media_type.to_owned(), bytes.to_vec()));
        }
        digest
    }

    fn referrers(&self, subject: &str) -> Value {
        let manifests = self.manifests.lock().unwrap();
        let about = manifests.iter().filter_map(|(name, (media_type, bytes))| {
            let manifest: Value = serde_json::from_slice(bytes).unwrap();
            let is_about = manifest["subject"]["digest"] == subject && name.contains(':');
            is_about.then(|| json!({"mediaType": media_type, "digest": name, "size": bytes.len()}))
        });
        json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": about.collect::<Vec<_>>(),
        })
    }
}

/// Returns a header of a request.
pub(crate) fn header(head: &str, name: &str) -> String {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map_or("", |(_, value)| value).to_owned()
}

/// Returns the bytes of an answer.
pub(crate) fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    [head.as_bytes(), b"connection: close\r\n\r\n", body].concat()
}
