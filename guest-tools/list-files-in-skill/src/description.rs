//! What a file is about, by its start: the title of a Markdown file, the first
//! line of a Python script's docstring, the leading comment of another script.
//! All of it is a stranger's text: one line, cut, without hidden characters.

use alloc::borrow::ToOwned as _;
use alloc::string::String;

use skillhost_guest::{File, without_frontmatter};

use crate::hidden::is_hidden;

/// Bytes of a file that are read. Guards against: the time and memory that the
/// files of an answer take together, which are a hundred.
const START_BYTES: u64 = 4 << 10;
/// Characters of a description. Guards against: an answer that costs many tokens.
const MOST_CHARS: usize = 80;

/// The languages that have a place for a description.
#[derive(Clone, Copy)]
enum Language {
    Markdown,
    Python,
    /// Comments start with `#`.
    Shell,
    JavaScript,
}

/// Describes a file by its start.
pub(crate) fn of(path: &str, file: &File) -> Option<String> {
    let name = path.rsplit('/').next()?;
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let by_name = extension.and_then(language);
    // A script may go by its first line alone.
    if by_name.is_none() && extension.is_some() {
        return None;
    }
    let (bytes, _) = file.read_at(0, START_BYTES).ok()?;
    let text = match core::str::from_utf8(&bytes) {
        Ok(text) => text,
        // Half a character where it was cut.
        Err(error) if error.error_len().is_none() => {
            core::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let words = match by_name.or_else(|| of_first_line(text))? {
        Language::Markdown => title(text),
        Language::Python => docstring(text).or_else(|| comment(text, "#")),
        Language::Shell => comment(text, "#"),
        Language::JavaScript => block_comment(text).or_else(|| comment(text, "//")),
    };
    words.and_then(one_line)
}

fn language(extension: &str) -> Option<Language> {
    let is = |names: &[&str]| {
        names
            .iter()
            .any(|name| extension.eq_ignore_ascii_case(name))
    };
    if is(&["md", "markdown", "mdx"]) {
        Some(Language::Markdown)
    } else if is(&["py"]) {
        Some(Language::Python)
    } else if is(&["sh", "bash", "zsh", "rb", "pl", "ps1"]) {
        Some(Language::Shell)
    } else if is(&["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"]) {
        Some(Language::JavaScript)
    } else {
        None
    }
}

fn of_first_line(text: &str) -> Option<Language> {
    let program = text.strip_prefix("#!")?.lines().next()?;
    if program.contains("python") {
        Some(Language::Python)
    } else if program.contains("node") || program.contains("deno") || program.contains("bun") {
        Some(Language::JavaScript)
    } else {
        Some(Language::Shell)
    }
}

/// The `title` of the frontmatter, else the first heading outside of code.
fn title(text: &str) -> Option<&str> {
    let body = without_frontmatter(text);
    let frontmatter = &text[..text.len() - body.len()];
    let titled = frontmatter
        .lines()
        .find_map(|line| line.strip_prefix("title:"));
    if let Some(title) = titled.map(|title| title.trim().trim_matches(['"', '\''])) {
        if !title.is_empty() {
            return Some(title);
        }
    }
    let (mut in_code, mut before) = (false, "");
    for line in body.lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            in_code = !in_code;
        } else if !in_code {
            let heading = line.trim_start_matches('#');
            let level = line.len() - heading.len();
            if (1..=6).contains(&level) && heading.starts_with([' ', '\t']) {
                return Some(heading.trim().trim_end_matches('#'));
            }
            let underlined = line.len() > 2 && line.bytes().all(|byte| byte == b'=');
            if underlined && !before.is_empty() {
                return Some(before);
            }
        }
        before = line;
    }
    None
}

/// The first line of a module's docstring, which only comments may precede.
fn docstring(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if !rest.starts_with('#') {
            break;
        }
        rest = &rest[rest.find('\n')?..];
    }
    let literal = rest.trim_start_matches(['r', 'R', 'u', 'U']);
    ["\"\"\"", "'''", "\"", "'"].iter().find_map(|quotes| {
        let string = literal.strip_prefix(quotes)?;
        let string = string.split(quotes).next()?;
        string.lines().map(str::trim).find(|line| !line.is_empty())
    })
}

/// The first line of a leading comment that says something.
fn comment<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    let lines = text.lines().skip_while(|line| line.starts_with("#!"));
    let lines = lines.map(str::trim).skip_while(|line| {
        line.is_empty()
            || matches!(
                line.trim_end_matches(';'),
                "'use strict'" | "\"use strict\""
            )
    });
    let comment = lines.map_while(|line| match line {
        "" => Some(""),
        line => line.strip_prefix(mark),
    });
    words_of(comment)
}

/// The same of a comment between `/*` and `*/`.
fn block_comment(text: &str) -> Option<&str> {
    let text = match text.starts_with("#!") {
        true => &text[text.find('\n')?..],
        false => text,
    };
    let block = text.trim_start().strip_prefix("/*")?;
    let block = block.split("*/").next()?;
    words_of(
        block
            .lines()
            .map(|line| line.trim().trim_start_matches('*')),
    )
}

/// The first line with words for a reader: not a licence, not a word to a tool.
fn words_of<'t>(lines: impl Iterator<Item = &'t str>) -> Option<&'t str> {
    let mut in_notice = false;
    for line in lines {
        let line = line.trim();
        let line = ["@fileoverview", "@file", "@description"]
            .iter()
            .find_map(|tag| line.strip_prefix(tag))
            .map_or(line, str::trim_start);
        if !line.contains(char::is_alphanumeric) {
            in_notice = false;
        } else if !in_notice {
            if !is_notice(line) {
                return Some(line);
            }
            // So are its next lines.
            in_notice = true;
        }
    }
    None
}

/// Returns whether a comment is a licence, or is meant for a tool.
fn is_notice(line: &str) -> bool {
    const STARTS: [&str; 21] = [
        "///",
        "requires-python",
        "dependencies",
        "@",
        "-*-",
        "<",
        "http",
        "spdx-",
        "copyright",
        "(c)",
        "license",
        "licensed",
        "unless required",
        "eslint",
        "prettier",
        "shellcheck",
        "vim:",
        "pylint",
        "ruff",
        "mypy",
        "type:",
    ];
    STARTS.iter().any(|start| {
        let head = line.get(..start.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(start))
    })
}

/// One line of visible characters, cut. None: nothing of it can be seen.
fn one_line(words: &str) -> Option<String> {
    let mut line = String::new();
    let visible = |c: &char| c.is_whitespace() || !is_hidden(*c);
    let shown: String = words.chars().filter(visible).take(4 * MOST_CHARS).collect();
    for word in shown.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if let Some((at, _)) = line.char_indices().nth(MOST_CHARS) {
        line.truncate(at);
        line = line.trim_end().to_owned();
        line.push('…');
    }
    (!line.is_empty()).then_some(line)
}
