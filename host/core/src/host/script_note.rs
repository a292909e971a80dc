//! The note beside the answer of a tool with which a model looks at a skill: which of its
//! scripts a runner may start, and whether they will run. Runners say so themselves, by a
//! tool whose name begins with `check_skill_`; the host parses no scripts.
//!
//! Not here: what a call may start (`scripts.rs`).

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Host, ServedTool};
use skillhost_sandbox::tool::Caller;
use skillhost_skills::neighbours;
use skillhost_skills::text::line::{Line, escape_json};

/// The tools that a note stands beside.
const NOTED: [&str; 2] = ["read_skill", "list_files_in_skill"];
/// The start of the names of tools that judge scripts.
const JUDGING: &str = "check_skill_";
/// Bytes of a note. Guards against: a skill of many scripts that fills a model's memory.
const MOST_BYTES: usize = 2048;
/// Characters of a script's description, or of why it will not run. Guards against: the
/// same, by one script.
const MOST_CHARS: usize = 120;

/// What a runner says of scripts.
#[derive(Deserialize)]
struct Judgement {
    #[serde(default)]
    scripts: Vec<JudgedScript>,
}

/// A runner's verdict on a script.
#[derive(Deserialize)]
pub struct JudgedScript {
    /// Its path in the skill.
    pub script: String,
    /// The purpose of the script, in its own words.
    #[serde(default)]
    pub description: String,
    /// The verdict.
    pub verdict: String,
    /// Why it may not run.
    #[serde(default)]
    pub reasons: Vec<Reason>,
}

/// Why a script may not run.
#[derive(Deserialize)]
pub struct Reason {
    /// The file, in the skill.
    #[serde(default)]
    pub path: String,
    /// The line.
    pub line: Option<u64>,
    /// The import or the call.
    pub needs: String,
    /// Why it fails, and what would do.
    pub instead: Option<String>,
}

impl Host {
    /// Returns the skill that a call of this tool with these arguments looks at, if a note
    /// on its scripts may stand beside the answer.
    pub fn noted_skill(&self, tool: &str, arguments: &Value) -> Option<String> {
        let is_noted = NOTED.contains(&tool) && self.is_built_in(tool);
        if !is_noted || self.judges().next().is_none() {
            return None;
        }
        let served = self.tool(tool).ok().filter(|served| served.gives_help)?;
        let rule = served.tool.definition.folder.as_ref()?;
        let skill = arguments.get(&rule.skill_property)?.as_str()?;
        Some(skill.to_owned())
    }

    /// Returns which scripts of a skill can run, for a model: a line for each, at most
    /// 2 KiB. It asks the runners that may start some of them, each in a call of its own
    /// for this caller. None if there are no such scripts, or
    /// [help](crate::HostBuilder::help) is off.
    pub async fn script_note(&self, caller: &Caller, skill: &str) -> Option<String> {
        let mut note = String::new();
        for judge in self.judges() {
            if !self.has_scripts_for(judge, skill) {
                continue;
            }
            let name = &judge.tool.definition.name;
            let arguments = json!({ "skill_name": skill });
            let Ok(output) = self.call_from(caller, name, arguments).await else {
                continue;
            };
            let Ok(judged) = serde_json::from_str::<Judgement>(&output.record_json()) else {
                continue;
            };
            let scripts = judged.scripts.iter();
            let startable = scripts.filter(|it| judge.terms.scripts.allow(&it.script));
            for (index, script) in startable.enumerate() {
                let line = match index {
                    0 => format!("Scripts, as {name} judges them:\n{}\n", script.line()),
                    _ => format!("{}\n", script.line()),
                };
                if note.len() + line.len() > MOST_BYTES {
                    note.push_str(&format!("More: {name}\n"));
                    break;
                }
                note.push_str(&line);
            }
        }
        let note = note.trim_end();
        (!note.is_empty()).then(|| note.to_owned())
    }

    /// Returns the tools that judge scripts, of components that may start some.
    fn judges(&self) -> impl Iterator<Item = &ServedTool> {
        self.served_tools().filter(|served| {
            !served.terms.scripts.is_empty() && served.tool.definition.name.starts_with(JUDGING)
        })
    }

    /// Checks whether a skill has scripts that a component may start.
    fn has_scripts_for(&self, judge: &ServedTool, skill: &str) -> bool {
        let terms = &judge.terms;
        if !self.may_read(terms, skill) {
            return false;
        }
        let Ok(open) = self.0.catalog.skill(skill, terms.hard_links) else {
            return false;
        };
        let paths = neighbours::paths(&open.folder);
        paths.iter().any(|path| terms.scripts.allow(path))
    }
}

impl JudgedScript {
    fn line(&self) -> String {
        let path = escape_json(&Value::from(self.script.as_str()).to_string());
        let more = match self.reasons.first() {
            Some(reason) if self.verdict != "will run" => &reason.needs,
            _ => &self.description,
        };
        let more: String = more.chars().take(MOST_CHARS).collect();
        let verdict = Line::new(&self.verdict);
        if more.is_empty() {
            format!("{path}: {verdict}")
        } else {
            format!("{path}: {verdict} ({})", Line::new(&more))
        }
    }
}
