//! One command of a build: runs it, and shows a bounded part of what it prints as
//! it comes. `search.rs` finds its program.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use skillhost::Line;

use super::{Fault, times};
use skillhost_program::terminal::{self, format_line};

/// The number of lines that are shown as they come. Guards against: a thousand errors
/// that follow from the first.
const FIRST_LINES: usize = 120;
/// The number of last lines that are shown at the end.
const LAST_LINES: usize = 20;
/// The most characters of a line.
const LINE_LENGTH: usize = 1000;
/// The most bytes of output for a program.
const MAX_OUTPUT: u64 = 64 << 20;

/// Runs a command for its output, and shows nothing of it.
pub(super) fn ask(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// A command of a build.
pub(super) struct Step<'a> {
    /// The name in messages.
    pub(super) name: &'a str,
    pub(super) command: Command,
    /// Checks whether to leave out a line, such as one about a compiler's own code.
    pub(super) is_noise: fn(&str) -> bool,
    /// The name of the project's folder in the compiler's messages, which is left out.
    pub(super) alias: Option<String>,
    /// Returns stdout to this program instead of showing it.
    pub(super) is_captured: bool,
}

impl<'a> Step<'a> {
    pub(super) fn new(name: &'a str, command: Command) -> Self {
        Self {
            name,
            command,
            is_noise: |_| false,
            alias: None,
            is_captured: false,
        }
    }

    /// Runs the command to its end. Returns its stdout, if that is captured.
    pub(super) fn run(mut self) -> Result<Vec<u8>, Fault> {
        let begin = Instant::now();
        let start = |error| Fault::missing(format!("cannot start {}: {error}", self.name));
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(start)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let excerpt = Mutex::new(OutputExcerpt::default());
        let (is_noise, alias) = (self.is_noise, self.alias.as_deref());
        let captured = std::thread::scope(|scope| {
            let excerpt = &excerpt;
            if let Some(err) = err {
                scope.spawn(move || show(err, is_noise, alias, excerpt));
            }
            let mut captured = Vec::new();
            match out {
                Some(out) if self.is_captured => {
                    // A failed read is the end, like a closed pipe.
                    let _ = out.take(MAX_OUTPUT).read_to_end(&mut captured);
                }
                Some(out) => show(out, is_noise, alias, excerpt),
                None => {}
            }
            captured
        });
        excerpt
            .into_inner()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .end();
        let status = child.wait().map_err(start)?;
        times::note(self.name, begin);
        if status.success() {
            return Ok(captured);
        }
        Err(Fault::project(format!("{} failed: {status}", self.name)))
    }
}

/// The part of a command's output that is shown: its first and last lines.
#[derive(Default)]
struct OutputExcerpt {
    /// The number of lines shown.
    lines: usize,
    left_out: usize,
    /// The previous line, without its indentation.
    previous: String,
    last: VecDeque<String>,
}

impl OutputExcerpt {
    fn push(&mut self, line: String) {
        // Some compilers repeat an error as its own cause.
        if self.previous == line.trim() {
            return;
        }
        self.previous = line.trim().to_owned();
        if self.lines < FIRST_LINES {
            self.lines += 1;
            terminal::say(&Line::new(line));
            return;
        }
        self.last.push_back(line);
        if self.last.len() > LAST_LINES {
            self.last.pop_front();
            self.left_out += 1;
        }
    }

    /// Shows the last lines.
    fn end(self) {
        if self.left_out > 0 {
            terminal::say(&format_line!("… {} lines left out …", self.left_out));
        }
        for line in self.last {
            terminal::say(&Line::new(line));
        }
    }
}

fn show(
    from: impl Read,
    is_noise: fn(&str) -> bool,
    alias: Option<&str>,
    excerpt: &Mutex<OutputExcerpt>,
) {
    let mut from = BufReader::new(from);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        // A very long line is read in pieces.
        let piece = (&mut from).take(1 << 20).read_until(b'\n', &mut bytes);
        if !matches!(piece, Ok(1..)) {
            return;
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = without_escapes(line.trim_end()).replace('\t', "    ");
        if is_noise(&line) {
            continue;
        }
        let line = match alias {
            Some(alias) => line.replace(alias, ""),
            None => line,
        };
        let line = line.chars().take(LINE_LENGTH).collect();
        match excerpt.lock() {
            Ok(mut excerpt) => excerpt.push(line),
            Err(_) => return,
        }
    }
}

/// Removes colours from a line: some compilers print them to a pipe, too.
fn without_escapes(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        rest = rest
            .strip_prefix(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(rest);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_colours_from_a_line() {
        for (line, plain) in [
            ("plain", "plain"),
            ("\u{1b}[1;31merror\u{1b}[0m: x", "error: x"),
            ("\u{1b}[", ""),
            ("a\u{1b}[2Kb", "ab"),
        ] {
            assert_eq!(without_escapes(line), plain);
        }
    }

    #[test]
    fn names_a_command_that_fails() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let fault = Step::new("the compiler", command).run().unwrap_err();
        assert!(format!("{fault:?}").contains("the compiler failed: exit status: 3"));
        let mut command = Command::new("sh");
        command.args(["-c", "printf 'a\\n'"]);
        let mut step = Step::new("the compiler", command);
        step.is_captured = true;
        assert_eq!(step.run().unwrap(), b"a\n");
    }

    #[test]
    fn shows_the_first_and_the_last_of_many_lines() {
        let mut excerpt = OutputExcerpt::default();
        for n in 0..FIRST_LINES + LAST_LINES + 7 {
            excerpt.push(n.to_string());
        }
        assert_eq!((excerpt.lines, excerpt.left_out), (FIRST_LINES, 7));
        assert_eq!(excerpt.last.len(), LAST_LINES);
    }
}
