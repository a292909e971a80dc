//! A skill's entry, in the form that every client accepts.
//!
//! A strict client checks each value of the frontmatter, and refuses a whole listing if one
//! value is wrong. So a listing keeps only the author's values that every client accepts. It turns
//! the others into text, shortens them or leaves them out. `skills/get` returns all values
//! unchanged, or all as text if the frontmatter cannot be read as JSON.
//!
//! The protocol requires that the URI of a SKILL.md ends with the skill's `name` and
//! `SKILL.md`. If the skill's folder has another name, its entry is at
//! `skill://<skill>/<name>/SKILL.md`.

use rmcp::model::{SKILL_MD, Skill, SkillFrontmatter, SkillResource, SkillResources as Manifest};
use serde_json::{Map, Value};
use skillhost::frontmatter::{self, Frontmatter, ProblemKind, Reading};
use skillhost::{SkillFile, SkillFiles};
use skillhost_skills::check::MAX_DESCRIPTION_CHARS;
use skillhost_skills::paragraph;

use crate::faults::SkillFault;
use crate::resources::entry_name::entry_name;
use crate::resources::uri::SkillUri;

/// The maximum number of characters of `compatibility`, by the specification.
const MAX_COMPATIBILITY: usize = 500;

/// A fault, and its description.
pub(super) type Fault = (SkillFault, String);

/// The reason why a skill has no name that the extension accepts.
pub(super) const NO_VALID_NAME: &str = "neither its `name` nor its folder's name is 1 to 64 \
                                        lower-case letters, digits and hyphens, with a letter or \
                                        digit on each side of every hyphen";

/// The form of a frontmatter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// With the values that every client accepts.
    Listed,
    /// With the author's values.
    Verbatim,
}

/// Returns the entry of a skill with these files.
pub(super) fn from_files(skill: &str, files: &SkillFiles, form: Form) -> Result<Skill, Fault> {
    let Some(start) = files.skill_md.as_deref() else {
        let why = format!("`{SKILL_MD}` is missing, cannot be read, or is not UTF-8");
        return Err((SkillFault::NoSkillMd, why));
    };
    let front = front(skill, start, form)?;
    let name = front.name.clone();
    let mut paths = files.files.iter().map(|file| file.path.split('/').next());
    if name != skill && paths.any(|first| first == Some(&name)) {
        return Err((
            SkillFault::NameCollision,
            format!("its folder has a file or folder named `{name}`"),
        ));
    }
    let resources = match &files.over {
        None => {
            let resource = |file: &SkillFile| {
                let digest = file.sha256.as_deref().unwrap_or_default();
                let uri = entry_uri(skill, &name, &file.path);
                SkillResource::new(uri, format!("sha256:{digest}"), file.size)
            };
            Manifest::Files(files.files.iter().map(resource).collect())
        }
        // Only for `skills/get`: in a listing, the extension allows this only for generated skills.
        Some(_) if form == Form::Verbatim => Manifest::Dynamic,
        Some(over) => return Err((SkillFault::OverLimit, over.to_string())),
    };
    valid_entry(skill, front, resources)
}

/// Returns whether a skill may have an entry, by the start of its SKILL.md.
pub(super) fn may_have_entry(skill: &str, start: &str, form: Form) -> bool {
    let front = front(skill, start, form);
    front.is_ok_and(|front| valid_entry(skill, front, Manifest::Dynamic).is_ok())
}

/// Returns a skill's entry, if the protocol allows it.
fn valid_entry(skill: &str, front: SkillFrontmatter, resources: Manifest) -> Result<Skill, Fault> {
    let entry = Skill::new(entry_uri(skill, &front.name, SKILL_MD), front, resources);
    match entry.validate() {
        Ok(()) => Ok(entry),
        Err(error) => Err((SkillFault::Unreadable, error.to_string())),
    }
}

/// Returns the URI of a skill's file in an entry with this name.
fn entry_uri(skill: &str, name: &str, path: &str) -> String {
    let uri = match name {
        name if name == skill => SkillUri::file(skill, path),
        name => SkillUri::file(skill, &format!("{name}/{path}")),
    };
    uri.to_string()
}

/// Returns the frontmatter for a skill's entry.
fn front(skill: &str, start: &str, form: Form) -> Result<SkillFrontmatter, Fault> {
    let reading = frontmatter::read(start);
    let unread_kinds = [ProblemKind::Unclosed, ProblemKind::TooLarge];
    let is_unread = |kind| form == Form::Listed && unread_kinds.contains(kind);
    if let Some(problem) = reading
        .problems
        .iter()
        .find(|problem| is_unread(&problem.kind))
    {
        return Err((SkillFault::NoFrontmatter, problem.message.clone()));
    }
    let name = entry_name(skill, &reading.frontmatter);
    let Some(name) = name.or((form == Form::Verbatim).then_some(skill)) else {
        return Err((SkillFault::FolderName, NO_VALID_NAME.to_owned()));
    };
    let name = name.to_owned();
    let mut object = match frontmatter::read_json(start) {
        Ok(object) => object.unwrap_or_default(),
        Err(_) => as_text(&reading.frontmatter),
    };
    object.shift_remove("name");
    let description = match (object.shift_remove("description"), form) {
        (Some(Value::String(text)), Form::Verbatim) => text,
        (None | Some(Value::Null), Form::Verbatim) => String::new(),
        (Some(other), Form::Verbatim) => other.to_string(),
        (description, Form::Listed) => description_of(description, &reading)?,
    };
    let mut front = SkillFrontmatter::new(name, description);
    if form == Form::Listed {
        make_acceptable(&mut object, &reading.frontmatter);
    }
    front.extra = object;
    Ok(front)
}

/// Returns the description for a listing: the author's or, without one, the first paragraph.
/// Shortens it to the limit.
fn description_of(value: Option<Value>, reading: &Reading<'_>) -> Result<String, Fault> {
    let text = match value {
        Some(Value::String(text)) => Some(text),
        _ => text_of(&reading.frontmatter.description),
    };
    let text = text.filter(|text| !is_blank(text));
    match text.or_else(|| paragraph::first(reading.split.body)) {
        Some(text) => Ok(cut(text, MAX_DESCRIPTION_CHARS)),
        None => {
            let why = "it has no `description` and no paragraph".to_owned();
            Err((SkillFault::Description, why))
        }
    }
}

/// If some client refuses a value, puts the value's text from the file in its place. Removes the
/// value where clients accept no text.
fn make_acceptable(object: &mut Map<String, Value>, source: &Frontmatter) {
    let is_text_list = |value: &Value| {
        let list = value.as_array();
        list.is_some_and(|list| list.iter().all(Value::is_string))
    };
    let text_values = [
        ("license", &source.license),
        ("compatibility", &source.compatibility),
        ("allowed-tools", &source.allowed_tools),
    ];
    for (key, text) in text_values {
        match object.get_mut(key) {
            None | Some(Value::String(_)) => {}
            Some(value) if key == "allowed-tools" && is_text_list(value) => {}
            Some(value) => *value = text_of(text).map_or(Value::Null, Value::String),
        }
        if object.get(key).is_some_and(Value::is_null) {
            object.shift_remove(key);
        }
    }
    match object.get_mut("compatibility") {
        Some(Value::String(text)) if is_blank(text) => {
            object.shift_remove("compatibility");
        }
        Some(Value::String(text)) => *text = cut(std::mem::take(text), MAX_COMPATIBILITY),
        _ => {}
    }
    match object.get_mut("metadata") {
        Some(Value::Object(metadata)) => make_texts(metadata, source),
        _ => {
            object.shift_remove("metadata");
        }
    }
    remove_proto(object);
}

/// Replaces the values of `metadata` that are not text. A list or a map becomes its JSON, and any
/// other value its text in the file.
fn make_texts(metadata: &mut Map<String, Value>, source: &Frontmatter) {
    remove_proto(metadata);
    let pairs = source.metadata.as_ref().map(|field| &field.value);
    for (key, value) in metadata {
        let text = match value {
            Value::String(_) => continue,
            Value::Array(_) | Value::Object(_) => None,
            _ => pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == *key)),
        };
        *value = text
            .map_or_else(|| value.to_string(), |pair| pair.value.clone())
            .into();
    }
}

/// Removes the key `__proto__`, which clients in JavaScript refuse because it is special there.
fn remove_proto(object: &mut Map<String, Value>) {
    fn visit(value: &mut Value) {
        match value {
            Value::Object(object) => remove_proto(object),
            Value::Array(list) => list.iter_mut().for_each(visit),
            _ => {}
        }
    }
    object.shift_remove("__proto__");
    object.values_mut().for_each(visit);
}

fn text_of(field: &Option<frontmatter::Field<String>>) -> Option<String> {
    let text = field.as_ref().map(|field| field.value.as_str());
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns whether some client treats a text as empty. Python counts some control characters as
/// white space.
fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// Shortens a text to `max` characters. Drops white space at its start first, so that the result is
/// not blank.
fn cut(text: String, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some(_) => text
            .trim_start_matches(is_space)
            .chars()
            .take(max)
            .collect(),
        None => text,
    }
}

/// Returns all values as text, for a frontmatter that cannot be read as JSON.
fn as_text(front: &Frontmatter) -> Map<String, Value> {
    let mut object = Map::new();
    let texts = [
        ("description", &front.description),
        ("license", &front.license),
        ("compatibility", &front.compatibility),
        ("allowed-tools", &front.allowed_tools),
    ];
    for (key, field) in texts {
        if let Some(field) = field {
            object.insert(key.to_owned(), field.value.clone().into());
        }
    }
    let pairs = |pairs: &[frontmatter::Pair]| -> Map<String, Value> {
        let pairs = pairs.iter();
        pairs
            .map(|pair| (pair.key.clone(), pair.value.clone().into()))
            .collect()
    };
    if let Some(metadata) = &front.metadata {
        object.insert("metadata".to_owned(), pairs(&metadata.value).into());
    }
    object.extend(pairs(&front.unknown));
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the frontmatter of the skill `a` in a form, as JSON.
    fn shown(text: &str, form: Form) -> Result<String, SkillFault> {
        let front = front("a", text, form).map_err(|(fault, _)| fault)?;
        Ok(serde_json::to_string(&front).unwrap())
    }

    #[test]
    fn listing_keeps_values_that_clients_accept() {
        let long = "é".repeat(1024);
        for (yaml, expected) in [
            ("", ""),
            ("license: MIT", r#","license":"MIT""#),
            ("license: ''", r#","license":"""#),
            ("compatibility: git", r#","compatibility":"git""#),
            (
                "allowed-tools: Read Grep",
                r#","allowed-tools":"Read Grep""#,
            ),
            ("allowed-tools: [Read]", r#","allowed-tools":["Read"]"#),
            ("allowed-tools:\n  - Read", r#","allowed-tools":["Read"]"#),
            ("metadata: {}", r#","metadata":{}"#),
            ("metadata: {a: b}", r#","metadata":{"a":"b"}"#),
            (
                "model: 1.5\nhooks:\n  - a: [b]",
                r#","model":1.5,"hooks":[{"a":["b"]}]"#,
            ),
            (&format!("x: {long}"), &format!(r#","x":"{long}""#)),
        ] {
            let text = format!("---\nname: a\ndescription: x\n{yaml}\n---\n");
            let expected = format!(r#"{{"name":"a","description":"x"{expected}}}"#);
            for form in [Form::Listed, Form::Verbatim] {
                assert_eq!(shown(&text, form).unwrap(), expected, "{yaml}");
            }
        }
    }

    #[test]
    fn listing_replaces_values_that_clients_refuse() {
        let long = "é".repeat(2000);
        let cut = |max| "é".repeat(max);
        for (yaml, expected) in [
            (
                "description: 1.10",
                r#"{"name":"a","description":"1.10"}"#.to_owned(),
            ),
            (
                "description: ' '",
                r#"{"name":"a","description":"First."}"#.to_owned(),
            ),
            (
                "description:",
                r#"{"name":"a","description":"First."}"#.to_owned(),
            ),
            (
                "version: 1",
                r#"{"name":"a","description":"First.","version":1}"#.to_owned(),
            ),
            (
                &format!("description: {long}"),
                format!(r#"{{"name":"a","description":"{}"}}"#, cut(1024)),
            ),
            (
                &format!("description: x\ncompatibility: {long}"),
                format!(
                    r#"{{"name":"a","description":"x","compatibility":"{}"}}"#,
                    cut(500)
                ),
            ),
            (
                "description: x\nlicense: 2.10\ncompatibility: true",
                r#"{"name":"a","description":"x","license":"2.10","compatibility":"true"}"#
                    .to_owned(),
            ),
            (
                "description: x\nlicense:\ncompatibility: ''\nallowed-tools:",
                r#"{"name":"a","description":"x"}"#.to_owned(),
            ),
            (
                "description: x\nallowed-tools: [Read, 1]",
                r#"{"name":"a","description":"x","allowed-tools":"Read 1"}"#.to_owned(),
            ),
            (
                "description: x\nmetadata: text",
                r#"{"name":"a","description":"x"}"#.to_owned(),
            ),
            (
                "description: x\nmetadata: [a]",
                r#"{"name":"a","description":"x"}"#.to_owned(),
            ),
            (
                "description: x\n__proto__: y\nmetadata:\n  __proto__: z\n  b: [{__proto__: c}]",
                r#"{"name":"a","description":"x","metadata":{"b":"[{}]"}}"#.to_owned(),
            ),
            (
                "description: x\nmetadata:\n  a: 1.10\n  b: true\n  c: [d, {e: null}]\n  f: g",
                r#"{"name":"a","description":"x","metadata":{"a":"1.10","b":"true","c":"[\"d\",{\"e\":null}]","f":"g"}}"#
                    .to_owned(),
            ),
            (
                &format!("description: \"{}x\"", " ".repeat(2000)),
                r#"{"name":"a","description":"x"}"#.to_owned(),
            ),
            (
                r#"description: "\x1c""#,
                r#"{"name":"a","description":"First."}"#.to_owned(),
            ),
            (
                "description: x\ncompatibility: ' '",
                r#"{"name":"a","description":"x"}"#.to_owned(),
            ),
            // Returned as text, because it cannot be read as JSON.
            (
                "description: Use: it\nversion: 1.10",
                r#"{"name":"a","description":"Use: it","version":"1.10"}"#.to_owned(),
            ),
            (
                "description: x\ndescription: y\nversion: .inf",
                r#"{"name":"a","description":"x","version":".inf"}"#.to_owned(),
            ),
        ] {
            let text = format!("---\nname: a\n{yaml}\n---\n# Title\n\nFirst.\n");
            assert_eq!(shown(&text, Form::Listed).unwrap(), expected, "{yaml}");
        }
    }

    #[test]
    fn tells_why_skill_has_no_entry() {
        use SkillFault::{Description, FolderName, NoFrontmatter};
        let large = format!("---\nname: a\nx: {}\n---\n", "x".repeat(70_000));
        for (skill, text, fault) in [
            ("a", "---\nname: a\n", NoFrontmatter),
            ("a", &large, NoFrontmatter),
            ("a", "---\nname: a\n---\n", Description),
            ("a", "", Description),
            ("A", "---\nname: A\ndescription: x\n---\n", FolderName),
        ] {
            let front = front(skill, text, Form::Listed);
            assert_eq!(front.map_err(|(fault, _)| fault), Err(fault), "{text:.30}");
        }
    }

    #[test]
    fn get_keeps_frontmatter_where_protocol_allows() {
        for (yaml, expected) in [
            (
                "name: b\ndescription: \" x \"\nlicense: 2\nallowed-tools: [1]\nmetadata: a",
                r#"{"name":"b","description":" x ","license":2,"allowed-tools":[1],"metadata":"a"}"#,
            ),
            ("name: 1\ndescription:", r#"{"name":"1","description":""}"#),
            (
                "license: MIT",
                r#"{"name":"a","description":"","license":"MIT"}"#,
            ),
            (
                "name: b\ndescription: Use: it\nversion: 1.10",
                r#"{"name":"b","description":"Use: it","version":"1.10"}"#,
            ),
        ] {
            let text = format!("---\n{yaml}\n---\n");
            assert_eq!(shown(&text, Form::Verbatim).unwrap(), expected, "{yaml}");
        }
    }
}
