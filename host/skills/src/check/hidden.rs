//! Checks names and descriptions for hidden characters, which a model reads but a person does not
//! see, and descriptions for words that occur too often. `hidden/document.rs` searches whole files
//! for hidden text.

mod characters;
pub(super) mod document;
mod html;
mod rendered;
mod unrendered;

use std::collections::HashMap;

use super::{Finding, Rule};
use crate::frontmatter::{Field, Reading, quoted};
use crate::paragraph;

use characters::hidden_characters;

/// The maximum number of times that a word may occur in a description. The highest number in 1,353
/// public skills is 12.
const MAX_OCCURRENCES: usize = 15;

/// A word that makes up a third of a description's words or more is reported only if it occurs at
/// least this many times.
const MIN_DOMINANT_OCCURRENCES: usize = 6;

/// The rules for misleading text.
pub(super) const RULES: &[Rule] = &[
    Rule::warning(
        "text-hidden",
        "A name or description has hidden characters.",
        "Remove them. A person does not see what a model reads.",
    ),
    Rule::warning(
        "description-repeats",
        "`description` has the same word many times.",
        "Say it once. Repeating a word to rank higher misleads a model.",
    ),
];

/// Adds the findings for a name and a description.
pub(super) fn findings(reading: &Reading<'_>, into: &mut Vec<Finding>) {
    let frontmatter = &reading.frontmatter;
    if let Some(name) = &frontmatter.name {
        into.extend(hidden_finding("`name`", name));
    }
    let description = frontmatter.description.as_ref();
    let description = description.filter(|field| !field.value.is_empty());
    let (what, field) = match description {
        Some(field) => ("`description`", field.clone()),
        None => {
            let Some(value) = paragraph::first(reading.split.body) else {
                return;
            };
            let line = reading.split.body_line;
            let what = "the first paragraph, which is used as the description,";
            (what, Field { value, line })
        }
    };
    into.extend(hidden_finding(what, &field));
    into.extend(repeats_finding(what, &field));
}

fn hidden_finding(what: &str, field: &Field<String>) -> Option<Finding> {
    let hidden = hidden_characters(&field.value);
    let (_, first) = hidden.first()?;
    let first = format!("U+{:04X}", u32::from(*first));
    let characters = match hidden.len() {
        1 => format!("the hidden character {first}"),
        many => format!("{many} hidden characters, the first of which is {first}"),
    };
    let message = format!("{what} has {characters}: a person does not see what a model reads");
    Some(Finding::warning("text-hidden", Some(field.line), message))
}

fn repeats_finding(what: &str, field: &Field<String>) -> Option<Finding> {
    let text = field.value.to_lowercase();
    let words = text.split(|c: char| !c.is_alphanumeric());
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut total = 0;
    for word in words.filter(|word| word.chars().nth(2).is_some()) {
        *counts.entry(word).or_default() += 1;
        total += 1;
    }
    // If several words have the highest count, the first in alphabetical order is reported.
    let (word, count) = counts
        .into_iter()
        .max_by_key(|(word, count)| (*count, std::cmp::Reverse(*word)))?;
    let excess = if count > MAX_OCCURRENCES {
        format!("at most {MAX_OCCURRENCES} times are expected")
    } else if count >= MIN_DOMINANT_OCCURRENCES && count * 3 >= total {
        format!("that is a third or more of its {total} words with at least 3 characters")
    } else {
        return None;
    };
    let message = format!(
        "{what} has the word {} {count} times: {excess}; repeating a word to rank higher misleads \
         a model",
        quoted(word)
    );
    Some(Finding::warning(
        "description-repeats",
        Some(field.line),
        message,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontmatter;

    fn rules(name: &str, description: &str) -> Vec<&'static str> {
        let mut reading = frontmatter::read("");
        let field = |value: &str| {
            Some(Field {
                value: value.to_owned(),
                line: 2,
            })
        };
        reading.frontmatter.name = field(name);
        reading.frontmatter.description = field(description);
        let mut found = Vec::new();
        findings(&reading, &mut found);
        found.into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn reports_hidden_characters_that_no_language_needs() {
        let hidden = ["text-hidden"];
        for (description, expected) in [
            ("Reads PDF\nfiles.\t数据 café", &[][..]),
            ("Warns ⚠️ 👩\u{200d}💻 1️⃣ 🏳️\u{200d}🌈", &[]),
            (
                "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} a",
                &[],
            ),
            ("🏴\u{e007f}", &hidden),
            ("🏴\u{e0067}\u{e0062}", &hidden),
            (
                "🏴\u{e0061}\u{e0061}\u{e0061}\u{e0061}\u{e0061}\u{e0061}\u{e007f}",
                &hidden,
            ),
            ("می\u{200c}خواهم क\u{94d}\u{200d}ष", &[]),
            ("a\u{200b}b", &hidden),
            ("a\u{200d}b", &hidden),
            ("a\u{fe0f}", &hidden),
            ("⚠\u{fe0f}\u{fe0f}", &hidden),
            ("数\u{200d}据\u{200c}分", &hidden),
            ("数\u{fe0f}据\u{fe0e}", &hidden),
            ("да\u{200c}да", &hidden),
            ("é\u{200d}é", &hidden),
            ("👩\u{200c}💻", &hidden),
            ("ک\u{200d}é", &hidden),
            ("a\u{202e}b", &hidden),
            ("a\u{e0041}\u{e0042}", &hidden),
            ("a\u{ad}b\u{feff}", &hidden),
            ("a\u{1b}[2J", &hidden),
        ] {
            assert_eq!(rules("a", description), expected, "{description:?}");
        }
        assert_eq!(rules("a\u{200b}", "x"), hidden);
        let field = Field {
            value: "a\u{e0041}\u{200b}".to_owned(),
            line: 3,
        };
        let finding = hidden_finding("`description`", &field).unwrap();
        let message = "`description` has 2 hidden characters, the first of which is U+E0041: ";
        assert!(finding.message.starts_with(message), "{}", finding.message);
    }

    #[test]
    fn checks_first_paragraph_that_is_used_as_description() {
        for (frontmatter, expected) in [
            ("name: a\ndescription: Adds.", None),
            ("name: a", Some(4)),
            ("name: a\ndescription: \"\"", Some(5)),
        ] {
            let text = format!("---\n{frontmatter}\n---\n# A\n\nAdds\u{e0041} numbers.\n");
            let reading = frontmatter::read(&text);
            let mut found = Vec::new();
            findings(&reading, &mut found);
            let found = found.first().map(|finding| {
                assert!(finding.message.contains("U+E0041"), "{}", finding.message);
                finding.line.unwrap()
            });
            assert_eq!(found, expected, "{frontmatter}");
        }
    }

    #[test]
    fn reports_description_that_repeats_a_word() {
        let prose: String = (0..60).map(|word| format!("w{word:02} ")).collect();
        for (description, expected) in [
            ("PDF ".repeat(5), &[][..]),
            ("PDF pdf ".repeat(3), &["description-repeats"]),
            (format!("{prose}{}", "pdf ".repeat(15)), &[]),
            (
                format!("{prose}{}", "pdf ".repeat(16)),
                &["description-repeats"],
            ),
            ("a an to of ".repeat(50), &[]),
            ("数据".repeat(100), &[]),
        ] {
            assert_eq!(rules("a", &description), expected, "{description}");
        }
    }
}
