//! The check of a single record, which is the form of an answer for programs.

use serde_json::{Map, Value};

use super::report::Reason;
use super::wording::{quoted, shortened};
use skillhost::{Definition, Form, Output};
use skillhost_sandbox::tool::arguments::{BoundedValidator, Mismatch};

/// Checks that an answer's details are a JSON object and that its record matches the output schema.
///
/// The host makes the record from the details that the tool returned, and adds the text and files.
pub(super) fn check_record(definition: &Definition, output: &Output) -> Result<(), Reason> {
    let reason = |why: String, fix: &str| Reason {
        why,
        fix: fix.to_owned(),
    };
    let details = output.details();
    let object = details.map(serde_json::from_str::<Map<String, Value>>);
    match object {
        Some(Err(error)) => {
            return Err(reason(
                format!(
                    "the details {} are not a JSON object: {error}",
                    quoted(details.unwrap_or_default())
                ),
                "write one JSON object into `details`, or leave `details` out",
            ));
        }
        None if definition.model_reads == Form::Record => {
            return Err(reason(
                "the model reads the details, but an answer had no details".to_owned(),
                "return `details`, or let the model read the text",
            ));
        }
        _ => {}
    }
    let Some(schema) = &definition.output_schema else {
        return Ok(());
    };
    // The check `format-mcp` reports an invalid schema.
    let Ok(validator) = BoundedValidator::new(&schema.clone().into(), "its output schema") else {
        return Ok(());
    };
    let record = output.record();
    validator.check(&record).map_err(|mismatch| {
        let why = match mismatch {
            Mismatch::At(error) => {
                let pointer = error.instance_path().to_string();
                let cause = shortened(&error.to_string());
                format!(
                    "a record does not match the output schema at {}: {cause}",
                    quoted(&pointer)
                )
            }
            Mismatch::Somewhere => "a record does not match the output schema; the record is too \
                 large to say where"
                .to_owned(),
            Mismatch::TooMuchText(bytes, most) => format!(
                "a record has {bytes} bytes of text, but the patterns of the output schema allow \
                 at most {most}"
            ),
            Mismatch::TooManyValues(values) => {
                format!("a record has {values} values: too many to check against the output schema")
            }
        };
        reason(why, "correct the record or the schema")
    })
}
