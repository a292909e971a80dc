//! Two servers that the egress process of an escape test can reach, without and with TLS. They
//! answer with the request.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::table::GRANTED;

/// Two servers, which end with this process.
pub(crate) struct Servers {
    ports: [u16; 2],
    /// The certificate of the server with TLS, in PEM.
    pub(crate) certificate: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Servers {
    pub(crate) fn start() -> Self {
        let names = vec!["localhost".to_owned()];
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![cert.der().clone()], key);
        let config = Arc::new(config.unwrap());
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let plain = serve(&requests, |stream| Box::new(stream));
        let secure = serve(&requests, move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            Box::new(StreamOwned::new(connection, stream))
        });
        Self {
            ports: [plain, secure],
            certificate: cert.pem(),
            requests,
        }
    }

    /// Returns the ports, each after a line break.
    pub(crate) fn ports(&self) -> String {
        self.ports.map(|port| format!("\n{port}")).concat()
    }

    /// Returns the configuration of the grant of `read_skill`.
    pub(crate) fn grant(&self) -> String {
        let [plain, secure] = self.ports;
        format!(
            "[grants.\"read_skill\"]\n\
             skills = [\"*\"]\n\
             network = [\"GET http://localhost:{plain}{GRANTED}\", \"https://localhost:{secure}\"]\n\
             secrets.TOKEN = {{ file = \"token\", header = \"authorization\", \
             hosts = [\"localhost:{secure}\", \"localhost:{plain}\"] }}\n\
             [network]\nca_file = \"ca.pem\"\n"
        )
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Serves connections in a thread, and returns the port. `wrap` can add TLS to a stream.
fn serve(
    requests: &Arc<Mutex<Vec<String>>>,
    wrap: impl Fn(std::net::TcpStream) -> Box<dyn Stream> + Send + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::clone(requests);
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let mut stream = wrap(stream);
            let mut bytes = Vec::new();
            let mut piece = [0; 4096];
            while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(read @ 1..) => bytes.extend_from_slice(&piece[..read]),
                    _ => break,
                }
            }
            let request = String::from_utf8_lossy(&bytes).into_owned();
            let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{request}");
            requests.lock().unwrap().push(request);
            // A client that has disconnected needs no answer.
            let _ = stream.write_all(answer.as_bytes());
            let _ = stream.flush();
        }
    });
    port
}
