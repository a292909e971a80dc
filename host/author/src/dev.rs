//! `skillhost dev`: builds and tests a project after every change, and shows the difference from
//! the previous run.

mod cases;
mod difference;
mod files;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use skillhost::{Definition, Line};

use crate::build::{self, Purpose, times};
use crate::kit::Language;
use cases::Outcomes;
use files::ProjectFiles;
use skillhost_program::exit::Exit;
use skillhost_program::terminal::{self, format_line};

/// Build a project after every change, run its cases, and show what changed;
/// Ctrl-C ends it
#[derive(Args)]
#[command(after_help = build::BUILD_WARNING)]
pub(crate) struct DevCommand {
    /// Folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Language of the project, needed if the folder has projects in several languages
    #[arg(long, value_enum)]
    lang: Option<Language>,
}

/// The results of the last successful build.
#[derive(Default)]
struct LastBuild {
    component: Option<PathBuf>,
    digest: String,
    size: usize,
    tools: Vec<Definition>,
    outcomes: Outcomes,
}

impl DevCommand {
    pub(crate) async fn execute(self) -> anyhow::Result<Exit> {
        if let Err(error) = build::check_folder(&self.folder, self.lang) {
            return Ok(error.report());
        }
        let mut files = ProjectFiles::watch(&self.folder)?;
        let mut last = LastBuild::default();
        let mut needs_build = true;
        loop {
            let start = Instant::now();
            if needs_build && !self.build(&mut last).await? {
                return Ok(Exit::Ok);
            }
            if let Some(component) = &last.component {
                let test_start = Instant::now();
                let outcomes = cases::run(&self.folder, component);
                times::record("the cases", test_start);
                if !terminal::print_unless_closed(&last.outcomes.difference(&outcomes))? {
                    return Ok(Exit::Ok);
                }
                last.outcomes = outcomes;
            }
            if !terminal::print_unless_closed(&[times::take_summary(start)])? {
                return Ok(Exit::Ok);
            }
            let changed = files.next_change();
            let names: Vec<String> = changed
                .iter()
                .map(|path| terminal::name(&path.to_string_lossy()).to_string())
                .collect();
            let line = format_line!("changed: {}", names.join(", "));
            if !terminal::print_unless_closed(&[Line::default(), line])? {
                return Ok(Exit::Ok);
            }
            // Skills and cases need no build.
            needs_build = last.component.is_none() || changed.iter().any(|path| is_source(path));
        }
    }

    /// Builds, and shows the difference. Returns `false` if the output was closed.
    async fn build(&self, last: &mut LastBuild) -> anyhow::Result<bool> {
        match build::build(&self.folder, self.lang, Purpose::Trial).await {
            Ok(built) => {
                let tools = built.inspection.tools.unwrap_or_default();
                let file = built.file.display();
                let lines = if built.inspection.digest == last.digest {
                    vec![format_line!("built `{file}`: the same bytes")]
                } else {
                    let size = difference::size(last.size, built.inspection.size);
                    let mut lines = vec![format_line!("built `{file}`: {size}")];
                    if built.is_trial && last.digest.is_empty() {
                        lines.push(format_line!(
                            "  without link-time optimisation; to ship it, run `skillhost build`"
                        ));
                    }
                    lines.extend(difference::tools(&last.tools, &tools));
                    lines
                };
                last.component = Some(built.file);
                last.digest = built.inspection.digest;
                last.size = built.inspection.size;
                last.tools = tools;
                terminal::print_unless_closed(&lines)
            }
            Err(error) => {
                error.report();
                // The outcomes of an old component would be misleading.
                last.component = None;
                terminal::print_unless_closed(&[format_line!("not built; waiting for a change")])
            }
        }
    }
}

fn is_source(path: &Path) -> bool {
    !path.starts_with("cases") && !path.starts_with("skills")
}
