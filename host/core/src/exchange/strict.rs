//! Schemas for OpenAI's strict mode. This mode supports only some keywords, requires that all
//! properties are in `required`, and forbids unknown properties. An optional property becomes
//! required and nullable: the host treats null as if the property were absent.

use std::fmt;

use serde_json::{Map, Value};

use super::schema::{kinds, names};

/// Keywords that strict mode supports and that stay unchanged.
const KEYWORDS: [&str; 10] = [
    "description",
    "title",
    "pattern",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "minItems",
    "maxItems",
];

/// String formats that strict mode supports.
const FORMATS: [&str; 9] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
];

/// Keywords that define possible values and that strict mode does not support.
const UNSUPPORTED: [&str; 5] = [
    "allOf",
    "patternProperties",
    "prefixItems",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// The maximum number of nested objects that all services accept.
const MAX_DEPTH: usize = 5;
/// The maximum number of values in all enumerations of a schema together.
const MAX_ENUM_VALUES: usize = 1000;
/// The number of strings above which an enumeration may have at most [`MAX_ENUM_CHARACTERS`].
const LONG_ENUM: usize = 250;
/// The maximum number of characters of all strings of a long enumeration together.
const MAX_ENUM_CHARACTERS: usize = 15_000;

/// A tool whose schema strict mode cannot express.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotStrict {
    /// The tool's name.
    pub tool: String,
    /// The reason, for the tool's author.
    pub reason: String,
}

impl fmt::Display for NotStrict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, reason } = self;
        write!(
            f,
            "strict mode cannot express the schema of `{tool}`: {reason}"
        )
    }
}

/// Returns the schema of a tool's arguments for strict mode.
pub(super) fn schema(
    tool: &str,
    schema: &Map<String, Value>,
) -> Result<Map<String, Value>, NotStrict> {
    let mut schema = schema.clone();
    schema.insert("type".to_owned(), "object".into());
    let properties = schema.entry("properties");
    properties.or_insert_with(|| Map::new().into());
    let mut strict = StrictConversion {
        enum_values: MAX_ENUM_VALUES,
    };
    let top = Position {
        name: "",
        depth: 1,
        in_choice: false,
    };
    let choice = ["anyOf", "oneOf"]
        .into_iter()
        .find(|keyword| schema.contains_key(*keyword));
    choice
        .map_or(Ok(()), |choice| Err(format!("it has `{choice}`")))
        .and_then(|()| strict.schema(&schema, top))
        .map_err(|reason| NotStrict {
            tool: tool.to_owned(),
            reason,
        })
}

/// The conversion of a schema.
struct StrictConversion {
    /// The number of enumeration values that the conversion may still write.
    enum_values: usize,
}

/// A position in a schema.
#[derive(Clone, Copy)]
struct Position<'a> {
    /// The name of the nearest enclosing property. Empty at the top level.
    name: &'a str,
    /// The nesting of objects: 1 at the top level, and one more in each property.
    depth: usize,
    /// True inside a choice of several schemas. The host cannot know which schema a model chose, so
    /// it cannot tell whether null means that a property is absent.
    in_choice: bool,
}

impl Position<'_> {
    /// Returns the property's name for a message, or "it" for the whole schema.
    fn shown(&self) -> String {
        match self.name {
            "" => "it".to_owned(),
            name => format!("`{name}`"),
        }
    }
}

impl StrictConversion {
    fn schema(
        &mut self,
        schema: &Map<String, Value>,
        at: Position<'_>,
    ) -> Result<Map<String, Value>, String> {
        if let Some(keyword) = UNSUPPORTED.iter().find(|key| schema.contains_key(**key)) {
            return Err(format!("{} has `{keyword}`", at.shown()));
        }
        let mut strict = Map::new();
        let choices = schema.get("anyOf").or_else(|| schema.get("oneOf"));
        let Some((mut kinds, nullable)) = kinds(schema) else {
            let Some(choices) = choices.and_then(Value::as_array) else {
                return Err(format!("{} allows values of any type", at.shown()));
            };
            self.copy_keywords(schema, &mut strict);
            let choices = choices.iter().map(|choice| {
                self.subschema(
                    choice,
                    Position {
                        in_choice: true,
                        ..at
                    },
                )
                .map(Value::from)
            });
            let choices = choices.collect::<Result<Vec<_>, _>>()?;
            strict.insert("anyOf".to_owned(), choices.into());
            return Ok(strict);
        };
        if choices.is_some() {
            return Err(format!(
                "{} has both a type and a choice of schemas",
                at.shown()
            ));
        }
        let (object, array) = (
            kinds.iter().any(|kind| kind == "object"),
            kinds.iter().any(|kind| kind == "array"),
        );
        if nullable {
            kinds.push("null".to_owned());
        }
        let kind = match kinds.as_slice() {
            [one] => one.as_str().into(),
            several => several.into(),
        };
        strict.insert("type".to_owned(), kind);
        self.copy_keywords(schema, &mut strict);
        if array {
            let items = schema.get("items").unwrap_or(&Value::Null);
            let items = self.subschema(items, at)?;
            strict.insert("items".to_owned(), items.into());
        }
        if object {
            self.object(schema, at, &mut strict)?;
        }
        Ok(strict)
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        at: Position<'_>,
        strict: &mut Map<String, Value>,
    ) -> Result<(), String> {
        if at.depth > MAX_DEPTH {
            return Err(format!("it nests objects more than {MAX_DEPTH} deep"));
        }
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.unwrap_or(&empty);
        let more = schema.get("additionalProperties");
        let allows_any_name = match more {
            None => properties.is_empty() && at.depth > 1,
            Some(more) => *more != Value::Bool(false),
        };
        if allows_any_name {
            return Err(format!("{} allows properties of any name", at.shown()));
        }
        let mut converted = Map::new();
        for (name, property) in properties {
            let place = Position {
                name,
                depth: at.depth + 1,
                ..at
            };
            let mut property = self.subschema(property, place)?;
            if !names(schema, "required").any(|required| required == name) {
                // If the property already allows null, null keeps the meaning that it has there.
                if at.in_choice && !allows_null(&property) {
                    return Err(format!(
                        "`{name}` is optional in one of several schemas to choose from"
                    ));
                }
                make_nullable(&mut property);
            }
            converted.insert(name.clone(), property.into());
        }
        let all: Vec<Value> = properties.keys().map(|name| name.as_str().into()).collect();
        strict.insert("properties".to_owned(), converted.into());
        strict.insert("required".to_owned(), all.into());
        strict.insert("additionalProperties".to_owned(), false.into());
        Ok(())
    }

    fn subschema(
        &mut self,
        schema: &Value,
        at: Position<'_>,
    ) -> Result<Map<String, Value>, String> {
        match schema {
            Value::Object(schema) => self.schema(schema, at),
            _ => Err(format!("{} allows values of any type", at.shown())),
        }
    }

    /// Copies the supported keywords. The others only restrict values further, and the host still
    /// checks values against them.
    fn copy_keywords(&mut self, schema: &Map<String, Value>, strict: &mut Map<String, Value>) {
        for keyword in KEYWORDS {
            if let Some(value) = schema.get(keyword) {
                strict.insert(keyword.to_owned(), value.clone());
            }
        }
        if let Some(format) = schema.get("format").and_then(Value::as_str)
            && FORMATS.contains(&format)
        {
            strict.insert("format".to_owned(), format.into());
        }
        let values = match (schema.get("enum"), schema.get("const")) {
            (Some(Value::Array(values)), _) => values.clone(),
            (_, Some(value)) => vec![value.clone()],
            _ => return,
        };
        let characters: usize = values
            .iter()
            .filter_map(Value::as_str)
            .map(|value| value.chars().count())
            .sum();
        let is_too_long = values.len() > LONG_ENUM && characters > MAX_ENUM_CHARACTERS;
        if !is_too_long && let Some(left) = self.enum_values.checked_sub(values.len()) {
            self.enum_values = left;
            strict.insert("enum".to_owned(), values.into());
        }
    }
}

/// Returns whether a schema allows null.
fn allows_null(schema: &Map<String, Value>) -> bool {
    let choices = schema.get("anyOf").and_then(Value::as_array);
    let mut choices = choices.into_iter().flatten();
    names(schema, "type").any(|kind| kind == "null")
        || choices.any(|choice| choice.get("type").is_some_and(|kind| kind == "null"))
}

/// Makes a schema allow null, which means that the property is absent.
fn make_nullable(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        let null = serde_json::json!({"type": "null"});
        if !choices.contains(&null) {
            choices.push(null);
        }
        return;
    }
    match schema.get_mut("type") {
        Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "null") => {}
        Some(Value::Array(kinds)) => kinds.push("null".into()),
        Some(kind) if *kind != "null" => *kind = vec![kind.take(), "null".into()].into(),
        _ => {}
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn strict(input_schema: Value) -> Result<Value, String> {
        let Value::Object(input_schema) = input_schema else {
            panic!("not an object")
        };
        match schema("t", &input_schema) {
            Ok(schema) => Ok(schema.into()),
            Err(not_strict) => Err(not_strict.to_string()),
        }
    }

    #[test]
    fn optional_properties_become_required_and_nullable() {
        let none = || json!({"type": "null"});
        for (given, expected) in [
            (
                json!({"type": "string"}),
                json!({"type": ["string", "null"]}),
            ),
            (
                json!({"type": ["integer", "string"]}),
                json!({"type": ["integer", "string", "null"]}),
            ),
            (
                json!({"type": ["string", "null"]}),
                json!({"type": ["string", "null"]}),
            ),
            (
                json!({"type": "string", "enum": ["a"], "description": "A."}),
                json!({"type": ["string", "null"], "description": "A.", "enum": ["a", null]}),
            ),
            (
                json!({"enum": [1, 2, null]}),
                json!({"type": ["integer", "null"], "enum": [1, 2, null]}),
            ),
            (
                json!({"const": "a"}),
                json!({"type": ["string", "null"], "enum": ["a", null]}),
            ),
            (
                json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
                json!({"anyOf": [{"type": "string"}, {"type": "integer"}, none()]}),
            ),
            (
                json!({"anyOf": [{"type": "string"}, none()]}),
                json!({"anyOf": [{"type": "string"}, none()]}),
            ),
            (
                json!({"anyOf": [
                    {"properties": {
                        "b": {"type": ["number", "null"]},
                        "c": {"anyOf": [{"type": "number"}, none()]},
                    }},
                    {"type": "string"},
                ]}),
                json!({"anyOf": [
                    {
                        "type": "object",
                        "properties": {
                            "b": {"type": ["number", "null"]},
                            "c": {"anyOf": [{"type": "number"}, none()]},
                        },
                        "required": ["b", "c"],
                        "additionalProperties": false,
                    },
                    {"type": "string"},
                    none(),
                ]}),
            ),
            (
                json!({"items": {"properties": {"b": {"type": "number", "minimum": 1}}}}),
                json!({"type": ["array", "null"], "items": {
                    "type": "object",
                    "properties": {"b": {"type": ["number", "null"], "minimum": 1}},
                    "required": ["b"],
                    "additionalProperties": false,
                }}),
            ),
        ] {
            let strict = strict(json!({"properties": {"a": given}}));
            assert_eq!(
                strict.unwrap(),
                json!({
                    "type": "object",
                    "properties": {"a": expected},
                    "required": ["a"],
                    "additionalProperties": false,
                }),
                "{given}"
            );
        }
    }

    #[test]
    fn drops_unsupported_keywords_of_required_property() {
        let a = json!({
            "type": "string", "minLength": 1, "format": "uri", "default": "x", "pattern": "^a",
            "not": {"const": "b"}, "$comment": "c", "examples": ["x"],
        });
        let strict = strict(json!({"properties": {"a": a}, "required": ["a", "b"], "title": "T"}));
        assert_eq!(
            strict.unwrap(),
            json!({
                "type": "object",
                "title": "T",
                "properties": {"a": {"type": "string", "pattern": "^a"}},
                "required": ["a"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn error_names_unsupported_part_of_schema() {
        let mut deep = json!({"type": "string"});
        for _ in 0..MAX_DEPTH {
            deep = json!({"type": "object", "properties": {"d": deep}});
        }
        for (a, reason) in [
            (json!({}), "`a` allows values of any type"),
            (json!(true), "`a` allows values of any type"),
            (json!({"type": "array"}), "`a` allows values of any type"),
            (
                json!({"type": "object"}),
                "`a` allows properties of any name",
            ),
            (
                json!({"type": "object", "properties": {}, "additionalProperties": {}}),
                "`a` allows properties of any name",
            ),
            (json!({"allOf": [{}]}), "`a` has `allOf`"),
            (
                json!({"type": "object", "patternProperties": {"x": {}}}),
                "`a` has `patternProperties`",
            ),
            (
                json!({"type": "string", "anyOf": [{"type": "string"}]}),
                "`a` has both a type and a choice of schemas",
            ),
            (
                json!({"anyOf": [{"properties": {"b": {"type": "string"}}}, {"type": "string"}]}),
                "`b` is optional in one of several schemas to choose from",
            ),
            (deep, "it nests objects more than 5 deep"),
        ] {
            let strict = strict(json!({"properties": {"a": a}}));
            let expected = format!("strict mode cannot express the schema of `t`: {reason}");
            assert_eq!(strict, Err(expected), "{a}");
        }
        assert!(strict(json!({"anyOf": [{"required": ["a"]}]})).is_err());
        let open = strict(json!({"additionalProperties": true})).unwrap_err();
        assert!(
            open.ends_with(": it allows properties of any name"),
            "{open}"
        );
    }

    #[test]
    fn drops_enumerations_that_are_too_long() {
        let values = |count: usize, length: usize| -> Vec<String> {
            (0..count).map(|n| format!("{n:0length$}")).collect()
        };
        for (values, stays) in [
            (values(1000, 4), true),
            (values(1001, 4), false),
            (values(250, 200), true),
            (values(251, 200), false),
        ] {
            let a = json!({"type": "string", "enum": values});
            let strict = strict(json!({"properties": {"a": a}, "required": ["a"]})).unwrap();
            assert_eq!(strict["properties"]["a"].get("enum").is_some(), stays);
        }
        let a = json!({"type": "string", "enum": values(600, 4)});
        let both = json!({"properties": {"a": a, "b": a}, "required": ["a", "b"]});
        let strict = strict(both).unwrap();
        assert!(strict["properties"]["a"].get("enum").is_some());
        assert!(strict["properties"]["b"].get("enum").is_none());
    }
}
