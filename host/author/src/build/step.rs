//! Runs one command of a build, and shows a bounded part of its output while it runs.
//! `search.rs` finds the program.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anstream::adapter::strip_str;
use skillhost::Line;
use skillhost_skills::text::count::count;

use super::{BuildError, times};
use skillhost_program::progress;
use skillhost_program::terminal::{self, format_line};

/// The maximum number of lines that are shown while the command runs. Guards against: a thousand
/// errors that follow from the first.
const MAX_FIRST_LINES: usize = 120;
/// The maximum number of last lines that are shown when the command has ended.
const MAX_LAST_LINES: usize = 20;
/// The maximum number of characters of a shown line.
const MAX_LINE_CHARS: usize = 1000;
/// The maximum number of bytes of captured output.
const MAX_CAPTURED_BYTES: u64 = 64 << 20;

/// Runs a command and returns its stdout, or `None` if it fails. Shows nothing.
pub(super) fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// A command of a build.
pub(super) struct Step<'a> {
    /// The name in messages.
    pub(super) name: &'a str,
    pub(super) command: Command,
    /// Returns `true` for a line to hide, such as one about a compiler's own code.
    pub(super) is_noise: fn(&str) -> bool,
    /// The path of the project's folder in the compiler's messages, which is hidden.
    pub(super) hidden_prefix: Option<String>,
    /// True to return stdout instead of showing it.
    pub(super) is_captured: bool,
}

impl<'a> Step<'a> {
    pub(super) fn new(name: &'a str, command: Command) -> Self {
        Self {
            name,
            command,
            is_noise: |_| false,
            hidden_prefix: None,
            is_captured: false,
        }
    }

    /// Runs the command to its end. Returns its stdout if it is captured, and else no bytes.
    pub(super) fn run(mut self) -> Result<Vec<u8>, BuildError> {
        let start = Instant::now();
        let shown = progress::show(progress_text(self.name));
        let cannot_start =
            |error| BuildError::setup(format!("cannot start {}: {error}", self.name));
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot_start)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let excerpt = Mutex::new(OutputExcerpt::default());
        let (is_noise, hidden_prefix) = (self.is_noise, self.hidden_prefix.as_deref());
        let captured = std::thread::scope(|scope| {
            let excerpt = &excerpt;
            if let Some(err) = err {
                scope.spawn(move || show(err, is_noise, hidden_prefix, excerpt));
            }
            let mut captured = Vec::new();
            match out {
                Some(out) if self.is_captured => {
                    // A failed read ends the output, like a closed pipe.
                    let _ = out.take(MAX_CAPTURED_BYTES).read_to_end(&mut captured);
                }
                Some(out) => show(out, is_noise, hidden_prefix, excerpt),
                None => {}
            }
            captured
        });
        excerpt
            .into_inner()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .finish();
        let status = child.wait().map_err(|error| {
            BuildError::setup(format!("cannot wait for {}: {error}", self.name))
        })?;
        drop(shown);
        times::record(self.name, start);
        if status.success() {
            return Ok(captured);
        }
        Err(BuildError::project(format!(
            "{} failed: {status}",
            self.name
        )))
    }
}

/// Returns the text of a step's progress line.
fn progress_text(name: &str) -> String {
    if name.starts_with('`') {
        format!("running {name}")
    } else {
        name.to_owned()
    }
}

/// The shown part of a command's output: its first and last lines.
#[derive(Default)]
struct OutputExcerpt {
    /// The number of lines shown so far.
    shown: usize,
    left_out: usize,
    /// The previous line, without its indentation.
    previous: String,
    last_lines: VecDeque<String>,
}

impl OutputExcerpt {
    fn push(&mut self, line: String) {
        // Some compilers repeat an error as its own cause.
        if self.previous == line.trim() {
            return;
        }
        self.previous = line.trim().to_owned();
        if self.shown < MAX_FIRST_LINES {
            self.shown += 1;
            terminal::say(&Line::new(line));
            return;
        }
        self.last_lines.push_back(line);
        if self.last_lines.len() > MAX_LAST_LINES {
            self.last_lines.pop_front();
            self.left_out += 1;
        }
    }

    /// Shows the last lines.
    fn finish(self) {
        if self.left_out > 0 {
            let left_out = count(self.left_out, "line");
            terminal::say(&format_line!("… {left_out} left out …"));
        }
        for line in self.last_lines {
            terminal::say(&Line::new(line));
        }
    }
}

/// Shows the lines of an output until it ends.
fn show(
    output: impl Read,
    is_noise: fn(&str) -> bool,
    hidden_prefix: Option<&str>,
    excerpt: &Mutex<OutputExcerpt>,
) {
    let mut output = BufReader::new(output);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        // Reads a very long line in pieces.
        let read = (&mut output).take(1 << 20).read_until(b'\n', &mut bytes);
        if !matches!(read, Ok(1..)) {
            return;
        }
        let text = String::from_utf8_lossy(&bytes);
        // Some compilers print colours to pipes too.
        let mut line = strip_str(text.trim_end()).to_string().replace('\t', "    ");
        if is_noise(&line) {
            continue;
        }
        if let Some(prefix) = hidden_prefix {
            line = line.replace(prefix, "");
        }
        let line = line.chars().take(MAX_LINE_CHARS).collect();
        match excerpt.lock() {
            Ok(mut excerpt) => excerpt.push(line),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_running_only_for_commands() {
        assert_eq!(progress_text("`pip install`"), "running `pip install`");
        assert_eq!(progress_text("reading the imports"), "reading the imports");
    }

    #[test]
    fn names_failed_command_and_captures_stdout() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let error = Step::new("the compiler", command).run().unwrap_err();
        assert!(format!("{error:?}").contains("the compiler failed: exit status: 3"));
        let mut command = Command::new("sh");
        command.args(["-c", "printf 'a\\n'"]);
        let mut step = Step::new("the compiler", command);
        step.is_captured = true;
        assert_eq!(step.run().unwrap(), b"a\n");
    }

    #[test]
    fn removes_escape_sequences() {
        let excerpt = Mutex::default();
        let output = b"\x1b[1;31merror\x1b[0m: a\x1b[2Kb\x1b[?25lc\x1b]0;title\x07d\n";
        show(&output[..], |_| false, None, &excerpt);
        assert_eq!(excerpt.into_inner().unwrap().previous, "error: abcd");
    }

    #[test]
    fn shows_first_and_last_lines() {
        let mut excerpt = OutputExcerpt::default();
        for n in 0..MAX_FIRST_LINES + MAX_LAST_LINES + 7 {
            excerpt.push(n.to_string());
        }
        assert_eq!((excerpt.shown, excerpt.left_out), (MAX_FIRST_LINES, 7));
        assert_eq!(excerpt.last_lines.len(), MAX_LAST_LINES);
    }
}
