//! All printing to stdout and stderr.
//!
//! Text for people consists of [`Line`]s, on a terminal as in a file or a pipe. Text for a model
//! or a program goes to a file or a pipe byte for byte, and is escaped on a terminal. A closed
//! pipe is not an error.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use skillhost::Line;
use skillhost::line::{self, is_hidden};
use skillhost_sandbox::tool::audit::write_stderr_line;
use unicode_width::UnicodeWidthChar as _;

/// The number of columns if stdout is not a terminal.
const DEFAULT_WIDTH: usize = 100;

/// The maximum number of bytes of a message in the log or from a panic. Guards against: a library
/// that puts a peer's bytes into its own message.
const MAX_MESSAGE: usize = 4096;

/// Moves to the start of the line and erases it.
const ERASE_LINE: &str = "\r\x1b[K";

/// The maximum number of characters of the progress line, so that it fits on one line of any
/// terminal.
const MAX_PROGRESS_CHARS: usize = 70;

/// Creates a [`Line`] as `format!` creates a string.
#[macro_export]
macro_rules! format_line {
    ($($text:tt)*) => {
        ::skillhost::Line::new(format_args!($($text)*))
    };
}
pub use crate::format_line;

/// Returns a text as a line, shortened if it is long.
pub fn shortened(text: &str) -> Line {
    if text.len() <= MAX_MESSAGE {
        return Line::new(text);
    }
    format_line!("{}…", &text[..text.floor_char_boundary(MAX_MESSAGE)])
}

/// Prints an error or a warning as one line on stderr.
pub fn complain(message: impl Display) {
    say(&format_line!("skillhost: {message}"));
}

/// The progress line that the terminal shows. Empty if there is none.
static PROGRESS: Mutex<String> = Mutex::new(String::new());

/// Prints a line on stderr, above the progress line if there is one.
pub fn say(line: &Line) {
    let progress = PROGRESS.lock().unwrap_or_else(PoisonError::into_inner);
    if progress.is_empty() {
        let _ = write_stderr_line(format!("{line}\n").as_bytes());
        return;
    }
    let _ = write_stderr_line(format!("{ERASE_LINE}{line}\n").as_bytes());
    let _ = write!(io::stderr(), "{progress}");
}

/// Replaces the progress line on stderr, which must be a [terminal](is_interactive). An empty
/// line clears it.
pub fn show_progress(line: &Line) {
    let mut progress = PROGRESS.lock().unwrap_or_else(PoisonError::into_inner);
    *progress = line.as_str().chars().take(MAX_PROGRESS_CHARS).collect();
    let _ = write!(io::stderr(), "{ERASE_LINE}{progress}");
}

/// Returns the stream of the log. `log.rs` formats its lines.
pub fn log() -> LogStream {
    LogStream
}

/// Stderr, to which each write is a line. Guards against: a program that hangs because nobody
/// reads its stderr.
pub struct LogStream;

impl io::Write for LogStream {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write_stderr_line(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks whether stderr is a terminal.
pub fn is_interactive() -> bool {
    io::stderr().is_terminal()
}

/// Prints what the program waits for and which key ends that, if stdin is a terminal.
pub fn explain_wait(what: impl Display, key: &str) {
    if io::stdin().is_terminal() {
        complain(format_args!("waiting for {what}; {key} ends it"));
    }
}

/// Returns the number of columns of stdout.
pub fn width() -> usize {
    terminal_size::terminal_size_of(io::stdout()).map_or(DEFAULT_WIDTH, |(width, _)| width.0.into())
}

/// Prints lines to stdout.
pub fn print(lines: &[Line]) -> anyhow::Result<()> {
    print_or_end(lines).map(drop)
}

/// Prints lines to stdout. Returns `false` if the reader has closed the pipe.
pub fn print_or_end(lines: &[Line]) -> anyhow::Result<bool> {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    write(&lines)
}

/// Prints a value as JSON on several lines, with hidden characters escaped.
pub fn print_json(value: &Value) -> anyhow::Result<()> {
    write(&line::escape_json(&format!("{value:#}\n"))).map(drop)
}

/// Prints a text for a model or a program. On a terminal the text ends with a line break, so that
/// the shell's prompt gets a line of its own.
pub fn print_answer(text: &str) -> anyhow::Result<()> {
    if !io::stdout().is_terminal() {
        return write(text).map(drop);
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    write(&(line::escape_document(text) + end)).map(drop)
}

/// Prints a line of JSON for a model or a program. Returns `false` if the reader has closed the
/// pipe.
pub fn print_json_answer(json: &str) -> anyhow::Result<bool> {
    if io::stdout().is_terminal() {
        write(&(line::escape_json(json) + "\n"))
    } else {
        write(&format!("{json}\n"))
    }
}

/// Writes to stdout. Returns `false` if the reader has closed the pipe.
fn write(text: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(anyhow::Error::from(error).context("cannot write to stdout")),
    }
}

/// Returns a name or a path for use beside other text. Quotes it unless it has only letters,
/// digits, `-`, `_`, `.` and `/`, so that nobody takes it for the text around it.
pub fn name(name: &str) -> Line {
    let is_plain = |c: char| {
        c.is_alphanumeric()
            || "-_./".contains(c)
            // Combining marks.
            || !c.is_ascii() && c.width() == Some(0)
    };
    if !name.is_empty() && name.chars().all(|c| is_plain(c) && !is_hidden(c)) {
        return Line::new(name);
    }
    format_line!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_names_that_could_pass_for_text() {
        for (given, shown) in [
            ("read-files_2.x", "read-files_2.x"),
            ("./skills/a", "./skills/a"),
            ("数据", "数据"),
            ("cafe\u{301}", "cafe\u{301}"),
            ("हिन्दी", "हिन्दी"),
            ("", "\"\""),
            ("good:3: error: x", "\"good:3: error: x\""),
            ("a, b", "\"a, b\""),
            ("a\u{3000}b", "\"a\u{3000}b\""),
            ("a\u{200b}", "\"a\\u{200b}\""),
            ("a\u{3164}", "\"a\\u{3164}\""),
            ("\\u{200b}\"", "\"\\\\u{200b}\\\"\""),
            ("a\nb", "\"a\\nb\""),
        ] {
            assert_eq!(name(given).as_str(), shown);
        }
    }

    #[test]
    fn only_terminal_rs_prints() {
        let host = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let programs = ["program", "cli", "author"];
        let mut folders: Vec<_> = programs.map(|it| host.join(it).join("src")).into();
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir::<std::path::PathBuf>(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("terminal.rs") {
                    files += 1;
                    let source = std::fs::read_to_string(&path).unwrap();
                    for printing in ["io::stdout", "io::stderr", "print!(", "println!("] {
                        assert!(!source.contains(printing), "{}: {printing}", path.display());
                    }
                }
            }
        }
        assert!(files > 20);
    }
}
