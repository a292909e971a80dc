//! Lock files of other programs: `skills-lock.json` of `npx skills`, and `toolhive.lock.yaml`.
//!
//! Their entries become sources. Entries of ToolHive have a commit or a digest, which the source then
//! names. Entries of `npx skills` have a branch or a tag. Their hash depends on the machine that made
//! it, so it is not compared.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use skillhost_skills::frontmatter::read_yaml;
use skillhost_skills::named_file;

use crate::digest::Digest;
use crate::git::GitSource;
use crate::quote::{quote, quote_error};
use crate::reference::Reference;
use crate::settings::check_name;
use crate::source::SkillSource;

/// The maximum size of a lock file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The maximum number of skills in a file.
const MAX_SKILLS: usize = 1000;

/// The version of both formats.
const VERSION: u64 = 1;

/// A skill of another program's lock file.
#[derive(Debug)]
pub struct ForeignSkill {
    /// The name.
    pub name: String,
    /// The source, or the reason why the entry has no usable source.
    pub source: anyhow::Result<SkillSource>,
}

/// A lock file of `npx skills`.
#[derive(Deserialize)]
struct SkillsLock {
    version: u64,
    skills: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SkillsEntry {
    source: String,
    source_url: Option<String>,
    source_type: String,
    #[serde(rename = "ref")]
    version: Option<String>,
    skill_path: Option<String>,
}

/// A lock file of ToolHive.
#[derive(Deserialize)]
struct ToolHiveLock {
    version: u64,
    #[serde(default)]
    skills: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolHiveEntry {
    source: String,
    resolved_reference: Option<String>,
    digest: String,
}

/// Reads a lock file of `npx skills` or ToolHive.
///
/// # Errors
///
/// If the file cannot be read, or has neither format.
pub fn read_foreign_lock(file: &Path) -> anyhow::Result<Vec<ForeignSkill>> {
    let read = || {
        let text = named_file::read_text(file, MAX_BYTES)?;
        let skills = parse(&text)?;
        ensure!(
            skills.len() <= MAX_SKILLS,
            "it has more than {MAX_SKILLS} skills"
        );
        Ok(skills)
    };
    read().with_context(|| format!("cannot use `{}`", file.display()))
}

pub(crate) fn parse(text: &str) -> anyhow::Result<Vec<ForeignSkill>> {
    if text.trim_start().starts_with('{') {
        let lock: SkillsLock = serde_json::from_str(text)
            .map_err(quote_error)
            .context("it is not a lock file of `npx skills`, such as `skills-lock.json`")?;
        check_version(lock.version)?;
        let skills = lock.skills.into_iter().map(|(name, entry)| {
            let source = check_name(&name).and_then(|()| {
                let entry: SkillsEntry = serde_json::from_value(entry).map_err(quote_error)?;
                entry.source(&name)
            });
            ForeignSkill { name, source }
        });
        return Ok(skills.collect());
    }
    let not_toolhive = "it is not a lock file of ToolHive, such as `toolhive.lock.yaml`";
    let object = read_yaml(text).map_err(quote_error);
    let lock: ToolHiveLock = object
        .and_then(|object| serde_json::from_value(Value::Object(object)).map_err(quote_error))
        .context(not_toolhive)?;
    check_version(lock.version)?;
    let skills = lock.skills.into_iter().map(|entry| {
        let name = entry["name"].as_str().unwrap_or_default().to_owned();
        let source = check_name(&name).and_then(|()| {
            let entry: ToolHiveEntry = serde_json::from_value(entry).map_err(quote_error)?;
            entry.source()
        });
        ForeignSkill { name, source }
    });
    Ok(skills.collect())
}

fn check_version(version: u64) -> anyhow::Result<()> {
    ensure!(
        version == VERSION,
        "it has the version {version} instead of {VERSION}"
    );
    Ok(())
}

impl SkillsEntry {
    fn source(self, name: &str) -> anyhow::Result<SkillSource> {
        let address = match &*self.source_type {
            "github" if is_short(&self.source) => format!("https://github.com/{}", self.source),
            "github" | "gitlab" | "git" => self.source_url.unwrap_or(self.source),
            "well-known" => {
                let site = self.source.trim_start_matches("https://");
                return format!("https://{site}#{name}").parse();
            }
            other => bail!(
                "its source is `{}`, neither a git repository nor a site",
                quote(other)
            ),
        };
        ensure!(
            address.starts_with("https://"),
            "its repository `{}` has no address with `https://`",
            quote(&address)
        );
        let path = self.skill_path.context("it has no `skillPath`")?;
        let folder = match path.rsplit_once('/') {
            Some((folder, "SKILL.md")) => folder,
            None if path == "SKILL.md" => "",
            _ => &path,
        };
        git_source(&address, self.version.as_deref(), folder).map(SkillSource::Git)
    }
}

impl ToolHiveEntry {
    fn source(self) -> anyhow::Result<SkillSource> {
        let reference = self.resolved_reference.unwrap_or(self.source);
        if let Some(rest) = reference.strip_prefix("git://") {
            let (rest, folder) = rest.split_once('#').unwrap_or((rest, ""));
            let (repository, _) = rest.split_once('@').unwrap_or((rest, ""));
            let address = format!("https://{repository}");
            let source = git_source(&address, Some(&self.digest), folder)?;
            ensure!(
                source.commit().is_some(),
                "its digest `{}` is not a commit",
                quote(&self.digest)
            );
            return Ok(SkillSource::Git(source));
        }
        let digest: Digest = self.digest.parse()?;
        let reference: Reference = format!("oci://{reference}").parse()?;
        let fixed = format!("{}@{digest}", reference.place());
        fixed.parse().map(SkillSource::Registry)
    }
}

/// Returns whether a repository of GitHub has the form `OWNER/NAME`.
fn is_short(source: &str) -> bool {
    !source.contains("://") && !source.contains('@') && source.split('/').count() == 2
}

fn git_source(address: &str, version: Option<&str>, folder: &str) -> anyhow::Result<GitSource> {
    let mut text = format!("git+{}", address.trim_end_matches('/'));
    if let Some(version) = version {
        text += &format!("@{version}");
    }
    if !folder.is_empty() {
        text += &format!("#{folder}");
    }
    text.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns each skill's source, or `no: ` and the reason why it has none.
    fn sources(text: &str) -> Vec<(String, String)> {
        let skills = parse(text).unwrap().into_iter();
        let shown = skills.map(|skill| match skill.source {
            Ok(source) => (skill.name, source.to_string()),
            Err(error) => (skill.name, format!("no: {error:#}")),
        });
        shown.collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let found = sources(text);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((name, source), (expected, start)) in found.iter().zip(expected) {
            let is_equal =
                source == start || start.starts_with("no: ") && source.starts_with(start);
            assert!(name == expected && is_equal, "{name}: {source}");
        }
    }

    #[test]
    fn maps_entries_of_npx_skills() {
        let text = r#"{"version": 1, "skills": {
            "a": {"source": "acme/skills", "sourceType": "github", "computedHash": "x",
                  "skillPath": "skills/a/SKILL.md"},
            "b": {"source": "acme/skills", "ref": "v1.2", "sourceType": "github", "computedHash": "x",
                  "skillPath": "SKILL.md"},
            "c": {"source": "group/x", "sourceUrl": "https://gitlab.example/group/x.git",
                  "sourceType": "gitlab", "skillPath": "c"},
            "d": {"source": "docs.example", "sourceType": "well-known"},
            "e": {"source": "../other", "sourceType": "local"},
            "f": {"source": "acme/skills", "sourceType": "github"},
            "g": {"source": "git@git.example:acme/x.git", "sourceType": "git", "skillPath": "SKILL.md"},
            "h": {"source": "acme/skills", "ref": "--upload-pack=x", "sourceType": "github",
                  "skillPath": "SKILL.md"},
            "i": {"source": "acme/skills", "sourceType": "github", "skillPath": "../i/SKILL.md"},
            "j": {"source": "https://user:word@git.example/x", "sourceType": "git",
                  "skillPath": "SKILL.md"},
            "k": {"source": "127.0.0.1/admin", "sourceType": "well-known"},
            "l": {"source": 1},
            "m/..": {"source": "acme/skills", "sourceType": "github", "skillPath": "SKILL.md"}
        }}"#;
        check(
            text,
            &[
                ("a", "git+https://github.com/acme/skills#skills/a"),
                ("b", "git+https://github.com/acme/skills@v1.2"),
                ("c", "git+https://gitlab.example/group/x.git#c"),
                ("d", "https://docs.example#d"),
                ("e", "no: its source is `local`"),
                ("f", "no: it has no `skillPath`"),
                (
                    "g",
                    "no: its repository `git@git.example:acme/x.git` has no",
                ),
                (
                    "h",
                    "no: `git+https://github.com/acme/skills@--upload-pack=x` is not a",
                ),
                (
                    "i",
                    "no: `git+https://github.com/acme/skills#../i` is not a",
                ),
                ("j", "no: `git+https://user:word@git.example/x` is not a"),
                ("k", "no: `https://127.0.0.1/admin#k` is not a"),
                ("l", "no: "),
                ("m/..", "no: the name `m/..` must have"),
            ],
        );
    }

    #[test]
    fn maps_entries_of_toolhive() {
        let (commit, digest) = ("0123456789abcdef0123456789abcdef01234567", Digest::of(b"x"));
        let text = format!(
            "version: 1
skills:
- name: a
  version: 1.0.0
  source: a
  resolvedReference: git://git.example/acme/skills@main#skills/a
  digest: {commit}
  explicit: true
- name: b
  source: registry.example/acme/b:1
  digest: {digest}
- name: c
  source: c
  digest: {digest}
- name: d
  source: git://git.example/acme/skills
  digest: main
- name: ../e
  source: git://git.example/acme/skills
  digest: {commit}
"
        );
        let git = format!("git+https://git.example/acme/skills@{commit}#skills/a");
        let registry = format!("oci://registry.example/acme/b@{digest}");
        check(
            &text,
            &[
                ("a", &git),
                ("b", &registry),
                ("c", "no: `oci://c` is not a reference"),
                ("d", "no: its digest `main` is not a commit"),
                ("../e", "no: the name `../e` must have"),
            ],
        );
    }

    #[test]
    fn refuses_other_files() {
        for (text, why) in [
            ("", "not a lock file of ToolHive"),
            ("{}", "not a lock file of `npx skills`"),
            ("{\"version\": 2, \"skills\": {}}", "the version 2"),
            ("version: 3\n", "the version 3"),
            ("skills: []\n", "not a lock file of ToolHive"),
            ("version: 1\nversion: 1\n", "occurs twice"),
            ("a: &a [*a]\n", "not a lock file of ToolHive"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
