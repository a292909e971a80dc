//! A scripted model: a server on loopback that sends one scripted answer per request, and records
//! the requests.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::Value;

use super::watchdog::{self, join};

/// A request that the model received.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// Headers, with names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

/// A scripted model.
pub(crate) struct Model {
    pub(crate) address: SocketAddr,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Request>>>,
}

impl Model {
    /// Starts a model that sends these answers, and refuses further requests.
    pub(crate) fn play(answers: impl IntoIterator<Item = Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let has_ended = Arc::new(AtomicBool::new(false));
        let mut answers: VecDeque<Value> = answers.into_iter().collect();
        let thread = std::thread::spawn({
            let has_ended = Arc::clone(&has_ended);
            move || {
                let mut requests = Vec::new();
                for stream in listener.incoming() {
                    if has_ended.load(Ordering::SeqCst) {
                        break;
                    }
                    let mut stream = stream.unwrap();
                    requests.push(read(&stream).unwrap());
                    write(&mut stream, answers.pop_front()).unwrap();
                }
                requests
            }
        });
        Self {
            address,
            has_ended,
            thread: Some(thread),
        }
    }

    /// Ends the model, and returns the requests that it received.
    pub(crate) fn requests(mut self) -> Vec<Request> {
        let thread = self.thread.take().unwrap();
        drop(self);
        join(thread, "the scripted model's end").unwrap()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        // Wakes the thread, which waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn read(stream: &TcpStream) -> io::Result<Request> {
    stream.set_read_timeout(Some(watchdog::patience()))?;
    let mut input = BufReader::new(stream);
    let mut line = String::new();
    input.read_line(&mut line)?;
    let path = line.strip_prefix("POST ").unwrap();
    let path = path.split_once(" HTTP/1.1").unwrap().0.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    input.read_exact(&mut body)?;
    Ok(Request {
        path,
        headers,
        body: serde_json::from_slice(&body)?,
    })
}

fn write(stream: &mut TcpStream, answer: Option<Value>) -> io::Result<()> {
    let (status, body) = match answer {
        Some(answer) => ("200 OK", answer.to_string()),
        None => ("500 Internal Server Error", "the script is over".to_owned()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}
