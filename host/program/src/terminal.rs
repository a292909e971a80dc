//! All printing to stdout and stderr.
//!
//! Text for people always consists of [`Line`]s. Text for a model or a program is written unchanged
//! to a file or a pipe, and escaped on a terminal. A closed pipe is not an error.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use skillhost::Line;
use skillhost::line::{self, is_hidden};
use skillhost_sandbox::tool::audit::write_stderr_line;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The number of columns if stdout is not a terminal.
const DEFAULT_WIDTH: usize = 100;

/// The maximum number of bytes of a message in the log or of a panic. Guards against: a library
/// whose message contains many bytes from a peer.
const MAX_MESSAGE: usize = 4096;

/// The maximum number of bytes of an error or a warning. Guards against: an error that quotes a
/// whole manifest or lock file.
const MAX_COMPLAINT: usize = 16 << 10;

/// The characters that move the cursor to the start of its line and erase the line.
const ERASE_LINE: &str = "\r\x1b[K";

/// The maximum number of columns of the progress line.
const MAX_PROGRESS_COLUMNS: usize = 70;

/// The minimum number of columns of a table's last column. With fewer, each row becomes a block.
const MIN_LAST_COLUMN: usize = 20;

/// Creates a [`Line`] from a format string and values, like `format!`.
#[macro_export]
macro_rules! format_line {
    ($($text:tt)*) => {
        ::skillhost::Line::new(format_args!($($text)*))
    };
}
pub use crate::format_line;

/// Returns a text as a line, shortened if it is long.
pub fn shortened(text: &str) -> Line {
    bounded_line(text, MAX_MESSAGE)
}

/// Returns a text as a line of at most `max` bytes. The bytes of escapes count too.
fn bounded_line(text: &str, max: usize) -> Line {
    const END: &str = "…";
    let line = Line::new(&text[..text.floor_char_boundary(max + char::MAX.len_utf8())]);
    if line.as_str().len() <= max {
        return line;
    }
    let end = line.as_str().floor_char_boundary(max - END.len());
    format_line!("{}{END}", &line.as_str()[..end])
}

/// Prints an error or a warning as one line on stderr.
pub fn complain(message: impl Display) {
    say(&bounded_line(
        &format!("skillhost: {message}"),
        MAX_COMPLAINT,
    ));
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
    // Leave the terminal's last column empty, so that the line cannot wrap: a wrapped line could
    // not be erased.
    let columns = columns(io::stderr()).map_or(MAX_PROGRESS_COLUMNS, |columns| columns - 1);
    *progress = fitting_start(line.as_str(), columns.min(MAX_PROGRESS_COLUMNS)).to_owned();
    let _ = write!(io::stderr(), "{ERASE_LINE}{progress}");
}

/// Returns the stream of the log. `log.rs` formats its lines.
pub fn log() -> LogStream {
    LogStream
}

/// A writer to stderr whose caller writes one line at a time. Guards against: a program that hangs
/// because its stderr is a full pipe.
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

/// Returns whether stderr is a terminal.
pub fn is_interactive() -> bool {
    io::stderr().is_terminal()
}

/// If stdin is a terminal, prints what the program waits for, and the key that ends the wait.
pub fn explain_wait(awaited: impl Display, key: &str) {
    if io::stdin().is_terminal() {
        complain(format_args!("waiting for {awaited}; {key} ends it"));
    }
}

/// Returns the number of columns of stdout, or 100 if stdout is not a terminal.
pub fn width() -> usize {
    columns(io::stdout()).unwrap_or(DEFAULT_WIDTH)
}

/// Returns the number of columns of a terminal, at least 1. Returns `None` for other streams.
fn columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(stream)?;
    Some(usize::from(width.0).max(1))
}

/// Returns the longest start of a text that fits into this number of columns.
fn fitting_start(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    &text[..end.map_or(text.len(), |(end, _)| end)]
}

/// Returns a table for people, at most `width` columns wide if possible. Wraps the text of the last
/// column. If the last column would be too narrow, each row becomes a block of lines.
pub fn table<const N: usize>(headings: [&str; N], rows: &[[String; N]], width: usize) -> Vec<Line> {
    // Escape before measuring: escapes take columns too.
    let escape = |row: &[String; N]| row.each_ref().map(|cell| Line::new(cell).to_string());
    let rows: Vec<[String; N]> = rows.iter().map(escape).collect();
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].width());
        cells.max().unwrap_or(0).max(headings[column].width())
    };
    let widths: Vec<usize> = (0..N - 1).map(widest).collect();
    let used: usize = widths.iter().map(|width| width + 2).sum();
    if used + MIN_LAST_COLUMN > width {
        return blocks(&rows, width);
    }
    let headings = [headings.map(str::to_owned)];
    let mut lines = Vec::new();
    for row in headings.iter().chain(&rows) {
        let mut start = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let padding = " ".repeat(width + 2 - cell.width());
            start.push_str(&(cell.clone() + &padding));
        }
        for part in wrap(&row[N - 1], width - used) {
            lines.push(Line::new((start + &part).trim_end()));
            start = " ".repeat(used);
        }
    }
    lines
}

/// Returns a line with the first cell of each row, and the other cells below it. Consecutive rows
/// with the same first cell share that line.
fn blocks<const N: usize>(rows: &[[String; N]], width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut last = None;
    for row in rows {
        if last != Some(&row[0]) {
            lines.push(Line::new(&row[0]));
        }
        last = Some(&row[0]);
        let mut indentation = "  ";
        for part in wrap(&row[1..].join(": "), width.saturating_sub(4)) {
            lines.push(format_line!("{indentation}{part}"));
            indentation = "    ";
        }
    }
    lines
}

/// Returns the words of a text in lines of at most `columns` columns. A longer word gets a line of
/// its own.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.width() + 1 + word.width() <= columns {
            line.push_str(&format!(" {word}"));
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Prints lines to stdout.
pub fn print(lines: &[Line]) -> anyhow::Result<()> {
    print_unless_closed(lines).map(drop)
}

/// Prints lines to stdout. Returns `false` if the reader has closed the pipe.
pub fn print_unless_closed(lines: &[Line]) -> anyhow::Result<bool> {
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

/// Returns a name or a path for use beside other text. Quotes the name unless it has only letters,
/// digits, `-`, `_`, `.` and `/`, so that nobody takes a part of it for the text around it.
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
    fn quotes_names_that_could_be_taken_for_other_text() {
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
    fn messages_have_bounded_bytes() {
        for (part, times) in [("a", 11), ("\u{1b}", 2), ("数", 4), ("\u{e0001}", 2)] {
            for times in [times, 1000] {
                let line = bounded_line(&part.repeat(times), 10);
                assert!(
                    line.as_str().len() <= 10 && line.as_str().ends_with('…'),
                    "{line}"
                );
            }
        }
        for text in ["", "aaaaaaaaaa", "\u{1b}1234"] {
            assert_eq!(bounded_line(text, 10).as_str(), Line::new(text).as_str());
        }
    }

    #[test]
    fn tables_fit_narrow_terminals() {
        let rows = [
            [
                "a".to_owned(),
                "skills".to_owned(),
                "one, two, three, four, five".to_owned(),
            ],
            ["a".to_owned(), "view".to_owned(), "x\u{1b}".to_owned()],
        ];
        let shown = |width| {
            let lines = table(["TOOL", "SETTING", "VALUE"], &rows, width);
            lines
                .iter()
                .map(Line::to_string)
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_eq!(
            shown(60),
            "TOOL  SETTING  VALUE\n\
             a     skills   one, two, three, four, five\n\
             a     view     x\\u{1b}"
        );
        assert_eq!(
            shown(40),
            "TOOL  SETTING  VALUE\n\
             a     skills   one, two, three, four,\n               five\n\
             a     view     x\\u{1b}"
        );
        assert_eq!(
            shown(25),
            "a\n  skills: one, two,\n    three, four, five\n  view: x\\u{1b}"
        );
        assert!(!shown(1).is_empty());
        assert_eq!(fitting_start("数据分析", 5), "数据");
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
