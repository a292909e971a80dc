//! `skillhost prompt`: prints the skills as a section of a system prompt.

use clap::{Args, ValueEnum};
use skillhost::prompt;

use crate::exit::Exit;
use crate::options::{self, CommonOptions};
use crate::terminal;

/// Print the section of a system prompt that lists the skills
#[derive(Args)]
pub(crate) struct PromptCommand {
    /// Form of the section
    #[arg(long, value_enum, default_value_t = Style::List)]
    style: Style,
    #[command(flatten)]
    options: CommonOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum Style {
    /// One line per skill
    List,
    /// An `<available_skills>` element
    Xml,
}

impl PromptCommand {
    pub(crate) fn execute(mut self, before: CommonOptions) -> anyhow::Result<Exit> {
        let options = before.and(std::mem::take(&mut self.options));
        let catalog = options.catalog()?;
        options::report_advice(&catalog);
        let skills = catalog.list().skills;
        terminal::print_answer(&match self.style {
            Style::List => prompt::list(&skills),
            Style::Xml => prompt::xml(&skills),
        })?;
        Ok(Exit::Ok)
    }
}
