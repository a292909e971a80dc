//! Runs the program like its users.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::process::{self, Process};

/// The exit code and the output of one run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program in its own folder.
pub(crate) struct Program {
    pub(crate) folder: TempDir,
}

impl Program {
    /// Makes an empty folder: no configuration, no skills.
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Writes an executable shell script.
    pub(crate) fn script(&self, path: &str, script: &str) {
        self.write(path, format!("#!/bin/sh\n{script}\n"));
        let path = self.folder.path().join(path);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Run {
        self.run_with(arguments, "")
    }

    /// Runs the program after a shell command, such as `ulimit -n 64`.
    pub(crate) fn run_after(&self, first: &str, arguments: &[&str]) -> Run {
        self.run_after_with(first, arguments, "")
    }

    pub(crate) fn run_after_with(&self, first: &str, arguments: &[&str], stdin: &str) -> Run {
        let mut command = command(Path::new("sh"));
        command
            .args(["-c", &format!("{first} && exec \"$0\" \"$@\"")])
            .arg(env!("CARGO_BIN_EXE_skillhost"))
            .args(arguments)
            .env("PATH", "/usr/bin:/bin")
            .current_dir(self.folder.path());
        finish(command, stdin)
    }

    pub(crate) fn run_with<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S], stdin: &str) -> Run {
        finish(self.command(arguments), stdin)
    }

    /// Returns a command that runs the program.
    pub(crate) fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = command(Path::new(env!("CARGO_BIN_EXE_skillhost")));
        command.args(arguments).current_dir(self.folder.path());
        command
    }
}

/// The id of an unprivileged user.
pub(crate) const NOBODY: u32 = 65534;

/// A copy of the program that an unprivileged user can start. Tests that root runs need it, as in
/// CI.
pub(crate) struct UnprivilegedCopy(TempDir);

impl UnprivilegedCopy {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // `cp` makes the copy. If this process wrote the file, a child of another test could inherit
        // it open for writing, and the kernel would refuse to run it.
        let program = env!("CARGO_BIN_EXE_skillhost");
        let copied = process::output(Command::new("cp").arg(program).arg(folder.path()));
        assert!(copied.status.success(), "{copied:?}");
        Self(folder)
    }

    /// Returns a command that runs the program as [`NOBODY`], without a cache.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_as(NOBODY, NOBODY, arguments)
    }

    /// Returns a command that runs the program as a user and group, if this process is root.
    fn command_as(&self, user: u32, group: u32, arguments: &[&str]) -> Command {
        let mut command = command(&self.0.path().join("skillhost"));
        command
            .args(arguments)
            .current_dir("/")
            .env("SKILLHOST_CACHE", "off");
        if rustix::process::geteuid().is_root() {
            command.uid(user).gid(group);
        }
        command
    }

    /// Makes [`NOBODY`] the owner of a folder and its contents, if this process is root.
    pub(crate) fn give_to_nobody(&self, folder: &Path) {
        if rustix::process::geteuid().is_root() {
            let owner = format!("{NOBODY}:{NOBODY}");
            let given = process::output(Command::new("chown").args(["-R", &owner]).arg(folder));
            assert!(given.status.success(), "{given:?}");
        }
    }
}

/// Runs the program as a user and group, if this process is root.
pub(crate) fn run_as(user: u32, group: u32, arguments: &[&str]) -> Run {
    finish(
        UnprivilegedCopy::new().command_as(user, group, arguments),
        "",
    )
}

/// Runs the program as an unprivileged user.
pub(crate) fn run_unprivileged(arguments: &[&str]) -> Run {
    finish(UnprivilegedCopy::new().command(arguments), "")
}

/// Returns a command with an empty environment, except for the tests' cache.
pub(crate) fn command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    command
        .env_clear()
        .env("SKILLHOST_CACHE", super::cache())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn finish(mut command: Command, stdin: &str) -> Run {
    let mut child = Process::start(&mut command);
    // The write fails if the program ends without reading its input.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.output();
    Run {
        code: output.status.code().expect("a signal ended the program"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs the program in the repository, like the README's commands.
pub(crate) fn run_in_repository(arguments: &[String]) -> Run {
    run_in_repository_with(arguments, "")
}

/// Runs the program in the repository with this input.
pub(crate) fn run_in_repository_with(arguments: &[String], stdin: &str) -> Run {
    let mut command = command(Path::new(env!("CARGO_BIN_EXE_skillhost")));
    command.args(arguments).current_dir(super::repository());
    finish(command, stdin)
}

/// Returns the program `skillhost-author`.
pub(crate) fn author() -> PathBuf {
    let author = Path::new(env!("CARGO_BIN_EXE_skillhost")).with_file_name("skillhost-author");
    assert!(
        author.is_file(),
        "`{}` is not built: run `cargo test`, or `cargo build` before a single test",
        author.display()
    );
    author
}

/// Returns the program of an example, which `cargo test` builds.
pub(crate) fn example(name: &str) -> PathBuf {
    let suite = std::env::current_exe().unwrap();
    let folder = suite.ancestors().nth(2).unwrap().join("examples");
    let example = folder.join(name);
    assert!(
        example.is_file(),
        "`{}` is not built: run `cargo test`, or `cargo build --examples` before a single test",
        example.display()
    );
    example
}
