//! The check of a tool's records. It fails with the first invalid record of the other checks'
//! calls.

use super::report::{Outcome, Recorder, Rule};
use super::trial::Trial;

pub(super) const RULES: &[Rule] = &[RECORDS];

const RECORDS: Rule = Rule {
    id: "records-fit",
    sentence: "every record is a JSON object that matches the output schema",
};

pub(super) async fn run(recorder: &mut Recorder, trial: &Trial<'_>) {
    let outcome = async {
        match trial.record_error.take() {
            Some(reason) => Outcome::Failed(reason),
            None => Outcome::Passed,
        }
    };
    recorder.check(&RECORDS, Some(trial.name()), outcome).await;
}
