//! The help of the program: its verbs in groups, by task.

use clap::Command;
use clap::builder::Styles;
use skillhost_program::terminal;

/// The verbs, by task. A test checks that each is in one group.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Find and check skills",
        &["skills", "find", "check", "prompt"],
    ),
    ("Call tools", &["call", "tools", "runners", "respond"]),
    ("Serve agents", &["serve", "clients", "warm"]),
    ("Control what tools may do", &["grants", "inspect", "audit"]),
    (
        "Add tools from registries",
        &[
            "add", "requests", "update", "rollback", "deny", "remove", "fetch", "lock", "store",
            "bundle",
        ],
    ),
    (
        "Write tools",
        &[
            "new",
            "build",
            "dev",
            "test",
            "push",
            "add-library",
            "remove-library",
        ],
    ),
];

/// The maximum number of columns, as for the options (`max_term_width`).
const MAX_WIDTH: usize = 100;

/// Shows the verbs in groups in the help of the program.
pub(crate) fn add(program: Command) -> Command {
    let template = template(&program);
    program.help_template(template)
}

/// Returns the help template of the program. The verbs are subcommands of `program`.
fn template(program: &Command) -> String {
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let width = terminal::width().min(MAX_WIDTH);
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let name_width = names.map(|name| name.len()).max().unwrap_or(0);
    let mut template = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        template.push_str(&format!("\n{header}{title}:{header:#}\n"));
        for name in names {
            let about = program.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let padding = " ".repeat(name_width - name.len());
            let mut start = format!("  {literal}{name}{literal:#}{padding}  ");
            for line in terminal::wrap(&about, width.saturating_sub(name_width + 4)) {
                template.push_str(&format!("{start}{line}\n"));
                start = " ".repeat(name_width + 4);
            }
        }
    }
    template + &format!("\n{header}Options:{header:#}\n{{options}}{{after-help}}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn each_verb_is_in_one_group() {
        let command = crate::CommandLine::command();
        let verbs = command.get_subcommands().map(Command::get_name);
        let verbs: BTreeSet<&str> = verbs.collect();
        let grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), verbs);
        assert_eq!(grouped.len(), verbs.len());
    }
}
