//! The report as JUnit XML, for continuous integration: a test suite for the component, for each
//! tool, and for the cases.

use std::time::Duration;

use skillhost::Line;
use skillhost_conformance::{Check, Outcome, Reason, Report};

use super::total_time;
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
        escape(&report.component),
        counts(&all, total_time(report))
    ));
    for (name, checks) in suites {
        let time = checks.iter().map(|check| check.time).sum();
        xml.push(format_line!(
            "  <testsuite name=\"{}\"{}>",
            escape(name),
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
    let count = |is_counted: fn(&Outcome) -> bool| {
        checks
            .iter()
            .filter(|check| is_counted(&check.outcome))
            .count()
    };
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
        escape(suite),
        escape(check.case.as_deref().unwrap_or(check.id)),
        seconds(check.time)
    );
    let child = match &check.outcome {
        Outcome::Passed => return vec![format_line!("{start}/>")],
        Outcome::Failed(Reason { why, fix }) => format!(
            "<failure type=\"{}\" message=\"{}\">{}&#10;{}&#10;{}{}</failure>",
            escape(check.id),
            escape(why),
            escape(check.sentence),
            escape(why),
            escape(fix),
            trace(check)
        ),
        Outcome::Skipped(Reason { why, .. }) => format!("<skipped message=\"{}\"/>", escape(why)),
    };
    vec![
        format_line!("{start}>"),
        format_line!("      {child}"),
        format_line!("    </testcase>"),
    ]
}

/// Returns the lines of a trace, each with a line break before it.
fn trace(check: &Check) -> String {
    let lines = check.trace.iter();
    lines.map(|line| format!("&#10;{}", escape(line))).collect()
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// Escapes a text for an attribute or an element. [`Line`] already escapes the characters that XML
/// forbids.
fn escape(text: &str) -> String {
    let text = Line::new(text).to_string();
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
