//! Answers: a valid call gets one, it is the same the next time, and an unknown
//! skill gets none.

use super::report::{Outcome, Recorder, Rule};
use super::scratch::NO_SKILL;
use super::trial::Trial;
use super::wording::{answered_or_failed, describe};

pub(super) const RULES: &[Rule] = &[ANSWERS, TWICE, NO_SUCH_SKILL];

const ANSWERS: Rule = Rule {
    id: "answers",
    sentence: "a valid call ends in an answer, or in a failure that is not the tool's fault",
};
const TWICE: Rule = Rule {
    id: "same-twice",
    sentence: "the same call gives the same answer twice",
};
const NO_SUCH_SKILL: Rule = Rule {
    id: "unknown-skill-refused",
    sentence: "a call for an unknown skill fails",
};

/// Checks that the tool answers, and returns whether it did.
pub(super) async fn answers(recorder: &mut Recorder, trial: &Trial<'_>) -> bool {
    let answers = async {
        let result = trial.call(trial.sample.clone()).await;
        if trial.is_at_fault(&result).await {
            return Outcome::failed(
                describe(&result),
                "`failed` is for a tool that could not do its work. If the arguments are to blame, \
                 use another kind, or write a case with valid arguments; `--log info` shows what \
                 the tool printed",
            );
        }
        Outcome::from(answered_or_failed(&result, "for valid arguments"))
    };
    *recorder.check(&ANSWERS, Some(trial.name()), answers).await == Outcome::Passed
}

pub(super) async fn run(recorder: &mut Recorder, trial: &Trial<'_>) {
    let name = Some(trial.name());
    recorder.check(&TWICE, name, twice(trial)).await;
    recorder
        .check(&NO_SUCH_SKILL, name, no_such_skill(trial))
        .await;
}

async fn twice(trial: &Trial<'_>) -> Outcome {
    let first = trial.call(trial.sample.clone()).await;
    let second = trial.call(trial.sample.clone()).await;
    if first == second {
        return Outcome::Passed;
    }
    Outcome::failed(
        format!("first {}, then {}", describe(&first), describe(&second)),
        "answer from the arguments and the files alone, in a fixed order: no clock, no random \
         numbers, no order of a hash map or of a listing",
    )
}

async fn no_such_skill(trial: &Trial<'_>) -> Outcome {
    let Some(arguments) = trial.in_skill(NO_SKILL) else {
        return Outcome::skipped("it reads no skill", "");
    };
    let result = trial.call(arguments).await;
    match (answered_or_failed(&result, "for an unknown skill"), &result) {
        (Err(reason), _) => Outcome::Failed(reason),
        (Ok(()), Ok(_)) => Outcome::failed(
            describe(&result),
            "check that the call has a folder before you answer",
        ),
        (Ok(()), Err(_)) => Outcome::Passed,
    }
}
