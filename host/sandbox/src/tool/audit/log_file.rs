//! Appends records to the chain in the file of an audit log.
//!
//! Other processes may append to the same file, or rotate it: by renaming it, or by copying and
//! emptying it. Each append takes the file's lock, so that two processes never use the same
//! position of the chain, and writes once. If the file has changed since this process wrote to
//! it, the append first reads the new end: records of another process, or a torn record.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, statat};
use rustix::io::Errno;

use super::chain::{
    CONTINUED, Link, RECORD_START, SignedLine, TORN, format_time, parse_time, time_of,
};
use super::checkpoint::CheckpointSigner;
use super::end::{self, FileEnd, LastRecord, LogEnd};
use super::record::{EventRecord, to_json};
use super::wait_limit::WaitLimit;
use skillhost_skills::broker::Opener;
use skillhost_skills::guard;
use skillhost_skills::named_file;
use skillhost_skills::trust::Trust;

/// The flags for opening a log. This process also reads the records that other processes append.
const APPENDING: OFlags = OFlags::RDWR.union(OFlags::APPEND);

/// The pause between two attempts to take a lock.
const LOCK_PAUSE: Duration = Duration::from_micros(200);

/// The maximum number of bytes from other processes that this process reads while it holds the
/// lock.
const MAX_LOCKED_BYTES: u64 = 8 << 20;

/// The maximum number of bytes from other processes that this process reads before it appends a
/// record. Guards against: a sparse file of a terabyte, which a call would read for hours.
const MAX_UNREAD_BYTES: u64 = 4 << 30;

/// The maximum number of signatures that are checked when a file is read. Guards against: lines that
/// only look signed.
const MAX_SIGNATURES: usize = 1_000;

/// The maximum number of records in [`LogFile::joined_from`]. Beyond it, this process continues its
/// own chain. Guards against: a log that is replaced again and again.
const MAX_JOINED: usize = 16;

/// The longest time by which the clocks of processes that share a log may differ, and by which one may
/// notice a rotation before another.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);

/// The value of [`LogFile::size`] while this process does not know the end of the file.
const UNKNOWN_SIZE: u64 = u64::MAX;

/// The open file of a log.
pub(super) struct LogFile {
    folder: OwnedFd,
    name: OsString,
    trust: Trust,
    opener: Opener,
    signer: Option<Signer>,
    /// The longest wait for another process that writes to the log.
    wait: WaitLimit,
    file: File,
    /// The device and inode, which show if another file has the name now.
    identity: (u64, u64),
    /// The size after the last record of this process.
    size: u64,
    /// True once misplaced records were reported since this process's last record.
    has_reported: bool,
    /// The link of the next record.
    next: Link,
    /// The byte range of the last record, without its line feed. `None` if this process has not
    /// seen that record in this file.
    last: Option<Range<u64>>,
    /// The file's size when this process last looked for records of others.
    followed_size: u64,
    /// True while this process cannot look for records of others.
    cannot_follow: bool,
    /// For each time that this process joined the file's chain without finding the last record that
    /// it knew: the link after that record. The next batch names them.
    joined_from: Vec<Link>,
    /// The link after the last record with this process's key that does not follow its own, and whether
    /// the record was in this file. The next batch names it too, so that `verify` finds out if it was
    /// removed.
    unfollowed: Option<(Link, bool)>,
    /// The time at which this process opened the log, last wrote to it, or last found records of
    /// others.
    active_at: (SystemTime, Instant),
    /// The size of the file after the last attempt to write to it, under the lock. If writing failed,
    /// the records up to here are complete.
    written: u64,
}

/// The signer of a process's checkpoints.
#[derive(Clone)]
pub(super) struct Signer {
    inner: Arc<dyn CheckpointSigner>,
    process: Arc<str>,
}

/// Lines to append to a log.
struct Batch {
    /// The size of the file before the lines.
    start: u64,
    bytes: Vec<u8>,
    next: Link,
    /// The byte range of each line without its line feed, and the link after it.
    lines: Vec<(Link, Range<u64>)>,
    /// The checkpoint among the lines.
    checkpoint: Option<Vec<u8>>,
}

impl LogFile {
    /// Opens a log for appending.
    ///
    /// Reads the end of the file, so that the next record continues the file's chain. Adds a line
    /// feed to a torn record. Signs the existing records before this process adds others.
    pub(super) fn open(
        path: &Path,
        trust: &Trust,
        opener: &Opener,
        signer: Option<Signer>,
        wait: WaitLimit,
    ) -> anyhow::Result<Self> {
        let (folder, name) = open_folder(path, &trust.with_opener(opener))?;
        let (file, identity) = open_file(&folder, name, trust, opener)?;
        let mut log = Self {
            folder,
            name: name.to_owned(),
            trust: trust.clone(),
            opener: opener.clone(),
            signer,
            wait,
            file,
            identity,
            size: UNKNOWN_SIZE,
            has_reported: false,
            next: Link::FIRST,
            last: None,
            followed_size: UNKNOWN_SIZE,
            active_at: (SystemTime::now(), Instant::now()),
            cannot_follow: false,
            joined_from: Vec::new(),
            unfollowed: None,
            written: 0,
        };
        log.with_lock(|log| {
            let mut end = end::read(&log.file, log.file.metadata()?.len())?;
            // A foreign file may be large, so it is not searched for records.
            if end.kind == LogEnd::Foreign {
                bail!(
                    "it ends in a line that is not an audit record; name a new file, an empty \
                     one, or an audit log"
                );
            }
            if let Some(last) = end.find_last(&log.file)? {
                (log.next, log.last) = (last.next, Some(last.line.clone()));
            }
            if end.kind == LogEnd::Torn {
                tracing::warn!(
                    "the last record of the audit log `{}` is torn; the next record reports it",
                    path.display()
                );
                let batch = log.catch_up(end)?;
                log.write(batch)?;
            }
            Ok(())
        })?;
        if log.signer.is_some() && !log.ends_in_own_checkpoint()? {
            log.checkpoint()?;
        }
        Ok(log)
    }

    /// Takes the lock, and appends the records that `take_records` returns.
    ///
    /// Each record is a JSON object without a line feed. Also returns the number of records that
    /// are completely in the file, which can be more than zero even if writing failed.
    pub(super) fn append(
        &mut self,
        take_records: impl FnOnce() -> Vec<Vec<u8>>,
    ) -> (io::Result<()>, usize) {
        let mut ends = Vec::new();
        self.written = 0;
        let appended = self.append_batch(|batch| {
            for record in take_records() {
                batch.add(record, Link::seal);
                ends.push(batch.end());
            }
            Ok(())
        });
        let complete = ends.iter().filter(|end| **end <= self.written);
        (appended, complete.count())
    }

    /// Appends a checkpoint and sends it to sinks, if there is a signer.
    pub(super) fn checkpoint(&mut self) -> io::Result<()> {
        match self.signer.clone() {
            Some(signer) => self.append_batch(|batch| batch.sign(&signer)),
            None => Ok(()),
        }
    }

    /// Waits until the sinks have the checkpoints, up to a limit.
    ///
    /// Signs the records of other processes too. If the last record that this process knows is not in
    /// the file, the checkpoint lets `verify` find the change.
    pub(super) fn finish(&mut self) {
        let Some(signer) = self.signer.clone() else {
            return;
        };
        self.follow();
        let ends_well = self.has_known_record()
            && (self.last.is_none() || self.ends_in_own_checkpoint().is_ok_and(|ends| ends));
        if !ends_well && let Err(error) = self.checkpoint() {
            tracing::error!("cannot write the last checkpoint of the audit log: {error}");
        }
        signer.inner.finish();
    }

    /// Returns whether the file has the last record that this process knows, or no record yet, and the
    /// log has named every record that this process did not find.
    fn has_known_record(&self) -> bool {
        if self.unfollowed.is_some() || !self.joined_from.is_empty() {
            return false;
        }
        match self.read_last() {
            Ok(Some(record)) => {
                let link = Link::parse(&record);
                link.is_some_and(|link| link.next_after(&record) == self.next)
            }
            // A rotation has replaced or emptied the file.
            _ => self.size_on_disk().is_ok_and(|size| size == 0),
        }
    }

    fn append_batch(&mut self, add: impl FnOnce(&mut Batch) -> io::Result<()>) -> io::Result<()> {
        // Other processes wait for the lock for a limited time, so this process reads many bytes
        // before it takes the lock.
        let size = self.size_on_disk()?;
        if unread(size, self.last.as_ref()) > MAX_LOCKED_BYTES {
            // An error occurs again below, unless the file was renamed.
            let end = read_end(&self.file, size, self.last.as_ref());
            let _ = end.and_then(|end| self.read_changes(end));
        }
        self.with_lock(|log| {
            log.reopen_if_renamed()?;
            let size = log.size_on_disk()?;
            let mut batch = if size == log.size {
                Batch::new(size, log.next)
            } else {
                let end = read_end(&log.file, size, log.last.as_ref())?;
                log.catch_up(end)?
            };
            let joined = log.joined_from.iter().map(|known| (*known, false));
            for (known, was_here) in joined.chain(log.unfollowed) {
                batch.add(to_json(&EventRecord::joined(known, was_here))?, Link::seal);
            }
            add(&mut batch)?;
            log.write(batch)
        })
    }

    /// Calls a function while this process holds the file's lock.
    fn with_lock<T, E: From<io::Error>>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        lock(&self.file, &mut self.wait)?;
        let result = work(self);
        // `work` may have opened another file, which is locked too. Closing the earlier file ended
        // its lock.
        let _ = flock(&self.file, FlockOperation::Unlock);
        result
    }

    /// Returns whether another file has the log's name now, or the file has changed since this process
    /// last read or wrote it.
    pub(super) fn has_changed(&self) -> bool {
        let is_other = |other| matches!(other, Some(other) if other != self.identity);
        let has_size = |size| size == self.size || size == self.followed_size;
        // Without a file, the next record creates one.
        self.identity_on_disk().is_ok_and(is_other)
            || !self.size_on_disk().is_ok_and(has_size)
            || self.signer.is_some() && !self.joined_from.is_empty()
    }

    /// Opens the file that has the log's name now, if it is another file, and reads what other
    /// processes have appended. Their records can then not be removed unnoticed while this process
    /// runs. Errors go to the host's log only.
    pub(super) fn follow(&mut self) {
        let followed = self.try_follow();
        if let Err(error) = &followed
            && !self.cannot_follow
        {
            tracing::error!("cannot read what other processes write to the audit log: {error}");
        }
        self.cannot_follow = followed.is_err();
    }

    fn try_follow(&mut self) -> io::Result<()> {
        // Without a file, the next record creates one.
        if matches!(self.identity_on_disk()?, Some(other) if other != self.identity) {
            self.with_lock(Self::reopen_if_renamed)?;
        }
        let size = self.size_on_disk()?;
        let mut must_sign = !self.joined_from.is_empty();
        if size != self.size && size != self.followed_size {
            // A checkpoint ends them, so that they are not read again.
            must_sign |= unread(size, self.last.as_ref()) > MAX_LOCKED_BYTES;
            let end = read_end(&self.file, size, self.last.as_ref())?;
            self.read_changes(end)?;
            self.followed_size = size;
        }
        if must_sign || !self.joined_from.is_empty() {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Opens or creates the file with the log's name, unless it is the open file.
    fn reopen_if_renamed(&mut self) -> io::Result<()> {
        if self.identity_on_disk()? == Some(self.identity) {
            return Ok(());
        }
        // Another process may have written the last records of the old file.
        let old_size = self.size_on_disk()?;
        if old_size != self.size {
            let end = read_end(&self.file, old_size, self.last.as_ref());
            if let Err(error) = end.and_then(|end| self.read_changes(end)) {
                tracing::error!("cannot read the end of the renamed audit log: {error}");
            }
        }
        let opened = open_file(&self.folder, &self.name, &self.trust, &self.opener);
        let (file, identity) = opened.map_err(|error| {
            let reason = format!("the log was renamed, and the new one cannot be used: {error:#}");
            io::Error::other(reason)
        })?;
        lock(&file, &mut self.wait)?;
        let end = read_end(&file, file.metadata()?.len(), None)?;
        if end.kind == LogEnd::Foreign {
            let reason = "the log was replaced by a file that is not an audit log";
            return Err(io::Error::other(reason));
        }
        let (old, own_next) = (std::mem::replace(&mut self.file, file), self.next);
        (self.identity, self.size) = (identity, UNKNOWN_SIZE);
        (self.has_reported, self.followed_size) = (false, UNKNOWN_SIZE);
        let last = self.last.take();
        self.unfollowed = self.unfollowed.map(|(known, _)| (known, false));
        self.read_changes(end)?;
        // Nobody else signs the end of the chain that this process leaves.
        if self.next.chain != own_next.chain
            && let Some(signer) = &self.signer
            && last.is_some_and(|line| line.end + 1 == old_size)
        {
            let mut batch = Batch::new(old_size, own_next);
            batch.sign(signer)?;
            (&old).write_all(&batch.bytes)?;
            signer.inner.publish(&batch.bytes);
        }
        Ok(())
    }

    /// Returns the device and inode of the file that has the log's name now.
    fn identity_on_disk(&self) -> io::Result<Option<(u64, u64)>> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some((found.st_dev, found.st_ino))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what other processes appended to the file's chain. `end` is the file's end.
    ///
    /// Their records are accepted if they follow the last record that this process knows. If the
    /// file does not have that record, a [later](Self::is_later) record with this process's key must
    /// vouch for the file. The next record of this process then names the one that it
    /// knows, so that `verify` finds out if that was removed. Otherwise this process continues its
    /// own chain, so that `verify` finds the change.
    fn read_changes(&mut self, mut end: FileEnd) -> io::Result<FileEnd> {
        let (own_next, size) = (self.next, end.size);
        let known = self.last.clone().filter(|line| line.end <= size);
        let known = known.map(|line| LastRecord {
            next: own_next,
            line,
        });
        let signatures = Cell::new(0);
        let is_signed = |line: &[u8]| {
            let Some(signer) = &self.signer else {
                return false;
            };
            signatures.update(|count| count + usize::from(SignedLine::parse(line).is_some()));
            signatures.get() <= MAX_SIGNATURES && signer.has_signed(line)
        };
        let mut joins = false;
        let is_start = |line: &[u8], link: Link, is_first| {
            // Another process began this file, or the file is a copy.
            if is_first && link == own_next || link.next_after(line) == own_next {
                return true;
            }
            // A chain without signatures proves nothing.
            joins = self.joined_from.len() < MAX_JOINED
                && self.is_later(line, link)
                && if self.signer.is_some() {
                    is_signed(line)
                } else {
                    is_first
                };
            joins
        };
        // The last ones before and after the chain begins.
        let mut unfollowed = [None; 2];
        let others = |line: &[u8], link: Link, has_begun: bool| {
            if is_signed(line) {
                unfollowed[usize::from(has_begun)] = Some(link.next_after(line));
            }
        };
        let chain = end::follow_chain(&self.file, size, known, is_start, others)?;
        let unfollowed = unfollowed[usize::from(chain.last.is_some())];
        self.unfollowed = unfollowed.map(|known| (known, true)).or(self.unfollowed);
        let has_misplaced = match &chain.last {
            Some(_) => chain.has_others,
            None => end.find_last(&self.file)?.is_some(),
        };
        if has_misplaced && !self.has_reported {
            self.has_reported = true;
            let next = chain.last.as_ref().map_or(own_next, |last| last.next);
            tracing::error!(
                "somebody changed the audit log: it has records that do not follow record {}; \
                 this process continues its own chain",
                next.sequence.saturating_sub(1)
            );
        }
        if let Some(last) = chain.last {
            if last.next.chain != own_next.chain && own_next != Link::FIRST {
                tracing::warn!(
                    "another process began a new chain in the audit log; this process continues it"
                );
            }
            if joins && own_next != Link::FIRST {
                self.joined_from.push(own_next);
            }
            if last.next != own_next {
                // A file that is cut back to this process's last record must be read again.
                self.size = UNKNOWN_SIZE;
                self.note_time_of(last.line.start);
            }
            (self.next, self.last) = (last.next, Some(last.line.clone()));
            end.last = Some(last);
        }
        Ok(end)
    }

    /// Returns whether a record is later than the last record that this process knows, which may be
    /// in another file.
    fn is_later(&self, line: &[u8], link: Link) -> bool {
        let (own_next, next) = (self.next, link.next_after(line));
        if next.chain == own_next.chain {
            return next.sequence > own_next.sequence;
        }
        // Another process began a chain, because it did not find the earlier file. No process begins a
        // chain in a file that this process has read. An older chain was put in the log's place.
        let earliest = self.last_active().checked_sub(CLOCK_DIFFERENCE);
        let earliest = format_time(earliest.unwrap_or(SystemTime::UNIX_EPOCH));
        self.last.is_none() && time_of(line).is_some_and(|time| time[..] >= *earliest.as_bytes())
    }

    /// Returns when this process was last active, by the clock as it is set now.
    fn last_active(&self) -> SystemTime {
        let (time, instant) = self.active_at;
        let by_now = SystemTime::now().checked_sub(instant.elapsed());
        by_now.map_or(time, |by_now| by_now.min(time))
    }

    /// Notes the time of another process's record, which starts at this byte.
    fn note_time_of(&mut self, start: u64) {
        let mut begin = [0; RECORD_START.len()];
        let read = self.file.read_exact_at(&mut begin, start);
        let time = read.ok().and_then(|()| time_of(&begin));
        let time = time.and_then(|time| parse_time(&time));
        if let Some(time) = time.filter(|time| *time > self.last_active()) {
            self.active_at = (time, Instant::now());
        }
    }

    /// Begins a batch for a file that others have changed. `end` is the file's end.
    ///
    /// Adds a line feed to a torn line, and a record that reports the bytes outside the chain.
    fn catch_up(&mut self, end: FileEnd) -> io::Result<Batch> {
        let size = end.size;
        let end = self.read_changes(end)?;
        let mut batch = Batch::new(size, self.next);
        let chain_end = end.last.as_ref().map_or(0, |last| last.line.end + 1);
        if chain_end > size {
            // The last record only lacks its line feed.
            batch.bytes.push(b'\n');
            return Ok(batch);
        }
        let is_new = size == 0 && self.next != Link::FIRST;
        if chain_end == size && !is_new {
            return Ok(batch);
        }
        if end.kind != LogEnd::Whole {
            batch.bytes.push(b'\n');
        }
        // The first record of the chain in a file is `continued`, whatever bytes are before it.
        let is_first = end.last.is_none() && self.next != Link::FIRST;
        let outcome = match end.kind {
            LogEnd::Torn | LogEnd::Foreign if !is_first => TORN,
            _ => CONTINUED,
        };
        let digest = end::digest(&self.file, chain_end, size, &batch.bytes)?;
        let gap = size - chain_end + batch.bytes.len() as u64;
        let event = to_json(&EventRecord::after_gap(outcome, gap, &digest))?;
        batch.add(event, Link::seal);
        // The checkpoint vouches for this file to processes that have not read the earlier file.
        if let Some(signer) = self.signer.as_ref().filter(|_| is_first) {
            batch.sign(signer)?;
        }
        Ok(batch)
    }

    /// Returns whether the last record is a checkpoint with the key of this log's signer.
    fn ends_in_own_checkpoint(&self) -> io::Result<bool> {
        let record = self.read_last()?;
        let signer = self.signer.as_ref();
        Ok(signer
            .zip(record)
            .is_some_and(|(signer, record)| signer.has_signed(&record)))
    }

    /// Reads the line at which the last record should be.
    fn read_last(&self) -> io::Result<Option<Vec<u8>>> {
        let Some(line) = &self.last else {
            return Ok(None);
        };
        let mut record = vec![0; (line.end - line.start) as usize];
        self.file.read_exact_at(&mut record, line.start)?;
        Ok(Some(record))
    }

    /// Writes lines at the end of the file. If that fails, a part of them may be written.
    fn write(&mut self, batch: Batch) -> io::Result<()> {
        self.size = UNKNOWN_SIZE;
        if let Err(error) = self.file.write_all(&batch.bytes) {
            self.written = self.size_on_disk().unwrap_or_default();
            let complete = |(_, line): &&(Link, Range<u64>)| line.end < self.written;
            if let Some((next, line)) = batch.lines.iter().rfind(complete) {
                (self.next, self.last) = (*next, Some(line.clone()));
            }
            return Err(error);
        }
        self.wait.restore();
        self.active_at = (SystemTime::now(), Instant::now());
        (self.size, self.written) = (batch.end(), batch.end());
        self.has_reported = false;
        self.joined_from.clear();
        self.unfollowed = None;
        if let Some((next, line)) = batch.lines.last() {
            (self.next, self.last) = (*next, Some(line.clone()));
        }
        if let (Some(signer), Some(line)) = (&self.signer, batch.checkpoint) {
            signer.inner.publish(&line);
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
        Self {
            inner: signer,
            process,
        }
    }

    /// Returns the number of records after which a checkpoint is due.
    pub(super) fn records(&self) -> u64 {
        self.inner.records()
    }

    /// Returns the longest time from a record to the checkpoint that covers it.
    pub(super) fn time(&self) -> Duration {
        self.inner.time()
    }

    /// Returns whether a line is a checkpoint with this signer's key.
    fn has_signed(&self, line: &[u8]) -> bool {
        // Ed25519 is deterministic: a message has one signature.
        let is_own = |signed: SignedLine<'_>| self.inner.sign(signed.message) == signed.signature;
        SignedLine::parse(line).is_some_and(is_own)
    }
}

impl Batch {
    fn new(size: u64, next: Link) -> Self {
        Self {
            start: size,
            bytes: Vec::new(),
            next,
            lines: Vec::new(),
            checkpoint: None,
        }
    }

    /// Adds a record. `seal` adds its link, and a signature if it has one.
    fn add(&mut self, mut record: Vec<u8>, seal: impl FnOnce(Link, &mut Vec<u8>)) {
        seal(self.next, &mut record);
        self.next = self.next.next_after(&record);
        record.push(b'\n');
        let start = self.start + self.bytes.len() as u64;
        let line = start..start + record.len() as u64 - 1;
        self.lines.push((self.next, line));
        if self.bytes.is_empty() {
            self.bytes = record;
        } else {
            self.bytes.append(&mut record);
        }
    }

    /// Returns the size of the file after the lines.
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Adds a checkpoint.
    fn sign(&mut self, Signer { inner, process }: &Signer) -> io::Result<()> {
        let record = to_json(&EventRecord::checkpoint(inner.key_id(), process))?;
        let start = self.bytes.len();
        self.add(record, |link, record| {
            link.seal_signed(record, |message| inner.sign(message));
        });
        self.checkpoint = Some(self.bytes[start..].to_vec());
        Ok(())
    }
}

/// Returns the number of bytes of a file of this size after the last record that this process knows.
fn unread(size: u64, last: Option<&Range<u64>>) -> u64 {
    size.saturating_sub(last.map_or(0, |last| last.end))
}

/// Reads the end of a file of this size. Fails if others have written too many bytes after the
/// last record that this process knows.
fn read_end(file: &File, size: u64, last: Option<&Range<u64>>) -> io::Result<FileEnd> {
    let unread = unread(size, last);
    if unread > MAX_UNREAD_BYTES {
        let reason = format!("other processes have written {unread} bytes to it; rename the file");
        return Err(io::Error::other(reason));
    }
    end::read(file, size)
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
                let reason = "another process holds the file's lock";
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            Err(Errno::INTR) => {}
            locked => return Ok(locked?),
        }
    }
}

/// Opens the file of an audit log, or creates it for its owner alone.
///
/// A process does this before it confines itself, because it cannot create a file later.
///
/// # Errors
///
/// Fails if others can change the file, or it cannot be opened.
pub fn open_audit_log(path: &Path, trust: &Trust) -> anyhow::Result<OwnedFd> {
    let open = || -> anyhow::Result<OwnedFd> {
        let (folder, name) = open_folder(path, trust)?;
        let (file, _) = open_file(&folder, name, trust, &Opener::DIRECT)?;
        Ok(file.into())
    };
    open().with_context(|| cannot_use(path))
}

/// Returns the message for a log that cannot be used.
pub(super) fn cannot_use(path: &Path) -> String {
    format!("cannot use the audit log `{}`", path.display())
}

/// Checks and opens the folder of a log. Returns it and the log's name in it.
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

/// Opens a log by its name in its folder, or creates it. It must belong to the user alone.
///
/// Returns the file, and its device and inode.
fn open_file(
    folder: &OwnedFd,
    name: &OsStr,
    trust: &Trust,
    opener: &Opener,
) -> anyhow::Result<(File, (u64, u64))> {
    let file = loop {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match openat(folder, name, flags, Mode::empty()) {
            Ok(handle) => {
                let found = File::from(handle);
                let metadata = found.metadata()?;
                if metadata.is_symlink() {
                    bail!("it is a symlink; name the file itself");
                }
                // Checks the kind first, because opening a device can change its state.
                named_file::check_kind(&metadata)?;
                guard::reopen(found.as_fd(), APPENDING)
            }
            Err(Errno::NOENT) => {
                let flags = APPENDING | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                openat(folder, name, flags, Mode::RUSR | Mode::WUSR)
            }
            Err(error) => Err(error),
        };
        break match opened {
            // Another process created the log meanwhile.
            Err(Errno::EXIST) => continue,
            // The process sandbox lets this process open only the file that had the name first.
            Err(Errno::ACCESS) if let Some(broker) = opener.broker() => {
                broker.open_log().map_err(anyhow::Error::from)?
            }
            opened => opened?,
        };
    };
    let file = File::from(file);
    let metadata = file.metadata()?;
    if !trust.believes_owner_of(&file)? {
        bail!("it is in a FUSE file system of another user, who can make up its owner and mode");
    }
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
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::fs::{FileType, inotify, mknodat};
    use rustix::io::{FdFlags, fcntl_getfd};
    use sha2::{Digest as _, Sha512};

    use super::*;

    fn open(path: &Path) -> LogFile {
        let wait = WaitLimit::new();
        LogFile::open(path, &Trust::new(), &Opener::DIRECT, None, wait).unwrap()
    }

    fn open_signed(path: &Path) -> LogFile {
        let (signer, wait) = (
            Signer::new(Arc::new(TestSigner), &"0".into()),
            WaitLimit::new(),
        );
        LogFile::open(path, &Trust::new(), &Opener::DIRECT, Some(signer), wait).unwrap()
    }

    /// A signer with a signature that everybody can make.
    struct TestSigner;

    impl CheckpointSigner for TestSigner {
        fn key_id(&self) -> &str {
            "test"
        }

        fn sign(&self, message: &[u8]) -> [u8; 64] {
            Sha512::digest(message).into()
        }

        fn digest_key(&self) -> [u8; 32] {
            [0; 32]
        }

        fn records(&self) -> u64 {
            u64::MAX
        }

        fn time(&self) -> Duration {
            Duration::MAX
        }

        fn publish(&self, _: &[u8]) {}
    }

    fn append(log: &mut LogFile) {
        append_call(log, "t");
    }

    fn append_call(log: &mut LogFile, tool: &str) {
        let record = format!(
            "{{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,\"tool\":\"{tool}\",\
             \"outcome\":\"output\"}}"
        );
        let (appended, count) = log.append(|| vec![record.into_bytes()]);
        appended.unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn knows_records_that_others_append() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (mut idle, mut other) = (open(&path), open(&path));
        append(&mut idle);
        let size = idle.size_on_disk().unwrap();
        append(&mut other);
        idle.follow();
        assert_eq!(idle.next, other.next);
        assert!(idle.has_known_record());
        // Somebody removes the other process's record.
        idle.file.set_len(size).unwrap();
        assert!(!idle.has_known_record());
        append(&mut idle);
        let text = std::fs::read_to_string(&path).unwrap();
        let last = text.lines().last().unwrap();
        assert_eq!(Link::parse(last.as_bytes()).unwrap().sequence, 2, "{text}");
    }

    #[test]
    fn finds_a_changed_record_of_the_same_size() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = open(&folder.path().join("log"));
        assert!(log.has_known_record());
        append(&mut log);
        assert!(log.has_known_record());
        log.file.set_len(0).unwrap();
        assert!(log.has_known_record(), "emptied by a rotation");
        append(&mut log);
        let time = log.last.clone().unwrap().start + 10;
        let other = File::options().write(true).open(folder.path().join("log"));
        other.unwrap().write_all_at(b"1", time).unwrap();
        assert!(!log.has_known_record());
    }

    #[test]
    fn names_every_record_that_it_did_not_find() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (mut idle, mut other) = (open(&path), open(&path));
        append(&mut idle);
        let mut files = 0;
        let mut rotate_twice = |other: &mut LogFile| {
            for _ in 0..2 {
                files += 1;
                std::fs::rename(&path, folder.path().join(files.to_string())).unwrap();
                append(other);
            }
        };
        append(&mut other);
        for joined in 1..=MAX_JOINED + 1 {
            rotate_twice(&mut other);
            idle.follow();
            assert_eq!(idle.joined_from.len(), joined.min(MAX_JOINED));
        }
        assert_ne!(idle.next, other.next);
        rotate_twice(&mut other);
        append(&mut idle);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text.matches(r#""outcome":"joined""#).count(),
            MAX_JOINED,
            "{text}"
        );
        assert!(text.contains(r#""known_sequence":1,"#), "{text}");
        assert!(idle.joined_from.is_empty());
    }

    #[test]
    fn names_signed_records_that_do_not_follow_its_own() {
        for calls in [0, 5] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            let (mut one, mut other) = (open_signed(&path), open_signed(&path));
            append(&mut one);
            let size = one.size_on_disk().unwrap();
            append_call(&mut other, "other");
            other.checkpoint().unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            // Somebody removes the records, so `one` continues where `other` did. Its records are
            // shorter than those, or longer.
            one.file.set_len(size).unwrap();
            for _ in 0..calls {
                append(&mut one);
            }
            one.checkpoint().unwrap();
            other.follow();
            assert_eq!(other.unfollowed, Some((one.next, true)));
            // Then the records of `other` take the place of those of `one`.
            std::fs::write(&path, &text).unwrap();
            other.finish();
            assert_eq!(other.unfollowed, None);
            let text = std::fs::read_to_string(&path).unwrap();
            let known = skillhost_skills::text::digest::hex(&one.next.previous);
            let known = format!("\"known_sha256\":\"{known}\",\"known_here\":true");
            assert!(text.contains(&known), "{calls}: {text}");
        }
    }

    #[test]
    fn joins_no_older_chain() {
        let now = format_time(SystemTime::now());
        for (time, clock_was_ahead, is_joined) in [
            (&*now, false, true),
            ("2026-01-01T00:00:00.000Z", false, false),
            // This process was active by a clock that was an hour ahead and was then set back.
            (&now, true, true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            let mut own = open_signed(&path);
            append(&mut own);
            if clock_was_ahead {
                own.active_at.0 += Duration::from_secs(3600);
            }
            let mut line = format!(
                "{{\"time\":\"{time}\",\"id\":null,\"tool\":\"\",\"outcome\":\"checkpoint\",\
                 \"key\":\"test\"}}"
            )
            .into_bytes();
            Link::FIRST.seal_signed(&mut line, |message| TestSigner.sign(message));
            let next = Link::FIRST.next_after(&line);
            line.push(b'\n');
            let other = folder.path().join("other");
            std::fs::write(&other, line).unwrap();
            std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::fs::rename(other, &path).unwrap();
            own.follow();
            assert_eq!(own.next.chain == next.chain, is_joined, "{time}");
        }
    }

    #[test]
    fn others_records_make_older_chains_older() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (mut idle, mut other) = (open_signed(&path), open_signed(&path));
        append(&mut idle);
        let hour = Duration::from_secs(3600);
        idle.active_at.0 -= hour;
        let before = idle.last_active();
        other.checkpoint().unwrap();
        idle.follow();
        assert!(idle.last_active() > before + hour / 2);
    }

    #[test]
    fn checks_a_bounded_number_of_signatures() {
        // A line may be checked as the start of the chain and as a record of others.
        for (lines, is_found) in [(MAX_SIGNATURES / 4, true), (MAX_SIGNATURES + 1, false)] {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            let mut other = open_signed(&at("other"));
            for _ in 0..lines {
                append(&mut other);
                other.checkpoint().unwrap();
            }
            // Only the last signature is valid.
            let text = std::fs::read_to_string(at("other")).unwrap();
            let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
            let mut parts = before.split("\"signature\":\"");
            let mut before = parts.next().unwrap().to_owned();
            for part in parts {
                let other_digit = if part.starts_with('0') { "1" } else { "0" };
                before += &["\"signature\":\"", other_digit, &part[1..]].concat();
            }
            let mut own = open_signed(&at("log"));
            append(&mut own);
            std::fs::write(at("other"), format!("{before}\n{last}\n")).unwrap();
            std::fs::rename(at("other"), at("log")).unwrap();
            own.follow();
            assert_eq!(own.next.chain == other.next.chain, is_found, "{lines}");
        }
    }

    #[test]
    fn signs_the_records_of_others_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (mut idle, mut killed) = (open_signed(&path), open_signed(&path));
        append(&mut killed);
        for _ in 0..2 {
            idle.finish();
            let text = std::fs::read_to_string(&path).unwrap();
            let checkpoints: Vec<bool> = text
                .lines()
                .map(|line| line.contains("signature"))
                .collect();
            assert_eq!(checkpoints, [true, false, true], "{text}");
        }
    }

    #[test]
    fn child_processes_inherit_no_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let log = open(&folder.path().join("log"));
        for descriptor in [log.folder.as_fd(), log.file.as_fd()] {
            let flags = fcntl_getfd(descriptor).unwrap();
            assert!(flags.contains(FdFlags::CLOEXEC));
        }
    }

    #[test]
    fn checks_the_kind_before_it_opens_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let fifo = Mode::RUSR | Mode::WUSR;
        mknodat(rustix::fs::CWD, &path, FileType::Fifo, fifo, 0).unwrap();
        let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&events, &path, inotify::WatchFlags::OPEN).unwrap();
        let error = open_audit_log(&path, &Trust::new()).unwrap_err();
        assert!(format!("{error:#}").contains("but a FIFO"), "{error:#}");
        let read = rustix::io::read(&events, &mut [0; 64][..]);
        assert_eq!(read.map(|_| ()), Err(Errno::AGAIN));
    }

    #[test]
    fn waits_for_a_lock_in_bounded_time() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::create(folder.path().join("log")).unwrap();
        let (holder, waiter) = (open(), open());
        let time = Duration::from_millis(20);
        lock_within(&holder, time).unwrap();
        let start = Instant::now();
        let error = lock_within(&waiter, time).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= time);
        std::thread::scope(|threads| {
            threads.spawn(|| lock_within(&waiter, Duration::from_secs(60)).unwrap());
            drop(holder);
        });
    }
}
