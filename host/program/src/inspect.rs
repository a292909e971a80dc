//! `skillhost inspect`: shows a component before anyone trusts it.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use skillhost::{Definition, Import, Inspection, Inspector, Line, Needs, SecretUse};
use skillhost_helper::OWN_PROGRAM;
use skillhost_skills::text::count::count;

use crate::exit::Exit;
use crate::options::{ReportFormat, cache_folder};
use crate::progress::show_compilations;
use crate::terminal::{self, format_line};

/// The prefix of WASI's imports.
const WASI: &str = "wasi:";

/// Show what a component defines and imports, and whether a host would load it
#[derive(Args)]
pub struct InspectCommand {
    /// Component file
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// List all imports, also those of WASI that every component is granted
    #[arg(long)]
    all: bool,
    /// Form of the description
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
}

impl InspectCommand {
    /// Prints the description. The exit code tells whether a host would load the component.
    pub async fn execute(self) -> anyhow::Result<Exit> {
        let inspection = inspector(&self.file).run().await?;
        match self.output {
            ReportFormat::Text => terminal::print(&lines(&inspection, self.all))?,
            ReportFormat::Json => terminal::print_json(&to_json(&inspection))?,
        }
        Ok(if inspection.tools.is_ok() {
            Exit::Ok
        } else {
            Exit::Failure
        })
    }
}

/// Creates the inspector of a component. Another process compiles the component, and the result is
/// stored in the cache.
pub fn inspector(file: &Path) -> Inspector {
    let mut inspector = Inspector::of(file).progress(show_compilations());
    if let Some(folder) = cache_folder() {
        inspector = inspector.cache(folder);
    }
    inspector.compiler(OWN_PROGRAM)
}

/// Returns the result of an inspection as lines for people. If `all` is set, lists also the imports
/// that every component is granted.
pub fn lines(inspection: &Inspection, all: bool) -> Vec<Line> {
    let mut lines = match &inspection.tools {
        Ok(tools) => tool_lines(tools),
        Err(reason) => vec![format_line!("would be refused: {reason}")],
    };
    lines.push(format_line!("sha256: {}", inspection.digest));
    lines.push(format_line!("size: {} bytes", inspection.size));
    let metadata: Vec<Line> = metadata(inspection)
        .filter_map(|(key, text)| Some(format_line!("  {key}: {}", text.as_deref()?)))
        .collect();
    if !metadata.is_empty() {
        lines.push(format_line!("metadata (unverified):"));
        lines.extend(metadata);
    }
    lines.extend(need_lines(&inspection.needs.needs));
    if let Some(start) = &inspection.start {
        lines.push(format_line!(
            "starts with: {}, the largest of {} bytes; {}, the largest of {} elements",
            count(start.memories, "memory"),
            start.largest_memory.unwrap_or(0),
            count(start.tables, "table"),
            start.largest_table.unwrap_or(0),
        ));
    }
    if let Some(interface) = &inspection.interface {
        lines.push(format_line!("interface: {interface}"));
    } else if inspection.tools.is_ok() {
        lines.push(format_line!(
            "interface: functions with their own WIT types"
        ));
    }
    lines.extend(import_lines(&inspection.imports, all));
    if inspection.needs.sends_requests {
        lines.push(format_line!(
            "sends HTTP requests: each is denied unless a grant's `network` allows it, or is \
             \"ask\" and a person allows it"
        ));
    }
    lines
}

/// Returns lines about the requests and secrets that a component asks for.
fn need_lines(needs: &Result<Needs, String>) -> Vec<Line> {
    let needs = match needs {
        Ok(needs) if needs.is_empty() => return Vec::new(),
        Ok(needs) => needs,
        Err(why) => {
            let section = Needs::SECTION;
            return vec![format_line!(
                "asks for: unknown, because the section `{section}` is ignored: {why}"
            )];
        }
    };
    let mut lines = vec![format_line!("asks for (unverified, and grants nothing):")];
    let rules = needs.network.iter();
    lines.extend(rules.map(|need| format_line!("  requests {}: {}", need.rule, need.why)));
    let secrets = needs.secrets.iter();
    lines.extend(secrets.map(|need| format_line!("  {}: {}", secret_line(&need.secret), need.why)));
    lines
}

/// Returns a line with the name of a secret, its header, and the hosts that it may be sent to.
pub fn secret_line(secret: &SecretUse) -> Line {
    let hosts: Vec<String> = secret.hosts().collect();
    format_line!(
        "secret {} in the header {} to {}",
        secret.name(),
        secret.header(),
        hosts.join(", ")
    )
}

/// Returns lines about the tools of a component.
fn tool_lines(tools: &[Definition]) -> Vec<Line> {
    let mut lines = vec![format_line!("tools:")];
    for tool in tools {
        let reads = match &tool.folder {
            None => "reads no skill".to_owned(),
            Some(rule) => format!("reads the skill named by `{}`", rule.skill_property),
        };
        lines.push(format_line!("  {}: {reads}", tool.name));
        let description: Vec<&str> = tool.description.lines().collect();
        lines.push(format_line!("    {}", description.join(" ")));
    }
    lines
}

/// Returns lines about the imports of a component. Unless `all` is set, a single line gives the
/// number of WASI's imports that are granted, and does not list them.
fn import_lines(imports: &[Import], all: bool) -> Vec<Line> {
    let is_only_counted =
        |import: &&Import| !all && import.granted && import.name.starts_with(WASI);
    let mut lines = vec![format_line!("imports:")];
    for import in imports.iter().filter(|import| !is_only_counted(import)) {
        let granted = if import.granted { "granted" } else { "REFUSED" };
        lines.push(format_line!("  {granted}  {}", import.name));
    }
    if let counted @ 1.. = imports.iter().filter(is_only_counted).count() {
        lines.push(format_line!(
            "  granted  {} of WASI, which every component gets (`--all` lists them)",
            count(counted, "interface")
        ));
    }
    lines
}

/// Returns the metadata of a component in display order.
fn metadata(inspection: &Inspection) -> impl Iterator<Item = (&'static str, &Option<String>)> {
    let metadata = &inspection.metadata;
    std::iter::once(("name", &metadata.name)).chain(metadata.sections())
}

fn to_json(inspection: &Inspection) -> Value {
    let imports: Value = inspection
        .imports
        .iter()
        .map(|import| json!({"name": import.name, "granted": import.granted}))
        .collect();
    let tools: Option<Value> = inspection.tools.as_ref().ok().map(|tools| {
        tools
            .iter()
            .map(|tool| {
                json!({
                    "name": tool.name,
                    "title": tool.title,
                    "description": tool.description,
                    "input_schema": tool.input_schema,
                    "output_schema": tool.output_schema,
                    "skill_property": tool.folder.as_ref().map(|rule| &rule.skill_property),
                })
            })
            .collect()
    });
    json!({
        "sha256": inspection.digest,
        "size": inspection.size,
        "metadata": metadata(inspection)
            .map(|(key, text)| (key.to_owned(), json!(text)))
            .collect::<Map<String, Value>>(),
        "needs": inspection.needs.needs.as_ref().ok().map(Needs::to_json),
        "needs_ignored_for": inspection.needs.needs.as_ref().err(),
        "sends_requests": inspection.needs.sends_requests,
        "interface": inspection.interface,
        "start": inspection.start.map(|start| json!({
            "memories": start.memories,
            "largest_memory": start.largest_memory,
            "tables": start.tables,
            "largest_table": start.largest_table,
        })),
        "imports": imports,
        "tools": tools,
        "refused_for": inspection.tools.as_ref().err(),
    })
}
