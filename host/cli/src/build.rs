//! `skillhost build`: from a tool project to a component that a host would
//! load. The language's own compiler does the work; how it is called stands in
//! the file of the language's name.

mod bindings;
mod c;
mod environment;
mod fault;
mod javascript;
mod place;
mod project;
mod python;
mod rust;
mod search;
mod step;
mod venv;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use skillhost::Inspection;

use crate::exit::Exit;
use crate::inspect;
use crate::kit::Language;
use crate::terminal::{self, format_line};
pub(crate) use fault::Fault;
use project::Project;

/// Longest that compiling the component may take: its author's machine may be
/// slow, and is theirs.
const COMPILE_TIME: Duration = Duration::from_secs(600);

/// What those should know who build a project of somebody else's.
pub(crate) const RIGHTS: &str = "A build runs the project's code, and the packages that it names, \
                                 with your rights: build only what you trust.";

/// Build a tool project, and show what an operator would see of its component
#[derive(Args)]
#[command(after_help = RIGHTS)]
pub(crate) struct Build {
    /// Folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// The language, where the folder holds projects in several
    #[arg(long, value_enum)]
    lang: Option<Language>,
}

/// A component that was built, looked at and put in its place.
pub(crate) struct Built {
    /// Where it lies.
    pub(crate) file: PathBuf,
    pub(crate) seen: Inspection,
}

impl Build {
    pub(crate) async fn execute(self) -> anyhow::Result<Exit> {
        match build(&self.folder, self.lang).await {
            Ok(built) => {
                terminal::say(&format_line!("built `{}`", built.file.display()));
                terminal::print(&inspect::lines(&built.seen))?;
                Ok(Exit::Ok)
            }
            Err(fault) => Ok(fault.tell()),
        }
    }
}

/// Builds the project in `folder`.
pub(crate) async fn build(folder: &Path, language: Option<Language>) -> Result<Built, Fault> {
    let project = Project::find(folder, language)?;
    let component = match project.language {
        Language::Rust => rust::build(&project)?,
        Language::Python => python::build(&project)?,
        Language::JavaScript => javascript::build(&project)?,
        Language::C => c::build(&project)?,
    };
    let seen = inspect::look(&component)
        .compile_time(COMPILE_TIME)
        .run()
        .await
        .map_err(|error| Fault::project(format!("what was built is not loaded: {error:#}")))?;
    let file = place::put(&project, &component, &seen)?;
    Ok(Built { file, seen })
}
