//! Reading a configuration from disk.

use std::path::Path;

use anyhow::{Context as _, bail};

use super::Config;
use super::parse::parse;
use super::source::{ConfigSource, Reach, beyond, lies_within};
use skillhost_skills::named_file;
use skillhost_skills::trust::Trust;

/// The maximum bytes of a configuration file.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a configuration. Refuses a file that others can write.
pub(super) fn read(path: &Path, trust: &Trust, reach: Reach) -> anyhow::Result<Config> {
    let cannot = || format!("cannot use the configuration `{}`", path.display());
    trust.check(path).with_context(cannot)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    if reach == Reach::OwnFolder && !lies_within(path, folder) {
        bail!("{}: {}", cannot(), beyond("it is a symlink, which"));
    }
    // Another user may have created the file in the current folder.
    let text = named_file::read_text(path, MAX_BYTES).with_context(cannot)?;
    parse(&ConfigSource::new(
        &text,
        &path.display().to_string(),
        folder,
        reach,
    ))
}
