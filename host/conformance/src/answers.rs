//! Checks of answers: a valid call gets an answer, which is the same each time, and a call for an
//! unknown skill fails.

use super::report::{Outcome, Recorder, Rule};
use super::scratch::NO_SKILL;
use super::trial::Trial;
use super::wording::{answered_or_failed, describe};

pub(super) const RULES: &[Rule] = &[ANSWERS, SAME_TWICE, UNKNOWN_SKILL];

const ANSWERS: Rule = Rule {
    id: "answers",
    sentence: "a valid call ends in an answer, or in a failure that is not the tool's fault",
};
const SAME_TWICE: Rule = Rule {
    id: "same-twice",
    sentence: "the same call gives the same answer twice",
};
const UNKNOWN_SKILL: Rule = Rule {
    id: "unknown-skill-refused",
    sentence: "a call for an unknown skill fails",
};

/// Checks that a valid call ends in an answer, or in a failure that is not the tool's fault.
/// Returns `true` if it does.
pub(super) async fn check_valid_call(recorder: &mut Recorder, trial: &Trial<'_>) -> bool {
    let answers = async {
        let result = trial.call(trial.sample.clone()).await;
        if trial.is_tool_fault(&result).await {
            return Outcome::failed(
                describe(&result),
                "`failed` means that the tool is at fault. If the arguments are at fault, \
                 return another kind of failure, or write a case with valid arguments; \
                 `--log info` shows what the tool printed",
            );
        }
        Outcome::from(answered_or_failed(&result, "for valid arguments"))
    };
    *recorder.check(&ANSWERS, Some(trial.name()), answers).await == Outcome::Passed
}

pub(super) async fn run(recorder: &mut Recorder, trial: &Trial<'_>) {
    let name = Some(trial.name());
    recorder.check(&SAME_TWICE, name, same_twice(trial)).await;
    recorder
        .check(&UNKNOWN_SKILL, name, unknown_skill(trial))
        .await;
}

async fn same_twice(trial: &Trial<'_>) -> Outcome {
    let first = trial.call(trial.sample.clone()).await;
    let second = trial.call(trial.sample.clone()).await;
    if first == second {
        return Outcome::Passed;
    }
    Outcome::failed(
        format!("first {}, then {}", describe(&first), describe(&second)),
        "let the answer depend only on the arguments and the files, in a fixed order: no clock, no \
         random numbers, no order of a hash map or of a listing",
    )
}

async fn unknown_skill(trial: &Trial<'_>) -> Outcome {
    let Some(arguments) = trial.in_skill(NO_SKILL) else {
        return Outcome::skipped("it reads no skill", "");
    };
    let result = trial.call(arguments).await;
    match (answered_or_failed(&result, "for an unknown skill"), &result) {
        (Err(reason), _) => Outcome::Failed(reason),
        (Ok(()), Ok(_)) => Outcome::failed(
            describe(&result),
            "check that the call has a skill's folder before you answer",
        ),
        (Ok(()), Err(_)) => Outcome::Passed,
    }
}
