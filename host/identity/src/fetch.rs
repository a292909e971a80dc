//! A process that fetches the keys of issuers, so that the server itself opens no
//! connection. It is started before the server confines itself, knows the addresses of the
//! configuration alone, and is asked by their numbers over a pipe.

use std::io::{self, BufRead as _, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::keys::MOST_BYTES;

/// The one argument of the process. It is no verb for people.
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

#[derive(Debug)]
struct FetchProcess {
    child: Child,
    requests: ChildStdin,
    answers: ChildStdout,
}

impl KeyFetcher {
    /// Starts the process, which is this program with [`FETCH_ARGUMENT`].
    pub(crate) fn start(program: &Path, addresses: &[String]) -> anyhow::Result<Self> {
        ensure!(addresses.len() <= usize::from(u8::MAX), "too many issuers");
        let mut child = Command::new(program)
            .arg(FETCH_ARGUMENT)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the process that fetches keys")?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (mut requests, answers) = pipes.context("it has no pipes")?;
        let mut list = serde_json::to_string(addresses)?;
        list.push('\n');
        requests.write_all(list.as_bytes())?;
        Ok(Self(Arc::new(Mutex::new(FetchProcess {
            child,
            requests,
            answers,
        }))))
    }

    /// Fetches what is at an address, by its number.
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
        let deadline = Instant::now() + ANSWER_TIME;
        let answer = self.ask(number, deadline);
        if answer.is_err() {
            // A late answer would be taken for that of the next request.
            let _ = self.child.kill();
        }
        let (kind, bytes) = answer.context("the process that fetches keys has ended")?;
        match kind {
            KEYS => Ok(bytes),
            _ => bail!("{}", String::from_utf8_lossy(&bytes)),
        }
    }

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

impl Drop for FetchProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fetches keys for the server that started this process, until that ends.
pub fn fetch_keys() -> anyhow::Result<()> {
    let mut requests = io::stdin().lock();
    let mut answers = io::stdout().lock();
    let mut list = String::new();
    requests.read_line(&mut list)?;
    let addresses: Vec<String> = serde_json::from_str(&list)?;
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(FETCH_TIME))
        .max_redirects(0)
        .proxy(None)
        .user_agent("skillhost")
        .build()
        .new_agent();
    let mut number = [0];
    while requests.read(&mut number)? == 1 {
        let address = addresses.get(usize::from(number[0]));
        let fetched = match address {
            Some(address) => fetch(&agent, address),
            None => Err("there is no such address".to_owned()),
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

fn fetch(agent: &ureq::Agent, address: &str) -> Result<Vec<u8>, String> {
    let request = agent.get(address).header("Accept", "application/json");
    let mut answer = request.call().map_err(|error| error.to_string())?;
    if answer.status() != 200 {
        return Err(format!("it answers {}", answer.status()));
    }
    let body = answer.body_mut().with_config().limit(MOST_BYTES as u64);
    body.read_to_vec().map_err(|error| error.to_string())
}
