//! The file of an audit log. Records are appended to its chain, whoever else appends:
//! other processes with the same log, and whatever rotates it by renaming it or by
//! copying and emptying it.
//!
//! Each append takes the file's lock, so that two processes do not use one place of
//! the chain. It writes once. What it finds at the end of the file and did not write
//! itself it reads again: records of another process, or a part of a record.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, statat};
use rustix::io::Errno;

use super::chain::{CONTINUED, Link, Signed, TORN};
use super::checkpoint::CheckpointSigner;
use super::end::{self, FileEnd, LastRecord, LogEnd};
use super::record::{EventRecord, to_json};
use super::wait_limit::WaitLimit;
use skillhost_skills::trust::Trust;
use skillhost_skills::{delegate, named_file};

/// The pause between looks at a lock.
const LOCK_PAUSE: Duration = Duration::from_micros(200);

/// The most bytes of other processes that are read while they wait for the lock.
const MOST_LOCKED: u64 = 8 << 20;

/// The most bytes of other processes that are read before a record. Guards against: a sparse
/// file of a terabyte, which a call would read for hours.
const MOST_UNREAD: u64 = 4 << 30;

/// The size of a file of which this process does not know the end.
const UNKNOWN: u64 = u64::MAX;

/// The open file of a log.
pub(super) struct LogFile {
    folder: OwnedFd,
    name: OsString,
    trust: Trust,
    signer: Option<Signer>,
    /// The longest wait for another process that writes to the log.
    wait: WaitLimit,
    file: File,
    /// Device and inode, to notice that another file has the name.
    identity: (u64, u64),
    /// The size after the last record of this process.
    size: u64,
    /// The link of the next record.
    next: Link,
    /// The line of the record before it, without its line feed. `None` if this process
    /// has not met it in this file.
    last: Option<Range<u64>>,
}

/// Signs the checkpoints of a process.
#[derive(Clone)]
pub(super) struct Signer {
    signer: Arc<dyn CheckpointSigner>,
    process: Arc<str>,
}

/// Lines to append to a log.
struct Batch {
    /// The size of the file before them.
    at: u64,
    bytes: Vec<u8>,
    next: Link,
    last: Option<Range<u64>>,
    /// A checkpoint among them.
    checkpoint: Option<Vec<u8>>,
}

impl LogFile {
    /// Opens a log for appending. Reads its end, so that the next record goes on with its
    /// chain, and closes a record that is torn. Signs what is there, before this process
    /// adds to it.
    pub(super) fn open(
        path: &Path,
        trust: &Trust,
        signer: Option<Signer>,
        wait: WaitLimit,
    ) -> anyhow::Result<Self> {
        let (folder, name) = open_folder(path, trust)?;
        let (file, identity) = open_file(&folder, name, trust)?;
        let mut log = Self {
            folder,
            name: name.to_owned(),
            trust: trust.clone(),
            signer,
            wait,
            file,
            identity,
            size: UNKNOWN,
            next: Link::FIRST,
            last: None,
        };
        log.locked(|log| {
            let size = log.file.metadata()?.len();
            // A foreign file may be large, and is not read for records.
            let kind = end::kind(&log.file, size)?;
            if kind == LogEnd::Foreign {
                bail!(
                    "it ends in a line that is no audit record: name a new file, an empty one, \
                     or an audit log"
                );
            }
            let last = end::read(&log.file, size)?.last;
            if let Some(last) = last {
                (log.next, log.last) = (last.next, Some(last.line));
            }
            if kind == LogEnd::Torn {
                tracing::warn!(
                    "the last record of the audit log `{}` is torn; it is closed",
                    path.display()
                );
                let batch = log.catch_up(size)?;
                log.write(batch)?;
            }
            Ok(())
        })?;
        if log.signer.is_some() && !log.ends_in_own_checkpoint()? {
            log.checkpoint()?;
        }
        Ok(log)
    }

    /// Appends a record, which is a JSON object.
    pub(super) fn append(&mut self, record: Vec<u8>) -> io::Result<()> {
        self.append_batch(|batch| {
            batch.add(record, Link::seal);
            Ok(())
        })
    }

    /// Appends a checkpoint, if there is a signer, and publishes it.
    pub(super) fn checkpoint(&mut self) -> io::Result<()> {
        match self.signer.clone() {
            Some(signer) => self.append_batch(|batch| batch.sign(&signer)),
            None => Ok(()),
        }
    }

    /// Waits until readers have the checkpoints, or a bound of time has passed.
    pub(super) fn finish(&self) {
        if let Some(signer) = &self.signer {
            signer.signer.finish();
        }
    }

    fn append_batch(&mut self, add: impl FnOnce(&mut Batch) -> io::Result<()>) -> io::Result<()> {
        // Others wait for the lock only for a time.
        let size = self.size_on_disk()?;
        if size.saturating_sub(self.last.as_ref().map_or(0, |last| last.end)) > MOST_LOCKED {
            // An error comes again below, unless the file was renamed.
            let _ = self.learn(size);
        }
        self.locked(|log| {
            log.follow()?;
            let size = log.size_on_disk()?;
            let mut batch = match size == log.size {
                true => Batch::new(size, log.next, log.last.clone()),
                false => log.catch_up(size)?,
            };
            add(&mut batch)?;
            log.write(batch)
        })
    }

    /// Works on the file while no other process appends to it.
    fn locked<T, E: From<io::Error>>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        lock(&self.file, &mut self.wait)?;
        let done = work(self);
        // The file may be another one now, which is locked as well. The lock of the one
        // before it ended when that was closed.
        let _ = flock(&self.file, FlockOperation::Unlock);
        done
    }

    /// Opens the file that has the log's name now, if there is another one.
    pub(super) fn follow_rename(&mut self) {
        // Without a file, the next record creates one.
        if !matches!(self.named(), Ok(Some(other)) if other != self.identity) {
            return;
        }
        if let Err(error) = self.locked(Self::follow) {
            tracing::debug!("the audit log was renamed, and is not followed yet: {error}");
        }
    }

    /// Opens the file that has the log's name now, if it is another one.
    fn follow(&mut self) -> io::Result<()> {
        if self.named()? == Some(self.identity) {
            return Ok(());
        }
        // Others may have written the last records of the old file.
        let old_size = self.size_on_disk()?;
        if old_size != self.size
            && let Err(error) = self.learn(old_size)
        {
            tracing::error!("the audit log was renamed, and its end was not read: {error}");
        }
        let opened = open_file(&self.folder, &self.name, &self.trust);
        let (file, identity) = opened.map_err(|error| {
            let why = format!("the log was renamed, and the new one cannot be used: {error:#}");
            io::Error::other(why)
        })?;
        lock(&file, &mut self.wait)?;
        let size = file.metadata()?.len();
        if end::kind(&file, size)? == LogEnd::Foreign {
            let why = "the log was replaced by a file that is no audit log";
            return Err(io::Error::other(why));
        }
        let (old, own) = (std::mem::replace(&mut self.file, file), self.next);
        (self.identity, self.size) = (identity, UNKNOWN);
        let last = self.last.take();
        self.learn(size)?;
        // Nobody else signs the end of the chain that this process leaves.
        if self.next.chain != own.chain
            && let Some(signer) = &self.signer
            && last.is_some_and(|line| line.end + 1 == old_size)
        {
            let mut batch = Batch::new(old_size, own, None);
            batch.sign(signer)?;
            (&old).write_all(&batch.bytes)?;
            signer.signer.publish(&batch.bytes);
        }
        Ok(())
    }

    /// Returns the device and number of the file that has the log's name now.
    fn named(&self) -> io::Result<Option<(u64, u64)>> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some((found.st_dev, found.st_ino))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what others appended to the file's chain. It counts if it follows the last
    /// record that this process knows of. If the file does not have that record, another
    /// one must vouch for the file: see [`Self::vouches`]. Otherwise this process continues
    /// its own chain, so that `verify` finds the change.
    fn learn(&mut self, size: u64) -> io::Result<FileEnd> {
        let unread = size.saturating_sub(self.last.as_ref().map_or(0, |last| last.end));
        if unread > MOST_UNREAD {
            let why = format!("others have written {unread} bytes to it: rename it");
            return Err(io::Error::other(why));
        }
        let mut end = end::read(&self.file, size)?;
        let own = self.next;
        let known = self.last.clone().filter(|line| line.end <= size);
        let known = known.map(|line| LastRecord { next: own, line });
        let walk = end::walk(&self.file, size, known, |line, link, is_first| {
            self.vouches(line, link, is_first)
        })?;
        let misplaced = match &walk.last {
            Some(_) => walk.has_others,
            None => end.last.is_some(),
        };
        if misplaced {
            tracing::error!(
                "the audit log was changed: it has records that do not follow record {}; this \
                 process continues its own chain",
                walk.last
                    .as_ref()
                    .map_or(own, |last| last.next)
                    .sequence
                    .saturating_sub(1)
            );
        }
        if let Some(last) = walk.last {
            if last.next.chain != own.chain && own != Link::FIRST {
                tracing::warn!(
                    "another process began a new chain in the audit log; this process continues it"
                );
            }
            (self.next, self.last) = (last.next, Some(last.line.clone()));
            end.last = Some(last);
        }
        Ok(end)
    }

    /// Returns whether this process may continue the chain of a file behind this record,
    /// although the last record that it knows of is not where it wrote it.
    fn vouches(&self, line: &[u8], link: Link, is_first: bool) -> bool {
        let (own, after) = (self.next, link.after(line));
        // Another process began the file, or it is a copy.
        if is_first && link == own || after == own {
            return true;
        }
        let is_later = match after.chain == own.chain {
            // There may have been a file in between.
            true => after.sequence > own.sequence,
            // Another process did not find the file before this one. That begins no chain
            // in a file that this process has read.
            false => self.last.is_none(),
        };
        is_later
            && match &self.signer {
                Some(signer) => signer.has_signed(line),
                // A chain without signatures proves nothing.
                None => is_first,
            }
    }

    /// Begins a batch with what must be written before the next record of a file that
    /// others have changed: the end of a line, and a record of what stands between those of
    /// the chain.
    fn catch_up(&mut self, size: u64) -> io::Result<Batch> {
        let end = self.learn(size)?;
        let mut batch = Batch::new(size, self.next, self.last.clone());
        let chained = end.last.as_ref().map_or(0, |last| last.line.end + 1);
        if chained > size {
            batch.bytes.push(b'\n');
            return Ok(batch);
        }
        let is_new = size == 0 && self.next != Link::FIRST;
        if chained == size && !is_new {
            return Ok(batch);
        }
        if end.kind != LogEnd::Whole {
            batch.bytes.push(b'\n');
        }
        // The first record of a file says so, whatever is before it.
        let is_first = end.last.is_none() && self.next != Link::FIRST;
        let outcome = match end.kind {
            LogEnd::Torn | LogEnd::Foreign if !is_first => TORN,
            _ => CONTINUED,
        };
        let digest = end::digest(&self.file, chained, size, &batch.bytes)?;
        let gap = size - chained + batch.bytes.len() as u64;
        let event = to_json(&EventRecord::after_gap(outcome, gap, &digest))?;
        batch.add(event, Link::seal);
        // It vouches for the file to processes that have not read the one before it.
        if let Some(signer) = self.signer.as_ref().filter(|_| is_first) {
            batch.sign(signer)?;
        }
        Ok(batch)
    }

    /// Returns whether the last record is a checkpoint of this process's key.
    fn ends_in_own_checkpoint(&self) -> io::Result<bool> {
        let (Some(signer), Some(line)) = (&self.signer, &self.last) else {
            return Ok(false);
        };
        let mut record = vec![0; (line.end - line.start) as usize];
        self.file.read_exact_at(&mut record, line.start)?;
        Ok(signer.has_signed(&record))
    }

    /// Writes lines at the end of the file. If that fails, the number of written bytes is
    /// unknown.
    fn write(&mut self, batch: Batch) -> io::Result<()> {
        self.size = UNKNOWN;
        self.file.write_all(&batch.bytes)?;
        self.wait.restore();
        self.size = batch.at + batch.bytes.len() as u64;
        (self.next, self.last) = (batch.next, batch.last);
        if let (Some(signer), Some(line)) = (&self.signer, batch.checkpoint) {
            signer.signer.publish(&line);
        }
        Ok(())
    }

    fn size_on_disk(&self) -> io::Result<u64> {
        let size = fstat(&self.file)?.st_size;
        Ok(u64::try_from(size).unwrap_or_default())
    }
}

impl Signer {
    pub(super) fn new(signer: Arc<dyn CheckpointSigner>, process: &Arc<str>) -> Self {
        let process = Arc::clone(process);
        Self { signer, process }
    }

    /// Returns the number of records after which there is a checkpoint.
    pub(super) fn records(&self) -> u64 {
        self.signer.records()
    }

    /// Returns the longest time from a record to a checkpoint.
    pub(super) fn time(&self) -> Duration {
        self.signer.time()
    }

    /// Returns whether a line is a checkpoint of this key.
    fn has_signed(&self, line: &[u8]) -> bool {
        // Ed25519 gives a message one signature.
        let is_own = |signed: Signed<'_>| self.signer.sign(signed.message) == signed.signature;
        Signed::of(line).is_some_and(is_own)
    }
}

impl Batch {
    fn new(at: u64, next: Link, last: Option<Range<u64>>) -> Self {
        Self {
            at,
            bytes: Vec::new(),
            next,
            last,
            checkpoint: None,
        }
    }

    /// Adds a record, which gets its link and its signature from `seal`.
    fn add(&mut self, mut record: Vec<u8>, seal: impl FnOnce(Link, &mut Vec<u8>)) {
        seal(self.next, &mut record);
        self.next = self.next.after(&record);
        record.push(b'\n');
        let start = self.at + self.bytes.len() as u64;
        self.last = Some(start..start + record.len() as u64 - 1);
        match self.bytes.is_empty() {
            true => self.bytes = record,
            false => self.bytes.append(&mut record),
        }
    }

    /// Adds a checkpoint.
    fn sign(&mut self, Signer { signer, process }: &Signer) -> io::Result<()> {
        let record = to_json(&EventRecord::checkpoint(signer.key_id(), process))?;
        let start = self.bytes.len();
        self.add(record, |link, record| {
            link.seal_signed(record, |message| signer.sign(message));
        });
        self.checkpoint = Some(self.bytes[start..].to_vec());
        Ok(())
    }
}

/// Takes the lock of a file. Waits for another process that has it, up to a limit.
fn lock(file: &File, wait: &mut WaitLimit) -> io::Result<()> {
    wait.observe(lock_within(file, wait.time()))
}

fn lock_within(file: &File, time: Duration) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if start.elapsed() < time => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(Errno::WOULDBLOCK) => {
                let why = format!("another process has locked it for {time:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(Errno::INTR) => {}
            locked => return Ok(locked?),
        }
    }
}

/// Opens the file of an audit log, or makes it for its owner alone, before this process
/// confines itself: it makes no file later.
///
/// # Errors
///
/// If others can change it, or the system refuses.
pub fn open_audit_log(path: &Path, trust: &Trust) -> anyhow::Result<OwnedFd> {
    let open = || -> anyhow::Result<OwnedFd> {
        let (folder, name) = open_folder(path, trust)?;
        let (file, _) = open_file(&folder, name, trust)?;
        Ok(file.into())
    };
    open().with_context(|| cannot_use(path))
}

/// Returns what is said of a log that cannot be used.
pub(super) fn cannot_use(path: &Path) -> String {
    format!("cannot use the audit log `{}`", path.display())
}

/// Checks and opens the folder of a log. Returns the log's name in it.
fn open_folder<'p>(path: &'p Path, trust: &Trust) -> anyhow::Result<(OwnedFd, &'p OsStr)> {
    trust.check_parent(path)?;
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().context("it is not a regular file")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((rustix::fs::open(folder, flags, Mode::empty())?, name))
}

/// Opens a log by its name in its folder, or makes it. It must belong to the user
/// alone.
fn open_file(folder: &OwnedFd, name: &OsStr, trust: &Trust) -> anyhow::Result<(File, (u64, u64))> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    let flags = flags | OFlags::NOFOLLOW | named_file::UNKNOWN_KIND;
    let file = match openat(folder.as_fd(), name, flags, Mode::RUSR | Mode::WUSR) {
        // The wall around this process leaves the file that had the name before.
        Err(Errno::ACCESS) if let Some(delegate) = delegate::get() => delegate
            .open_log()
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS)),
        opened => opened,
    };
    let file = file.map_err(|error| match error {
        Errno::LOOP => anyhow::anyhow!("it is a symlink; name the file itself"),
        error => error.into(),
    })?;
    let file = File::from(file);
    let metadata = file.metadata()?;
    named_file::check_kind(&metadata)?;
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    if !trust.has_user(owner) || mode & 0o077 != 0 {
        bail!(
            "it belongs to user {owner} and has mode {mode:04o}; it must belong to the user who \
             runs skillhost, or to one that `--trust` names, and nobody else may read or write it \
             (mode 0600)"
        );
    }
    Ok((file, (metadata.dev(), metadata.ino())))
}

#[cfg(test)]
mod tests {
    use rustix::fs::fcntl_getfl;
    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;

    #[test]
    fn a_program_that_is_started_gets_no_file_of_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = LogFile::open(
            &folder.path().join("log"),
            &Trust::new(),
            None,
            WaitLimit::new(),
        )
        .unwrap();
        for descriptor in [log.folder.as_fd(), log.file.as_fd()] {
            let flags = fcntl_getfd(descriptor).unwrap();
            assert!(flags.contains(FdFlags::CLOEXEC));
        }
        // Opening a device, which is refused, must not wait for it.
        let flags = fcntl_getfl(&log.file).unwrap();
        assert!(flags.contains(OFlags::NONBLOCK));
    }

    #[test]
    fn a_file_that_another_process_has_locked_is_waited_for_and_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::create(folder.path().join("log")).unwrap();
        let (own, other) = (open(), open());
        let time = Duration::from_millis(20);
        lock_within(&other, time).unwrap();
        let start = Instant::now();
        let error = lock_within(&own, time).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= time);
        std::thread::scope(|threads| {
            threads.spawn(|| lock_within(&own, Duration::from_secs(5)).unwrap());
            drop(other);
        });
    }
}
