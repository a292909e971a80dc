//! Reports frontmatter keys of other hosts, in one line for all checked skills. A collection that
//! was written for another host has such keys in every skill.

use std::collections::BTreeSet;

use skillhost::Line;
use skillhost::check::ignored_key;

use super::CheckedSkill;
use skillhost_program::terminal::format_line;

/// Returns the line about the keys, or `None` if no skill has any.
pub(super) fn line(checked: &[CheckedSkill]) -> Option<Line> {
    let keys_of = |checked: &CheckedSkill| -> BTreeSet<&str> {
        checked.findings.iter().filter_map(ignored_key).collect()
    };
    let skills = checked.iter().map(keys_of).filter(|keys| !keys.is_empty());
    let skills: Vec<BTreeSet<&str>> = skills.collect();
    let keys: BTreeSet<&str> = skills.iter().flatten().copied().collect();
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    let have = match skills.len() {
        0 => return None,
        1 => "1 skill has".to_owned(),
        count => format!("{count} skills have"),
    };
    Some(format_line!(
        "{have} keys of other hosts, which skillhost ignores: {} [key-ignored]",
        keys.join(", ")
    ))
}
