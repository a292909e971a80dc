//! Large answers for a model. A note beside such an answer states its size, because many clients
//! cut large answers silently. An operator can make the host cut them instead, and the note then
//! says what is left out.

use serde_json::Value;

use super::help::LINE_READER;
use super::{Host, string};

/// The size in bytes above which an answer gets a note. Popular clients cut at 25,000 tokens, which
/// are about this many bytes of English text.
const LARGE: usize = 100_000;

/// The built-in tools whose answer is the text of one file.
const FILE_READERS: [&str; 4] = ["read_file_in_skill", LINE_READER, "read_skill", "get_skill"];

/// The bound of one call's answer for a model.
///
/// It also decides whether a large answer gets a note about its size. The default value neither
/// cuts answers nor adds notes.
#[derive(Debug, Clone, Default)]
pub struct AnswerBound {
    max: Option<usize>,
    /// True if an uncut answer above [`LARGE`] gets a note. A cut answer always gets one.
    has_size_note: bool,
    /// True if the caller can read the rest of the answer with [`LINE_READER`].
    is_readable_in_parts: bool,
}

impl Host {
    /// Returns the bound of the answer to a call.
    pub fn answer_bound(&self, tool: &str, arguments: &Value) -> AnswerBound {
        let served = self.tool(tool).ok();
        AnswerBound {
            max: self.0.model_output,
            has_size_note: served.is_some_and(|served| served.gives_help),
            is_readable_in_parts: self.reads_in_parts(tool, arguments),
        }
    }

    /// Returns whether the answer to a call is the text of a file that the caller can also read in
    /// parts.
    fn reads_in_parts(&self, tool: &str, arguments: &Value) -> bool {
        if !FILE_READERS.contains(&tool) || !self.is_built_in(tool) {
            return false;
        }
        let rule = self
            .definition(tool)
            .and_then(|known| known.folder.as_ref());
        let skill = rule.zip(arguments.as_object());
        let skill = skill.and_then(|(rule, given)| string(given, &rule.skill_property));
        self.tool(LINE_READER).is_ok_and(|reader| {
            // Of the file readers, only `LINE_READER` can be called without a skill.
            let may_read = skill.is_none_or(|skill| self.may_read(&reader.terms, skill));
            reader.quota.is_built_in && may_read
        })
    }
}

impl AnswerBound {
    /// Cuts a text that is too long, and returns a note about what is left out.
    pub fn cut(&self, text: &mut String) -> Option<String> {
        let total = text.len();
        let max = self.max.filter(|max| *max < total)?;
        let end = prefix_length(text, max);
        let next_line = text[end..].split_inclusive('\n').next().unwrap_or_default();
        // If the next line is longer than the bound, the answer of the tool that reads lines would
        // be cut too, so no tool can read the rest.
        let ends_with_line = end == 0 || text[..end].ends_with('\n');
        let next_line_fits = ends_with_line && next_line.len() <= max;
        text.truncate(end);
        // Truncating keeps the capacity of the whole text.
        text.shrink_to_fit();
        let lines = text.bytes().filter(|byte| *byte == b'\n').count();
        let remaining = text.len();
        let advice = if !self.is_readable_in_parts {
            "ask for less at a time".to_owned()
        } else if next_line_fits {
            format!("{LINE_READER} reads the rest with `offset` and `limit`, which count lines")
        } else {
            "the next line is longer than an answer may be".to_owned()
        };
        Some(format!(
            "The answer above is cut: it is the first {remaining} of {total} bytes, with {lines} \
             line ends. {} bytes are left out; {advice}.",
            total - remaining
        ))
    }

    /// Returns the bound for the text of the call's error. This text is not a file, so no tool can
    /// read the rest of it.
    pub fn of_error(&self) -> Self {
        Self {
            is_readable_in_parts: false,
            ..self.clone()
        }
    }

    /// Returns the note about a large answer that is not cut.
    pub fn note(&self, bytes: usize) -> Option<String> {
        if bytes <= LARGE || !self.has_size_note {
            return None;
        }
        let advice = if self.is_readable_in_parts {
            format!(
                "If it was cut, {LINE_READER} reads the file in parts with `offset` and \
                 `limit`, which count lines."
            )
        } else {
            "If it was cut, ask for less at a time.".to_owned()
        };
        Some(format!("The answer above has {bytes} bytes. {advice}"))
    }
}

/// Returns the length of the longest prefix of a text that has at most `max` bytes and consists of
/// whole lines. If the first line is longer than that, the prefix consists of whole characters.
fn prefix_length(text: &str, max: usize) -> usize {
    let end = text.floor_char_boundary(max);
    match text[..end].rfind('\n') {
        Some(line_feed) => line_feed + 1,
        None => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(max: Option<usize>) -> AnswerBound {
        AnswerBound {
            max,
            has_size_note: true,
            is_readable_in_parts: true,
        }
    }

    #[test]
    fn cuts_at_line_end_or_whole_character() {
        for (text, max, kept) in [
            ("one\ntwo\n", 8, "one\ntwo\n"),
            ("one\ntwo\n", 9, "one\ntwo\n"),
            ("one\ntwo\n", 7, "one\n"),
            ("one\ntwo\n", 4, "one\n"),
            ("one\ntwo\n", 3, "one"),
            ("one\r\ntwo\r\n", 9, "one\r\n"),
            ("one long line", 5, "one l"),
            // Characters of two, three and four bytes.
            ("ääää", 3, "ä"),
            ("漢漢", 5, "漢"),
            ("🦀🦀", 7, "🦀"),
            ("🦀", 3, ""),
            ("a\n漢", 4, "a\n"),
            ("\n\n\n", 2, "\n\n"),
        ] {
            let mut cut = text.to_owned();
            let note = bound(Some(max)).cut(&mut cut);
            assert_eq!(cut, kept, "{text:?} {max}");
            assert_eq!(note.is_some(), cut != text, "{text:?} {max}");
            if let Some(note) = note {
                let sizes = format!("the first {} of {} bytes", kept.len(), text.len());
                assert!(note.contains(&sizes), "{note}");
                let left = format!("{} bytes are left out", text.len() - kept.len());
                assert!(note.contains(&left), "{note}");
            }
        }
        for (text, max, is_readable) in [
            ("one\ntwo\n", 4, true),
            ("one\ntwo\nthree", 8, true),
            ("one\nthree", 5, true),
            ("one\nthree\n", 5, false),
            ("one\nthree\n", 4, false),
            ("three\none\n", 4, false),
            ("\nthree", 3, false),
        ] {
            let note = bound(Some(max)).cut(&mut text.to_owned()).unwrap();
            assert_eq!(note.contains(LINE_READER), is_readable, "{text:?}");
            let note = bound(Some(max)).of_error().cut(&mut text.to_owned());
            assert!(!note.unwrap().contains(LINE_READER));
        }
        let mut whole = "x".repeat(1 << 20);
        assert_eq!(bound(None).cut(&mut whole), None);
        assert_eq!(whole.len(), 1 << 20);
    }

    #[test]
    fn notes_size_of_large_answer() {
        assert_eq!(bound(None).note(LARGE), None);
        let note = bound(None).note(LARGE + 1).unwrap();
        assert!(note.contains("100001 bytes") && note.contains(LINE_READER));
        let silent = AnswerBound {
            has_size_note: false,
            ..bound(Some(1))
        };
        assert_eq!(silent.note(usize::MAX), None);
        // A cut answer gets a note even then.
        assert!(silent.cut(&mut "two".to_owned()).is_some());
        let other = AnswerBound {
            is_readable_in_parts: false,
            ..bound(Some(1))
        };
        for note in [other.note(LARGE + 1), other.cut(&mut "two".to_owned())] {
            assert!(!note.unwrap().contains(LINE_READER));
        }
    }
}
