//! Grants: the skills, limits and powers that an operator allows a component. Agents cannot
//! change them.

mod pattern;
mod scope;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::tool::limits::Limits;
use pattern::{PathPattern, Pattern};
use skillhost_egress::NetworkGrant;
use skillhost_skills::guard::HardLinks;

pub use pattern::PatternError;
pub use scope::Scope;

/// The skills, limits and powers of a component's tools. By default a built-in tool may
/// read every skill, and a third-party tool no skill.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    #[doc(hidden)]
    pub skills: Option<Skills>,
    pub(crate) home: Option<bool>,
    pub(crate) hard_links: Option<bool>,
    pub(crate) view: FolderAccess,
    #[doc(hidden)]
    pub limits: Option<Limits>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) scripts: Scripts,
    #[doc(hidden)]
    pub network: NetworkGrant,
    #[doc(hidden)]
    pub secret_files: BTreeMap<String, PathBuf>,
    #[doc(hidden)]
    pub source: Option<&'static str>,
}

/// A set of skills, by name.
#[derive(Debug, Clone, Default)]
pub struct Skills(Arc<[Pattern]>);

/// A set of scripts, by path in a skill.
#[derive(Debug, Clone, Default)]
pub struct Scripts(Arc<[PathPattern]>);

/// The access of a call to its folder. No call writes to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FolderAccess {
    /// The call can only read.
    #[default]
    ReadOnly,
    /// The call can also write, and has an empty `/tmp`. All changes stay in memory, and are
    /// dropped after the call.
    CopyOnWrite,
}

impl FolderAccess {
    /// Returns the name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::CopyOnWrite => "copy-on-write",
        }
    }
}

/// The effective grant of a tool, with all defaults filled in.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The skills that the tool may read.
    pub skills: Skills,
    /// True if calls that name no skill may read the home folder.
    pub home: bool,
    /// The rule for files with several hard links.
    pub hard_links: HardLinks,
    /// The access of calls to their folder.
    pub view: FolderAccess,
    /// The limits of a call.
    pub limits: Limits,
    /// The environment variables of the guest.
    pub environment: Arc<[(String, String)]>,
    /// The scripts that the tool may run.
    pub scripts: Scripts,
    /// The requests that the tool may send.
    pub network: Arc<NetworkGrant>,
}

/// The defaults for settings that a grant leaves out.
#[derive(Debug, Clone, Default)]
pub struct Defaults {
    /// True if files with several hard links may be read.
    pub hard_links: bool,
    /// The limits of a call.
    pub limits: Limits,
}

impl Grant {
    /// Creates a grant with the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the skills that the component may read, by name: `*` matches any characters,
    /// `?` any single character.
    pub fn skills<S: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<Self, PatternError> {
        self.skills = Some(Skills::new(patterns)?);
        Ok(self)
    }

    /// Allows calls that name no skill to read the home folder.
    pub fn home(mut self, allowed: bool) -> Self {
        self.home = Some(allowed);
        self
    }

    /// Allows reading files with several hard links. A link can be outside the skill. Default: the
    /// host's setting.
    pub fn hard_links(mut self, allowed: bool) -> Self {
        self.hard_links = Some(allowed);
        self
    }

    /// Sets the access of calls to their folder. Default: read-only.
    pub fn view(mut self, access: FolderAccess) -> Self {
        self.view = access;
        self
    }

    /// Sets the limits of a call. Default: the host's.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Sets the name of the grant's source for messages. Default: "the configuration".
    pub fn source(mut self, name: &'static str) -> Self {
        self.source = Some(name);
        self
    }

    /// Sets an environment variable for calls.
    pub fn environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the scripts that calls may run, by path in the call's skill: `*` and `?` match
    /// characters other than `/`, and `**` any number of folders, as in `scripts/**/*.py`.
    /// Default: no script.
    pub fn scripts<S: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<Self, PatternError> {
        let patterns = patterns.into_iter();
        let patterns = patterns.map(|text| PathPattern::new(text.as_ref()));
        self.scripts = Scripts(patterns.collect::<Result<_, _>>()?);
        Ok(self)
    }

    /// Sets the HTTP requests that calls may send. Default: none.
    ///
    /// They also need [`HostBuilder::egress`], with the same grant for the component.
    ///
    /// [`HostBuilder::egress`]: https://docs.rs/skillhost/latest/skillhost/struct.HostBuilder.html
    pub fn network(mut self, network: NetworkGrant) -> Self {
        self.network = network;
        self
    }

    /// Sets the file with a secret of the [network](Grant::network) grant. Only the egress process
    /// reads it.
    pub fn secret_file(mut self, name: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        self.secret_files.insert(name.into(), file.into());
        self
    }

    /// Returns the effective grant of a component's tools.
    pub fn terms(&self, is_built_in: bool, defaults: &Defaults) -> Terms {
        let skills = if is_built_in {
            Skills::all()
        } else {
            Skills::default()
        };
        Terms {
            skills: self.skills.clone().unwrap_or(skills),
            home: self.home.unwrap_or(is_built_in),
            hard_links: self.hard_links.unwrap_or(defaults.hard_links).into(),
            view: self.view,
            limits: self.limits.as_ref().unwrap_or(&defaults.limits).clone(),
            environment: self.environment.clone().into(),
            scripts: self.scripts.clone(),
            network: Arc::new(self.network.clone()),
        }
    }
}

impl Skills {
    pub(crate) fn all() -> Self {
        Self(Arc::new([Pattern::all()]))
    }

    pub(crate) fn new<S: AsRef<str>>(
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<Self, PatternError> {
        let patterns = patterns.into_iter();
        let patterns = patterns.map(|text| Pattern::new(text.as_ref()));
        patterns.collect::<Result<_, _>>().map(Self)
    }

    /// Returns the skills that are named without wildcards.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(Pattern::name)
    }

    /// Returns whether a skill is in the set.
    pub fn allow(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(name))
    }

    /// Returns whether every possible skill is in the set.
    pub fn allow_all(&self) -> bool {
        self.0.contains(&Pattern::all())
    }
}

impl Scripts {
    /// Returns whether no script may run.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a script may run. The path must not contain `.` or `..` as a step.
    pub fn allow(&self, path: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(path))
    }
}

impl fmt::Display for Skills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, &self.0)
    }
}

impl fmt::Display for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, &self.0)
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, patterns: &[impl fmt::Display]) -> fmt::Result {
    if patterns.is_empty() {
        return f.write_str("none");
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{pattern}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows_only_matching_skills() {
        let granted = Grant::new()
            .skills(["calculator", "data_*", "v?", "team[1]"])
            .unwrap()
            .skills
            .unwrap();
        for (name, allowed) in [
            ("calculator", true),
            ("Calculator", false),
            ("calculator2", false),
            ("data_analysis", true),
            ("my_data_analysis", false),
            ("v1", true),
            ("v10", false),
            ("team[1]", true),
            ("team1", false),
            ("", false),
        ] {
            assert_eq!(granted.allow(name), allowed, "{name}");
        }
        assert!(!Skills::default().allow("calculator"));
        assert!(Skills::all().allow("calculator"));
        let names: Vec<&str> = granted.names().collect();
        assert_eq!(names, ["calculator", "team[1]"]);
    }
}
