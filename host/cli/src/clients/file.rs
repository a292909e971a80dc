//! The configuration file of a client, read and replaced through a handle of its folder.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use skillhost_skills::named_file::{self, UNKNOWN_KIND};
use skillhost_skills::own_user::is_own_user;

/// The maximum size of a file. Guards against: a device or a log in place of a configuration.
/// Claude Code also keeps its state in its file, so the file can have several megabytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// A file of a client, which may not exist.
pub(super) struct ClientFile {
    /// The project's folder, or the folder of the user's settings, such as `~/.codex`.
    folder: PathBuf,
    /// The path of the file in that folder.
    inside: &'static Path,
    /// True for a file in the user's own folder: symlinks to the file's folder are followed. False
    /// for a file in a project, which may have another author.
    is_user_file: bool,
    /// The file as it was read. `None` if it did not exist.
    found: Option<Found>,
}

/// The content and the status of a file that was read.
struct Found {
    text: String,
    status: Stat,
}

impl ClientFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If the file is a symlink, has hard links, belongs to another user, or cannot be read.
    pub(super) fn read(
        folder: PathBuf,
        inside: &'static Path,
        is_user_file: bool,
    ) -> anyhow::Result<Self> {
        let mut file = Self {
            folder,
            inside,
            is_user_file,
            found: None,
        };
        file.found = match file.open_folder(false)? {
            Some(folder) => file.read_in(&folder)?,
            None => None,
        };
        Ok(file)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(self.inside)
    }

    /// Returns the content. A missing file is empty.
    pub(super) fn text(&self) -> &str {
        self.found.as_ref().map_or("", |found| &found.text)
    }

    pub(super) fn exists(&self) -> bool {
        self.found.is_some()
    }

    /// Replaces the file atomically, and keeps its mode and group. A new file in the user's folder
    /// is readable by the user alone.
    ///
    /// # Errors
    ///
    /// If the file has changed since it was read, or cannot be written.
    pub(super) fn replace(&self, text: &str) -> anyhow::Result<()> {
        let folder = self.open_folder(true)?;
        let folder = folder.context("its folder is missing")?;
        let random = SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos();
        let temporary = format!(".skillhost-{}-{random}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = if self.is_user_file { 0o600 } else { 0o644 };
        let mode = self.found.as_ref().map_or(mode, |_| 0o600);
        let new = rustix::fs::openat(&folder, &temporary, flags, Mode::from_bits_retain(mode));
        let new = File::from(new.map_err(io::Error::from)?);
        let replaced = self.fill(new, text).and_then(|()| {
            let now = self.read_in(&folder)?;
            ensure!(
                now.as_ref().map(|found| &found.text)
                    == self.found.as_ref().map(|found| &found.text),
                "it was changed meanwhile; run the command again"
            );
            let flags = if self.exists() {
                RenameFlags::empty()
            } else {
                RenameFlags::NOREPLACE
            };
            let renamed =
                rustix::fs::renameat_with(&folder, &temporary, &folder, self.name()?, flags);
            renamed.map_err(io::Error::from)?;
            Ok(())
        });
        if replaced.is_err() {
            let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
        }
        replaced
    }

    /// Writes the text into a new file, which gets the mode and group of the file that it replaces.
    fn fill(&self, mut new: File, text: &str) -> anyhow::Result<()> {
        new.write_all(text.as_bytes())?;
        if let Some(found) = &self.found {
            let status = rustix::fs::fstat(&new)?;
            if status.st_gid != found.status.st_gid {
                let group = Gid::from_raw(found.status.st_gid);
                rustix::fs::fchown(&new, None, Some(group))
                    .map_err(io::Error::from)
                    .context("cannot keep its group")?;
            }
            rustix::fs::fchmod(&new, Mode::from_raw_mode(found.status.st_mode))?;
        }
        new.sync_all()?;
        Ok(())
    }

    fn name(&self) -> anyhow::Result<&'static OsStr> {
        self.inside.file_name().context("its path has no file name")
    }

    /// Opens the file's folder. If the folder is missing, creates it if `create` is true, and
    /// otherwise returns `None`.
    fn open_folder(&self, create: bool) -> anyhow::Result<Option<OwnedFd>> {
        if create && self.is_user_file {
            fs::create_dir_all(&self.folder)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let step_flags = if self.is_user_file {
            flags
        } else {
            flags | OFlags::NOFOLLOW
        };
        let mut opened = rustix::fs::openat(CWD, &self.folder, flags, Mode::empty());
        for step in self.inside.parent().into_iter().flat_map(Path::components) {
            let (Ok(folder), Component::Normal(name)) = (&opened, step) else {
                break;
            };
            if create {
                let mode = if self.is_user_file { 0o700 } else { 0o755 };
                match rustix::fs::mkdirat(folder, name, Mode::from_bits_retain(mode)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(io::Error::from(error).into()),
                }
            }
            opened = rustix::fs::openat(folder, name, step_flags, Mode::empty());
        }
        let folder = match opened {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                bail!("its folder is a symlink or not a folder; replace it with a real folder")
            }
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let status = rustix::fs::fstat(&folder)?;
        ensure!(
            is_own_user(status.st_uid),
            "its folder belongs to another user; run skillhost as that user"
        );
        Ok(Some(folder))
    }

    fn read_in(&self, folder: &OwnedFd) -> anyhow::Result<Option<Found>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | UNKNOWN_KIND;
        let file = match rustix::fs::openat(folder, self.name()?, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => {
                bail!("it is a symlink; edit its target by hand, or replace it with a file")
            }
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let status = rustix::fs::fstat(file.as_fd())?;
        let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
        ensure!(is_file, "it is not a regular file");
        ensure!(
            is_own_user(status.st_uid),
            "it belongs to another user; run skillhost as that user"
        );
        ensure!(
            status.st_nlink == 1,
            "it has other names (hard links), which would keep the old content; edit it by hand"
        );
        let file = File::from(file);
        ensure!(
            !named_file::has_access_list(&file),
            "it has an access control list, which a new file would not have; edit it by hand"
        );
        let text = named_file::read_all_text(file, MAX_BYTES)?;
        Ok(Some(Found { text, status }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_file_that_changed_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let read = || {
            let inside = Path::new("deep/settings.json");
            ClientFile::read(folder.path().to_owned(), inside, true).unwrap()
        };
        let path = folder.path().join("deep/settings.json");
        let missing = read();
        assert!(!missing.exists());
        fs::create_dir(folder.path().join("deep")).unwrap();
        fs::write(&path, "{}").unwrap();
        assert!(missing.replace("new").is_err());
        let before = read();
        assert!(before.exists());
        assert_eq!(before.text(), "{}");
        fs::write(&path, "{1}").unwrap();
        let refused = before.replace("new").unwrap_err().to_string();
        assert!(refused.contains("was changed meanwhile"), "{refused}");
        fs::remove_file(&path).unwrap();
        assert!(before.replace("new").is_err());
        assert!(!path.exists());
        fs::write(&path, "{}").unwrap();
        before.replace("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        // No temporary file remains.
        assert_eq!(fs::read_dir(folder.path().join("deep")).unwrap().count(), 1);
    }
}
