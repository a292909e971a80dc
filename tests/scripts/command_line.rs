//! Changed files that `skillhost call` writes into a folder.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::answers::{LIST, STEPS, done, expected_record, program, writing_grant};
use super::{host, log, run_steps, skill};

/// Returns the arguments of a call on the command line.
fn call<'a>(steps: &'a str, more: &[&'a str]) -> Vec<String> {
    let steps = format!("steps={steps}");
    let first = ["call", "take_steps", "skill_name=tools", &steps];
    first
        .iter()
        .chain(more)
        .map(|part| (*part).to_owned())
        .collect()
}

#[test]
fn command_line_writes_changed_files_into_new_folder() {
    let program = program();
    let steps = STEPS.join("\n");
    let run = program.run(&call(&steps, &["--output-dir", "made"]));
    assert_eq!(
        (run.code, run.stdout),
        (0, format!("{}\n\n{LIST}", done(&STEPS)))
    );
    assert_eq!(
        run.stderr,
        "wrote out/data.bin (3 bytes)\nwrote out/report.md (8 bytes)\nwrote top.py (7 bytes)\n"
    );
    let made = program.folder.path().join("made");
    assert_eq!(
        fs::read(made.join("out/data.bin")).unwrap(),
        [0xff, 0, 0xfe]
    );
    assert_eq!(fs::read(made.join("out/report.md")).unwrap(), b"# Report");
    assert_eq!(fs::read(made.join("top.py")).unwrap(), b"TOP = 2");
    assert_eq!(fs::read_dir(&made).unwrap().count(), 2);

    // Without the option the files are lost, and a line says how to keep them.
    let run = program.run(&call(&steps, &["--output", "json"]));
    let record: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, record), (0, expected_record()));
    assert_eq!(
        run.stderr,
        "skillhost: discarded 3 files that the call made or changed; `--output-dir DIR` writes \
         such files into a new folder\n"
    );
    let run = program.run(&call("read top.py", &["--output-dir", "none"]));
    assert_eq!(
        (run.code, &*run.stderr),
        (0, "the call made and changed no files\n")
    );
    let run = program.run(&call("read top.py", &[]));
    assert_eq!((run.code, &*run.stderr), (0, ""));
}

#[test]
fn command_line_overwrites_no_file_and_says_so() {
    let program = program();
    let at = |path: &str| program.folder.path().join(path);
    fs::create_dir(at("there")).unwrap();
    symlink("there", at("link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    fs::write(at("file"), "old").unwrap();
    for folder in ["there", "link", "dangling", "file"] {
        let run = program.run(&call("write a b", &["--output-dir", folder]));
        assert_eq!((run.code, &*run.stdout), (4, ""), "{folder}");
        assert!(
            run.stderr.contains("exists already"),
            "{folder}: {}",
            run.stderr
        );
    }
    assert!(!at("nowhere").exists() && !at("there/a").exists());
    assert_eq!(fs::read(at("file")).unwrap(), b"old");
    let run = program.run(&call("write a b", &["--output-dir", "none/deep"]));
    assert_eq!(run.code, 4);
    assert!(
        run.stderr.contains("cannot create the folder `none/deep`"),
        "{}",
        run.stderr
    );

    // The file does not fit on the disk: here, it exceeds the limit on file sizes.
    let steps = "write a b\nfill full 1000000\nwrite z b";
    let run = program.run_after(
        "trap '' XFSZ; ulimit -f 100",
        &call(steps, &["--output-dir", "full"])
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.stdout.starts_with("done\ndone\ndone"), "{run:?}");
    assert!(run.stderr.contains("wrote a (1 byte)"), "{run:?}");
    assert!(
        run.stderr.contains("cannot write all of full into `full`"),
        "{run:?}"
    );
    assert!(at("full/a").exists() && !at("full/z").exists());

    // Files are written even if the answer cannot be printed.
    let run = program.run_after(
        "exec >/dev/full",
        &call("write a b", &["--output-dir", "unprinted"])
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    assert_eq!(run.code, 4, "{run:?}");
    assert_eq!(fs::read(at("unprinted/a")).unwrap(), b"b");

    // A file that exceeds the limits of an answer is not written.
    let config = fs::read_to_string(at("skillhost.toml")).unwrap();
    let config = format!("{config}limits.output_file_bytes = 10\nlimits.output_files = 2\n");
    fs::write(at("skillhost.toml"), config).unwrap();
    let steps = "fill a 10\nfill b 11\nfill c 1";
    let run = program.run(&call(steps, &["--output-dir", "part"]));
    assert_eq!(run.code, 1, "{run:?}");
    assert!(
        run.stderr.contains("b (11 bytes) is not written"),
        "{run:?}"
    );
    assert!(run.stderr.contains("1 more file is not written"), "{run:?}");
    assert!(at("part/a").exists() && !at("part/b").exists());

    // A call without a copy-on-write view writes no folder.
    let config = fs::read_to_string(at("skillhost.toml")).unwrap();
    fs::write(
        at("skillhost.toml"),
        config.replace("copy-on-write", "read-only"),
    )
    .unwrap();
    let run = program.run(&call("read top.py", &["--output-dir", "unmade"]));
    assert_eq!((run.code, &*run.stdout), (0, "read: TOP = 1"));
    assert!(
        run.stderr
            .contains("does not set `view = \"copy-on-write\"`"),
        "{run:?}"
    );
    assert!(!at("unmade").exists());
}

#[test]
fn escapes_file_names_that_scripts_choose() {
    let folders = skill();
    let host = host(&folders, writing_grant());
    let output = run_steps(&host, &["write a\u{1b}[2J\u{202e}.md x"]);
    let text = output.into_model_text();
    assert!(
        text.ends_with("\n\"a\\u001b[2J\\u202e.md\" (1 bytes, text/markdown)"),
        "{text}"
    );
    let program = program();
    let run = program.run(&call(
        "write a\u{1b}[2J\u{202e}.md x",
        &["--output-dir", "made"],
    ));
    assert_eq!(run.stderr, "wrote \"a\\u{1b}[2J\\u{202e}.md\" (1 byte)\n");
    assert_eq!(
        fs::read_to_string(log(&folders)).unwrap().lines().count(),
        1
    );
}
