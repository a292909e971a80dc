//! Reading settings from a file, or from its text.

use std::path::Path;

use anyhow::{Context as _, bail};

use super::keys::Keys;
use super::settings::FileSettings;
use super::source::{ConfigSource, Reach, beyond_reach, is_within};
use super::tables::Tables;
use skillhost_skills::named_file;
use skillhost_skills::trust::Trust;

/// The maximum number of bytes of a configuration file.
const MAX_BYTES: u64 = 1 << 20;

/// Reads settings from a file that the operator named. Refuses a file that others can write.
///
/// # Errors
///
/// Fails if the file cannot be read or is not trusted, or a key or a value is invalid. The error
/// names the line and a valid value.
pub fn read<S: FileSettings>(path: &Path, trust: &Trust) -> anyhow::Result<S> {
    read_within(path, trust, Reach::Anywhere)
}

/// Reads settings from a file that was found in the current folder. Refuses everything that
/// [`read`] refuses, and keys with effects beyond the file's folder.
///
/// # Errors
///
/// Fails as [`read`] does, and if a key has effects beyond the folder.
pub fn read_found<S: FileSettings>(path: &Path, trust: &Trust) -> anyhow::Result<S> {
    read_within(path, trust, Reach::OwnFolder)
}

/// Reads settings from a file's text. `name` is the file's name in messages; relative paths
/// start at `folder`.
///
/// # Errors
///
/// Fails if a key or a value is invalid.
pub fn parse<S: FileSettings>(text: &str, name: &str, folder: &Path) -> anyhow::Result<S> {
    parse_source(ConfigSource::new(text, name, folder, Reach::Anywhere))
}

/// Reads one table from a file that the operator named, even if other keys are invalid.
///
/// # Errors
///
/// Fails if the file cannot be read, is not trusted, or is not TOML.
pub fn read_table<T>(
    path: &Path,
    trust: &Trust,
    read: impl FnOnce(&Tables<'_>) -> T,
) -> anyhow::Result<T> {
    let text = read_text(path, trust, Reach::Anywhere)?;
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new("."));
    let source = ConfigSource::new(&text, &name, folder, Reach::Anywhere);
    Ok(read(&Tables::parse_unchecked(source)?))
}

fn read_within<S: FileSettings>(path: &Path, trust: &Trust, reach: Reach) -> anyhow::Result<S> {
    let text = read_text(path, trust, reach)?;
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new("."));
    parse_source(ConfigSource::new(&text, &name, folder, reach))
}

fn read_text(path: &Path, trust: &Trust, reach: Reach) -> anyhow::Result<String> {
    let cannot = || format!("cannot use the configuration `{}`", path.display());
    trust.check(path).with_context(cannot)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    if reach == Reach::OwnFolder && !is_within(path, folder) {
        bail!("{}: {}", cannot(), beyond_reach("it is a symlink, which"));
    }
    // Open the file with care: another user may have created it in the current folder.
    let file = named_file::open_with(path, trust.opener());
    let text = file.and_then(|file| named_file::read_all_text(file, MAX_BYTES));
    text.with_context(cannot)
}

fn parse_source<S: FileSettings>(source: ConfigSource<'_>) -> anyhow::Result<S> {
    S::from_tables(&Tables::parse(source, &Keys::of::<S>())?)
}
