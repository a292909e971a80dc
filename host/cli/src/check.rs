//! `skillhost check`: checks skills against the Agent Skills specification. `check/scripts.rs`
//! asks a script runner about their scripts. `check/text.rs` and `check/sarif.rs` format the
//! findings.

mod ignored_keys;
mod sarif;
mod scripts;
mod text;

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use skillhost::check::{Finding, Severity, check_folder, rules};
use skillhost::{Catalog, SkillsRoot};
use skillhost_skills::skill_md::is_skill_md;

use crate::packages;
use crate::settings::Settings;
use scripts::{ScriptChecker, ScriptReport};
use skillhost_program::exit::Exit;
use skillhost_program::options::{self, CommonOptions};
use skillhost_program::progress::ItemProgress;
use skillhost_program::terminal::{self, format_line};

/// Check skills against the Agent Skills specification
#[derive(Args)]
pub(crate) struct CheckCommand {
    /// The paths to check: a SKILL.md, a skill's folder, or a folder of skills, searched
    /// down to `--depth`; repeatable [default: all skills of the catalog]
    #[arg(value_name = "PATH")]
    targets: Vec<PathBuf>,
    /// Form of the findings
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    output: CheckFormat,
    /// Report errors only
    #[arg(long)]
    errors: bool,
    /// Leave out the findings of this rule; repeatable
    #[arg(
        long,
        value_name = "RULE",
        value_parser = PossibleValuesParser::new(rules().map(|rule| rule.id)),
        hide_possible_values = true
    )]
    ignore: Vec<String>,
    /// Print each finding, even if a rule has many
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    options: CommonOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum CheckFormat {
    /// Lines for people, and a summary by rule
    Text,
    /// JSON for programs
    Json,
    /// SARIF 2.1.0, for code hosts and editors
    Sarif,
}

/// A skill with its findings.
struct CheckedSkill {
    /// The name of the skill, or the path of the target.
    skill: String,
    /// The skill's folder, or the target if it is not a skill.
    folder: PathBuf,
    findings: Vec<Finding>,
    scripts: Option<ScriptReport>,
}

impl CheckedSkill {
    fn new(skill: String, folder: PathBuf, findings: Vec<Finding>) -> Self {
        Self {
            skill,
            folder,
            findings,
            scripts: None,
        }
    }
}

impl CheckCommand {
    pub(crate) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let mut checked = Vec::new();
        if self.targets.is_empty() {
            let Settings { host: config, .. } = packages::load(&options)?;
            options.report_replaceable_folders(&config);
            let catalog = options::open_catalog(&config)?;
            options::report_advice(&catalog);
            check_catalog(&catalog, None, &mut checked);
            if !checked.is_empty()
                && let Some(checker) = ScriptChecker::load(&options, config).await
            {
                let mut progress = ItemProgress::new();
                let total = checked.len();
                for (number, checked) in checked.iter_mut().enumerate() {
                    show_progress(&mut progress, number, total, &checked.skill);
                    checked.scripts = checker.report(&checked.skill).await;
                }
            }
        }
        for target in &self.targets {
            check_target(options.root(target), &mut checked);
        }
        for checked in &mut checked {
            checked
                .findings
                .retain(|finding| self.should_report(finding));
        }
        match self.output {
            CheckFormat::Text => text::print(&checked, self.all)?,
            CheckFormat::Json => terminal::print_json(&to_json(&checked))?,
            CheckFormat::Sarif => terminal::print_json(&sarif::log(&checked)?)?,
        }
        Ok(
            if checked.is_empty() || count(&checked, Severity::Error) > 0 {
                Exit::Failure
            } else {
                Exit::Ok
            },
        )
    }

    /// Returns whether the options allow a finding in the report.
    fn should_report(&self, finding: &Finding) -> bool {
        let is_ignored = self.ignore.iter().any(|rule| rule == finding.rule);
        !is_ignored && (!self.errors || finding.severity == Severity::Error)
    }
}

fn show_progress(progress: &mut ItemProgress, number: usize, total: usize, skill: &str) {
    progress.show(|| format_line!("checking {number} of {total}: {}", terminal::name(skill)));
}

/// Checks all skills of a catalog. Their names are shown as paths in `folder`, if it is given.
fn check_catalog(catalog: &Catalog, folder: Option<&Path>, into: &mut Vec<CheckedSkill>) {
    for problem in catalog.problems() {
        terminal::complain(problem);
    }
    let names = catalog.names();
    let mut progress = ItemProgress::new();
    let total = names.len();
    for (number, name) in names.into_iter().enumerate() {
        show_progress(&mut progress, number, total, &name);
        // The skill may have been removed since it was listed.
        if let Some(findings) = catalog.check(&name) {
            let path = catalog.folder_path(&name).unwrap_or_default();
            let skill = match folder {
                Some(folder) => {
                    let path = catalog.path_in_root(&name);
                    folder.join(path.unwrap_or(name)).display().to_string()
                }
                None => name,
            };
            let findings = findings.unwrap_or_else(unreadable);
            into.push(CheckedSkill::new(skill, path, findings));
        }
    }
}

/// Checks a SKILL.md, a skill's folder or a folder of skills.
fn check_target(root: SkillsRoot, into: &mut Vec<CheckedSkill>) {
    let target = &*root.path.clone();
    let mut add = |folder: &Path, findings| {
        let skill = target.display().to_string();
        into.push(CheckedSkill::new(skill, folder.to_owned(), findings));
    };
    let names_skill_md = target.file_name().is_some_and(is_skill_md);
    // A dangling symlink with this name is treated as a SKILL.md too.
    if names_skill_md && !target.is_dir() {
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let findings = check_file(target, folder).unwrap_or_else(unreadable);
        return add(folder, findings);
    }
    if std::fs::metadata(target).is_ok_and(|metadata| !metadata.is_dir()) {
        let error = target_error("it is neither a SKILL.md nor a folder".to_owned());
        return add(target, vec![error]);
    }
    match Catalog::open(&[root], None).map(|catalog| catalog.hard_links(true)) {
        Ok(catalog) if !catalog.is_skill() && catalog.has_skills() => {
            check_catalog(&catalog, Some(target), into);
        }
        Ok(catalog) if !catalog.is_skill() => {
            let errors = catalog.advice().into_iter().map(target_error);
            add(target, errors.collect());
        }
        _ => add(target, check_folder(target).unwrap_or_else(unreadable)),
    }
}

/// Checks the skill in the folder of a SKILL.md. If the folder also has the name in another
/// spelling, such as `skill.md`, checks the one that tools read.
fn check_file(file: &Path, folder: &Path) -> std::io::Result<Vec<Finding>> {
    std::fs::symlink_metadata(file)?;
    check_folder(folder)
}

fn target_error(message: String) -> Finding {
    Finding::error("no-skill", None, message)
}

fn unreadable(error: std::io::Error) -> Vec<Finding> {
    let message = format!("cannot read the skill: {error}");
    vec![Finding::error("unreadable", None, message)]
}

fn to_json(checked: &[CheckedSkill]) -> Value {
    let finding = |finding: &Finding| {
        let mut record = json!({
            "severity": severity_name(finding.severity),
            "line": finding.line,
            "rule": finding.rule,
            "message": finding.message,
        });
        if let Some(file) = &finding.file {
            record["file"] = json!(file);
        }
        record
    };
    checked
        .iter()
        .map(|checked| {
            let findings: Value = checked.findings.iter().map(finding).collect();
            let mut record = json!({ "skill": checked.skill, "findings": findings });
            if let Some(report) = &checked.scripts {
                record["scripts"] = report.record().clone();
            }
            record
        })
        .collect()
}

fn count(checked: &[CheckedSkill], severity: Severity) -> usize {
    let findings = checked.iter().flat_map(|checked| &checked.findings);
    findings
        .filter(|finding| finding.severity == severity)
        .count()
}

/// Returns the name of a severity, which is also its level in SARIF.
fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}
