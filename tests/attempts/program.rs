//! The program with code that has broken out.

use std::process::ExitCode;
use std::sync::{Arc, Once, OnceLock};

use skillhost::{CallEnd, Observer};

use crate::ground::Ground;

/// The first argument of a process that is confined as one that reads a stranger's
/// component, or, if the second says so, as one that fetches from the network.
pub(crate) const CHILD: &str = "--attempts-of-a-child";

/// The second argument for the latter.
pub(crate) const NETWORK: &str = "network";

pub(crate) fn run(ground: Ground) -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some(skillhost_confine::broker::ARGUMENT) {
        return run_in_broker(ground);
    }
    if first.as_deref() != Some(CHILD) {
        let intruder = Intruder {
            ground,
            once: Once::new(),
        };
        return skillhost_cli::run(Some(Arc::new(intruder)));
    }
    let confined = match arguments.next().as_deref() {
        Some(NETWORK) => skillhost_confine::confine_network(),
        _ => skillhost_confine::confine_child(),
    };
    if let Err(error) = confined {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    ground.run();
    ExitCode::SUCCESS
}

/// What the broker tries, once it is to say whether a file makes its folder a skill.
static IN_BROKER: OnceLock<Ground> = OnceLock::new();

fn run_in_broker(ground: Ground) -> ExitCode {
    static ONCE: Once = Once::new();
    let _ = IN_BROKER.set(ground);
    let result = skillhost_confine::broker::run(|_| {
        ONCE.call_once(|| IN_BROKER.get().unwrap().run());
        false
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs at the end of the first call, in its thread.
struct Intruder {
    ground: Ground,
    once: Once,
}

impl Observer for Intruder {
    fn ended(&self, _: &CallEnd<'_>) {
        self.once.call_once(|| self.ground.run());
    }
}
