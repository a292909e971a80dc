//! Checks of files with unusual contents: empty, binary, and very large.

use super::report::{Outcome, Recorder, Rule};
use super::scratch::{BINARY, EMPTY, HUGE};
use super::trial::Trial;
use super::wording::{answered_or_failed, describe};
use skillhost::{CallError, Stop};

pub(super) const RULES: &[Rule] = &[EMPTY_FILE, BINARY_FILE, HUGE_FILE];

const EMPTY_FILE: Rule = Rule {
    id: "empty-file",
    sentence: "an empty file ends in an answer, or in a failure that is not the tool's fault",
};
const BINARY_FILE: Rule = Rule {
    id: "binary-file",
    sentence: "a binary file ends in an answer, or in a failure that is not the tool's fault",
};
const HUGE_FILE: Rule = Rule {
    id: "huge-file",
    sentence: "a file of 24 MiB ends in an answer, in a failure that is not the tool's fault, or at the limit on output",
};

pub(super) async fn run(recorder: &mut Recorder, trial: &Trial<'_>) {
    for (rule, skill) in [
        (&EMPTY_FILE, EMPTY),
        (&BINARY_FILE, BINARY),
        (&HUGE_FILE, HUGE),
    ] {
        recorder
            .check(rule, Some(trial.name()), check_skill_md(trial, skill))
            .await;
    }
}

/// Checks a call for the SKILL.md of this skill.
async fn check_skill_md(trial: &Trial<'_>, skill: &str) -> Outcome {
    let Some(arguments) = trial.in_skill(skill) else {
        return Outcome::skipped("it reads no skill", "");
    };
    let result = trial.call(arguments).await;
    // The error tells the model about this limit, and the model can then ask for a part of the
    // file.
    if let Err(CallError::Stopped {
        stop: Stop::Output(_),
        ..
    }) = result
    {
        return Outcome::Passed;
    }
    if trial.is_tool_fault(&result).await {
        return Outcome::failed(
            describe(&result),
            "`failed` means that the tool is at fault, and an uncaught exception has this kind too. \
             If the file is at fault, catch the exception and return another kind of failure; \
             `--log info` shows what the tool printed",
        );
    }
    answered_or_failed(&result, "for the file").into()
}
