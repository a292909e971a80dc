//! What a loaded runner says about the scripts of a skill. The host parses no scripts: it asks
//! the tool `check_skill_scripts`, whichever component defines it.

use serde_json::{Value, json};
use skillhost::Host;
use skillhost::config::Config;

use skillhost_program::options::CommonOptions;
use skillhost_program::terminal;

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
    /// Loads the configured components. Returns none if there are none, none has the tool, or
    /// they cannot be loaded, which is not what `check` is about.
    pub(super) async fn load(options: &CommonOptions, mut config: Config) -> Option<Self> {
        if config.tools.is_empty() {
            return None;
        }
        match options.host_of_one_call(&mut config).await {
            Ok(host) => host.definition(TOOL).is_some().then_some(Self { host }),
            Err(error) => {
                terminal::complain(format_args!("scripts are not checked: {error:#}"));
                None
            }
        }
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
