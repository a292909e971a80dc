//! The processes that run escaped code.

use std::process::ExitCode;
use std::sync::{Arc, Once};

use skillhost::{CallEnd, Observer};
use skillhost_confine::broker::ConfinedBroker;

use crate::targets::Targets;

/// The first argument of a child process that runs escaped code. Without a second argument, the
/// child is confined like the process that reads a third-party component.
pub(crate) const CHILD: &str = "--escape-from-child";

/// The second argument of a process that is confined like the egress process.
pub(crate) const NETWORK: &str = "network";

/// Runs escaped code in the broker or a child process if the arguments name one, and otherwise in
/// the program.
pub(crate) fn run(targets: Targets) -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some(skillhost_confine::broker::ARGUMENT) {
        return run_in_broker(targets);
    }
    if first.as_deref() != Some(CHILD) {
        let escaped = EscapedCode {
            targets,
            once: Once::new(),
        };
        return skillhost_cli::run(Some(Arc::new(escaped)));
    }
    let confined = match arguments.next().as_deref() {
        Some(NETWORK) => skillhost_confine::confine_network(),
        _ => skillhost_confine::confine_child(),
    };
    if let Err(error) = confined {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    targets.try_escapes();
    ExitCode::SUCCESS
}

/// Runs the broker. The escaped code runs before the broker answers requests.
fn run_in_broker(targets: Targets) -> ExitCode {
    let Ok(Some(broker)) = ConfinedBroker::start() else {
        return ExitCode::FAILURE;
    };
    targets.try_escapes();
    match broker.serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Escaped code. It runs at the end of the first call, in the thread of that call.
struct EscapedCode {
    targets: Targets,
    once: Once,
}

impl Observer for EscapedCode {
    fn ended(&self, _: &CallEnd<'_>) {
        self.once.call_once(|| self.targets.try_escapes());
    }
}
