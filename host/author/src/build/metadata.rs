//! Reads a project's metadata, such as its name and license, from its language's own file:
//! Cargo.toml, pyproject.toml, package.json, or the comment at the top of `src/tool.c`.
//! `sections.rs` writes it into the component.

use serde_json::Value;
use skillhost::ComponentMetadata;

use super::project::Project;
use super::{BuildError, rust};
use crate::kit::Language;

const PYPROJECT: &str = "pyproject.toml";
const PACKAGE: &str = "package.json";
const C_SOURCE: &str = "src/tool.c";

/// Reads the metadata of a project. Every field is optional.
pub(super) fn read(project: &Project) -> Result<ComponentMetadata, BuildError> {
    let (file, metadata) = match project.language {
        Language::Rust => ("Cargo.toml", from_cargo(&rust::package(project)?)),
        Language::Python => {
            let text = project.optional_text(PYPROJECT)?;
            (PYPROJECT, from_pyproject(&text)?)
        }
        Language::JavaScript => (PACKAGE, from_package(&project.optional_text(PACKAGE)?)?),
        Language::C => (C_SOURCE, from_comment(&project.optional_text(C_SOURCE)?)),
    };
    let texts = metadata.sections().into_iter();
    for (key, text) in texts.chain([("name", &metadata.name)]) {
        let length = text.as_ref().map_or(0, String::len);
        if length > ComponentMetadata::MAX_BYTES {
            return Err(BuildError::project(format!(
                "the {key} in `{file}` has {length} bytes; a component may have {} at most",
                ComponentMetadata::MAX_BYTES
            )));
        }
    }
    Ok(metadata)
}

fn from_cargo(package: &Value) -> ComponentMetadata {
    let mut metadata = ComponentMetadata::default();
    metadata.name = text(&package["name"]);
    metadata.version = text(&package["version"]);
    metadata.description = text(&package["description"]);
    metadata.authors = people(&package["authors"]);
    metadata.licenses = text(&package["license"]);
    metadata.source = text(&package["repository"]);
    metadata
}

fn from_pyproject(toml: &str) -> Result<ComponentMetadata, BuildError> {
    let parsed: toml::Table = toml::from_str(toml)
        .map_err(|error| BuildError::project(format!("`{PYPROJECT}` is not TOML: {error}")))?;
    let parsed = serde_json::to_value(parsed).unwrap_or_default();
    let project = &parsed["project"];
    // Labels of URLs are compared without case and punctuation.
    let source = project["urls"].as_object().and_then(|urls| {
        urls.iter().find_map(|(label, url)| {
            let label = label.to_lowercase();
            let is_source = ["source", "repository", "sourcecode", "github"]
                .contains(&&*label.replace([' ', '-', '_'], ""));
            is_source.then(|| text(url)).flatten()
        })
    });
    let mut metadata = ComponentMetadata::default();
    metadata.name = text(&project["name"]);
    metadata.version = text(&project["version"]);
    metadata.description = text(&project["description"]);
    metadata.authors = people(&project["authors"]);
    metadata.licenses = text(&project["license"]).or_else(|| text(&project["license"]["text"]));
    metadata.source = source;
    Ok(metadata)
}

fn from_package(json: &str) -> Result<ComponentMetadata, BuildError> {
    let package: Value = serde_json::from_str(json)
        .map_err(|error| BuildError::project(format!("`{PACKAGE}` is not JSON: {error}")))?;
    let authors = [&package["author"], &package["contributors"]];
    let authors: Vec<String> = authors.into_iter().filter_map(people).collect();
    let mut metadata = ComponentMetadata::default();
    metadata.name = text(&package["name"]);
    metadata.version = text(&package["version"]);
    metadata.description = text(&package["description"]);
    metadata.authors = Some(authors.join(", ")).filter(|text| !text.is_empty());
    metadata.licenses = text(&package["license"]);
    let repository = &package["repository"];
    metadata.source = text(repository).or_else(|| text(&repository["url"]));
    Ok(metadata)
}

/// Reads the lines `key: value` of the comment at the top of a C file.
fn from_comment(source: &str) -> ComponentMetadata {
    let mut metadata = ComponentMetadata::default();
    let mut in_block = false;
    for line in source.trim_start_matches('\u{feff}').lines() {
        let line = line.trim();
        let (text, is_last) = if let Some(text) = line.strip_prefix("//") {
            (text, false)
        } else if in_block || line.starts_with("/*") {
            in_block = true;
            let text = line.trim_start_matches("/*").trim_start_matches('*');
            match text.split_once("*/") {
                Some((text, _)) => (text, true),
                None => (text, false),
            }
        } else {
            break;
        };
        if let Some((key, value)) = text.split_once(':') {
            let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            match &*key.trim().to_lowercase() {
                "name" => metadata.name = value,
                "version" => metadata.version = value,
                "description" => metadata.description = value,
                "author" | "authors" => metadata.authors = value,
                "license" | "licenses" => metadata.licenses = value,
                "source" => metadata.source = value,
                _ => {}
            }
        }
        if is_last {
            break;
        }
    }
    metadata
}

/// Returns the trimmed text of a JSON string, or `None` if it is empty.
fn text(value: &Value) -> Option<String> {
    let text = value.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the names of people from a string, an object with `name` and `email`, or an array of
/// these.
fn people(value: &Value) -> Option<String> {
    let person = |person: &Value| {
        let (name, email) = (text(&person["name"]), text(&person["email"]));
        text(person).or(match (name, email) {
            (Some(name), Some(email)) => Some(format!("{name} <{email}>")),
            (name, email) => name.or(email),
        })
    };
    let names: Vec<String> = match value {
        Value::Array(people) => people.iter().filter_map(person).collect(),
        value => person(value).into_iter().collect(),
    };
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete_metadata() -> ComponentMetadata {
        let text = |text: &str| Some(text.to_owned());
        let mut metadata = ComponentMetadata::default();
        metadata.name = text("look-up-term");
        metadata.version = text("1.2.3");
        metadata.description = text("Looks a term up.");
        metadata.authors = text("A <a@example.org>, B");
        metadata.licenses = text("MIT");
        metadata.source = text("https://example.org/tool");
        metadata
    }

    #[test]
    fn reads_same_metadata_from_each_language() {
        let cargo = serde_json::json!({
            "name": "look-up-term", "version": "1.2.3", "description": "Looks a term up.",
            "authors": ["A <a@example.org>", "B"], "license": "MIT",
            "repository": "https://example.org/tool",
        });
        assert_eq!(from_cargo(&cargo), complete_metadata());
        let pyproject = r#"[project]
            name = "look-up-term"
            version = "1.2.3"
            description = "Looks a term up."
            authors = [{ name = "A", email = "a@example.org" }, { name = "B" }]
            license = "MIT"
            [project.urls]
            Homepage = "https://example.org"
            "Source Code" = "https://example.org/tool"
        "#;
        assert_eq!(from_pyproject(pyproject).unwrap(), complete_metadata());
        let package = r#"{"name": "look-up-term", "version": "1.2.3",
            "description": "Looks a term up.", "author": {"name": "A", "email": "a@example.org"},
            "contributors": ["B"], "license": "MIT",
            "repository": {"type": "git", "url": "https://example.org/tool"}}"#;
        assert_eq!(from_package(package).unwrap(), complete_metadata());
        let lines = "// A tool.\n//\n// name: look-up-term\n// Version: 1.2.3\n\
            // description: Looks a term up.\n// authors: A <a@example.org>, B\n\
            // license: MIT\n// source: https://example.org/tool\n\n// version: 9\n";
        let block = "/* A tool.\n * name: look-up-term\n * version: 1.2.3\n\
            * description: Looks a term up.\n * authors: A <a@example.org>, B\n\
            * licenses: MIT\n * source: https://example.org/tool */\n// version: 9\n";
        for comment in [lines, block] {
            assert_eq!(from_comment(comment), complete_metadata(), "{comment}");
        }
    }

    #[test]
    fn leaves_out_missing_fields() {
        let none = ComponentMetadata::default();
        assert_eq!(
            from_cargo(&serde_json::json!({"authors": [], "license": null})),
            none
        );
        for pyproject in [
            "",
            "[build-system]\nrequires = []",
            "[project]\nauthors = []\nname = 1",
        ] {
            assert_eq!(from_pyproject(pyproject).unwrap(), none, "{pyproject}");
        }
        for package in [
            "{}",
            "[]",
            r#"{"name": " ", "author": {}, "repository": {}}"#,
        ] {
            assert_eq!(from_package(package).unwrap(), none, "{package}");
        }
        for source in [
            "",
            "int x; // version: 1",
            "#include <a.h>\n// version: 1",
            "// a: b",
        ] {
            assert_eq!(from_comment(source), none, "{source}");
        }
    }

    #[test]
    fn error_names_file_and_line() {
        let error = format!("{:?}", from_pyproject("[project]\nname = \n").unwrap_err());
        assert!(
            error.contains("`pyproject.toml` is not TOML") && error.contains("line 2"),
            "{error}"
        );
        let error = format!("{:?}", from_package("{\n,}").unwrap_err());
        assert!(
            error.contains("`package.json` is not JSON") && error.contains("line 2"),
            "{error}"
        );
    }
}
