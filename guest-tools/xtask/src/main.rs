//! `cargo xtask`: what the project needs beside cargo's own commands.
//!
//! This file reads the command line and sets the exit code. What is built or
//! checked, and with what, lives in the modules.

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
    // Described where its arguments are.
    Faults(faults::Arguments),
    Fuzz(fuzz::Arguments),
    Guests(guests::Arguments),
    Layers(layers::Arguments),
    Mutants(mutants::Arguments),
}

/// How a task ended that had no trouble.
enum Outcome {
    Fine,
    Different,
}

/// As diff(1) has it: a difference is an answer, trouble is none.
mod exit {
    pub(super) const DIFFERENT: u8 = 1;
    pub(super) const TROUBLE: u8 = 2;
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Faults(arguments) => faults::execute(&arguments),
        Task::Guests(arguments) => guests::execute(&arguments),
        Task::Fuzz(arguments) => fuzz::execute(&arguments),
        Task::Layers(arguments) => layers::execute(&arguments),
        Task::Mutants(arguments) => mutants::execute(&arguments),
    };
    match done {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Different) => ExitCode::from(exit::DIFFERENT),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(exit::TROUBLE)
        }
    }
}
