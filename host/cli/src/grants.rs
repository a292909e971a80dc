//! `skillhost grants`: shows what each tool may do.

use clap::Args;
use serde_json::{Map, Value, json};
use skillhost::limits::{LimitSet as _, Unit};
use skillhost::{DescriptionSource, EffectiveGrant, Limits, Line};

use crate::settings::Settings;
use skillhost_program::exit::Exit;
use skillhost_program::options::{CommonOptions, ReportFormat};
use skillhost_program::terminal::{self, format_line};

/// Show what each tool may read, and its limits
#[derive(Args)]
pub(crate) struct GrantsCommand {
    /// Show only these tools
    #[arg(value_name = "TOOL")]
    named: Vec<String>,
    /// Form of the grants
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
    #[command(flatten)]
    options: CommonOptions,
}

impl GrantsCommand {
    pub(crate) async fn execute(mut self, outer: CommonOptions) -> anyhow::Result<Exit> {
        let options = outer.merge(std::mem::take(&mut self.options));
        let settings: Settings = options.load()?;
        let host = options.build_host_without_calls(settings.host).await?;
        let mut grants = host.grants();
        let exists = |tool: &&String| grants.iter().any(|grant| grant.tool == **tool);
        if let Some(unknown) = self.named.iter().find(|tool| !exists(tool)) {
            let names: Vec<&str> = grants.iter().map(|grant| &*grant.tool).collect();
            terminal::complain(format_args!(
                "there is no tool `{unknown}`; the tools are {}",
                names.join(", ")
            ));
            return Ok(Exit::Usage);
        }
        grants.retain(|grant| self.named.is_empty() || self.named.contains(&grant.tool));
        match self.output {
            ReportFormat::Text => {
                let lines: Vec<Line> = grants.iter().flat_map(lines).collect();
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

/// Returns a grant as lines for people.
fn lines(grant: &EffectiveGrant) -> Vec<Line> {
    let rows = Limits::TABLE.iter();
    let described: Vec<String> = rows.map(|row| row.describe(&grant.limits)).collect();
    let mut lines = vec![
        format_line!("{} (from {})", grant.tool, terminal::name(&grant.origin)),
        format_line!("  sha256: {}", grant.digest),
        format_line!("  skills: {}", grant.skills),
        format_line!("    allows: {}", names(&grant.allowed)),
        format_line!("    refuses: {}", names(&grant.refused)),
        format_line!("  home folder: {}", allowed_word(grant.home)),
        format_line!("  hard links: {}", allowed_word(grant.hard_links)),
        format_line!("  scripts: {}", grant.scripts),
        format_line!("  view: {}", grant.view.name()),
        format_line!("  limits: {}", described.join(", ")),
    ];
    if grant.description != DescriptionSource::Component {
        let source = grant.description.name();
        lines.push(format_line!("  description: replaced by the {source}'s"));
    }
    lines
}

fn names(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let names: Vec<String> = names
        .iter()
        .map(|name| terminal::name(name).to_string())
        .collect();
    names.join(", ")
}

fn allowed_word(allowed: bool) -> &'static str {
    if allowed { "allowed" } else { "refused" }
}

fn to_json(grant: &EffectiveGrant) -> Value {
    let limits: Map<String, Value> = Limits::TABLE
        .iter()
        .map(|row| {
            let key = match row.unit {
                Unit::Time => format!("{}_ms", row.key),
                _ => row.key.to_owned(),
            };
            (key, row.get(&grant.limits).into())
        })
        .collect();
    json!({
        "tool": grant.tool,
        "component": grant.origin,
        "sha256": grant.digest,
        "skills": grant.skills,
        "allows": grant.allowed,
        "refuses": grant.refused,
        "home": grant.home,
        "hard_links": grant.hard_links,
        "scripts": grant.scripts,
        "view": grant.view.name(),
        "limits": limits,
        "description": grant.description.name(),
    })
}
