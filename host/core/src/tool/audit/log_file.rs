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
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, statat};
use rustix::io::Errno;

use super::chain::{CONTINUED, Link, SIGNATURE, TORN};
use super::end::{self, LogEnd};
use super::record::{EventRecord, to_json};
use crate::trust::Trust;
use crate::{delegate, named_file};

/// The longest wait for another process that writes to the log. Guards against: one
/// that was stopped in between.
const LOCK_TIME: Duration = Duration::from_secs(2);

/// The pause between looks at a lock.
const LOCK_PAUSE: Duration = Duration::from_micros(200);

/// The size of a file of which this process does not know the end.
const UNKNOWN: u64 = u64::MAX;

/// The open file of a log.
pub(super) struct LogFile {
    folder: OwnedFd,
    name: OsString,
    trust: Trust,
    file: File,
    /// Device and inode, to notice that another file has the name.
    identity: (u64, u64),
    /// The size after the last record of this process.
    size: u64,
    /// The link of the next record.
    next: Link,
    /// The bytes up to it in this file. None if this process has not read it.
    known: Option<u64>,
}

impl LogFile {
    /// Opens a log for appending. Reads its end, so that the next record goes on with its
    /// chain, and closes a record that is torn.
    pub(super) fn open(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        let (folder, name) = open_folder(path, trust)?;
        let (file, identity) = open_file(&folder, name, trust)?;
        let mut log = Self {
            folder,
            name: name.to_owned(),
            trust: trust.clone(),
            file,
            identity,
            size: UNKNOWN,
            next: Link::FIRST,
            known: None,
        };
        log.locked(|log| {
            let size = log.file.metadata()?.len();
            // A foreign file may be large, and is not read for records.
            match end::kind(&log.file, size)? {
                LogEnd::Whole => {
                    log.next = end::read(&log.file, size)?.next.unwrap_or(Link::FIRST);
                    log.known = Some(size);
                }
                LogEnd::Torn => {
                    tracing::warn!(
                        "the last record of the audit log `{}` is torn; it is closed",
                        path.display()
                    );
                    let (close, next) = log.go_on(size)?;
                    log.write(&close, size)?;
                    log.next = next;
                }
                LogEnd::Foreign => bail!(
                    "it ends in a line that is no audit record: name a new file, an empty one, \
                     or an audit log"
                ),
            }
            Ok(())
        })?;
        Ok(log)
    }

    /// Appends a record, which is a JSON object. Returns its line.
    pub(super) fn append(&mut self, record: Vec<u8>) -> io::Result<Vec<u8>> {
        self.append_sealed(record, |next, record| next.seal(record))
    }

    /// Appends a record with its signature. Returns its line.
    pub(super) fn append_signed(
        &mut self,
        record: Vec<u8>,
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE],
    ) -> io::Result<Vec<u8>> {
        self.append_sealed(record, |next, record| next.seal_signed(record, sign))
    }

    fn append_sealed(
        &mut self,
        mut record: Vec<u8>,
        seal: impl FnOnce(Link, &mut Vec<u8>),
    ) -> io::Result<Vec<u8>> {
        self.locked(|log| {
            log.follow()?;
            let size = log.size_on_disk()?;
            let (mut before, next) = match size == log.size {
                true => (Vec::new(), log.next),
                false => log.go_on(size)?,
            };
            seal(next, &mut record);
            let after = next.after(&record);
            record.push(b'\n');
            match before.is_empty() {
                true => log.write(&record, size)?,
                false => {
                    before.extend_from_slice(&record);
                    log.write(&before, size)?;
                }
            }
            log.next = after;
            Ok(record)
        })
    }

    /// Works on the file while no other process appends to it.
    fn locked<T, E: From<io::Error>>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        lock(&self.file, LOCK_TIME)?;
        let done = work(self);
        // The file may be another one now, which is locked as well. The lock of the one
        // before it ended when that was closed.
        let _ = flock(&self.file, FlockOperation::Unlock);
        done
    }

    /// Opens the file that has the log's name now, if it is another one.
    fn follow(&mut self) -> io::Result<()> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if (found.st_dev, found.st_ino) == self.identity => return Ok(()),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        // Others may have written the last records of the old file.
        let size = self.size_on_disk()?;
        if size != self.size {
            self.learn(size)?;
        }
        let opened = open_file(&self.folder, &self.name, &self.trust);
        let (file, identity) = opened.map_err(|error| {
            let why = format!("the log was renamed, and the new one cannot be used: {error:#}");
            io::Error::other(why)
        })?;
        lock(&file, LOCK_TIME)?;
        let size = file.metadata()?.len();
        if end::kind(&file, size)? == LogEnd::Foreign {
            let why = "the log was replaced by a file that is no audit log";
            return Err(io::Error::other(why));
        }
        (self.file, self.identity, self.size) = (file, identity, UNKNOWN);
        // There may be another file between the two.
        self.known = None;
        Ok(())
    }

    /// Reads where the file's chain goes on. Its records may be those of another
    /// process, if they follow the last one that this process knows of. If they do not,
    /// or there are fewer, the chain goes on where it was, so that the change shows.
    fn learn(&mut self, size: u64) -> io::Result<end::ChainEnd> {
        let end = end::read(&self.file, size)?;
        let own = self.next;
        let Some(next) = end.next.filter(|next| *next != own) else {
            return Ok(end);
        };
        let is_later = next.sequence > own.sequence;
        let follows = is_later
            && match self.known {
                // A file that is shorter was emptied.
                Some(known) => {
                    let from = if known <= size { known } else { 0 };
                    end::has_link(&self.file, from, own)?
                }
                None => true,
            };
        match follows {
            true => (self.next, self.known) = (next, Some(end.chained)),
            false => tracing::error!(
                "the audit log was changed: it ends before record {}, and the host goes on with {}",
                next.sequence,
                own.sequence
            ),
        }
        Ok(end)
    }

    /// Returns what must be written before the next record of a file that others have
    /// changed: the end of a line, and a record of what stands between those of the
    /// chain. And the link of the record after that.
    fn go_on(&mut self, size: u64) -> io::Result<(Vec<u8>, Link)> {
        let end = self.learn(size)?;
        if end.is_unended {
            return Ok((b"\n".to_vec(), self.next));
        }
        let is_new = size == 0 && self.next != Link::FIRST;
        if end.chained == size && !is_new {
            return Ok((Vec::new(), self.next));
        }
        let mut bytes = match end.end {
            LogEnd::Whole => Vec::new(),
            LogEnd::Torn | LogEnd::Foreign => b"\n".to_vec(),
        };
        // The first record of a file says so, whatever is before it.
        let is_first = end.next.is_none() && self.next != Link::FIRST;
        let outcome = match end.end {
            LogEnd::Torn | LogEnd::Foreign if !is_first => TORN,
            _ => CONTINUED,
        };
        let digest = end::digest(&self.file, end.chained, size, &bytes)?;
        let gap = size - end.chained + bytes.len() as u64;
        let mut event = to_json(&EventRecord::after_gap(outcome, gap, &digest))?;
        self.next.seal(&mut event);
        let next = self.next.after(&event);
        bytes.append(&mut event);
        bytes.push(b'\n');
        Ok((bytes, next))
    }

    /// Writes bytes at the end of the file, which has this size. If that fails, nobody
    /// knows how many were written.
    fn write(&mut self, bytes: &[u8], size: u64) -> io::Result<()> {
        self.size = UNKNOWN;
        self.file.write_all(bytes)?;
        self.size = size + bytes.len() as u64;
        self.known = Some(self.size);
        Ok(())
    }

    fn size_on_disk(&self) -> io::Result<u64> {
        let size = fstat(&self.file)?.st_size;
        Ok(u64::try_from(size).unwrap_or_default())
    }
}

/// Takes the lock of a file, once no other process has it. Waits no longer than a time.
fn lock(file: &File, time: Duration) -> io::Result<()> {
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
        let log = LogFile::open(&folder.path().join("log"), &Trust::new()).unwrap();
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
        lock(&other, time).unwrap();
        let start = Instant::now();
        let error = lock(&own, time).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= time);
        std::thread::scope(|threads| {
            threads.spawn(|| lock(&own, Duration::from_secs(5)).unwrap());
            drop(other);
        });
    }
}
