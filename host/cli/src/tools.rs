//! `skillhost tools`: prints the definitions of the tools, for a model's API.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use skillhost::exchange::{self, Format};

use crate::packages;
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::terminal;

/// Print the definitions of the tools as a JSON array, for the `tools` of a
/// request
#[derive(Args)]
pub(crate) struct ToolsCommand {
    /// API that the definitions are for
    #[arg(long, value_enum, default_value_t = DefinitionFormat::Model(Format::OpenAi))]
    format: DefinitionFormat,
    /// Use the strict mode of `openai` and `responses`, in which a model writes
    /// only arguments that fit the schema
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    options: CommonOptions,
}

/// A format of tool definitions. MCP is not a [`Format`], because its messages are of another
/// kind.
#[derive(Clone, Copy)]
enum DefinitionFormat {
    Model(Format),
    Mcp,
}

impl ValueEnum for DefinitionFormat {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [DefinitionFormat; Format::ALL.len() + 1] = {
            let mut all = [DefinitionFormat::Mcp; Format::ALL.len() + 1];
            let mut index = 0;
            while index < Format::ALL.len() {
                all[index] = DefinitionFormat::Model(Format::ALL[index]);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, title) = match self {
            Self::Model(format) => (format.name(), format.title()),
            Self::Mcp => ("mcp", "Model Context Protocol, as `tools/list` gives them"),
        };
        Some(PossibleValue::new(name).help(title))
    }
}

impl ToolsCommand {
    pub(crate) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let format = match self.format {
            DefinitionFormat::Model(format) => Some(format),
            DefinitionFormat::Mcp => None,
        };
        if self.strict && !format.is_some_and(Format::has_strict_mode) {
            terminal::complain("`--strict` is for the formats `openai` and `responses`");
            return Ok(Exit::Usage);
        }
        let settings = packages::load(&options)?;
        let host = options.build_host_without_calls(settings.host).await?;
        let definitions = host.definitions();
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
