//! A conformance run: what every tool component must do, tried on one, and the
//! cases that its author wrote. Each group of checks stands in a file of its
//! own; what is made of the report is for others.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use skillhost::conformance::Conformance;
//!
//! let report = Conformance::of("count_lines.wasm").cases("cases").run().await?;
//! for check in report.failed() {
//!     println!("{}: {:?}", check.id, check.outcome);
//! }
//! # Ok(())
//! # }
//! ```

mod answers;
mod arguments;
mod case;
mod cases;
mod contents;
mod definitions;
mod expect;
mod formats;
mod limits;
mod paths;
mod records;
mod report;
mod sample;
mod scratch;
mod subject;
mod trial;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cases::CaseFiles;
use report::Recorder;
use scratch::Scratch;
use skillhost::Limits;
use skillhost::SkillsRoot;
use subject::Subject;
use trial::Trial;

pub use report::{Check, Outcome, Reason, Report};

/// A check, by what it is called and what holds where it passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// Its name, which does not change: `paths-contained`.
    pub id: &'static str,
    /// What holds where it passes, in a sentence.
    pub sentence: &'static str,
}

/// Every check, in the order in which they are run.
pub fn rules() -> Vec<Rule> {
    [
        definitions::RULES,
        formats::RULES,
        arguments::RULES,
        answers::RULES,
        paths::RULES,
        contents::RULES,
        limits::RULES,
        records::RULES,
        cases::RULES,
    ]
    .concat()
}

/// What to run, and on what. See [`Conformance::of`].
pub struct Conformance {
    component: PathBuf,
    skills: Vec<SkillsRoot>,
    cases: Option<PathBuf>,
    update: bool,
    limits: Limits,
    cache: Option<PathBuf>,
    compiler: Option<PathBuf>,
    compile_time: Option<Duration>,
    progress: Option<Arc<Progress>>,
}

/// Is told what is being checked, of which tool.
type Progress = dyn Fn(&str, Option<&str>) + Send + Sync;

impl Conformance {
    /// A run for this component.
    pub fn of(component: impl Into<PathBuf>) -> Self {
        Self {
            component: component.into(),
            skills: Vec::new(),
            cases: None,
            update: false,
            limits: Limits::default(),
            cache: None,
            compiler: None,
            compile_time: None,
            progress: None,
        }
    }

    /// Adds the author's own cases: every `.json` file of this folder. Their
    /// format is in `docs/testing-tools.md`.
    pub fn cases(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cases = Some(folder.into());
        self
    }

    /// Adds a folder of skills for the author's cases. All other calls are on
    /// skills that the run makes itself.
    pub fn skills_root(mut self, root: SkillsRoot) -> Self {
        self.skills.push(root);
        self
    }

    /// Writes what came out into each case that fails or expects nothing yet.
    pub fn update(mut self, update: bool) -> Self {
        self.update = update;
        self
    }

    /// What a call may cost. Default: the host's limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// As [`HostBuilder::cache`](skillhost::HostBuilder::cache).
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// As [`HostBuilder::compile_time`](skillhost::HostBuilder::compile_time).
    pub fn compile_time(mut self, time: Duration) -> Self {
        self.compile_time = Some(time);
        self
    }

    /// As [`HostBuilder::compiler`](skillhost::HostBuilder::compiler).
    pub fn compiler(mut self, program: impl Into<PathBuf>) -> Self {
        self.compiler = Some(program.into());
        self
    }

    /// Is told each check before it is run: its id, and the tool or case that
    /// it is about.
    pub fn progress(mut self, told: impl Fn(&str, Option<&str>) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(told));
        self
    }

    /// Runs it. An error is why there was nothing to run: no such component,
    /// or a case that says nothing sensible. A component that cannot be loaded
    /// is a check that failed.
    pub async fn run(self) -> anyhow::Result<Report> {
        let cases = self.cases.as_deref();
        let cases = cases.map(|folder| CaseFiles::read(folder, self.update));
        let cases = cases.transpose()?;
        let scratch = Scratch::new()?;
        // Compiling it can take longer than all the rest.
        if let Some(progress) = &self.progress {
            progress("loads", None);
        }
        let mut recorder = Recorder::new(self.progress.clone());
        let subject = match Subject::load(&self, &scratch).await? {
            Ok(subject) => subject,
            Err(why) => {
                definitions::not_loaded(&mut recorder, why).await;
                return Ok(recorder.report(&self.component, Vec::new()));
            }
        };
        if let Some(cases) = &cases {
            cases.check_tools(&subject)?;
        }
        definitions::run(&mut recorder, &subject).await;
        for tool in subject.tools() {
            definitions::describe(&mut recorder, tool).await;
            formats::run(&mut recorder, tool).await;
            let examples = cases.iter().flat_map(|cases| cases.examples(&tool.name));
            let Some(sample) = arguments::sample(&mut recorder, tool, examples).await else {
                continue;
            };
            let trial = Trial::new(tool, &subject, &scratch, sample);
            // A tool that does not answer this has said all.
            if !answers::answers(&mut recorder, &trial).await {
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
            Some(cases) => cases.run(&mut recorder, &subject, self.update).await?,
            None => Vec::new(),
        };
        let tools = subject.tools().map(|tool| tool.name.clone());
        let mut report = recorder.report(&self.component, tools.collect());
        report.written = written;
        Ok(report)
    }
}
