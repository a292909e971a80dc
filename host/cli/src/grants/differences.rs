//! The table of settings that differ from the defaults.

use skillhost::limits::LimitSet as _;
use skillhost::{DescriptionSource, EffectiveGrant, FolderAccess, Limits, Line};
use skillhost_program::inspect::secret_line;
use skillhost_program::terminal;

use super::compared_needs::ComparedNeeds;
use super::{NONE, allowed_word, network, private_addresses};

/// Returns the table, and a line about the tools without a row.
pub(super) fn lines(grants: &[(&EffectiveGrant, ComparedNeeds)]) -> Vec<Line> {
    let mut rows = Vec::new();
    let mut unchanged = 0;
    for (grant, needs) in grants {
        let differences = differences(grant, needs);
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
fn differences(grant: &EffectiveGrant, needs: &ComparedNeeds) -> Vec<(&'static str, String)> {
    let is_built_in = !grant.origin.ends_with(".wasm");
    let mut differences = Vec::new();
    let mut add_if_different = |setting, value: String, default: &str| {
        if value != default {
            differences.push((setting, value));
        }
    };
    add_if_different(
        "skills",
        grant.skills.clone(),
        if is_built_in { "*" } else { NONE },
    );
    add_if_different(
        "home folder",
        allowed_word(grant.home).to_owned(),
        allowed_word(is_built_in),
    );
    add_if_different(
        "hard links",
        allowed_word(grant.hard_links).to_owned(),
        allowed_word(false),
    );
    add_if_different("scripts", grant.scripts.clone(), NONE);
    add_if_different(
        "view",
        grant.view.name().to_owned(),
        FolderAccess::default().name(),
    );
    add_if_different("network", network(grant, needs), NONE);
    add_if_different("private addresses", private_addresses(grant), "");
    for secret in grant.network.secrets() {
        add_if_different("secret", secret_line(secret).to_string(), "");
    }
    for line in needs.powers() {
        add_if_different("asks for", line.to_string(), "");
    }
    let defaults = Limits::default();
    let limits = Limits::TABLE.iter();
    let limits = limits.filter(|row| row.get(&grant.limits) != row.get(&defaults));
    let limits: Vec<String> = limits.map(|row| row.describe(&grant.limits)).collect();
    add_if_different("limits", limits.join(", "), "");
    if grant.description != DescriptionSource::Component {
        let source = grant.description.name();
        add_if_different("description", format!("replaced by the {source}'s"), "");
    }
    differences
}
