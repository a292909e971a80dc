//! The table of settings that differ from the defaults.

use skillhost::limits::LimitSet as _;
use skillhost::{DescriptionSource, EffectiveGrant, FolderAccess, Limits, Line};
use skillhost_program::inspect::secret_line;
use skillhost_program::terminal;

use super::asked::Asked;
use super::{NONE, allowed_word, network, private_addresses};

/// Returns the table, and a line about the tools without a row.
pub(super) fn lines(grants: &[(&EffectiveGrant, Asked)]) -> Vec<Line> {
    let mut rows = Vec::new();
    let mut unchanged = 0;
    for (grant, asked) in grants {
        let differences = differences(grant, asked);
        unchanged += usize::from(differences.is_empty());
        let row =
            |(setting, value): (&str, String)| [grant.tool.clone(), setting.to_owned(), value];
        rows.extend(differences.into_iter().map(row));
    }
    let mut lines = Vec::new();
    if !rows.is_empty() {
        lines = terminal::table(["TOOL", "SETTING", "VALUE"], &rows, terminal::width());
        lines.push(Line::default());
    }
    let defaults = "built-in tools read all skills, others none; no requests";
    let tools = match unchanged {
        0 => String::new(),
        1 => format!("1 tool has the defaults ({defaults}); "),
        _ => format!("{unchanged} tools have the defaults ({defaults}); "),
    };
    let summary = format!("{tools}`--all` shows everything");
    let summary = terminal::wrap(&summary, terminal::width());
    lines.extend(summary.iter().map(Line::new));
    lines
}

/// Returns each setting that differs from its default.
fn differences(grant: &EffectiveGrant, asked: &Asked) -> Vec<(&'static str, String)> {
    let is_built_in = !grant.origin.ends_with(".wasm");
    let mut differences = Vec::new();
    let mut compare = |setting, value: String, default: &str| {
        if value != default {
            differences.push((setting, value));
        }
    };
    compare(
        "skills",
        grant.skills.clone(),
        if is_built_in { "*" } else { NONE },
    );
    compare(
        "home folder",
        allowed_word(grant.home).to_owned(),
        allowed_word(is_built_in),
    );
    compare(
        "hard links",
        allowed_word(grant.hard_links).to_owned(),
        allowed_word(false),
    );
    compare("scripts", grant.scripts.clone(), NONE);
    compare(
        "view",
        grant.view.name().to_owned(),
        FolderAccess::default().name(),
    );
    compare("network", network(grant, asked), NONE);
    compare("private addresses", private_addresses(grant), "");
    for secret in grant.network.secrets() {
        compare("secret", secret_line(secret).to_string(), "");
    }
    for line in asked.powers() {
        compare("asks for", line.to_string(), "");
    }
    let defaults = Limits::default();
    let limits = Limits::TABLE.iter();
    let limits = limits.filter(|row| row.get(&grant.limits) != row.get(&defaults));
    let limits: Vec<String> = limits.map(|row| row.describe(&grant.limits)).collect();
    compare("limits", limits.join(", "), "");
    if grant.description != DescriptionSource::Component {
        let source = grant.description.name();
        compare("description", format!("replaced by the {source}'s"), "");
    }
    differences
}
