//! Pushes the folder of a skill.

use std::path::Path;

use anyhow::{Context as _, bail};
use skillhost::check::{Severity, check_folder};
use skillhost_packages::{
    PushedPackage, Reference, Registry, SigningKey, SkillMetadata, push_skill, read_skill_folder,
};
use skillhost_program::terminal::{self, format_line};

/// The maximum number of left-out files to list.
const MAX_NAMED: usize = 20;

/// Pushes a skill. Prints the files that are left out, and the findings of `skillhost check`.
///
/// # Errors
///
/// If `skillhost check` finds an error in the skill, or the registry refuses it.
pub(super) fn push(
    registry: &mut Registry,
    reference: &Reference,
    folder: &Path,
    key: Option<&SigningKey>,
) -> anyhow::Result<PushedPackage> {
    let skill = read_skill_folder(folder)?;
    let findings = check_folder(folder)
        .with_context(|| format!("cannot check the skill `{}`", folder.display()))?;
    for finding in &findings {
        let line = finding.line.map(|line| format!(":{line}"));
        terminal::say(&format_line!(
            "{}{}: {} [{}]",
            finding.file.as_deref().unwrap_or("SKILL.md"),
            line.unwrap_or_default(),
            finding.message,
            finding.rule
        ));
    }
    if findings.iter().any(|it| it.severity == Severity::Error) {
        bail!("`{}` has errors; fix them first", folder.display());
    }
    for path in skill.left_out.iter().take(MAX_NAMED) {
        terminal::say(&format_line!("left out: {path}"));
    }
    if let Some(more @ 1..) = skill.left_out.len().checked_sub(MAX_NAMED) {
        terminal::say(&format_line!("left out: and {more} more"));
    }
    let name = SkillMetadata::of(&skill.files).name.unwrap_or_default();
    if name != reference.last_name() {
        terminal::complain(format_args!(
            "the skill is `{name}` and the repository ends in `{}`: other programs expect the same \
             name",
            reference.last_name()
        ));
    }
    let pushed = push_skill(registry, reference, &skill.files, key);
    registry
        .explain_deadline(pushed)
        .with_context(|| format!("cannot push `{reference}`"))
}
