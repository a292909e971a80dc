//! Arguments: read, checked against the tool's schema, and put into the form
//! in which a guest gets them.

mod words;

use std::sync::OnceLock;

use anyhow::Context as _;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

use crate::text::suggest;
use crate::tool::CallError;
use words::{in_words, short};

/// Most bytes of arguments that are read. Meets: a caller that floods the
/// host. A model writes a few hundred.
pub const MAX_ARGUMENTS: usize = 1 << 20;

/// Most values in a call's arguments. Checking takes time in proportion to
/// these times [`SCHEMA_VALUES`], and no call's time limit holds for it.
const ARGUMENT_VALUES: usize = 10_000;

/// Most values in a schema. Meets: a schema that takes long to check with.
const SCHEMA_VALUES: usize = 2_000;

/// Bytes of a pattern's automaton. Meets: a short pattern that counts to
/// thousands, which is slow on every character of a long text.
const PATTERN_BYTES: usize = 16 << 10;

/// Keywords by which a schema refers to others, itself among them. Meets: a few
/// lines that stand for a million.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// A tool's schema, ready to check arguments.
pub(crate) struct Schema {
    /// The schema, until arguments need it compiled: that takes as long as all
    /// else of a process that makes one call.
    source: Value,
    validator: OnceLock<Validator>,
    /// The properties for which the schema asks for a type and nothing else.
    /// None: it asks more of the object than to have properties.
    plain: Option<Vec<(String, Plain)>>,
    properties: Vec<String>,
    required: Vec<String>,
    /// Whether a property that the schema does not name is refused.
    closed: bool,
    /// Properties that may be null for themselves; any other optional null
    /// counts as absent.
    nullable: Vec<String>,
    /// The schemas of the properties: their own properties may be null, too.
    within: Map<String, Value>,
}

/// Reads the arguments of a call from JSON. No text counts as no arguments.
pub fn parse_arguments(json: &str) -> Result<Value, CallError> {
    if json.len() > MAX_ARGUMENTS {
        return Err(CallError::Arguments(format!(
            "the arguments are larger than {MAX_ARGUMENTS} bytes"
        )));
    }
    if json.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_str(json)
        .map_err(|error| CallError::Arguments(format!("the arguments are not JSON: {error}")))
}

/// Arguments as a call of a tool with this schema would check them. The outer
/// error is why a component with this schema is not loaded. For fuzzing, and
/// no part of the API.
#[doc(hidden)]
pub fn check_arguments(
    schema: &Map<String, Value>,
    arguments: Value,
) -> anyhow::Result<Result<Map<String, Value>, CallError>> {
    Ok(Schema::new(schema)?.check(arguments))
}

/// A type that needs no validator.
#[derive(Clone, Copy)]
enum Plain {
    Text,
    Integer,
    Boolean,
}

impl Schema {
    /// A schema that nobody has checked yet.
    pub(crate) fn new(input_schema: &Map<String, Value>) -> anyhow::Result<Self> {
        let schema = Self::checked(input_schema)?;
        schema.compiled()?;
        Ok(schema)
    }

    /// A schema that was checked when its component was first loaded.
    pub(crate) fn checked(input_schema: &Map<String, Value>) -> anyhow::Result<Self> {
        let mut schema = input_schema.clone();
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let required = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| {
                names
                    .iter()
                    .filter_map(|name| Some(name.as_str()?.to_owned()))
                    .collect()
            })
            .unwrap_or_default();
        let closed = match schema.get("additionalProperties") {
            None | Some(Value::Bool(false)) => !schema.contains_key("patternProperties"),
            Some(_) => false,
        };
        let nullable = properties
            .iter()
            .filter(|(_, schema)| takes_null(schema))
            .map(|(name, _)| name.clone())
            .collect();
        check_schema(&Value::Object(schema.clone()), "its input schema")?;
        // Meets: a schema that names itself something else.
        schema.insert("type".to_owned(), "object".into());
        Ok(Self {
            plain: plain(&schema),
            source: Value::Object(schema),
            validator: OnceLock::new(),
            properties: properties.keys().cloned().collect(),
            required,
            closed,
            nullable,
            within: properties,
        })
    }

    fn compiled(&self) -> anyhow::Result<&Validator> {
        if let Some(validator) = self.validator.get() {
            return Ok(validator);
        }
        let validator = build(&self.source, "its input schema")?;
        Ok(self.validator.get_or_init(|| validator))
    }

    /// Whether arguments, whose required ones are there, are plainly what the
    /// schema asks for. If not, the validator knows whether they are, and why
    /// they are not.
    fn plainly_fits(&self, arguments: &Map<String, Value>) -> bool {
        let Some(plain) = &self.plain else {
            return false;
        };
        arguments.iter().all(|(name, value)| {
            let plain = plain.iter().find(|(property, _)| property == name);
            plain.is_some_and(|(_, plain)| match plain {
                Plain::Text => value.is_string(),
                Plain::Integer => value.is_i64() || value.is_u64(),
                Plain::Boolean => value.is_boolean(),
            })
        })
    }

    /// Checks arguments and takes out the nulls that stand for absent ones.
    pub(crate) fn check(&self, arguments: Value) -> Result<Map<String, Value>, CallError> {
        let Value::Object(mut arguments) = arguments else {
            return Err(CallError::Arguments(
                "the arguments are not a JSON object".to_owned(),
            ));
        };
        let mut left = ARGUMENT_VALUES;
        if !arguments.values_mut().all(|value| settle(value, &mut left)) {
            return Err(CallError::Arguments(format!(
                "the arguments hold more than {ARGUMENT_VALUES} values"
            )));
        }
        arguments.retain(|name, value| {
            !value.is_null() || self.nullable.contains(name) || self.required.contains(name)
        });
        for (name, value) in &mut arguments {
            if let Some(schema) = self.within.get(name) {
                drop_absent(schema, value);
            }
        }
        if let Some(missing) = self
            .required
            .iter()
            .find(|name| !arguments.contains_key(*name))
        {
            return Err(CallError::Arguments(format!(
                "Missing required argument: '{}'",
                short(missing)
            )));
        }
        if self.closed
            && let Some(unknown) = arguments
                .keys()
                .find(|name| !self.properties.contains(name))
        {
            let nearest = suggest::nearest(unknown, self.properties.iter().map(String::as_str));
            return Err(CallError::Arguments(format!(
                "Unknown argument: '{}'{}",
                short(unknown),
                suggest::did_you_mean(&nearest, '\'')
            )));
        }
        if self.plainly_fits(&arguments) {
            return Ok(arguments);
        }
        let validator = self
            .compiled()
            .map_err(|error| CallError::Arguments(format!("{error:#}")))?;
        let arguments = Value::Object(arguments);
        if !validator.is_valid(&arguments)
            && let Err(error) = validator.validate(&arguments)
        {
            return Err(CallError::Arguments(in_words(&error)));
        }
        match arguments {
            Value::Object(arguments) => Ok(arguments),
            _ => Err(CallError::Arguments(String::new())),
        }
    }
}

/// Keywords that ask for nothing.
const NOTES: [&str; 5] = ["$schema", "title", "description", "default", "examples"];

/// The plain properties of a schema, if it has no keyword that could ask for
/// more: for more than no properties, too.
fn plain(schema: &Map<String, Value>) -> Option<Vec<(String, Plain)>> {
    let asks_no_more = |schema: &Map<String, Value>, known: &[&str]| {
        let mut keywords = schema.keys().map(String::as_str);
        keywords.all(|keyword| NOTES.contains(&keyword) || known.contains(&keyword))
    };
    let of_object = ["type", "properties", "required", "additionalProperties"];
    if !asks_no_more(schema, &of_object) {
        return None;
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let plain = |(name, schema): (&String, &Value)| {
        let schema = schema.as_object()?;
        let plain = match schema.get("type")?.as_str()? {
            "string" => Plain::Text,
            "integer" => Plain::Integer,
            "boolean" => Plain::Boolean,
            _ => return None,
        };
        asks_no_more(schema, &["type"]).then(|| (name.clone(), plain))
    };
    Some(properties.into_iter().flatten().filter_map(plain).collect())
}

/// A stranger's schema, ready to check values, if that cannot take long. `what`
/// it is stands in the error.
pub fn validator(schema: &Value, what: &str) -> anyhow::Result<Validator> {
    check_schema(schema, what)?;
    build(schema, what)
}

fn build(schema: &Value, what: &str) -> anyhow::Result<Validator> {
    jsonschema::draft202012::options()
        // Linear time: patterns come from strangers.
        .with_pattern_options(
            PatternOptions::regex()
                .size_limit(PATTERN_BYTES)
                .dfa_size_limit(PATTERN_BYTES),
        )
        .build(schema)
        .map_err(|error| anyhow::anyhow!("{error}"))
        .with_context(|| format!("{what} is not valid"))
}

/// Refuses a schema that could take long to check with, or to read.
fn check_schema(schema: &Value, what: &str) -> anyhow::Result<()> {
    let mut values = 0;
    let mut rest = vec![schema];
    while let Some(value) = rest.pop() {
        values += 1;
        anyhow::ensure!(
            values <= SCHEMA_VALUES,
            "{what} has more than {SCHEMA_VALUES} values"
        );
        match value {
            Value::Object(object) => {
                let refers = REFERENCES
                    .iter()
                    .find(|keyword| object.contains_key(**keyword));
                if let Some(keyword) = refers {
                    anyhow::bail!("{what} has `{keyword}`: write out what it refers to");
                }
                rest.extend(object.values());
            }
            Value::Array(array) => rest.extend(array),
            _ => {}
        }
    }
    Ok(())
}

/// Counts the values of an argument, and makes whole numbers integers: `5.0`
/// is one by JSON Schema, and no guest that reads integers takes it. `false`:
/// there are too many.
fn settle(value: &mut Value, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(1) else {
        return false;
    };
    *left = rest;
    match value {
        Value::Array(values) => values.iter_mut().all(|value| settle(value, left)),
        Value::Object(object) => object.values_mut().all(|value| settle(value, left)),
        Value::Number(number) => {
            if let Some(whole) = number
                .as_f64()
                .filter(|_| number.is_f64())
                .and_then(integer)
            {
                *value = whole.into();
            }
            true
        }
        _ => true,
    }
}

/// A float that is an integer, as long as floats count by ones.
fn integer(number: f64) -> Option<i64> {
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, reason = "whole, and within 2^53")]
    (number.fract() == 0.0 && number.abs() <= LARGEST).then_some(number as i64)
}

/// Takes out the nulls that stand for absent properties of objects within the
/// arguments. Only what the schema names is looked at: other keys are data.
fn drop_absent(schema: &Value, value: &mut Value) {
    match value {
        Value::Array(values) => {
            if let Some(items) = schema.get("items") {
                values
                    .iter_mut()
                    .for_each(|value| drop_absent(items, value));
            }
        }
        Value::Object(object) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return;
            };
            let required = schema.get("required").and_then(Value::as_array);
            let required =
                |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
            object.retain(|name, value| {
                let named = properties.get(name);
                !value.is_null() || required(name) || named.is_none_or(takes_null)
            });
            for (name, value) in object {
                if let Some(schema) = properties.get(name) {
                    drop_absent(schema, value);
                }
            }
        }
        _ => {}
    }
}

/// Whether a property's own schema takes null.
fn takes_null(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "null",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(schema: Value) -> Schema {
        compile(schema).unwrap()
    }

    fn compile(schema: Value) -> anyhow::Result<Schema> {
        let Value::Object(input_schema) = schema else {
            panic!("not an object")
        };
        Schema::new(&input_schema)
    }

    #[test]
    fn what_fits_without_the_validator_is_what_the_validator_takes() {
        let ways: [fn(Value) -> Value; 7] = [
            |of_x| json!({"type": "object", "properties": {"x": of_x}, "required": ["x"]}),
            |of_x| json!({"properties": {"x": of_x}, "additionalProperties": false}),
            |of_x| json!({"properties": {"x": of_x}, "maxProperties": 0}),
            |of_x| json!({"properties": {"x": of_x}, "not": {"required": ["x"]}}),
            |of_x| json!({"properties": {"x": of_x}, "patternProperties": {"x": false}}),
            |of_x| json!({"properties": {"x": of_x}, "propertyNames": {"maxLength": 0}}),
            |of_x| json!({"properties": {"x": {"allOf": [of_x]}}, "title": "T"}),
        ];
        let properties = [
            json!({"type": "string"}),
            json!({"type": "string", "description": "D", "default": "d", "examples": ["e"]}),
            json!({"type": "string", "maxLength": 1}),
            json!({"type": "string", "pattern": "^a"}),
            json!({"type": "string", "enum": ["a"]}),
            json!({"type": "string", "const": "a"}),
            json!({"type": "string", "unknown": 1}),
            json!({"type": "integer"}),
            json!({"type": "integer", "minimum": 5}),
            json!({"type": "number"}),
            json!({"type": "boolean"}),
            json!({"type": ["string", "null"]}),
            json!({"type": "null"}),
            json!({}),
            json!(true),
            json!(false),
        ];
        let values = [
            json!("a"),
            json!("bb"),
            json!(""),
            json!(0),
            json!(-7),
            json!(u64::MAX),
            json!(0.5),
            json!(1e300),
            json!(true),
            json!([]),
            json!({}),
        ];
        let (mut plain, mut refused) = (0, 0);
        for (way, property) in ways
            .iter()
            .flat_map(|way| properties.iter().map(move |p| (way, p)))
        {
            let schema = schema(way(property.clone()));
            for value in &values {
                let arguments = json!({"x": value});
                let fits = schema.plainly_fits(arguments.as_object().unwrap());
                let valid = schema.compiled().unwrap().is_valid(&arguments);
                assert!(valid || !fits, "{:?}: {arguments}", schema.source);
                plain += usize::from(fits);
                refused += usize::from(!valid);
            }
        }
        assert!(plain == 20 && refused > 200, "{plain}, {refused}");
    }

    #[test]
    fn no_arguments_at_all_are_what_the_schema_asks_for_or_refused() {
        for (refuses, asked) in [
            (false, json!({})),
            (false, json!({"properties": {"x": {"type": "string"}}})),
            (false, json!({"maxProperties": 1})),
            (true, json!({"minProperties": 1})),
            (true, json!({"not": {}})),
            (true, json!({"const": {"x": 1}})),
            (
                true,
                json!({
                    "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
                    "anyOf": [{"required": ["x"]}, {"required": ["y"]}],
                }),
            ),
        ] {
            let checked = schema(asked.clone()).check(json!({}));
            assert_eq!(checked.is_err(), refuses, "{asked}: {checked:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_property_named() {
        let schema = schema(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "offset": {"type": "integer"},
                "mode": {"enum": ["a", "b"]},
                "either": {"type": ["string", "null"]},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["path"],
        }));
        for (arguments, message) in [
            (json!([]), "the arguments are not a JSON object"),
            (json!({}), "Missing required argument: 'path'"),
            (json!({"path": null}), "Argument 'path' must be a string"),
            (json!({"path": 1}), "Argument 'path' must be a string"),
            (
                json!({"path": "x", "offset": "1"}),
                "Argument 'offset' must be an integer",
            ),
            (
                json!({"path": "x", "offset": 1.5}),
                "Argument 'offset' must be an integer",
            ),
            (
                json!({"path": "x", "ofset": 1}),
                "Unknown argument: 'ofset'; did you mean 'offset'?",
            ),
            (
                json!({"path": "x", "tags": ["a", 2]}),
                "Argument 'tags.1' must be a string",
            ),
        ] {
            assert_eq!(
                schema.check(arguments.clone()),
                Err(CallError::Arguments(message.to_owned())),
                "{arguments}"
            );
        }
        let error = schema.check(json!({"path": "x", "mode": "c"})).unwrap_err();
        assert!(
            error.to_string().starts_with("Argument 'mode' is invalid"),
            "{error}"
        );
    }

    #[test]
    fn a_message_stays_short_whatever_the_names_in_a_schema() {
        let long = "x".repeat(5000);
        let mut choices = json!({"required": [&long]});
        for _ in 0..20 {
            choices = json!({"anyOf": [{"type": "object", "required": [&long]}, choices]});
        }
        let many: Vec<Value> = (0..50).map(|n| json!({"enum": [n, &long]})).collect();
        for (schema_source, arguments) in [
            (json!({"required": [&long]}), json!({})),
            (
                json!({"properties": {"x": {"required": [&long]}}}),
                json!({"x": {}}),
            ),
            (
                json!({"properties": {(&long): {"type": "string"}}}),
                json!({(&long): 1}),
            ),
            (json!({"properties": {"x": choices}}), json!({"x": {}})),
            (
                json!({"properties": {"x": {"anyOf": many}}}),
                json!({"x": "y"}),
            ),
        ] {
            let error = schema(schema_source).check(arguments).unwrap_err();
            let length = error.to_string().chars().count();
            assert!(length <= 1000, "{length}: {error}");
        }
    }

    #[test]
    fn of_a_choice_of_schemas_the_one_that_was_meant_is_told_or_what_all_take() {
        let object = |name: &str, schema: Value| {
            json!({
                "type": "object",
                "properties": {name: schema},
                "required": [name],
                "additionalProperties": false,
            })
        };
        let number = json!({"type": "integer", "minimum": 0});
        let schema = schema(json!({
            "properties": {
                "count": {"anyOf": [number, {"type": "string", "pattern": "^[0-9]+$"}]},
                "size": {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity"]}]},
                "figure": {"anyOf": [
                    object("circle", json!({"type": "number"})),
                    object("corners", json!({"type": "array", "items": {"anyOf": [number, {"type": "null"}]}})),
                    {"type": "string", "enum": ["nothing"]},
                ]},
                "one": {"oneOf": [{"type": "string"}, {"type": "null"}]},
            },
        }));
        let figure = "Argument 'figure' must be an object with 'circle', an object with 'corners' \
                      or one of \"nothing\"";
        for (arguments, message) in [
            (
                json!({"count": 1.5}),
                "Argument 'count' must be an integer or a string",
            ),
            (
                json!({"count": -1}),
                "Argument 'count' is invalid: -1 is less than the minimum of 0, and is not a string",
            ),
            (
                json!({"count": "x"}),
                "Argument 'count' is invalid: \"x\" does not match \"^[0-9]+$\", and is not an integer",
            ),
            (
                json!({"size": "x"}),
                "Argument 'size' must be a number or one of \"NaN\", \"Infinity\"",
            ),
            (
                json!({"figure": "circle"}),
                "Argument 'figure' must be an object or one of \"nothing\"",
            ),
            (json!({"figure": {"square": 1}}), figure),
            (json!({"figure": {}}), figure),
            (
                json!({"figure": {"circle": "1"}}),
                "Argument 'figure.circle' must be a number",
            ),
            (
                json!({"figure": {"corners": [1, "x"]}}),
                "Argument 'figure.corners.1' must be an integer or null",
            ),
            (json!({"one": 1}), "Argument 'one' must be a string or null"),
        ] {
            assert_eq!(
                schema.check(arguments.clone()),
                Err(CallError::Arguments(message.to_owned())),
                "{arguments}"
            );
        }
    }

    #[test]
    fn schemas_that_could_take_long_are_refused() {
        let deep = |levels: usize| {
            let mut schema = json!({"type": "string"});
            for _ in 0..levels {
                schema = json!({"allOf": [schema]});
            }
            schema
        };
        for (hostile, reason) in [
            (json!({"$ref": "#"}), "`$ref`"),
            (
                json!({"properties": {"a": {"anyOf": [{"$dynamicRef": "#x"}]}}}),
                "`$dynamicRef`",
            ),
            (
                json!({"allOf": vec![json!({}); 3000]}),
                "more than 2000 values",
            ),
            (
                json!({"properties": {"a": {"pattern": "[ab](?:\\w\\w?){2000}"}}}),
                "not valid",
            ),
            (json!({"properties": {"a": {"pattern": "("}}}), "not valid"),
            (json!({"properties": 1}), "not valid"),
        ] {
            let error = compile(hostile.clone()).err().unwrap();
            assert!(
                format!("{error:#}").contains(reason),
                "{hostile}: {error:#}"
            );
        }
        assert!(compile(json!({"properties": {"a": deep(100)}})).is_ok());
    }

    #[test]
    fn checking_large_arguments_is_bounded() {
        let schema = schema(json!({
            "properties": {"a": {"type": "array", "items": {"anyOf": vec![json!({"maxLength": 1}); 500]}}},
        }));
        let start = std::time::Instant::now();
        let many = schema
            .check(json!({"a": vec!["x"; ARGUMENT_VALUES]}))
            .unwrap_err();
        assert!(
            many.to_string().contains("more than 10000 values"),
            "{many}"
        );
        assert!(schema.check(json!({"a": vec!["xx"; 5_000]})).is_err());
        assert!(start.elapsed() < std::time::Duration::from_secs(10));
    }

    #[test]
    fn whole_numbers_reach_a_guest_as_integers() {
        let schema = schema(json!({"properties": {"a": {"type": "integer"}}}));
        for (written, read) in [("5.0", "5"), ("-0.0", "0"), ("1e3", "1000"), ("7", "7")] {
            let arguments = parse_arguments(&format!("{{\"a\": {written}}}")).unwrap();
            let checked = Value::Object(schema.check(arguments).unwrap());
            assert_eq!(checked.to_string(), format!("{{\"a\":{read}}}"));
        }
    }

    #[test]
    fn null_counts_as_absent_unless_the_schema_takes_it() {
        let schema = schema(json!({
            "properties": {"a": {"type": "integer"}, "b": {"type": ["integer", "null"]}},
        }));
        let checked = schema.check(json!({"a": null, "b": null})).unwrap();
        assert_eq!(Value::Object(checked), json!({"b": null}));
    }

    #[test]
    fn null_counts_as_absent_in_objects_within_the_arguments() {
        let span = json!({
            "type": "object",
            "properties": {
                "from": {"type": "integer"},
                "to": {"type": "integer"},
                "note": {"type": ["string", "null"]},
            },
            "required": ["from"],
        });
        let schema = schema(json!({
            "properties": {
                "span": span,
                "spans": {"type": "array", "items": span},
                "labels": {"type": "object", "additionalProperties": true},
            },
        }));
        let given = json!({"from": 1, "to": null, "note": null});
        let read = json!({"from": 1, "note": null});
        let labels = json!({"a": null});
        let checked = schema
            .check(json!({"span": given, "spans": [given, given], "labels": labels}))
            .unwrap();
        assert_eq!(
            Value::Object(checked),
            json!({"span": read, "spans": [read, read], "labels": labels})
        );
        let error = schema.check(json!({"span": {"from": null}})).unwrap_err();
        assert_eq!(error.to_string(), "Argument 'span.from' must be an integer");
    }

    #[test]
    fn arguments_that_are_no_json_are_refused() {
        assert_eq!(parse_arguments(" ").unwrap(), json!({}));
        for text in ["{", "{'a': 1}", "{\"a\": 1} x"] {
            let error = parse_arguments(text).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with("the arguments are not JSON: "),
                "{error}"
            );
        }
        assert!(parse_arguments(&" ".repeat(MAX_ARGUMENTS + 1)).is_err());
    }
}
