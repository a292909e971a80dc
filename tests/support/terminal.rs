//! Runs the program with its output in a pipe, a file and a terminal.

use std::fs::{self, File};
use std::io::Write as _;
use std::process::Command;

use super::cache;
use super::process;
use super::program::{Program, finish};

/// The output of a run, and its exit code.
pub(crate) struct Printout {
    pub(crate) to: &'static str,
    pub(crate) text: String,
    pub(crate) code: i32,
}

/// Runs the program three times, with its output in a pipe, a file and a terminal.
pub(crate) fn run_with_each_output<S: AsRef<std::ffi::OsStr>>(
    program: &Program,
    arguments: &[S],
    stdin: &str,
) -> [Printout; 3] {
    let run = program.run_with(arguments, stdin);
    let pipe = Printout {
        to: "pipe",
        text: run.stdout + &run.stderr,
        code: run.code,
    };

    let path = program.folder.path().join("output");
    let output = File::create(&path).unwrap();
    let mut to_file = program.command(arguments);
    to_file
        .stdout(output.try_clone().unwrap())
        .stderr(output.try_clone().unwrap());
    let code = finish(to_file, stdin).code;
    let file = Printout {
        to: "file",
        text: fs::read_to_string(&path).unwrap(),
        code,
    };
    fs::remove_file(path).unwrap();
    [pipe, file, run_on_terminal(program, arguments, stdin)]
}

/// Runs the program on a terminal, types a text there, and then Ctrl-D.
pub(crate) fn type_on_terminal(program: &Program, arguments: &[&str], text: &str) -> Printout {
    let script = "
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
os.write(terminal, sys.argv[1].encode() + b'\\x04')
while True:
    try:
        read = os.read(terminal, 65536)
    except OSError:
        break
    if not read:
        break
    sys.stdout.buffer.write(read)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";
    let mut terminal = Command::new("python3");
    terminal
        .args(["-c", script, text])
        .args(["/usr/bin/env", "-i"])
        .arg(format!("SKILLHOST_CACHE={}", cache().display()))
        .arg(env!("CARGO_BIN_EXE_skillhost"))
        .args(arguments)
        .current_dir(program.folder.path());
    let output = process::output(&mut terminal);
    assert!(output.stderr.is_empty(), "{output:?}");
    Printout {
        to: "terminal",
        text: String::from_utf8(output.stdout)
            .unwrap()
            .replace("\r\n", "\n"),
        code: output.status.code().unwrap(),
    }
}

/// Runs the program with a terminal for its stdout and stderr.
pub(crate) fn run_on_terminal<S: AsRef<std::ffi::OsStr>>(
    program: &Program,
    arguments: &[S],
    stdin: &str,
) -> Printout {
    run_on_terminal_of_width(program, 0, &[], arguments, stdin)
}

/// Runs the program with a terminal of this many columns, or 0 if unknown, and with variables such
/// as `A=b`.
pub(crate) fn run_on_terminal_of_width<S: AsRef<std::ffi::OsStr>>(
    program: &Program,
    columns: u16,
    variables: &[&str],
    arguments: &[S],
    stdin: &str,
) -> Printout {
    // The input is a file, because a terminal would echo it.
    let script = "
import fcntl, os, pty, struct, sys, termios
columns = int(sys.argv.pop(1))
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    os.dup2(os.open(sys.argv[1], os.O_RDONLY), 0)
    os.execv(sys.argv[2], sys.argv[2:])
while True:
    try:
        read = os.read(terminal, 65536)
    except OSError:
        break
    if not read:
        break
    sys.stdout.buffer.write(read)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";
    let mut input = tempfile::NamedTempFile::new().unwrap();
    input.write_all(stdin.as_bytes()).unwrap();
    let mut terminal = Command::new("python3");
    terminal
        .args(["-c", script])
        .arg(columns.to_string())
        .arg(input.path())
        .arg("/usr/bin/env")
        .arg("-i")
        .args(variables)
        .arg(format!("SKILLHOST_CACHE={}", cache().display()))
        .arg(env!("CARGO_BIN_EXE_skillhost"))
        .args(arguments)
        .current_dir(program.folder.path());
    let output = process::output(&mut terminal);
    assert!(output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    Printout {
        to: "terminal",
        // The terminal adds `\r`. The other sequence starts the line of progress.
        text: text.replace("\r\n", "\n").replace("\r\x1b[K", "\n"),
        code: output.status.code().unwrap(),
    }
}
