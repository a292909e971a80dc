//! A request in plain words: the terms that it asks for, those that the thesaurus adds,
//! and those that were probably meant where a word is unknown. Not here: the ranking.

use std::collections::HashSet;

use crate::store::Store;
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

impl Request {
    /// Reads a request.
    pub(crate) fn read(text: &str, store: &Store) -> Self {
        let text = visible(&text[..text.floor_char_boundary(MAX_BYTES)]);
        let mut words: Vec<(Word, bool)> = Vec::new();
        let mut parts = Vec::new();
        let mut terms = HashSet::new();
        Analyzer::new().tokens(&text, |token| {
            let is_stop = token.kind == TokenKind::StopWord;
            if matches!(token.kind, TokenKind::Word | TokenKind::StopWord) {
                words.push((Word::from(token), is_stop));
            }
            if !is_stop && terms.len() < MAX_TERMS && terms.insert(token.term.to_owned()) {
                parts.push(vec![Wanted {
                    term: token.term.to_owned(),
                    weight: 1.0,
                    written: token.written.to_owned(),
                }]);
            }
        });

        let mut unknown = 0;
        let mut meant = Vec::with_capacity(words.len().min(MAX_TERMS));
        for (mut word, is_stop) in words.into_iter().take(MAX_TERMS) {
            let is_unknown = !is_stop
                && word.stem.len() >= SHORTEST_TYPO
                && word.stem.is_ascii()
                && store.postings(&word.stem).is_none()
                && !THESAURUS.has(&word);
            if is_unknown && unknown < MAX_UNKNOWN {
                unknown += 1;
                let similar = similar_terms(&word.stem, store);
                let part = parts.iter_mut().find(|part| part[0].term == word.stem);
                if let Some(part) = part {
                    part.extend(similar.iter().cloned());
                }
                if let Some(best) = similar.into_iter().next() {
                    word.folded.clone_from(&best.term);
                    word.stem = best.term;
                }
            }
            meant.push(word);
        }
        for part in &parts {
            terms.extend(part.iter().map(|wanted| wanted.term.clone()));
        }

        for group in THESAURUS.groups(&meant, &fold(&text)) {
            let mut part = Vec::new();
            for together in group {
                let weight = ADDED / (together.len() as f32).sqrt();
                let added = together.iter().filter(|term| !terms.contains(*term));
                part.extend(added.map(|term| Wanted {
                    term: term.clone(),
                    weight,
                    written: String::new(),
                }));
            }
            parts.push(part);
        }
        Self { parts }
    }
}

/// Returns the known terms that a mistyped word may stand for, best first: those with
/// the fewest letters other, first those that begin with the same letter, then those of
/// many skills.
fn similar_terms(word: &str, store: &Store) -> Vec<Wanted> {
    let most = if word.len() <= 5 { 1 } else { 2 };
    let Some(mistyped) = MistypedWord::new(word) else {
        return Vec::new();
    };
    let mut similar: Vec<(usize, bool, u32, &str)> = store
        .terms()
        .filter(|(term, postings)| {
            postings.count() > 0
                && term.len() >= SHORTEST_TYPO
                && mistyped.may_be(term.len(), postings.letters(), most)
        })
        .filter_map(|(term, postings)| {
            let distance = mistyped.distance(term).filter(|found| *found <= most)?;
            let other_start = word.as_bytes().first() != term.as_bytes().first();
            Some((distance, other_start, u32::MAX - postings.count(), term))
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
