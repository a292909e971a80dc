//! Checks with small limits: a call ends in an answer, in a failure or at a limit, but never in a
//! trap.

use super::report::{Outcome, Recorder, Rule};
use super::scratch::HUGE;
use super::trial::Trial;
use super::wording::{CallResult, describe};
use skillhost::{CallError, Stop};

pub(super) const RULES: &[Rule] = &[TIME, MEMORY, OUTPUT, HANDLES];

const TIME: Rule = Rule {
    id: "time-kept",
    sentence: "with 2 ms for a call, the tool answers, fails or reaches a limit",
};
const MEMORY: Rule = Rule {
    id: "memory-kept",
    sentence: "with 1 to 16 MiB of memory, the tool answers, fails or reaches a limit",
};
const OUTPUT: Rule = Rule {
    id: "output-kept",
    sentence: "with 64 bytes for an answer, the tool answers, fails or reaches a limit",
};
const HANDLES: Rule = Rule {
    id: "handles-kept",
    sentence: "with 2 handles, the tool answers, fails or reaches a limit",
};

pub(super) async fn run(recorder: &mut Recorder, trial: &Trial<'_>) {
    for (rule, limit) in [
        (&TIME, "time"),
        (&MEMORY, "memory"),
        (&OUTPUT, "output"),
        (&HANDLES, "handles"),
    ] {
        recorder
            .check(rule, Some(trial.name()), check_limit(trial, limit))
            .await;
    }
}

/// Calls the tool on each host that has a small `limit`, and checks the results.
async fn check_limit(trial: &Trial<'_>, limit: &str) -> Outcome {
    let mut calls = vec![trial.sample.clone()];
    calls.extend(trial.in_skill(HUGE));
    let hosts = trial.component.limited_hosts.iter();
    for limited in hosts.filter(|limited| limited.limit == limit) {
        for arguments in &calls {
            let result = trial.call_limited(limited, arguments.clone()).await;
            if !is_allowed(&result) {
                return Outcome::failed(
                    describe(&result),
                    "return a failure if a host call fails; do not abort",
                );
            }
        }
    }
    Outcome::Passed
}

/// Returns whether this result is allowed under small limits.
///
/// The call may reach any limit: the machine's load decides which one comes first.
fn is_allowed(result: &CallResult) -> bool {
    match result {
        Ok(_) | Err(CallError::Failed(_)) => true,
        Err(CallError::Stopped { stop, .. }) => !matches!(stop, Stop::Trap(_)),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use skillhost::Help;

    use super::*;

    #[test]
    fn allows_any_limit_but_no_trap() {
        let stopped = |stop| {
            let (tool, help) = ("tool".to_owned(), Help::default());
            Err(CallError::Stopped { tool, stop, help })
        };
        for (result, expected) in [
            (stopped(Stop::Time(Duration::from_millis(2))), true),
            (stopped(Stop::Memory(1 << 20)), true),
            (stopped(Stop::Handles(2)), true),
            (stopped(Stop::Trap("it panicked".to_owned())), false),
            (Err(CallError::Arguments("no path".to_owned())), false),
        ] {
            assert_eq!(is_allowed(&result), expected, "{result:?}");
        }
    }
}
