//! The check of one record: the program's form of an answer.

use serde_json::{Map, Value};

use super::report::Reason;
use super::wording::{quoted, shortened};
use skillhost::internal::validator;
use skillhost::{Definition, Form, Output};

/// Checks that an answer's record is a JSON object that matches the output schema.
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
                "the model reads the details, but an answer had none".to_owned(),
                "return `details`, or let the model read the text",
            ));
        }
        _ => {}
    }
    let Some(schema) = &definition.output_schema else {
        return Ok(());
    };
    // `format-mcp` reports a fault of the schema itself.
    let Ok(validator) = validator(&schema.clone().into(), "its output schema") else {
        return Ok(());
    };
    let record = output.record();
    validator.validate(&record).map_err(|error| {
        let place = error.instance_path().to_string();
        reason(
            format!(
                "a record does not match the output schema at {}: {}",
                quoted(&place),
                shortened(&error.to_string())
            ),
            "correct the record or the schema",
        )
    })
}
