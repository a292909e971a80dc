//! Finds SKILL.md in a folder, and its body after the frontmatter.

use alloc::string::String;

use crate::{File, Folder, Output, ReadError, SkillPath};

impl Folder {
    /// Opens the skill's documentation: `SKILL.md`, else `SKILL.MD`, else the
    /// first other spelling by case.
    pub fn open_skill_md(&self) -> Result<File, ReadError> {
        self.with_skill_md(|path| self.open(path))
    }

    /// Returns an answer with the skill's documentation. See [`Folder::answer`].
    pub fn answer_skill_md(&self, limit: u64) -> Result<(Output, u64), ReadError> {
        self.with_skill_md(|path| self.answer(path, limit))
    }

    /// Reads the file at a path. If it does not exist, and the path is some spelling of
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
            found => found,
        }
    }

    fn with_skill_md<T>(
        &self,
        open: impl Fn(&SkillPath<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        for name in spellings() {
            match open(&SkillPath::known(&name)) {
                Err(ReadError::NotFound) => {}
                found => return found,
            }
        }
        Err(ReadError::NotFound)
    }
}

/// Returns all spellings of SKILL.md by case: `SKILL.md`, `SKILL.MD`, then the others in byte
/// order. Trying them all is cheaper than an import that lists the folder: each import
/// makes every call of a component slower.
fn spellings() -> impl Iterator<Item = String> {
    const LETTERS: u32 = 7;
    const FIRST: u32 = 0b11;
    let spelling = |lower: u32| {
        let mut left = LETTERS;
        let mut spelled = |c: char| match c {
            '.' => c,
            c => {
                left -= 1;
                match lower >> left & 1 {
                    0 => c,
                    _ => c.to_ascii_lowercase(),
                }
            }
        };
        "SKILL.MD".chars().map(&mut spelled).collect()
    };
    let others = (0..1 << LETTERS).filter(|lower| *lower != FIRST);
    core::iter::once(FIRST).chain(others).map(spelling)
}

/// Returns the body of a SKILL.md: the text after its YAML frontmatter, without leading
/// blank lines. Returns the whole text if there is no frontmatter, or if it is never
/// closed. Line ends may be LF or CRLF.
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
