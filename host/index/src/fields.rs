//! The fields of a skill, and the weight of each of its terms. Not here: what a word
//! is, and how terms are stored and searched.
//!
//! The weight is BM25F: the occurrences of a term in each field, divided by the length
//! of the field and multiplied by the weight of the field, are added, and the sum
//! saturates. A word counts once in a line, and a line once in a skill, so that a
//! thousand repetitions are as good as one.
//!
//! The average lengths are constants. So a skill's weights depend on no other skill, and
//! a change of one skill changes nothing of another. The figures are in bench/NOTES.md.

use std::collections::HashSet;
use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use skillhost::frontmatter;

use crate::text::{Analyzer, TermNumber, TokenKind, visible};

/// Most characters of a description that are searched: the specification's limit.
/// Guards against: a description that names every word.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Most bytes of a line that are searched. Guards against: a file of one line that
/// takes the memory of its length several times.
const MAX_LINE: usize = 4096;

/// Most different terms of a skill. Guards against: one skill of random words that fills
/// the index. One skill in a hundred has more than half as many.
const MAX_TERMS: usize = 3000;

/// Most bytes of headings that are stored for the answer. Guards against: a skill of
/// nothing but headings.
const MAX_HEADINGS: usize = 1024;

/// Saturation: a sum of this size has half of the highest weight.
const SATURATION: f32 = 4.0;

/// The length from which on a shorter field weighs no more, as a part of the usual one.
/// Guards against: a skill of one word that is found before those that explain it.
const SHORTEST: f32 = 0.2;

/// How a field counts.
struct Field {
    weight: f32,
    /// The part of the length that counts, from 0 to 1.
    norm: f32,
    /// The usual number of terms.
    usual: f32,
    /// Most occurrences that count. Guards against: many lines about one word.
    most: u16,
}

const FIELDS: [Field; 4] = [
    // The name.
    Field {
        weight: 5.0,
        norm: 0.2,
        usual: 2.6,
        most: 1,
    },
    // The description.
    Field {
        weight: 2.6,
        norm: 0.6,
        usual: 24.0,
        most: 1,
    },
    // The headings.
    Field {
        weight: 1.4,
        norm: 0.65,
        usual: 50.0,
        most: 8,
    },
    // The other lines of the body, without code.
    Field {
        weight: 0.4,
        norm: 0.9,
        usual: 520.0,
        most: 16,
    },
];
const NAME: usize = 0;
const DESCRIPTION: usize = 1;
const HEADINGS: usize = 2;
const PROSE: usize = 3;

/// A skill as the index takes it.
#[derive(Debug, Default)]
pub(crate) struct SkillFields<'a> {
    /// The terms with their weights, in units of [`weight_of`].
    pub(crate) terms: Vec<(&'a str, u8)>,
    /// The description and the headings, a line each.
    pub(crate) shown: String,
    /// True if it has more terms than [`MAX_TERMS`].
    pub(crate) cut: bool,
}

/// Returns the weight that a byte stands for.
pub(crate) fn weight_of(byte: u8) -> f32 {
    f32::from(byte) * (SATURATION + 1.0) / 255.0
}

/// The part of a skill to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Description,
    All,
}

/// Reads skills.
pub(crate) struct FieldReader {
    analyzer: Analyzer,
    hasher: RandomState,
    places: Places,
}

/// The places of the terms of a skill among its terms, by the numbers of the terms.
#[derive(Default)]
struct Places {
    /// The skill, of all that were read, and the place in it.
    places: Vec<(u32, u32)>,
    skill: u32,
}

/// The occurrences of the terms of a skill.
#[derive(Default)]
struct Occurrences {
    terms: Vec<Term>,
    lengths: [usize; FIELDS.len()],
    line: u32,
    cut: bool,
}

struct Term {
    number: TermNumber,
    counts: [u16; FIELDS.len()],
    /// The last line that has it.
    line: u32,
}

impl FieldReader {
    pub(crate) fn new() -> Self {
        Self {
            analyzer: Analyzer::new(),
            hasher: RandomState::default(),
            places: Places::default(),
        }
    }

    /// Returns the fields of a skill. `text` is the start of its SKILL.md.
    pub(crate) fn read(&mut self, name: &str, text: &str, part: Part) -> SkillFields<'_> {
        self.analyzer.forget();
        self.places.begin();
        let reading = frontmatter::read(text);
        let front = reading.frontmatter;
        let description = front.description.map(|field| field.value);
        let description: String = description
            .unwrap_or_default()
            .chars()
            .take(MAX_DESCRIPTION_CHARS)
            .collect();
        let description = visible(&description);

        let mut found = Occurrences::default();
        self.line(&mut found, NAME, &visible(name));
        self.line(&mut found, DESCRIPTION, &description);
        let mut shown = description.split_whitespace().collect::<Vec<_>>().join(" ");
        if part == Part::All {
            // Some authors put words to be found by into keys of their own.
            let metadata = front.metadata.map(|field| field.value).unwrap_or_default();
            for pair in metadata.iter().chain(&front.unknown) {
                self.line(&mut found, PROSE, &visible(&pair.value));
            }
            self.body(&mut found, reading.split.body, &mut shown);
        }
        let weights = found.weights().into_iter();
        let terms = weights.map(|(number, weight)| (self.analyzer.term(number), weight));
        SkillFields {
            cut: found.cut,
            shown,
            terms: terms.collect(),
        }
    }

    fn body(&mut self, found: &mut Occurrences, body: &str, shown: &mut String) {
        let mut seen = HashSet::new();
        let mut code = false;
        let start = shown.len();
        for line in body.lines() {
            let line = line.trim();
            if line.starts_with("```") || line.starts_with("~~~") {
                code = !code;
                continue;
            }
            if code || line.is_empty() || !seen.insert(self.hasher.hash_one(line)) {
                continue;
            }
            let line = visible(line);
            match heading(&line) {
                Some(heading) => {
                    self.line(found, HEADINGS, heading);
                    if shown.len() - start + heading.len() < MAX_HEADINGS {
                        shown.push('\n');
                        shown.push_str(heading);
                    }
                }
                None => self.line(found, PROSE, &line),
            }
        }
    }

    /// Counts the terms of a line.
    fn line(&mut self, found: &mut Occurrences, field: usize, text: &str) {
        found.line += 1;
        let text = &text[..text.floor_char_boundary(MAX_LINE)];
        self.analyzer.tokens(text, |token| {
            if token.kind != TokenKind::StopWord {
                found.count(&mut self.places, token.number, field);
            }
        });
    }
}

/// Returns the text of a heading.
fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let heading = (1..=6).contains(&level) && text.starts_with([' ', '\t']);
    heading.then(|| text.trim().trim_end_matches('#').trim_end())
}

impl Places {
    /// Begins with another skill.
    fn begin(&mut self) {
        self.skill = self.skill.wrapping_add(1);
        if self.skill == 0 {
            self.places.clear();
            self.skill = 1;
        }
    }

    /// Returns the place of a term, which is new if it has none yet.
    fn of(&mut self, term: TermNumber, new: usize) -> usize {
        let at = term as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, (0, 0));
        }
        let (skill, place) = &mut self.places[at];
        if *skill != self.skill {
            (*skill, *place) = (self.skill, new as u32);
        }
        *place as usize
    }
}

impl Occurrences {
    fn count(&mut self, places: &mut Places, term: TermNumber, field: usize) {
        let place = places.of(term, self.terms.len());
        if place == self.terms.len() {
            if place == MAX_TERMS {
                self.cut = true;
                return;
            }
            self.terms.push(Term {
                number: term,
                counts: [0; FIELDS.len()],
                line: 0,
            });
        }
        let found = &mut self.terms[place];
        if found.line == self.line {
            return;
        }
        found.line = self.line;
        found.counts[field] = found.counts[field].saturating_add(1);
        self.lengths[field] += 1;
    }

    fn weights(&self) -> Vec<(TermNumber, u8)> {
        let mut scales = [0.0; FIELDS.len()];
        for ((scale, field), length) in scales.iter_mut().zip(&FIELDS).zip(self.lengths) {
            let relative = (length as f32 / field.usual).max(SHORTEST);
            *scale = field.weight / (1.0 - field.norm + field.norm * relative);
        }
        let weight = |term: &Term| {
            let fields = FIELDS.iter().zip(scales).zip(term.counts);
            let sum: f32 = fields
                .map(|((field, scale), count)| f32::from(count.min(field.most)) * scale)
                .sum();
            // As in `weight_of`: the highest weight is 255.
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

    /// Returns the weights of a skill's terms.
    fn weights(description: &str, body: &str) -> HashMap<String, u8> {
        let text = format!("---\nname: x\ndescription: {description}\n---\n{body}");
        let mut reader = FieldReader::new();
        let terms = reader.read("x", &text, Part::All).terms.into_iter();
        terms.map(|(term, weight)| (term.into(), weight)).collect()
    }

    #[test]
    fn weighs_the_description_over_headings_over_prose_and_leaves_code_out() {
        let found = weights("apples", "# Pears\nplums\n```\ncherries\n```\n");
        assert!(found["appl"] > found["pear"] && found["pear"] > found["plum"]);
        assert!(!found.contains_key("cherri"));
    }

    #[test]
    fn a_thousand_repetitions_weigh_no_more_than_one() {
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
            let often = weights(description.trim(), &body);
            assert!(often[term] <= once[term], "{term}");
        }
    }

    #[test]
    fn a_word_among_many_weighs_less() {
        let many: String = (0..100).map(|number| format!("w{number} ")).collect();
        let few = weights("apples", "")["appl"];
        assert!(weights(&format!("apples {many}"), "")["appl"] < few / 2);
    }

    #[test]
    fn bounds_terms_headings_and_lines() {
        let words: String = (0..100_000)
            .map(|number| format!("# w{number}\n"))
            .collect();
        let mut reader = FieldReader::new();
        let fields = reader.read("x", &words, Part::All);
        assert!(fields.cut && fields.terms.len() == MAX_TERMS);
        assert!(fields.shown.len() <= MAX_HEADINGS);
        let line = "a ".repeat(MAX_LINE) + "apples";
        assert!(!weights("x", &line).contains_key("appl"));
    }

    #[test]
    fn keeps_descriptions_and_headings_as_a_person_sees_them() {
        let text = "---\ndescription: Brews\u{200b} tea\n---\n# Fi\u{e0041}ne ##\n";
        let mut reader = FieldReader::new();
        let fields = reader.read("tea", text, Part::All);
        assert_eq!(fields.shown, "Brews tea\nFine");
        let fields = reader.read("tea", text, Part::Description);
        assert_eq!(fields.shown, "Brews tea");
    }
}
