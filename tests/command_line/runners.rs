//! `skillhost runners` and `--tools runners`: the runners beside an installed program.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::guests;
use crate::support::process::output;
use crate::support::program::{Program, Run, command, finish};

/// Copies the program to `installed/bin`, and returns the path of the copy.
///
/// The copy looks for its runners in `installed/share`.
fn install(program: &Program) -> PathBuf {
    let installed = program.folder.path().join("installed/bin/skillhost");
    fs::create_dir_all(installed.parent().unwrap()).unwrap();
    // `cp` makes the copy, so that no child of this process inherits the file open for writing:
    // see `UnprivilegedCopy::new`.
    let copied = output(
        std::process::Command::new("cp")
            .args([env!("CARGO_BIN_EXE_skillhost").as_ref(), &*installed]),
    );
    assert!(copied.status.success(), "{copied:?}");
    installed
}

fn run(binary: &std::path::Path, program: &Program, arguments: &[&str]) -> Run {
    let mut command = command(binary);
    command.args(arguments).current_dir(program.folder.path());
    finish(command, "")
}

#[test]
fn program_without_runners_says_how_to_get_them() {
    let program = super::program();
    let listed = program.run(&["runners"]);
    assert_eq!((listed.code, &*listed.stdout), (1, ""), "{listed:?}");
    assert!(
        listed
            .stderr
            .contains("skillhost build guest-tools/runners/python")
    );
    let loaded = program.run(&["tools", "--tools", "runners"]);
    assert_eq!((loaded.code, &*loaded.stdout), (4, ""), "{loaded:?}");
    assert!(
        loaded
            .stderr
            .contains("`--tools runners`: there is no folder")
    );
}

#[test]
fn lists_and_loads_runners_beside_installed_program() {
    let program = super::program();
    let installed = install(&program);
    let component = fs::read(guests().join("count_lines.wasm")).unwrap();
    let file = "installed/share/skillhost/runners/run_skill_script.wasm";
    program.write(file, &component);
    // Installers make such a link on the PATH.
    let link = program.folder.path().join("link");
    symlink(&installed, &link).unwrap();
    let path = fs::canonicalize(program.folder.path().join(file)).unwrap();

    let text = run(&link, &program, &["runners"]);
    assert_eq!(text.code, 0, "{text:?}");
    assert!(text.stdout.contains(path.to_str().unwrap()), "{text:?}");
    let json = run(&link, &program, &["runners", "--output", "json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 1);
    assert_eq!(json[0]["bytes"], component.len());

    // The printed lines are a configuration that grants the runner.
    let (_, config) = text.stdout.split_once("\n[").unwrap();
    program.write("granted.toml", format!("[{config}"));
    // `--tools runners` does not mean this folder.
    program.write("runners/other.wasm", "");
    let arguments = [
        "grants",
        "count_lines",
        "--tools",
        "runners",
        "--config",
        "granted.toml",
    ];
    let loaded = run(&link, &program, &arguments);
    assert_eq!(loaded.code, 0, "{loaded:?}");
    assert!(loaded.stdout.contains("scripts/**/*.py"), "{loaded:?}");
    assert!(
        loaded.stderr.contains("`--tools ./runners` names it"),
        "{loaded:?}"
    );
}
