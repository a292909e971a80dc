//! `skillhost test`: a conformance run of a tool component, and its author's
//! cases.

mod json;
mod junit;
mod text;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use skillhost::Line;
use skillhost_conformance::Report;

use crate::exit::Exit;
use crate::options::Options;
use crate::terminal::{self, format_line};

/// Try on a tool component what every one must do, and its author's own cases
///
/// Only these options count here: --skills, --config for its skills and limits,
/// and --log.
#[derive(Args)]
pub(crate) struct Test {
    /// The component
    #[arg(value_name = "COMPONENT.wasm")]
    component: PathBuf,
    /// Folder of the author's cases; docs/testing-tools.md has their format
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// Write what comes out into cases that fail or expect nothing yet
    #[arg(long, requires = "cases")]
    update: bool,
    /// What to print
    #[arg(long, value_enum, default_value_t = Form::Text)]
    output: Form,
    #[command(flatten)]
    options: Options,
}

/// Characters of the line that shows what is being checked: fewer than any
/// terminal has, so that it stays one line.
const PROGRESS: usize = 70;

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// One line a check, and why it failed
    Text,
    /// JSON for programs
    Json,
    /// XML as JUnit's, for continuous integration
    Junit,
}

impl Test {
    pub(crate) async fn execute(mut self, before: Options) -> anyhow::Result<Exit> {
        let options = before.and(std::mem::take(&mut self.options));
        let progress = terminal::is_watched();
        let mut run = options.conformance(&self.component)?.update(self.update);
        if let Some(cases) = self.cases {
            run = run.cases(cases);
        }
        if progress {
            run = run.progress(show);
        }
        let report = run.run().await;
        if progress {
            terminal::show_progress(&Line::default());
        }
        let report = report?;
        match self.output {
            Form::Text => terminal::print(&text::lines(&report))?,
            Form::Json => terminal::print_json(&json::json(&report))?,
            Form::Junit => terminal::print(&junit::xml(&report))?,
        }
        for file in &report.written {
            terminal::complain(format_args!("wrote `{}`", file.display()));
        }
        Ok(match report.failed().next() {
            Some(_) => Exit::Failure,
            None => Exit::Ok,
        })
    }
}

/// Shows on a terminal what is being checked: a run takes a moment.
fn show(id: &str, what: Option<&str>) {
    let line = match what {
        Some(what) => format_line!("{what}: {id}"),
        None => Line::new(id),
    };
    let line: String = line.as_str().chars().take(PROGRESS).collect();
    terminal::show_progress(&Line::new(line));
}

/// Adds up what a run took.
fn total(report: &Report) -> std::time::Duration {
    report.checks.iter().map(|check| check.time).sum()
}
