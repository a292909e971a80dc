//! An example call, generated from the tool's schema and shown when the arguments are wrong.

use serde_json::{Map, Value};
use skillhost::line::is_hidden;
use skillhost::{Definition, Host};
use skillhost_sandbox::tool::arguments::check_arguments;

/// The maximum nesting depth of a value in an example. Guards against: unreadable examples from the
/// schemas of third-party tools.
const MAX_DEPTH: usize = 4;

/// The maximum number of characters of an example. Guards against: examples that are too long
/// to read.
const MAX_CHARACTERS: usize = 300;

/// Returns an example call to type into a shell, or `None` if no short one fits the schema.
pub(super) fn for_tool(host: &Host, tool: &str) -> Option<String> {
    let definition = host.definition(tool)?;
    let grants = host.grants();
    let grant = grants.iter().find(|grant| grant.tool == tool);
    let mut skills = grant.into_iter().flat_map(|grant| &grant.allowed);
    let skill = skills.find(|skill| is_plain(skill));
    for_definition(definition, skill.map_or("SKILL", String::as_str))
}

fn for_definition(definition: &Definition, skill: &str) -> Option<String> {
    let schema = &definition.input_schema;
    let rule = definition.folder.as_ref();
    let skill_property = rule.map(|rule| &rule.skill_property);
    let path_property = rule.and_then(|rule| rule.path_property.as_ref());
    let required = required(schema);
    let mut arguments = Map::new();
    for (name, schema) in properties(schema) {
        let value = match Some(name) {
            name if name == skill_property => skill.into(),
            Some(name) if !required.contains(&name.as_str()) => continue,
            name if name == path_property => "SKILL.md".into(),
            _ => sample(schema, MAX_DEPTH)?,
        };
        arguments.insert(name.clone(), value);
    }
    let example = format!("skillhost call {}{}", definition.name, words(&arguments)?);
    let fits = matches!(check_arguments(schema, Value::Object(arguments)), Ok(Ok(_)));
    (fits && example.chars().count() <= MAX_CHARACTERS).then_some(example)
}

/// Returns arguments as words for a shell: pairs if possible, else JSON.
fn words(arguments: &Map<String, Value>) -> Option<String> {
    let pair = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return None,
        };
        let looks_like_option_or_json = name.trim_start().starts_with(['-', '{', '[', '"']);
        let is_key = !looks_like_option_or_json && !name.is_empty() && !name.contains('=');
        is_key.then(|| format!("{name}={value}"))
    };
    let pairs: Option<Vec<String>> = arguments.iter().map(pair).collect();
    let words = pairs.unwrap_or_else(|| vec![Value::Object(arguments.clone()).to_string()]);
    words
        .iter()
        .map(|word| Some(format!(" {}", shell_quoted(word)?)))
        .collect()
}

/// Returns a value that a schema may accept, or `None` if the value would nest deeper than `depth`.
fn sample(schema: &Value, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let value = |key: &str| schema.get(key).cloned();
    let first = |key: &str| schema.get(key)?.as_array()?.first().cloned();
    let declared = first("examples")
        .or_else(|| value("default"))
        .or_else(|| value("const"))
        .or_else(|| first("enum"));
    if declared.is_some() {
        return declared;
    }
    if let Some(choice) = first("anyOf").or_else(|| first("oneOf")) {
        return sample(&choice, depth);
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first()?.as_str()?,
        Some(kind) => kind.as_str()?,
        None => "string",
    };
    Some(match kind {
        "integer" | "number" => value("minimum").unwrap_or_else(|| 1.into()),
        "boolean" => true.into(),
        "array" => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            vec![sample(items, depth)?].into()
        }
        "object" => {
            let schema = schema.as_object()?;
            let required = required(schema);
            let named = properties(schema).filter(|(name, _)| required.contains(&name.as_str()));
            let sampled = named.map(|(name, schema)| Some((name.clone(), sample(schema, depth)?)));
            Value::Object(sampled.collect::<Option<_>>()?)
        }
        "null" => Value::Null,
        _ => "text".into(),
    })
}

fn properties(schema: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten()
}

/// Returns the names of the required properties.
fn required(schema: &Map<String, Value>) -> Vec<&str> {
    let required = schema.get("required").and_then(Value::as_array);
    required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Returns a word quoted for a shell, or `None` if it has characters that nobody could type.
fn shell_quoted(word: &str) -> Option<String> {
    if is_plain(word) {
        return Some(word.to_owned());
    }
    let is_visible = !word.contains(is_hidden);
    is_visible.then(|| format!("'{}'", word.replace('\'', r"'\''")))
}

/// Checks whether a word needs no quotes in a shell.
fn is_plain(word: &str) -> bool {
    let is_plain_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:,@%+=-".contains(&byte);
    !word.is_empty() && word.bytes().all(is_plain_byte)
}
