//! `package.json` and `package-lock.json`: whether npm installs from them anything but
//! packages of its registry, with the bytes that were pinned. npm takes many texts for a
//! path or an address; all that is not understood here is refused. `javascript.rs` and
//! `add_library.rs` run npm.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};
use skillhost::named_file;

use super::Fault;
use super::project::TEXT_BYTES;

const MANIFEST: &str = "package.json";
const LOCK: &str = "package-lock.json";

/// The members of a manifest, and of a locked package, that say which versions of others
/// it needs. Where they disagree with what is locked, npm installs what they say.
const WANTED: [&str; 5] = [
    "dependencies",
    "devDependencies",
    "optionalDependencies",
    "peerDependencies",
    "overrides",
];

/// Refuses a folder whose manifest or lock names anything but packages of a registry.
/// Takes their addresses out of the lock, so that npm asks the registry that its user
/// has chosen. Guards against: a compiler that lies in the project.
pub(super) fn admit(folder: &Path) -> Result<(), Fault> {
    let (manifest, mut lock) = (read(folder, MANIFEST)?, read(folder, LOCK)?);
    let version = lock.get("lockfileVersion").and_then(Value::as_u64);
    let packages = lock.get("packages").and_then(Value::as_object);
    let (Some(2 | 3), Some(packages)) = (version, packages) else {
        return Err(Fault::project(format!(
            "`{LOCK}` has no `packages`, or its `lockfileVersion` is not 2 or 3"
        ))
        .fix(
            "make it anew: remove it, and run `npm install --package-lock-only --ignore-scripts` \
             of npm 7 or newer",
        ));
    };
    if let Some(beside) = beside_registry(&manifest, packages) {
        return Err(Fault::project(format!(
            "`{MANIFEST}` and `{LOCK}` may name only packages of a registry, by version and hash: \
             {beside}"
        ))
        .fix("put your own modules into `src`; a package has a hash of the kind `sha512`"));
    }
    if !remove_addresses(&mut lock) {
        return Ok(());
    }
    let file = folder.join(LOCK);
    fs::write(&file, format!("{:#}\n", Value::Object(lock)))
        .map_err(|error| Fault::missing(format!("cannot write `{}`: {error}", file.display())))
}

/// Removes where the packages of a lock are from. Returns whether there was one.
fn remove_addresses(lock: &mut Map<String, Value>) -> bool {
    let packages = lock.get_mut("packages").and_then(Value::as_object_mut);
    let packages = packages.into_iter().flat_map(Map::values_mut);
    let removed = packages.filter_map(|package| package.as_object_mut()?.remove("resolved"));
    removed.count() > 0
}

/// Reads an object of JSON. npm reads texts that are none, such as one with a byte order
/// mark.
fn read(folder: &Path, name: &str) -> Result<Map<String, Value>, Fault> {
    let text = named_file::read_text(&folder.join(name), TEXT_BYTES)
        .map_err(|error| Fault::project(format!("cannot read `{name}`: {error:#}")))?;
    serde_json::from_str(&text).map_err(|error| {
        // The message repeats the place at its end.
        let message = error.to_string();
        let what = message.split(" at line ").next().unwrap_or_default();
        Fault::project(format!(
            "`{name}`, line {}, column {}: not an object of JSON: {what}",
            error.line(),
            error.column()
        ))
        .fix("save it as UTF-8 without a byte order mark, or take it from version control again")
    })
}

/// Finds a dependency or a locked package that is not from a registry.
fn beside_registry(manifest: &Map<String, Value>, packages: &Map<String, Value>) -> Option<String> {
    if manifest.contains_key("workspaces") {
        return Some("`workspaces`".to_owned());
    }
    let wanting = packages.values().filter_map(Value::as_object);
    let wanted = std::iter::once(manifest)
        .chain(wanting)
        .flat_map(|package| {
            WANTED
                .iter()
                .filter_map(|member| package.get_key_value(*member))
        })
        .find_map(|(member, wanted)| beside_versions(member, wanted));
    wanted.or_else(|| {
        let mut packages = packages.iter().filter(|(place, _)| !place.is_empty());
        let beside = packages.find(|(place, package)| !is_of_registry(place, package));
        beside.map(|(place, _)| format!("`{place}`"))
    })
}

/// Finds what is not a range of versions. Overrides are nested.
fn beside_versions(name: &str, wanted: &Value) -> Option<String> {
    match wanted {
        Value::Object(members) => {
            let mut members = members.iter();
            members.find_map(|(name, wanted)| match wanted {
                Value::String(range) if is_range(range) => None,
                wanted => beside_versions(name, wanted),
            })
        }
        wanted => Some(format!("`{name}` is {wanted}")),
    }
}

/// Checks whether a locked package lies where npm puts it, and comes from a registry.
fn is_of_registry(place: &str, package: &Value) -> bool {
    let is = |key: &str, check: fn(&str) -> bool| match package.get(key) {
        Some(value) => value.as_str().is_some_and(check),
        // Without a name or an address npm asks a registry for what the place names.
        None => key != "version",
    };
    let names = place.strip_prefix("node_modules/");
    names.is_some_and(|names| names.split("/node_modules/").all(is_name))
        && package.get("link").is_none()
        && is("version", is_version)
        && is("name", is_name)
        && is("resolved", |from| from.starts_with("https://"))
        // Also of what is said to lie in the archive of another package: npm looks for it
        // there, and else asks the registry.
        && package.get("integrity").and_then(Value::as_str).is_some_and(is_hash)
}

/// Checks whether a text is a hash that npm checks. It ignores a text that is none, and a
/// hash of another kind if the registry names one of this kind.
fn is_hash(text: &str) -> bool {
    let is_of_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    text.strip_prefix("sha512-")
        .is_some_and(|hash| hash.len() == 88 && hash.chars().all(is_of_base64))
}

/// Checks whether a text is the name of a package, with a scope or not.
fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.starts_with(['.', '~'])
            && !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c))
    };
    match text.strip_prefix('@').and_then(|text| text.split_once('/')) {
        Some((scope, name)) => is_part(scope) && is_part(name),
        None => is_part(text),
    }
}

fn is_version(text: &str) -> bool {
    let is_of_version = |c: char| c.is_ascii_alphanumeric() || ".+-".contains(c);
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(is_of_version)
        && !is_archive(text)
}

/// Checks whether a text is a range of versions, a tag, or another package of a registry.
fn is_range(text: &str) -> bool {
    let is_of_range = |c: char| c.is_ascii_alphanumeric() || " .+-^~<>=|*,_$".contains(c);
    // npm takes nothing but a package of a registry behind this.
    text.starts_with("npm:")
        || !text.starts_with('.') && text.chars().all(is_of_range) && !is_archive(text)
}

/// Checks whether npm takes a text for the name of an archive beside the lock.
fn is_archive(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [".tgz", ".tar", ".tar.gz"]
        .iter()
        .any(|end| text.ends_with(end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn beside(manifest: &Value, packages: &Value) -> Option<String> {
        let object = |value: &Value| value.as_object().unwrap().clone();
        beside_registry(&object(manifest), &object(packages))
    }

    /// Returns what npm writes for the bytes of a package.
    fn hash() -> String {
        format!("sha512-{}==", "b".repeat(86))
    }

    #[test]
    fn accepts_only_packages_of_a_registry() {
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
            for place in ["node_modules/one", "node_modules/@a/b.c/node_modules/one"] {
                let packages = json!({"": {"name": "own"}, place: package});
                assert_eq!(beside(&manifest, &packages), None, "{packages}");
            }
        }
        for integrity in [
            json!(null),
            json!(""),
            json!("one"),
            json!("sha512-"),
            json!(format!("{hash} one")),
            json!(hash.replace("sha512", "md5")),
            // npm checks neither if the registry names another kind.
            json!(format!("sha1-{}=", "b".repeat(27))),
            json!(format!("sha256-{}=", "b".repeat(43))),
            json!(hash.replace('b', "?")),
            json!([hash]),
        ] {
            let package = json!({"version": "1.0.0", "integrity": integrity});
            let found = beside(&manifest, &json!({"node_modules/one": package}));
            assert_eq!(found.as_deref(), Some("`node_modules/one`"), "{package}");
        }
        for package in [
            json!({"version": "1.0.0"}),
            json!({"version": "1.0.0", "inBundle": true}),
        ] {
            let found = beside(&manifest, &json!({"node_modules/one": package}));
            assert!(found.is_some(), "{package}");
        }
        for mut package in [
            json!({"version": "1.0.0", "resolved": "file:../one.tgz"}),
            json!({"version": "1.0.0", "resolved": "../one.tgz"}),
            json!({"version": "1.0.0", "resolved": "git+ssh://host/one"}),
            json!({"version": "file:../one.tgz"}),
            json!({"version": "1.0.0-one.tgz"}),
            json!({"version": "1.0.0", "name": "one@file:../one"}),
            json!({"version": "1.0.0", "name": "../one"}),
            json!({"version": "1.0.0", "name": "/project/one"}),
            json!({"version": "1.0.0", "link": true}),
            json!({"resolved": "../one", "link": true}),
            json!({"version": 1}),
            json!({}),
        ] {
            package["integrity"] = json!(hash);
            let found = beside(&manifest, &json!({"node_modules/one": package}));
            assert_eq!(found.as_deref(), Some("`node_modules/one`"), "{package}");
        }
        for place in [
            "one",
            "node_modules/",
            "node_modules/..",
            "node_modules/.one",
            "node_modules/../one",
            "node_modules/one/node_modules/../../../one",
            "/node_modules/one",
        ] {
            let packages = json!({place: {"version": "1.0.0", "integrity": hash}});
            assert_eq!(beside(&manifest, &packages), Some(format!("`{place}`")));
        }
    }

    #[test]
    fn accepts_only_versions_of_what_is_needed() {
        for (member, wanted) in [
            ("dependencies", json!({"one": "file:../one"})),
            ("dependencies", json!({"one": "../one"})),
            ("dependencies", json!({"one": "~/one"})),
            ("dependencies", json!({"one": ".."})),
            ("dependencies", json!({"one": "one.tgz"})),
            ("dependencies", json!({"one": 1})),
            // npm takes a text and a list for names with versions too.
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
            let package = json!({"version": "1.0.0", member: wanted});
            let of_manifest = beside(&package, &json!({}));
            let mut locked = package.clone();
            locked["integrity"] = json!(hash());
            let of_lock = beside(&json!({}), &json!({"node_modules/two": locked}));
            assert!(of_manifest.is_some(), "{package}");
            assert_eq!(of_manifest, of_lock, "{package}");
        }
        assert!(beside(&json!({"workspaces": ["one"]}), &json!({})).is_some());
    }
}
