//! Parses arguments, checks them against the tool's schema, and normalises them for the guest.

mod bounds;
mod normalize;
mod plain;
#[cfg(test)]
mod tests;
mod words;

use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::tool::CallError;
use bounds::SchemaSize;
use normalize::{allows_null, drop_absent, make_integers};
use plain::PlainProperties;
use skillhost_skills::text::suggest;
use words::{describe, shorten};

pub(crate) use bounds::number_of_values;
pub use bounds::{BoundedValidator, Mismatch};

/// The maximum size of a call's arguments as JSON, in bytes. Guards against: a caller that floods
/// the host. A model writes a few hundred bytes.
pub const MAX_ARGUMENTS: usize = 1 << 20;

/// The maximum number of values in a call's arguments. Checking takes time proportional to
/// this times [`bounds::SCHEMA_VALUES`], and the call's time limit does not cover it.
const ARGUMENT_VALUES: usize = 10_000;

/// A tool's schema, ready to check arguments.
pub struct Schema {
    /// The schema as JSON. It is compiled only when arguments need it, because compiling takes
    /// as long as everything else in a process that makes one call.
    source: Value,
    size: SchemaSize,
    validator: OnceLock<BoundedValidator>,
    plain: Option<PlainProperties>,
    properties: Vec<String>,
    required: Vec<String>,
    /// True if the schema refuses unknown properties.
    refuses_unknown: bool,
    /// The nullable properties. A null for any other optional property means that it is absent.
    nullable: Vec<String>,
    /// The schemas of the properties, to remove nulls inside their values.
    property_schemas: Map<String, Value>,
}

/// Parses the arguments of a call. An empty text means no arguments.
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

/// Checks arguments as a call of a tool with this schema does.
///
/// The outer error says why the host refuses to load a component with this schema.
pub fn check_arguments(
    schema: &Map<String, Value>,
    arguments: Value,
) -> anyhow::Result<Result<Map<String, Value>, CallError>> {
    Ok(Schema::new(schema)?.check(arguments))
}

impl Schema {
    /// Checks and compiles a schema.
    pub(crate) fn new(input_schema: &Map<String, Value>) -> anyhow::Result<Self> {
        let schema = Self::uncompiled(input_schema)?;
        schema.compile()?;
        Ok(schema)
    }

    /// Compiles the schema now instead of at the first call.
    pub(crate) fn compile(&self) -> anyhow::Result<()> {
        self.compiled().map(drop)
    }

    /// Returns the number of patterns that a check of one value applies. Each keyword
    /// such as `anyOf` around a pattern adds one, because it tries the pattern once more.
    pub(crate) fn patterns(&self) -> usize {
        self.size.patterns
    }

    /// Checks the size of a schema, but does not compile it. [`compile`](Schema::compile) does.
    pub(crate) fn uncompiled(input_schema: &Map<String, Value>) -> anyhow::Result<Self> {
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
        let refuses_unknown = match schema.get("additionalProperties") {
            None | Some(Value::Bool(false)) => !schema.contains_key("patternProperties"),
            Some(_) => false,
        };
        let nullable = properties
            .iter()
            .filter(|(_, schema)| allows_null(schema))
            .map(|(name, _)| name.clone())
            .collect();
        let size = SchemaSize::of(&Value::Object(schema.clone()), "its input schema")?;
        // Guards against: a schema with another `type`.
        schema.insert("type".to_owned(), "object".into());
        Ok(Self {
            plain: PlainProperties::of(&schema),
            source: Value::Object(schema),
            size,
            validator: OnceLock::new(),
            properties: properties.keys().cloned().collect(),
            required,
            refuses_unknown,
            nullable,
            property_schemas: properties,
        })
    }

    fn compiled(&self) -> anyhow::Result<&BoundedValidator> {
        if let Some(validator) = self.validator.get() {
            return Ok(validator);
        }
        let validator = BoundedValidator::compile(&self.source, self.size, "its input schema")?;
        Ok(self.validator.get_or_init(|| validator))
    }

    /// Checks arguments, and removes nulls that mean an absent property.
    pub fn check(&self, arguments: Value) -> Result<Map<String, Value>, CallError> {
        let Value::Object(mut arguments) = arguments else {
            return Err(CallError::Arguments(
                "the arguments are not a JSON object".to_owned(),
            ));
        };
        let mut left = ARGUMENT_VALUES;
        if !arguments
            .values_mut()
            .all(|value| make_integers(value, &mut left))
        {
            return Err(CallError::Arguments(format!(
                "the arguments hold more than {ARGUMENT_VALUES} values"
            )));
        }
        arguments.retain(|name, value| {
            !value.is_null() || self.nullable.contains(name) || self.required.contains(name)
        });
        for (name, value) in &mut arguments {
            if let Some(schema) = self.property_schemas.get(name) {
                drop_absent(schema, value);
            }
        }
        if let Some(wrong) = self.wrong_names(&arguments) {
            return Err(CallError::Arguments(wrong));
        }
        let plain = self.plain.as_ref();
        if plain.is_some_and(|plain| plain.fit(&arguments)) {
            return Ok(arguments);
        }
        let validator = self
            .compiled()
            .map_err(|error| CallError::Arguments(format!("{error:#}")))?;
        let arguments = Value::Object(arguments);
        if let Err(mismatch) = validator.check(&arguments) {
            return Err(CallError::Arguments(match mismatch {
                Mismatch::At(error) => describe(&error),
                Mismatch::Somewhere => {
                    "Invalid arguments: they do not match the tool's schema, and \
                                      are too large to say where"
                        .to_owned()
                }
                Mismatch::TooMuchText(bytes, max) => format!(
                    "the arguments have {bytes} bytes of text: the patterns of this tool's schema \
                     allow at most {max}"
                ),
                Mismatch::TooManyValues(values) => format!(
                    "the arguments hold {values} values: too many to check with this tool's schema"
                ),
            }));
        }
        match arguments {
            Value::Object(arguments) => Ok(arguments),
            _ => Err(CallError::Arguments(String::new())),
        }
    }

    /// Returns a message about missing and unknown arguments together, because one is often
    /// a misspelling of the other.
    fn wrong_names(&self, arguments: &Map<String, Value>) -> Option<String> {
        let mut required = self.required.iter();
        let missing = required.find(|name| !arguments.contains_key(*name));
        let missing = missing.map(|name| format!("Missing required argument: '{}'", shorten(name)));
        let mut names = arguments.keys().filter(|_| self.refuses_unknown);
        let unknown = names.find(|name| !self.properties.contains(name));
        let unknown = unknown.map(|name| {
            let nearest = suggest::nearest(name, self.properties.iter().map(String::as_str));
            let hint = suggest::did_you_mean(&nearest, '\'');
            format!("Unknown argument: '{}'{hint}", shorten(name))
        });
        match (missing, unknown) {
            (Some(missing), Some(unknown)) => Some(format!("{missing}. {unknown}")),
            (one, other) => one.or(other),
        }
    }
}
