//! The program's form of answers: a JSON object that is as the tool's output
//! schema says.

use serde_json::{Map, Value};

use super::Rule;
use super::report::{Outcome, Reason, Recorder};
use super::trial::{Trial, bounded, quoted};
use skillhost::internal::validator;
use skillhost::{Definition, Form, Output};

pub(super) const RULES: &[Rule] = &[RECORDS];

const RECORDS: Rule = Rule {
    id: "records-fit",
    sentence: "the records of all answers were JSON objects that fit the output schema",
};

pub(super) async fn run(recorder: &mut Recorder, trial: &Trial<'_>) {
    let fit = async {
        match trial.misfit.take() {
            Some(reason) => Outcome::Failed(reason),
            None => Outcome::Passed,
        }
    };
    recorder.check(&RECORDS, Some(trial.name()), fit).await;
}

/// What is wrong with an answer's record.
pub(super) fn misfit(definition: &Definition, output: &Output) -> Result<(), Reason> {
    let reason = |why: String, mend: &str| Reason {
        why,
        mend: mend.to_owned(),
    };
    let details = output.details();
    let object = details.map(serde_json::from_str::<Map<String, Value>>);
    match object {
        Some(Err(error)) => {
            return Err(reason(
                format!(
                    "the details {} are no JSON object: {error}",
                    quoted(details.unwrap_or_default())
                ),
                "give `details` as the text of one JSON object, or give none",
            ));
        }
        None if definition.model_reads == Form::Record => {
            return Err(reason(
                "the model reads the details, and an answer had none".to_owned(),
                "give `details`, or let the model read the text",
            ));
        }
        _ => {}
    }
    let Some(schema) = &definition.output_schema else {
        return Ok(());
    };
    // What is wrong with the schema itself is said by the format of MCP.
    let Ok(validator) = validator(&schema.clone().into(), "its output schema") else {
        return Ok(());
    };
    let record = output.record();
    match validator.validate(&record) {
        Ok(()) => Ok(()),
        Err(error) => {
            let place = error.instance_path().to_string();
            Err(reason(
                format!(
                    "a record does not fit the output schema at {}: {}",
                    quoted(&place),
                    bounded(&error.to_string())
                ),
                "correct the one or the other",
            ))
        }
    }
}
