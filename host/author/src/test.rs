//! `skillhost test`: runs the conformance checks on a tool component, and its
//! author's cases.

mod json;
mod junit;
mod text;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use skillhost::Line;
use skillhost_conformance::{Conformance, Report};

use crate::build;
use crate::trace::TraceReader;
use skillhost_program::exit::Exit;
use skillhost_program::options::{CommonOptions, cache_folder};
use skillhost_program::terminal::{self, format_line};

/// Check what every tool component must do, and run its author's cases
///
/// Of the common options, only --skills, --config (its skills and limits) and
/// --log have an effect.
#[derive(Args)]
pub(crate) struct TestCommand {
    /// Component file [default: the only one in ./dist, with the cases in ./cases]
    #[arg(value_name = "FILE.wasm")]
    component: Option<PathBuf>,
    /// Run the cases in this folder; docs/testing-tools.md describes their format
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// Write the actual result into cases that fail or expect nothing yet
    #[arg(long)]
    update: bool,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = TestFormat::Text)]
    output: TestFormat,
    #[command(flatten)]
    options: CommonOptions,
}

/// The most characters of the line of progress: fewer than the columns of any
/// terminal, so that it stays one line.
const PROGRESS: usize = 70;

#[derive(Clone, Copy, ValueEnum)]
enum TestFormat {
    /// One line per check, with the reason of a failure
    Text,
    /// JSON for programs
    Json,
    /// JUnit XML, for continuous integration
    Junit,
}

impl TestCommand {
    pub(crate) async fn execute(mut self, outer: CommonOptions) -> anyhow::Result<Exit> {
        let options = outer.merge(std::mem::take(&mut self.options));
        let progress = terminal::is_interactive();
        let of_project = self.component.is_none();
        let component = match self.component.map_or_else(built, Ok) {
            Ok(component) => component,
            Err(why) => {
                terminal::complain(why);
                return Ok(Exit::Usage);
            }
        };
        if let Some(source) = build::newer_source(&component) {
            terminal::complain(format_args!(
                "`{}` is newer than `{}`, which is tested as it is: `skillhost build` makes it anew",
                source.display(),
                component.display()
            ));
        }
        let mut run = conformance(&options, &component)?.update(self.update);
        let cases = Path::new("cases");
        let cases = (of_project && cases.is_dir()).then(|| cases.to_owned());
        match self.cases.or(cases) {
            Some(cases) => run = run.cases(cases),
            None if self.update => {
                terminal::complain("`--update` finds no cases: name their folder with `--cases`");
                return Ok(Exit::Usage);
            }
            None => {}
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
            TestFormat::Text => terminal::print(&text::lines(&report))?,
            TestFormat::Json => terminal::print_json(&json::json(&report))?,
            TestFormat::Junit => terminal::print(&junit::xml(&report))?,
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

/// Prepares a run of the conformance checks on a component.
fn conformance(options: &CommonOptions, component: &Path) -> anyhow::Result<Conformance> {
    let config = options.load_config()?;
    let mut run = Conformance::of(component).limits(config.limits.clone());
    for root in config.skills_roots()? {
        run = run.skills_root(root);
    }
    if let Some(folder) = cache_folder() {
        run = run.cache(folder);
    }
    if let Ok(program) = std::env::current_exe() {
        run = run.compiler(program);
    }
    let traces = TraceReader::of(component);
    let run = run.traces(move |trace| traces.lines(trace));
    Ok(run.compile_time(config.compile_limits.compile_time))
}

/// Returns the only component that was built in the project of the current folder.
fn built() -> Result<PathBuf, String> {
    let entries = std::fs::read_dir("dist").into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|end| end == "wasm"))
        .collect();
    files.sort();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        [] => Err(
            "name the component file: there is none in `dist`; `skillhost build` makes one \
                   of a tool project"
                .to_owned(),
        ),
        several => {
            let names = several.iter().map(|file| format!("`{}`", file.display()));
            let names: Vec<String> = names.collect();
            Err(format!(
                "name one of the component files {}",
                names.join(", ")
            ))
        }
    }
}

/// Shows the check that runs.
fn show(id: &str, subject: Option<&str>) {
    let line = match subject {
        Some(subject) => format_line!("{subject}: {id}"),
        None => Line::new(id),
    };
    let line: String = line.as_str().chars().take(PROGRESS).collect();
    terminal::show_progress(&Line::new(line));
}

/// Returns the time of all checks together.
fn total(report: &Report) -> std::time::Duration {
    report.checks.iter().map(|check| check.time).sum()
}
