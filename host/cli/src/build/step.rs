//! One command of a build: runs it, and shows a bounded part of what it prints as
//! it comes. How its program is found stands in `search.rs`.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use skillhost::Line;

use super::Fault;
use crate::terminal::{self, format_line};

/// Lines that are shown as they come. Meets: a thousand errors that follow
/// from the first.
const SHOWN: usize = 120;
/// Of those after them, the last ones are shown when the command has ended.
const LAST: usize = 20;
/// Longest part of a line that is shown.
const LINE: usize = 1000;
/// Most that is kept of what a program reads.
const KEPT: u64 = 64 << 20;

/// What a command prints, asked for a fact: nothing of it is shown.
pub(super) fn ask(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// A command of a build.
pub(super) struct Step<'a> {
    /// What it is called in messages.
    pub(super) name: &'a str,
    pub(super) command: Command,
    /// Lines that help nobody are left out: where in a compiler's own code an
    /// error arose.
    pub(super) noise: fn(&str) -> bool,
    /// What stands for the project's folder in a compiler's messages.
    pub(super) alias: Option<String>,
    /// Whether stdout is for this program, and not shown.
    pub(super) quiet: bool,
}

impl<'a> Step<'a> {
    pub(super) fn new(name: &'a str, command: Command) -> Self {
        Self {
            name,
            command,
            noise: |_| false,
            alias: None,
            quiet: false,
        }
    }

    /// Runs it to its end. Gives its stdout, if that is for this program.
    pub(super) fn run(mut self) -> Result<Vec<u8>, Fault> {
        let start = |error| Fault::missing(format!("cannot start {}: {error}", self.name));
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(start)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let shown = Mutex::new(Shown::default());
        let (noise, alias, quiet) = (self.noise, self.alias.as_deref(), self.quiet);
        let kept = std::thread::scope(|scope| {
            let shown = &shown;
            if let Some(err) = err {
                scope.spawn(move || show(err, noise, alias, shown));
            }
            let mut kept = Vec::new();
            match out {
                Some(out) if quiet => {
                    // A failed read is the end, as a closed pipe is.
                    let _ = out.take(KEPT).read_to_end(&mut kept);
                }
                Some(out) => show(out, noise, alias, shown),
                None => {}
            }
            kept
        });
        shown
            .into_inner()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .end();
        let status = child.wait().map_err(start)?;
        if status.success() {
            return Ok(kept);
        }
        Err(Fault::project(format!("{} failed: {status}", self.name)))
    }
}

/// What was shown of a command's output, and what was not.
#[derive(Default)]
struct Shown {
    lines: usize,
    left_out: usize,
    /// The line before, without what it is indented by.
    before: String,
    last: VecDeque<String>,
}

impl Shown {
    fn line(&mut self, line: String) {
        // Said again, as a cause of itself.
        if self.before == line.trim() {
            return;
        }
        self.before = line.trim().to_owned();
        if self.lines < SHOWN {
            self.lines += 1;
            terminal::say(&Line::new(line));
            return;
        }
        self.last.push_back(line);
        if self.last.len() > LAST {
            self.last.pop_front();
            self.left_out += 1;
        }
    }

    fn end(self) {
        if self.left_out > 0 {
            terminal::say(&format_line!("… {} lines left out …", self.left_out));
        }
        for line in self.last {
            terminal::say(&Line::new(line));
        }
    }
}

fn show(from: impl Read, noise: fn(&str) -> bool, alias: Option<&str>, shown: &Mutex<Shown>) {
    let mut from = BufReader::new(from);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        // A line without an end is taken in pieces.
        let piece = (&mut from).take(1 << 20).read_until(b'\n', &mut bytes);
        if !matches!(piece, Ok(1..)) {
            return;
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = without_escapes(line.trim_end()).replace('\t', "    ");
        if noise(&line) {
            continue;
        }
        let line = match alias {
            Some(alias) => line.replace(alias, ""),
            None => line,
        };
        let line = line.chars().take(LINE).collect();
        match shown.lock() {
            Ok(mut shown) => shown.line(line),
            Err(_) => return,
        }
    }
}

/// A line without the colours that some compilers print whoever reads.
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
    fn colours_are_taken_out_of_a_line() {
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
    fn a_command_that_fails_is_named() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let fault = Step::new("the compiler", command).run().unwrap_err();
        assert!(format!("{fault:?}").contains("the compiler failed: exit status: 3"));
        let mut command = Command::new("sh");
        command.args(["-c", "printf 'a\\n'"]);
        let mut step = Step::new("the compiler", command);
        step.quiet = true;
        assert_eq!(step.run().unwrap(), b"a\n");
    }

    #[test]
    fn of_many_lines_the_first_and_the_last_are_shown() {
        let mut shown = Shown::default();
        for n in 0..SHOWN + LAST + 7 {
            shown.line(n.to_string());
        }
        assert_eq!((shown.lines, shown.left_out), (SHOWN, 7));
        assert_eq!(shown.last.len(), LAST);
    }
}
