//! Conformance runs: the checks that every tool component must pass, and the cases
//! of its author. Each group of checks has its own file. Not here: printing a
//! report.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use skillhost_conformance::Conformance;
//!
//! let report = Conformance::of("count_lines.wasm").cases("cases").run().await?;
//! for check in report.failed() {
//!     println!("{}: {:?}", check.id, check.outcome);
//! }
//! # Ok(())
//! # }
//! ```

// The layers, lowest first: a module uses those above it in this list, and no
// other. `cargo xtask layers` checks it.

mod tracer;

mod report;

mod wording;

mod record;

mod case;

mod expect;

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
use skillhost::SkillsRoot;
use skillhost::{CallTrace, Limits};
use tracer::Tracer;
use trial::Trial;

pub use report::{Check, Outcome, Reason, Report, Rule};

/// The rules of the checks that call a tool, in the order in which they run.
const OF_CALLS: [&[Rule]; 6] = [
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
        &OF_CALLS,
        &[cases::RULES],
    ]
    .concat()
    .concat()
}

/// A conformance run of one component. See [`Conformance::of`].
pub struct Conformance {
    load: LoadOptions,
    cases: Option<PathBuf>,
    update: bool,
    progress: Option<Arc<CheckProgress>>,
}

impl Conformance {
    /// Prepares a run for this component.
    pub fn of(component: impl Into<PathBuf>) -> Self {
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

    /// Adds the author's cases: every `.json` file of this folder.
    /// `docs/guides/test-tools.md` describes their format.
    pub fn cases(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cases = Some(folder.into());
        self
    }

    /// Adds a folder of skills for the author's cases. For all other calls the run
    /// makes its own skills.
    pub fn skills_root(mut self, root: SkillsRoot) -> Self {
        self.load.skills.push(root);
        self
    }

    /// Writes the result into each case that fails or has no `expect`.
    pub fn update(mut self, update: bool) -> Self {
        self.update = update;
        self
    }

    /// Sets the limits of a call. Default: the host's limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.load.limits = limits;
        self
    }

    /// Does the same as [`HostBuilder::cache`](skillhost::HostBuilder::cache).
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.load.cache = Some(folder.into());
        self
    }

    /// Does the same as [`HostBuilder::compile_time`](skillhost::HostBuilder::compile_time).
    pub fn compile_time(mut self, time: Duration) -> Self {
        self.load.compile_time = Some(time);
        self
    }

    /// Does the same as [`HostBuilder::compiler`](skillhost::HostBuilder::compiler).
    pub fn compiler(mut self, program: impl Into<PathBuf>) -> Self {
        self.load.compiler = Some(program.into());
        self
    }

    /// Sets a function that gets each check before it runs: its id, and its tool or
    /// case.
    pub fn progress(mut self, show: impl Fn(&str, Option<&str>) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(show));
        self
    }

    /// Sets a function that puts the trace of a failed call into lines for the
    /// component's author, for [`Check::trace`].
    pub fn traces(
        mut self,
        explain: impl Fn(&CallTrace) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.load.tracer = Some(Tracer::new(explain));
        self
    }

    /// Runs all checks and cases. Returns an error if it cannot run any: the
    /// component does not exist, or a case is invalid. A component that the host
    /// cannot load is a failed check.
    pub async fn run(self) -> anyhow::Result<Report> {
        let cases = self.cases.as_deref();
        let cases = cases.map(|folder| CaseFiles::read(folder, self.update));
        let cases = cases.transpose()?;
        let scratch = Scratch::new()?;
        // Compiling can take longer than all checks.
        if let Some(progress) = &self.progress {
            progress("loads", None);
        }
        let mut recorder = Recorder::new(self.progress.clone(), self.load.tracer.clone());
        let component = match TestedComponent::load(&self.load, &scratch).await? {
            Ok(component) => component,
            Err(why) => {
                definitions::not_loaded(&mut recorder, why).await;
                return Ok(recorder.report(&self.load.component, Vec::new()));
            }
        };
        if let Some(cases) = &cases {
            cases.check_tools(&component)?;
        }
        definitions::run(&mut recorder, &component).await;
        for tool in component.tools() {
            definitions::describe(&mut recorder, tool).await;
            formats::run(&mut recorder, tool).await;
            let examples = cases.iter().flat_map(|cases| cases.examples(&tool.name));
            let Some(sample) = arguments::sample(&mut recorder, tool, examples).await else {
                let why = "there are no arguments to try it with";
                recorder.skip_rest(&OF_CALLS, &tool.name, why).await;
                continue;
            };
            let trial = Trial::new(tool, &component, &scratch, sample);
            // Nothing else can be tried on a tool that does not answer this.
            if !answers::answers(&mut recorder, &trial).await {
                let why = "the tool does not answer a valid call";
                recorder.skip_rest(&OF_CALLS, &tool.name, why).await;
                continue;
            }
            arguments::run(&mut recorder, &trial).await;
            answers::run(&mut recorder, &trial).await;
            paths::run(&mut recorder, &trial).await;
            contents::run(&mut recorder, &trial).await;
            limits::run(&mut recorder, &trial).await;
            records::run(&mut recorder, &trial).await;
        }
        let written = match &cases {
            Some(cases) => cases.run(&mut recorder, &component, self.update).await?,
            None => Vec::new(),
        };
        let tools = component.tools().map(|tool| tool.name.clone());
        let mut report = recorder.report(&self.load.component, tools.collect());
        report.written = written;
        Ok(report)
    }
}
