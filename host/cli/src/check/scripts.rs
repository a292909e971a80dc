//! What a loaded runner says about the scripts of a skill. The host parses no scripts: it asks
//! the tool `check_skill_scripts`, whichever component defines it.

use serde_json::{Value, json};
use skillhost::Host;

use crate::options::CommonOptions;
use crate::terminal;

/// The tool that is asked.
const TOOL: &str = "check_skill_scripts";

/// A host that has the tool.
pub(super) struct ScriptChecker {
    host: Host,
}

/// The tool's answer on a skill: lines for people, and the record for programs.
pub(super) struct ScriptReport {
    pub(super) text: String,
    pub(super) record: Value,
}

impl ScriptChecker {
    /// Loads the configured components. Returns none if there are none, or none has the tool.
    pub(super) async fn load(options: &CommonOptions) -> anyhow::Result<Option<Self>> {
        let mut config = options.configured()?;
        if config.tools.is_empty() {
            return Ok(None);
        }
        let host = options.host_of_one_call(&mut config).await?;
        let has_tool = host.definition(TOOL).is_some();
        Ok(has_tool.then_some(Self { host }))
    }

    /// Asks about a skill. Complains if the tool may not read it, or fails.
    pub(super) async fn report(&self, skill: &str) -> Option<ScriptReport> {
        match self.host.call(TOOL, json!({ "skill_name": skill })).await {
            Ok(output) => Some(ScriptReport {
                text: output.text().to_owned(),
                record: output.record()["scripts"].clone(),
            }),
            Err(error) => {
                terminal::complain(format_args!(
                    "cannot check the scripts of `{}`: {}",
                    terminal::name(skill),
                    error.operator_text()
                ));
                None
            }
        }
    }
}
