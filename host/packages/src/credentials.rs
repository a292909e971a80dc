//! The user's credentials for registries, from the files of docker and podman.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use skillhost_skills::named_file;

/// The maximum bytes of a file of credentials.
const MAX_BYTES: u64 = 1 << 20;

/// The registry's name in docker's files, which older versions of docker wrote.
const DOCKER_HUB: (&str, &str) = ("registry-1.docker.io", "https://index.docker.io/v1/");

/// The name and password of a user, in base64 as the header `Authorization` has them.
#[derive(Clone)]
pub(crate) struct Credentials(String);

impl Credentials {
    /// Returns the header `Authorization`.
    pub(crate) fn header(&self) -> String {
        format!("Basic {}", self.0)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AuthFile {
    auths: BTreeMap<String, AuthEntry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AuthEntry {
    auth: Option<String>,
}

/// Returns the credentials for a repository, from the first file that has some. The most specific
/// entry of a file counts: podman writes some for parts of a registry.
pub(crate) fn find(
    files: &[PathBuf],
    registry: &str,
    repository: &str,
) -> anyhow::Result<Option<Credentials>> {
    for file in files.iter().filter(|file| file.exists()) {
        let cannot = || format!("cannot use the credentials in `{}`", file.display());
        let text = named_file::read_text(file, MAX_BYTES).with_context(cannot)?;
        // An error of the parser could show a part of the file.
        let auths: Option<AuthFile> = serde_json::from_str(&text).ok();
        let auths = auths
            .context("it is invalid JSON")
            .with_context(cannot)?
            .auths;
        let place = format!("{registry}/{repository}");
        let places = place.match_indices('/').map(|(at, _)| &place[..at]);
        let places: Vec<&str> = places.chain([&*place]).collect();
        let mut names: Vec<String> = places.iter().rev().map(|it| (*it).to_owned()).collect();
        names.extend([
            format!("https://{registry}"),
            format!("https://{registry}/"),
        ]);
        if registry == DOCKER_HUB.0 {
            names.push(DOCKER_HUB.1.to_owned());
        }
        let found = names.iter().find_map(|name| auths.get(name)?.auth.clone());
        let Some(auth) = found.filter(|auth| !auth.is_empty()) else {
            continue;
        };
        let decoded = STANDARD.decode(auth.trim()).ok();
        let is_pair = decoded.is_some_and(|it| it.contains(&b':') && !it.contains(&b'\n'));
        anyhow::ensure!(
            is_pair,
            "{}: the entry of `{registry}` is invalid",
            cannot()
        );
        return Ok(Some(Credentials(auth.trim().to_owned())));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_most_specific_credentials() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("auth.json");
        let (one, two) = (STANDARD.encode("one:1"), STANDARD.encode("two:2"));
        let text = serde_json::json!({"auths": {
            "registry.example": {"auth": one},
            "registry.example/acme": {"auth": two},
            "https://old.example/": {"auth": one},
            "empty.example": {},
        }, "credsStore": "desktop"});
        std::fs::write(&file, text.to_string()).unwrap();
        let files = [folder.path().join("missing"), file];
        for (registry, repository, expected) in [
            ("registry.example", "other/csv", Some(&one)),
            ("registry.example", "acme/csv", Some(&two)),
            ("registry.example", "acme-other/csv", Some(&one)),
            ("old.example", "csv", Some(&one)),
            ("empty.example", "csv", None),
            ("other.registry.example", "csv", None),
        ] {
            let found = find(&files, registry, repository).unwrap().map(|it| it.0);
            assert_eq!(found.as_ref(), expected, "{registry}/{repository}");
        }
        std::fs::write(&files[1], "{\"auths\": secret}").unwrap();
        let error = find(&files, "registry.example", "csv").err().unwrap();
        assert!(!format!("{error:#}").contains("secret"), "{error:#}");
    }
}
