//! `skillhost tools`: prints the definitions of the tools, for a model's API.

use clap::{Args, ValueEnum};
use skillhost::exchange::{self, Format};

use crate::exit::Exit;
use crate::options::CommonOptions;
use crate::terminal;

/// Print the definitions of the tools as a JSON array, for the `tools` of a
/// request
#[derive(Args)]
pub(crate) struct ToolsCommand {
    /// API that the definitions are for
    #[arg(long, value_enum, default_value_t = DefinitionFormat::Openai)]
    format: DefinitionFormat,
    /// Use the strict mode of `openai` and `responses`, in which a model writes
    /// only arguments that fit the schema
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    options: CommonOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum DefinitionFormat {
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

impl DefinitionFormat {
    /// Returns the format of a model's API; MCP is none.
    fn message_format(self) -> Option<Format> {
        match self {
            Self::Openai => Some(Format::OpenAi),
            Self::Responses => Some(Format::Responses),
            Self::Anthropic => Some(Format::Anthropic),
            Self::Gemini => Some(Format::Gemini),
            Self::Mcp => None,
        }
    }
}

impl ToolsCommand {
    pub(crate) async fn execute(mut self, before: CommonOptions) -> anyhow::Result<Exit> {
        let options = before.and(std::mem::take(&mut self.options));
        if self.strict
            && !matches!(
                self.format,
                DefinitionFormat::Openai | DefinitionFormat::Responses
            )
        {
            terminal::complain("`--strict` is for the formats `openai` and `responses`");
            return Ok(Exit::Usage);
        }
        let host = options.host_for_one_call().await?;
        let definitions = host.definitions();
        let format = self.format.message_format();
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
