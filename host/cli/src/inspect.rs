//! `skillhost inspect`: a component, looked at before it is trusted.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use skillhost::{Inspect as Look, Inspection, Line};

use crate::exit::Exit;
use crate::options::cache_folder;
use crate::terminal::{self, format_line};

/// Show what a component is, defines and imports, and whether it would load
#[derive(Args)]
pub(crate) struct Inspect {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// What to print
    #[arg(long, value_enum, default_value_t = Form::Text)]
    output: Form,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// Lines for people
    Text,
    /// JSON for programs
    Json,
}

impl Inspect {
    pub(crate) async fn execute(self) -> anyhow::Result<Exit> {
        let seen = look(&self.file).run().await?;
        match self.output {
            Form::Text => terminal::print(&lines(&seen))?,
            Form::Json => terminal::print_json(&to_json(&seen))?,
        }
        Ok(if seen.tools.is_ok() {
            Exit::Ok
        } else {
            Exit::Failure
        })
    }
}

/// A look at a component, which is compiled in another process and kept.
pub(crate) fn look(file: &Path) -> Look {
    let mut look = Look::of(file);
    if let Some(folder) = cache_folder() {
        look = look.cache(folder);
    }
    if let Ok(program) = std::env::current_exe() {
        look = look.compiler(program);
    }
    look
}

/// Lines for people.
pub(crate) fn lines(seen: &Inspection) -> Vec<Line> {
    let mut lines = vec![
        format_line!("sha256: {}", seen.digest),
        format_line!("size: {} bytes", seen.size),
    ];
    if let Some(start) = &seen.start {
        lines.push(format_line!(
            "starts with: {} memories, the largest of {} bytes; {} tables, the largest of {} elements",
            start.memories,
            start.largest_memory.unwrap_or(0),
            start.tables,
            start.largest_table.unwrap_or(0),
        ));
    }
    if let Some(interface) = &seen.interface {
        lines.push(format_line!("called by: {interface}"));
    } else if seen.tools.is_ok() {
        lines.push(format_line!("called by: functions with types of their own"));
    }
    lines.push(format_line!("imports:"));
    for import in &seen.imports {
        let granted = if import.granted { "granted" } else { "REFUSED" };
        lines.push(format_line!("  {granted}  {}", import.name));
    }
    match &seen.tools {
        Ok(tools) => {
            lines.push(format_line!("tools:"));
            for tool in tools {
                let reads = match &tool.folder {
                    None => "reads no skill".to_owned(),
                    Some(rule) => format!("reads the skill named by `{}`", rule.skill_property),
                };
                lines.push(format_line!("  {}: {reads}", tool.name));
                let description: Vec<&str> = tool.description.lines().collect();
                lines.push(format_line!("    {}", description.join(" ")));
            }
        }
        Err(why) => lines.push(format_line!("would be refused: {why}")),
    }
    lines
}

fn to_json(seen: &Inspection) -> Value {
    let imports = seen.imports.iter();
    let imports: Value = imports
        .map(|import| json!({"name": import.name, "granted": import.granted}))
        .collect();
    let tools: Option<Value> = seen.tools.as_ref().ok().map(|tools| {
        let tools = tools.iter();
        tools
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
        "sha256": seen.digest,
        "size": seen.size,
        "interface": seen.interface,
        "start": seen.start.map(|start| json!({
            "memories": start.memories,
            "largest_memory": start.largest_memory,
            "tables": start.tables,
            "largest_table": start.largest_table,
        })),
        "imports": imports,
        "tools": tools,
        "refused_for": seen.tools.as_ref().err(),
    })
}
