//! An issuer of access tokens: keys that sign them, and an address that serves these keys.

use super::*;

pub(super) fn base64(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// A key of an issuer.
pub(super) struct SigningKey {
    pub(super) id: &'static str,
    pub(super) key: EcdsaKeyPair,
}

impl SigningKey {
    pub(super) fn new(id: &'static str) -> Self {
        let method = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(method, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(method, key.as_ref(), &random).unwrap();
        Self { id, key }
    }

    pub(super) fn public(&self) -> Value {
        let point = self.key.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "alg": "ES256",
               "x": base64(&point[1..33]), "y": base64(&point[33..])})
    }

    pub(super) fn token(&self, issuer: &str, scope: &str) -> String {
        self.token_until(issuer, scope, now() + 600)
    }

    pub(super) fn token_until(&self, issuer: &str, scope: &str, expires: u64) -> String {
        self.sign(&json!({"iss": issuer, "aud": RESOURCE, "exp": expires,
                          "sub": "ci", "scope": scope}))
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": self.id}).to_string();
        let claims = claims.to_string();
        let message = format!(
            "{}.{}",
            base64(header.as_bytes()),
            base64(claims.as_bytes())
        );
        let signature = self
            .key
            .sign(&SystemRandom::new(), message.as_bytes())
            .unwrap();
        format!("{message}.{}", base64(signature.as_ref()))
    }
}

/// Returns the time in seconds, as in a token.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}

pub(super) fn keys(keys: &[&SigningKey]) -> String {
    let keys: Vec<Value> = keys.iter().map(|key| key.public()).collect();
    json!({"keys": keys}).to_string()
}

/// The ways in which an issuer answers.
#[derive(Clone)]
pub(super) enum Reply {
    Keys(String),
    /// It sends keys once another issuer has received a request.
    KeysAfter(Arc<AtomicUsize>, String),
    /// It sends bytes without end.
    Endless,
    /// It sends a byte now and then.
    Slow,
    /// It accepts connections, and sends nothing until they end.
    Silent,
    Redirect(String),
    Status(u16),
}

/// An issuer on a loopback address.
pub(super) struct TestIssuer {
    pub(super) address: SocketAddr,
    pub(super) reply: Arc<Mutex<Reply>>,
    /// The number of requests, each on its own connection.
    pub(super) request_count: Arc<AtomicUsize>,
    /// The number of connections that clients closed while this issuer was silent.
    closed_while_silent: Arc<AtomicUsize>,
}

impl TestIssuer {
    pub(super) fn start(reply: Reply) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let issuer = Self {
            address: listener.local_addr().unwrap(),
            reply: Arc::new(Mutex::new(reply)),
            request_count: Arc::default(),
            closed_while_silent: Arc::default(),
        };
        let (reply, asked) = (Arc::clone(&issuer.reply), Arc::clone(&issuer.request_count));
        let closed_while_silent = Arc::clone(&issuer.closed_while_silent);
        // The thread ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                asked.fetch_add(1, Ordering::SeqCst);
                let reply = reply.lock().unwrap().clone();
                let closed_while_silent = Arc::clone(&closed_while_silent);
                thread::spawn(move || answer(stream.unwrap(), reply, &closed_while_silent));
            }
        });
        issuer
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn request_count(&self) -> usize {
        self.request_count.load(Ordering::SeqCst)
    }

    pub(super) fn closed_while_silent(&self) -> usize {
        self.closed_while_silent.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, reply: Reply, closed_while_silent: &AtomicUsize) {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    if let Reply::KeysAfter(asked, _) = &reply {
        wait_until("the other issuer got no request", || {
            asked.load(Ordering::SeqCst) > 0
        });
    }
    // The peer may close the connection early, as some tests expect.
    let _ = match reply {
        Reply::Keys(body) | Reply::KeysAfter(_, body) => {
            let length = body.len();
            stream.write_all(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes())
        }
        Reply::Endless => {
            let mut sent = stream.write_all(format!("{head}\r\n{{\"keys\":[").as_bytes());
            while sent.is_ok() {
                sent = stream.write_all(&[b' '; 65536]);
            }
            sent
        }
        Reply::Slow => {
            let mut sent = stream.write_all(format!("{head}\r\n").as_bytes());
            while sent.is_ok() {
                thread::sleep(Duration::from_millis(200));
                sent = stream.write_all(b" ");
            }
            sent
        }
        Reply::Silent => {
            let ended = stream.read(&mut request).map(drop);
            closed_while_silent.fetch_add(1, Ordering::SeqCst);
            ended
        }
        Reply::Redirect(to) => stream.write_all(
            format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").as_bytes(),
        ),
        Reply::Status(status) => stream
            .write_all(format!("HTTP/1.1 {status} No\r\ncontent-length: 2\r\n\r\n{{}}").as_bytes()),
    };
}
