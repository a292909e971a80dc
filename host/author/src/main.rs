//! The program `skillhost-author`.

use std::process::ExitCode;

fn main() -> ExitCode {
    skillhost_author::run()
}
