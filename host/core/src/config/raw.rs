//! The keys of a configuration as serde reads them, before they become a `Config`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::audit::RawAudit;
use super::grants::RawGrant;
use super::prompt::RawSearch;

/// The raw keys of a file. The fields of type `IgnoredAny` only make their keys known: limits are
/// parsed separately, and other crates read the other keys.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct RawConfig {
    pub(super) skills: Vec<Spanned<RawRoot>>,
    pub(super) tools: Vec<Spanned<PathBuf>>,
    pub(super) home: Option<Spanned<PathBuf>>,
    pub(super) disabled_tools: Vec<String>,
    pub(super) offer: RawOffer,
    pub(super) wording: RawWording,
    pub(super) descriptions: BTreeMap<String, String>,
    pub(super) help: Option<bool>,
    pub(super) hard_links: bool,
    pub(super) omitted_names: Option<Spanned<Vec<String>>>,
    pub(super) audit_file: Option<Spanned<PathBuf>>,
    pub(super) audit: Option<Spanned<RawAudit>>,
    pub(super) pins: BTreeMap<String, Spanned<String>>,
    pub(super) require_pins: bool,
    pub(super) require_components: Option<bool>,
    #[serde(rename = "limits")]
    _limits: IgnoredAny,
    pub(super) grants: BTreeMap<String, Spanned<RawGrant>>,
    pub(super) network: RawNetwork,
    #[serde(rename = "stdio")]
    _stdio: IgnoredAny,
    #[serde(rename = "http")]
    _http: IgnoredAny,
    #[serde(rename = "clients")]
    _clients: IgnoredAny,
    #[serde(rename = "issuers")]
    _issuers: IgnoredAny,
    #[serde(rename = "prompt")]
    _prompt: IgnoredAny,
    pub(super) search: RawSearch,
    #[serde(rename = "process")]
    _process: IgnoredAny,
    #[serde(rename = "components")]
    _components: IgnoredAny,
    #[serde(rename = "trust")]
    _trust: IgnoredAny,
    #[serde(rename = "require_signatures")]
    _require_signatures: IgnoredAny,
}

/// The raw keys of `[network]`.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct RawNetwork {
    pub(super) ca_file: Option<Spanned<PathBuf>>,
    pub(super) consent_file: Option<Spanned<PathBuf>>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"all\", \"compact\" or a list of tools such as [\"read_skill\"]"
)]
pub(super) enum RawOffer {
    Set(RawToolSet),
    Named(BTreeSet<String>),
}

impl Default for RawOffer {
    fn default() -> Self {
        Self::Set(RawToolSet::All)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawToolSet {
    All,
    Compact,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawWording {
    #[default]
    Plain,
    Contract,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a folder, or { path = \"a folder\", follow_root_links = true, depth = 2 }"
)]
pub(super) enum RawRoot {
    Path(PathBuf),
    Table(RawRootTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRootTable {
    pub(super) path: PathBuf,
    #[serde(default)]
    pub(super) follow_root_links: bool,
    #[serde(default = "default_depth")]
    pub(super) depth: usize,
    #[serde(default)]
    pub(super) hidden: RawHidden,
}

impl RawRootTable {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            follow_root_links: false,
            depth: default_depth(),
            hidden: RawHidden::default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected true, false or a list of hidden folders such as [\".curated\"]"
)]
pub(super) enum RawHidden {
    All(bool),
    Named(Vec<String>),
}

impl Default for RawHidden {
    fn default() -> Self {
        Self::All(false)
    }
}

fn default_depth() -> usize {
    1
}
