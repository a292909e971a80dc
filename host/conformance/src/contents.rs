//! Files with unusual contents: none, binary data, and far too much.

use super::report::{Outcome, Recorder, Rule};
use super::scratch::{BINARY, EMPTY, HUGE};
use super::trial::Trial;
use super::wording::answered_or_failed;
use skillhost::{CallError, Stop};

pub(super) const RULES: &[Rule] = &[EMPTY_FILE, BINARY_FILE, HUGE_FILE];

const EMPTY_FILE: Rule = Rule {
    id: "empty-file",
    sentence: "an empty file ends in an answer or in the tool's own failure",
};
const BINARY_FILE: Rule = Rule {
    id: "binary-file",
    sentence: "a binary file ends in an answer or in the tool's own failure",
};
const HUGE_FILE: Rule = Rule {
    id: "huge-file",
    sentence: "a file of 24 MiB ends in an answer, in the tool's own failure, or at the limit on output",
};

pub(super) async fn run(recorder: &mut Recorder, trial: &Trial<'_>) {
    for (rule, skill) in [
        (&EMPTY_FILE, EMPTY),
        (&BINARY_FILE, BINARY),
        (&HUGE_FILE, HUGE),
    ] {
        recorder
            .check(rule, Some(trial.name()), content(trial, skill))
            .await;
    }
}

async fn content(trial: &Trial<'_>, skill: &str) -> Outcome {
    let Some(arguments) = trial.in_skill(skill) else {
        return Outcome::skipped("it reads no skill", "");
    };
    let result = trial.call(arguments).await;
    // As good as a failure: the model reads this limit, and can ask for a part.
    if let Err(CallError::Stopped {
        stop: Stop::Output(_),
        ..
    }) = result
    {
        return Outcome::Passed;
    }
    answered_or_failed(&result, "for the file").into()
}
