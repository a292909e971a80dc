//! Checks that docs/performance.md shows the figures of docs/performance.json.

use std::fs;
use std::process::Command;

use crate::support::process::output;
use crate::support::repository;

/// Returns the figures of `docs/performance.json` in an output format of `bench/compare`.
fn rendered(format: &str) -> String {
    let mut command = Command::new("python3");
    command
        .current_dir(repository())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg("bench/compare/compare.py")
        .args(["--from", "docs/performance.json", "--output", format]);
    // Needs Python 3 on the PATH.
    let done = output(&mut command);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn table_and_picture_show_current_figures() {
    let page = fs::read_to_string(repository().join("docs/performance.md")).unwrap();
    let rewrite = "rewrite it with `bench/compare/run --from docs/performance.json --to \
                   docs/performance --page docs/performance.md`";
    assert!(page.contains(&rendered("markdown")), "the table: {rewrite}");
    let picture = fs::read_to_string(repository().join("docs/performance.svg")).unwrap();
    assert!(picture == rendered("svg"), "the picture: {rewrite}");
}

#[test]
fn figures_come_from_complete_run() {
    let figures = fs::read_to_string(repository().join("docs/performance.json")).unwrap();
    let figures: serde_json::Value = serde_json::from_str(&figures).unwrap();
    assert_eq!(figures["quick"], false);
    let rows = figures["rows"].as_array().unwrap();
    // `bench/compare/run` makes this number of rows, and has this number of targets.
    assert_eq!(rows.len(), 28);
    let targets = rows.iter().filter(|row| !row["target"].is_null());
    assert_eq!(targets.count(), 15);
}
