//! Key fetchers: processes that fetch the keys of issuers from their addresses, so that the server
//! itself opens no connection.
//!
//! There is one process for each issuer, so that no issuer waits for another. It is started before
//! the server confines itself, and knows only the issuer's address. The address is its first
//! message, because every user of the machine sees the arguments of processes.
//!
//! For each fetch, it starts a process that confines itself, fetches, and ends. So the rules of that
//! process are for the present files of the resolver, such as `/etc/resolv.conf`: a rule does not
//! apply to a file that was replaced later. The first process reads nothing from the network.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use skillhost_helper::{
    HelperProcess, Kind, Message, OWN_PROGRAM, answer_requests, read_message, write_message,
};
use tokio::sync::{Mutex, oneshot};

use crate::keys::MAX_BYTES;

/// The only argument of the process. It is not a verb for people.
pub const FETCH_ARGUMENT: &str = "fetch-keys";

/// The only argument of a process that fetches once.
pub const FETCH_ONCE_ARGUMENT: &str = "fetch-keys-once";

/// The longest time of one fetch, from name resolution to the last byte. Guards against: an
/// issuer that answers slowly or never.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest wait for the process. It is longer than [`FETCH_TIMEOUT`], which the process
/// enforces itself.
///
/// A later answer is dropped, but the process is not ended: it may only have been paused, for
/// example with its container.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The time after which a process that does not answer is killed: never.
const NO_TIMEOUT: Duration = Duration::from_secs(u32::MAX as u64);

/// The maximum bytes of an address. It must fit into a pipe.
const MAX_ADDRESS_BYTES: usize = 32 << 10;

/// The maximum bytes of an error message. Guards against: an issuer that fills the log.
const MAX_ERROR_BYTES: usize = 512;

/// The name of the process in messages.
const NAME: &str = "the key fetcher";

/// A shared handle to the process that fetches an issuer's keys.
#[derive(Debug, Clone)]
pub(crate) struct KeyFetcher(Arc<Mutex<HelperProcess>>);

impl KeyFetcher {
    /// Starts `program` with [`FETCH_ARGUMENT`], and sends it the address, which begins with `http`
    /// or `https`.
    pub(crate) fn start(program: &Path, address: &str) -> anyhow::Result<Self> {
        let process = HelperProcess::start(NAME, |[stdin, stdout, stderr]| {
            let child = skillhost_helper::command(program)
                .arg(FETCH_ARGUMENT)
                .current_dir("/")
                .stdin(Stdio::from(stdin))
                .stdout(Stdio::from(stdout))
                .stderr(Stdio::from(stderr))
                // Ctrl-C must end only the server, which may have calls to finish.
                .process_group(0)
                .spawn()?;
            Ok(Box::new(child))
        });
        Self::with_address(process.context("cannot start the key fetcher")?, address)
    }

    /// Sends the only address that the process fetches from.
    fn with_address(mut process: HelperProcess, address: &str) -> anyhow::Result<Self> {
        ensure!(
            address.len() <= MAX_ADDRESS_BYTES,
            "`jwks_url` is longer than {MAX_ADDRESS_BYTES} bytes"
        );
        match process.send(address.as_bytes()) {
            // The first request will report why the process has ended.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).context("cannot start the key fetcher")
            }
            _ => Ok(Self::new(process)),
        }
    }

    fn new(process: HelperProcess) -> Self {
        Self(Arc::new(Mutex::new(process)))
    }

    /// Returns whether the process has ended. A confined server cannot start it again.
    pub(crate) fn has_ended(&self) -> bool {
        let process = self.0.try_lock();
        process.is_ok_and(|process| process.has_ended())
    }

    /// Fetches the keys.
    pub(crate) async fn fetch(&self) -> anyhow::Result<Vec<u8>> {
        self.fetch_within(ANSWER_TIMEOUT).await
    }

    async fn fetch_within(&self, time: Duration) -> anyhow::Result<Vec<u8>> {
        let Ok(mut process) = Arc::clone(&self.0).try_lock_owned() else {
            bail!("{NAME} has not answered an earlier request");
        };
        let (sender, answer) = oneshot::channel();
        // Not a thread of the runtime, which would wait for it at shutdown.
        let fetching = move || {
            let answer = process.request(b"", MAX_BYTES, NO_TIMEOUT);
            drop(process);
            let _ = sender.send(answer);
        };
        let thread = thread::Builder::new().name("fetch-keys".to_owned());
        thread.spawn(fetching).context("cannot start a thread")?;
        let Ok(answer) = tokio::time::timeout(time, answer).await else {
            bail!("{NAME} took longer than {time:?}");
        };
        let answer = answer.context("the request was dropped")?;
        let Message { kind, bytes } =
            answer.context("cannot fetch keys until the server is restarted")?;
        match kind {
            Kind::Failure => bail!("{}", String::from_utf8_lossy(&bytes)),
            _ => Ok(bytes),
        }
    }
}

/// Runs a key fetcher, until the server that started it ends.
///
/// # Errors
///
/// If a process that fetches ends without an answer.
pub fn fetch_keys() -> anyhow::Result<()> {
    start_fetches(
        io::stdin().lock(),
        io::stdout().lock(),
        OWN_PROGRAM.as_ref(),
    )
}

/// Runs a process that fetches once. The caller has confined it.
pub fn fetch_keys_once() -> anyhow::Result<()> {
    serve(io::stdin().lock(), io::stdout().lock())
}

/// Reads the address, and starts a process for each request. That process answers it.
fn start_fetches(
    mut requests: impl Read,
    mut answers: impl Write,
    program: &Path,
) -> anyhow::Result<()> {
    let Some(address) = read_message(&mut requests, MAX_ADDRESS_BYTES)? else {
        return Ok(());
    };
    while read_message(&mut requests, 0)?.is_some() {
        let started = skillhost_helper::command(program)
            .arg(FETCH_ONCE_ARGUMENT)
            .stdin(Stdio::piped())
            .spawn();
        let mut fetching = match started {
            Ok(fetching) => fetching,
            Err(error) => {
                let problem = format!("cannot start a process that fetches keys: {error}");
                write_message(&mut answers, Kind::Failure, problem.as_bytes())?;
                continue;
            }
        };
        if let Some(mut stdin) = fetching.stdin.take() {
            for message in [&address.bytes[..], b""] {
                // If the process has ended, its status says so.
                let _ = write_message(&mut stdin, Kind::Request, message);
            }
        }
        let status = fetching.wait()?;
        // It may have sent a part of an answer, so no other answer can follow.
        ensure!(
            status.success(),
            "a process that fetches keys failed: {status}"
        );
    }
    Ok(())
}

/// Reads the address, and answers requests to their end.
fn serve(mut requests: impl Read, answers: impl Write) -> anyhow::Result<()> {
    let Some(address) = read_message(&mut requests, MAX_ADDRESS_BYTES)? else {
        return Ok(());
    };
    let address = String::from_utf8(address.bytes)?;
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(FETCH_TIMEOUT))
        .max_redirects(0)
        .proxy(None)
        .user_agent("skillhost")
        .build()
        .new_agent();
    answer_requests(requests, answers, 0, |_| {
        fetch(&agent, &address).map_err(|mut error| {
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
    // `limit` also refuses a body of exactly this many bytes.
    let body = answer.body_mut().with_config().limit(MAX_BYTES as u64 + 1);
    body.read_to_vec().map_err(|error| error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{PipeReader, PipeWriter};
    use std::net::TcpListener;
    use std::process::ExitStatus;

    use skillhost_helper::ChildHandle;

    use super::*;

    /// A child handle without a process: a thread or a test takes its place.
    struct NoChild;

    impl ChildHandle for NoChild {
        fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn kill(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Returns a fetcher with a thread in place of a process.
    fn fetcher(address: &str) -> KeyFetcher {
        let (process, requests, answers) = process_with_pipes();
        thread::spawn(move || serve(requests, answers).unwrap());
        KeyFetcher::with_address(process, address).unwrap()
    }

    /// Returns a fetcher, and the pipe ends that its process would have.
    pub(crate) fn fetcher_with_pipes() -> (KeyFetcher, PipeReader, PipeWriter) {
        let (process, requests, answers) = process_with_pipes();
        (KeyFetcher::new(process), requests, answers)
    }

    fn process_with_pipes() -> (HelperProcess, PipeReader, PipeWriter) {
        let mut pipes = None;
        let process = HelperProcess::start(NAME, |[stdin, stdout, _]| {
            pipes = Some((stdin.into(), stdout.into()));
            Ok(Box::new(NoChild))
        });
        let (stdin, stdout) = pipes.unwrap();
        (process.unwrap(), stdin, stdout)
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
            let fetcher = fetcher(&issuer(&[(status, body.as_bytes()), (200, b"keys")]));
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
    async fn fetches_again_after_late_answer() {
        let (fetcher, requests, mut answers) = fetcher_with_pipes();
        let time = Duration::from_millis(10);
        for expected in [
            "took longer than 10ms",
            "has not answered an earlier request",
        ] {
            let error = fetcher.fetch_within(time).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(!fetcher.has_ended());
        // Like a process that was stopped together with the server.
        send_keys(&mut answers, "late keys");
        drop(fetcher.0.lock().await);
        send_keys(&mut answers, "new keys");
        assert_eq!(fetcher.fetch().await.unwrap(), b"new keys");
        assert!(!fetcher.has_ended());
        drop(requests);
        assert!(fetcher.has_ended());
    }

    #[test]
    fn ends_only_after_a_process_that_may_have_answered() {
        for (program, is_ended, answer) in [
            ("/bin/true", false, None),
            ("/bin/false", true, None),
            (
                "/none",
                false,
                Some("cannot start a process that fetches keys"),
            ),
        ] {
            let (mut requests, mut answers) = (Vec::new(), Vec::new());
            for message in [&b"http://localhost"[..], b"", b""] {
                write_message(&mut requests, Kind::Request, message).unwrap();
            }
            let ended = start_fetches(&*requests, &mut answers, Path::new(program));
            assert_eq!(ended.is_err(), is_ended, "{program}: {ended:?}");
            let mut answers = &*answers;
            for _ in 0..2 {
                let message = read_message(&mut answers, 1_000).unwrap();
                let text = message.map(|message| String::from_utf8(message.bytes).unwrap());
                let is_expected = match (&text, answer) {
                    (Some(text), Some(answer)) => text.contains(answer),
                    (text, answer) => text.is_none() && answer.is_none(),
                };
                assert!(is_expected, "{program}: {text:?}");
            }
        }
    }

    #[test]
    fn refuses_address_that_fills_the_pipe() {
        for (length, is_accepted) in [(MAX_ADDRESS_BYTES, true), (MAX_ADDRESS_BYTES + 1, false)] {
            let (process, _requests, _answers) = process_with_pipes();
            let fetcher = KeyFetcher::with_address(process, &"x".repeat(length));
            assert_eq!(fetcher.is_ok(), is_accepted);
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
