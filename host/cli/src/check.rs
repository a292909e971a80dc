//! `skillhost check`: checks skills against the Agent Skills specification. `check/` asks a
//! loaded runner about their scripts.

mod scripts;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use skillhost::check::{Finding, Severity, check_folder};
use skillhost::internal::is_skill_md;
use skillhost::{Catalog, Line, SkillsRoot};

use scripts::{ScriptChecker, ScriptReport};
use skillhost_program::exit::Exit;
use skillhost_program::options::{self, CommonOptions, ReportFormat};
use skillhost_program::terminal::{self, format_line};

/// The time between two lines of progress.
const PROGRESS: Duration = Duration::from_millis(100);

/// Check skills against the Agent Skills specification
#[derive(Args)]
pub(crate) struct CheckCommand {
    /// What to check: a SKILL.md, a skill's folder, or a folder of skills, of which
    /// `--depth` says how deep they lie; repeatable [default: all skills of the
    /// catalog]
    #[arg(value_name = "PATH")]
    targets: Vec<PathBuf>,
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
    scripts: Option<ScriptReport>,
}

impl CheckedSkill {
    fn new(skill: String, findings: Vec<Finding>) -> Self {
        Self {
            skill,
            findings,
            scripts: None,
        }
    }
}

impl CheckCommand {
    pub(crate) async fn execute(mut self, before: CommonOptions) -> anyhow::Result<Exit> {
        let options = before.and(std::mem::take(&mut self.options));
        let mut checked = Vec::new();
        if self.targets.is_empty() {
            let config = options.configured()?;
            let catalog = options::catalog_of(&config)?;
            options::report_advice(&catalog);
            check_catalog(&catalog, None, &mut checked);
            if !checked.is_empty()
                && let Some(checker) = ScriptChecker::load(&options, config).await
            {
                let mut progress = Progress::new(checked.len());
                for (number, checked) in checked.iter_mut().enumerate() {
                    progress.show(number, &checked.skill);
                    checked.scripts = checker.report(&checked.skill).await;
                }
            }
        }
        for target in &self.targets {
            check_target(target, options.depth(), &mut checked);
        }
        match self.output {
            ReportFormat::Text => print_text(&checked)?,
            ReportFormat::Json => terminal::print_json(&to_json(&checked))?,
        }
        Ok(
            if checked.is_empty() || count(&checked, Severity::Error) > 0 {
                Exit::Failure
            } else {
                Exit::Ok
            },
        )
    }
}

/// Checks all skills of a catalog. `folder` stands before their names.
fn check_catalog(catalog: &Catalog, folder: Option<&Path>, into: &mut Vec<CheckedSkill>) {
    for problem in catalog.problems() {
        terminal::complain(problem);
    }
    let names = catalog.names();
    let mut progress = Progress::new(names.len());
    for (number, name) in names.into_iter().enumerate() {
        progress.show(number, &name);
        // It may have gone since.
        if let Some(findings) = catalog.check(&name) {
            let skill = match folder {
                Some(folder) => {
                    let path = catalog.path_in_root(&name);
                    folder.join(path.unwrap_or(name)).display().to_string()
                }
                None => name,
            };
            let findings = findings.unwrap_or_else(unreadable);
            into.push(CheckedSkill::new(skill, findings));
        }
    }
}

/// Checks a SKILL.md, a skill's folder or a folder of skills.
fn check_target(target: &Path, depth: usize, into: &mut Vec<CheckedSkill>) {
    let mut add = |findings| {
        let skill = target.display().to_string();
        into.push(CheckedSkill::new(skill, findings));
    };
    let names_skill_md = target.file_name().is_some_and(is_skill_md);
    // The path of a symlink that leads to nothing names a SKILL.md too.
    if names_skill_md && !target.is_dir() {
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        return add(check_file(target, folder).unwrap_or_else(unreadable));
    }
    if std::fs::metadata(target).is_ok_and(|found| !found.is_dir()) {
        return add(vec![target_error(
            "it is neither a SKILL.md nor a folder".to_owned(),
        )]);
    }
    let root = SkillsRoot {
        depth,
        ..SkillsRoot::new(target)
    };
    match Catalog::open(&[root], None).map(|catalog| catalog.hard_links(true)) {
        Ok(catalog) if !catalog.is_skill() && catalog.has_skills() => {
            check_catalog(&catalog, Some(target), into);
        }
        Ok(catalog) if !catalog.is_skill() => {
            add(catalog.advice().into_iter().map(target_error).collect());
        }
        _ => add(check_folder(target).unwrap_or_else(unreadable)),
    }
}

/// Checks the skill of a SKILL.md. A folder may have several spellings of it, of which
/// tools read one.
fn check_file(file: &Path, folder: &Path) -> std::io::Result<Vec<Finding>> {
    std::fs::symlink_metadata(file)?;
    check_folder(folder)
}

fn target_error(message: String) -> Finding {
    Finding {
        severity: Severity::Error,
        line: None,
        rule: "no-skill",
        message,
    }
}

/// A line of progress on a terminal.
struct Progress {
    all: usize,
    shown: Option<Instant>,
}

impl Progress {
    fn new(all: usize) -> Self {
        let shown = terminal::is_watched().then(Instant::now);
        Self { all, shown }
    }

    fn show(&mut self, number: usize, name: &str) {
        if self.shown.is_some_and(|shown| shown.elapsed() >= PROGRESS) {
            let name = terminal::name(name);
            terminal::show_progress(&format_line!("checking {number} of {}: {name}", self.all));
            self.shown = Some(Instant::now());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            terminal::show_progress(&Line::default());
        }
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
    for checked in checked {
        let skill = terminal::name(&checked.skill);
        for finding in &checked.findings {
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
        let scripts = checked.scripts.iter().flat_map(ScriptReport::lines);
        lines.extend(scripts.map(|line| format_line!("{skill}: {line}")));
    }
    terminal::print(&lines)?;
    let (errors, warnings) = (
        count(checked, Severity::Error),
        count(checked, Severity::Warning),
    );
    let counted = |number: usize, what| match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    };
    terminal::complain(format_args!(
        "checked {}: {}, {}",
        counted(checked.len(), "skill"),
        counted(errors, "error"),
        counted(warnings, "warning")
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

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}
