//! Reading a configuration from disk.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use rustix::fs::OFlags;

use super::Config;
use super::parse::parse;
use super::source::{Reach, Source, beyond, lies_within};
use crate::trust::Trust;

/// The largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a configuration. Refuses one that others can change.
pub(super) fn read(path: &Path, trust: &Trust, reach: Reach) -> anyhow::Result<Config> {
    let cannot = || format!("cannot use the configuration `{}`", path.display());
    trust.check(path).with_context(cannot)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    if reach == Reach::OwnFolder && !lies_within(path, folder) {
        bail!("{}: {}", cannot(), beyond("it is a symlink, which"));
    }
    let text = read_text(path).with_context(cannot)?;
    parse(&Source {
        text: &text,
        name: &path.display().to_string(),
        folder,
        reach,
    })
}

/// Reads a regular file of a sensible size: somebody else may have put it into the
/// current folder.
fn read_text(path: &Path) -> anyhow::Result<String> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed())
        .open(path)?;
    anyhow::ensure!(file.metadata()?.is_file(), "it is not a regular file");
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    anyhow::ensure!(
        text.len() as u64 <= MAX_BYTES,
        "it is larger than {MAX_BYTES} bytes"
    );
    Ok(text)
}
