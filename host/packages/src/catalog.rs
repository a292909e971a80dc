//! The operator's catalog: the packages that agents may find and ask for, with descriptions.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use skillhost_skills::named_file;
use skillhost_skills::trust::Trust;

use crate::quote::quote_toml_error;
use crate::reference::Reference;

/// The maximum size of a catalog, in bytes.
const MAX_BYTES: u64 = 256 << 10;

/// The maximum number of packages. Guards against: slow searches.
const MAX_PACKAGES: usize = 1000;

/// The maximum length of a description, in bytes.
const MAX_DESCRIPTION: usize = 1024;

/// A package that a catalog offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedPackage {
    /// The package.
    pub reference: Reference,
    /// The purpose of the package.
    pub description: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCatalog {
    #[serde(default)]
    package: Vec<RawPackage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPackage {
    source: String,
    description: String,
}

/// Reads a catalog, with the opener of `trust`.
///
/// # Errors
///
/// If others can change the file, it is too large, or a key is missing, unknown or invalid.
pub fn read_catalog(path: &Path, trust: &Trust) -> anyhow::Result<Vec<OfferedPackage>> {
    let read = || {
        trust.check(path)?;
        let file = named_file::open_with(path, trust.opener())?;
        parse(&named_file::read_all_text(file, MAX_BYTES)?)
    };
    read().with_context(|| format!("cannot use the catalog `{}`", path.display()))
}

fn parse(text: &str) -> anyhow::Result<Vec<OfferedPackage>> {
    let raw: RawCatalog = toml::from_str(text).map_err(|error| quote_toml_error(text, &error))?;
    ensure!(
        raw.package.len() <= MAX_PACKAGES,
        "it has {} packages, more than {MAX_PACKAGES}",
        raw.package.len()
    );
    let mut packages: Vec<OfferedPackage> = Vec::new();
    for raw in raw.package {
        let reference: Reference = raw.source.parse()?;
        let description = raw.description;
        ensure!(
            !description.trim().is_empty() && description.len() <= MAX_DESCRIPTION,
            "the description of `{reference}` must have 1 to {MAX_DESCRIPTION} bytes"
        );
        packages.push(OfferedPackage {
            reference,
            description,
        });
    }
    packages.sort_by_cached_key(|package| package.reference.to_string());
    for pair in packages.windows(2) {
        ensure!(
            pair[0].reference != pair[1].reference,
            "it has the package `{}` twice",
            pair[0].reference
        );
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_quotes_no_line_of_another_file() {
        for text in ["machine git.example password secret", "[default]\nsecret"] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(!error.contains("secret"), "{error}");
        }
    }

    const CSV: &str =
        "[[package]]\nsource = \"oci://registry.example/acme/csv:1\"\ndescription = \"Rows.\"\n";

    #[test]
    fn sorts_packages_by_reference() {
        let text = format!("{}{CSV}", CSV.replace("csv", "zip"));
        let packages = parse(&text).unwrap();
        let shown: Vec<_> = packages
            .iter()
            .map(|package| package.reference.to_string())
            .collect();
        assert_eq!(
            shown,
            [
                "oci://registry.example/acme/csv:1",
                "oci://registry.example/acme/zip:1"
            ]
        );
        assert_eq!(packages[0].description, "Rows.");
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn refuses_wrong_catalogs() {
        let many: String = (0..=MAX_PACKAGES)
            .map(|number| CSV.replace("csv", &format!("csv{number}")))
            .collect();
        for (text, why) in [
            (format!("{CSV}{CSV}"), "twice"),
            (CSV.replace("Rows.", " "), "must have 1 to 1024 bytes"),
            (
                CSV.replace("Rows.", &"x".repeat(1025)),
                "must have 1 to 1024 bytes",
            ),
            (CSV.replace("oci://", "ftp://"), "ftp"),
            (format!("{CSV}extra = 1\n"), "unknown field"),
            (format!("x = 1\n{CSV}"), "unknown field"),
            (CSV.replace("description", "text"), "unknown field"),
            (many, "more than 1000"),
        ] {
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(why), "{why}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalog.toml");
        std::fs::write(&path, " ".repeat(MAX_BYTES as usize + 1)).unwrap();
        let error = format!("{:#}", read_catalog(&path, &Trust::new()).unwrap_err());
        assert!(error.contains("larger than"), "{error}");
    }
}
