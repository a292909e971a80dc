//! `skillhost prompt`: the skills, as a section of a system prompt.

use clap::{Args, ValueEnum};
use skillhost::prompt;

use crate::exit::Exit;
use crate::options::Options;
use crate::terminal;

/// Print a system prompt's section on the skills
#[derive(Args)]
pub(crate) struct Prompt {
    /// How to write it
    #[arg(long, value_enum, default_value_t = Style::List)]
    style: Style,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, ValueEnum)]
enum Style {
    /// A list, one line a skill
    List,
    /// An `<available_skills>` element
    Xml,
}

impl Prompt {
    pub(crate) fn execute(mut self, before: Options) -> anyhow::Result<Exit> {
        let options = before.and(std::mem::take(&mut self.options));
        let skills = options.catalog()?.list().skills;
        terminal::print_answer(&match self.style {
            Style::List => prompt::list(&skills),
            Style::Xml => prompt::xml(&skills),
        })?;
        Ok(Exit::Ok)
    }
}
