//! The verbs of `skillhost-author`, which `skillhost` starts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::program::{author, command, finish};

#[test]
fn starts_author_program_beside_skillhost_or_on_path() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |path: &str| folder.path().join(path);
    let skillhost = at("alone/skillhost");
    fs::create_dir(at("alone")).unwrap();
    fs::create_dir(at("bin")).unwrap();
    // Through a symlink, skillhost would find the programs beside the original.
    fs::hard_link(env!("CARGO_BIN_EXE_skillhost"), &skillhost).unwrap();
    let run = |path: &Path| {
        let mut command = command(&skillhost);
        command.args(["--log", "off", "test", "none.wasm", "--no-such"]);
        command.env("PATH", path).current_dir(at("bin"));
        finish(command, "")
    };
    let missing = run(&at("bin"));
    assert_eq!((missing.code, missing.stdout.as_str()), (4, ""));
    let message = "this command is part of `skillhost-author`, which is neither beside skillhost nor \
                   on the PATH; in a checkout, `cargo install --locked --path host/author` installs it";
    assert_eq!(missing.stderr, format!("skillhost: {message}\n"));

    symlink(author(), at("bin/skillhost-author")).unwrap();
    // skillhost starts no program of the current folder, even if the PATH names that folder.
    for path in ["", ".", "../bin"] {
        let run = run(Path::new(path));
        assert_eq!(run.stderr, missing.stderr, "{path}");
    }
    let on_path = run(&at("bin"));
    assert_eq!(on_path.code, 2, "{on_path:?}");
    // The author program shows the command that the user typed.
    let usage = "Usage: skillhost test ";
    assert!(on_path.stderr.contains(usage), "{}", on_path.stderr);

    fs::write(at("alone/skillhost-author"), "no program").unwrap();
    let beside = run(&at("bin"));
    assert_eq!(beside.code, 4, "{beside:?}");
    assert!(beside.stderr.contains("cannot run `"), "{}", beside.stderr);
}
