//! The program with code that has broken out.

use std::process::ExitCode;
use std::sync::{Arc, Once};

use skillhost::{CallEnd, Observer};

use crate::ground::Ground;

/// The first argument of a process that is confined as one that reads a stranger's
/// component, or as far as the second says.
pub(crate) const CHILD: &str = "--attempts-of-a-child";

pub(crate) fn run(ground: Ground) -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(CHILD) {
        let intruder = Intruder {
            ground,
            once: Once::new(),
        };
        return skillhost_cli::run(Some(Arc::new(intruder)));
    }
    let is_confined = arguments.next().as_deref() != Some("off");
    if is_confined && let Err(error) = skillhost_confine::confine_child() {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    ground.run();
    ExitCode::SUCCESS
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
