//! Key fetchers: processes that fetch the keys of issuers from their addresses, so that the server
//! itself opens no connection.
//!
//! There is one process for each issuer, so that no issuer waits for another. It is started before
//! the server confines itself, confines itself too, and knows only the issuer's address.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use skillhost_helper::{HelperProcess, Kind, Message, answer_requests};

use crate::keys::MAX_BYTES;

/// The first argument of the process. The address of the keys follows. Not a verb for people.
pub const FETCH_ARGUMENT: &str = "fetch-keys";

/// The longest time of one fetch, from name resolution to the last byte. Guards against: an
/// issuer that answers slowly or never.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest wait for the process. Longer than [`FETCH_TIMEOUT`], which the process keeps
/// itself.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The most bytes of an error message. Guards against: an issuer that fills the log.
const MAX_ERROR_BYTES: usize = 512;

/// The process in messages.
const NAME: &str = "the key fetcher";

/// A handle of the process for all who need the issuer's keys.
#[derive(Debug, Clone)]
pub(crate) struct KeyFetcher(Arc<Mutex<HelperProcess>>);

impl KeyFetcher {
    /// Starts `program` with [`FETCH_ARGUMENT`] and the address, which begins with `http` or
    /// `https`.
    pub(crate) fn start(program: &Path, address: &str) -> anyhow::Result<Self> {
        let process = HelperProcess::start(NAME, |[stdin, stdout, stderr]| {
            let child = skillhost_helper::command(program)
                .arg(FETCH_ARGUMENT)
                .arg(address)
                .current_dir("/")
                .stdin(Stdio::from(stdin))
                .stdout(Stdio::from(stdout))
                .stderr(Stdio::from(stderr))
                // A terminal's Ctrl-C is for the server, which may have calls to finish.
                .process_group(0)
                .spawn()?;
            Ok(Box::new(child))
        });
        Ok(Self::new(process.context("cannot start the key fetcher")?))
    }

    fn new(process: HelperProcess) -> Self {
        Self(Arc::new(Mutex::new(process)))
    }

    /// Fetches the keys.
    pub(crate) async fn fetch(&self) -> anyhow::Result<Vec<u8>> {
        let process = Arc::clone(&self.0);
        let fetched = tokio::task::spawn_blocking(move || {
            let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
            process.request(b"", MAX_BYTES, ANSWER_TIMEOUT)
        });
        let answer = fetched.await.context("the server is ending")?;
        // A confined server cannot start the process again.
        let Message { kind, bytes } =
            answer.context("cannot fetch keys until the server is restarted")?;
        match kind {
            Kind::Failure => bail!("{}", String::from_utf8_lossy(&bytes)),
            _ => Ok(bytes),
        }
    }
}

/// Runs a key fetcher, until the server that started it ends.
pub fn fetch_keys() -> anyhow::Result<()> {
    let address = std::env::args().nth(2).unwrap_or_default();
    serve(io::stdin().lock(), io::stdout().lock(), &address)
}

/// Answers requests to their end.
fn serve(requests: impl Read, answers: impl Write, address: &str) -> anyhow::Result<()> {
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(FETCH_TIMEOUT))
        .max_redirects(0)
        .proxy(None)
        .user_agent("skillhost")
        .build()
        .new_agent();
    answer_requests(requests, answers, 0, |_| {
        fetch(&agent, address).map_err(|mut error| {
            error.truncate(error.floor_char_boundary(MAX_ERROR_BYTES));
            anyhow::Error::msg(error)
        })
    })
}

fn fetch(agent: &ureq::Agent, address: &str) -> Result<Vec<u8>, String> {
    let request = agent.get(address).header("Accept", "application/json");
    let mut answer = request.call().map_err(|error| error.to_string())?;
    if answer.status() != 200 {
        return Err(format!(
            "the issuer answered with status {}",
            answer.status()
        ));
    }
    // `limit` also refuses a body of exactly so many bytes.
    let body = answer.body_mut().with_config().limit(MAX_BYTES as u64 + 1);
    body.read_to_vec().map_err(|error| error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{PipeReader, PipeWriter};
    use std::net::TcpListener;
    use std::process::ExitStatus;
    use std::thread;

    use skillhost_helper::{ChildHandle, write_message};

    use super::*;

    /// A thread or a test in place of a process.
    struct NoChild;

    impl ChildHandle for NoChild {
        fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn kill(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Returns a fetcher that has a thread in place of a process.
    fn fetcher(address: String) -> KeyFetcher {
        let (fetcher, requests, answers) = fetcher_with_pipes();
        thread::spawn(move || serve(requests, answers, &address).unwrap());
        fetcher
    }

    /// Returns a fetcher, and the pipe ends that its process would have.
    pub(crate) fn fetcher_with_pipes() -> (KeyFetcher, PipeReader, PipeWriter) {
        let mut pipes = None;
        let process = HelperProcess::start(NAME, |[stdin, stdout, _]| {
            pipes = Some((stdin.into(), stdout.into()));
            Ok(Box::new(NoChild))
        });
        let (stdin, stdout) = pipes.unwrap();
        (KeyFetcher::new(process.unwrap()), stdin, stdout)
    }

    /// Sends keys as the process does.
    pub(crate) fn send_keys(answers: impl Write, keys: &str) {
        write_message(answers, Kind::Answer, keys.as_bytes()).unwrap();
    }

    /// Returns the address of an issuer that gives these answers, each a status and a body.
    fn issuer(answers: &[(u16, &[u8])]) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = format!("http://{}/keys", listener.local_addr().unwrap());
        let answers: Vec<_> = answers
            .iter()
            .map(|(status, body)| {
                let length = body.len();
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n");
                [head.as_bytes(), b"connection: close\r\n\r\n", body].concat()
            })
            .collect();
        thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                // The fetcher may stop reading before the end.
                let _ = stream.write_all(&answer);
            }
        });
        address
    }

    #[tokio::test]
    async fn fetches_keys_or_reports_the_error() {
        let largest = "x".repeat(MAX_BYTES);
        let too_large = "x".repeat(MAX_BYTES + 1);
        for (status, body, expected) in [
            (200, "keys of an issuer", Ok("keys of an issuer")),
            (200, &*largest, Ok(&*largest)),
            (200, &*too_large, Err("limit")),
            (500, "no keys", Err("status: 500")),
            (203, "no keys", Err("the issuer answered with status 203")),
        ] {
            let fetcher = fetcher(issuer(&[(status, body.as_bytes()), (200, b"keys")]));
            match (fetcher.fetch().await, expected) {
                (Ok(bytes), Ok(expected)) => assert!(bytes == expected.as_bytes(), "{status}"),
                (Err(error), Err(expected)) => {
                    let error = format!("{error:#}");
                    assert!(error.contains(expected), "{status}: {error}");
                }
                (fetched, _) => panic!("{status}: {} bytes", fetched.unwrap().len()),
            }
            // A failure does not affect the next fetch.
            assert_eq!(fetcher.fetch().await.unwrap(), b"keys");
        }
    }

    #[tokio::test]
    async fn fetches_nothing_after_invalid_answer() {
        for (kind, length, is_valid) in [
            (Kind::Answer, MAX_BYTES, true),
            (Kind::Answer, MAX_BYTES + 1, false),
            (Kind::Request, 0, false),
        ] {
            let (fetcher, _child_stdin, mut child_stdout) = fetcher_with_pipes();
            let sender = thread::spawn(move || {
                // The reader may stop before the end.
                let _ = write_message(&mut child_stdout, kind, &vec![b'x'; length]);
                // This answer would be valid.
                let _ = write_message(&mut child_stdout, Kind::Answer, b"");
            });
            assert_eq!(fetcher.fetch().await.is_ok(), is_valid, "{length}");
            match fetcher.fetch().await {
                Ok(bytes) => assert!(is_valid && bytes.is_empty()),
                Err(error) => {
                    let error = format!("{error:#}");
                    assert!(
                        !is_valid && error.contains("the key fetcher has ended"),
                        "{error}"
                    );
                }
            }
            drop(fetcher);
            sender.join().unwrap();
        }
    }
}
