//! Runs the author's cases with `skillhost test`, and compares the outcomes with the previous
//! outcomes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use skillhost::Line;
use skillhost_helper::OWN_PROGRAM;

use skillhost_program::terminal::format_line;

/// The outcomes of cases and checks.
#[derive(Default)]
pub(super) struct Outcomes {
    /// Why each case or check failed, followed by the lines of its trace. `None` if it passed.
    by_name: BTreeMap<String, Option<Vec<String>>>,
    /// The checks that did not run, such as those after a failed one.
    skipped: BTreeSet<String>,
    /// The error that kept all cases from running.
    error: Option<String>,
}

/// Runs a component's checks and the cases of its project.
pub(super) fn run(folder: &Path, component: &Path) -> Outcomes {
    match test(folder, component) {
        Ok(report) => Outcomes {
            by_name: by_name(&report),
            skipped: checks(&report)
                .filter(|check| check["outcome"] == "skipped")
                .map(name)
                .collect(),
            error: None,
        },
        Err(error) => Outcomes {
            error: Some(error),
            ..Outcomes::default()
        },
    }
}

/// Returns the report of `skillhost test`, or its messages if there is none.
fn test(folder: &Path, component: &Path) -> Result<Value, String> {
    let run = || {
        let mut command = skillhost_helper::command(OWN_PROGRAM.as_ref());
        // Run a separate process, because a case may use up the memory. The process starts in the
        // project's folder, to read the configuration there.
        command
            .envs(std::env::vars_os())
            .current_dir(folder)
            .arg("test")
            .arg(component.canonicalize()?)
            .args(["--output", "json"]);
        if folder.join("cases").is_dir() {
            command.args(["--cases", "cases"]);
        }
        command.stdin(Stdio::null()).output()
    };
    let output = run().map_err(|error: io::Error| error.to_string())?;
    serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

fn checks(report: &Value) -> impl Iterator<Item = &Value> {
    report["checks"].as_array().into_iter().flatten()
}

fn text(check: &Value, key: &str) -> String {
    check[key].as_str().unwrap_or_default().to_owned()
}

/// Returns the name of a case or check.
fn name(check: &Value) -> String {
    match check["case"].as_str() {
        Some(case) => format!("case `{case}`"),
        None => format!("check `{}` of `{}`", text(check, "id"), text(check, "tool")),
    }
}

fn by_name(report: &Value) -> BTreeMap<String, Option<Vec<String>>> {
    checks(report)
        .filter(|check| check["outcome"] != "skipped")
        .map(|check| {
            let failed = check["outcome"] == "failed";
            let trace = check["trace"].as_array().into_iter().flatten();
            let trace = trace.filter_map(Value::as_str).map(str::to_owned);
            let reason = || std::iter::once(text(check, "why")).chain(trace).collect();
            (name(check), failed.then(reason))
        })
        .collect()
}

impl Outcomes {
    /// Returns a line for each failure and each change in `now`, and a last line that says how many
    /// cases and checks pass.
    pub(super) fn difference(&self, now: &Self) -> Vec<Line> {
        if let Some(error) = &now.error {
            let first = format_line!("no case was run:");
            let error = error.lines().map(|line| format_line!("  {line}"));
            return std::iter::once(first).chain(error).collect();
        }
        let mut lines = Vec::new();
        let (mut resumed, mut skipped) = (0, 0);
        for (name, failure) in &now.by_name {
            match (self.by_name.get(name), failure) {
                (previous, Some(failure)) => {
                    let failed_before = matches!(previous, Some(Some(_)));
                    lines.extend(failure_lines(name, failure, failed_before));
                }
                (Some(Some(_)), None) => lines.push(format_line!("  {name}: passes now")),
                (None, None) if self.skipped.contains(name) => resumed += 1,
                (None, None) if !self.by_name.is_empty() => {
                    lines.push(format_line!("  {name}: new, passes"));
                }
                _ => {}
            }
        }
        for name in self.by_name.keys() {
            if now.skipped.contains(name) {
                skipped += 1;
            } else if !now.by_name.contains_key(name) {
                lines.push(format_line!("  {name}: gone"));
            }
        }
        if skipped > 0 {
            lines.push(format_line!(
                "  checks that are skipped now: {skipped}; `skillhost test` says why"
            ));
        }
        if resumed > 0 {
            lines.push(format_line!("  checks that run again, and pass: {resumed}"));
        }
        let passed = now
            .by_name
            .values()
            .filter(|failure| failure.is_none())
            .count();
        lines.push(format_line!("{passed} of {} pass", now.by_name.len()));
        lines
    }
}

/// Returns the lines about a failed case or check: its reason, and its trace.
fn failure_lines(name: &str, failure: &[String], failed_before: bool) -> Vec<Line> {
    let word = if failed_before {
        "still fails"
    } else {
        "fails"
    };
    let (reason, trace) = failure.split_first().unzip();
    let reason = reason.map_or("", String::as_str);
    let first = format_line!("  {name}: {word}: {reason}");
    let trace = trace.into_iter().flatten();
    std::iter::once(first)
        .chain(trace.map(|line| format_line!("    {line}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the lines of a text: a reason, and a trace.
    fn reason(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn outcomes(cases: &[(&str, Option<&str>)]) -> Outcomes {
        let by_name = cases.iter();
        let by_name = by_name.map(|(name, failure)| ((*name).to_owned(), failure.map(reason)));
        Outcomes {
            by_name: by_name.collect(),
            ..Outcomes::default()
        }
    }

    #[test]
    fn shows_failures_and_changes() {
        let difference = |before: &Outcomes, now: &Outcomes| {
            let lines = before.difference(now).into_iter();
            lines.map(|line| format!("{line}\n")).collect::<String>()
        };
        let first = outcomes(&[
            ("a", None),
            ("b", Some("x\nat")),
            ("c", Some("y")),
            ("d", None),
        ]);
        assert_eq!(
            difference(&Outcomes::default(), &first),
            "  b: fails: x\n    at\n  c: fails: y\n2 of 4 pass\n"
        );
        let second = outcomes(&[("a", Some("z")), ("b", None), ("c", Some("y")), ("e", None)]);
        assert_eq!(
            difference(&first, &second),
            "  a: fails: z\n  b: passes now\n  c: still fails: y\n  e: new, passes\n  d: gone\n2 of 4 pass\n"
        );
        assert_eq!(
            difference(&second, &second),
            "  a: still fails: z\n  c: still fails: y\n2 of 4 pass\n"
        );
        let mut third = outcomes(&[("b", Some("x"))]);
        third.skipped = ["a", "c", "e"].map(str::to_owned).into();
        assert_eq!(
            difference(&second, &third),
            "  b: fails: x\n  checks that are skipped now: 3; `skillhost test` says why\n0 of 1 pass\n"
        );
        let fourth = outcomes(&[("a", None), ("b", None), ("c", Some("y"))]);
        assert_eq!(
            difference(&third, &fourth),
            "  b: passes now\n  c: fails: y\n  checks that run again, and pass: 1\n2 of 3 pass\n"
        );
    }

    #[test]
    fn reads_cases_and_checks_of_report() {
        let report = json!({"checks": [
            {"case": "one", "outcome": "passed"},
            {"id": "stable", "tool": "t", "outcome": "failed", "why": "it is not", "trace": ["at"]},
            {"id": "other", "tool": "t", "outcome": "skipped"},
        ]});
        let outcomes = by_name(&report);
        assert_eq!(outcomes.len(), 2);
        assert_eq!(outcomes["case `one`"], None);
        assert_eq!(
            outcomes["check `stable` of `t`"],
            Some(reason("it is not\nat"))
        );
    }
}
