//! The note on a skill's scripts, which follows the answer of a tool that shows a skill. The note
//! lists the scripts that a runner may start, and says of each whether it will run. Runners judge
//! this with a tool whose name starts with `check_skill_`; the host does not parse scripts.
//!
//! Not here: which scripts a call may start (`scripts.rs` of the crate `skillhost-sandbox`).

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Host, ServedTool};
use skillhost_sandbox::tool::Caller;
use skillhost_skills::neighbours;
use skillhost_skills::text::line::{Line, escape_json};

/// The tools whose answers get a note.
const NOTED_TOOLS: [&str; 2] = ["read_skill", "list_files_in_skill"];
/// The prefix of the names of tools that judge scripts.
pub(super) const JUDGE_PREFIX: &str = "check_skill_";
/// The maximum number of bytes of a note. Guards against: a skill with many scripts that fills a
/// model's context.
const MAX_BYTES: usize = 2048;
/// The maximum number of characters of a script's description, and of a reason why it will not run.
const MAX_CHARS: usize = 120;

/// A runner's answer about the scripts of a skill.
#[derive(Deserialize)]
struct Judgement {
    #[serde(default)]
    scripts: Vec<JudgedScript>,
}

/// A runner's verdict on a script.
#[derive(Deserialize)]
pub struct JudgedScript {
    /// The path in the skill.
    pub script: String,
    /// The script's own description.
    #[serde(default)]
    pub description: String,
    /// The verdict.
    pub verdict: String,
    /// The reasons why the script may fail to run.
    #[serde(default)]
    pub reasons: Vec<JudgementReason>,
}

/// A reason why a script may fail to run.
#[derive(Deserialize)]
pub struct JudgementReason {
    /// The path of the file with the cause, in the skill.
    #[serde(default)]
    pub path: String,
    /// The line in this file.
    pub line: Option<u64>,
    /// The import or the call that the script needs, and that may fail.
    pub needs: String,
    /// Why this may fail, and what to use instead.
    pub instead: Option<String>,
}

impl Host {
    /// Returns the skill that a call names, if the call's answer can get a note about scripts.
    pub fn noted_skill(&self, tool: &str, arguments: &Value) -> Option<String> {
        let is_noted = NOTED_TOOLS.contains(&tool) && self.is_built_in(tool);
        if !is_noted || self.judges().next().is_none() {
            return None;
        }
        let served = self.tool(tool).ok().filter(|served| served.gives_help)?;
        let rule = served.tool.definition.folder.as_ref()?;
        let skill = arguments.get(&rule.skill_property)?.as_str()?;
        Some(skill.to_owned())
    }

    /// Returns a note for a model about the scripts of a skill: one line for each, with its
    /// verdict, and at most 2 KiB.
    ///
    /// For this, calls each runner that may start some of the scripts, in the name of this caller.
    /// Returns `None` if there are no such scripts or [help](crate::HostBuilder::help) is off.
    /// `time` is the maximum time of all these calls together.
    pub async fn script_note(
        &self,
        caller: &Caller,
        skill: &str,
        time: Option<Duration>,
    ) -> Option<String> {
        let start = Instant::now();
        let mut note = String::new();
        for judge in self.judges() {
            if !self.has_scripts_for(judge, skill) {
                continue;
            }
            let name = &judge.tool.definition.name;
            let arguments = json!({ "skill_name": skill });
            let left = time.map(|time| time.saturating_sub(start.elapsed()));
            if left == Some(Duration::ZERO) {
                break;
            }
            let Ok(output) = self.call_within(left, caller, name, arguments).await else {
                continue;
            };
            let Ok(judged) = serde_json::from_str::<Judgement>(&output.record_json()) else {
                continue;
            };
            let scripts = judged.scripts.iter();
            let startable = scripts.filter(|judged| judge.terms.scripts.allow(&judged.script));
            for (index, script) in startable.enumerate() {
                let line = match index {
                    0 => format!("Scripts, as {name} judges them:\n{}\n", script.line()),
                    _ => format!("{}\n", script.line()),
                };
                if note.len() + line.len() > MAX_BYTES {
                    note.push_str(&format!("More: {name}\n"));
                    break;
                }
                note.push_str(&line);
            }
        }
        let note = note.trim_end();
        (!note.is_empty()).then(|| note.to_owned())
    }

    /// Returns the tools that judge scripts, of components that may start scripts.
    fn judges(&self) -> impl Iterator<Item = &ServedTool> {
        self.served_tools().filter(|served| {
            !served.terms.scripts.is_empty()
                && served.tool.definition.name.starts_with(JUDGE_PREFIX)
        })
    }

    /// Returns whether a skill has scripts that the component of this tool may start.
    fn has_scripts_for(&self, judge: &ServedTool, skill: &str) -> bool {
        let terms = &judge.terms;
        if !self.may_read(terms, skill) {
            return false;
        }
        let Ok(opened) = self.0.catalog.skill(skill, terms.hard_links) else {
            return false;
        };
        let paths = neighbours::paths(&self.0.catalog.for_lists(opened).folder);
        paths.iter().any(|path| terms.scripts.allow(path))
    }
}

impl JudgedScript {
    fn line(&self) -> String {
        let path = escape_json(&Value::from(self.script.as_str()).to_string());
        let detail = match self.reasons.first() {
            Some(reason) if self.verdict != "will run" => &reason.needs,
            _ => &self.description,
        };
        let detail: String = detail.chars().take(MAX_CHARS).collect();
        let verdict = Line::new(&self.verdict);
        if detail.is_empty() {
            format!("{path}: {verdict}")
        } else {
            format!("{path}: {verdict} ({})", Line::new(&detail))
        }
    }
}
