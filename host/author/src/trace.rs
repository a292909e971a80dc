//! Formats traces of failed calls for a tool's author: the tool's output, and the source locations
//! of its frames. Only `test` shows them, and `dev`, which runs `test`.

mod locate;

use std::fs;
use std::path::{Path, PathBuf};

use skillhost::CallTrace;
use skillhost_sandbox::component;
use skillhost_skills::broker::Opener;

use locate::Location;
pub(crate) use locate::{ARGUMENT as LOCATE_ARGUMENT, serve as serve_locations};

/// The path of the component with function names and debug sections, which `build` keeps.
///
/// It is relative to the folder of the shipped component.
pub(crate) const DEBUG_FILE: &str = "../build/debug.wasm";

/// The maximum number of lines of output to show. Guards against: a tool that floods the report.
const MAX_OUTPUT_LINES: usize = 20;
/// The maximum number of source locations to show. Guards against: recursion.
const MAX_LOCATIONS: usize = 10;
/// The maximum number of functions to show if no location is in the project.
const MAX_FOREIGN_FUNCTIONS: usize = 3;

/// Files of the kits and the compilers, which are in every trace.
const KIT_FILES: [&str; 5] = [
    "skillhost_kit.",
    "skillhost-kit.js:",
    "skillhost-folder.js:",
    "sources/initializer.js:",
    "build/bindings/",
];
/// The starts of lines that do not concern the project.
const NOISE: [&str; 2] = ["note: run with `RUST_BACKTRACE=1`", "Stack:"];

/// Formats the traces of a component's calls.
pub(crate) struct TraceFormatter {
    component: PathBuf,
}

impl TraceFormatter {
    pub(crate) fn new(component: &Path) -> Self {
        Self {
            component: component.to_owned(),
        }
    }

    /// Returns the lines of a trace.
    pub(crate) fn lines(&self, trace: &CallTrace) -> Vec<String> {
        let mut lines = output_lines(&trace.output);
        lines.extend(self.location_lines(trace));
        lines
    }

    /// Returns the locations in the project, or else the names of the innermost functions.
    fn location_lines(&self, trace: &CallTrace) -> Vec<String> {
        let offsets: Vec<u64> = trace.frames.iter().map(|frame| frame.offset).collect();
        let locations = self.locate(&offsets).unwrap_or_else(|error| {
            tracing::debug!("cannot find source locations: {error:#}");
            Vec::new()
        });
        let component = self.component.canonicalize().ok();
        let project = component
            .as_deref()
            .and_then(|file| file.parent()?.parent());
        let in_project: Vec<String> = locations
            .iter()
            .filter_map(|location| format_location(location, project))
            .take(MAX_LOCATIONS)
            .collect();
        if !in_project.is_empty() {
            return in_project;
        }
        let functions: Vec<String> = if locations.is_empty() {
            trace
                .frames
                .iter()
                .filter_map(|frame| Some(locate::demangle(frame.function.as_ref()?)))
                .collect()
        } else {
            locations
                .into_iter()
                .filter_map(|location| location.function)
                .collect()
        };
        functions
            .iter()
            .take(MAX_FOREIGN_FUNCTIONS)
            .map(|function| format!("in {function}"))
            .collect()
    }

    fn locate(&self, offsets: &[u64]) -> anyhow::Result<Vec<Location>> {
        if offsets.is_empty() {
            return Ok(Vec::new());
        }
        let component = component::read(&self.component, &Opener::DIRECT)?;
        let folder = self.component.parent().unwrap_or(Path::new("."));
        let debug_file = folder.join(DEBUG_FILE);
        // Without the file, the component itself may have debug sections.
        let debug = if fs::exists(&debug_file)? {
            component::read(&debug_file, &Opener::DIRECT)?
        } else {
            Vec::new()
        };
        locate::request(&component, &debug, offsets)
    }
}

/// Returns the last lines of a tool's output, without lines about the kit's own code.
fn output_lines(output: &str) -> Vec<String> {
    let is_kit = |line: &str| KIT_FILES.iter().any(|file| line.contains(file));
    let is_noise = |line: &str| NOISE.iter().any(|noise| line.starts_with(noise));
    let lines: Vec<String> = output
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !is_kit(line) && !is_noise(line))
        // `/0/` is the project's folder in the compiler's sandbox.
        .map(|line| format!("printed: {}", line.replace("File \"/0/", "File \"")))
        .collect();
    let left_out = lines.len().saturating_sub(MAX_OUTPUT_LINES);
    lines.into_iter().skip(left_out).collect()
}

/// Formats a location in the author's own files. Returns `None` for any other location.
fn format_location(location: &Location, project: Option<&Path>) -> Option<String> {
    let file = Path::new(location.file.as_ref()?);
    let file = if file.is_absolute() {
        file.strip_prefix(project?).ok()?
    } else {
        file
    };
    let file = file.display().to_string();
    if KIT_FILES.iter().any(|kit| file.contains(kit)) {
        return None;
    }
    let mut text = format!("at {file}");
    for number in [location.line, location.column].into_iter().flatten() {
        text.push_str(&format!(":{number}"));
    }
    if let Some(function) = &location.function {
        text.push_str(&format!(" in {function}"));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_only_output_about_the_project() {
        for (output, lines) in [
            ("", &[][..]),
            (
                "Traceback (most recent call last):\n  File \"/0/skillhost_kit.py\", line 280, in call\n  \
                 File \"/0/tool.py\", line 28, in find_word\nKeyError: 'a'\n",
                &[
                    "printed: Traceback (most recent call last):",
                    "printed:   File \"tool.py\", line 28, in find_word",
                    "printed: KeyError: 'a'",
                ],
            ),
            (
                "call@src/tool.js:39:38\ncall@src/skillhost-kit.js:155:29\n\
                 x@/tmp/93ec/sources/initializer.js:1186:28\n\n",
                &["printed: call@src/tool.js:39:38"],
            ),
            (
                "\nthread '<unnamed>' panicked at src/lib.rs:46:44:\nout of bounds\n\
                 note: run with `RUST_BACKTRACE=1` environment variable\n",
                &[
                    "printed: thread '<unnamed>' panicked at src/lib.rs:46:44:",
                    "printed: out of bounds",
                ],
            ),
        ] {
            assert_eq!(output_lines(output), lines);
        }
        let many = "line\n".repeat(1000);
        assert_eq!(output_lines(&many).len(), MAX_OUTPUT_LINES);
    }

    #[test]
    fn shows_only_locations_in_the_project() {
        let location = |file: &str| Location {
            function: Some("run".to_owned()),
            file: Some(file.to_owned()),
            line: Some(3),
            column: None,
        };
        let project = Some(Path::new("/p"));
        for (file, text) in [
            ("/p/src/lib.rs", Some("at src/lib.rs:3 in run")),
            ("src/tool.c", Some("at src/tool.c:3 in run")),
            ("/rustc/1/library/core/src/str.rs", None),
            ("/p/src/skillhost_kit.c", None),
            ("/p/build/bindings/tool.c", None),
        ] {
            assert_eq!(
                format_location(&location(file), project).as_deref(),
                text,
                "{file}"
            );
        }
        assert_eq!(format_location(&location("/p/src/lib.rs"), None), None);
    }
}
