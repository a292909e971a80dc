//! Finds SKILL.md in a folder, and the body after its frontmatter.

use alloc::string::String;

use crate::{File, Folder, Output, ReadError, SkillPath};

impl Folder {
    /// Opens the skill's documentation: `SKILL.md`, else `SKILL.MD`, else the first file in byte
    /// order whose name differs only in case.
    pub fn open_skill_md(&self) -> Result<File, ReadError> {
        self.with_skill_md(|path| self.open(path))
    }

    /// Returns an answer with the skill's documentation. See [`Folder::answer`].
    pub fn answer_skill_md(&self, limit: u64) -> Result<(Output, u64), ReadError> {
        self.with_skill_md(|path| self.answer(path, limit))
    }

    /// Reads the file at a path. If no file has this path, and the path is any spelling of
    /// `SKILL.md`, reads the skill's documentation.
    pub fn find<T>(
        &self,
        path: &SkillPath<'_>,
        read: impl Fn(&SkillPath<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        match read(path) {
            Err(ReadError::NotFound)
                if self.skill().is_some() && path.normalized().eq_ignore_ascii_case("SKILL.md") =>
            {
                self.with_skill_md(read)
            }
            result => result,
        }
    }

    /// Calls `open` with each spelling of `SKILL.md` until a file exists.
    fn with_skill_md<T>(
        &self,
        open: impl Fn(&SkillPath<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        for name in spellings() {
            match open(&SkillPath::known(&name)) {
                Err(ReadError::NotFound) => {}
                result => return result,
            }
        }
        Err(ReadError::NotFound)
    }
}

/// Returns all spellings of SKILL.md in upper and lower case: `SKILL.md`, `SKILL.MD`, then
/// the others in byte order.
///
/// Trying them all is cheaper than an import that lists the folder, because each import
/// makes every call of a component slower.
fn spellings() -> impl Iterator<Item = String> {
    const LETTER_COUNT: u32 = 7;
    /// The letters of `SKILL.md` that are in lower case: the last two.
    const USUAL_MASK: u32 = 0b11;
    let spell = |lowercase_mask: u32| {
        let mut remaining = LETTER_COUNT;
        let spell_char = |c: char| {
            if c == '.' {
                return c;
            }
            remaining -= 1;
            if lowercase_mask >> remaining & 1 == 0 {
                c
            } else {
                c.to_ascii_lowercase()
            }
        };
        "SKILL.MD".chars().map(spell_char).collect()
    };
    let other_masks = (0..1 << LETTER_COUNT).filter(|mask| *mask != USUAL_MASK);
    core::iter::once(USUAL_MASK).chain(other_masks).map(spell)
}

/// Returns the body of a SKILL.md: the text after its YAML frontmatter, without leading
/// blank lines. Returns the whole text if there is no frontmatter, or if no line closes
/// it. Accepts LF and CRLF line ends.
pub fn without_frontmatter(text: &str) -> &str {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    if lines.next().map(without_blanks) != Some("---") {
        return text;
    }
    let mut rest = text;
    rest = &rest[rest.find('\n').map_or(rest.len(), |end| end + 1)..];
    for line in lines {
        rest = &rest[line.len()..];
        if matches!(without_blanks(line), "---" | "...") {
            return skip_blank_lines(rest);
        }
    }
    text
}

/// Returns a line without the blanks and the line break at its end.
fn without_blanks(line: &str) -> &str {
    line.trim_end_matches([' ', '\t', '\r', '\n'])
}

fn skip_blank_lines(text: &str) -> &str {
    let blank: usize = text
        .split_inclusive('\n')
        .take_while(|line| without_blanks(line).is_empty())
        .map(str::len)
        .sum();
    &text[blank..]
}
