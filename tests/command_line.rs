//! The command line: options, configuration, exit codes. The verbs are in `command_line/`.

mod author;
mod call;
mod clients;
mod failed_starts;
mod hints;
mod listings;
mod manners;
mod offer;
mod runners;
mod search;
mod skills;
mod warm;

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

use crate::support::process::{Process, output};
use crate::support::program::{Program, author as author_program, command, finish};

const SKILL: &str = "---\nname: calculator\ndescription: Adds numbers.\n---\n# Calculator\n";

/// Returns a program folder with one skill in `./skills`.
fn program() -> Program {
    let program = Program::new();
    program.write("skills/calculator/SKILL.md", SKILL);
    program.write("skills/calculator/examples/basic.py", "print(1)\n");
    program
}

#[test]
fn wrong_configuration_exits_with_4() {
    for (config, message) in [
        (
            "skils = []",
            "line 1: unknown key `skils`; did you mean `skills`?",
        ),
        ("\nskills = [\"none\"]", "line 2: cannot use the folder"),
        ("tools = [\n\"none\"]", "line 2: cannot use the folder"),
        ("home = \"none\"", "line 1: cannot use the folder"),
        (
            "disabled_tools = [\"get_skil\"]",
            "did you mean `get_skill`?",
        ),
        ("skills = [\"skillhost.toml\"]", "is not a folder"),
    ] {
        let program = program();
        program.write("skillhost.toml", config);
        let run = program.run(&["tools", "--config", "skillhost.toml"]);
        assert_eq!((run.code, run.stdout.as_str()), (4, ""), "{config}");
        assert!(run.stderr.contains(message), "{config}: {}", run.stderr);
    }
    for (words, message) in [
        (
            ["--config", "none.toml", "skills"],
            "cannot use the configuration `none.toml`",
        ),
        (
            ["skills", "--skills", "none"],
            "`--skills`: cannot use the folder `none`",
        ),
        (
            ["tools", "--tools", "none"],
            "`--tools`: cannot use the folder `none`",
        ),
    ] {
        let run = program().run(&words);
        assert_eq!(run.code, 4);
        assert!(run.stderr.contains(message), "{}", run.stderr);
    }
}

#[test]
fn accepts_options_before_and_after_the_verb() {
    let program = program();
    fs::rename(
        program.folder.path().join("skills"),
        program.folder.path().join("other"),
    )
    .unwrap();
    for words in [
        ["--skills", "other", "skills"],
        ["skills", "--skills", "other"],
    ] {
        let run = program.run(&words);
        assert_eq!(run.stdout, "calculator  Adds numbers.\n");
    }
}

#[test]
fn combines_options_before_and_after_the_verb() {
    let program = program();
    program.write("other/second/SKILL.md", SKILL);
    let run = program.run(&["--skills", "skills", "skills", "--skills", "other"]);
    assert_eq!(
        run.stdout,
        "calculator  Adds numbers.\nsecond      Adds numbers.\n"
    );
}

#[test]
fn refuses_configuration_that_is_not_a_file() {
    use std::os::unix::fs::symlink;

    for make in [
        |path: &std::path::Path| symlink("none", path).unwrap(),
        |path: &std::path::Path| symlink("/dev/zero", path).unwrap(),
        |path: &std::path::Path| fs::create_dir(path).unwrap(),
        |path: &std::path::Path| {
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::RUSR, 0).unwrap();
        },
    ] {
        let program = program();
        make(&program.folder.path().join("skillhost.toml"));
        let run = program.run(&["skills"]);
        assert_eq!(run.code, 4);
        assert!(
            run.stderr.contains("cannot use the configuration"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn bad_usage_and_help_set_exit_codes() {
    for words in [&["cal"][..], &["call"], &["--wrong"], &[]] {
        let run = program().run(words);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{words:?}");
        assert!(run.stderr.contains("Usage"), "{words:?}: {}", run.stderr);
    }
    for words in [&["--help"][..], &["call", "--help"], &["--version"]] {
        let run = program().run(words);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{words:?}");
    }
}

#[test]
fn version_names_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    let run = program().run(&["--version"]);
    assert_eq!(run.stdout, format!("skillhost {version}\n"));
    let mut author = command(&author_program());
    author.arg("--version");
    let run = finish(author, "");
    assert_eq!(run.stdout, format!("skillhost-author {version}\n"));
}

#[test]
fn reports_unloadable_component_and_serves_the_rest() {
    let program = program();
    program.write("tools/bad.wasm", "not WebAssembly");
    let run = program.run(&[
        "--tools",
        "tools",
        "call",
        "read_skill",
        "{\"skill_name\":\"calculator\"}",
    ]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "# Calculator\n"));
    assert!(run.stderr.contains("tools/bad.wasm"), "{}", run.stderr);
}

#[test]
fn closed_pipe_is_not_an_error() {
    let program = program();
    program.write("skills/calculator/large.txt", "x".repeat(4 << 20));
    let mut command = Command::new(env!("CARGO_BIN_EXE_skillhost"));
    command
        .args([
            "call",
            "read_file_in_skill",
            "{\"skill_name\":\"calculator\",\"file_path\":\"large.txt\"}",
        ])
        .current_dir(program.folder.path())
        .env("SKILLHOST_CACHE", crate::support::cache())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Process::start(&mut command);
    let mut start = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    let output = child.output();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn cache_has_mode_0700_and_can_be_off() {
    use std::os::unix::fs::PermissionsExt as _;

    let program = program();
    let cache = program.folder.path().join("cache");
    let run = |value: &std::path::Path| {
        output(
            Command::new(env!("CARGO_BIN_EXE_skillhost"))
                .args(["call", "list_skills"])
                .current_dir(program.folder.path())
                .env("SKILLHOST_CACHE", value),
        )
    };
    assert!(run(&cache).status.success());
    assert_eq!(
        fs::metadata(&cache).unwrap().permissions().mode() & 0o777,
        0o700
    );
    // The cache holds only the component that was called.
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    let warned = run(&cache);
    assert!(warned.status.success());
    assert!(String::from_utf8_lossy(&warned.stderr).contains("no other user may write in it"));
    assert!(run("off".as_ref()).status.success());
    assert!(!program.folder.path().join("off").exists());
}

#[test]
fn default_cache_is_not_in_current_folder() {
    let program = program();
    let at = |path: &str| program.folder.path().join(path);
    for (base, expected) in [
        (Some("relative".into()), "home/.cache"),
        (Some(at("absolute")), "absolute"),
        (None, "home/.cache"),
    ] {
        // This call compiles nothing.
        let mut command = program.command(&["call", "none"]);
        command
            .env_remove("SKILLHOST_CACHE")
            .env("HOME", at("home"));
        command.envs(base.iter().map(|base| ("XDG_CACHE_HOME", base)));
        let run = finish(command, "");
        assert_eq!(run.code, 2, "{base:?}: {run:?}");
        assert!(at(expected).join("skillhost").is_dir(), "{base:?}");
        assert!(!at("relative").exists(), "{base:?}");
    }
}
