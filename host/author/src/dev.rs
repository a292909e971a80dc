//! `skillhost dev`: builds and tests a project after every change, and shows the
//! difference from the time before.

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
#[command(after_help = build::RIGHTS)]
pub(crate) struct DevCommand {
    /// Folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Language of the project, needed if the folder holds several
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
        if let Err(fault) = build::check_folder(&self.folder, self.lang) {
            return Ok(fault.report());
        }
        let mut files = ProjectFiles::watch(&self.folder)?;
        let mut last = LastBuild::default();
        let mut build = true;
        loop {
            let start = Instant::now();
            if build && !self.build(&mut last).await? {
                return Ok(Exit::Ok);
            }
            if let Some(component) = &last.component {
                let testing = Instant::now();
                let now = cases::run(&self.folder, component);
                times::note("the cases", testing);
                if !terminal::print_or_end(&last.outcomes.difference(&now))? {
                    return Ok(Exit::Ok);
                }
                last.outcomes = now;
            }
            if !terminal::print_or_end(&[times::take(start)])? {
                return Ok(Exit::Ok);
            }
            let changed = files.next_change();
            let shown: Vec<String> = changed
                .iter()
                .map(|path| terminal::name(&path.to_string_lossy()).to_string())
                .collect();
            let shown = format_line!("changed: {}", shown.join(", "));
            if !terminal::print_or_end(&[Line::default(), shown])? {
                return Ok(Exit::Ok);
            }
            // A changed skill or case needs no build.
            build = last.component.is_none() || changed.iter().any(|path| is_source(path));
        }
    }

    /// Builds, and shows the difference; returns `false` if nobody reads it.
    async fn build(&self, last: &mut LastBuild) -> anyhow::Result<bool> {
        match build::build(&self.folder, self.lang, Purpose::Trial).await {
            Ok(built) => {
                let tools = built.inspection.tools.unwrap_or_default();
                let file = built.file.display();
                let shown = if built.inspection.digest == last.digest {
                    vec![format_line!("built `{file}`: the same bytes")]
                } else {
                    let size = difference::size(last.size, built.inspection.size);
                    let mut lines = vec![format_line!("built `{file}`: {size}")];
                    if built.is_trial && last.digest.is_empty() {
                        lines.push(format_line!(
                            "  without link-time optimisation: `skillhost build` makes what you ship"
                        ));
                    }
                    lines.extend(difference::tools(&last.tools, &tools));
                    lines
                };
                last.component = Some(built.file);
                last.digest = built.inspection.digest;
                last.size = built.inspection.size;
                last.tools = tools;
                terminal::print_or_end(&shown)
            }
            Err(fault) => {
                fault.report();
                // Cases of an old component would tell nothing.
                last.component = None;
                terminal::print_or_end(&[format_line!("not built; waiting for a change")])
            }
        }
    }
}

fn is_source(path: &Path) -> bool {
    !path.starts_with("cases") && !path.starts_with("skills")
}
