//! The fields of a skill, and the weight of each of its terms.
//!
//! `text.rs` splits text into words, and `store.rs` stores the weights.
//!
//! The weights are BM25F. For each field, the occurrences of a term are divided by the
//! field's length and multiplied by the field's weight. The sum over the fields saturates.
//! A word counts once per line, and a line once per skill, so a thousand repetitions weigh no
//! more than one.
//!
//! The usual lengths of fields are constants, so a skill's weights do not depend on other
//! skills. bench/NOTES.md has measurements.

use std::collections::HashSet;
use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use skillhost::{Unlisted, frontmatter};

use crate::text::{Analyzer, TermNumber, TokenKind, normalize};

/// The maximum number of characters of a description that are searched: the specification's
/// limit. Guards against: a description that names every word.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// The maximum number of bytes of a line that are searched. Guards against: a huge file of one
/// line, because a line is copied several times in memory.
const MAX_LINE_BYTES: usize = 4096;

/// The maximum number of different terms of a skill. Guards against: one skill of random words
/// that fills the index. In public collections, 99 of 100 skills have fewer than 1,500.
const MAX_TERMS: usize = 3000;

/// The maximum total size of a skill's headings that are stored for answers, in bytes. Guards
/// against: a skill of nothing but headings.
const MAX_HEADING_BYTES: usize = 1024;

/// The weighted sum of occurrences at which a term has half of the highest weight.
const SATURATION: f32 = 4.0;

/// The minimum length of a field, relative to the usual length. A shorter field is weighed
/// as if it had this length. Guards against: a skill of one word that outranks skills that explain
/// the word.
const MIN_RELATIVE_LENGTH: f32 = 0.2;

/// The parameters of a field.
struct Field {
    weight: f32,
    /// The influence of the field's length, from 0 to 1.
    length_influence: f32,
    /// The usual number of terms.
    usual_length: f32,
    /// The maximum number of occurrences that are counted. Guards against: many lines about one
    /// word.
    max_occurrences: u16,
}

/// The parameters of all fields. The constants below are indexes into this table.
const FIELDS: [Field; 4] = [
    // The name.
    Field {
        weight: 5.0,
        length_influence: 0.2,
        usual_length: 2.6,
        max_occurrences: 1,
    },
    // The description.
    Field {
        weight: 2.6,
        length_influence: 0.6,
        usual_length: 24.0,
        max_occurrences: 1,
    },
    // The headings.
    Field {
        weight: 1.4,
        length_influence: 0.65,
        usual_length: 50.0,
        max_occurrences: 8,
    },
    // The other lines of the body, without code.
    Field {
        weight: 0.4,
        length_influence: 0.9,
        usual_length: 520.0,
        max_occurrences: 16,
    },
];
const NAME: usize = 0;
const DESCRIPTION: usize = 1;
const HEADINGS: usize = 2;
const PROSE: usize = 3;

/// The terms and texts of a skill for the index.
#[derive(Debug, Default)]
pub(crate) struct SkillFields<'a> {
    /// The terms, each with its encoded weight. [`decode_weight`] decodes it.
    pub(crate) terms: Vec<(&'a str, u8)>,
    /// The description and the headings, one per line.
    pub(crate) display_text: String,
    /// True if the skill has more terms than [`MAX_TERMS`].
    pub(crate) is_cut: bool,
    /// True if the skill is [unlisted](Unlisted). It then has no terms and no text.
    pub(crate) is_unlisted: bool,
}

impl SkillFields<'_> {
    /// Returns the fields of an unlisted skill.
    pub(crate) fn unlisted() -> Self {
        Self {
            is_unlisted: true,
            ..Self::default()
        }
    }
}

/// Decodes a weight.
pub(crate) fn decode_weight(byte: u8) -> f32 {
    f32::from(byte) * (SATURATION + 1.0) / 255.0
}

/// The part of a SKILL.md to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentPart {
    Description,
    All,
}

/// Reads the fields of skills, one skill after another.
pub(crate) struct FieldReader {
    analyzer: Analyzer,
    hasher: RandomState,
    positions: TermPositions,
}

/// The positions of terms in [`Occurrences::terms`] of the current skill.
///
/// Unlike a map, it needs no clearing for the next skill.
#[derive(Default)]
struct TermPositions {
    /// For each term, by its number: the last skill that contained it, and its position there.
    entries: Vec<(u32, u32)>,
    /// The current skill.
    skill: u32,
}

/// The occurrences of terms in a skill.
#[derive(Default)]
struct Occurrences {
    terms: Vec<TermOccurrences>,
    /// The number of terms in each field.
    lengths: [usize; FIELDS.len()],
    /// The number of the current line, from 1.
    line: u32,
    is_cut: bool,
}

/// The occurrences of a term in each field of a skill.
struct TermOccurrences {
    number: TermNumber,
    counts: [u16; FIELDS.len()],
    /// The last line that contains the term.
    line: u32,
}

impl FieldReader {
    pub(crate) fn new() -> Self {
        Self {
            analyzer: Analyzer::new(),
            hasher: RandomState::default(),
            positions: TermPositions::default(),
        }
    }

    /// Returns the fields of a skill. `text` is the start of its SKILL.md.
    pub(crate) fn read(&mut self, name: &str, text: &str, part: DocumentPart) -> SkillFields<'_> {
        self.analyzer.trim_cache();
        self.positions.start_skill();
        let document = frontmatter::read(text);
        let frontmatter = document.frontmatter;
        if Unlisted::in_frontmatter(&frontmatter).is_some() {
            return SkillFields::unlisted();
        }
        let description = frontmatter.description.map(|field| field.value);
        let description = description.unwrap_or_default();
        let (mut occurrences, mut display_text) = self.count_description(name, &description);
        if part == DocumentPart::All {
            // Some authors write search terms into custom keys.
            let metadata = frontmatter.metadata.map(|field| field.value);
            let metadata = metadata.unwrap_or_default();
            for pair in metadata.iter().chain(&frontmatter.unknown) {
                self.count_line(&mut occurrences, PROSE, &normalize(&pair.value));
            }
            self.read_body(&mut occurrences, document.split.body, &mut display_text);
        }
        self.fields(&occurrences, display_text)
    }

    /// Returns the fields of a text that has a name and a description, but no SKILL.md.
    pub(crate) fn read_description(&mut self, name: &str, description: &str) -> SkillFields<'_> {
        self.analyzer.trim_cache();
        self.positions.start_skill();
        let (occurrences, display_text) = self.count_description(name, description);
        self.fields(&occurrences, display_text)
    }

    /// Counts the terms of a name and a description. Also returns the text to display.
    fn count_description(&mut self, name: &str, description: &str) -> (Occurrences, String) {
        let start: String = description.chars().take(MAX_DESCRIPTION_CHARS).collect();
        let description = normalize(&start);
        let mut occurrences = Occurrences::default();
        self.count_line(&mut occurrences, NAME, &normalize(name));
        self.count_line(&mut occurrences, DESCRIPTION, &description);
        let words: Vec<&str> = description.split_whitespace().collect();
        (occurrences, words.join(" "))
    }

    fn fields(&self, occurrences: &Occurrences, display_text: String) -> SkillFields<'_> {
        let weights = occurrences.weights().into_iter();
        let terms = weights.map(|(number, weight)| (self.analyzer.term(number), weight));
        SkillFields {
            is_cut: occurrences.is_cut,
            is_unlisted: false,
            display_text,
            terms: terms.collect(),
        }
    }

    /// Counts the terms of a body without its code, and adds its headings to `display_text`.
    fn read_body(&mut self, occurrences: &mut Occurrences, body: &str, display_text: &mut String) {
        let mut seen_lines = HashSet::new();
        let mut is_code = false;
        let start = display_text.len();
        for line in body.lines() {
            let line = line.trim();
            if line.starts_with("```") || line.starts_with("~~~") {
                is_code = !is_code;
                continue;
            }
            if is_code || line.is_empty() || !seen_lines.insert(self.hasher.hash_one(line)) {
                continue;
            }
            let line = normalize(line);
            match heading(&line) {
                Some(heading) => {
                    self.count_line(occurrences, HEADINGS, heading);
                    if display_text.len() - start + heading.len() < MAX_HEADING_BYTES {
                        display_text.push('\n');
                        display_text.push_str(heading);
                    }
                }
                None => self.count_line(occurrences, PROSE, &line),
            }
        }
    }

    /// Counts the terms of a line.
    fn count_line(&mut self, occurrences: &mut Occurrences, field: usize, text: &str) {
        occurrences.line += 1;
        let text = &text[..text.floor_char_boundary(MAX_LINE_BYTES)];
        self.analyzer.tokens(text, |token| {
            if token.kind != TokenKind::StopWord {
                occurrences.count(&mut self.positions, token.number, field);
            }
        });
    }
}

/// Returns the text of a heading, or `None` for any other line.
fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let is_heading = (1..=6).contains(&level) && text.starts_with([' ', '\t']);
    is_heading.then(|| text.trim().trim_end_matches('#').trim_end())
}

impl TermPositions {
    /// Starts the next skill.
    fn start_skill(&mut self) {
        self.skill = self.skill.wrapping_add(1);
        if self.skill == 0 {
            self.entries.clear();
            self.skill = 1;
        }
    }

    /// Returns the position of a term. A term that is new in the skill gets the position `next`.
    fn get_or_insert(&mut self, term: TermNumber, next: usize) -> usize {
        let index = term as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, (0, 0));
        }
        let (skill, position) = &mut self.entries[index];
        if *skill != self.skill {
            (*skill, *position) = (self.skill, next as u32);
        }
        *position as usize
    }
}

impl Occurrences {
    /// Counts a term of the current line.
    fn count(&mut self, positions: &mut TermPositions, term: TermNumber, field: usize) {
        let position = positions.get_or_insert(term, self.terms.len());
        if position == self.terms.len() {
            if position == MAX_TERMS {
                self.is_cut = true;
                return;
            }
            self.terms.push(TermOccurrences {
                number: term,
                counts: [0; FIELDS.len()],
                line: 0,
            });
        }
        let term = &mut self.terms[position];
        if term.line == self.line {
            return;
        }
        term.line = self.line;
        term.counts[field] = term.counts[field].saturating_add(1);
        self.lengths[field] += 1;
    }

    /// Returns each term with its encoded weight.
    fn weights(&self) -> Vec<(TermNumber, u8)> {
        let mut scales = [0.0; FIELDS.len()];
        for ((scale, field), length) in scales.iter_mut().zip(&FIELDS).zip(self.lengths) {
            let relative_length = (length as f32 / field.usual_length).max(MIN_RELATIVE_LENGTH);
            *scale = field.weight
                / (1.0 - field.length_influence + field.length_influence * relative_length);
        }
        let weight = |term: &TermOccurrences| {
            let fields = FIELDS.iter().zip(scales).zip(term.counts);
            let sum: f32 = fields
                .map(|((field, scale), count)| f32::from(count.min(field.max_occurrences)) * scale)
                .sum();
            // The inverse of `decode_weight`: the highest weight is 255.
            (255.0 * sum / (sum + SATURATION)).clamp(1.0, 255.0) as u8
        };
        let terms = self.terms.iter();
        terms.map(|term| (term.number, weight(term))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Returns the encoded weights of a skill's terms.
    fn weights(description: &str, body: &str) -> HashMap<String, u8> {
        let text = format!("---\nname: x\ndescription: {description}\n---\n{body}");
        let mut reader = FieldReader::new();
        let terms = reader.read("x", &text, DocumentPart::All).terms.into_iter();
        terms.map(|(term, weight)| (term.into(), weight)).collect()
    }

    #[test]
    fn weighs_descriptions_over_headings_over_prose_over_code() {
        let weights = weights("apples", "# Pears\nplums\n```\ncherries\n```\n");
        assert!(weights["appl"] > weights["pear"] && weights["pear"] > weights["plum"]);
        assert!(!weights.contains_key("cherri"));
    }

    #[test]
    fn repetitions_weigh_no_more_than_one_occurrence() {
        let once = weights("apples", "# Pears\nplums");
        for (term, description, body) in [
            ("appl", "apples ".repeat(100), "# Pears\nplums".to_owned()),
            (
                "pear",
                "apples".to_owned(),
                "# Pears\n".repeat(1000) + "plums",
            ),
            (
                "plum",
                "apples".to_owned(),
                "# Pears\n".to_owned() + &"plums ".repeat(1000),
            ),
            (
                "plum",
                "apples".to_owned(),
                "# Pears\n".to_owned() + &"plums\n".repeat(1000),
            ),
        ] {
            let repeated = weights(description.trim(), &body);
            assert!(repeated[term] <= once[term], "{term}");
        }
    }

    #[test]
    fn word_in_a_longer_field_weighs_less() {
        let many: String = (0..100).map(|number| format!("w{number} ")).collect();
        let few = weights("apples", "")["appl"];
        assert!(weights(&format!("apples {many}"), "")["appl"] < few / 2);
    }

    #[test]
    fn limits_terms_headings_and_lines() {
        let words: String = (0..100_000)
            .map(|number| format!("# w{number}\n"))
            .collect();
        let mut reader = FieldReader::new();
        let fields = reader.read("x", &words, DocumentPart::All);
        assert!(fields.is_cut && fields.terms.len() == MAX_TERMS);
        assert!(fields.display_text.len() <= MAX_HEADING_BYTES);
        let line = "a ".repeat(MAX_LINE_BYTES) + "apples";
        assert!(!weights("x", &line).contains_key("appl"));
    }

    #[test]
    fn display_text_has_no_hidden_characters() {
        let text = "---\ndescription: Brews\u{200b} tea\n---\n# Fi\u{e0041}ne ##\n";
        let mut reader = FieldReader::new();
        let fields = reader.read("tea", text, DocumentPart::All);
        assert_eq!(fields.display_text, "Brews tea\nFine");
        let fields = reader.read("tea", text, DocumentPart::Description);
        assert_eq!(fields.display_text, "Brews tea");
    }
}
