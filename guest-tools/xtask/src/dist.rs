//! Reads and writes a `dist` folder: the committed components, and the list of their digests.
//! `compare.rs` compares the digests.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::compare::SUMS_FILE;
use crate::digest::{self, Digest, Sums};

/// Components by file name.
pub(crate) type Components = BTreeMap<String, Vec<u8>>;

/// A `dist` folder, which may not exist yet.
pub(crate) struct Dist(PathBuf);

impl Dist {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Returns the digests of the components in the folder.
    pub(crate) fn committed(&self) -> Result<Sums> {
        let context = || format!("cannot list `{}`", self.0.display());
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Sums::new()),
            entries => entries.with_context(context)?,
        };
        let mut sums = Sums::new();
        for entry in entries {
            let path = entry.with_context(context)?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "wasm")
            {
                let content =
                    fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
                let name = path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                sums.insert(name, Digest::of(&content));
            }
        }
        Ok(sums)
    }

    /// Returns the digests in the list. The result is empty if the list does not exist.
    pub(crate) fn listed(&self) -> Result<Sums> {
        let path = self.0.join(SUMS_FILE);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Sums::new()),
            text => text
                .map_err(Into::into)
                .and_then(|text| digest::parse(&text))
                .with_context(|| format!("cannot read `{}`", path.display())),
        }
    }

    /// Writes the components and the list. If `is_complete`, `components` are all that the folder
    /// should have, so this removes the others.
    pub(crate) fn write(&self, components: &Components, is_complete: bool) -> Result<()> {
        let mut sums = Sums::new();
        if is_complete {
            for name in self
                .committed()?
                .into_keys()
                .filter(|name| !components.contains_key(name))
            {
                let path = self.0.join(&name);
                fs::remove_file(&path)
                    .with_context(|| format!("cannot remove `{}`", path.display()))?;
                eprintln!("removed `{}`, which no guest builds", path.display());
            }
        } else {
            sums = self.listed()?;
        }
        if components.is_empty() && !self.0.exists() {
            return Ok(());
        }
        fs::create_dir_all(&self.0)
            .with_context(|| format!("cannot create `{}`", self.0.display()))?;
        for (name, content) in components {
            write_if_changed(&self.0.join(name), content)?;
            sums.insert(name.clone(), Digest::of(content));
        }
        write_if_changed(&self.0.join(SUMS_FILE), digest::format(&sums).as_bytes())
    }
}

/// Writes a file. An unchanged file keeps its modification time, so that cargo does not rebuild
/// what depends on it.
fn write_if_changed(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::write(path, content).with_context(|| format!("cannot write `{}`", path.display()))
}
