//! Processes that fetch the keys of issuers from their addresses, so that the server itself
//! opens no connection. There is one for each issuer, so that none waits for another. It is
//! started before the server confines itself, confines itself too, knows the issuer's address
//! alone, and is asked over a pipe.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::keys::MOST_BYTES;

/// The first argument of the process; the source follows it. It is no verb for people.
pub const FETCH_ARGUMENT: &str = "fetch-keys";

/// The longest time of one fetch, from the name's resolution to the last byte. Guards
/// against: an issuer that answers slowly or never.
const FETCH_TIME: Duration = Duration::from_secs(10);

/// The longest wait for the process, which ends a fetch by itself.
const ANSWER_TIME: Duration = Duration::from_secs(15);

/// The most bytes of an error in words. Guards against: an issuer that fills the log.
const ERROR_BYTES: usize = 512;

/// The byte that asks the process.
const REQUEST: u8 = 0;

/// The kinds of an answer.
const KEYS: u8 = 0;
const FAILED: u8 = 1;

/// The process, for those who ask it.
#[derive(Debug, Clone)]
pub(crate) struct KeyFetcher(Arc<Mutex<FetchProcess>>);

/// The pipes to the process. None if it has failed: a confined server starts no other.
/// The process ends when they are closed.
#[derive(Debug)]
struct FetchProcess(Option<Pipes>);

#[derive(Debug)]
struct Pipes {
    requests: PipeWriter,
    answers: PipeReader,
}

impl KeyFetcher {
    /// Starts the process, which is this program with [`FETCH_ARGUMENT`] and the source, an
    /// address of `http` or `https`.
    pub(crate) fn start(program: &Path, source: &str) -> anyhow::Result<Self> {
        let (asked, requests) = io::pipe()?;
        let (answers, answered) = io::pipe()?;
        Command::new(program)
            .arg(FETCH_ARGUMENT)
            .arg(source)
            .env_clear()
            .current_dir("/")
            .stdin(asked)
            .stdout(answered)
            .stderr(Stdio::null())
            // A terminal's Ctrl-C is for the server, which may have calls to finish.
            .process_group(0)
            .spawn()
            .context("cannot start the process that fetches keys")?;
        Ok(Self::with(Pipes { requests, answers }))
    }

    fn with(pipes: Pipes) -> Self {
        Self(Arc::new(Mutex::new(FetchProcess(Some(pipes)))))
    }

    /// Fetches what is at the source.
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
        // A late answer would be taken for that of the next request, so pipes that fail
        // are closed.
        let ended = "the process that fetches keys has ended; start the server anew";
        let mut pipes = self.0.take().context(ended)?;
        let deadline = Instant::now() + ANSWER_TIME;
        let (kind, bytes) = pipes.ask(deadline).context(ended)?;
        self.0 = Some(pipes);
        match kind {
            KEYS => Ok(bytes),
            _ => bail!("{}", String::from_utf8_lossy(&bytes)),
        }
    }
}

impl Pipes {
    fn ask(&mut self, deadline: Instant) -> io::Result<(u8, Vec<u8>)> {
        self.requests.write_all(&[REQUEST])?;
        let mut head = [0; 5];
        self.read(&mut head, deadline)?;
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        if length > MOST_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length];
        self.read(&mut bytes, deadline)?;
        Ok((kind, bytes))
    }

    fn read(&mut self, mut into: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !into.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut ready = [PollFd::new(&self.answers, PollFlags::IN)];
            if poll(&mut ready, Some(&left))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.answers.read(into)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => into = &mut into[count..],
            }
        }
        Ok(())
    }
}

/// Fetches keys for the server that started this process, until that ends.
pub fn fetch_keys() -> anyhow::Result<()> {
    let source = std::env::args().nth(2).unwrap_or_default();
    answer(io::stdin().lock(), io::stdout().lock(), &source)
}

/// Answers requests until there are no more.
fn answer(mut requests: impl Read, mut answers: impl Write, source: &str) -> anyhow::Result<()> {
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(FETCH_TIME))
        .max_redirects(0)
        .proxy(None)
        .user_agent("skillhost")
        .build()
        .new_agent();
    while requests.read(&mut [REQUEST])? == 1 {
        let (kind, bytes) = match fetch(&agent, source) {
            Ok(bytes) => (KEYS, bytes),
            Err(mut error) => {
                error.truncate(error.floor_char_boundary(ERROR_BYTES));
                (FAILED, error.into_bytes())
            }
        };
        let length = u32::try_from(bytes.len())?.to_le_bytes();
        answers.write_all(&[&[kind][..], &length, &bytes].concat())?;
        answers.flush()?;
    }
    Ok(())
}

fn fetch(agent: &ureq::Agent, source: &str) -> Result<Vec<u8>, String> {
    let request = agent.get(source).header("Accept", "application/json");
    let mut answer = request.call().map_err(|error| error.to_string())?;
    if answer.status() != 200 {
        return Err(format!("it answers {}", answer.status()));
    }
    // A body that takes the whole limit is too large already.
    let body = answer.body_mut().with_config().limit(MOST_BYTES as u64 + 1);
    body.read_to_vec().map_err(|error| error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Returns a fetcher whose process is a thread of this one.
    fn fetcher(source: String) -> KeyFetcher {
        let (fetcher, asked, answered) = fetcher_by_hand();
        thread::spawn(move || answer(asked, answered, &source).unwrap());
        fetcher
    }

    /// Returns a fetcher, and the ends of the pipes that its process would have.
    pub(crate) fn fetcher_by_hand() -> (KeyFetcher, PipeReader, PipeWriter) {
        let (asked, requests) = io::pipe().unwrap();
        let (answers, answered) = io::pipe().unwrap();
        let fetcher = KeyFetcher::with(Pipes { requests, answers });
        (fetcher, asked, answered)
    }

    /// Answers as the process does, with these keys.
    pub(crate) fn send_keys(mut to: impl Write, keys: &str) {
        let length = u32::try_from(keys.len()).unwrap().to_le_bytes();
        let answer = [&[KEYS][..], &length, keys.as_bytes()].concat();
        to.write_all(&answer).unwrap();
    }

    /// Returns the address of an issuer that answers so often, each time with a status and a
    /// body.
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
                // A peer may have enough of it before its end.
                let _ = stream.write_all(&answer);
            }
        });
        address
    }

    #[tokio::test]
    async fn fetches_what_is_at_an_address_or_says_why_not() {
        let most = "x".repeat(MOST_BYTES);
        let long = "x".repeat(MOST_BYTES + 1);
        for (status, body, expected) in [
            (200, "keys of an issuer", Ok("keys of an issuer")),
            (200, &*most, Ok(&*most)),
            (200, &*long, Err("limit")),
            (500, "no keys", Err("status: 500")),
            (203, "no keys", Err("it answers 203")),
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
            // What failed before changes nothing.
            assert_eq!(fetcher.fetch().await.unwrap(), b"keys");
        }
    }

    #[test]
    fn a_process_that_answers_wrongly_is_asked_no_more() {
        let answer = |length: usize, bytes: usize| {
            let length = u32::try_from(length).unwrap().to_le_bytes();
            [&[KEYS][..], &length, &vec![b'x'; bytes]].concat()
        };
        for (sent, is_right) in [
            (answer(3, 3), true),
            (answer(0, 0), true),
            (answer(MOST_BYTES, MOST_BYTES), true),
            (answer(MOST_BYTES + 1, MOST_BYTES + 1), false),
            (answer(3, 2), false),
            (vec![KEYS, 3], false),
            (Vec::new(), false),
        ] {
            let (_asked, requests) = io::pipe().unwrap();
            let (answers, mut answered) = io::pipe().unwrap();
            let about = sent.len();
            // A second answer would be right.
            let second: &[u8] = if is_right { &[KEYS, 0, 0, 0, 0] } else { &[] };
            let all = [&*sent, second].concat();
            // A reader may have enough of it before its end.
            let sender = thread::spawn(move || answered.write_all(&all));
            let mut process = FetchProcess(Some(Pipes { requests, answers }));
            assert_eq!(process.fetch().is_ok(), is_right, "{about}");
            let second = process.fetch();
            drop(process);
            let _ = sender.join();
            match is_right {
                true => assert!(second.unwrap().is_empty()),
                false => assert!(second.unwrap_err().to_string().contains("has ended")),
            }
        }
    }
}
