//! What cargo says of workspaces: which members of the guests' are components,
//! and where their components belong.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::environment::cargo_program;

/// A member of the guest workspace that is a component.
pub(crate) struct Guest {
    /// The name of its package.
    pub(crate) package: String,
    /// Cargo's name for what it builds, without the extension.
    pub(crate) target: String,
    /// The folder of the checkout that its component belongs in.
    pub(crate) dist: &'static str,
}

/// Where the components belong that come with the host.
pub(crate) const OWN_DIST: &str = "guest-tools/dist";

/// Where guests lie, the closest place first, and where their components
/// belong.
pub(crate) const PLACES: [(&str, &str); 3] = [
    ("guest-tools/examples", "guest-tools/examples/dist"),
    ("guest-tools", OWN_DIST),
    ("tests/guests", "tests/guests/dist"),
];

impl Guest {
    /// The component's name in a `dist` folder.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.wasm", self.package.replace('-', "_"))
    }
}

/// The checkout. Asked of cargo at run time: a target folder that several
/// checkouts share may hold this program as another one built it.
pub(crate) fn root() -> Result<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = Path::new(&package)
        .ancestors()
        .nth(2)
        .context("this package is not in the project's folder")?;
    Ok(root.to_owned())
}

/// Asks cargo for the members of the guest workspace that are components.
pub(crate) fn find(root: &Path) -> Result<Vec<Guest>> {
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

/// Asks cargo for the members of a workspace and their targets.
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
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout).context("cannot read `cargo metadata`")
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
                .context("cargo metadata lacks a name")
        };
        let name = text(&package["name"])?;
        let manifest = text(&package["manifest_path"])?;
        let place = Path::new(&manifest)
            .strip_prefix(root)
            .unwrap_or(Path::new(&manifest));
        let mut places = PLACES.iter();
        let Some((_, dist)) = places.find(|(folder, _)| place.starts_with(folder)) else {
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

/// Keeps the guests that were asked for.
pub(crate) fn select(guests: Vec<Guest>, only: &[String]) -> Result<Vec<Guest>> {
    if let Some(unknown) = only
        .iter()
        .find(|name| guests.iter().all(|guest| guest.package != **name))
    {
        let known: Vec<_> = guests
            .iter()
            .map(|guest| format!("`{}`", guest.package))
            .collect();
        bail!("there is no guest `{unknown}`, only {}", known.join(", "));
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
    fn a_member_with_a_cdylib_is_a_guest_and_its_folder_says_where_it_belongs() -> Result<()> {
        let found = guests(&[
            package("sdk", "guest-tools/sdk", "lib"),
            package("get-skill", "guest-tools/get-skill", "cdylib"),
            package("outline", "guest-tools/examples/outline", "cdylib"),
            package("spin-for-ever", "tests/guests/spin-for-ever", "cdylib"),
        ])?;
        let found: Vec<_> = found
            .iter()
            .map(|g| (g.file_name(), g.target.as_str(), g.dist))
            .collect();
        assert_eq!(
            found,
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
    fn a_guest_in_another_folder_is_refused() {
        assert!(guests(&[package("stray", "guest-tools-2/stray", "cdylib")]).is_err());
    }

    #[test]
    fn only_the_guests_asked_for_are_kept_and_an_unknown_one_is_refused() -> Result<()> {
        let both = || {
            guests(&[
                package("one", "guest-tools/one", "cdylib"),
                package("two", "guest-tools/two", "cdylib"),
            ])
        };
        assert_eq!(select(both()?, &[])?.len(), 2);
        let kept = select(both()?, &["two".to_owned()])?;
        assert_eq!(
            kept.iter().map(|g| g.package.as_str()).collect::<Vec<_>>(),
            ["two"]
        );
        let refused = select(both()?, &["three".to_owned()])
            .map(|_| ())
            .map_err(|e| e.to_string());
        assert_eq!(
            refused,
            Err("there is no guest `three`, only `one`, `two`".to_owned())
        );
        Ok(())
    }
}
