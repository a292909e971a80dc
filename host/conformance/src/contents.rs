//! Files that hold what nobody expected: nothing, no text, or far too much.

use super::Rule;
use super::report::{Outcome, Recorder};
use super::scratch::{BINARY, EMPTY, HUGE};
use super::trial::{Trial, settled};
use skillhost::{CallError, Stop};

pub(super) const RULES: &[Rule] = &[EMPTY_FILE, BINARY_FILE, HUGE_FILE];

const EMPTY_FILE: Rule = Rule {
    id: "empty-file",
    sentence: "an empty file ends in an answer or a failure of its own",
};
const BINARY_FILE: Rule = Rule {
    id: "binary-file",
    sentence: "a file that is no text ends in an answer or a failure of its own",
};
const HUGE_FILE: Rule = Rule {
    id: "huge-file",
    sentence: "a file of 24 MiB ends in an answer, a failure of its own, or too large an answer",
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
    let ended = trial.call(arguments).await;
    // The model is told so, and can ask for a part: as good as a failure.
    if let Err(CallError::Stopped {
        stop: Stop::Output(_),
        ..
    }) = ended
    {
        return Outcome::Passed;
    }
    settled(&ended, "for it").into()
}
