//! `push --dry-run`: the problems that others would have with a component.

use serde_json::Value;

use super::*;
use crate::hostile_components::{component_with_import, listing_of};

/// Reviews a component, and returns the exit code and the report.
fn review(user: &User, component: &[u8], arguments: &[&str]) -> (i32, Value) {
    user.program.write("dist/csv.wasm", component);
    let mut all = vec!["push", "--dry-run", "--output", "json"];
    all.extend(arguments);
    let run = user.run(&all);
    let report = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    (run.code, report)
}

fn ids(report: &Value, level: &str) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let findings = findings.filter(|it| it["level"] == level);
    let ids = findings.map(|it| it["id"].as_str().unwrap().to_owned());
    ids.collect()
}

#[test]
fn dry_run_reports_problems_and_pushes_nothing() {
    let user = User::new();
    user.new_key("acme");
    let reference = user.reference();
    let (code, report) = review(&user, &count_lines(), &[&reference]);
    assert_eq!(code, 0, "{report}");
    assert_eq!(ids(&report, "error"), [""; 0], "{report}");
    let warnings = ids(&report, "warning");
    for id in ["no-cases", "unsigned", "no-source"] {
        assert!(warnings.contains(&id.to_owned()), "{id}: {report}");
    }
    assert_eq!(report["warnings"], warnings.len());
    user.program.write("cases/one.json", "[]");
    let (_, report) = review(&user, &count_lines(), &[&reference, "--key", "acme.key"]);
    for id in ["no-cases", "unsigned"] {
        assert!(
            !ids(&report, "warning").contains(&id.to_owned()),
            "{report}"
        );
    }
    let shown = user.run_ok(&["push", "--dry-run", &reference]);
    let no_source =
        "warning: the component's metadata has no URL of the source [no-source]\n  add the URL";
    assert!(shown.contains(no_source), "{shown}");
    let total = format!("{reference}: 0 errors, ");
    assert!(
        shown.contains(&total) && shown.ends_with("; nothing was pushed\n"),
        "{shown}"
    );
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
}

#[test]
fn reports_each_problem_as_error_or_warning() {
    let user = User::new();
    let (good, latest) = (user.reference(), "oci://registry.example/acme/csv");
    let with_digest = format!("oci://registry.example/acme/csv@sha256:{}", "0".repeat(64));
    let without_reason = needs().replace("reads forecasts", "");
    let built_in = fs::read(guests().join("../../../guest-tools/dist/get_skill.wasm")).unwrap();
    for (component, reference, error, warning) in [
        (count_lines(), &*with_digest, Some("no-tag"), None),
        (count_lines(), latest, None, Some("latest")),
        (built_in, &*good, Some("reserved-name"), None),
        (
            with_section(count_lines(), &without_reason),
            &*good,
            Some("invalid-needs"),
            None,
        ),
        (
            with_section(count_lines(), &needs()),
            &*good,
            None,
            Some("unused-requests"),
        ),
        (
            component_with_import("acme:evil/all", &listing_of(&[("fetch", "{}")])),
            &*good,
            Some("refused"),
            Some("unused-import"),
        ),
    ] {
        let (code, report) = review(&user, &component, &[reference]);
        let errors: Vec<&str> = error.into_iter().collect();
        assert_eq!(ids(&report, "error"), errors, "{report}");
        assert_eq!(code, i32::from(error.is_some()), "{report}");
        if let Some(warning) = warning {
            let found = ids(&report, "warning");
            assert!(found.contains(&warning.to_owned()), "{report}");
        }
    }
    let error = user.run_err(2, &["push", &good, "--output", "json"]);
    assert!(error.contains("--dry-run"), "{error}");
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
}
