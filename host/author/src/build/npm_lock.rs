//! Checks `package.json` and `package-lock.json` before npm reads them.
//!
//! `npm ci --ignore-scripts` follows paths, links, workspaces and git addresses in these files, and
//! installs packages without a hash. It also starts git, which can run code of a repository. This
//! module allows only what a registry serves: names, versions and hashes. `javascript.rs` and
//! `add_library.rs` run npm.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};
use skillhost_skills::named_file;

use super::BuildError;
use super::project::MAX_TEXT_BYTES;

const MANIFEST: &str = "package.json";
const LOCK: &str = "package-lock.json";

/// The members of a manifest, and of a locked package, that map names of packages to versions.
/// npm prefers those versions to the locked ones.
const DEPENDENCIES: [&str; 5] = [
    "dependencies",
    "devDependencies",
    "optionalDependencies",
    "peerDependencies",
    "overrides",
];

/// Refuses a folder whose manifest or lock file names anything but packages of a registry.
///
/// Also removes the addresses of packages from the lock file, so that npm asks the registry
/// that the user has configured. Guards against: a project that names its own code as the package
/// of the compiler, which a build runs.
pub(super) fn restrict_to_registry(folder: &Path) -> Result<(), BuildError> {
    let (manifest, mut lock) = (read(folder, MANIFEST)?, read(folder, LOCK)?);
    let version = lock.get("lockfileVersion").and_then(Value::as_u64);
    let packages = lock.get_mut("packages").and_then(Value::as_object_mut);
    let (Some(2 | 3), Some(packages)) = (version, packages) else {
        return Err(BuildError::project(format!(
            "`{LOCK}` has no `packages`, or its `lockfileVersion` is not 2 or 3"
        ))
        .fix(
            "remove it, and make a new one with `npm install --package-lock-only \
             --ignore-scripts` of npm 7 or newer",
        ));
    };
    if let Some(entry) = find_foreign_entry(&manifest, packages) {
        return Err(BuildError::project(format!(
            "`{MANIFEST}` and `{LOCK}` must name only packages of a registry, by version and hash: \
             {entry}"
        ))
        .fix("put your own modules into `src`; each package needs a `sha512` hash"));
    }
    let mut has_addresses = false;
    for package in packages.values_mut().filter_map(Value::as_object_mut) {
        has_addresses |= package.remove("resolved").is_some();
    }
    if !has_addresses {
        return Ok(());
    }
    let file = folder.join(LOCK);
    fs::write(&file, format!("{:#}\n", Value::Object(lock)))
        .map_err(|error| BuildError::setup(format!("cannot write `{}`: {error}", file.display())))
}

/// Reads a JSON object more strictly than npm, which accepts, for example, a byte order mark.
fn read(folder: &Path, name: &str) -> Result<Map<String, Value>, BuildError> {
    let text = named_file::read_text(&folder.join(name), MAX_TEXT_BYTES)
        .map_err(|error| BuildError::project(format!("cannot read `{name}`: {error:#}")))?;
    serde_json::from_str(&text).map_err(|error| {
        BuildError::project(format!("`{name}` is not a JSON object: {error}"))
            .fix("save it as UTF-8 without a byte order mark, or restore it from version control")
    })
}

/// Returns a dependency or a locked package that does not come from a registry.
fn find_foreign_entry(
    manifest: &Map<String, Value>,
    packages: &Map<String, Value>,
) -> Option<String> {
    if manifest.contains_key("workspaces") {
        return Some("`workspaces`".to_owned());
    }
    let locked = packages.values().filter_map(Value::as_object);
    let foreign_dependency = std::iter::once(manifest)
        .chain(locked)
        .flat_map(|package| {
            DEPENDENCIES
                .iter()
                .filter_map(|member| package.get_key_value(*member))
        })
        .find_map(|(member, dependencies)| find_foreign_range(member, dependencies));
    foreign_dependency.or_else(|| {
        packages
            .iter()
            // The empty location is the project itself.
            .filter(|(location, _)| !location.is_empty())
            .find(|(location, package)| !is_registry_package(location, package))
            .map(|(location, _)| format!("`{location}`"))
    })
}

/// Returns a member that is not a version range. `overrides` are nested.
fn find_foreign_range(name: &str, value: &Value) -> Option<String> {
    match value {
        Value::Object(members) => members.iter().find_map(|(name, value)| match value {
            Value::String(range) if is_range(range) => None,
            value => find_foreign_range(name, value),
        }),
        value => Some(format!("`{name}` is {value}")),
    }
}

/// Checks that a locked package is where npm puts it, and comes from a registry with a hash.
fn is_registry_package(location: &str, package: &Value) -> bool {
    let text = |key: &str| package.get(key).and_then(Value::as_str);
    let names = location.strip_prefix("node_modules/");
    names.is_some_and(|names| names.split("/node_modules/").all(is_name))
        && package.get("link").is_none()
        && text("version").is_some_and(is_range)
        && (package.get("name").is_none() || text("name").is_some_and(is_name))
        // A bundled package needs a hash too: if its parent's archive lacks the package, npm
        // asks the registry.
        && text("integrity").is_some_and(is_hash)
}

/// Checks whether a text is a hash that npm verifies. npm ignores malformed hashes. It also ignores
/// other kinds of hash if the registry names a `sha512` one.
fn is_hash(text: &str) -> bool {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    text.strip_prefix("sha512-")
        .is_some_and(|hash| hash.len() == 88 && hash.chars().all(is_base64))
}

/// Checks whether a text is the name of a package, with or without a scope.
pub(super) fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c))
    };
    match text.strip_prefix('@').and_then(|text| text.split_once('/')) {
        Some((scope, name)) => is_part(scope) && is_part(name),
        None => is_part(text),
    }
}

/// Checks whether a text is a version, a range of versions, a tag, or an alias of another registry
/// package.
fn is_range(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || " .+-^~<>=|*,_$".contains(c);
    // After this prefix, npm accepts only registry packages.
    text.starts_with("npm:") || !text.starts_with('.') && text.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn foreign_entry(manifest: &Value, packages: &Value) -> Option<String> {
        let object = |value: &Value| value.as_object().unwrap().clone();
        find_foreign_entry(&object(manifest), &object(packages))
    }

    /// Returns a well-formed hash.
    fn hash() -> String {
        format!("sha512-{}==", "b".repeat(86))
    }

    #[test]
    fn accepts_only_registry_packages() {
        let manifest = json!({
            "dependencies": {"one": "^1.0.0", "two": "1.x || >=2", "three": "npm:two@1"},
            "overrides": {"one": {".": "1.0.0", "@a/two": "$two"}},
        });
        let hash = hash();
        let address = "https://registry.example/one.tgz";
        for package in [
            json!({"version": "1.0.0", "integrity": hash}),
            json!({"version": "1.0.0-rc.1+b", "resolved": address, "integrity": hash}),
            json!({"version": "1.0.0", "name": "@a/one", "peerDependencies": {"b": "*"},
                "integrity": hash}),
        ] {
            for location in ["node_modules/one", "node_modules/@a/b.c/node_modules/one"] {
                let packages = json!({"": {"name": "own"}, location: package});
                assert_eq!(foreign_entry(&manifest, &packages), None, "{packages}");
            }
        }
        for integrity in [
            json!(null),
            json!(""),
            json!("one"),
            json!("sha512-"),
            json!(format!("{hash} one")),
            json!(hash.replace("sha512", "md5")),
            // npm ignores these if the registry names another kind.
            json!(format!("sha1-{}=", "b".repeat(27))),
            json!(format!("sha256-{}=", "b".repeat(43))),
            json!(hash.replace('b', "?")),
            json!([hash]),
        ] {
            let package = json!({"version": "1.0.0", "integrity": integrity});
            let entry = foreign_entry(&manifest, &json!({"node_modules/one": package}));
            assert_eq!(entry.as_deref(), Some("`node_modules/one`"), "{package}");
        }
        for package in [
            json!({"version": "1.0.0"}),
            json!({"version": "1.0.0", "inBundle": true}),
        ] {
            let entry = foreign_entry(&manifest, &json!({"node_modules/one": package}));
            assert!(entry.is_some(), "{package}");
        }
        for mut package in [
            json!({"version": "file:../one.tgz"}),
            json!({"version": "1.0.0", "name": "one@file:../one"}),
            json!({"version": "1.0.0", "name": "../one"}),
            json!({"version": "1.0.0", "name": "/project/one"}),
            json!({"version": "1.0.0", "link": true}),
            json!({"resolved": "../one", "link": true}),
            json!({"version": 1}),
            json!({}),
        ] {
            package["integrity"] = json!(hash);
            let entry = foreign_entry(&manifest, &json!({"node_modules/one": package}));
            assert_eq!(entry.as_deref(), Some("`node_modules/one`"), "{package}");
        }
        for location in [
            "one",
            "node_modules/",
            "node_modules/..",
            "node_modules/.one",
            "node_modules/../one",
            "node_modules/one/node_modules/../../../one",
            "/node_modules/one",
        ] {
            let packages = json!({location: {"version": "1.0.0", "integrity": hash}});
            assert_eq!(
                foreign_entry(&manifest, &packages),
                Some(format!("`{location}`"))
            );
        }
    }

    #[test]
    fn accepts_only_version_ranges() {
        for (member, dependencies) in [
            ("dependencies", json!({"one": "file:../one"})),
            ("dependencies", json!({"one": "../one"})),
            ("dependencies", json!({"one": "~/one"})),
            ("dependencies", json!({"one": ".."})),
            ("dependencies", json!({"one": "./one.tgz"})),
            ("dependencies", json!({"one": "git+file:///project/one"})),
            ("dependencies", json!({"one": 1})),
            // npm also reads strings and arrays as names with versions.
            ("dependencies", json!("one@file:../one")),
            ("dependencies", json!(["one@file:../one"])),
            ("devDependencies", json!({"one": "owner/one"})),
            (
                "optionalDependencies",
                json!({"one": "https://host/one.tgz"}),
            ),
            ("peerDependencies", json!({"one": "file:/project/one.tgz"})),
            ("overrides", json!({"two": {"one": "file:../one"}})),
        ] {
            let package = json!({"version": "1.0.0", member: dependencies});
            let in_manifest = foreign_entry(&package, &json!({}));
            let mut locked = package.clone();
            locked["integrity"] = json!(hash());
            let in_lock = foreign_entry(&json!({}), &json!({"node_modules/two": locked}));
            assert!(in_manifest.is_some(), "{package}");
            assert_eq!(in_manifest, in_lock, "{package}");
        }
        assert!(foreign_entry(&json!({"workspaces": ["one"]}), &json!({})).is_some());
    }
}
