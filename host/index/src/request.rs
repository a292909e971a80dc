//! A request in plain words: the terms that it asks for, those that the thesaurus adds,
//! and those that were probably meant where a word is unknown. Not here: the ranking.

use std::collections::{HashMap, HashSet};

use crate::allowed::AllowedSkills;
use crate::text::{Analyzer, TokenKind, fold, visible};
use crate::thesaurus::{THESAURUS, Word};
use crate::typo::MistypedWord;

/// Most bytes of a request that are read. Guards against: a request of megabytes.
const MAX_BYTES: usize = 4096;

/// Most terms of a request. Guards against: a request with all words, for which all
/// postings would be read.
const MAX_TERMS: usize = 64;

/// Most unknown words that are compared with all terms. Guards against: a request of
/// random words, each of which takes longer than a known one.
const MAX_UNKNOWN: usize = 6;

/// Shortest word that may be mistyped: shorter ones resemble too many.
const SHORTEST_TYPO: usize = 4;

/// Most terms that an unknown word may stand for.
const MAX_MEANT: usize = 5;

/// The weight of a term that the thesaurus adds. bench/NOTES.md has others.
const ADDED: f32 = 0.5;

/// The weight of a term with one letter other than an unknown word, and with two.
const MISTYPED: [f32; 2] = [0.8, 0.6];

/// Words of other languages that say nothing about a skill, and are no words of English.
const FUNCTION_WORDS: [&str; 3] = [
    "aber auf aus bei bitte das dass dem den der ein eine einem einen einer eines fur ich ihr im ist \
     kann man mein meine meinem meinen meiner mich mir mit nach nicht oder ohne sich sie sind soll \
     uber und uns unser unsere vom von wie wir zu zum zur",
    "au aux avec ce ces cette comment dans de des du elle est et il je la le les leur ma mes moi mon \
     ne nos notre nous ou pas pour quel quelle que qui sa ses sur ton tous tout toute un une vous",
    "al como con cual cuando de del donde el ella en es esta este hay la las lo los me mi mis mucho \
     muy necesito nos o para pero por puedo que quiero se ser sin sobre su sus un una unos y",
];

/// The words of a language that a request must have to be in it.
const MIN_FUNCTION_WORDS: usize = 2;

/// What a request asks for. Each part counts once, by the best of its terms.
pub(crate) struct Request {
    pub(crate) parts: Vec<Vec<Wanted>>,
}

/// A term and its weight.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) term: String,
    pub(crate) weight: f32,
    /// The term as a person writes it. Empty for one that was not in the request.
    pub(crate) written: String,
}

/// A word, and its place among the parts.
type RequestWord = (Word, Option<usize>);

impl Request {
    /// Reads a request of an asker who may see these skills.
    pub(crate) fn read(text: &str, skills: &AllowedSkills<'_>) -> Self {
        let text = visible(&text[..text.floor_char_boundary(MAX_BYTES)]);
        let mut words: Vec<RequestWord> = Vec::new();
        let mut parts: Vec<Vec<Wanted>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let foreign = function_words(&text);
        Analyzer::new().tokens(&text, |token| {
            let is_stop = token.kind == TokenKind::StopWord || foreign.contains(&token.folded);
            let place = match places.get(token.term) {
                _ if is_stop => None,
                Some(place) => Some(*place),
                None if parts.len() == MAX_TERMS => None,
                None => {
                    places.insert(token.term.to_owned(), parts.len());
                    parts.push(vec![Wanted {
                        term: token.term.to_owned(),
                        weight: 1.0,
                        written: token.written.to_owned(),
                    }]);
                    Some(parts.len() - 1)
                }
            };
            if matches!(token.kind, TokenKind::Word | TokenKind::StopWord) {
                words.push((Word::from(token), place));
            }
        });

        let mut unknown = 0;
        words.truncate(MAX_TERMS);
        for (word, place) in &mut words {
            let is_unknown = word.stem.len() >= SHORTEST_TYPO
                && word.stem.is_ascii()
                && skills.count(&word.stem) == 0
                && !THESAURUS.has(word);
            if let Some(place) = *place
                && is_unknown
                && unknown < MAX_UNKNOWN
            {
                unknown += 1;
                let similar = similar_terms(&word.stem, skills);
                parts[place].extend(similar.iter().cloned());
                if let Some(best) = similar.into_iter().next() {
                    word.folded.clone_from(&best.term);
                    word.stem = best.term;
                }
            }
        }

        let own: HashSet<String> = parts
            .iter()
            .flatten()
            .map(|part| part.term.clone())
            .collect();
        let (words, places): (Vec<Word>, Vec<Option<usize>>) = words.into_iter().unzip();
        for (group, word) in THESAURUS.groups(&words, &fold(&text)) {
            let mut added = Vec::new();
            for together in group {
                let weight = ADDED / (together.len() as f32).sqrt();
                let others = together.iter().filter(|term| !own.contains(*term));
                added.extend(others.map(|term| Wanted {
                    term: term.clone(),
                    weight,
                    written: String::new(),
                }));
            }
            // Other words for a word are as good as the word, and count with it.
            match word.and_then(|word| places[word]) {
                Some(place) => parts[place].extend(added),
                None => parts.push(added),
            }
        }
        Self { parts }
    }
}

/// Returns the words of a request to leave out because of its language.
fn function_words(text: &str) -> HashSet<&'static str> {
    let folded = fold(text);
    let words: HashSet<&str> = folded.split(|c: char| !c.is_alphanumeric()).collect();
    let languages = FUNCTION_WORDS.iter().map(|language| {
        let found = language.split_ascii_whitespace();
        found.filter(|word| words.contains(word)).collect()
    });
    let is_written = |found: &HashSet<&str>| found.len() >= MIN_FUNCTION_WORDS;
    let most = languages.filter(is_written).max_by_key(HashSet::len);
    most.unwrap_or_default()
}

/// Returns the terms of these skills that a mistyped word may stand for, best first: those
/// with the fewest letters other, first those that begin with the same letter, then those
/// of many skills.
fn similar_terms(word: &str, skills: &AllowedSkills<'_>) -> Vec<Wanted> {
    let most = if word.len() <= 5 { 1 } else { 2 };
    let Some(mistyped) = MistypedWord::new(word) else {
        return Vec::new();
    };
    let mut similar: Vec<(usize, bool, u32, &str)> = skills
        .store()
        .terms()
        .filter(|(term, postings)| {
            term.len() >= SHORTEST_TYPO && mistyped.may_be(term.len(), postings.letters(), most)
        })
        .filter_map(|(term, postings)| {
            let distance = mistyped.distance(term).filter(|found| *found <= most)?;
            let count = Some(skills.count_of(postings)).filter(|count| *count > 0)?;
            let other_start = word.as_bytes().first() != term.as_bytes().first();
            Some((distance, other_start, u32::MAX - count, term))
        })
        .collect();
    similar.sort_unstable();
    let best = similar
        .first()
        .map(|(distance, other_start, ..)| (*distance, *other_start));
    similar
        .into_iter()
        .take_while(|(distance, other_start, ..)| Some((*distance, *other_start)) == best)
        .take(MAX_MEANT)
        .map(|(distance, _, _, term)| Wanted {
            term: term.to_owned(),
            weight: MISTYPED[distance.saturating_sub(1).min(1)],
            written: String::new(),
        })
        .collect()
}
