//! `skillhost.toml`: a file of settings, read and checked. Nothing in it is
//! guessed, and every error names the file, the line and what would be right.

mod audit;
mod clients;
mod file;
mod grants;
mod http;
mod issuers;
mod keys;
mod limits;
mod parse;
mod process;
mod prompt;
mod raw;
mod source;
mod stdio;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use skillhost_sandbox::tool::audit::AuditMode;
use skillhost_sandbox::tool::grant::Grant;
use skillhost_sandbox::tool::limits::{CompileLimits, Limits, Load};
use skillhost_sandbox::tool::offer::{ToolSet, Wording};
use skillhost_skills::catalog::SkillsRoot;
use skillhost_skills::search::SearchOffer;
use skillhost_skills::trust::Trust;
use source::{Reach, Source};

pub use audit::{CheckpointLimits, Checkpoints};
pub use clients::{ClientConfig, ClientLimits};
pub use http::{Http, HttpLimits, SocketMode};
pub use issuers::{ALGORITHMS, IssuerConfig, KeySource};
pub use process::Confinement;
pub use prompt::PromptLimits;
pub use stdio::StdioLimits;

/// The name of a configuration that is found in the current folder.
pub const DEFAULT_FILE: &str = "skillhost.toml";

/// A configuration. [`HostBuilder::from_config`](crate::HostBuilder::from_config)
/// sets up a host by it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// The file's name, for messages. None if no file was read.
    pub file: Option<String>,
    /// Folders of skills. The first one that has a skill wins.
    pub skills: Vec<ConfiguredRoot>,
    /// Folders of tool components.
    pub tools: Vec<ConfiguredPath>,
    /// The folder that paths without a skill are relative to.
    pub home: Option<ConfiguredPath>,
    /// Tools that are not offered and cannot be called.
    pub disabled_tools: Vec<String>,
    /// The tools that are offered together.
    pub offer: ToolSet,
    /// The words that describe the built-in tools.
    pub wording: Wording,
    /// Descriptions in the place of the tools' own, by the tool's name.
    pub descriptions: BTreeMap<String, String>,
    /// False if failures come without help for the model. None: they come with it.
    pub help: Option<bool>,
    /// True if files with several hard links may be read.
    pub hard_links: bool,
    /// The limits of a call.
    pub limits: Limits,
    /// The audit log.
    pub audit_file: Option<ConfiguredPath>,
    /// The fate of a call that cannot be recorded in it.
    pub audit: AuditMode,
    /// The place of that and of [`Self::checkpoints`], if the configuration has them: then
    /// there is a log.
    pub audit_place: Option<String>,
    /// The signatures in it.
    pub checkpoints: Checkpoints,
    /// The calls that run and wait at a time.
    pub load: Load,
    /// The limits of compiling a component file.
    pub compile_limits: CompileLimits,
    /// The SHA-256 of component files, by file name.
    pub pins: BTreeMap<String, String>,
    /// True if a component file without a pin is refused.
    pub require_pins: bool,
    /// True if a component file that cannot be loaded is an error. None: the program
    /// makes it one for a server that requires pins.
    pub require_components: Option<bool>,
    /// The grants, by the name of a component file or of a built-in tool.
    pub grants: BTreeMap<String, Grant>,
    /// The limits of a prompt's section.
    pub prompt: PromptLimits,
    /// When agents see `find_skills`.
    pub search_offer: SearchOffer,
    /// The limits of a server on stdin and stdout.
    pub stdio: StdioLimits,
    /// The settings of a server over HTTP.
    pub http: Http,
    /// The clients of such a server, sorted by name.
    pub clients: Vec<ClientConfig>,
    /// The issuers whose access tokens clients may show.
    pub issuers: Vec<IssuerConfig>,
    /// The extent to which the program confines itself.
    pub confinement: Confinement,
}

/// A folder of skills, and the place where it was configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredRoot {
    /// The folder.
    pub root: SkillsRoot,
    /// The place, for messages.
    pub place: String,
}

/// A path, and the place where it was configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredPath {
    /// The path. A relative one counts from the configuration file's folder.
    pub path: PathBuf,
    /// The place, for messages: "`skillhost.toml`, line 3".
    pub place: String,
}

impl Config {
    /// Reads a file that the operator named. Refuses one that others can change.
    pub fn read(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        file::read(path, trust, Reach::Anywhere)
    }

    /// Reads a file that was found and not named. Refuses keys that reach beyond
    /// its own folder, and all that [`Config::read`] refuses.
    pub fn read_found(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        file::read(path, trust, Reach::OwnFolder)
    }

    /// Parses a file's text. `name` stands for the file in messages; relative
    /// paths count from `folder`.
    pub fn parse(text: &str, name: &str, folder: &Path) -> anyhow::Result<Self> {
        parse::parse(&Source {
            text,
            name,
            folder,
            reach: Reach::Anywhere,
        })
    }

    /// Checks that a host of this configuration has a built-in tool.
    pub fn has_built_in(&self, tool: &str) -> bool {
        let is_off = tool == "find_skills" && self.search_offer == SearchOffer::Never;
        !is_off && self.offer.has(tool, true) && !self.disabled_tools.iter().any(|off| off == tool)
    }

    /// Returns the folders of skills. The error names the first that is not a
    /// folder, and where it was configured.
    pub fn skills_roots(&self) -> anyhow::Result<Vec<SkillsRoot>> {
        let check = |ConfiguredRoot { root, place }: &ConfiguredRoot| {
            check_folder(&root.path, place)?;
            Ok(root.clone())
        };
        self.skills.iter().map(check).collect()
    }
}

impl ConfiguredPath {
    /// Returns the path of a folder. The error names the place where it was
    /// configured.
    pub(crate) fn folder(&self) -> anyhow::Result<&Path> {
        check_folder(&self.path, &self.place)?;
        Ok(&self.path)
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
