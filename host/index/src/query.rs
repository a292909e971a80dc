//! Reads a query in plain words.
//!
//! A query has the terms of its text, synonyms from the thesaurus, and corrections of unknown
//! words. Ranking is in `rank.rs`.

use std::collections::{HashMap, HashSet};

use skillhost_skills::blocking;

use crate::allowed::AllowedSkills;
use crate::store::Postings;
use crate::text::{Analyzer, TokenKind, fold, normalize};
use crate::thesaurus::{THESAURUS, Word};
use crate::typo::MistypedWord;

/// The maximum number of bytes of a query that are read. Guards against: a query of megabytes.
const MAX_QUERY_BYTES: usize = 4096;

/// The maximum number of terms of a query. Guards against: a query with all words, which would
/// read all postings.
const MAX_TERMS: usize = 64;

/// The maximum number of unknown words that are compared with all terms. Guards against: a query
/// of random words, because each takes longer than a known word.
const MAX_UNKNOWN_WORDS: usize = 6;

/// The minimum length of a word to correct, in bytes. Shorter words resemble too many others.
const MIN_TYPO_BYTES: usize = 4;

/// The maximum number of corrections of an unknown word.
const MAX_CORRECTIONS: usize = 5;

/// The weight of a synonym. bench/NOTES.md compares other weights.
const SYNONYM_WEIGHT: f32 = 0.5;

/// The weights of corrections that differ in one letter, and in two letters.
const CORRECTION_WEIGHTS: [f32; 2] = [0.8, 0.6];

/// Words of German, French and Spanish that say nothing about a skill and are not English words.
const FUNCTION_WORDS: [&str; 3] = [
    "aber auf aus bei bitte das dass dem den der ein eine einem einen einer eines fur ich ihr im ist \
     kann man mein meine meinem meinen meiner mich mir mit nach nicht oder ohne sich sie sind soll \
     uber und uns unser unsere vom von wie wir zu zum zur",
    "au aux avec ce ces cette comment dans de des du elle est et il je la le les leur ma mes moi mon \
     ne nos notre nous ou pas pour quel quelle que qui sa ses sur ton tous tout toute un une vous",
    "al como con cual cuando de del donde el ella en es esta este hay la las lo los me mi mis mucho \
     muy necesito nos o para pero por puedo que quiero se ser sin sobre su sus un una unos y",
];

/// The minimum number of a language's function words in a query that is read as that language.
const MIN_FUNCTION_WORDS: usize = 2;

/// The terms of a query, in parts.
///
/// The terms of a part have the same meaning, such as a word and its synonyms.
pub(crate) struct Query {
    pub(crate) parts: Vec<Vec<QueryTerm>>,
}

/// A term of a query, and its weight.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryTerm {
    pub(crate) term: String,
    pub(crate) weight: f32,
    /// The word as it was written. Empty for a synonym or a correction.
    pub(crate) written: String,
}

/// A word of a query, and the index of its part. Stop words have no part.
type QueryWord = (Word, Option<usize>);

impl Query {
    /// Reads the query of a caller who may see these skills.
    pub(crate) fn read(text: &str, skills: &AllowedSkills<'_>) -> Self {
        let text = normalize(&text[..text.floor_char_boundary(MAX_QUERY_BYTES)]);
        let mut query = Self { parts: Vec::new() };
        let mut words = query.add_words(&text);
        words.truncate(MAX_TERMS);
        query.add_corrections(&mut words, skills);
        query.add_synonyms(words, &fold(&text));
        query
    }

    /// Adds a part for each different word of the text, and returns the words.
    fn add_words(&mut self, text: &str) -> Vec<QueryWord> {
        let mut words: Vec<QueryWord> = Vec::new();
        let mut part_of_term: HashMap<String, usize> = HashMap::new();
        let function_words = function_words(text);
        Analyzer::new().tokens(text, |token| {
            let is_stop_word =
                token.kind == TokenKind::StopWord || function_words.contains(&token.folded);
            let part = match part_of_term.get(token.term) {
                _ if is_stop_word => None,
                Some(part) => Some(*part),
                None if self.parts.len() == MAX_TERMS => None,
                None => {
                    part_of_term.insert(token.term.to_owned(), self.parts.len());
                    self.parts.push(vec![QueryTerm {
                        term: token.term.to_owned(),
                        weight: 1.0,
                        written: token.written.to_owned(),
                    }]);
                    Some(self.parts.len() - 1)
                }
            };
            if matches!(token.kind, TokenKind::Word | TokenKind::StopWord) {
                words.push((Word::from(token), part));
            }
        });
        words
    }

    /// Adds corrections of words that no skill contains, and replaces these words with their
    /// best correction.
    fn add_corrections(&mut self, words: &mut [QueryWord], skills: &AllowedSkills<'_>) {
        let words = words.iter_mut();
        let words = words.filter_map(|(word, part)| Some((word, (*part)?)));
        let unknown_words = words.filter(|(word, _)| {
            word.stem.len() >= MIN_TYPO_BYTES
                && word.stem.is_ascii()
                && skills.count_with(&word.stem) == 0
                && !THESAURUS.contains(word)
        });
        let mut unknown_words: Vec<_> = unknown_words.take(MAX_UNKNOWN_WORDS).collect();
        let stems = unknown_words.iter().map(|(word, _)| &*word.stem);
        let corrections = corrections(stems, skills);
        for ((word, part), corrections) in unknown_words.iter_mut().zip(corrections) {
            self.parts[*part].extend(corrections.iter().cloned());
            if let Some(best) = corrections.into_iter().next() {
                word.folded.clone_from(&best.term);
                word.stem = best.term;
            }
        }
    }

    /// Adds the synonyms of these words.
    fn add_synonyms(&mut self, words: Vec<QueryWord>, folded_text: &str) {
        let known_terms: HashSet<String> = self
            .parts
            .iter()
            .flatten()
            .map(|term| term.term.clone())
            .collect();
        let (words, parts): (Vec<Word>, Vec<Option<usize>>) = words.into_iter().unzip();
        for (group, word) in THESAURUS.groups(&words, folded_text) {
            let mut synonyms = Vec::new();
            for phrase in group {
                let weight = SYNONYM_WEIGHT / (phrase.len() as f32).sqrt();
                let new_terms = phrase.iter().filter(|term| !known_terms.contains(*term));
                synonyms.extend(new_terms.map(|term| QueryTerm {
                    term: term.clone(),
                    weight,
                    written: String::new(),
                }));
            }
            // Synonyms of a single word belong to the part of that word.
            match word.and_then(|word| parts[word]) {
                Some(part) => self.parts[part].extend(synonyms),
                None => self.parts.push(synonyms),
            }
        }
    }
}

/// Returns the function words in a query, if it is German, French or Spanish.
fn function_words(text: &str) -> HashSet<&'static str> {
    let folded = fold(text);
    let words: HashSet<&str> = folded.split(|c: char| !c.is_alphanumeric()).collect();
    let contained_words = FUNCTION_WORDS.iter().map(|language| {
        let language = language.split_ascii_whitespace();
        language.filter(|word| words.contains(word)).collect()
    });
    contained_words
        .filter(|found: &HashSet<&str>| found.len() >= MIN_FUNCTION_WORDS)
        .max_by_key(HashSet::len)
        .unwrap_or_default()
}

/// A word that no skill contains, and the terms that it may be a typo of.
struct UnknownWord<'w, 't> {
    word: &'w str,
    /// `None` if the word is too long to be compared.
    mistyped: Option<MistypedWord>,
    /// The closest terms so far. All are equally close.
    closeness: Closeness,
    /// The most frequent of the closest terms, best first.
    similar: Vec<SimilarTerm<'t>>,
}

/// The difference between a term and an unknown word. The smallest is the closest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Closeness {
    distance: usize,
    has_other_first_letter: bool,
}

/// A term that an unknown word may be a typo of. The best term is the smallest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SimilarTerm<'t> {
    /// The fewer skills contain the term, the larger this number is.
    rarity: u32,
    term: &'t str,
}

/// Returns the corrections of each word, best first.
///
/// Keeps only the terms that differ from a word in the fewest letters. If some of them have the
/// word's first letter, keeps only those. Frequent terms come before rare ones.
///
/// Reads all terms once for all words, because reading takes longer than comparing.
fn corrections<'w>(
    words: impl Iterator<Item = &'w str>,
    skills: &AllowedSkills<'_>,
) -> Vec<Vec<QueryTerm>> {
    let mut words: Vec<_> = words.map(UnknownWord::new).collect();
    if words.is_empty() {
        return Vec::new();
    }
    let terms = skills.store().terms();
    for (term, postings) in terms.take_while(|_| !blocking::is_abandoned()) {
        if term.len() >= MIN_TYPO_BYTES {
            for word in &mut words {
                word.add_if_similar(term, postings, skills);
            }
        }
    }
    words.into_iter().map(UnknownWord::best).collect()
}

impl<'w, 't> UnknownWord<'w, 't> {
    fn new(word: &'w str) -> Self {
        Self {
            word,
            mistyped: MistypedWord::new(word),
            closeness: Closeness {
                distance: if word.len() <= 5 { 1 } else { 2 },
                has_other_first_letter: true,
            },
            similar: Vec::new(),
        }
    }

    /// Adds a term if the word may be a typo of it, and no better terms were found.
    fn add_if_similar(&mut self, term: &'t str, postings: &Postings, skills: &AllowedSkills<'_>) {
        let max_distance = self.closeness.distance;
        let mistyped = self.mistyped.as_ref();
        let mistyped = mistyped
            .filter(|word| word.may_be_within(max_distance, term.len(), postings.letters()));
        let Some(distance) = mistyped.and_then(|word| word.distance(term)) else {
            return;
        };
        let closeness = Closeness {
            distance,
            has_other_first_letter: self.word.as_bytes().first() != term.as_bytes().first(),
        };
        if closeness > self.closeness {
            return;
        }
        let count = skills.count_in(postings);
        if count == 0 {
            return;
        }
        if closeness < self.closeness {
            self.closeness = closeness;
            self.similar.clear();
        }
        let rarity = u32::MAX - count;
        let new = SimilarTerm { rarity, term };
        let position = self.similar.partition_point(|other| *other < new);
        self.similar.insert(position, new);
        self.similar.truncate(MAX_CORRECTIONS);
    }

    /// Returns the best terms.
    fn best(self) -> Vec<QueryTerm> {
        let weight = CORRECTION_WEIGHTS[self.closeness.distance.saturating_sub(1).min(1)];
        let terms = self.similar.into_iter().map(|similar| QueryTerm {
            term: similar.term.to_owned(),
            weight,
            written: String::new(),
        });
        terms.collect()
    }
}
