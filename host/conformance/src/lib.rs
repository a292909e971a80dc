//! Tests a tool component: the checks that every component must pass, and the test
//! cases of its author.
//!
//! Each group of checks has its own file. This crate prints nothing: a run returns a
//! [`Report`].
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use skillhost_conformance::Conformance;
//!
//! let report = Conformance::new("count_lines.wasm").cases("cases").run().await?;
//! for check in report.failed() {
//!     println!("{}: {:?}", check.id, check.outcome);
//! }
//! # Ok(())
//! # }
//! ```

// The layers, lowest first: a module uses only modules above it in this list.
// `cargo xtask layers` checks it.

mod tracer;

mod report;

mod wording;

mod record_check;

mod case;

mod expectation;

mod scratch;

mod component;

mod trial;

mod sample;

mod definitions;

mod formats;

mod arguments;

mod answers;

mod paths;

mod contents;

mod limits;

mod records;

mod cases;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cases::CaseFiles;
use component::{LoadOptions, TestedComponent};
use report::{CheckProgress, Recorder};
use scratch::Scratch;
use skillhost::{CallTrace, Limits, SkillsRoot};
use tracer::Tracer;
use trial::Trial;

pub use formats::broken_formats;
pub use report::{Check, Outcome, Reason, Report, Rule};

/// The rules of the checks that call a tool, in the order in which they run.
const CALL_RULES: [&[Rule]; 6] = [
    arguments::RULES,
    answers::RULES,
    paths::RULES,
    contents::RULES,
    limits::RULES,
    records::RULES,
];

/// Returns the rules of all checks, in the order in which they run.
pub fn rules() -> Vec<Rule> {
    [
        &[definitions::RULES, formats::RULES][..],
        &CALL_RULES,
        &[cases::RULES],
    ]
    .concat()
    .concat()
}

/// A conformance run of one component.
pub struct Conformance {
    load: LoadOptions,
    cases: Option<PathBuf>,
    update: bool,
    progress: Option<Arc<CheckProgress>>,
}

impl Conformance {
    /// Creates a run for the component in this file.
    pub fn new(component: impl Into<PathBuf>) -> Self {
        Self {
            load: LoadOptions {
                component: component.into(),
                ..LoadOptions::default()
            },
            cases: None,
            update: false,
            progress: None,
        }
    }

    /// Adds the author's cases: every `.json` file in this folder.
    ///
    /// `docs/guides/test-tools.md` describes their format.
    pub fn cases(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cases = Some(folder.into());
        self
    }

    /// Adds a folder of skills for the author's cases.
    ///
    /// All other calls use skills that the run creates.
    pub fn skills_root(mut self, root: SkillsRoot) -> Self {
        self.load.skills.push(root);
        self
    }

    /// Sets whether the run writes the actual result into each case that fails or has no `expect`.
    pub fn update(mut self, update: bool) -> Self {
        self.update = update;
        self
    }

    /// Sets the limits of a call. The default is the host's limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.load.limits = limits;
        self
    }

    /// Sets the cache folder, like [`HostBuilder::cache`](skillhost::HostBuilder::cache).
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.load.cache = Some(folder.into());
        self
    }

    /// Limits the time for compiling the component, like
    /// [`HostBuilder::compile_time`](skillhost::HostBuilder::compile_time).
    pub fn compile_time(mut self, time: Duration) -> Self {
        self.load.compile_time = Some(time);
        self
    }

    /// Sets the program that compiles the component, like
    /// [`HostBuilder::compiler`](skillhost::HostBuilder::compiler).
    pub fn compiler(mut self, program: impl Into<PathBuf>) -> Self {
        self.load.compiler = Some(program.into());
        self
    }

    /// Sets a function that is called before each check, with the check's id and the name of its
    /// tool or case.
    pub fn progress(mut self, show: impl Fn(&str, Option<&str>) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(show));
        self
    }

    /// Sets a function that turns the trace of a failed call into the lines of
    /// [`Check::trace`].
    pub fn traces(
        mut self,
        explain: impl Fn(&CallTrace) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.load.tracer = Some(Tracer::new(explain));
        self
    }

    /// Runs all checks and cases.
    ///
    /// If the host refuses the component, a check fails. Returns an error if the run itself is not
    /// possible, for example because the component's file does not exist or a case is invalid.
    pub async fn run(self) -> anyhow::Result<Report> {
        let cases = self.cases.as_deref();
        let cases = cases.map(|folder| CaseFiles::read(folder, self.update));
        let cases = cases.transpose()?;
        let scratch = Scratch::new()?;
        // Compiling may take longer than all checks, so the check `loads` is shown before it.
        if let Some(progress) = &self.progress {
            progress("loads", None);
        }
        let mut recorder = Recorder::new(self.progress.clone(), self.load.tracer.clone());
        let component = match TestedComponent::load(&self.load, &scratch).await? {
            Ok(component) => component,
            Err(why) => {
                definitions::record_load_failure(&mut recorder, why).await;
                return Ok(recorder.report(&self.load.component, Vec::new()));
            }
        };
        if let Some(cases) = &cases {
            cases.check_tools(&component)?;
        }
        definitions::run(&mut recorder, &component).await;
        for tool in component.tools() {
            definitions::check_description(&mut recorder, tool).await;
            formats::run(&mut recorder, tool).await;
            let examples = cases.iter().flat_map(|cases| cases.examples(&tool.name));
            let Some(sample) = arguments::find_sample(&mut recorder, tool, examples).await else {
                let why = "no valid arguments are known for this tool";
                recorder.skip_rest(&CALL_RULES, &tool.name, why).await;
                continue;
            };
            let trial = Trial::new(tool, &component, &scratch, sample);
            // The other checks need a tool that answers.
            if !answers::check_valid_call(&mut recorder, &trial).await {
                let why = "the tool does not answer a valid call";
                recorder.skip_rest(&CALL_RULES, &tool.name, why).await;
                continue;
            }
            arguments::run(&mut recorder, &trial).await;
            answers::run(&mut recorder, &trial).await;
            paths::run(&mut recorder, &trial).await;
            contents::run(&mut recorder, &trial).await;
            limits::run(&mut recorder, &trial).await;
            records::run(&mut recorder, &trial).await;
        }
        let tools = component.tools().map(|tool| tool.name.clone());
        let tools: Vec<String> = tools.collect();
        let written = match &cases {
            Some(cases) => cases.run(&mut recorder, &component, self.update).await?,
            None => Vec::new(),
        };
        let mut report = recorder.report(&self.load.component, tools);
        report.written = written;
        Ok(report)
    }
}
