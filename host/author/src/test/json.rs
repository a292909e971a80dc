//! The report as JSON, for programs.

use serde_json::{Value, json};
use skillhost_conformance::{Check, Outcome, Report};

use super::total_time;

pub(super) fn json(report: &Report) -> Value {
    let (passed, failed, skipped) = report.counts();
    let written = report.written.iter();
    let written: Value = written.map(|file| file.display().to_string()).collect();
    json!({
        "component": report.component,
        "tools": report.tools,
        "passed": passed,
        "failed": failed,
        "skipped": skipped,
        "seconds": total_time(report).as_secs_f64(),
        "checks": report.checks.iter().map(check).collect::<Value>(),
        "written": written,
    })
}

fn check(check: &Check) -> Value {
    let (outcome, reason) = match &check.outcome {
        Outcome::Passed => ("passed", None),
        Outcome::Failed(reason) => ("failed", Some(reason)),
        Outcome::Skipped(reason) => ("skipped", Some(reason)),
    };
    json!({
        "id": check.id,
        "tool": check.tool,
        "case": check.case,
        "sentence": check.sentence,
        "outcome": outcome,
        "why": reason.map(|reason| &reason.why),
        "mend": reason.map(|reason| &reason.fix),
        "trace": check.trace,
        "seconds": check.time.as_secs_f64(),
    })
}
