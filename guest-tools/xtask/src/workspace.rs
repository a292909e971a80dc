//! Asks cargo for the members of workspaces, and finds the guests and their `dist` folders.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::environment::cargo_program;

/// A member of the guest workspace that builds a component.
pub(crate) struct Guest {
    /// The name of its package.
    pub(crate) package: String,
    /// The name of its cargo target.
    pub(crate) target: String,
    /// The folder for its component, relative to the checkout.
    pub(crate) dist: &'static str,
}

/// The folder for the components of built-in tools.
pub(crate) const BUILT_IN_DIST: &str = "guest-tools/dist";

/// The folders of guests, each with the folder for their components. The first entry that contains
/// a guest applies.
pub(crate) const GUEST_FOLDERS: [(&str, &str); 3] = [
    ("guest-tools/examples", "guest-tools/examples/dist"),
    ("guest-tools", BUILT_IN_DIST),
    ("tests/guests", "tests/guests/dist"),
];

impl Guest {
    /// Returns the name of the component's file.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.wasm", self.package.replace('-', "_"))
    }
}

/// Returns the folder of the checkout.
///
/// Finds it at run time, not at compile time: if several checkouts share a target folder, another
/// checkout may have built this program.
pub(crate) fn root() -> Result<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = Path::new(&package)
        .ancestors()
        .nth(2)
        .context("this package is not in the folder of the project")?;
    Ok(root.to_owned())
}

/// Returns the members of the guest workspace that build components.
pub(crate) fn find_guests(root: &Path) -> Result<Vec<Guest>> {
    let manifest = root.join("guest-tools/Cargo.toml");
    let metadata = metadata(&manifest)?;
    let guests = read_metadata(&metadata, root)?;
    ensure!(
        !guests.is_empty(),
        "no member of `{}` has a `cdylib` target",
        manifest.display()
    );
    Ok(guests)
}

/// Returns cargo's metadata of a workspace: its members and their targets.
pub(crate) fn metadata(manifest: &Path) -> Result<Value> {
    let output = Command::new(cargo_program())
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()
        .context("cannot run `cargo metadata`")?;
    ensure!(
        output.status.success(),
        "`cargo metadata` failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout).context("cannot parse the output of `cargo metadata`")
}

fn read_metadata(metadata: &Value, root: &Path) -> Result<Vec<Guest>> {
    let mut guests = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let is_component = |target: &&Value| {
            target["kind"]
                .as_array()
                .is_some_and(|kind| kind.contains(&"cdylib".into()))
        };
        let Some(target) = package["targets"]
            .as_array()
            .and_then(|all| all.iter().find(is_component))
        else {
            continue;
        };
        let text = |value: &Value| {
            value
                .as_str()
                .map(str::to_owned)
                .context("a name or path is missing in the output of `cargo metadata`")
        };
        let name = text(&package["name"])?;
        let manifest = text(&package["manifest_path"])?;
        let path = Path::new(&manifest)
            .strip_prefix(root)
            .unwrap_or(Path::new(&manifest));
        let mut folders = GUEST_FOLDERS.iter();
        let Some((_, dist)) = folders.find(|(folder, _)| path.starts_with(folder)) else {
            bail!(
                "the guest `{name}` is neither in `guest-tools` nor in `tests/guests`: `{manifest}`"
            );
        };
        guests.push(Guest {
            package: name,
            target: text(&target["name"])?.replace('-', "_"),
            dist,
        });
    }
    Ok(guests)
}

/// Returns the guests whose names are in `only`, or all guests if `only` is empty.
pub(crate) fn select(guests: Vec<Guest>, only: &[String]) -> Result<Vec<Guest>> {
    if let Some(unknown) = only
        .iter()
        .find(|name| guests.iter().all(|guest| guest.package != **name))
    {
        let known: Vec<_> = guests
            .iter()
            .map(|guest| format!("`{}`", guest.package))
            .collect();
        bail!(
            "there is no guest `{unknown}`; choose from {}",
            known.join(", ")
        );
    }
    Ok(guests
        .into_iter()
        .filter(|guest| only.is_empty() || only.contains(&guest.package))
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, folder: &str, kind: &str) -> Value {
        json!({
            "name": name,
            "manifest_path": format!("/project/{folder}/Cargo.toml"),
            "targets": [
                { "kind": ["test"], "name": "other" },
                { "kind": [kind], "name": name },
            ],
        })
    }

    fn guests(packages: &[Value]) -> Result<Vec<Guest>> {
        read_metadata(&json!({ "packages": packages }), Path::new("/project"))
    }

    #[test]
    fn finds_guests_and_their_dist_folders() -> Result<()> {
        let guests = guests(&[
            package("sdk", "guest-tools/sdk", "lib"),
            package("get-skill", "guest-tools/get-skill", "cdylib"),
            package("outline", "guest-tools/examples/outline", "cdylib"),
            package("spin-for-ever", "tests/guests/spin-for-ever", "cdylib"),
        ])?;
        let summaries: Vec<_> = guests
            .iter()
            .map(|guest| (guest.file_name(), guest.target.as_str(), guest.dist))
            .collect();
        assert_eq!(
            summaries,
            [
                ("get_skill.wasm".to_owned(), "get_skill", "guest-tools/dist"),
                (
                    "outline.wasm".to_owned(),
                    "outline",
                    "guest-tools/examples/dist"
                ),
                (
                    "spin_for_ever.wasm".to_owned(),
                    "spin_for_ever",
                    "tests/guests/dist"
                ),
            ]
        );
        Ok(())
    }

    #[test]
    fn refuses_guest_in_another_folder() {
        assert!(guests(&[package("stray", "guest-tools-2/stray", "cdylib")]).is_err());
    }

    #[test]
    fn selects_guests_by_name() -> Result<()> {
        let two_guests = || {
            guests(&[
                package("one", "guest-tools/one", "cdylib"),
                package("two", "guest-tools/two", "cdylib"),
            ])
        };
        assert_eq!(select(two_guests()?, &[])?.len(), 2);
        let selected = select(two_guests()?, &["two".to_owned()])?;
        assert_eq!(
            selected
                .iter()
                .map(|g| g.package.as_str())
                .collect::<Vec<_>>(),
            ["two"]
        );
        let refused = select(two_guests()?, &["three".to_owned()])
            .map(|_| ())
            .map_err(|e| e.to_string());
        assert_eq!(
            refused,
            Err("there is no guest `three`; choose from `one`, `two`".to_owned())
        );
        Ok(())
    }
}
