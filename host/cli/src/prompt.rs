//! `skillhost prompt`: prints the skills as a section of a system prompt.

use clap::{Args, ValueEnum};
use skillhost::prompt;

use crate::packages::load_skills;
use skillhost_program::exit::Exit;
use skillhost_program::options::{self, CommonOptions, open_catalog};
use skillhost_program::terminal;

/// Print the section of a system prompt that lists the skills
#[derive(Args)]
pub(crate) struct PromptCommand {
    /// Form of the section
    #[arg(long, value_enum, default_value_t = Style::List)]
    style: Style,
    /// Tokens that the section may take: a token is four bytes, or one Chinese,
    /// Japanese or Korean character. What does not fit is shortened, then left
    /// out [default: 4000, or `budget` in the configuration's `[prompt]`]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(256..))]
    budget: Option<u32>,
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
    pub(crate) fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let config = load_skills(&options)?.host;
        let style = match self.style {
            Style::List => prompt::Style::List,
            Style::Xml => prompt::Style::Xml,
        };
        let budget = self.budget.map(|budget| budget as usize);
        let finder = prompt::SkillFinder::of(|tool| config.has_built_in(tool));
        let catalog = open_catalog(&config)?;
        options::report_advice(&catalog);
        let section = prompt::section(
            &catalog,
            style,
            budget.unwrap_or(config.prompt.budget),
            finder,
        );
        if let Some(warning) = section.warning() {
            terminal::complain(warning);
        }
        terminal::print_answer(&section.text)?;
        Ok(Exit::Ok)
    }
}
