//! `skillhost test`: runs the conformance checks on a tool component, and its author's cases.

mod json;
mod junit;
mod text;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use skillhost::{Config, Line};
use skillhost_conformance::{Conformance, Report};
use skillhost_helper::OWN_PROGRAM;

use crate::build;
use crate::trace::TraceFormatter;
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
    /// Run the cases in this folder; docs/guides/test-tools.md describes their format
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
    /// Runs the checks. `global_options` are the options before the verb.
    pub(crate) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let shows_progress = terminal::is_interactive();
        let uses_default_component = self.component.is_none();
        let component = match self.component.map_or_else(find_built_component, Ok) {
            Ok(component) => component,
            Err(error) => {
                terminal::complain(error);
                return Ok(Exit::Usage);
            }
        };
        if let Some(source) = build::newer_source(&component) {
            terminal::complain(format_args!(
                "`{}` is newer than `{}`; testing the old component, run `skillhost build` for a new \
                 one",
                source.display(),
                component.display()
            ));
        }
        let mut run = conformance(&options, &component)?.update(self.update);
        let default_cases = Path::new("cases");
        let default_cases =
            (uses_default_component && default_cases.is_dir()).then(|| default_cases.to_owned());
        match self.cases.or(default_cases) {
            Some(cases) => run = run.cases(cases),
            None if self.update => {
                terminal::complain("`--update` finds no cases: name their folder with `--cases`");
                return Ok(Exit::Usage);
            }
            None => {}
        }
        if shows_progress {
            run = run.progress(show_progress);
        }
        let report = run.run().await;
        if shows_progress {
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
    let config: Config = options.load()?;
    let mut run = Conformance::new(component).limits(config.limits.clone());
    for root in config.skills_roots()? {
        run = run.skills_root(root);
    }
    if let Some(folder) = cache_folder() {
        run = run.cache(folder);
    }
    let traces = TraceFormatter::new(component);
    let run = run
        .compiler(OWN_PROGRAM)
        .traces(move |trace| traces.lines(trace));
    Ok(run.compile_time(config.compile_limits.compile_time))
}

/// Returns the only component in `dist` of the current folder.
pub(crate) fn find_built_component() -> Result<PathBuf, String> {
    let entries = std::fs::read_dir("dist").into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|end| end == "wasm"))
        .collect();
    files.sort();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        [] => Err(
            "there is no component in `dist`: name a component file, or make one with `skillhost \
             build` in a tool project"
                .to_owned(),
        ),
        several => {
            let names = several.iter().map(|file| format!("`{}`", file.display()));
            let names: Vec<String> = names.collect();
            Err(format!(
                "there are several components in `dist`: name one of {}",
                names.join(", ")
            ))
        }
    }
}

/// Shows the running check.
fn show_progress(id: &str, subject: Option<&str>) {
    let line = match subject {
        Some(subject) => format_line!("{subject}: {id}"),
        None => Line::new(id),
    };
    terminal::show_progress(&line);
}

/// Returns the duration of all checks together.
fn total_time(report: &Report) -> std::time::Duration {
    report.checks.iter().map(|check| check.time).sum()
}
