//! Finds files of a skill that its body names in inline code, such as `scripts/run.py`. Most paths
//! in code mean files of the user, so only paths that start with a usual folder of skills are
//! checked. Nine public collections have 2,000 such paths. Of 50 that lead to no file, 47 were
//! real mistakes.

use std::borrow::Cow;

use super::links::{MAX_REFERENCES, Reference};
use super::markdown::{LineCounter, inline_code};

/// The usual folders in skills: those of the specification, and further ones of public skills.
const FOLDERS: [&str; 7] = [
    "scripts",
    "references",
    "assets",
    "reference",
    "resources",
    "templates",
    "examples",
];

/// Phrases that mark a line as an example, in lower case. The Chinese ones mean "example", "for
/// example" and "would help".
const EXAMPLE_PHRASES: [&str; 9] = [
    "example:",
    "examples:",
    "for example",
    "e.g.",
    "would be",
    "示例",
    "例如",
    "比如",
    "将有助于",
];

/// Finds the files of the skill that `body` names in inline code.
pub(super) fn code_paths(body: &str, body_line: u32) -> impl Iterator<Item = Reference<'_>> {
    let mut lines = LineCounter::new(body, body_line);
    // The line of the previous code, and whether the line gives an example.
    let mut last = (0, false);
    let found = inline_code(body).into_iter().flat_map(move |code| {
        let line = lines.line_of(code.start);
        if last.0 != line {
            last = (line, gives_an_example(line_around(body, code.start)));
        }
        let code = if last.1 {
            ""
        } else {
            body[code].trim_matches('`')
        };
        let reference = move |path| Reference {
            line,
            path: Cow::Borrowed(path),
        };
        code.split_whitespace().filter_map(path).map(reference)
    });
    found.take(MAX_REFERENCES)
}

/// Returns the line around the byte `at`.
fn line_around(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[start..].lines().next().unwrap_or_default()
}

/// Returns whether a line gives an example. Examples often name files of other skills.
fn gives_an_example(line: &str) -> bool {
    let line = line.replace('*', "").to_lowercase();
    let mut phrases = EXAMPLE_PHRASES.iter();
    phrases.any(|phrase| line.contains(phrase))
}

/// Returns the path in a word of code, if the word can name a file of the skill.
fn path(word: &str) -> Option<&str> {
    let path = word.trim_matches(['"', '\'', ',', ';', ':', '(', ')']);
    let path = path.strip_prefix("./").unwrap_or(path);
    let (folder, _) = path.split_once('/')?;
    let (_, name) = path.rsplit_once('/')?;
    let (stem, extension) = name.rsplit_once('.')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    let is_file = !stem.is_empty()
        && (1..=5).contains(&extension.len())
        && extension.starts_with(|c: char| c.is_ascii_alphabetic());
    (FOLDERS.contains(&folder) && is_file && path.chars().all(is_plain) && !path.contains(".."))
        .then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_skills_own_files_in_code() {
        for (body, expected) in [
            ("run `scripts/x.py`.", &["scripts/x.py"][..]),
            ("`python ./scripts/x.py --in a.csv`", &["scripts/x.py"]),
            (
                "``references/y.md`` `assets/z.png`",
                &["references/y.md", "assets/z.png"],
            ),
            ("(`\"templates/a/b.tsx\",`)", &["templates/a/b.tsx"]),
            ("`src/main.rs` `package.json` `x.py`", &[]),
            ("**Example**: `scripts/x.py`, e.g. `scripts/y.py`", &[]),
            ("A `scripts/x.py` would be helpful.", &[]),
            ("例如 `scripts/x.py`", &[]),
            ("存储 `assets/x/` 模板将有助于 `assets/x.html`", &[]),
            ("`examples/x.py`", &["examples/x.py"]),
            ("`scripts/*.py` `scripts/<name>.py` `scripts/{a,b}.sh`", &[]),
            ("`scripts/` `scripts/run` `scripts/.env`", &[]),
            ("`scripts/../../x.py` `/scripts/x.py` `a/scripts/x.py`", &[]),
            ("`references/v1.0` `https://a.b/scripts/x.py`", &[]),
            ("scripts/x.py \\`scripts/x.py` `open", &[]),
            (
                "```sh\n`scripts/x.py`\n```\n`scripts/y.py`",
                &["scripts/y.py"],
            ),
        ] {
            let found: Vec<_> = code_paths(body, 1).map(|found| found.path).collect();
            assert_eq!(found, expected, "{body}");
        }
    }
}
