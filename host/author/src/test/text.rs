//! The report for people: a line for each check, followed by the reason if it did not pass.

use skillhost::Line;
use skillhost_conformance::{Check, Outcome, Reason, Report};

use super::total_time;
use skillhost_program::terminal::format_line;

pub(super) fn lines(report: &Report) -> Vec<Line> {
    let mut lines = vec![Line::new(&report.component)];
    let width = report.checks.iter().map(|check| check.id.len()).max();
    let width = width.unwrap_or(0);
    let mut group = None;
    for check in &report.checks {
        let title = title(check);
        if group != Some(title) {
            lines.push(Line::default());
            lines.push(Line::new(title));
            group = Some(title);
        }
        let (word, reason) = match &check.outcome {
            Outcome::Passed => ("pass", None),
            Outcome::Failed(reason) => ("FAIL", Some(reason)),
            Outcome::Skipped(reason) => ("skip", Some(reason)),
        };
        let subject = check.case.as_deref().unwrap_or(check.sentence);
        lines.push(format_line!("  {word}  {:width$}  {subject}", check.id));
        if let Some(Reason { why, fix }) = reason {
            lines.push(format_line!("        why: {why}"));
            if !fix.is_empty() {
                lines.push(format_line!("        fix: {fix}"));
            }
        }
        let trace = check.trace.iter();
        lines.extend(trace.map(|line| format_line!("        {line}")));
    }
    let (passed, failed, skipped) = report.counts();
    let seconds = total_time(report).as_secs_f64();
    lines.push(Line::default());
    lines.push(format_line!(
        "{passed} passed, {failed} failed, {skipped} skipped in {seconds:.1} s"
    ));
    lines
}

/// Returns the heading of a check's group.
fn title(check: &Check) -> &str {
    match (&check.case, &check.tool) {
        (Some(_), _) => "cases",
        (None, Some(tool)) => tool,
        (None, None) => "component",
    }
}
