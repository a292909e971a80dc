//! `skillhost tools`: the definitions, for a model's API.

use clap::{Args, ValueEnum};
use skillhost::exchange::{self, Format};

use crate::exit::Exit;
use crate::options::Options;
use crate::terminal;

/// Print the tools' definitions as a JSON array, for a request's `tools`
#[derive(Args)]
pub(crate) struct Tools {
    /// Whose request it is
    #[arg(long, value_enum, default_value_t = Whose::Openai)]
    format: Whose,
    /// Definitions for strict mode, of `openai` and `responses`: the model then
    /// writes arguments that fit
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, ValueEnum)]
enum Whose {
    /// OpenAI chat completions
    Openai,
    /// OpenAI Responses
    Responses,
    /// Anthropic Messages
    Anthropic,
    /// Google Gemini
    Gemini,
    /// Model Context Protocol, as `tools/list` gives them
    Mcp,
}

impl Whose {
    /// MCP has messages of another kind.
    fn format(self) -> Option<Format> {
        match self {
            Self::Openai => Some(Format::OpenAi),
            Self::Responses => Some(Format::Responses),
            Self::Anthropic => Some(Format::Anthropic),
            Self::Gemini => Some(Format::Gemini),
            Self::Mcp => None,
        }
    }
}

impl Tools {
    pub(crate) async fn execute(mut self, before: Options) -> anyhow::Result<Exit> {
        let options = before.and(std::mem::take(&mut self.options));
        if self.strict && !matches!(self.format, Whose::Openai | Whose::Responses) {
            terminal::complain("`--strict` is for the formats `openai` and `responses`");
            return Ok(Exit::Usage);
        }
        let host = options.host_for_one_call().await?;
        let definitions = host.definitions();
        let format = self.format.format();
        let strict = format.filter(|_| self.strict);
        let tools = match strict.and_then(|format| format.strict_tools(&definitions)) {
            Some(strict) => {
                for problem in strict.not_strict {
                    terminal::complain(problem);
                }
                strict.tools
            }
            None => match format {
                Some(format) => format.tools(&definitions),
                None => exchange::mcp_tools(&definitions),
            },
        };
        terminal::print_json(&tools)?;
        Ok(Exit::Ok)
    }
}
