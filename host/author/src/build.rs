//! `skillhost build`: makes a component that a host would load from a tool project.
//! Each language's file runs its compiler.

mod add_library;
mod bindings;
mod c;
mod debug;
mod definitions;
mod environment;
mod fault;
mod javascript;
mod merge;
mod metadata;
mod npm_lock;
mod place;
mod project;
mod python;
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
pub(crate) use fault::Fault;
use project::Project;
pub(crate) use project::newer_source;
use skillhost_program::exit::Exit;
use skillhost_program::inspect;
use skillhost_program::terminal::{self, format_line};

/// The longest time to compile the component to machine code: the author's own
/// machine may be slow.
const COMPILE_TIME: Duration = Duration::from_secs(600);

/// A warning for those who build somebody else's project.
pub(crate) const RIGHTS: &str = "A build runs the project's code, and the packages that it names, \
                                 with your rights: build only what you trust.";

/// Build a tool project, and show its component as an operator sees it
#[derive(Args)]
#[command(after_help = RIGHTS)]
pub(crate) struct BuildCommand {
    /// Folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Language of the project, needed if the folder holds several
    #[arg(long, value_enum)]
    lang: Option<Language>,
}

/// The use of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be shipped.
    Release,
    /// To be tested after every change, for `dev`.
    Trial,
}

/// A component that was built, inspected and put in its place.
pub(crate) struct BuiltComponent {
    pub(crate) file: PathBuf,
    pub(crate) inspection: Inspection,
    /// True if it is not as it would be shipped.
    pub(crate) is_trial: bool,
}

impl BuildCommand {
    pub(crate) async fn execute(self) -> anyhow::Result<Exit> {
        match build(&self.folder, self.lang, Purpose::Release).await {
            Ok(built) => {
                terminal::say(&format_line!("built `{}`", built.file.display()));
                terminal::print(&inspect::lines(&built.inspection))?;
                Ok(Exit::Ok)
            }
            Err(fault) => Ok(fault.report()),
        }
    }
}

/// Refuses a folder that is no project, or of several languages.
pub(crate) fn check_folder(folder: &Path, language: Option<Language>) -> Result<(), Fault> {
    Project::open(folder, language).map(drop)
}

/// Builds the project in `folder`.
pub(crate) async fn build(
    folder: &Path,
    language: Option<Language>,
    purpose: Purpose,
) -> Result<BuiltComponent, Fault> {
    let project = Project::open(folder, language)?;
    wit_check::check(&project)?;
    // A project without WIT has none to advise on.
    for advice in wit::ProjectWit::parse(&project.folder.join("wit"))
        .iter()
        .flat_map(wit::ProjectWit::advice)
    {
        terminal::complain(advice);
    }
    let _lock = project.lock()?;
    let functions = match project.language {
        // Their runtime is most of the component, and no edit changes it.
        Language::Python | Language::JavaScript => {
            Some(environment::project_folder(&project)?.join("functions"))
        }
        Language::Rust | Language::C => None,
    };
    let component = match project.language {
        Language::Rust => rust::build(&project, purpose)?,
        Language::Python => python::build(&project)?,
        Language::JavaScript => javascript::build(&project)?,
        Language::C => c::build(&project)?,
    };
    let component = sections::add(&project, &component)?;
    let inspection = inspect::inspector(&component).compile_time(COMPILE_TIME);
    let inspection = match functions {
        Some(file) => inspection.functions(file),
        None => inspection,
    };
    let start = Instant::now();
    let inspection = inspection
        .run()
        .await
        .map_err(|error| Fault::project(format!("a host cannot load the result: {error:#}")))?;
    times::note("compiling it as a host does", start);
    let file = place::put(&project, &component, &inspection)?;
    // The other compilers have no faster way.
    let is_trial = purpose == Purpose::Trial && project.language == Language::Rust;
    Ok(BuiltComponent {
        file,
        inspection,
        is_trial,
    })
}
