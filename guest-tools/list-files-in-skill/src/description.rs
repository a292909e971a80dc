//! Describes a file by its start: the title of a Markdown file, the first line of a Python
//! script's docstring, or the leading comment of another script. A description is third-party
//! text, so it becomes one short line without hidden characters.

use alloc::borrow::ToOwned as _;
use alloc::string::String;

use skillhost_guest::{File, without_frontmatter};

use crate::hidden::is_hidden;

/// The maximum number of bytes to read of a file. Guards against: the time and memory for the
/// hundred files of an answer.
const MAX_START_BYTES: u64 = 4 << 10;
/// The maximum number of characters in a description. Guards against: an answer that costs
/// many tokens.
const MAX_CHARS: usize = 80;

/// A language in which files can have a description.
#[derive(Clone, Copy)]
enum Language {
    Markdown,
    Python,
    /// A language with comments that start with `#`.
    Shell,
    JavaScript,
}

/// Describes a file by its start.
pub(crate) fn of(path: &str, file: &File) -> Option<String> {
    let name = path.rsplit('/').next()?;
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let by_extension = extension.and_then(language);
    // A file without an extension may be a script with a `#!` line.
    if by_extension.is_none() && extension.is_some() {
        return None;
    }
    let (bytes, _) = file.read_at(0, MAX_START_BYTES).ok()?;
    let text = match core::str::from_utf8(&bytes) {
        Ok(text) => text,
        // The last character is incomplete: drop it.
        Err(error) if error.error_len().is_none() => {
            core::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let description = match by_extension.or_else(|| language_of_first_line(text))? {
        Language::Markdown => title(text),
        Language::Python => docstring(text).or_else(|| comment(text, "#")),
        Language::Shell => comment(text, "#"),
        Language::JavaScript => block_comment(text).or_else(|| comment(text, "//")),
    };
    description.and_then(one_line)
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

fn language_of_first_line(text: &str) -> Option<Language> {
    let program = text.strip_prefix("#!")?.lines().next()?;
    if program.contains("python") {
        Some(Language::Python)
    } else if program.contains("node") || program.contains("deno") || program.contains("bun") {
        Some(Language::JavaScript)
    } else {
        Some(Language::Shell)
    }
}

/// Returns the `title` of the frontmatter, or the first heading outside code blocks.
fn title(text: &str) -> Option<&str> {
    let body = without_frontmatter(text);
    let frontmatter = &text[..text.len() - body.len()];
    let title = frontmatter
        .lines()
        .find_map(|line| line.strip_prefix("title:"));
    if let Some(title) = title.map(|title| title.trim().trim_matches(['"', '\''])) {
        if !title.is_empty() {
            return Some(title);
        }
    }
    let (mut in_code, mut previous) = (false, "");
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
            if underlined && !previous.is_empty() {
                return Some(previous);
            }
        }
        previous = line;
    }
    None
}

/// Returns the first line of a module's docstring. Only comments may precede it.
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

/// Returns the first descriptive line of a leading comment.
fn comment<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
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
        line => line.strip_prefix(prefix),
    });
    first_descriptive_line(comment)
}

/// Returns the first descriptive line of a leading comment between `/*` and `*/`.
fn block_comment(text: &str) -> Option<&str> {
    let text = if text.starts_with("#!") {
        &text[text.find('\n')?..]
    } else {
        text
    };
    let block = text.trim_start().strip_prefix("/*")?;
    let block = block.split("*/").next()?;
    first_descriptive_line(
        block
            .lines()
            .map(|line| line.trim().trim_start_matches('*')),
    )
}

/// Returns the first line that is neither a licence notice nor a directive for a tool.
fn first_descriptive_line<'t>(lines: impl Iterator<Item = &'t str>) -> Option<&'t str> {
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
            // Skip the rest of the paragraph, too.
            in_notice = true;
        }
    }
    None
}

/// Returns whether a line of a comment is a licence notice or a directive for a tool.
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

/// Returns the visible characters of a text as one line, cut to `MAX_CHARS`. Returns `None`
/// if none is visible.
fn one_line(text: &str) -> Option<String> {
    let mut line = String::new();
    let is_visible = |c: &char| c.is_whitespace() || !is_hidden(*c);
    let visible: String = text
        .chars()
        .filter(is_visible)
        .take(4 * MAX_CHARS)
        .collect();
    for word in visible.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if let Some((end, _)) = line.char_indices().nth(MAX_CHARS) {
        line.truncate(end);
        line = line.trim_end().to_owned();
        line.push('…');
    }
    (!line.is_empty()).then_some(line)
}
