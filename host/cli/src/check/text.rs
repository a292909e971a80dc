//! The findings as lines for people. If there are many, prints only some of each rule, and the
//! number of the others, so that a person sees which kinds of problems there are.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use skillhost::Line;
use skillhost::check::{Finding, Severity, ignored_key};
use skillhost_program::terminal::{self, format_line};
use skillhost_skills::skill_md::is_skill_md;

use super::scripts::ScriptReport;
use super::{CheckedSkill, count, ignored_keys, severity_name};

/// The maximum number of findings for which every finding is printed.
const MAX_COMPLETE: usize = 50;

/// The maximum number of printed findings of one rule and skill, if there are many findings.
const MAX_PER_SKILL: usize = 3;

/// The maximum number of printed findings of one rule, if there are many findings.
const MAX_PER_RULE: usize = 10;

/// The number of findings, and of the skills that have them.
#[derive(Default)]
struct Total {
    findings: usize,
    skills: usize,
}

/// Prints the findings to stdout, and a summary by rule to stderr. `all` prints each finding.
pub(super) fn print(checked: &[CheckedSkill], all: bool) -> anyhow::Result<()> {
    let (lines, unprinted) = lines(checked, all);
    terminal::print(&lines)?;
    for line in summary(checked) {
        terminal::say(&line);
    }
    let counted = |number: usize, noun| match number {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    };
    let rest = match unprinted {
        0 => String::new(),
        number => format!("; `--all` prints {number} more findings"),
    };
    terminal::complain(format_args!(
        "checked {}: {}, {}{rest}",
        counted(checked.len(), "skill"),
        counted(count(checked, Severity::Error), "error"),
        counted(count(checked, Severity::Warning), "warning")
    ));
    Ok(())
}

/// Returns the lines for the findings, and the number of findings without a line.
fn lines(checked: &[CheckedSkill], all: bool) -> (Vec<Line>, usize) {
    // Keys of other hosts have one line for all skills.
    let has_own_line = |finding: &&Finding| ignored_key(finding).is_none();
    let findings = checked.iter().flat_map(|checked| &checked.findings);
    let total = findings.filter(has_own_line).count();
    let all = all || total <= MAX_COMPLETE;
    let mut lines = Vec::new();
    let mut printed: BTreeMap<&str, usize> = BTreeMap::new();
    // By rule: the findings of those skills for which no finding of the rule is printed.
    let mut in_unprinted_skills: BTreeMap<&str, Total> = BTreeMap::new();
    let mut unprinted = 0;
    for checked in checked {
        // The numbers of printed and unprinted findings of this skill, by rule.
        let mut by_rule: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for finding in checked.findings.iter().filter(has_own_line) {
            let printed_of_rule = printed.entry(finding.rule).or_default();
            let (printed_of_skill, unprinted_of_skill) = by_rule.entry(finding.rule).or_default();
            if all || *printed_of_rule < MAX_PER_RULE && *printed_of_skill < MAX_PER_SKILL {
                *printed_of_rule += 1;
                *printed_of_skill += 1;
                lines.push(finding_line(checked, finding));
            } else {
                *unprinted_of_skill += 1;
            }
        }
        let skill = terminal::name(&checked.skill);
        for (rule, (printed, others)) in by_rule {
            unprinted += others;
            if others > 0 && printed > 0 {
                lines.push(format_line!("{skill}: and {others} more [{rule}]"));
            } else if others > 0 {
                let total = in_unprinted_skills.entry(rule).or_default();
                total.findings += others;
                total.skills += 1;
            }
        }
        let scripts = checked.scripts.iter().flat_map(ScriptReport::lines);
        lines.extend(scripts.map(|line| format_line!("{skill}: {line}")));
    }
    lines.extend(in_unprinted_skills.into_iter().map(|(rule, total)| {
        let Total { findings, skills } = total;
        let noun = if skills == 1 { "skill" } else { "skills" };
        format_line!("and {findings} more in {skills} {noun} [{rule}]")
    }));
    lines.extend(ignored_keys::line(checked));
    (lines, unprinted)
}

fn finding_line(checked: &CheckedSkill, finding: &Finding) -> Line {
    let skill = match &finding.file {
        Some(file) => {
            let skill = Path::new(&checked.skill);
            let is_file = skill.file_name().is_some_and(is_skill_md) && !skill.is_dir();
            let folder = skill.parent().filter(|_| is_file).unwrap_or(skill);
            terminal::name(&folder.join(file).display().to_string())
        }
        None => terminal::name(&checked.skill),
    };
    let line = finding.line.map(|line| format!(":{line}"));
    format_line!(
        "{skill}{}: {}: {} [{}]",
        line.unwrap_or_default(),
        severity_name(finding.severity),
        finding.message,
        finding.rule
    )
}

/// Returns a table with the number of findings and skills of each rule: errors first, then by
/// the number of findings. The table is empty if there are no findings.
fn summary(checked: &[CheckedSkill]) -> Vec<Line> {
    let mut rules: BTreeMap<(Severity, &str), Total> = BTreeMap::new();
    for checked in checked {
        let mut of_skill: BTreeMap<(Severity, &str), usize> = BTreeMap::new();
        for finding in &checked.findings {
            *of_skill
                .entry((finding.severity, finding.rule))
                .or_default() += 1;
        }
        for (rule, findings) in of_skill {
            let total = rules.entry(rule).or_default();
            total.findings += findings;
            total.skills += 1;
        }
    }
    let mut rows: Vec<_> = rules.into_iter().collect();
    rows.sort_by_key(|((severity, _), total)| (Reverse(*severity), Reverse(total.findings)));
    let width = rows.iter().map(|((_, rule), _)| rule.len()).max();
    let Some(width) = width.map(|width| width.max("rule".len())) else {
        return Vec::new();
    };
    let head = format_line!("{:width$}  severity  findings  skills", "rule");
    let rows = rows.into_iter().map(|((severity, rule), total)| {
        let (severity, Total { findings, skills }) = (severity_name(severity), total);
        format_line!("{rule:width$}  {severity:8}  {findings:8}  {skills:6}")
    });
    std::iter::once(head).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(line: u32) -> Finding {
        Finding::warning("reference-missing", Some(line), "gone".to_owned())
    }

    fn skill(name: String, findings: Vec<Finding>) -> CheckedSkill {
        CheckedSkill::new(name, "a".into(), findings)
    }

    fn shown(checked: &[CheckedSkill], all: bool) -> (Vec<String>, usize) {
        let (lines, unprinted) = lines(checked, all);
        (lines.iter().map(Line::to_string).collect(), unprinted)
    }

    #[test]
    fn prints_all_of_few_findings() {
        let checked = [skill("a".to_owned(), (1..=50).map(missing).collect())];
        let (lines, unprinted) = shown(&checked, false);
        assert_eq!((lines.len(), unprinted), (50, 0));
        assert_eq!(lines[1], "a:2: warning: gone [reference-missing]");
    }

    #[test]
    fn folds_many_findings_of_a_rule() {
        let mut findings: Vec<_> = (1..=40).map(missing).collect();
        findings.push(Finding::error("name-folder", None, "other".to_owned()));
        let mut checked = vec![skill("a".to_owned(), findings)];
        for number in 0..20 {
            checked.push(skill(format!("b{number}"), vec![missing(1), missing(2)]));
        }
        let (lines, unprinted) = shown(&checked, false);
        let printed: Vec<_> = lines.iter().map(String::as_str).collect();
        assert_eq!(
            printed[2..7],
            [
                "a:3: warning: gone [reference-missing]",
                "a: error: other [name-folder]",
                "a: and 37 more [reference-missing]",
                "b0:1: warning: gone [reference-missing]",
                "b0:2: warning: gone [reference-missing]",
            ]
        );
        assert_eq!(
            printed[10..],
            [
                "b2:2: warning: gone [reference-missing]",
                "b3:1: warning: gone [reference-missing]",
                "b3: and 1 more [reference-missing]",
                "and 32 more in 16 skills [reference-missing]",
            ]
        );
        assert_eq!(unprinted, 37 + 1 + 32);
        let (lines, unprinted) = shown(&checked, true);
        assert_eq!((lines.len(), unprinted), (81, 0));
    }

    #[test]
    fn summary_counts_findings_and_skills_by_rule() {
        let error = |rule| Finding::error(rule, None, "x".to_owned());
        let checked = [
            skill(
                "a".to_owned(),
                vec![missing(1), missing(2), error("file-name")],
            ),
            skill(
                "b".to_owned(),
                vec![missing(1), error("name-folder"), error("name-folder")],
            ),
        ];
        let lines: Vec<_> = summary(&checked).iter().map(Line::to_string).collect();
        assert_eq!(
            lines,
            [
                "rule               severity  findings  skills",
                "name-folder        error            2       1",
                "file-name          error            1       1",
                "reference-missing  warning          3       2",
            ]
        );
        assert_eq!(summary(&[skill("a".to_owned(), Vec::new())]), []);
    }

    #[test]
    fn names_the_file_that_a_finding_is_in() {
        let finding = Finding {
            file: Some("b c.md".to_owned()),
            ..missing(4)
        };
        for (name, start) in [
            ("a", "\"a/b c.md\":4: warning: "),
            ("x/a/SKILL.md", "\"x/a/b c.md\":4: warning: "),
        ] {
            let checked = skill(name.to_owned(), Vec::new());
            let line = finding_line(&checked, &finding);
            assert!(line.as_str().starts_with(start), "{line}");
        }
    }
}
