//! The report of a script runner on the scripts of a skill. The host does not parse scripts: it
//! calls the tool `check_skill_scripts` of a loaded component.

use serde::Deserialize as _;
use serde_json::{Value, json};
use skillhost::JudgedScript;
use skillhost::config::Config;
use skillhost::{Caller, Host, Line, Transport};

use skillhost_program::options::{self, CommonOptions};
use skillhost_program::terminal::{self, format_line};

/// The name of the tool that checks scripts.
const TOOL: &str = "check_skill_scripts";

/// A host with the tool that checks scripts.
pub(super) struct ScriptChecker {
    host: Host,
}

/// The tool's report on the scripts of one skill.
pub(super) struct ScriptReport(Value);

impl ScriptChecker {
    /// Loads the configured components. Returns `None` if none of them has the tool. If they cannot
    /// be loaded, prints why and returns `None`: `check` still checks the skills without it.
    pub(super) async fn load(options: &CommonOptions, mut config: Config) -> Option<Self> {
        if !config.has_third_party_components() {
            return None;
        }
        match Self::host_with_tool(options, &mut config).await {
            Ok(host) => host.map(|host| Self { host }),
            Err(error) => {
                terminal::complain(format_args!("scripts are not checked: {error:#}"));
                None
            }
        }
    }

    /// Builds a host for calls of the tool. If no component has the tool, returns `None` and leaves
    /// the audit log as it is.
    async fn host_with_tool(
        options: &CommonOptions,
        config: &mut Config,
    ) -> anyhow::Result<Option<Host>> {
        let mut without_calls = config.clone();
        options::forbid_calls(&mut without_calls);
        let host = options.builder(&without_calls)?.build().await?;
        if host.definition(TOOL).is_none() {
            options::report_problems(&host);
            return Ok(None);
        }
        options.build_one_call_host(config).await.map(Some)
    }

    /// Returns the report on a skill. Prints a message and returns `None` if the tool fails or is
    /// not allowed to read the skill.
    pub(super) async fn report(&self, skill: &str) -> Option<ScriptReport> {
        let caller = Caller::new(Transport::Cli);
        let arguments = json!({ "skill_name": skill });
        match self.host.call_from(&caller, TOOL, arguments).await {
            Ok(output) => Some(ScriptReport(output.record()["scripts"].clone())),
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

impl ScriptReport {
    /// Returns the report as JSON for programs.
    pub(super) fn record(&self) -> &Value {
        &self.0
    }

    /// Returns the report as lines for people: one for each script and each reason. File
    /// names are quoted, so that none can start a line or look like a verdict.
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for script in Vec::<JudgedScript>::deserialize(&self.0).unwrap_or_default() {
            let path = terminal::name(&script.script);
            lines.push(if script.description.is_empty() {
                format_line!("{path}: {}", script.verdict)
            } else {
                format_line!("{path}: {} - {}", script.verdict, script.description)
            });
            for reason in &script.reasons {
                let place = match (reason.path == script.script, reason.line) {
                    (true, None) => Line::default(),
                    (true, Some(line)) => format_line!("line {line}: "),
                    (false, None) => format_line!("{}, ", terminal::name(&reason.path)),
                    (false, Some(line)) => {
                        format_line!("{}, line {line}: ", terminal::name(&reason.path))
                    }
                };
                let instead = match reason.instead.as_deref() {
                    Some(text) if !text.is_empty() => format_line!(": {text}"),
                    _ => Line::default(),
                };
                lines.push(format_line!("  {place}{}{instead}", reason.needs));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_cannot_forge_verdicts() {
        let forged = "scripts/a.py: will run - Reviewed\nscripts/b.py";
        let report = ScriptReport(json!([
            {"script": "scripts/run.py", "verdict": "will run", "description": "Runs."},
            {"script": forged, "verdict": "will not\nx.py: will run", "description": "a\nb", "reasons": [
                {"path": forged, "line": 3, "needs": "exec", "instead": null},
                {"path": "c: will run", "line": null, "needs": "os.fork\nd", "instead": "no\ne"},
            ]},
        ]));
        let lines: Vec<String> = report.lines().iter().map(Line::to_string).collect();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!(lines[0], "scripts/run.py: will run - Runs.");
        assert!(lines.iter().all(|line| !line.contains('\n')), "{lines:?}");
        assert!(
            lines[1].starts_with("\"scripts/a.py: will run - "),
            "{lines:?}"
        );
        assert_eq!(lines[2], "  line 3: exec");
        assert!(
            lines[3].starts_with("  \"c: will run\", os.fork"),
            "{lines:?}"
        );
        assert_eq!(ScriptReport(Value::Null).lines().len(), 0);
    }
}
