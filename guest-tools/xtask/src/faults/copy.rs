//! The copy of the checkout that faults are put into.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// A copy of all files that git knows or would add, with a target folder of its own:
/// cargo would take what was built in the copy for builds of the checkout.
pub(crate) struct Copy {
    to: PathBuf,
    /// The target folder.
    pub(crate) target: PathBuf,
    /// Changed files, as they were.
    changed: RefCell<BTreeMap<PathBuf, Vec<u8>>>,
    /// Keeps other runs away: they would take each other's changes for the checkout's.
    _lock: File,
}

impl Copy {
    /// Makes the copy, or brings it up to date: files that are the same keep their
    /// times, so that cargo builds only what has changed.
    pub(crate) fn of(root: &Path) -> Result<Self> {
        let folder = root.join("target/faults");
        fs::create_dir_all(&folder)?;
        let lock = File::create(folder.join("lock"))?;
        lock.try_lock()
            .context("another run works in `target/faults`; wait for its end")?;
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
        let to = root.join("target/faults/tree");
        let mut files = BTreeSet::new();
        for name in names {
            let file = Path::new(OsStr::from_bytes(name));
            let from = root.join(file);
            copy_file(&from, &to.join(file))
                .with_context(|| format!("cannot copy {}", from.display()))?;
            files.insert(to.join(file));
        }
        remove_others(&to, &files).context("cannot tidy the copy")?;
        let target = root.join("target/faults/target");
        for folder in ["deps", "build", ".fingerprint"] {
            let built = Path::new("debug").join(folder);
            link_dependencies(&root.join("target").join(&built), &target.join(&built))
                .context("cannot link the built dependencies")?;
        }
        Ok(Self {
            to,
            target,
            changed: RefCell::default(),
            _lock: lock,
        })
    }

    /// Returns the place of a file in the copy.
    pub(crate) fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.to.join(file)
    }

    /// Changes a file of the copy until [`Self::restore`].
    pub(super) fn change(&self, file: &str, content: &str) -> Result<()> {
        let path = self.path(file);
        let before = fs::read(&path).with_context(|| format!("cannot read {file}"))?;
        fs::write(&path, content).with_context(|| format!("cannot write {file}"))?;
        self.changed.borrow_mut().entry(path).or_insert(before);
        Ok(())
    }

    /// Makes every changed file as it was, and removes what the tests have cached: a
    /// component that a fault lets through would be in it.
    pub(super) fn restore(&self) -> Result<()> {
        let cache = self.target.join("tmp/cache");
        if cache.exists() {
            fs::remove_dir_all(&cache).context("cannot remove the tests' cache")?;
        }
        while let Some((path, before)) = self.changed.borrow_mut().pop_first() {
            fs::write(&path, before)
                .with_context(|| format!("cannot restore {}", path.display()))?;
        }
        Ok(())
    }
}

/// Gives the copy what was built of other projects, as further links: nothing is built
/// twice, and no bytes are copied. What is built of this project stays apart.
fn link_dependencies(from: &Path, to: &Path) -> std::io::Result<()> {
    const OWN: [&str; 4] = ["skillhost", "suite-", "xtask-", "web_service-"];
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    fs::create_dir_all(to)?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let (text, at) = (name.to_string_lossy(), to.join(&name));
        let text = text.strip_prefix("lib").unwrap_or(&text);
        if OWN.iter().any(|own| text.starts_with(own)) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            link_dependencies(&entry.path(), &at)?;
        } else if !at.exists() {
            fs::hard_link(entry.path(), at)?;
        }
    }
    Ok(())
}

/// Removes files that the checkout no longer has.
fn remove_others(folder: &Path, files: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(&path, files)?;
        } else if !files.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
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
