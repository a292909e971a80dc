//! docs/performance.md shows the run whose figures stand beside it.

use std::fs;
use std::process::Command;

use crate::support::repository;

/// What `bench/compare` makes of the figures in `docs/performance.json`.
fn shown(form: &str) -> String {
    let done = Command::new("python3")
        .current_dir(repository())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg("bench/compare/compare.py")
        .args(["--from", "docs/performance.json", "--output", form])
        .output()
        .expect("there is no `python3` on the PATH: install Python 3 to run the tests");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn the_table_and_the_picture_are_those_of_the_run_beside_them() {
    let page = fs::read_to_string(repository().join("docs/performance.md")).unwrap();
    let rewrite = "rewrite it with `bench/compare/run --from docs/performance.json --to \
                   docs/performance --page docs/performance.md`";
    assert!(page.contains(&shown("markdown")), "the table: {rewrite}");
    let picture = fs::read_to_string(repository().join("docs/performance.svg")).unwrap();
    assert!(picture == shown("svg"), "the picture: {rewrite}");
}

#[test]
fn the_run_is_a_whole_one() {
    let figures = fs::read_to_string(repository().join("docs/performance.json")).unwrap();
    let figures: serde_json::Value = serde_json::from_str(&figures).unwrap();
    assert_eq!(figures["quick"], false);
    let rows = figures["rows"].as_array().unwrap();
    // Of `bench/compare/run`, and of the targets.
    assert_eq!(rows.len(), 28);
    let targets = rows.iter().filter(|row| !row["target"].is_null());
    assert_eq!(targets.count(), 15);
}
