//! The copy of the checkout in which faults are applied.

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

/// A copy of all files that git tracks or would add.
///
/// It has its own target folder, because cargo would confuse builds of the copy with builds of the
/// checkout.
pub(crate) struct CheckoutCopy {
    folder: PathBuf,
    /// The target folder.
    pub(crate) target: PathBuf,
    /// The original content of changed files.
    originals: RefCell<BTreeMap<PathBuf, Vec<u8>>>,
    /// Keeps out other runs, which would overwrite the changes.
    _lock: File,
}

impl CheckoutCopy {
    /// Creates or updates the copy. Unchanged files keep their modification times, so that cargo
    /// builds only what has changed.
    pub(crate) fn create(root: &Path) -> Result<Self> {
        let folder = root.join("target/faults");
        fs::create_dir_all(&folder)?;
        let lock = File::create(folder.join("lock"))?;
        lock.try_lock()
            .context("another run uses `target/faults`; wait until it ends")?;
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
        let tree = folder.join("tree");
        let mut files = BTreeSet::new();
        for name in names {
            let file = Path::new(OsStr::from_bytes(name));
            let from = root.join(file);
            copy_file(&from, &tree.join(file))
                .with_context(|| format!("cannot copy `{}`", from.display()))?;
            files.insert(tree.join(file));
        }
        remove_others(&tree, &files).context("cannot remove old files from the copy")?;
        let target = folder.join("target");
        for folder in ["deps", "build", ".fingerprint"] {
            let built = Path::new("debug").join(folder);
            link_dependencies(&root.join("target").join(&built), &target.join(&built))
                .context("cannot link the built dependencies")?;
        }
        Ok(Self {
            folder: tree,
            target,
            originals: RefCell::default(),
            _lock: lock,
        })
    }

    /// Returns the path of a file in the copy.
    pub(crate) fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.folder.join(file)
    }

    /// Changes a file of the copy until [`Self::restore`].
    pub(super) fn change(&self, file: &str, content: &str) -> Result<()> {
        let path = self.path(file);
        let before = fs::read(&path).with_context(|| format!("cannot read `{file}`"))?;
        fs::write(&path, content).with_context(|| format!("cannot write `{file}`"))?;
        self.originals.borrow_mut().entry(path).or_insert(before);
        Ok(())
    }

    /// Restores every changed file, and removes the tests' cache, which may contain a component
    /// that only the faulty code accepts.
    pub(super) fn restore(&self) -> Result<()> {
        let cache = self.target.join("tmp/cache");
        if cache.exists() {
            fs::remove_dir_all(&cache).context("cannot remove the tests' cache")?;
        }
        while let Some((path, before)) = self.originals.borrow_mut().pop_first() {
            fs::write(&path, before)
                .with_context(|| format!("cannot restore `{}`", path.display()))?;
        }
        Ok(())
    }
}

/// Links built dependencies into the copy, so that cargo does not build them twice. Leaves out this
/// project's own crates.
fn link_dependencies(from: &Path, to: &Path) -> std::io::Result<()> {
    const OWN_CRATES: [&str; 4] = ["skillhost", "suite-", "xtask-", "web_service-"];
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    fs::create_dir_all(to)?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let (text, link) = (name.to_string_lossy(), to.join(&name));
        let text = text.strip_prefix("lib").unwrap_or(&text);
        if OWN_CRATES.iter().any(|own| text.starts_with(own)) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            link_dependencies(&entry.path(), &link)?;
        } else if !link.exists() {
            fs::hard_link(entry.path(), link)?;
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

/// Copies a file or a symlink, or removes the copy of a deleted file.
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let metadata = match fs::symlink_metadata(from) {
        // The file is deleted, but still in git's index.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match fs::remove_file(to) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        metadata => metadata?,
    };
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if metadata.is_symlink() {
        let target = fs::read_link(from)?;
        if fs::read_link(to).ok().as_ref() != Some(&target) {
            let _ = fs::remove_file(to);
            symlink(target, to)?;
        }
        return Ok(());
    }
    let is_same = fs::read(to).is_ok_and(|bytes| fs::read(from).is_ok_and(|other| bytes == other));
    if !is_same {
        fs::copy(from, to)?;
    }
    Ok(())
}
