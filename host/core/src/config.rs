//! Reading and checking `skillhost.toml`. Every error names the file, the line and a valid
//! value. An invalid value is always an error: the parser guesses nothing.
//!
//! [`Config`] has the settings of a host. It ignores the tables `[stdio]`, `[http]`, `[clients]`,
//! `[issuers]`, `[process]`, `[components]` and `[trust]`: they are for the programs around a host,
//! which read them as [`FileSettings`] of their own.

mod answers;
mod audit;
mod file;
mod grants;
mod keys;
mod limits;
mod parse;
mod prompt;
mod raw;
mod settings;
mod source;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf, absolute};

use anyhow::Context as _;

use skillhost_egress::EgressSettings;
use skillhost_sandbox::tool::audit::AuditMode;
use skillhost_sandbox::tool::consent::ConsentLimits;
use skillhost_sandbox::tool::grant::Grant;
use skillhost_sandbox::tool::limits::{CompileLimits, Limits, Load};
use skillhost_sandbox::tool::offer::{ToolSet, Wording};
use skillhost_skills::catalog::SkillsRoot;
use skillhost_skills::omitted::OmittedNames;
use skillhost_skills::search::SearchOffer;
use skillhost_skills::trust::Trust;

pub use answers::AnswerLimits;
pub use audit::{CheckpointCommand, CheckpointLimits, Checkpoints};
pub use file::{parse, read, read_found, read_table};
pub use keys::Keys;
pub use prompt::PromptLimits;
pub use settings::FileSettings;
pub use tables::Tables;

/// The name of the configuration that a program looks for in the current folder.
pub const DEFAULT_FILE: &str = "skillhost.toml";

/// The settings of a host.
///
/// [`Config::read`] reads them from a file, and a [`HostBuilder`](crate::HostBuilder) can set them
/// one by one.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// The file's name, for messages. `None` if no file was read.
    pub file: Option<String>,
    /// Folders of skills. If several folders have a skill of the same name, the first wins.
    pub skills: Vec<ConfiguredRoot>,
    /// The names of skills that are not served, in any folder. A program sets them: a configuration
    /// has no key for them.
    pub withheld_skills: BTreeSet<String>,
    /// Folders of tool components.
    pub tools: Vec<ConfiguredPath>,
    /// Component files, by the name that grants and pins use, such as `csv.wasm`. A program sets
    /// them: a configuration has no key for them.
    pub named_components: BTreeMap<String, PathBuf>,
    /// The home folder: the base of paths in calls that name no skill.
    pub home: Option<ConfiguredPath>,
    /// Disabled tools, which are not offered and cannot be called.
    pub disabled_tools: BTreeSet<String>,
    /// The offered tools.
    pub offer: ToolSet,
    /// The wording of the built-in tools' descriptions.
    pub wording: Wording,
    /// Descriptions that replace the tools' own, by tool name.
    pub descriptions: BTreeMap<String, String>,
    /// True if failures include help for the model, and answers get notes. `None` means true.
    pub help: Option<bool>,
    /// True if files with several hard links may be read, unless a grant decides otherwise.
    pub hard_links: bool,
    /// The names that lists of a skill's files leave out.
    pub omitted_names: OmittedNames,
    /// The limits of a call.
    pub limits: Limits,
    /// The file of the audit log. `None` if calls are not recorded.
    pub audit_file: Option<ConfiguredPath>,
    /// The mode for calls that cannot be recorded.
    pub audit: AuditMode,
    /// The place of the key `audit`, for messages. If this key is set, `audit_file` is required.
    pub audit_place: Option<String>,
    /// The settings of checkpoints.
    pub checkpoints: Checkpoints,
    /// The limits of all running and waiting calls together.
    pub load: Load,
    /// The limits of compiling a component file.
    pub compile_limits: CompileLimits,
    /// The SHA-256 of component files, by file name.
    pub pins: BTreeMap<String, String>,
    /// True if a component file without a pin is refused.
    pub require_pins: bool,
    /// The SHA-256 of component files that never load, with the reasons. A program sets them: a
    /// configuration has no key for them.
    pub denied_components: BTreeMap<String, String>,
    /// True if building the host fails when a component file cannot be loaded. If it is `None`, the
    /// program decides: it is true for a server that requires pins.
    pub require_components: Option<bool>,
    /// The grants, by component file or built-in tool.
    pub grants: BTreeMap<String, Grant>,
    /// The limits of the prompt section about skills.
    pub prompt: PromptLimits,
    /// The limits of the answers that a model reads.
    pub answers: AnswerLimits,
    /// When agents see `find_skills`.
    pub search_offer: SearchOffer,
    /// A file of certificate authorities, in PEM, that the requests of tools trust besides
    /// Mozilla's.
    pub ca_file: Option<ConfiguredPath>,
    /// The consent file, for components whose grant has `network = "ask"`.
    pub consent_file: Option<ConfiguredPath>,
    /// The limits of asking people for consent.
    pub consent: ConsentLimits,
}

/// A folder of skills and its place in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredRoot {
    /// The folder.
    pub root: SkillsRoot,
    /// The place, for messages.
    pub place: String,
}

/// A path and its place in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredPath {
    /// The path. A relative path starts at the configuration file's folder.
    pub path: PathBuf,
    /// The place, for messages: "`skillhost.toml`, line 3".
    pub place: String,
}

impl Config {
    /// Reads a file that the operator named. Refuses a file that others can write.
    pub fn read(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        read(path, trust)
    }

    /// Reads a file that was found in the current folder. Refuses everything that [`Config::read`]
    /// refuses, and keys with effects beyond the file's folder.
    pub fn read_found(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        read_found(path, trust)
    }

    /// Parses a file's text. `name` is the file's name in messages; relative paths start at
    /// `folder`.
    pub fn parse(text: &str, name: &str, folder: &Path) -> anyhow::Result<Self> {
        parse(text, name, folder)
    }

    /// Returns the settings of the egress process. They are [empty](EgressSettings::is_empty) if no
    /// grant allows a request. See [`HostBuilder::egress`](crate::HostBuilder::egress).
    ///
    /// # Errors
    ///
    /// Fails if a path is relative and the current folder is unknown.
    pub fn egress(&self) -> io::Result<EgressSettings> {
        let mut settings = EgressSettings::new();
        for (component, grant) in &self.grants {
            if !grant.network.is_empty() {
                let files = grant.secret_files.iter();
                let files = files.map(|(name, file)| Ok((name.clone(), absolute(file)?)));
                let files = files.collect::<io::Result<_>>()?;
                settings = settings.component(component, grant.network.clone(), files);
            }
        }
        if let Some(file) = &self.ca_file {
            settings = settings.authorities(absolute(&file.path)?);
        }
        Ok(settings)
    }

    /// Returns whether third-party components are configured.
    pub fn has_third_party_components(&self) -> bool {
        !self.tools.is_empty() || !self.named_components.is_empty()
    }

    /// Returns whether a host with this configuration serves this built-in tool.
    pub fn has_built_in(&self, tool: &str) -> bool {
        let is_off = tool == "find_skills" && self.search_offer == SearchOffer::Never;
        !is_off && self.offer.has(tool, true) && !self.disabled_tools.contains(tool)
    }

    /// Returns the folders of skills. The error names the first path that is not a folder,
    /// and its place.
    pub fn skills_roots(&self) -> anyhow::Result<Vec<SkillsRoot>> {
        let check = |ConfiguredRoot { root, place }: &ConfiguredRoot| {
            check_folder(&root.path, place)?;
            Ok(root.clone())
        };
        self.skills.iter().map(check).collect()
    }

    /// Checks that the configured folders exist. The error names the first missing folder, and its
    /// place.
    pub(crate) fn check_folders(&self) -> anyhow::Result<()> {
        self.skills_roots()?;
        self.tools
            .iter()
            .chain(&self.home)
            .try_for_each(|folder| check_folder(&folder.path, &folder.place))
    }
}

impl AsMut<Config> for Config {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl ConfiguredPath {
    pub(crate) fn new(path: impl Into<PathBuf>, place: &str) -> Self {
        Self {
            path: path.into(),
            place: place.to_owned(),
        }
    }
}

fn check_folder(path: &Path, place: &str) -> anyhow::Result<()> {
    let metadata = std::fs::metadata(path)
        .with_context(|| format!("{place}: cannot use the folder `{}`", path.display()))?;
    anyhow::ensure!(
        metadata.is_dir(),
        "{place}: `{}` is not a folder",
        path.display()
    );
    Ok(())
}
