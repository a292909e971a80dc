//! The published versions of the package `skillhost:tool` that this host runs
//! components of, and what it says of any other. What a version may change
//! stands in `wit/VERSIONING.md`. How a component of an older version is talked
//! to stands in a file of its own, `versions/v<version>.rs`, once there is one.

use semver::{Version, VersionReq};
use wasmtime::component::Component;
use wasmtime::{Engine, Result, bail};

use crate::text::suggest;

/// The package, and what stands before an interface's name.
const PACKAGE: &str = "skillhost:tool";

/// A version that this host knows.
pub(crate) struct Known {
    /// Which it is.
    version: &'static str,
    /// The interface that its components export.
    pub(crate) tools: &'static str,
    /// The interface by which the host tells of its skills.
    pub(crate) skills: &'static str,
    /// The interface by which a component leaves its text to the host.
    pub(crate) answer: &'static str,
}

/// All of them, newest first: a component that exports several is called by the
/// newest. Versions between which a caret range makes no difference (0.1.0 and
/// 0.1.1) are one entry, of the newest.
const KNOWN: [Known; 1] = [Known {
    version: "0.1.0",
    tools: "skillhost:tool/tools@0.1.0",
    skills: "skillhost:tool/skills@0.1.0",
    answer: "skillhost:tool/answer@0.1.0",
}];

/// An interface's name, taken apart.
struct Interface<'a> {
    name: &'a str,
    version: Option<&'a str>,
}

/// The version that a component was built with, by what it exports. `None`: it
/// exports nothing of the package. One that this host does not know is an error
/// that says what would run it.
pub(crate) fn exported(component: &Component, engine: &Engine) -> Result<Option<&'static Known>> {
    let tools = exports(component, engine);
    match (known(&tools), tools.as_slice()) {
        (Some((known, _)), _) => Ok(Some(known)),
        (None, []) => Ok(None),
        (None, [export, ..]) => {
            let version = Interface::of_package(export).and_then(|named| named.version);
            bail!("it exports `{export}`: {}", unknown(version))
        }
    }
}

/// The interface of tools that a component is called by; if none is known, the
/// first that it exports.
pub(crate) fn called(component: &Component, engine: &Engine) -> Option<String> {
    let tools = exports(component, engine);
    match known(&tools) {
        Some((_, export)) => Some(export.clone()),
        None => tools.into_iter().next(),
    }
}

/// The interfaces of tools that a component exports, of any version.
fn exports(component: &Component, engine: &Engine) -> Vec<String> {
    let kind = component.component_type();
    let exports = kind.exports(engine).map(|(name, _)| name);
    exports
        .filter(|export| Interface::of_package(export).is_some_and(|named| named.name == "tools"))
        .map(str::to_owned)
        .collect()
}

/// The newest version that is known, of some that a component exports.
fn known(tools: &[String]) -> Option<(&'static Known, &String)> {
    KNOWN.iter().find_map(|known| {
        let mut exported = tools.iter();
        let runs = |export: &&String| {
            Interface::of_package(export).is_some_and(|named| known.runs(named.version))
        };
        Some((known, exported.find(runs)?))
    })
}

/// What a component would export that this host calls.
pub(crate) fn newest() -> &'static Known {
    &KNOWN[0]
}

/// Whether the host offers an interface of the package to components.
pub(crate) fn is_offered(import: &str) -> bool {
    let interface = Interface::of_package(import);
    interface.is_some_and(|interface| {
        let mut known = KNOWN.iter();
        known.any(|known| known.offers(&interface))
    })
}

/// Why an import is not given to a component.
pub(crate) fn refusal(import: &str) -> String {
    let Some(interface) = Interface::of_package(import) else {
        return format!("it imports `{import}`, which no tool is given");
    };
    let mut known = KNOWN.iter();
    match known.find(|known| known.runs(interface.version)) {
        None => format!("it imports `{import}`: {}", unknown(interface.version)),
        Some(known) => {
            let nearest = suggest::nearest(interface.name, known.offered());
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

impl Known {
    /// Whether a component of this version is called as one of this entry.
    fn runs(&self, version: Option<&str>) -> bool {
        let version = version.and_then(|version| Version::parse(version).ok());
        let range = VersionReq::parse(&format!("^{}", self.version));
        // A later patch adds what a component may import, and changes nothing
        // that is there.
        matches!((version, range), (Some(version), Ok(range)) if range.matches(&version))
    }

    fn offers(&self, interface: &Interface<'_>) -> bool {
        self.runs(interface.version) && self.offered().any(|name| name == interface.name)
    }

    /// The names of the interfaces that components may import.
    fn offered(&self) -> impl Iterator<Item = &'static str> {
        let offered = [self.skills, self.answer].into_iter();
        offered.filter_map(|interface| Some(Interface::of_package(interface)?.name))
    }
}

impl<'a> Interface<'a> {
    /// The parts of a name like `skillhost:tool/tools@0.1.0`.
    fn of_package(name: &'a str) -> Option<Self> {
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

/// Why a version does not run here, and what to do.
fn unknown(version: Option<&str>) -> String {
    let (host, newest) = (this_host(), newest().version);
    let Some(version) = version else {
        return format!("it names no version of `{PACKAGE}`; {host}: write `@{newest}` after it");
    };
    let (Ok(asked), Ok(known)) = (Version::parse(version), Version::parse(newest)) else {
        return format!("`{version}` is no version; {host}: build it with `{PACKAGE}@{newest}`");
    };
    if !asked.pre.is_empty() {
        return format!(
            "version {version} of `{PACKAGE}` is a draft, which no host promises to run; {host}: \
             build it with that"
        );
    }
    match asked > known {
        true => format!(
            "it was built with version {version} of `{PACKAGE}`, and {host}: run it with a newer \
             skillhost, one that knows {version}, or build it with `{PACKAGE}@{newest}`"
        ),
        false => format!(
            "it was built with version {version} of `{PACKAGE}`, which was never published; \
             {host}: build it with that"
        ),
    }
}

/// What this host is and knows.
fn this_host() -> String {
    let known: Vec<&str> = KNOWN.iter().map(|known| known.version).collect();
    format!(
        "this host, skillhost {}, knows version {}",
        env!("CARGO_PKG_VERSION"),
        known.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_is_offered_to_all_patches_of_a_known_version() {
        for (import, offered) in [
            ("skillhost:tool/skills@0.1.0", true),
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
    fn entries_name_their_own_version_and_are_sorted() {
        for known in &KNOWN {
            for interface in [known.tools, known.skills] {
                let version = Interface::of_package(interface).and_then(|named| named.version);
                assert_eq!(version, Some(known.version));
            }
        }
        assert!(KNOWN.is_sorted_by(|a, b| {
            Version::parse(a.version).unwrap() > Version::parse(b.version).unwrap()
        }));
    }
}
