//! Finds hidden text in a whole file: SKILL.md or a Markdown file that it refers to.

use super::super::{Finding, Rule};
use super::characters::{Kind, hidden_characters, kind};
use super::unrendered::long_parts;
use crate::frontmatter::{Split, quoted};

/// The minimum number of adjacent zero-width characters that are reported, because they can encode
/// a text. A single one often comes from a web page or an editor.
const MIN_RUN: usize = 2;

/// The maximum number of lines that a message names.
const MAX_LINES: usize = 5;

/// The rules for hidden text in files.
pub(in super::super) const RULES: &[Rule] = &[
    Rule::warning(
        "hidden-tags",
        "A file has tag characters, which are invisible copies of ASCII characters.",
        "Remove them. A model can read a text in them that no person sees. The tags of a regional \
         flag are not reported.",
    ),
    Rule::warning(
        "hidden-direction",
        "A file has characters that change the direction of text.",
        "Remove them. A person sees the characters in another order than a model reads. The \
         marks U+061C, U+200E and U+200F are not reported in a line with letters that are written \
         from right to left.",
    ),
    Rule::warning(
        "hidden-run",
        "A file has several adjacent zero-width characters.",
        "Remove them. A model can read a text in them that no person sees. Those of emoji and \
         joiners between letters that need them are not reported.",
    ),
    Rule::warning(
        "hidden-control",
        "A file has control characters, or other invisible characters.",
        "Remove them. A terminal may obey them, and a model can read a text in them that no person \
         sees. Tabs and line ends are not reported.",
    ),
    Rule::warning(
        "hidden-comment",
        "A Markdown file has a comment that is long enough for an instruction: in HTML, as the \
         title of a link, as the label of a link definition, as a footnote that is not shown, \
         beyond the columns of a table, or after the language of a code block.",
        "Write it as visible text, or remove it. A rendered page does not show a comment, but a \
         model reads it. Comments in code blocks are not reported.",
    ),
    Rule::warning(
        "markdown-unchecked",
        "A Markdown file takes too long to parse: its comments and links were not searched.",
        "Write at most 1 MiB in a file and 262,144 cells in tables, nest at most 100 lists and \
         quotes, write links in long paragraphs without titles, or check the file yourself.",
    ),
];

/// The occurrences of one kind of hidden text in a file.
#[derive(Default)]
struct Places {
    /// The number of characters or comments.
    count: usize,
    /// The first lines, each once.
    lines: Vec<u32>,
    /// True if there are further lines.
    has_more_lines: bool,
}

impl Places {
    fn add(&mut self, line: u32, count: usize) {
        self.count += count;
        if self.lines.last() == Some(&line) {
            return;
        }
        if self.lines.len() < MAX_LINES {
            self.lines.push(line);
        } else {
            self.has_more_lines = true;
        }
    }

    /// Returns a finding if anything was found. `what` is the noun for one occurrence.
    fn finding(&self, rule: &'static str, what: &str, why: &str) -> Option<Finding> {
        let (first, others) = self.lines.split_first()?;
        let count = match self.count {
            1 => format!("1 {what}"),
            many => format!("{many} {what}s"),
        };
        let lines = if others.is_empty() {
            String::new()
        } else {
            let others: Vec<String> = others.iter().map(u32::to_string).collect();
            let noun = if others.len() == 1 { "line" } else { "lines" };
            let more = if self.has_more_lines { " and more" } else { "" };
            format!(", also on {noun} {}{more}", others.join(", "))
        };
        let message = format!("the file has {count}{lines}: {why}");
        Some(Finding::warning(rule, Some(*first), message))
    }
}

/// Returns the findings for a SKILL.md.
///
/// If `is_frontmatter_reported`, another finding already names hidden characters of the skill's name
/// or description. Then the hidden characters of the whole frontmatter are left out.
pub(in super::super) fn skill_findings(
    text: &str,
    split: &Split<'_>,
    is_frontmatter_reported: bool,
) -> Vec<Finding> {
    let mut findings = if is_frontmatter_reported {
        character_findings(split.body, split.body_line)
    } else {
        character_findings(text, 1)
    };
    findings.extend(comment_finding(split.body, split.body_line));
    findings
}

/// Returns the findings for a Markdown file other than SKILL.md.
pub(in super::super) fn file_findings(text: &str) -> Vec<Finding> {
    let mut findings = character_findings(text, 1);
    findings.extend(comment_finding(text, 1));
    findings
}

fn character_findings(text: &str, first_line: u32) -> Vec<Finding> {
    let (mut tags, mut direction) = <(Places, Places)>::default();
    let (mut runs, mut controls) = <(Places, Places)>::default();
    for (line, number) in text.lines().zip(first_line..) {
        // Most lines are printable ASCII.
        if line.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
            continue;
        }
        let is_right_to_left = line.chars().any(is_right_to_left);
        let mut run = 0;
        let mut run_end = None;
        for (at, c) in hidden_characters(line) {
            match kind(c) {
                Kind::Tag => tags.add(number, 1),
                Kind::Direction if is_right_to_left && is_mark(c) => {}
                Kind::Direction => direction.add(number, 1),
                Kind::ZeroWidth => {
                    run = if run_end == Some(at) { run + 1 } else { 1 };
                    run_end = Some(at + 1);
                    match run {
                        ..MIN_RUN => {}
                        MIN_RUN => runs.add(number, MIN_RUN),
                        _ => runs.add(number, 1),
                    }
                }
                // Fonts have symbols for these.
                Kind::Other if is_private_use(c) => {}
                Kind::Other => controls.add(number, 1),
            }
        }
    }
    let unseen = "a person does not see what a model reads";
    [
        tags.finding("hidden-tags", "tag character", unseen),
        direction.finding(
            "hidden-direction",
            "direction-changing character",
            "a person sees the text in another order than a model reads",
        ),
        runs.finding("hidden-run", "adjacent zero-width character", unseen),
        controls.finding("hidden-control", "control or invisible character", unseen),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the finding for the long comments of a text, or for a text that is not parsed.
fn comment_finding(text: &str, first_line: u32) -> Option<Finding> {
    let parts = match long_parts(text, first_line) {
        Ok(parts) => parts,
        Err((line, why)) => {
            let message = format!("the file has {why}: its comments and links were not searched");
            return Some(Finding::warning("markdown-unchecked", Some(line), message));
        }
    };
    let start = quoted(&parts.first()?.start);
    let mut places = Places::default();
    for part in &parts {
        places.add(part.line, 1);
    }
    let why = format!("a rendered page does not show {start}, but a model reads it");
    places.finding("hidden-comment", "long comment", &why)
}

/// Returns whether a character is a mark that text in both directions needs.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
}

/// Returns whether a character is for private use.
fn is_private_use(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..='\u{10fffd}')
}

/// Returns whether a letter is written from right to left: Hebrew to Arabic, and their
/// presentation forms.
fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
        && c.is_alphabetic()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rule and line of each finding.
    fn found(text: &str) -> Vec<(&'static str, u32)> {
        let findings = file_findings(text);
        let shown = findings
            .iter()
            .map(|found| (found.rule, found.line.unwrap()));
        shown.collect()
    }

    #[test]
    fn finds_hidden_characters_in_a_file() {
        let tags: String = "run x"
            .bytes()
            .map(|b| char::from_u32(0xe0000 + u32::from(b)).unwrap())
            .collect();
        for (text, expected) in [
            (format!("a\nb{tags}"), &[("hidden-tags", 2)][..]),
            ("a\u{e0001}".to_owned(), &[("hidden-tags", 1)]),
            (format!("\u{1f3f4}{tags}\u{e007f}"), &[("hidden-tags", 1)]),
            (
                "```\na\u{202e}b\n```".to_owned(),
                &[("hidden-direction", 2)],
            ),
            ("a\u{2066}b\u{2069}".to_owned(), &[("hidden-direction", 1)]),
            ("a\u{200f}b".to_owned(), &[("hidden-direction", 1)]),
            ("\u{202e}سلام".to_owned(), &[("hidden-direction", 1)]),
            ("a\n\nb\u{200b}\u{200c}".to_owned(), &[("hidden-run", 3)]),
            ("a\u{feff}\u{feff}".to_owned(), &[("hidden-run", 1)]),
            ("a\u{fe01}\u{e0101}".to_owned(), &[("hidden-run", 1)]),
            ("数\u{200d}\u{200d}据".to_owned(), &[("hidden-run", 1)]),
            ("a\u{1b}[2J".to_owned(), &[("hidden-control", 1)]),
            ("a\rb\r\n".to_owned(), &[("hidden-control", 1)]),
            ("a\n\u{7f}\u{c}\u{b}".to_owned(), &[("hidden-control", 2)]),
            ("é\u{85}".to_owned(), &[("hidden-control", 1)]),
            ("a\u{2800}\u{2028}".to_owned(), &[("hidden-control", 1)]),
            ("a\u{13442}\u{16fe4}".to_owned(), &[("hidden-control", 1)]),
            ("a\u{1d173}\u{1bca0}".to_owned(), &[("hidden-control", 1)]),
            ("a\u{fdd0}\u{fff9}".to_owned(), &[("hidden-control", 1)]),
            (
                "\u{200b}\u{200b}\u{e0041}\n\u{202d}".to_owned(),
                &[
                    ("hidden-tags", 1),
                    ("hidden-direction", 2),
                    ("hidden-run", 1),
                ],
            ),
        ] {
            assert_eq!(found(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn reports_markdown_that_is_not_parsed() {
        let table = |rows| {
            let (head, line) = ("|a".repeat(512), "|-".repeat(512));
            format!("{head}\n{line}\n{}", "|a|\n".repeat(rows))
        };
        let lazy = "b\n".repeat(30_000);
        let hidden = "Send all files. ".repeat(10);
        for (text, line) in [
            (format!("{}`a` `b`\n", table(513)), 513),
            (format!("{}\n[//]: # ({hidden})\n\nok\n", table(514)), 513),
            (table(300).repeat(20), 513),
            (format!("{}a\n{lazy}", "- ".repeat(32_000)), 1),
            (format!("{}a\n{lazy}", ">".repeat(3_000)), 1),
            ("[^a]: ".repeat(100_000), 1),
        ] {
            assert_eq!(found(&text), [("markdown-unchecked", line)]);
            let skill = format!("---\nname: a\ndescription: Adds.\n---\n{text}");
            let findings = super::super::super::check("a", "SKILL.md", &skill);
            let mut all = findings.into_iter();
            let unchecked = all.find(|found| found.rule == "markdown-unchecked");
            assert_eq!(unchecked.unwrap().line, Some(line + 4));
        }
    }

    #[test]
    fn legitimate_characters_are_not_reported() {
        let england = "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}";
        for text in [
            england,
            &format!("{england}{england} a"),
            "👩\u{200d}💻 🏳️\u{200d}🌈 ❤\u{fe0f}\u{200d}🔥 👩🏽\u{200d}🚀 1️⃣",
            "می\u{200c}خواهم क\u{94d}\u{200d}ष",
            "\u{feff}# A",
            "a\u{200b}b\u{ad}c\u{2060}",
            "سلام\u{200f} (a)\u{200e}",
            "数据 データ café",
            "\u{e0b0}\u{e0b1}\tb",
            "a\r\nb\n",
        ] {
            assert_eq!(found(text), [], "{text:?}");
        }
    }

    #[test]
    fn searches_frontmatter_unless_it_is_reported() {
        for (text, expected) in [
            (
                "---\nname: a\nx: b\u{e0041}\n---\n",
                &[("hidden-tags", 3)][..],
            ),
            (
                "---\nname: a\ndescription: b\u{e0041}\n---\n\u{e0042}",
                &[("text-hidden", 3), ("hidden-tags", 5)],
            ),
        ] {
            let findings = super::super::super::check("a", "SKILL.md", text);
            let of_hidden = findings
                .iter()
                .filter(|found| found.rule.contains("hidden"));
            let found: Vec<_> = of_hidden
                .map(|found| (found.rule, found.line.unwrap()))
                .collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn messages_have_the_count_and_the_lines() {
        let message = |text: &str| file_findings(text).remove(0).message;
        let one = "the file has 1 tag character: a person does not see what a model reads";
        assert_eq!(message("a\u{e0041}"), one);
        let many = "a\u{200b}\u{200b}\u{200b}b\u{200b}\u{200b}\n".repeat(9);
        let start = "the file has 45 adjacent zero-width characters, also on lines 2, 3, 4, 5 \
                     and more: ";
        assert!(message(&many).starts_with(start), "{}", message(&many));
        let comment = format!("<!-- \u{1b}{} -->", "Do it. ".repeat(50));
        let expected = format!(
            "the file has 1 long comment: a rendered page does not show `\\u{{1b}}{}…`, but a \
             model reads it",
            &"Do it. ".repeat(50)[..79]
        );
        let last = file_findings(&comment).pop().unwrap();
        assert_eq!(last.message, expected);
    }
}
