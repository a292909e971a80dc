//! A skill's entry, and the rules for entries that every client accepts.
//!
//! A strict client checks each value of the frontmatter by the Agent Skills specification, and
//! refuses a whole listing if one value is wrong. So the listing has only entries without a
//! [`SkillFault`]. `skills/get` also returns skills with a fault, if the protocol can express them:
//! the frontmatter stays unchanged if it is JSON. Otherwise all of its values become text.

use rmcp::model::{SKILL_MD, Skill, SkillFrontmatter, SkillResource, SkillResources as Manifest};
use serde_json::{Map, Value};
use skillhost::frontmatter::{self, Frontmatter};
use skillhost::{SkillFile, SkillFiles};
use skillhost_skills::skill_md::is_skill_md;

use crate::faults::SkillFault;
use crate::resources::uri::SkillUri;

/// The maximum number of characters of a name, by the specification.
const MAX_NAME: usize = 64;

/// The maximum number of characters of a description, by the specification.
const MAX_DESCRIPTION: usize = 1024;

/// The maximum number of characters of `compatibility`, by the specification.
const MAX_COMPATIBILITY: usize = 500;

/// A fault, and its description.
pub(super) type Fault = (SkillFault, String);

/// The entry of a skill. If it has a fault, listings leave it out.
pub(super) struct Entry {
    pub(super) skill: Skill,
    pub(super) fault: Option<Fault>,
}

/// The description of a folder name that the extension does not accept.
pub(super) const NOT_A_NAME: &str = "its folder's name is not 1 to 64 lower-case letters, digits \
                                     and hyphens, with each hyphen between two others";

/// Returns whether the extension accepts a name. Letters are ASCII letters, which every
/// reader of the specification accepts.
pub(super) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.split('-').all(|part| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

/// Returns the entry of a skill for `skills/get`, with or without a fault. Returns a
/// description of the fault if the protocol has no form for the entry.
pub(super) fn for_get(name: &str, files: &SkillFiles) -> Result<Skill, String> {
    let Entry { skill, fault } = Entry::from_files(name, files).map_err(|(_, why)| why)?;
    match skill.validate() {
        Ok(()) => Ok(skill),
        Err(error) => {
            let why = fault.map_or_else(|| error.to_string(), |(_, why)| why);
            Err(format!(
                "{why}, so the skill has no entry; read {} instead",
                skill.uri
            ))
        }
    }
}

impl Entry {
    /// Makes the entry of a skill from its files. Returns its fault if it cannot have an entry.
    pub(super) fn from_files(name: &str, files: &SkillFiles) -> Result<Self, Fault> {
        let Some(start) = files.skill_md.as_deref() else {
            let mut files = files.files.iter();
            let other = files.find(|file| is_skill_md(file.path.as_ref()));
            let why = match other {
                Some(other) if other.path != SKILL_MD => format!(
                    "its file is `{}`, but the extension reads only `{SKILL_MD}`; read {} instead",
                    other.path,
                    SkillUri::file(name, &other.path)
                ),
                _ => format!("`{SKILL_MD}` is missing, cannot be read, or is not UTF-8"),
            };
            return Err((SkillFault::NoSkillMd, why));
        };
        let manifest = match &files.over {
            None => {
                let resources = files.files.iter().map(|file| resource(name, file));
                Manifest::Files(resources.collect())
            }
            // The extension's form for files without digests.
            Some(_) => Manifest::Dynamic,
        };
        let mut entry = Self::new(name, start, manifest);
        if let (None, Some(over)) = (&entry.fault, &files.over) {
            entry.fault = Some((SkillFault::OverLimit, over.to_string()));
        }
        Ok(entry)
    }

    fn new(name: &str, start: &str, manifest: Manifest) -> Self {
        let (front, mut fault) = front(name, start);
        if !is_name(name) {
            fault = Some((SkillFault::FolderName, NOT_A_NAME.to_owned()));
        }
        let skill = Skill::new(SkillUri::file(name, SKILL_MD).to_string(), front, manifest);
        if fault.is_none()
            && let Err(error) = skill.validate()
        {
            fault = Some((SkillFault::Unreadable, error.to_string()));
        }
        Self { skill, fault }
    }
}

/// Returns whether a listing may include the skill with this start of its SKILL.md.
pub(super) fn may_be_listed(name: &str, start: &str) -> bool {
    Entry::new(name, start, Manifest::Dynamic).fault.is_none()
}

/// Returns whether `skills/get` may return the skill with this start of its SKILL.md.
pub(super) fn may_be_returned(name: &str, start: &str) -> bool {
    let entry = Entry::new(name, start, Manifest::Dynamic);
    entry.skill.validate().is_ok()
}

fn resource(name: &str, file: &SkillFile) -> SkillResource {
    let digest = file.sha256.as_deref().unwrap_or_default();
    let uri = SkillUri::file(name, &file.path).to_string();
    SkillResource::new(uri, format!("sha256:{digest}"), file.size)
}

/// Returns the frontmatter of a SKILL.md, and its fault.
fn front(name: &str, start: &str) -> (SkillFrontmatter, Option<Fault>) {
    let (mut object, fault) = match frontmatter::read_json(start) {
        Ok(Some(object)) => {
            let fault = find_fault(name, &object);
            (object, fault)
        }
        Ok(None) => {
            let why = "there is no frontmatter".to_owned();
            (Map::new(), Some((SkillFault::NoFrontmatter, why)))
        }
        Err(problem) => {
            let as_text = as_text(frontmatter::read(start).frontmatter);
            (as_text, Some((SkillFault::NoFrontmatter, problem.message)))
        }
    };
    let mut take = |key: &str| match object.shift_remove(key) {
        Some(Value::String(text)) => Some(text),
        Some(Value::Null) | None => None,
        Some(other) => Some(other.to_string()),
    };
    // The protocol requires a name and a description.
    let own_name = take("name").unwrap_or_else(|| name.to_owned());
    let description = take("description").unwrap_or_default();
    let mut front = SkillFrontmatter::new(own_name, description);
    front.extra = object;
    (front, fault)
}

/// A key, a description of its allowed values, and the check of a value.
type ValueRule = (&'static str, &'static str, fn(&Value) -> bool);

/// Returns the first fault for which a strict client refuses a frontmatter.
fn find_fault(name: &str, object: &Map<String, Value>) -> Option<Fault> {
    let fault = |fault, why: String| Some((fault, why));
    match object.get("name") {
        Some(Value::String(own_name)) if own_name == name => {}
        Some(Value::String(own_name)) => {
            let shown: String = own_name.chars().take(MAX_NAME).collect();
            let why = format!("`name` is `{shown}`, not the folder's name");
            return fault(SkillFault::OtherName, why);
        }
        Some(_) => return fault(SkillFault::OtherName, "`name` is not text".to_owned()),
        None => return fault(SkillFault::OtherName, "`name` is missing".to_owned()),
    }
    let description = object.get("description");
    if description.is_none_or(|value| !is_text(value, MAX_DESCRIPTION)) {
        let why = format!("`description` is not text of 1 to {MAX_DESCRIPTION} characters");
        return fault(SkillFault::Description, why);
    }
    let rules: [ValueRule; 4] = [
        ("license", "text", Value::is_string),
        ("allowed-tools", "text", Value::is_string),
        ("compatibility", "text of 1 to 500 characters", |value| {
            is_text(value, MAX_COMPATIBILITY)
        }),
        ("metadata", "a map of keys to text", |value| {
            let map = value.as_object();
            map.is_some_and(|map| !map.contains_key(PROTO) && map.values().all(Value::is_string))
        }),
    ];
    for (key, allowed, is_allowed) in rules {
        if object.get(key).is_some_and(|value| !is_allowed(value)) {
            return fault(SkillFault::ValueType, format!("`{key}` is not {allowed}"));
        }
    }
    if object.contains_key(PROTO) {
        let why = format!("the key `{PROTO}` is not allowed: JavaScript gives it another meaning");
        return fault(SkillFault::ValueType, why);
    }
    None
}

/// A key that clients in JavaScript refuse.
const PROTO: &str = "__proto__";

/// Returns whether a value is text of 1 to `max` characters that are not all white space.
fn is_text(value: &Value, max: usize) -> bool {
    let text = value.as_str().unwrap_or_default();
    !text.trim().is_empty() && text.chars().count() <= max
}

/// Returns a frontmatter that is not JSON, with all values as text.
fn as_text(front: Frontmatter) -> Map<String, Value> {
    let mut object = Map::new();
    let texts = [
        ("name", front.name),
        ("description", front.description),
        ("license", front.license),
        ("compatibility", front.compatibility),
        ("allowed-tools", front.allowed_tools),
    ];
    for (key, field) in texts {
        if let Some(field) = field {
            object.insert(key.to_owned(), field.value.into());
        }
    }
    if let Some(metadata) = front.metadata {
        let pairs = metadata.value.into_iter();
        let map: Map<String, Value> = pairs.map(|pair| (pair.key, pair.value.into())).collect();
        object.insert("metadata".to_owned(), map.into());
    }
    for pair in front.unknown {
        object.insert(pair.key, pair.value.into());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_names_of_specification_only() {
        for name in ["a", "0", "pdf-processing", "a-1-b", &"a".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "-a",
            "a-",
            "a--b",
            "A",
            "a_b",
            "ä",
            "a.b",
            "a b",
            &"a".repeat(65),
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn finds_fault_of_each_invalid_value() {
        use SkillFault::{Description, NoFrontmatter, OtherName, ValueType};
        let (long, longest) = ("é".repeat(1025), "é".repeat(1024));
        let cases = [
            ("description: x", None),
            (&format!("description: {longest}"), None),
            (
                "description: x\nlicense: MIT\ncompatibility: git\nmetadata:\n  a: \"1\"\n\
                 allowed-tools: Read Grep\nmodel: 1.5\nhooks:\n  - a: [b]\n",
                None,
            ),
            ("description: x\nmetadata: {}", None),
            ("description: >-\n  x\n\n  y\n", None),
            ("license: MIT", Some(Description)),
            ("description: \"  \"", Some(Description)),
            ("description:", Some(Description)),
            ("description: 1", Some(Description)),
            ("description: [x]", Some(Description)),
            (&format!("description: {long}"), Some(Description)),
            ("description: x\nlicense: 2", Some(ValueType)),
            ("description: x\nlicense:", Some(ValueType)),
            ("description: x\nlicense: [MIT]", Some(ValueType)),
            ("description: x\nallowed-tools: [Read]", Some(ValueType)),
            ("description: x\nallowed-tools:\n  - Read", Some(ValueType)),
            ("description: x\nallowed-tools:", Some(ValueType)),
            ("description: x\ncompatibility: \"\"", Some(ValueType)),
            ("description: x\ncompatibility: [a]", Some(ValueType)),
            ("description: x\ncompatibility: true", Some(ValueType)),
            ("description: x\nmetadata:", Some(ValueType)),
            ("description: x\nmetadata: text", Some(ValueType)),
            ("description: x\nmetadata: [a]", Some(ValueType)),
            ("description: x\nmetadata:\n  a: 1.0", Some(ValueType)),
            ("description: x\nmetadata:\n  a: true", Some(ValueType)),
            ("description: x\nmetadata:\n  a:", Some(ValueType)),
            ("description: x\nmetadata:\n  a: [b]", Some(ValueType)),
            ("description: x\nmetadata:\n  a:\n    b: c", Some(ValueType)),
            ("description: x\n__proto__: y", Some(ValueType)),
            ("description: x\nversion: .inf", Some(NoFrontmatter)),
            ("description: x: y", Some(NoFrontmatter)),
            ("description: x\ndescription: y", Some(NoFrontmatter)),
        ];
        for (yaml, expected) in cases {
            let (_, fault) = front("a", &format!("---\nname: a\n{yaml}\n---\n"));
            assert_eq!(fault.map(|(fault, _)| fault), expected, "{yaml}");
        }
        for (yaml, expected) in [
            ("---\ndescription: x\n---\n", OtherName),
            ("---\nname: b\ndescription: x\n---\n", OtherName),
            ("---\nname: \" a\"\ndescription: x\n---\n", OtherName),
            ("---\nname: 1\ndescription: x\n---\n", OtherName),
            ("# A\n", NoFrontmatter),
            ("---\nname: a\n", NoFrontmatter),
        ] {
            let (_, fault) = front("a", yaml);
            assert_eq!(fault.map(|(fault, _)| fault), Some(expected), "{yaml}");
        }
    }

    #[test]
    fn keeps_frontmatter_that_protocol_can_express() {
        let cases = [
            (
                "name: b\ndescription: \" x \"\nlicense: 2\nallowed-tools: [Read]\nmetadata:\n  a: 1",
                r#"{"name":"b","description":" x ","license":2,"allowed-tools":["Read"],"metadata":{"a":1}}"#,
            ),
            ("name: 1\ndescription:", r#"{"name":"1","description":""}"#),
            (
                "license: MIT",
                r#"{"name":"a","description":"","license":"MIT"}"#,
            ),
            // Invalid YAML, which is read line by line.
            (
                "name: b\ndescription: Use: it\nversion: 1.10",
                r#"{"name":"b","description":"Use: it","version":"1.10"}"#,
            ),
        ];
        for (yaml, expected) in cases {
            let (front, _) = front("a", &format!("---\n{yaml}\n---\n"));
            let front = serde_json::to_value(front).unwrap();
            let expected: Value = serde_json::from_str(expected).unwrap();
            assert_eq!(front, expected, "{yaml}");
        }
    }
}
