//! `skillhost check`: checks skills against the Agent Skills specification. `check/` asks a
//! script runner about their scripts.

mod scripts;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use skillhost::check::{Finding, Severity, check_folder};
use skillhost::{Catalog, Line, SkillsRoot};
use skillhost_skills::skill_md::is_skill_md;

use crate::settings::Settings;
use scripts::{ScriptChecker, ScriptReport};
use skillhost_program::exit::Exit;
use skillhost_program::options::{self, CommonOptions, ReportFormat};
use skillhost_program::terminal::{self, format_line};

/// The minimum time between two updates of the progress line.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Check skills against the Agent Skills specification
#[derive(Args)]
pub(crate) struct CheckCommand {
    /// The paths to check: a SKILL.md, a skill's folder, or a folder of skills, searched
    /// down to `--depth`; repeatable [default: all skills of the catalog]
    #[arg(value_name = "PATH")]
    targets: Vec<PathBuf>,
    /// Form of the findings
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
    #[command(flatten)]
    options: CommonOptions,
}

/// A skill with its findings.
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
    pub(crate) async fn execute(mut self, outer: CommonOptions) -> anyhow::Result<Exit> {
        let options = outer.merge(std::mem::take(&mut self.options));
        let mut checked = Vec::new();
        if self.targets.is_empty() {
            let Settings { host: config, .. } = options.load()?;
            options.report_replaceable_folders(&config);
            let catalog = options::open_catalog(&config)?;
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

/// Checks all skills of a catalog. `folder` is shown before their names.
fn check_catalog(catalog: &Catalog, folder: Option<&Path>, into: &mut Vec<CheckedSkill>) {
    for problem in catalog.problems() {
        terminal::complain(problem);
    }
    let names = catalog.names();
    let mut progress = Progress::new(names.len());
    for (number, name) in names.into_iter().enumerate() {
        progress.show(number, &name);
        // The skill may have been removed since it was listed.
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
    // A dangling symlink counts as a SKILL.md too.
    if names_skill_md && !target.is_dir() {
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        return add(check_file(target, folder).unwrap_or_else(unreadable));
    }
    if std::fs::metadata(target).is_ok_and(|metadata| !metadata.is_dir()) {
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

/// Checks the skill of a SKILL.md. If the folder has several spellings of that name, the check
/// uses the one that tools read.
fn check_file(file: &Path, folder: &Path) -> std::io::Result<Vec<Finding>> {
    std::fs::symlink_metadata(file)?;
    check_folder(folder)
}

fn target_error(message: String) -> Finding {
    Finding::error("no-skill", None, message)
}

/// A progress line on a terminal.
struct Progress {
    total: usize,
    /// The time of the last update, or `None` if stderr is not a terminal.
    last_update: Option<Instant>,
}

impl Progress {
    fn new(total: usize) -> Self {
        let last_update = terminal::is_interactive().then(Instant::now);
        Self { total, last_update }
    }

    fn show(&mut self, number: usize, name: &str) {
        let is_due = |last: Instant| last.elapsed() >= PROGRESS_INTERVAL;
        if self.last_update.is_some_and(is_due) {
            let name = terminal::name(name);
            terminal::show_progress(&format_line!("checking {number} of {}: {name}", self.total));
            self.last_update = Some(Instant::now());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.last_update.is_some() {
            terminal::show_progress(&Line::default());
        }
    }
}

fn unreadable(error: std::io::Error) -> Vec<Finding> {
    let message = format!("cannot read the skill: {error}");
    vec![Finding::error("unreadable", None, message)]
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
                severity_name(finding.severity),
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
    let counted = |number: usize, noun| match number {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
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
            "severity": severity_name(finding.severity),
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

fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}
