//! A report as XML in the form that JUnit's has, which continuous integration
//! reads: a suite for the component, for each tool, and for the cases.

use std::time::Duration;

use skillhost::conformance::{Check, Outcome, Reason, Report};

use super::total;

pub(super) fn xml(report: &Report) -> String {
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
    let mut xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let all: Vec<&Check> = report.checks.iter().collect();
    xml += &format!(
        "<testsuites name=\"{}\"{}>\n",
        escaped(&report.component),
        counts(&all, total(report))
    );
    for (name, checks) in suites {
        let time = checks.iter().map(|check| check.time).sum();
        xml += &format!(
            "  <testsuite name=\"{}\"{}>\n",
            escaped(name),
            counts(&checks, time)
        );
        for check in checks {
            xml += &testcase(name, check);
        }
        xml += "  </testsuite>\n";
    }
    xml + "</testsuites>\n"
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

fn testcase(suite: &str, check: &Check) -> String {
    let start = format!(
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{}\"",
        escaped(suite),
        escaped(check.case.as_deref().unwrap_or(check.id)),
        seconds(check.time)
    );
    let child = match &check.outcome {
        Outcome::Passed => return start + "/>\n",
        Outcome::Failed(Reason { why, mend }) => format!(
            "<failure type=\"{}\" message=\"{}\">{}</failure>",
            escaped(check.id),
            escaped(why),
            escaped(&format!("{}\n{why}\n{mend}", check.sentence))
        ),
        Outcome::Skipped(Reason { why, .. }) => format!("<skipped message=\"{}\"/>", escaped(why)),
    };
    format!("{start}>\n      {child}\n    </testcase>\n")
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// For an attribute or a text. What XML has no way to write stands as an escape
/// that can be read.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // As they are, a reader would make spaces of them.
            '\t' | '\n' | '\r' => escaped.push_str(&format!("&#{};", u32::from(c))),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                escaped.extend(c.escape_unicode());
            }
            c => escaped.push(c),
        }
    }
    escaped
}
