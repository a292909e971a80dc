//! The program `skillhost`. All of it is in the library beside this file, so that a test's
//! program can be the same.

use std::process::ExitCode;

fn main() -> ExitCode {
    skillhost_cli::run(None)
}
