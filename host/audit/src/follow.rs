//! Follows a log: finds its records, then waits for more. The kernel reports changes in the log's
//! folder. After a rotation, continues with the next file, even if it was renamed meanwhile.

use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use skillhost_skills::broker::Opener;
use skillhost_skills::inotify::Inotify;
use skillhost_skills::named_file;

use crate::files::begins_with;
use crate::filter::{CallRecord, Filter, RecordSearch, SearchSummary};
use crate::lines::{MAX_LINE_BYTES, Piece};
use skillhost_sandbox::tool::audit::chain::Link;

/// The time after which the file is read again without an event, because some mounts report none.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);

/// The maximum number of bytes that are read at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// The maximum number of files in a folder that are searched for the next record, and of renamed
/// files that are read after a rotation. Guards against: a folder of a million files.
const MAX_RENAMED: usize = 1_000;

/// A step of following a log.
pub enum FollowStep<'a> {
    /// A record that matches the filter, and its line.
    Record(&'a CallRecord<'a>, &'a str),
    /// All records that the log had at the start were read.
    CaughtUp,
    /// The log was emptied. Records that were not read before that may be missing.
    Emptied,
}

/// Calls a function with each record of a log that matches a filter, and continues with appended
/// records. Ends when the function returns false, or when `stop` becomes readable or is closed.
///
/// If the file is renamed, continues with the new file at its path. If the new file was renamed
/// meanwhile too, finds it in the same folder by its first record. If the file is emptied,
/// continues at the file's beginning, even if the file has already grown beyond its old size.
pub fn follow_records(
    path: &Path,
    filter: &Filter,
    stop: BorrowedFd<'_>,
    mut each: impl FnMut(FollowStep<'_>) -> anyhow::Result<bool>,
) -> anyhow::Result<SearchSummary> {
    let context = || format!("cannot read the log `{}`", path.display());
    let inotify = watch_folders(path);
    let mut search = RecordSearch::new(filter);
    search.verifier.start_file(&path.display().to_string());
    let mut file = FollowedFile::open(path).with_context(context)?;
    let mut has_caught_up = false;
    loop {
        let mut record =
            |record: &CallRecord<'_>, line: &str| each(FollowStep::Record(record, line));
        // Look for a new file before reading the old one. Otherwise records could be missed that
        // were written to the old file after the read and before the rename.
        let successor = file.successor(path);
        if !file
            .read_lines(|piece| search.check(piece, &mut record))
            .with_context(context)?
        {
            return Ok(search.abort());
        }
        if let Some(successor) = successor {
            file.read_unended_line(|piece| search.check(piece, &mut record))?;
            for _ in 0..MAX_RENAMED {
                let next = search.verifier.next_link();
                let renamed = next.and_then(|next| FollowedFile::find_renamed(path, next));
                let Some((name, mut renamed)) =
                    renamed.filter(|(_, file)| file.file_id != successor.file_id)
                else {
                    break;
                };
                let continues = search.start_file(&name, &mut record)?
                    && renamed
                        .read_lines(|piece| search.check(piece, &mut record))
                        .with_context(context)?;
                if !continues {
                    return Ok(search.abort());
                }
                renamed.read_unended_line(|piece| search.check(piece, &mut record))?;
            }
            if !search.start_file(&path.display().to_string(), &mut record)? {
                return Ok(search.abort());
            }
            let is_emptied = successor.file_id == file.file_id;
            if is_emptied && !each(FollowStep::Emptied)? {
                return Ok(search.abort());
            }
            file = successor;
            continue;
        }
        if !has_caught_up {
            has_caught_up = true;
            if !each(FollowStep::CaughtUp)? {
                return Ok(search.abort());
            }
        }
        if !wait(inotify.as_ref(), stop) {
            return Ok(search.finish());
        }
    }
}

/// Watches the folder of a log and, if the log is a symlink, the folder of its target.
///
/// Returns `None` if the system has too many watchers. The file is then only read every
/// [`SCAN_INTERVAL`].
fn watch_folders(path: &Path) -> Option<Inotify> {
    let inotify = Inotify::new(Opener::DIRECT).ok()?;
    let absolute = std::path::absolute(path).ok();
    for file in absolute.into_iter().chain(path.canonicalize()) {
        if let Some(folder) = file.parent().and_then(|folder| File::open(folder).ok()) {
            inotify.add(folder.as_fd()).ok()?;
        }
    }
    Some(inotify)
}

/// Waits for a change. Returns `false` if the caller stops the search.
fn wait(inotify: Option<&Inotify>, stop: BorrowedFd<'_>) -> bool {
    let timeout = Timespec::try_from(SCAN_INTERVAL).ok();
    let mut events = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    events.extend(inotify.map(|inotify| PollFd::new(inotify, PollFlags::IN)));
    let _ = retry_on_intr(|| poll(&mut events, timeout.as_ref()));
    if !events[0].revents().is_empty() {
        return false;
    }
    if let Some(inotify) = inotify {
        // Any event makes the caller read the file, so the events' contents do not matter.
        inotify.read(drop);
    }
    true
}

/// An open file of a log.
struct FollowedFile {
    file: File,
    /// The device and inode numbers.
    file_id: (u64, u64),
    /// The number of bytes that were read so far.
    position: u64,
    /// The last line that was read, or the last part of a line that is too long.
    last_line: Vec<u8>,
    /// The beginning of an unfinished line.
    line: Vec<u8>,
    /// True in the middle of a line that is too long.
    is_in_long_line: bool,
}

impl FollowedFile {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let file = named_file::open(path)?;
        let metadata = file.metadata()?;
        Ok(Self {
            file_id: (metadata.dev(), metadata.ino()),
            file,
            position: 0,
            last_line: Vec::new(),
            line: Vec::new(),
            is_in_long_line: false,
        })
    }

    /// Returns the file that replaced this one, or this file from its beginning if it was emptied.
    /// Returns `None` if there is no such file, or if it cannot be opened yet.
    fn successor(&self, path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let is_same = (metadata.dev(), metadata.ino()) == self.file_id;
        if is_same && self.is_unchanged() {
            return None;
        }
        Self::open(path).ok()
    }

    /// Returns whether the file still has the bytes that were read last: a line, and the beginning
    /// of the next one.
    ///
    /// An emptied file can grow beyond its old size before it is read again.
    fn is_unchanged(&self) -> bool {
        let known = [&*self.last_line, &self.line].concat();
        let mut found = vec![0; known.len()];
        let start = self.position - known.len() as u64;
        match self.file.read_exact_at(&mut found, start) {
            Ok(()) => found == known,
            // The next read reports other errors.
            Err(error) => error.kind() != io::ErrorKind::UnexpectedEof,
        }
    }

    /// Finds the renamed file that begins with the record of the link `next`. Also returns the
    /// file's path.
    ///
    /// Searches the log's folder for files with names that begin with the log's name.
    fn find_renamed(path: &Path, next: Link) -> Option<(String, Self)> {
        let path = path.canonicalize().ok()?;
        let start = path.file_stem()?.as_bytes();
        let entries = fs::read_dir(path.parent()?).ok()?.flatten();
        let paths = entries
            .filter(|entry| entry.file_name().as_bytes().starts_with(start))
            .map(|entry| entry.path());
        paths.take(MAX_RENAMED).find_map(|path| {
            let file = Self::open(&path).ok()?;
            let is_next = matches!(begins_with(&file.file, next), Ok(true));
            is_next.then(|| (path.display().to_string(), file))
        })
    }

    /// Calls `each` with each whole line up to the current end of the file, and with each part of a
    /// line that is too long, until `each` returns false. Returns whether `each` never did.
    ///
    /// Reads nothing if the file was emptied.
    fn read_lines(
        &mut self,
        mut each: impl FnMut(Piece<'_>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<bool> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = match self.file.read_at(&mut buffer, self.position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            // This check comes after the read, because the file may have been emptied just before
            // the read.
            if read == 0 || !self.is_unchanged() {
                return Ok(true);
            }
            self.position += read as u64;
            for part in buffer[..read].split_inclusive(|byte| *byte == b'\n') {
                self.line.extend_from_slice(part);
                let ends_line = part.ends_with(b"\n");
                if !ends_line && self.line.len() < MAX_LINE_BYTES {
                    continue;
                }
                let piece = match self.line.strip_suffix(b"\n") {
                    Some(line) if !self.is_in_long_line => Piece::Line(line),
                    _ => Piece::Part {
                        bytes: &self.line,
                        ends_line,
                    },
                };
                let continues = each(piece)?;
                self.is_in_long_line = !ends_line;
                mem::swap(&mut self.last_line, &mut self.line);
                self.line.clear();
                if !continues {
                    return Ok(false);
                }
            }
        }
    }

    /// Calls `each` with the last line if that line has no line feed.
    fn read_unended_line(
        &mut self,
        mut each: impl FnMut(Piece<'_>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        if !self.line.is_empty() {
            each(Piece::Part {
                bytes: &self.line,
                ends_line: false,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::files::tests::record;

    #[test]
    fn notices_that_file_was_emptied() {
        for (before, after, is_emptied) in [
            ("", "a\n", false),
            ("a\nb\n", "a\nb\n", false),
            ("a\nb\n", "a\nb\nc\n", false),
            ("a\nb", "a\nbc\nd\n", false),
            ("a\nb\n", "", true),
            ("a\nb\n", "c\n", true),
            ("a\nb\n", "c\nd\n", true),
            ("a\nb\n", "c\nd\ne\nf\n", true),
            ("a\nb", "c\nde\nf\n", true),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), before).unwrap();
            let mut followed = FollowedFile::open(file.path()).unwrap();
            followed.read_lines(|_| Ok(true)).unwrap();
            // This empties the file and writes it again.
            fs::write(file.path(), after).unwrap();
            let successor = followed.successor(file.path());
            assert_eq!(successor.is_some(), is_emptied, "{before:?} {after:?}");
            let mut pieces = 0;
            let count = |_: Piece<'_>| {
                pieces += 1;
                Ok(true)
            };
            assert!(followed.read_lines(count).unwrap());
            assert!(!is_emptied || pieces == 0, "{before:?} {after:?}");
        }
    }

    #[test]
    fn finds_renamed_file_of_one_unended_record() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (link, record) = record();
        fs::write(at("log"), "").unwrap();
        fs::write(at("log.1"), record).unwrap();
        let (name, _) = FollowedFile::find_renamed(&at("log"), link).unwrap();
        assert!(name.ends_with("log.1"), "{name}");
    }

    #[test]
    fn waits_for_end_of_line() {
        let mut written = tempfile::NamedTempFile::new().unwrap();
        let mut followed = FollowedFile::open(written.path()).unwrap();
        let mut read = |text: &[u8]| {
            written.write_all(text).unwrap();
            let mut lines = Vec::new();
            let continues = followed.read_lines(|piece| {
                lines.push(match piece {
                    Piece::Line(line) => String::from_utf8(line.to_vec()).unwrap(),
                    Piece::Part { bytes, ends_line } => format!("{} {ends_line}", bytes.len()),
                });
                Ok(true)
            });
            assert!(continues.unwrap());
            lines
        };
        assert_eq!(read(b"a"), [""; 0]);
        assert_eq!(read(b"b\nc\nd"), ["ab", "c"]);
        assert_eq!(read(b"\n\n"), ["d", ""]);
        // `each` gets a line that is too long in parts.
        let long = vec![b'x'; MAX_LINE_BYTES];
        assert_eq!(read(&long), [format!("{MAX_LINE_BYTES} false")]);
        assert_eq!(read(b"y\nz\n"), ["2 true", "z"]);
    }
}
