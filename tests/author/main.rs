//! The program `skillhost-author` alone. The other tests run it through `skillhost`.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

const AUTHOR: &str = env!("CARGO_BIN_EXE_skillhost-author");

fn run(program: &mut Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = program.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn makes_a_project_without_skillhost() {
    let folder = tempfile::tempdir().unwrap();
    let author = folder.path().join("an-author");
    symlink(AUTHOR, &author).unwrap();
    let mut command = Command::new(author);
    command.args(["new", "ropes", "--lang", "python"]);
    let (code, _, stderr) = run(command.current_dir(&folder).env_clear());
    assert_eq!(code, Some(0), "{stderr}");
    assert!(fs::exists(folder.path().join("ropes/pyproject.toml")).unwrap());
}

#[test]
fn refuses_verbs_of_the_operator() {
    for (arguments, code) in [
        (&["serve"][..], 2),
        (&["call", "read_skill"], 2),
        (&["--version"], 0),
        (&["new", "--help"], 0),
    ] {
        let (ended, stdout, stderr) = run(Command::new(AUTHOR).args(arguments));
        assert_eq!(ended, Some(code), "{arguments:?}: {stdout}{stderr}");
    }
}
