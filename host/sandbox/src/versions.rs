//! The supported versions of the package `skillhost:tool`, and the errors for other
//! versions. `wit/VERSIONING.md` says what a version may change. Support for an older version
//! belongs in its own file, `versions/v<version>.rs`.

use semver::{Version, VersionReq};
use wasmtime::component::Component;
use wasmtime::{Engine, Result, bail};

use skillhost_skills::text::suggest;

/// The package, the prefix of an interface's name.
const PACKAGE: &str = "skillhost:tool";

/// A supported version with the names of its interfaces.
pub(crate) struct SupportedVersion {
    version: &'static str,
    /// The interface that its components export.
    pub(crate) tools: &'static str,
    /// The interface through which the host lists its skills.
    pub(crate) skills: &'static str,
    /// The interface through which a component makes the host read the answer's text from a file.
    pub(crate) answer: &'static str,
    /// The interface through which a component starts a skill's script.
    pub(crate) scripts: &'static str,
}

/// The supported versions, newest first.
///
/// The host calls a component through the newest version that the component exports. Compatible
/// versions, such as 0.1.0 and 0.1.1, share an entry with the name of the newest.
const SUPPORTED: [SupportedVersion; 1] = [SupportedVersion {
    version: "0.1.1",
    tools: "skillhost:tool/tools@0.1.1",
    skills: "skillhost:tool/skills@0.1.1",
    answer: "skillhost:tool/answer@0.1.1",
    scripts: "skillhost:tool/scripts@0.1.1",
}];

/// The parsed name of an interface of the package.
struct InterfaceName<'a> {
    name: &'a str,
    version: Option<&'a str>,
}

/// Returns the newest supported version that a component exports.
///
/// Returns `None` if it does not export the interface `tools`. The error for an unsupported
/// version says what to do.
pub(crate) fn exported_version(
    component: &Component,
    engine: &Engine,
) -> Result<Option<&'static SupportedVersion>> {
    let tools = tools_exports(component, engine);
    match (newest_of(&tools), tools.as_slice()) {
        (Some((version, _)), _) => Ok(Some(version)),
        (None, []) => Ok(None),
        (None, [export, ..]) => {
            let version = InterfaceName::parse(export).and_then(|name| name.version);
            bail!("it exports `{export}`: {}", unsupported(version))
        }
    }
}

/// Returns the interface through which the host calls a component's tools. If the host supports
/// no exported version, returns the first exported one.
pub(crate) fn tools_interface(component: &Component, engine: &Engine) -> Option<String> {
    let tools = tools_exports(component, engine);
    match newest_of(&tools) {
        Some((_, export)) => Some(export.clone()),
        None => tools.into_iter().next(),
    }
}

/// Returns the `tools` interfaces that a component exports, of any version.
fn tools_exports(component: &Component, engine: &Engine) -> Vec<String> {
    let kind = component.component_type();
    let exports = kind.exports(engine).map(|(name, _)| name);
    exports
        .filter(|export| InterfaceName::parse(export).is_some_and(|name| name.name == "tools"))
        .map(str::to_owned)
        .collect()
}

/// Returns the newest supported version that a component exports, with the name of that export.
fn newest_of(tools: &[String]) -> Option<(&'static SupportedVersion, &String)> {
    SUPPORTED.iter().find_map(|version| {
        let mut exports = tools.iter();
        let is_supported = |export: &&String| {
            InterfaceName::parse(export).is_some_and(|name| version.supports(name.version))
        };
        Some((version, exports.find(is_supported)?))
    })
}

/// Returns the newest version, for new components.
pub(crate) fn newest() -> &'static SupportedVersion {
    &SUPPORTED[0]
}

/// Returns whether the host offers an interface of the package to components.
pub(crate) fn is_offered(import: &str) -> bool {
    let interface = InterfaceName::parse(import);
    interface.is_some_and(|interface| {
        let mut versions = SUPPORTED.iter();
        versions.any(|version| version.offers(&interface))
    })
}

/// Returns the reason why the host does not offer an import.
pub(crate) fn refusal(import: &str) -> String {
    let Some(interface) = InterfaceName::parse(import) else {
        return format!("it imports `{import}`, which the host does not offer to tools");
    };
    let mut versions = SUPPORTED.iter();
    match versions.find(|version| version.supports(interface.version)) {
        None => format!("it imports `{import}`: {}", unsupported(interface.version)),
        Some(version) => {
            let nearest = suggest::nearest(interface.name, version.offered());
            let hint = nearest.first();
            let hint = hint.map(|name| format!("; did you mean `{PACKAGE}/{name}`?"));
            format!(
                "it imports `{import}`, which {} does not offer{}",
                this_host(),
                hint.unwrap_or_default()
            )
        }
    }
}

impl SupportedVersion {
    /// Returns whether this entry supports a component's version, including earlier and
    /// later patches. A patch may only add imports for components.
    fn supports(&self, version: Option<&str>) -> bool {
        let version = version.and_then(|version| Version::parse(version).ok());
        let (major_minor, _patch) = self.version.rsplit_once('.').unwrap_or_default();
        let range = VersionReq::parse(&format!("^{major_minor}"));
        matches!((version, range), (Some(version), Ok(range)) if range.matches(&version))
    }

    fn offers(&self, interface: &InterfaceName<'_>) -> bool {
        self.supports(interface.version) && self.offered().any(|name| name == interface.name)
    }

    /// Returns the names of the interfaces that components may import.
    fn offered(&self) -> impl Iterator<Item = &'static str> {
        let offered = [self.skills, self.answer, self.scripts].into_iter();
        offered.filter_map(|interface| Some(InterfaceName::parse(interface)?.name))
    }
}

impl<'a> InterfaceName<'a> {
    /// Parses a name like `skillhost:tool/tools@0.1.0`. Returns `None` for other packages.
    fn parse(name: &'a str) -> Option<Self> {
        let name = name.strip_prefix(PACKAGE)?.strip_prefix('/')?;
        Some(match name.split_once('@') {
            Some((name, version)) => Self {
                name,
                version: Some(version),
            },
            None => Self {
                name,
                version: None,
            },
        })
    }
}

/// Returns the reason why a version is not supported, and what to do.
fn unsupported(version: Option<&str>) -> String {
    let (host, newest) = (this_host(), newest().version);
    let Some(version) = version else {
        return format!(
            "the name has no version of `{PACKAGE}`; {host}: write `@{newest}` after the name"
        );
    };
    let (Ok(built_with), Ok(supported)) = (Version::parse(version), Version::parse(newest)) else {
        return format!(
            "`{version}` is not a version; {host}: build the component with `{PACKAGE}@{newest}`"
        );
    };
    if !built_with.pre.is_empty() {
        return format!(
            "version {version} of `{PACKAGE}` is a draft, which no host supports; {host}: build \
             the component with that version"
        );
    }
    if built_with > supported {
        format!(
            "it was built with version {version} of `{PACKAGE}`, and {host}: run it with a newer \
             skillhost that knows {version}, or build it with `{PACKAGE}@{newest}`"
        )
    } else {
        format!(
            "it was built with version {version} of `{PACKAGE}`, which was never published; \
             {host}: build it with `{PACKAGE}@{newest}`"
        )
    }
}

/// Returns the name of this host and its supported versions, for messages.
fn this_host() -> String {
    let versions: Vec<&str> = SUPPORTED.iter().map(|version| version.version).collect();
    format!(
        "this host, skillhost {}, knows version {}",
        env!("CARGO_PKG_VERSION"),
        versions.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_interfaces_to_all_patch_versions() {
        for (import, offered) in [
            ("skillhost:tool/skills@0.1.0", true),
            ("skillhost:tool/skills@0.1.1", true),
            ("skillhost:tool/skills@0.1.7", true),
            ("skillhost:tool/skills@0.2.0", false),
            ("skillhost:tool/skills@1.1.0", false),
            ("skillhost:tool/skills@0.0.1", false),
            ("skillhost:tool/skills@0.1.0-rc.1", false),
            ("skillhost:tool/skills@0.1", false),
            ("skillhost:tool/skills", false),
            ("skillhost:tool/tools@0.1.0", false),
            ("skillhost:tools/skills@0.1.0", false),
            ("skillhost:tool", false),
        ] {
            assert_eq!(is_offered(import), offered, "{import}");
        }
    }

    #[test]
    fn supported_versions_are_consistent_and_newest_first() {
        for entry in &SUPPORTED {
            for interface in [entry.tools, entry.skills, entry.answer, entry.scripts] {
                let version = InterfaceName::parse(interface).and_then(|name| name.version);
                assert_eq!(version, Some(entry.version));
            }
        }
        assert!(SUPPORTED.is_sorted_by(|a, b| {
            Version::parse(a.version).unwrap() > Version::parse(b.version).unwrap()
        }));
    }
}
