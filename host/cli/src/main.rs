//! The program `skillhost`. Its code is in the library beside this file, so that a test program
//! can run the same code.

use std::process::ExitCode;

fn main() -> ExitCode {
    skillhost_cli::run(None)
}
