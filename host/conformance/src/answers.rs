//! Answers: that there is one, that it is the same the next time, and that
//! there is none of a skill that does not exist.

use super::Rule;
use super::report::{Outcome, Recorder};
use super::scratch::NO_SKILL;
use super::trial::{Trial, in_words, settled};
use skillhost::{CallError, FailureKind};

pub(super) const RULES: &[Rule] = &[ANSWERS, TWICE, NO_SUCH_SKILL];

const ANSWERS: Rule = Rule {
    id: "answers",
    sentence: "a call with arguments that fit ends in an answer, or a failure that is not the tool's",
};
const TWICE: Rule = Rule {
    id: "same-twice",
    sentence: "the same call is answered the same twice",
};
const NO_SUCH_SKILL: Rule = Rule {
    id: "unknown-skill-refused",
    sentence: "a call on a skill that there is not ends in a failure",
};

/// Whether it answers at all.
pub(super) async fn answers(recorder: &mut Recorder, trial: &Trial<'_>) -> bool {
    let answers = async {
        let ended = trial.call(trial.sample.clone()).await;
        if let Err(CallError::Failed(failure)) = &ended
            && failure.kind == FailureKind::Failed
            && trial.tells_kinds().await
        {
            return Outcome::failed(
                in_words(&ended),
                "`failed` is for a tool that could not do its work. If the arguments are to blame, \
                 say so by another kind, or give a case whose arguments fit; `--log info` shows \
                 what the tool printed",
            );
        }
        Outcome::from(settled(&ended, "a call with arguments that fit"))
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
        format!("first {}, and then {}", in_words(&first), in_words(&second)),
        "answer from the arguments and the files alone, in a fixed order: no clock, no random \
         numbers, no order of a hash map or of a listing",
    )
}

async fn no_such_skill(trial: &Trial<'_>) -> Outcome {
    let Some(arguments) = trial.in_skill(NO_SKILL) else {
        return Outcome::skipped("it reads no skill", "");
    };
    let ended = trial.call(arguments).await;
    match (settled(&ended, "for a skill that there is not"), &ended) {
        (Err(reason), _) => Outcome::Failed(reason),
        (Ok(()), Ok(_)) => Outcome::failed(
            in_words(&ended),
            "look at the folder that the call was given before anything is answered",
        ),
        (Ok(()), Err(_)) => Outcome::Passed,
    }
}
