//! Traces of failed calls, in lines for a tool's author: what the tool printed, and the
//! places in its sources. Only `test` shows them, and `dev`, which runs that.

mod locate;

use std::fs;
use std::path::{Path, PathBuf};

use skillhost::CallTrace;
use skillhost::internal::read_component;

use locate::Place;
pub(crate) use locate::{ARGUMENT as LOCATE_ARGUMENT, answer as answer_locations};

/// The file of names and debug sections that `build` leaves, from the folder of the
/// component.
pub(crate) const DEBUG_FILE: &str = "../build/debug.wasm";

/// The most lines of what a tool printed. Guards against: a tool that floods the report.
const MAX_PRINTED: usize = 20;
/// The most places. Guards against: recursion.
const MAX_PLACES: usize = 10;
/// The number of functions that are shown if none is of the project.
const FOREIGN_PLACES: usize = 3;

/// Files of the kits and the compilers, which are in each trace.
const OWN_FILES: [&str; 5] = [
    "skillhost_kit.",
    "skillhost-kit.js:",
    "skillhost-folder.js:",
    "sources/initializer.js:",
    "build/bindings/",
];
/// Lines that say nothing of the project.
const NOISE: [&str; 2] = ["note: run with `RUST_BACKTRACE=1`", "Stack:"];

/// Reads the traces of a component's calls.
pub(crate) struct TraceReader {
    component: PathBuf,
}

impl TraceReader {
    pub(crate) fn of(component: &Path) -> Self {
        Self {
            component: component.to_owned(),
        }
    }

    /// Returns a trace in lines.
    pub(crate) fn lines(&self, trace: &CallTrace) -> Vec<String> {
        let mut lines = printed(&trace.output);
        lines.extend(self.places(trace));
        lines
    }

    fn places(&self, trace: &CallTrace) -> Vec<String> {
        let offsets: Vec<u64> = trace.frames.iter().map(|frame| frame.offset).collect();
        let located = match self.locate(&offsets) {
            Ok(located) => located,
            Err(error) => {
                tracing::debug!("no lines of sources: {error:#}");
                Vec::new()
            }
        };
        let project = self.component.canonicalize().ok();
        let project = project.as_deref().and_then(|file| file.parent()?.parent());
        let of_project: Vec<String> = located
            .iter()
            .filter_map(|place| shown(place, project))
            .take(MAX_PLACES)
            .collect();
        if !of_project.is_empty() {
            return of_project;
        }
        let names = trace.frames.iter();
        let names = names.filter_map(|frame| Some(locate::demangled(frame.function.as_ref()?)));
        let places = located.iter().filter_map(|place| place.function.clone());
        let all: Vec<String> = match located.is_empty() {
            true => names.collect(),
            false => places.collect(),
        };
        let all = all.into_iter().take(FOREIGN_PLACES);
        all.map(|name| format!("in {name}")).collect()
    }

    fn locate(&self, offsets: &[u64]) -> anyhow::Result<Vec<Place>> {
        if offsets.is_empty() {
            return Ok(Vec::new());
        }
        let component = read_component(&self.component)?;
        let folder = self.component.parent().unwrap_or(Path::new("."));
        let debug = folder.join(DEBUG_FILE);
        // A component that was not stripped has its own.
        let debug = match fs::exists(&debug)? {
            true => read_component(&debug)?,
            false => Vec::new(),
        };
        locate::ask(&component, &debug, offsets)
    }
}

/// Returns the end of what a tool printed, without the lines about the kit's own code.
fn printed(output: &str) -> Vec<String> {
    let lines = output.lines().map(str::trim_end);
    let is_own = |line: &str| OWN_FILES.iter().any(|file| line.contains(file));
    let is_noise = |line: &str| NOISE.iter().any(|noise| line.starts_with(noise));
    let lines: Vec<String> = lines
        .filter(|line| !line.is_empty() && !is_own(line) && !is_noise(line))
        // The project's folder in the compiler's sandbox.
        .map(|line| format!("printed: {}", line.replace("File \"/0/", "File \"")))
        .collect();
    let left_out = lines.len().saturating_sub(MAX_PRINTED);
    lines.into_iter().skip(left_out).collect()
}

/// Returns a place in the author's own files.
fn shown(place: &Place, project: Option<&Path>) -> Option<String> {
    let file = Path::new(place.file.as_ref()?);
    let file = match file.is_absolute() {
        true => file.strip_prefix(project?).ok()?,
        false => file,
    };
    let file = file.display().to_string();
    if OWN_FILES.iter().any(|own| file.contains(own)) {
        return None;
    }
    let mut text = format!("at {file}");
    for number in [place.line, place.column].into_iter().flatten() {
        text.push_str(&format!(":{number}"));
    }
    if let Some(function) = &place.function {
        text.push_str(&format!(" in {function}"));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_authors_own_lines_of_what_a_tool_printed() {
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
            assert_eq!(printed(output), lines);
        }
        let many = "line\n".repeat(1000);
        assert_eq!(printed(&many).len(), MAX_PRINTED);
    }

    #[test]
    fn shows_places_in_the_project_alone() {
        let place = |file: &str| Place {
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
            assert_eq!(shown(&place(file), project).as_deref(), text, "{file}");
        }
        assert_eq!(shown(&place("/p/src/lib.rs"), None), None);
    }
}
