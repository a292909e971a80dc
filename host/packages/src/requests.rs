//! The requests of agents for packages: a file that only grows, with a JSON object in each line.
//!
//! A confined process appends through the broker, so it can neither change nor remove lines. It can
//! append any request, so requests for packages outside the operator's catalog are ignored.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use skillhost_skills::named_file;
use skillhost_skills::text::ascii_json;
use skillhost_skills::trust::{Trust, own_folder};

use crate::catalog::OfferedPackage;
use crate::reference::Reference;

/// The maximum size of the file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The maximum number of pending packages of a client. Guards against: a client that fills the
/// file, so that others cannot ask.
const MAX_PER_CLIENT: usize = 20;

/// The maximum number of characters of a client's name.
const MAX_CLIENT: usize = 64;

/// The maximum number of characters of a reason.
pub const MAX_REASON: usize = 500;

/// The maximum time that a request waits for a request of another process. Guards against: a
/// process that keeps the file locked.
const LOCK_TIME: Duration = Duration::from_secs(2);

/// The time between two attempts to lock the file, because `flock` has no timeout.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Serializes the requests of this process, because some file systems have no locks.
static TURN: Mutex<()> = Mutex::new(());

/// The file of the requests of a user's agents.
#[derive(Debug, Clone)]
pub struct RequestFile {
    path: PathBuf,
    trust: Trust,
}

/// A request for a package that is not added yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageRequest {
    /// The number of its line, which stays the same until the file is cleared.
    pub number: usize,
    /// The package.
    pub reference: Reference,
    /// The time, in RFC 3339.
    pub time: String,
    /// The client, or the transport if the client has no name.
    pub client: String,
    /// The reason that the agent gave.
    pub why: String,
}

/// The requests in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingRequests {
    /// The first request for each package.
    pub pending: Vec<PackageRequest>,
    /// The number of ignored lines: invalid ones, and requests for packages outside the catalog.
    pub ignored: usize,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Entry {
    Request(RequestEntry),
    Added(AddedEntry),
}

/// The line that says that a package was added. Only the operator's verbs write it, because the
/// broker refuses a line that starts like it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AddedEntry {
    added: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestEntry {
    request: String,
    #[serde(deserialize_with = "read_time")]
    time: String,
    client: String,
    why: String,
}

/// Reads a time, and formats it again: escaped code can write any text in place of a time.
fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = humantime::parse_rfc3339(&text).map_err(D::Error::custom)?;
    Ok(humantime::format_rfc3339_millis(time).to_string())
}

impl PackageRequest {
    fn is_for(&self, reference: &str) -> bool {
        self.reference.to_string() == reference
    }
}

impl RequestFile {
    /// Returns the file in a user's data folder, to read with the opener of `trust`.
    pub fn new(folder: &Path, trust: &Trust) -> Self {
        Self {
            path: folder.join("requests.jsonl"),
            trust: trust.clone(),
        }
    }

    /// Creates the folder and the file if they are missing. A confined process cannot lock a file
    /// that does not exist yet.
    ///
    /// # Errors
    ///
    /// If other users can write in the folder.
    pub fn create(&self) -> anyhow::Result<()> {
        let folder = self.path.parent().unwrap_or(&self.path);
        own_folder(folder, &self.trust).with_context(|| self.cannot_use())?;
        let created = named_file::append_package_request(&self.path, self.trust.opener(), "");
        created.with_context(|| self.cannot_use())
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the requests for packages of a catalog, in the order of their lines.
    ///
    /// # Errors
    ///
    /// If the file cannot be used.
    pub fn read(&self, catalog: &[OfferedPackage]) -> anyhow::Result<PendingRequests> {
        let text = self.text()?;
        let mut found = PendingRequests::default();
        for (line, number) in text.lines().zip(1..) {
            let pending = &mut found.pending;
            match serde_json::from_str(line) {
                Ok(Entry::Added(entry)) => pending.retain(|other| !other.is_for(&entry.added)),
                Ok(Entry::Request(entry)) => {
                    let mut references = catalog.iter().map(|package| &package.reference);
                    match references.find(|it| it.to_string() == entry.request) {
                        Some(_) if pending.iter().any(|other| other.is_for(&entry.request)) => {}
                        Some(reference) => pending.push(PackageRequest {
                            number,
                            reference: reference.clone(),
                            time: entry.time,
                            client: entry.client,
                            why: entry.why,
                        }),
                        None => found.ignored += 1,
                    }
                }
                Err(_) => found.ignored += 1,
            }
        }
        Ok(found)
    }

    /// Adds a request for a package, unless the file has one already.
    ///
    /// Returns whether the file has one now: `false` if the client has asked for too many others.
    ///
    /// # Errors
    ///
    /// If the file cannot be used, or would be too large.
    pub fn request(
        &self,
        package: &OfferedPackage,
        time: &str,
        client: &str,
        why: &str,
    ) -> anyhow::Result<bool> {
        let catalog = std::slice::from_ref(package);
        let _turn = self.wait_for_turn()?;
        if !self.read(catalog)?.pending.is_empty() {
            return Ok(true);
        }
        let start = |text: &str, max| text.chars().take(max).collect();
        let client: String = start(client, MAX_CLIENT);
        if self.count_pending(&client)? >= MAX_PER_CLIENT {
            return Ok(false);
        }
        self.append(&Entry::Request(RequestEntry {
            request: package.reference.to_string(),
            time: time.to_owned(),
            client,
            why: start(why, MAX_REASON),
        }))?;
        Ok(true)
    }

    /// Waits until no other request uses the file. Locks the file if it exists.
    fn wait_for_turn(&self) -> anyhow::Result<(MutexGuard<'static, ()>, Option<File>)> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.path.exists() {
            return Ok((turn, None));
        }
        let file = self.text_file().with_context(|| self.cannot_use())?;
        let start = Instant::now();
        while flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            ensure!(
                start.elapsed() < LOCK_TIME,
                "{}: another process keeps it locked",
                self.cannot_use()
            );
            thread::sleep(LOCK_PAUSE);
        }
        Ok((turn, Some(file)))
    }

    /// Returns the number of packages that a client asked for and nobody added yet.
    ///
    /// Counts packages that have left the catalog too.
    fn count_pending(&self, client: &str) -> anyhow::Result<usize> {
        let mut asked = BTreeSet::new();
        for line in self.text()?.lines() {
            match serde_json::from_str(line) {
                Ok(Entry::Request(entry)) if entry.client == client => {
                    asked.insert(entry.request);
                }
                Ok(Entry::Added(entry)) => {
                    asked.remove(&entry.added);
                }
                _ => {}
            }
        }
        Ok(asked.len())
    }

    /// Records that a package was added, which completes the requests for it.
    ///
    /// # Errors
    ///
    /// If the file cannot be used, or would be too large.
    pub fn mark_added(&self, reference: &Reference) -> anyhow::Result<()> {
        // Otherwise the line could become a part of a request that another process writes.
        let _turn = self.wait_for_turn()?;
        self.append(&Entry::Added(AddedEntry {
            added: reference.to_string(),
        }))
    }

    /// Removes all requests.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn clear(&self) -> anyhow::Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        self.text_file()?;
        let file = File::options().write(true).open(&self.path);
        let cleared = file.and_then(|file| file.set_len(0));
        cleared.with_context(|| format!("cannot clear `{}`", self.path.display()))
    }

    fn append(&self, entry: &Entry) -> anyhow::Result<()> {
        let line = ascii_json::to_string(entry)? + "\n";
        // A torn last line gets a line feed.
        let size = self.text()?.len() + 1 + line.len();
        ensure!(
            size as u64 <= MAX_BYTES,
            "{}: it would have more than {MAX_BYTES} bytes; `skillhost requests --clear` empties it",
            self.cannot_use()
        );
        let written = named_file::append_package_request(&self.path, self.trust.opener(), &line);
        written.with_context(|| format!("cannot write to `{}`", self.path.display()))
    }

    fn text(&self) -> anyhow::Result<String> {
        if !self.path.exists() {
            return Ok(String::new());
        }
        let text = self
            .text_file()
            .and_then(|file| named_file::read_all_text(file, MAX_BYTES));
        text.with_context(|| self.cannot_use())
    }

    fn text_file(&self) -> anyhow::Result<File> {
        named_file::open_public(&self.path, &self.trust, self.trust.opener())
    }

    fn cannot_use(&self) -> String {
        format!("cannot use the file of requests `{}`", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const TIME: &str = "2026-11-28T18:00:00.000Z";

    fn package(name: &str) -> OfferedPackage {
        OfferedPackage {
            reference: format!("oci://registry.example/acme/{name}:1")
                .parse()
                .unwrap(),
            description: "Rows.".to_owned(),
        }
    }

    #[test]
    fn counts_each_package_of_the_catalog_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = RequestFile::new(&folder.path().join("requests"), &Trust::new());
        let (csv, zip, other) = (package("csv"), package("zip"), package("other"));
        let catalog = [csv.clone(), zip.clone()];
        let numbers = || -> Vec<(usize, String)> {
            let requests = file.read(&catalog).unwrap();
            let pending = requests.pending.into_iter();
            pending
                .map(|request| (request.number, request.reference.last_name().to_owned()))
                .collect()
        };
        let line = |number: usize, name: &str| (number, name.to_owned());
        assert_eq!(numbers(), []);
        file.create().unwrap();
        for (package, why) in [(&csv, "a"), (&other, "b"), (&zip, "c"), (&csv, "d")] {
            assert!(file.request(package, TIME, "agent", why).unwrap());
        }
        assert_eq!(numbers(), [line(1, "csv"), line(3, "zip")]);
        let requests = file.read(&catalog).unwrap();
        assert_eq!((requests.ignored, &*requests.pending[0].why), (1, "a"));
        // A line that starts like a request is never read as an entry of the operator.
        let forged = format!("{{\"request\":\"x\",\"added\":\"{}\"}}\n", csv.reference);
        let mut appended = std::fs::read(file.path()).unwrap();
        appended.extend(forged.as_bytes());
        std::fs::write(file.path(), appended).unwrap();
        assert_eq!(numbers(), [line(1, "csv"), line(3, "zip")]);
        // The number of a request stays the same when another one is completed.
        file.mark_added(&csv.reference).unwrap();
        assert_eq!(numbers(), [line(3, "zip")]);
        file.request(&csv, TIME, "agent", "again").unwrap();
        assert_eq!(numbers(), [line(3, "zip"), line(6, "csv")]);
        file.clear().unwrap();
        assert_eq!(numbers(), []);
        assert_eq!(std::fs::read(file.path()).unwrap(), b"");
    }

    #[test]
    fn one_client_cannot_use_up_requests() {
        let folder = tempfile::tempdir().unwrap();
        let file = RequestFile::new(folder.path(), &Trust::new());
        let packages: Vec<_> = (0..=MAX_PER_CLIENT)
            .map(|number| package(&format!("p{number}")))
            .collect();
        let ask = |client: &str, number: usize| {
            let package = &packages[number];
            file.request(package, TIME, client, "why").unwrap()
        };
        let last = MAX_PER_CLIENT;
        let long = "c".repeat(MAX_CLIENT + 1);
        for client in ["greedy", &long] {
            file.clear().unwrap();
            assert!((0..last).all(|number| ask(client, number)));
            assert!(!ask(client, last));
            // This request is in the file already.
            assert!(ask(client, 0));
            assert!(ask("other", last));
            file.mark_added(&packages[0].reference).unwrap();
            assert!(ask(client, 0));
        }
    }

    #[test]
    fn serializes_concurrent_requests() {
        let folder = tempfile::tempdir().unwrap();
        let file = RequestFile::new(folder.path(), &Trust::new());
        file.create().unwrap();
        let packages: Vec<_> = (0..2 * MAX_PER_CLIENT)
            .map(|number| package(&format!("p{number}")))
            .collect();
        let start = std::sync::Barrier::new(2 * packages.len());
        std::thread::scope(|scope| {
            for package in packages.iter().chain(&packages) {
                scope.spawn(|| {
                    start.wait();
                    file.request(package, TIME, "greedy", "why").unwrap()
                });
            }
        });
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text.lines().count(), MAX_PER_CLIENT);
        assert_eq!(file.read(&packages).unwrap().pending.len(), MAX_PER_CLIENT);
    }

    #[test]
    fn request_waits_for_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let file = RequestFile::new(folder.path(), &Trust::new());
        file.create().unwrap();
        let csv = package("csv");
        let locked = file.text_file().unwrap();
        flock(&locked, FlockOperation::LockExclusive).unwrap();
        std::thread::scope(|scope| {
            let request = scope.spawn(|| file.request(&csv, TIME, "agent", "a").unwrap());
            // A request that does not wait ends in this time. No event shows that it waits.
            std::thread::sleep(Duration::from_millis(200));
            let line = format!(
                "{{\"request\":\"{}\",\"time\":\"{TIME}\",\"client\":\"b\",\"why\":\"b\"}}\n",
                csv.reference
            );
            let mut appended = File::options().append(true).open(file.path()).unwrap();
            appended.write_all(line.as_bytes()).unwrap();
            drop(locked);
            assert!(request.join().unwrap());
        });
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn marks_nothing_while_another_process_locks_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = RequestFile::new(folder.path(), &Trust::new());
        file.create().unwrap();
        let locked = file.text_file().unwrap();
        flock(&locked, FlockOperation::LockExclusive).unwrap();
        let error = file.mark_added(&package("csv").reference).unwrap_err();
        assert!(error.to_string().contains("keeps it locked"), "{error:#}");
        assert_eq!(std::fs::read(file.path()).unwrap(), b"");
    }

    #[test]
    fn request_after_torn_line_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = RequestFile::new(folder.path(), &Trust::new());
        let csv = package("csv");
        std::fs::write(file.path(), "{\"request\":\"oci://regi").unwrap();
        assert!(file.request(&csv, TIME, "agent", "why").unwrap());
        let requests = file.read(std::slice::from_ref(&csv)).unwrap();
        assert_eq!((requests.pending[0].number, requests.ignored), (2, 1));
    }

    #[test]
    fn requests_are_short_lines_of_ascii() {
        let folder = tempfile::tempdir().unwrap();
        let file = RequestFile::new(folder.path(), &Trust::new());
        let csv = package("csv");
        let why = "\u{1b}[31m\n\u{202e}\u{1f600}\u{7f}\"".repeat(100);
        file.request(&csv, TIME, &"c".repeat(1000), &why).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text.lines().count(), 1);
        let is_plain = |c: u8| (b' '..=b'~').contains(&c);
        assert!(text.trim_end().bytes().all(is_plain), "{text}");
        let read = file
            .read(std::slice::from_ref(&csv))
            .unwrap()
            .pending
            .remove(0);
        assert_eq!(read.why, why.chars().take(MAX_REASON).collect::<String>());
        assert_eq!(read.client.len(), MAX_CLIENT);
        // A full file accepts no more requests.
        std::fs::write(file.path(), "x".repeat(MAX_BYTES as usize)).unwrap();
        let error = format!("{:#}", file.request(&csv, TIME, "c", "w").unwrap_err());
        assert!(error.contains("requests --clear"), "{error}");
    }
}
