//! A report for people: one line a check, and under it why it did not pass.

use skillhost::conformance::{Check, Outcome, Reason, Report};

use super::total;

pub(super) fn text(report: &Report) -> String {
    let mut lines = vec![line(&report.component)];
    let width = report.checks.iter().map(|check| check.id.len()).max();
    let width = width.unwrap_or(0);
    let mut group = None;
    for check in &report.checks {
        let new = title(check);
        if group.as_deref() != Some(new) {
            lines.push(String::new());
            lines.push(line(new));
            group = Some(new.to_owned());
        }
        let (word, reason) = match &check.outcome {
            Outcome::Passed => ("pass", None),
            Outcome::Failed(reason) => ("FAIL", Some(reason)),
            Outcome::Skipped(reason) => ("skip", Some(reason)),
        };
        let what = match &check.case {
            Some(case) => line(case),
            None => check.sentence.to_owned(),
        };
        lines.push(format!("  {word}  {:width$}  {what}", check.id));
        if let Some(Reason { why, mend }) = reason {
            lines.push(format!("        why:  {}", line(why)));
            if !mend.is_empty() {
                lines.push(format!("        mend: {}", line(mend)));
            }
        }
    }
    let (passed, failed, skipped) = report.counts();
    let seconds = total(report).as_secs_f64();
    lines.push(String::new());
    lines.push(format!(
        "{passed} passed, {failed} failed, {skipped} skipped in {seconds:.1} s"
    ));
    lines.join("\n") + "\n"
}

/// What a check stands under.
fn title(check: &Check) -> &str {
    match (&check.case, &check.tool) {
        (Some(_), _) => "cases",
        (None, Some(tool)) => tool,
        (None, None) => "component",
    }
}

/// On one line, so that nothing in it can pass for a line of ours.
fn line(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r")
}
