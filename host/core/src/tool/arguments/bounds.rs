//! The bounds of a schema, and its compilation. A schema is a stranger's: whatever
//! it says, checking with it must not take long.

use anyhow::Context as _;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// The most values in a schema. Guards against: a schema that takes long to check
/// with.
pub(super) const SCHEMA_VALUES: usize = 2_000;

/// The bytes of a pattern's automaton. Guards against: a short pattern that counts
/// to thousands, which is slow on every character of a long text.
const PATTERN_BYTES: usize = 16 << 10;

/// Keywords by which a schema refers to others, itself among them. Guards against: a
/// few lines that stand for a million.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Checks and compiles a stranger's schema. `what` names it in the error.
pub fn validator(schema: &Value, what: &str) -> anyhow::Result<Validator> {
    check(schema, what)?;
    compile(schema, what)
}

/// Compiles a schema that was checked.
pub(super) fn compile(schema: &Value, what: &str) -> anyhow::Result<Validator> {
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
pub(super) fn check(schema: &Value, what: &str) -> anyhow::Result<()> {
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
