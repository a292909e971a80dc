//! Small limits: a call ends in what it is for, or in the outcome that a limit
//! is known by, and in nothing else.

use super::Rule;
use super::report::{Outcome, Recorder};
use super::scratch::HUGE;
use super::trial::{Ended, Trial, in_words};
use skillhost::{CallError, Stop};

pub(super) const RULES: &[Rule] = &[TIME, MEMORY, OUTPUT, HANDLES];

const TIME: Rule = Rule {
    id: "time-kept",
    sentence: "with 2 ms for a call, it answers or is stopped by a limit",
};
const MEMORY: Rule = Rule {
    id: "memory-kept",
    sentence: "with 1 to 16 MiB of memory, it answers or is stopped by a limit",
};
const OUTPUT: Rule = Rule {
    id: "output-kept",
    sentence: "with 64 bytes for an answer, it answers or is stopped by a limit",
};
const HANDLES: Rule = Rule {
    id: "handles-kept",
    sentence: "with 2 handles, it answers or is stopped by a limit",
};

pub(super) async fn run(recorder: &mut Recorder, trial: &Trial<'_>) {
    for (rule, stop) in [
        (&TIME, "time"),
        (&MEMORY, "memory"),
        (&OUTPUT, "output"),
        (&HANDLES, "handles"),
    ] {
        recorder
            .check(rule, Some(trial.name()), kept(trial, stop))
            .await;
    }
}

async fn kept(trial: &Trial<'_>, stop: &str) -> Outcome {
    let mut calls = vec![trial.sample.clone()];
    calls.extend(trial.in_skill(HUGE));
    let limited = trial.subject.limited.iter();
    for limited in limited.filter(|limited| limited.stop == stop) {
        for arguments in &calls {
            let ended = trial.call_limited(limited, arguments.clone()).await;
            if !is_proper(&ended) {
                return Outcome::failed(
                    in_words(&ended),
                    "pass on what the host refuses as a failure, and do not abort on it",
                );
            }
        }
    }
    Outcome::Passed
}

/// Whether a call ended as it may under small limits: which of them it meets
/// first depends on what else the machine does.
fn is_proper(ended: &Ended) -> bool {
    match ended {
        Ok(_) | Err(CallError::Failed(_)) => true,
        Err(CallError::Stopped { stop, .. }) => !matches!(stop, Stop::Trap(_)),
        Err(_) => false,
    }
}
