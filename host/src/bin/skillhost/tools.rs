//! `skillhost tools`: the definitions, for a model's API.

use clap::Args;
use serde_json::Value;
use skillhost::message;

use crate::exit::Exit;
use crate::options::Options;
use crate::terminal;

/// Print the tools' definitions as a JSON array, in the function format
#[derive(Args)]
pub(crate) struct Tools {
    #[command(flatten)]
    options: Options,
}

impl Tools {
    pub(crate) async fn execute(mut self, before: Options) -> anyhow::Result<Exit> {
        let options = before.and(std::mem::take(&mut self.options));
        let host = options.host().await?;
        let functions: Value = host.definitions().iter().map(message::function).collect();
        terminal::print(&format!("{functions:#}\n"))?;
        Ok(Exit::Ok)
    }
}
