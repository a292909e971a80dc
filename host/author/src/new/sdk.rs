//! The options that choose the source of the crate `skillhost-guest` for a Rust project.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::Args;
use skillhost_skills::named_file;

use crate::kit::Language;

/// The maximum size of the crate's manifest. Guards against: a huge file of another kind.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// The line of the kit's `Cargo.toml` that uses the sources in the project.
pub(super) const LINE: &str = "skillhost-guest = { path = \"sdk\" }";

#[derive(Args)]
pub(super) struct SdkSource {
    /// Rust: use `skillhost-guest` from this folder [default: its sources come with the
    /// project, in `sdk`]
    #[arg(long, value_name = "DIR", conflicts_with = "sdk_version")]
    sdk_path: Option<PathBuf>,
    /// Rust: use this version of `skillhost-guest` from the registry
    #[arg(long, value_name = "VERSION")]
    sdk_version: Option<String>,
}

impl SdkSource {
    /// Returns the line that replaces [`LINE`], or `None` to keep it.
    pub(super) fn dependency(&self, language: Language) -> anyhow::Result<Option<String>> {
        if self.sdk_path.is_none() && self.sdk_version.is_none() {
            return Ok(None);
        }
        ensure!(
            language == Language::Rust,
            "`--sdk-path` and `--sdk-version` need `--lang rust`; a project in {} contains its kit",
            language.name()
        );
        if let Some(version) = &self.sdk_version {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-+^~=<>*, ".contains(c);
            ensure!(
                !version.is_empty() && version.chars().all(is_allowed),
                "`--sdk-version`: `{version}` is not a version, such as `0.1.0`"
            );
            return Ok(Some(format!("skillhost-guest = \"{version}\"")));
        }
        let folder = self.sdk_path.as_deref().unwrap_or_else(|| ".".as_ref());
        let shown = folder.display();
        let manifest = named_file::read_text(&folder.join("Cargo.toml"), MAX_MANIFEST_BYTES)
            .with_context(|| format!("`--sdk-path`: cannot read `{shown}/Cargo.toml`"))?;
        ensure!(
            manifest.contains("name = \"skillhost-guest\""),
            "`--sdk-path`: `{shown}` is not the crate `skillhost-guest`"
        );
        let folder = folder.canonicalize()?;
        let folder = folder
            .to_str()
            .with_context(|| format!("`--sdk-path`: the path of `{shown}` is not UTF-8"))?;
        // Every JSON string is also a valid string in TOML.
        let path = serde_json::to_string(folder)?;
        Ok(Some(format!("skillhost-guest = {{ path = {path} }}")))
    }
}
