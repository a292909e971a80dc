//! The copy of the checkout that faults are put into.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// A copy of all files that git knows or would add.
pub(crate) struct Copy {
    from: PathBuf,
    to: PathBuf,
    files: Vec<PathBuf>,
}

impl Copy {
    /// Makes the copy, or brings it up to date: files that are the same keep their
    /// times, so that cargo builds only what has changed.
    pub(crate) fn of(root: &Path) -> Result<Self> {
        let mut git = Command::new("git");
        git.current_dir(root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let output = git.output().context("cannot run `git ls-files`")?;
        ensure!(output.status.success(), "`git ls-files` failed");
        let names = output.stdout.split(|byte| *byte == 0);
        let names = names.filter(|name| !name.is_empty());
        let copy = Self {
            from: root.to_owned(),
            to: root.join("target/faults/tree"),
            files: names
                .map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name)))
                .collect(),
        };
        copy.restore()?;
        Ok(copy)
    }

    /// Returns the place of a file in the copy.
    pub(crate) fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.to.join(file)
    }

    /// Writes a file of the copy.
    pub(super) fn change(&self, file: &str, content: &str) -> Result<()> {
        fs::write(self.path(file), content).with_context(|| format!("cannot write {file}"))
    }

    /// Makes every file as it is in the checkout.
    pub(crate) fn restore(&self) -> Result<()> {
        for file in &self.files {
            let (from, to) = (self.from.join(file), self.to.join(file));
            copy_file(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
        Ok(())
    }
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let found = match fs::symlink_metadata(from) {
        // Removed, and git has not been told.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match fs::remove_file(to) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        found => found?,
    };
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if found.is_symlink() {
        let target = fs::read_link(from)?;
        if fs::read_link(to).ok().as_ref() != Some(&target) {
            let _ = fs::remove_file(to);
            symlink(target, to)?;
        }
        return Ok(());
    }
    let same = fs::read(to).is_ok_and(|bytes| fs::read(from).is_ok_and(|other| bytes == other));
    if !same {
        fs::copy(from, to)?;
    }
    Ok(())
}
