//! Key fetchers: processes that fetch the keys of issuers from their addresses, so that the server
//! itself opens no connection.
//!
//! There is one process for each issuer, so that no issuer waits for another. It is started before
//! the server confines itself, confines itself too, knows only the issuer's address, and answers
//! over a pipe.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

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

/// The byte that requests a fetch.
const REQUEST: u8 = 0;

/// The first byte of an answer with keys.
const KEYS: u8 = 0;

/// The first byte of an answer with an error message.
const FAILED: u8 = 1;

/// A handle of the process for all who need the issuer's keys.
#[derive(Debug, Clone)]
pub(crate) struct KeyFetcher(Arc<Mutex<FetchProcess>>);

/// The pipes to the process, which ends when they are closed. `None` after a failure: a confined
/// server cannot start the process again.
#[derive(Debug)]
struct FetchProcess(Option<Pipes>);

#[derive(Debug)]
struct Pipes {
    requests: PipeWriter,
    answers: PipeReader,
}

impl KeyFetcher {
    /// Starts `program` with [`FETCH_ARGUMENT`] and the address, which begins with `http` or
    /// `https`.
    pub(crate) fn start(program: &Path, address: &str) -> anyhow::Result<Self> {
        let (child_stdin, requests) = io::pipe()?;
        let (answers, child_stdout) = io::pipe()?;
        skillhost_helper::command(program)
            .arg(FETCH_ARGUMENT)
            .arg(address)
            .current_dir("/")
            .stdin(child_stdin)
            .stdout(child_stdout)
            .stderr(Stdio::null())
            // A terminal's Ctrl-C is for the server, which may have calls to finish.
            .process_group(0)
            .spawn()
            .context("cannot start the key fetcher")?;
        Ok(Self::new(Pipes { requests, answers }))
    }

    fn new(pipes: Pipes) -> Self {
        Self(Arc::new(Mutex::new(FetchProcess(Some(pipes)))))
    }

    /// Fetches the keys.
    pub(crate) async fn fetch(&self) -> anyhow::Result<Vec<u8>> {
        let process = Arc::clone(&self.0);
        let fetched = tokio::task::spawn_blocking(move || {
            let mut process = process.lock().unwrap_or_else(|broken| broken.into_inner());
            process.fetch()
        });
        fetched.await.context("the server is ending")?
    }
}

impl FetchProcess {
    fn fetch(&mut self) -> anyhow::Result<Vec<u8>> {
        let ended = "the key fetcher has ended; restart the server";
        // Pipes that fail stay closed. Otherwise a late answer would count for the next request.
        let mut pipes = self.0.take().context(ended)?;
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let (kind, bytes) = pipes.request(deadline).context(ended)?;
        self.0 = Some(pipes);
        match kind {
            KEYS => Ok(bytes),
            _ => bail!("{}", String::from_utf8_lossy(&bytes)),
        }
    }
}

impl Pipes {
    /// Requests a fetch, and returns the kind and the bytes of the answer.
    fn request(&mut self, deadline: Instant) -> io::Result<(u8, Vec<u8>)> {
        self.requests.write_all(&[REQUEST])?;
        let mut head = [0; 5];
        self.read_exact(&mut head, deadline)?;
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length];
        self.read_exact(&mut bytes, deadline)?;
        Ok((kind, bytes))
    }

    fn read_exact(&mut self, mut buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !buffer.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut ready = [PollFd::new(&self.answers, PollFlags::IN)];
            if poll(&mut ready, Some(&left))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.answers.read(buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => buffer = &mut buffer[count..],
            }
        }
        Ok(())
    }
}

/// Runs a key fetcher, until the server that started it ends.
pub fn fetch_keys() -> anyhow::Result<()> {
    let address = std::env::args().nth(2).unwrap_or_default();
    serve(io::stdin().lock(), io::stdout().lock(), &address)
}

/// Answers requests to their end.
fn serve(mut requests: impl Read, mut answers: impl Write, address: &str) -> anyhow::Result<()> {
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(FETCH_TIMEOUT))
        .max_redirects(0)
        .proxy(None)
        .user_agent("skillhost")
        .build()
        .new_agent();
    while requests.read(&mut [REQUEST])? == 1 {
        let (kind, bytes) = match fetch(&agent, address) {
            Ok(bytes) => (KEYS, bytes),
            Err(mut error) => {
                error.truncate(error.floor_char_boundary(MAX_ERROR_BYTES));
                (FAILED, error.into_bytes())
            }
        };
        let length = u32::try_from(bytes.len())?.to_le_bytes();
        answers.write_all(&[&[kind][..], &length, &bytes].concat())?;
        answers.flush()?;
    }
    Ok(())
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
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Returns a fetcher that has a thread in place of a process.
    fn fetcher(address: String) -> KeyFetcher {
        let (fetcher, requests, answers) = fetcher_with_pipes();
        thread::spawn(move || serve(requests, answers, &address).unwrap());
        fetcher
    }

    /// Returns a fetcher, and the pipe ends that its process would have.
    pub(crate) fn fetcher_with_pipes() -> (KeyFetcher, PipeReader, PipeWriter) {
        let (child_stdin, requests) = io::pipe().unwrap();
        let (answers, child_stdout) = io::pipe().unwrap();
        let fetcher = KeyFetcher::new(Pipes { requests, answers });
        (fetcher, child_stdin, child_stdout)
    }

    /// Sends keys as the process does.
    pub(crate) fn send_keys(mut answers: impl Write, keys: &str) {
        let length = u32::try_from(keys.len()).unwrap().to_le_bytes();
        let answer = [&[KEYS][..], &length, keys.as_bytes()].concat();
        answers.write_all(&answer).unwrap();
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

    #[test]
    fn closes_pipes_after_invalid_answer() {
        let answer = |length: usize, bytes: usize| {
            let length = u32::try_from(length).unwrap().to_le_bytes();
            [&[KEYS][..], &length, &vec![b'x'; bytes]].concat()
        };
        for (sent, is_valid) in [
            (answer(3, 3), true),
            (answer(0, 0), true),
            (answer(MAX_BYTES, MAX_BYTES), true),
            (answer(MAX_BYTES + 1, MAX_BYTES + 1), false),
            (answer(3, 2), false),
            (vec![KEYS, 3], false),
            (Vec::new(), false),
        ] {
            let (_child_stdin, requests) = io::pipe().unwrap();
            let (answers, mut child_stdout) = io::pipe().unwrap();
            let length = sent.len();
            // A second answer would be valid.
            let second: &[u8] = if is_valid { &[KEYS, 0, 0, 0, 0] } else { &[] };
            let all = [&*sent, second].concat();
            // The reader may stop before the end.
            let sender = thread::spawn(move || child_stdout.write_all(&all));
            let mut process = FetchProcess(Some(Pipes { requests, answers }));
            assert_eq!(process.fetch().is_ok(), is_valid, "{length}");
            let second = process.fetch();
            drop(process);
            let _ = sender.join();
            if is_valid {
                assert!(second.unwrap().is_empty());
            } else {
                assert!(second.unwrap_err().to_string().contains("has ended"));
            }
        }
    }
}
