//! `skillhost check`: checks skills against the Agent Skills specification.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use skillhost::Line;
use skillhost::check::{Finding, Severity, check_folder};

use crate::exit::Exit;
use crate::options::{CommonOptions, ReportFormat};
use crate::terminal::{self, format_line};

/// Check skills against the Agent Skills specification
#[derive(Args)]
pub(crate) struct CheckCommand {
    /// Skill folders to check [default: all skills of the catalog]
    #[arg(value_name = "SKILL_DIR")]
    folders: Vec<PathBuf>,
    /// Form of the findings
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
    #[command(flatten)]
    options: CommonOptions,
}

/// A skill and the findings in it.
struct CheckedSkill {
    skill: String,
    findings: Vec<Finding>,
}

impl CheckCommand {
    pub(crate) fn execute(mut self, before: CommonOptions) -> anyhow::Result<Exit> {
        let options = before.and(std::mem::take(&mut self.options));
        let checked = if self.folders.is_empty() {
            check_catalog(&options)?
        } else {
            self.folders
                .iter()
                .map(|folder| check_one(folder))
                .collect()
        };
        match self.output {
            ReportFormat::Text => print_text(&checked)?,
            ReportFormat::Json => terminal::print_json(&to_json(&checked))?,
        }
        Ok(if count(&checked, Severity::Error) > 0 {
            Exit::Failure
        } else {
            Exit::Ok
        })
    }
}

fn check_catalog(options: &CommonOptions) -> anyhow::Result<Vec<CheckedSkill>> {
    let catalog = options.catalog()?;
    let checked = catalog.names().into_iter().filter_map(|skill| {
        let findings = catalog.check(&skill)?.unwrap_or_else(unreadable);
        Some(CheckedSkill { skill, findings })
    });
    Ok(checked.collect())
}

fn check_one(folder: &Path) -> CheckedSkill {
    CheckedSkill {
        skill: folder.display().to_string(),
        findings: check_folder(folder).unwrap_or_else(unreadable),
    }
}

fn unreadable(error: std::io::Error) -> Vec<Finding> {
    vec![Finding {
        severity: Severity::Error,
        line: None,
        rule: "unreadable",
        message: format!("cannot read the skill: {error}"),
    }]
}

fn print_text(checked: &[CheckedSkill]) -> anyhow::Result<()> {
    let mut lines: Vec<Line> = Vec::new();
    for CheckedSkill { skill, findings } in checked {
        let skill = terminal::name(skill);
        for finding in findings {
            let line = finding
                .line
                .map(|line| format!(":{line}"))
                .unwrap_or_default();
            lines.push(format_line!(
                "{skill}{line}: {}: {} [{}]",
                word(finding.severity),
                finding.message,
                finding.rule
            ));
        }
    }
    terminal::print(&lines)?;
    let (errors, warnings) = (
        count(checked, Severity::Error),
        count(checked, Severity::Warning),
    );
    terminal::complain(format_args!(
        "checked {} skills: {errors} errors, {warnings} warnings",
        checked.len()
    ));
    Ok(())
}

fn to_json(checked: &[CheckedSkill]) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "severity": word(finding.severity),
            "line": finding.line,
            "rule": finding.rule,
            "message": finding.message,
        })
    };
    checked
        .iter()
        .map(|checked| {
            let findings: Value = checked.findings.iter().map(finding).collect();
            json!({ "skill": checked.skill, "findings": findings })
        })
        .collect()
}

fn count(checked: &[CheckedSkill], severity: Severity) -> usize {
    let findings = checked.iter().flat_map(|checked| &checked.findings);
    findings
        .filter(|finding| finding.severity == severity)
        .count()
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}
