//! Processes that fetch the keys of issuers, so that the server itself opens no connection,
//! and reads no file that came into the place of another. There is one for each issuer, so
//! that none waits for another. It is started before the server confines itself, knows the
//! issuer's source alone, and is asked over a pipe.

use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::keys::MOST_BYTES;
use crate::private_file::open_public;

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
    /// Starts the process, which is this program with [`FETCH_ARGUMENT`] and the source: an
    /// address of `http`, or the absolute path of a file.
    pub(crate) fn start(program: &Path, source: &OsStr) -> anyhow::Result<Self> {
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
    let source = std::env::args_os().nth(2).unwrap_or_default();
    answer(io::stdin().lock(), io::stdout().lock(), &source)
}

/// Answers requests until there are no more.
fn answer(mut requests: impl Read, mut answers: impl Write, source: &OsStr) -> anyhow::Result<()> {
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

fn fetch(agent: &ureq::Agent, source: &OsStr) -> Result<Vec<u8>, String> {
    if Path::new(source).is_absolute() {
        return read_file(Path::new(source)).map_err(|error| format!("{error:#}"));
    }
    let address = source.to_str().unwrap_or_default();
    let request = agent.get(address).header("Accept", "application/json");
    let mut answer = request.call().map_err(|error| error.to_string())?;
    if answer.status() != 200 {
        return Err(format!("it answers {}", answer.status()));
    }
    // A body that takes the whole limit is too large already.
    let body = answer.body_mut().with_config().limit(MOST_BYTES as u64 + 1);
    body.read_to_vec().map_err(|error| error.to_string())
}

/// Reads a file of keys.
pub(crate) fn read_file(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let opened = open_public(file)?;
    opened.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() <= MOST_BYTES,
        "it has more than {MOST_BYTES} bytes"
    );
    Ok(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::ffi::OsString;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Returns a fetcher whose process is a thread of this one.
    pub(crate) fn fetcher(source: OsString) -> KeyFetcher {
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

    /// Returns the address of an issuer that answers once, with this status and body.
    fn issuer(status: u16, body: &[u8]) -> OsString {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = format!("http://{}/keys", listener.local_addr().unwrap());
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n");
        let answer = [head.as_bytes(), body].concat();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            // A peer may have enough of it before its end.
            let _ = stream.write_all(&answer);
        });
        address.into()
    }

    #[tokio::test]
    async fn fetches_what_is_at_a_source_or_says_why_not() {
        let folder = tempfile::tempdir().unwrap();
        let most = "x".repeat(MOST_BYTES);
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.into_os_string()
        };
        let long = "x".repeat(MOST_BYTES + 1);
        let none = folder.path().join("none");
        let late = fetcher(none.clone().into());
        assert!(late.fetch().await.is_err());
        for (source, expected) in [
            (file("short", "keys"), Ok("keys")),
            (file("most", &most), Ok(&*most)),
            (file("long", &long), Err("it has more than 262144 bytes")),
            (none.into(), Err("No such file")),
            (issuer(200, b"keys of an issuer"), Ok("keys of an issuer")),
            (issuer(200, most.as_bytes()), Ok(&*most)),
            (issuer(200, long.as_bytes()), Err("limit")),
            (issuer(500, b"no keys"), Err("status: 500")),
            (issuer(203, b"no keys"), Err("it answers 203")),
        ] {
            let about = source.display().to_string();
            match (fetcher(source).fetch().await, expected) {
                (Ok(bytes), Ok(expected)) => assert!(bytes == expected.as_bytes(), "{about}"),
                (Err(error), Err(expected)) => {
                    let error = format!("{error:#}");
                    assert!(error.contains(expected), "{about}: {error}");
                }
                (fetched, _) => panic!("{about}: {} bytes", fetched.unwrap().len()),
            }
        }
        // What failed before changes nothing.
        file("none", "keys");
        assert_eq!(late.fetch().await.unwrap(), b"keys");
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
