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

/// Keywords that check what their neighbours have left out, for which these are evaluated
/// again. Guards against: forty of them within each other, by which one value is checked
/// a million times a million.
const UNEVALUATED: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

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
    // With each value, whether it is within a schema with such a keyword.
    let mut rest = vec![(schema, false)];
    while let Some((value, is_within)) = rest.pop() {
        values += 1;
        anyhow::ensure!(
            values <= SCHEMA_VALUES,
            "{what} has more than {SCHEMA_VALUES} values"
        );
        match value {
            Value::Object(object) => {
                let find = |keywords: &'static [&str]| {
                    let mut keywords = keywords.iter();
                    keywords.find(|keyword| object.contains_key(**keyword))
                };
                if let Some(keyword) = find(&REFERENCES) {
                    anyhow::bail!("{what} has `{keyword}`: write out what it refers to");
                }
                let unevaluated = find(&UNEVALUATED);
                if let Some(keyword) = unevaluated.filter(|_| is_within) {
                    anyhow::bail!(
                        "{what} has `{keyword}` within another such keyword: keep the outermost alone"
                    );
                }
                let is_within = is_within || unevaluated.is_some();
                rest.extend(object.values().map(|value| (value, is_within)));
            }
            Value::Array(array) => rest.extend(array.iter().map(|value| (value, is_within))),
            _ => {}
        }
    }
    Ok(())
}
