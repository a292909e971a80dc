//! `skillhost grants`: shows what each tool may do.

use clap::Args;
use serde_json::{Value, json};
use skillhost::{EffectiveGrant, Line};

use crate::exit::Exit;
use crate::options::{CommonOptions, ReportFormat};
use crate::terminal::{self, format_line};

/// Show what each tool may read, and its limits
#[derive(Args)]
pub(crate) struct GrantsCommand {
    /// Form of the grants
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
    #[command(flatten)]
    options: CommonOptions,
}

impl GrantsCommand {
    pub(crate) async fn execute(mut self, before: CommonOptions) -> anyhow::Result<Exit> {
        let options = before.and(std::mem::take(&mut self.options));
        let grants = options.host_for_one_call().await?.grants();
        match self.output {
            ReportFormat::Text => {
                let lines: Vec<Line> = grants.iter().flat_map(paragraph).collect();
                terminal::print(&lines)?;
            }
            ReportFormat::Json => {
                let grants: Value = grants.iter().map(to_json).collect();
                terminal::print_json(&grants)?;
            }
        }
        Ok(Exit::Ok)
    }
}

fn paragraph(grant: &EffectiveGrant) -> [Line; 8] {
    let limits = &grant.limits;
    [
        format_line!("{} (from {})", grant.tool, terminal::name(&grant.origin)),
        format_line!("  sha256: {}", grant.digest),
        format_line!("  skills: {}", grant.skills),
        format_line!("    allows: {}", names(&grant.allowed)),
        format_line!("    refuses: {}", names(&grant.refused)),
        format_line!("  home folder: {}", yes(grant.home)),
        format_line!("  hard links: {}", yes(grant.hard_links)),
        format_line!(
            "  limits: {:?}, {} bytes of memory, {} bytes of output, {} table elements, {} core \
             instances, {} tables, {} bytes of hostcall fuel, {} handles, {} directory entries, \
             {} bytes of log",
            limits.time,
            limits.memory,
            limits.output,
            limits.table_elements,
            limits.instances,
            limits.tables,
            limits.hostcall_fuel,
            limits.handles,
            limits.directory_entries,
            limits.log,
        ),
    ]
}

fn names(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        let names: Vec<String> = names
            .iter()
            .map(|name| terminal::name(name).to_string())
            .collect();
        names.join(", ")
    }
}

fn yes(allowed: bool) -> &'static str {
    if allowed { "allowed" } else { "refused" }
}

fn to_json(grant: &EffectiveGrant) -> Value {
    let limits = &grant.limits;
    json!({
        "tool": grant.tool,
        "component": grant.origin,
        "sha256": grant.digest,
        "skills": grant.skills,
        "allows": grant.allowed,
        "refuses": grant.refused,
        "home": grant.home,
        "hard_links": grant.hard_links,
        "limits": {
            "time_ms": u64::try_from(limits.time.as_millis()).unwrap_or(u64::MAX),
            "memory": limits.memory,
            "output": limits.output,
            "table_elements": limits.table_elements,
            "instances": limits.instances,
            "tables": limits.tables,
            "hostcall_fuel": limits.hostcall_fuel,
            "handles": limits.handles,
            "directory_entries": limits.directory_entries,
            "log": limits.log,
        },
    })
}
