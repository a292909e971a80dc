//! `skillhost dev`: a project that is built and tried again after every
//! change, and what is different from the time before.

mod cases;
mod difference;
mod files;

use std::path::{Path, PathBuf};

use clap::Args;
use skillhost::{Definition, Line};

use crate::build;
use crate::exit::Exit;
use crate::kit::Language;
use crate::terminal::{self, format_line};
use cases::Outcomes;
use files::Files;

/// Build a project after every change, run its cases, and show what changed;
/// ends with Ctrl-C
#[derive(Args)]
#[command(after_help = build::RIGHTS)]
pub(crate) struct Dev {
    /// Folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// The language, where the folder holds projects in several
    #[arg(long, value_enum)]
    lang: Option<Language>,
}

/// What came of the last build that worked.
#[derive(Default)]
struct Last {
    component: Option<PathBuf>,
    digest: String,
    size: usize,
    tools: Vec<Definition>,
    outcomes: Outcomes,
}

impl Dev {
    pub(crate) async fn execute(self) -> anyhow::Result<Exit> {
        let mut files = Files::watch(&self.folder)?;
        let mut last = Last::default();
        let mut build = true;
        loop {
            if build && !self.build(&mut last).await? {
                return Ok(Exit::Ok);
            }
            if let Some(component) = &last.component {
                let now = cases::run(&self.folder, component);
                if !terminal::print_or_end(&last.outcomes.difference(&now))? {
                    return Ok(Exit::Ok);
                }
                last.outcomes = now;
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
            // A skill and a case are looked at when they are used.
            build = last.component.is_none() || changed.iter().any(|path| is_source(path));
        }
    }

    /// Builds, and shows what is different; `false` if nobody reads it.
    async fn build(&self, last: &mut Last) -> anyhow::Result<bool> {
        match build::build(&self.folder, self.lang).await {
            Ok(built) => {
                let tools = built.seen.tools.unwrap_or_default();
                let file = built.file.display();
                let shown = if built.seen.digest == last.digest {
                    vec![format_line!("built `{file}`: the same bytes")]
                } else {
                    let size = difference::size(last.size, built.seen.size);
                    let mut lines = vec![format_line!("built `{file}`: {size}")];
                    lines.extend(difference::tools(&last.tools, &tools));
                    lines
                };
                last.component = Some(built.file);
                last.digest = built.seen.digest;
                last.size = built.seen.size;
                last.tools = tools;
                terminal::print_or_end(&shown)
            }
            Err(fault) => {
                fault.tell();
                // Cases of what is not there any more would say nothing.
                last.component = None;
                terminal::print_or_end(&[format_line!("not built; waiting for a change")])
            }
        }
    }
}

fn is_source(path: &Path) -> bool {
    !path.starts_with("cases") && !path.starts_with("skills")
}
