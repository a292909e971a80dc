//! `skillhost grants`: shows what each tool may do, and what its component asks for.

mod compared_needs;
mod differences;
mod explain;

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use skillhost::limits::{LimitSet as _, Unit};
use skillhost::{DescriptionSource, EffectiveGrant, Host, Limits, Line, SecretUse};

use crate::packages;
use compared_needs::ComparedNeeds;
use explain::ExplainCommand;
use skillhost_egress::ASK;
use skillhost_program::exit::Exit;
use skillhost_program::inspect::secret_line;
use skillhost_program::options::{CommonOptions, ReportFormat};
use skillhost_program::terminal::{self, format_line};

/// The word for an empty list of powers.
const NONE: &str = "none";

/// Show which tools differ from the defaults, and in what: skills, network, limits, and more
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct GrantsCommand {
    #[command(subcommand)]
    verb: Option<GrantsVerb>,
    /// Show only these tools
    #[arg(value_name = "TOOL")]
    named: Vec<String>,
    /// Show all settings of each tool, not only those that differ from the defaults
    #[arg(long)]
    all: bool,
    /// Form of the grants; JSON has all settings
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
    /// Print JSON, as `--output json` does
    #[arg(long, conflicts_with = "output")]
    json: bool,
    #[command(flatten)]
    options: CommonOptions,
}

#[derive(Subcommand)]
enum GrantsVerb {
    Explain(ExplainCommand),
}

impl GrantsCommand {
    pub(crate) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        if let Some(GrantsVerb::Explain(explain)) = self.verb {
            return explain.execute(options).await;
        }
        let settings = packages::load(&options)?;
        let host = options.build_host_without_calls(settings.host).await?;
        let mut grants = host.grants();
        for named in &self.named {
            if find(&grants, named).is_none() {
                return Ok(Exit::Usage);
            }
        }
        grants.retain(|grant| self.named.is_empty() || self.named.contains(&grant.tool));
        let grants = with_needs(&host, &grants);
        let output = if self.json {
            ReportFormat::Json
        } else {
            self.output
        };
        match output {
            ReportFormat::Text if self.all => {
                let lines = grants.iter().flat_map(|(grant, needs)| lines(grant, needs));
                terminal::print(&lines.collect::<Vec<Line>>())?;
            }
            ReportFormat::Text => terminal::print(&differences::lines(&grants))?,
            ReportFormat::Json => {
                let grants = grants.iter().map(|(grant, needs)| to_json(grant, needs));
                terminal::print_json(&grants.collect())?;
            }
        }
        Ok(Exit::Ok)
    }
}

/// Returns the grant of a tool, or reports that the tool is unknown.
fn find<'a>(grants: &'a [EffectiveGrant], tool: &str) -> Option<&'a EffectiveGrant> {
    let found = grants.iter().find(|grant| grant.tool == tool);
    if found.is_none() {
        let names: Vec<&str> = grants.iter().map(|grant| &*grant.tool).collect();
        terminal::complain(format_args!(
            "there is no tool `{tool}`; the tools are {}",
            names.join(", ")
        ));
    }
    found
}

/// Returns grants, each with what its component asks for. Reads each component once.
fn with_needs<'a>(
    host: &Host,
    grants: &'a [EffectiveGrant],
) -> Vec<(&'a EffectiveGrant, ComparedNeeds)> {
    let mut components = BTreeMap::new();
    let grants = grants.iter().map(|grant| {
        let declared = components.entry(&grant.origin).or_insert_with(|| {
            let needs = host.needs(&grant.tool);
            needs.map_err(|error| format!("{error:#}"))
        });
        (grant, ComparedNeeds::new(declared, &grant.network))
    });
    grants.collect()
}

/// Returns a grant as lines for people.
fn lines(grant: &EffectiveGrant, needs: &ComparedNeeds) -> Vec<Line> {
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
        format_line!("  network: {}", network(grant, needs)),
    ];
    let addresses = private_addresses(grant);
    if !addresses.is_empty() {
        lines.push(format_line!("  private addresses: {addresses}"));
    }
    let secrets = grant.network.secrets();
    lines.extend(secrets.map(|secret| format_line!("  {}", secret_line(secret))));
    lines.extend(needs.lines());
    lines.push(format_line!("  limits: {}", described.join(", ")));
    if grant.description != DescriptionSource::Component {
        let source = grant.description.name();
        lines.push(format_line!("  description: replaced by the {source}'s"));
    }
    lines
}

/// Returns the granted requests in words.
fn network(grant: &EffectiveGrant, needs: &ComparedNeeds) -> String {
    if grant.network.asks() {
        return format!("{ASK}; a person decides at the first request to an origin");
    }
    let rules: Vec<String> = grant.network.rules().map(ToString::to_string).collect();
    if !rules.is_empty() {
        return rules.join("; ");
    }
    if needs.sends_requests == Some(true) {
        return "none; its requests are denied".to_owned();
    }
    NONE.to_owned()
}

/// Returns the granted addresses that are not public, in words.
fn private_addresses(grant: &EffectiveGrant) -> String {
    let addresses = grant.network.private_addresses();
    let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
    addresses.join(", ")
}

fn names(names: &[String]) -> String {
    if names.is_empty() {
        return NONE.to_owned();
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

fn to_json(grant: &EffectiveGrant, needs: &ComparedNeeds) -> Value {
    let network = &grant.network;
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
        "network": network.rules().map(ToString::to_string).collect::<Vec<_>>(),
        "network_asks": network.asks(),
        "network_private": network.private_addresses().map(ToString::to_string).collect::<Vec<_>>(),
        "secrets": network.secrets().map(secret_json).collect::<Value>(),
        "sends_requests": needs.sends_requests,
        "asks": needs.to_json(),
        "asks_ignored_for": needs.unknown_reason,
        "limits": limits,
        "description": grant.description.name(),
    })
}

/// Returns a secret without its value.
fn secret_json(secret: &SecretUse) -> Value {
    let hosts: Vec<String> = secret.hosts().collect();
    json!({"name": secret.name(), "header": secret.header(), "hosts": hosts})
}
