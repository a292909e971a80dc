//! The note on text of a skill that other hosts replace or run, such as `$ARGUMENTS`. The note
//! follows the answer of `read_skill`. The answer itself stays unchanged.

use super::Host;
use skillhost_sandbox::tool::Output;
use skillhost_skills::check::{Placeholder, placeholders};

/// The tool whose answers get a note: it shows a model the instructions of a skill.
const NOTED_TOOL: &str = "read_skill";

/// The maximum number of bytes of an answer that are searched. Guards against: a search in a very
/// large skill that delays other messages.
const MAX_SEARCHED: usize = 128 * 1024;

impl Host {
    /// Returns a note for a model about text in an answer of `read_skill` that other hosts replace
    /// or run, and this one does not.
    ///
    /// The note has fixed words and quotes nothing from the skill. Returns `None` if there is no
    /// such text or [help](crate::HostBuilder::help) is off.
    pub fn placeholder_note(&self, tool: &str, output: &Output) -> Option<String> {
        if tool != NOTED_TOOL || !self.is_built_in(tool) {
            return None;
        }
        self.tool(tool).ok().filter(|served| served.gives_help)?;
        let text = output.text();
        let text = &text[..text.floor_char_boundary(MAX_SEARCHED)];
        let lines = placeholders(text, 1).into_iter();
        let lines: Vec<String> = lines
            .map(|Placeholder { kind, .. }| format!("{} {}", kind.name(), kind.meaning()))
            .collect();
        (!lines.is_empty()).then(|| format!("In these instructions:\n{}", lines.join("\n")))
    }
}
