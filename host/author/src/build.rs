//! `skillhost build`: builds a tool project into a component that a host loads.
//! Each language has a file that runs its compiler.

mod add_library;
mod bindings;
mod c;
mod debug;
mod definitions;
mod dist;
mod environment;
mod error;
mod javascript;
mod merge;
mod metadata;
mod needs;
mod npm_lock;
mod project;
mod python;
mod remove_library;
mod requirements;
mod rust;
mod search;
mod sections;
mod step;
pub(crate) mod times;
mod venv;
mod wit;
mod wit_check;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use skillhost::Inspection;

use crate::kit::Language;
pub(crate) use add_library::AddLibraryCommand;
pub(crate) use error::BuildError;
use project::Project;
pub(crate) use project::newer_source;
pub(crate) use remove_library::RemoveLibraryCommand;
use skillhost_program::exit::Exit;
use skillhost_program::inspect;
use skillhost_program::terminal::{self, format_line};

/// The time limit for compiling the component to machine code. An author's machine may be slow.
const MAX_COMPILE_TIME: Duration = Duration::from_secs(600);

/// The warning in the help of each verb that builds.
pub(crate) const BUILD_WARNING: &str = "A build runs the project's code, and the packages that \
                                        it names, with your rights: build only what you trust.";

/// Build a tool project, and show its component as an operator sees it
#[derive(Args)]
#[command(after_help = BUILD_WARNING)]
pub(crate) struct BuildCommand {
    /// Folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Language of the project, needed if the folder has projects in several languages
    #[arg(long, value_enum)]
    lang: Option<Language>,
    /// List all imports, also those of WASI that every component is granted
    #[arg(long)]
    all: bool,
}

/// The purpose of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The component is shipped.
    Release,
    /// The component is tested after every change, in `dev`.
    Trial,
}

/// A component that was built, inspected and installed in `dist`.
pub(crate) struct BuiltComponent {
    pub(crate) file: PathBuf,
    pub(crate) inspection: Inspection,
    /// True if a release build would make a different component.
    pub(crate) is_trial: bool,
}

impl BuildCommand {
    pub(crate) async fn execute(self) -> anyhow::Result<Exit> {
        match build(&self.folder, self.lang, Purpose::Release).await {
            Ok(built) => {
                terminal::say(&format_line!("built `{}`", built.file.display()));
                terminal::print(&inspect::lines(&built.inspection, self.all))?;
                Ok(Exit::Ok)
            }
            Err(error) => Ok(error.report()),
        }
    }
}

/// Refuses a folder without a project, or with projects in several languages.
pub(crate) fn check_folder(folder: &Path, language: Option<Language>) -> Result<(), BuildError> {
    Project::open(folder, language).map(drop)
}

/// Builds the project in `folder`.
pub(crate) async fn build(
    folder: &Path,
    language: Option<Language>,
    purpose: Purpose,
) -> Result<BuiltComponent, BuildError> {
    let project = Project::open(folder, language)?;
    wit_check::check(&project)?;
    let needs = needs::read(&project)?;
    // Not every project has WIT.
    if let Ok(wit) = wit::ProjectWit::parse(&project.folder.join("wit")) {
        for advice in wit.advice() {
            terminal::complain(advice);
        }
    }
    let _lock = project.lock()?;
    let compiled_functions = match project.language {
        // Reuse compiled functions: the language's runtime is most of the component, and no edit
        // changes it.
        Language::Python | Language::JavaScript => {
            Some(environment::project_folder(&project)?.join("functions"))
        }
        Language::Rust | Language::C => None,
    };
    let component = match project.language {
        Language::Rust => rust::build(&project, purpose)?,
        Language::Python => python::build(&project, &needs)?,
        Language::JavaScript => javascript::build(&project, &needs)?,
        Language::C => c::build(&project)?,
    };
    let component = sections::add(&project, &needs, &component)?;
    let mut inspector = inspect::inspector(&component).compile_time(MAX_COMPILE_TIME);
    if let Some(file) = compiled_functions {
        inspector = inspector.functions(file);
    }
    let start = Instant::now();
    let inspection = inspector.run().await.map_err(|error| {
        BuildError::project(format!("a host cannot load the component: {error:#}"))
    })?;
    times::record("compiling it as a host does", start);
    let file = dist::install(&project, &component, &inspection)?;
    // Other languages build the same component for both purposes.
    let is_trial = purpose == Purpose::Trial && project.language == Language::Rust;
    Ok(BuiltComponent {
        file,
        inspection,
        is_trial,
    })
}
