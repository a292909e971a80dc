//! The report as JUnit XML, which continuous integration reads: a suite for the
//! component, for each tool, and for the cases.

use std::time::Duration;

use skillhost::Line;
use skillhost_conformance::{Check, Outcome, Reason, Report};

use super::total;
use skillhost_program::terminal::format_line;

pub(super) fn xml(report: &Report) -> Vec<Line> {
    let mut suites: Vec<(&str, Vec<&Check>)> = Vec::new();
    for check in &report.checks {
        let name = match (&check.case, &check.tool) {
            (Some(_), _) => "cases",
            (None, Some(tool)) => tool,
            (None, None) => "component",
        };
        match suites.iter_mut().find(|(suite, _)| *suite == name) {
            Some((_, checks)) => checks.push(check),
            None => suites.push((name, vec![check])),
        }
    }
    let mut xml = vec![format_line!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>")];
    let all: Vec<&Check> = report.checks.iter().collect();
    xml.push(format_line!(
        "<testsuites name=\"{}\"{}>",
        text(&report.component),
        counts(&all, total(report))
    ));
    for (name, checks) in suites {
        let time = checks.iter().map(|check| check.time).sum();
        xml.push(format_line!(
            "  <testsuite name=\"{}\"{}>",
            text(name),
            counts(&checks, time)
        ));
        for check in checks {
            xml.extend(testcase(name, check));
        }
        xml.push(format_line!("  </testsuite>"));
    }
    xml.push(format_line!("</testsuites>"));
    xml
}

fn counts(checks: &[&Check], time: Duration) -> String {
    let count = |is: fn(&Outcome) -> bool| checks.iter().filter(|check| is(&check.outcome)).count();
    format!(
        " tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{}\"",
        checks.len(),
        count(|outcome| matches!(outcome, Outcome::Failed(_))),
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        seconds(time)
    )
}

fn testcase(suite: &str, check: &Check) -> Vec<Line> {
    let start = format!(
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{}\"",
        text(suite),
        text(check.case.as_deref().unwrap_or(check.id)),
        seconds(check.time)
    );
    let child = match &check.outcome {
        Outcome::Passed => return vec![format_line!("{start}/>")],
        Outcome::Failed(Reason { why, fix }) => format!(
            "<failure type=\"{}\" message=\"{}\">{}&#10;{}&#10;{}{}</failure>",
            text(check.id),
            text(why),
            text(check.sentence),
            text(why),
            text(fix),
            trace(check)
        ),
        Outcome::Skipped(Reason { why, .. }) => format!("<skipped message=\"{}\"/>", text(why)),
    };
    vec![
        format_line!("{start}>"),
        format_line!("      {child}"),
        format_line!("    </testcase>"),
    ]
}

/// Returns the lines of a trace, each after a line break.
fn trace(check: &Check) -> String {
    let lines = check.trace.iter();
    lines.map(|line| format!("&#10;{}", text(line))).collect()
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// Escapes a text for an attribute or an element. A line holds no character that
/// XML cannot write: all of those are hidden ones.
fn text(text: &str) -> String {
    let text = Line::new(text).to_string();
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
