//! A process that fetches the keys of issuers, so that the server itself opens no
//! connection, and reads no file that came into the place of another. It is started before
//! the server confines itself, knows the sources of the configuration alone, and is asked
//! by their numbers over a pipe.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::keys::MOST_BYTES;
use crate::private_file::open_public;

/// The first argument of the process; the sources follow it. It is no verb for people.
pub const FETCH_ARGUMENT: &str = "fetch-keys";

/// The longest time of one fetch, from the name's resolution to the last byte. Guards
/// against: an issuer that answers slowly or never.
const FETCH_TIME: Duration = Duration::from_secs(10);

/// The longest wait for the process, which ends a fetch by itself.
const ANSWER_TIME: Duration = Duration::from_secs(15);

/// The most bytes of an error in words. Guards against: an issuer that fills the log.
const ERROR_BYTES: usize = 512;

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
    requests: ChildStdin,
    answers: ChildStdout,
}

impl KeyFetcher {
    /// Starts the process, which is this program with [`FETCH_ARGUMENT`] and the sources:
    /// an address of `http`, or the absolute path of a file.
    pub(crate) fn start(program: &Path, sources: &[OsString]) -> anyhow::Result<Self> {
        ensure!(sources.len() <= usize::from(u8::MAX), "too many issuers");
        let mut child = Command::new(program)
            .arg(FETCH_ARGUMENT)
            .args(sources)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A terminal's Ctrl-C is for the server, which may have calls to finish.
            .process_group(0)
            .spawn()
            .context("cannot start the process that fetches keys")?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (requests, answers) = pipes.context("it has no pipes")?;
        let pipes = Pipes { requests, answers };
        Ok(Self(Arc::new(Mutex::new(FetchProcess(Some(pipes))))))
    }

    /// Fetches what is at a source, by its number.
    pub(crate) async fn fetch(&self, number: u8) -> anyhow::Result<Vec<u8>> {
        let process = Arc::clone(&self.0);
        let fetched = tokio::task::spawn_blocking(move || {
            let mut process = process.lock().unwrap_or_else(|broken| broken.into_inner());
            process.fetch(number)
        });
        fetched.await.context("the server is ending")?
    }
}

impl FetchProcess {
    fn fetch(&mut self, number: u8) -> anyhow::Result<Vec<u8>> {
        // A late answer would be taken for that of the next request, so pipes that fail
        // are closed.
        let ended = "the process that fetches keys has ended; start the server anew";
        let mut pipes = self.0.take().context(ended)?;
        let deadline = Instant::now() + ANSWER_TIME;
        let (kind, bytes) = pipes.ask(number, deadline).context(ended)?;
        self.0 = Some(pipes);
        match kind {
            KEYS => Ok(bytes),
            _ => bail!("{}", String::from_utf8_lossy(&bytes)),
        }
    }
}

impl Pipes {
    fn ask(&mut self, number: u8, deadline: Instant) -> io::Result<(u8, Vec<u8>)> {
        self.requests.write_all(&[number])?;
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
    let mut requests = io::stdin().lock();
    let mut answers = io::stdout().lock();
    let sources: Vec<OsString> = std::env::args_os().skip(2).collect();
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(FETCH_TIME))
        .max_redirects(0)
        .proxy(None)
        .user_agent("skillhost")
        .build()
        .new_agent();
    let mut number = [0];
    while requests.read(&mut number)? == 1 {
        let source = sources.get(usize::from(number[0]));
        let fetched = match source {
            Some(source) => fetch(&agent, source),
            None => Err("there is no such source".to_owned()),
        };
        let (kind, bytes) = match fetched {
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
    let body = answer.body_mut().with_config().limit(MOST_BYTES as u64);
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
