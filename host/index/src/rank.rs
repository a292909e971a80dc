//! The ranking: which skills fit a request best, and why. Not here: the weights of terms
//! in skills, and what a request asks for.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use skillhost::SearchHit;

use crate::allowed::AllowedSkills;
use crate::fields::weight_of;
use crate::request::{Request, Wanted};
use crate::store::{Number, Store};
use crate::text::{Analyzer, TokenKind};

/// What the other terms of a part add to its best one. bench/NOTES.md has others.
const OTHERS: f32 = 0.4;

/// The power of a term's rarity. The words of a catalog are rare for two reasons: they name
/// something, or people do not write them into skills ("hardly", "decade").
const RARITY: f32 = 0.7;

/// Most hits of an answer. Guards against: a limit of a model that asks for all skills.
const MAX_HITS: usize = 100;

/// Most words, and most headings, that say why a skill fits.
const MAX_WORDS: usize = 6;
const MAX_HEADINGS: usize = 2;

/// Most characters of a word or heading. Guards against: a skill that answers with a
/// heading of a page.
const MAX_MATCH_CHARS: usize = 80;

/// A skill that may be a hit.
struct Candidate<'a> {
    score: f32,
    name: &'a str,
    number: Number,
}

impl Ord for Candidate<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let score = self.score.total_cmp(&other.score);
        score.then_with(|| other.name.cmp(self.name))
    }
}

impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate<'_> {}

/// Returns the skills that fit a request best, best first. Skills that are not allowed
/// change nothing in the answer.
pub(crate) fn search(skills: &AllowedSkills<'_>, request: &str, limit: usize) -> Vec<SearchHit> {
    let store = skills.store();
    let mut request = Request::read(request, skills);
    for wanted in request.parts.iter_mut().flatten() {
        wanted.weight *= rarity(skills, &wanted.term);
    }
    let scored = scores(store, &request).into_iter().enumerate();
    let scored = scored.filter(|(_, score)| *score > 0.0);
    let candidate = |(number, score): (usize, f32)| {
        let number = number as Number;
        if !skills.has(number) {
            return None;
        }
        let name = &*store.skill(number)?.name;
        Some(Candidate {
            score,
            name,
            number,
        })
    };
    let mut candidates: BinaryHeap<Candidate> = scored.filter_map(candidate).collect();
    let mut best = Vec::new();
    while best.len() < limit.min(MAX_HITS)
        && let Some(candidate) = candidates.pop()
    {
        best.push(candidate.number);
    }
    hits(store, &request, &best)
}

/// Returns how rare a term is among these skills: 0 for one that none has.
fn rarity(skills: &AllowedSkills<'_>, term: &str) -> f32 {
    let (all, with) = (skills.len() as f32, skills.count(term) as f32);
    if with == 0.0 {
        return 0.0;
    }
    let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
    rarity.powf(RARITY)
}

/// Returns the score of each skill, by its number.
fn scores(store: &Store, request: &Request) -> Vec<f32> {
    let mut scores = vec![0.0_f32; store.end()];
    // Of each skill, the best term of a part and the sum of all. Skills without any of
    // them are not in `found`.
    let mut parts = vec![(0.0_f32, 0.0_f32); store.end()];
    let mut found = Vec::new();
    for part in &request.parts {
        for wanted in part {
            let Some(postings) = store.postings(&wanted.term) else {
                continue;
            };
            for (number, weight) in postings.iter() {
                let score = wanted.weight * weight_of(weight);
                let (best, sum) = &mut parts[number as usize];
                if *sum == 0.0 {
                    found.push(number);
                }
                *best = best.max(score);
                *sum += score;
            }
        }
        for number in found.drain(..) {
            let (best, sum) = std::mem::take(&mut parts[number as usize]);
            scores[number as usize] += best + OTHERS * (sum - best);
        }
    }
    scores
}

/// Returns the hits with their reasons.
fn hits(store: &Store, request: &Request, best: &[Number]) -> Vec<SearchHit> {
    // A table, because a term may have as many postings as there are skills.
    let mut places: Vec<Option<u8>> = vec![None; store.end()];
    for (number, place) in best.iter().zip(0..) {
        places[*number as usize] = Some(place);
    }
    let mut matched: Vec<Vec<(f32, &Wanted)>> = vec![Vec::new(); best.len()];
    for wanted in request.parts.iter().flatten() {
        let Some(postings) = store.postings(&wanted.term) else {
            continue;
        };
        for (number, weight) in postings.iter() {
            if let Some(place) = places[number as usize] {
                matched[usize::from(place)].push((wanted.weight * weight_of(weight), wanted));
            }
        }
    }
    let mut analyzer = Analyzer::new();
    let skills = best
        .iter()
        .zip(matched)
        .filter_map(|(number, mut matched)| {
            let skill = store.skill(*number)?;
            matched.sort_by(|one, other| other.0.total_cmp(&one.0));
            let matched: Vec<&Wanted> = matched.into_iter().map(|(_, wanted)| wanted).collect();
            Some(SearchHit {
                name: skill.name.to_string(),
                matches: reasons(&mut analyzer, &skill.name, &skill.shown, &matched),
            })
        });
    skills.collect()
}

/// Returns the words of a skill for matched terms, best first, and then the headings
/// with most of them.
fn reasons(analyzer: &mut Analyzer, name: &str, shown: &str, matched: &[&Wanted]) -> Vec<String> {
    let places: HashMap<&str, usize> = matched
        .iter()
        .map(|wanted| wanted.term.as_str())
        .zip(0..)
        .collect();
    let mut words: Vec<Option<String>> = vec![None; matched.len()];
    let mut headings = Vec::new();
    let lines = std::iter::once(name).chain(shown.lines());
    for (line_number, line) in lines.enumerate() {
        let mut count = 0;
        analyzer.tokens(line, |token| {
            if token.kind != TokenKind::StopWord
                && let Some(place) = places.get(token.term)
            {
                count += 1;
                words[*place].get_or_insert_with(|| token.written.to_owned());
            }
        });
        // The first line is the name, the second the description.
        if line_number > 1 && count > 0 {
            headings.push((count, line));
        }
    }
    let written = |(word, wanted): (Option<String>, &&Wanted)| {
        word.or_else(|| Some(wanted.written.clone()).filter(|word| !word.is_empty()))
    };
    let mut reasons: Vec<String> = Vec::new();
    for word in words.into_iter().zip(matched).filter_map(written) {
        let lower = word.to_lowercase();
        if reasons.len() < MAX_WORDS && !reasons.iter().any(|known| known.to_lowercase() == lower) {
            reasons.push(cut(&word));
        }
    }
    // A heading of one word says no more than the word.
    let is_known = |heading: &str| {
        let lower = heading.to_lowercase();
        reasons.iter().any(|word| word.to_lowercase() == lower)
    };
    headings.retain(|(_, heading)| !is_known(heading));
    headings.sort_by_key(|(count, _)| usize::MAX - count);
    let headings = headings.into_iter().take(MAX_HEADINGS);
    reasons.extend(headings.map(|(_, heading)| cut(heading)));
    reasons
}

fn cut(text: &str) -> String {
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(MAX_MATCH_CHARS).collect();
    match chars.next() {
        Some(_) => start + "…",
        None => start,
    }
}
