//! `cargo xtask`: tasks of this project that cargo has no command for.
//!
//! This file reads the command line and sets the exit code. Each task has a module.

mod build;
mod compare;
mod digest;
mod dist;
mod environment;
mod faults;
mod fuzz;
mod guests;
mod layers;
mod mutants;
mod release;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of this project that cargo has no command for
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    // The doc comments of these `Arguments` are the help texts.
    Faults(faults::Arguments),
    Fuzz(fuzz::Arguments),
    Guests(guests::Arguments),
    Layers(layers::Arguments),
    Mutants(mutants::Arguments),
    Release(release::Arguments),
}

/// The result of a task that ran to its end.
enum Outcome {
    /// Nothing was found.
    Clean,
    /// Differences, violations or uncaught faults were found.
    Findings,
}

/// The exit codes, as in diff(1).
mod exit {
    /// The task ran and found something.
    pub(super) const FINDINGS: u8 = 1;
    /// The task failed.
    pub(super) const ERROR: u8 = 2;
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Faults(arguments) => faults::execute(&arguments),
        Task::Guests(arguments) => guests::execute(&arguments),
        Task::Fuzz(arguments) => fuzz::execute(&arguments),
        Task::Layers(arguments) => layers::execute(&arguments),
        Task::Mutants(arguments) => mutants::execute(&arguments),
        Task::Release(arguments) => release::execute(&arguments),
    };
    match result {
        Ok(Outcome::Clean) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(exit::FINDINGS),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(exit::ERROR)
        }
    }
}
