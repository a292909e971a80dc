//! The findings as SARIF 2.1.0, which code hosts and editors show beside the lines.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Value, json};
use skillhost::check::{Finding, Rule, rules};
use skillhost_skills::skill_md::is_skill_md;

use super::{CheckedSkill, severity_name};

/// Returns the findings as a SARIF log.
pub(super) fn log(checked: &[CheckedSkill]) -> anyhow::Result<Value> {
    let base = env::current_dir()?;
    let results: Value = checked
        .iter()
        .flat_map(|checked| {
            let findings = checked.findings.iter();
            findings.map(|finding| result(&base, checked, finding))
        })
        .collect();
    let rules: Value = rules().map(rule).collect();
    Ok(json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "skillhost",
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": rules,
                },
            },
            "results": results,
        }],
    }))
}

fn rule(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": { "text": message(rule.description) },
        "help": { "text": message(rule.help) },
        "defaultConfiguration": { "level": severity_name(rule.severity) },
    })
}

fn result(base: &Path, checked: &CheckedSkill, finding: &Finding) -> Value {
    let index = rules().position(|rule| rule.id == finding.rule);
    // Code hosts show no result without a line.
    let line = finding.line.unwrap_or(1);
    json!({
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": severity_name(finding.severity),
        "message": { "text": message(&finding.message) },
        "locations": [{
            "physicalLocation": {
                "artifactLocation": { "uri": uri(base, &path(checked, finding)) },
                "region": { "startLine": line },
            },
        }],
    })
}

/// Escapes a text for a SARIF message. Guards against: a skill's text that passes for a
/// placeholder, `{0}`, or a link, `[text](target)`.
fn message(text: &str) -> String {
    let text = text.replace('{', "{{").replace('}', "}}");
    text.replace("](", "] (")
}

/// Returns the path of the file that a finding is about.
fn path(checked: &CheckedSkill, finding: &Finding) -> PathBuf {
    let folder = fs::canonicalize(&checked.folder)
        .or_else(|_| std::path::absolute(&checked.folder))
        .unwrap_or_else(|_| checked.folder.clone());
    match &finding.file {
        Some(file) => folder.join(file),
        None if matches!(finding.rule, "no-skill" | "unreadable") => folder,
        None => {
            let name = skill_md_name(&folder);
            folder.join(name.as_deref().unwrap_or("SKILL.md"))
        }
    }
}

/// Returns the file name of a skill's SKILL.md if it has another spelling.
fn skill_md_name(folder: &Path) -> Option<String> {
    if folder.join("SKILL.md").exists() {
        return None;
    }
    let mut names = fs::read_dir(folder).ok()?.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        is_skill_md(&name).then(|| name.to_string_lossy().into_owned())
    });
    names.next()
}

/// Returns the URI of a file: relative to the current folder if the file is in it.
fn uri(base: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(base).ok();
    let relative = relative.filter(|path| *path != Path::new(""));
    let encoded = encode(relative.unwrap_or(path));
    if relative.is_some() || !path.is_absolute() {
        encoded
    } else {
        format!("file://{encoded}")
    }
}

/// Encodes a path for a URI.
fn encode(path: &Path) -> String {
    let mut encoded = String::new();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(folder: &Path, findings: Vec<Finding>) -> CheckedSkill {
        CheckedSkill::new("a".to_owned(), folder.to_owned(), findings)
    }

    /// Checks what the standard requires (sections 3.13, 3.14, 3.18, 3.19, 3.27, 3.49), and what
    /// code hosts need to show a result.
    #[test]
    fn log_has_the_members_that_the_standard_requires() {
        let folder = tempfile::tempdir().unwrap();
        let checked = [skill(
            folder.path(),
            vec![
                Finding::error("name-folder", Some(2), "x".to_owned()),
                Finding::warning("file-lines", None, "y".to_owned()),
            ],
        )];
        let log = log(&checked).unwrap();
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        let driver = &run["tool"]["driver"];
        assert_eq!(driver["name"], "skillhost");
        let described = driver["rules"].as_array().unwrap();
        assert_eq!(described.len(), rules().count());
        for rule in described {
            for text in [&rule["shortDescription"]["text"], &rule["help"]["text"]] {
                assert!(!text.as_str().unwrap().is_empty(), "{rule}");
            }
            let level = rule["defaultConfiguration"]["level"].as_str().unwrap();
            assert!(["error", "warning"].contains(&level), "{rule}");
        }
        let results = run["results"].as_array().unwrap();
        assert_eq!(results.len(), 2);
        for (result, (rule, level, line)) in results
            .iter()
            .zip([("name-folder", "error", 2), ("file-lines", "warning", 1)])
        {
            assert_eq!(result["ruleId"], rule);
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(described[index]["id"], rule);
            assert_eq!(result["level"], level);
            assert!(result["message"]["text"].is_string());
            let place = &result["locations"][0]["physicalLocation"];
            assert_eq!(place["region"]["startLine"], line);
            assert!(place["artifactLocation"]["uri"].is_string());
        }
    }

    #[test]
    fn uris_are_relative_to_the_current_folder() {
        let base = Path::new("/srv/repo");
        for (path, expected) in [
            ("/srv/repo/skills/a/SKILL.md", "skills/a/SKILL.md"),
            ("/srv/repo/a b:c%é/x.md", "a%20b%3Ac%25%C3%A9/x.md"),
            ("/srv/repository/a", "file:///srv/repository/a"),
            ("/else/a", "file:///else/a"),
            ("/srv/repo", "file:///srv/repo"),
        ] {
            assert_eq!(uri(base, Path::new(path)), expected);
        }
    }

    #[test]
    fn names_the_file_of_a_finding() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = fs::canonicalize(temporary.path()).unwrap();
        let finding = |rule, file: Option<&str>| Finding {
            file: file.map(str::to_owned),
            ..Finding::error(rule, None, String::new())
        };
        let checked = skill(&folder, Vec::new());
        let name = |finding| {
            let path = path(&checked, &finding);
            path.strip_prefix(&folder).unwrap().to_owned()
        };
        assert_eq!(name(finding("file-missing", None)), Path::new("SKILL.md"));
        assert_eq!(
            name(finding("hidden-tags", Some("x/b.md"))),
            Path::new("x/b.md")
        );
        assert_eq!(name(finding("no-skill", None)), Path::new(""));
        fs::write(folder.join("skill.md"), "x").unwrap();
        assert_eq!(name(finding("file-name", None)), Path::new("skill.md"));
        fs::write(folder.join("SKILL.md"), "x").unwrap();
        assert_eq!(name(finding("file-name", None)), Path::new("SKILL.md"));
    }

    #[test]
    fn text_of_a_skill_forms_no_link_or_placeholder() {
        let text = "`[fix](https://x.example)` {0}";
        assert_eq!(message(text), "`[fix] (https://x.example)` {{0}}");
    }
}
