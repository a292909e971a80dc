//! Ranks skills for a query, and gives the reasons for each hit.
//!
//! `fields.rs` weighs the terms of skills, and `query.rs` those of a query.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use skillhost::SearchHit;
use skillhost_skills::blocking;

use crate::allowed::AllowedSkills;
use crate::fields::decode_weight;
use crate::query::{Query, QueryTerm};
use crate::store::{SkillNumber, Store};
use crate::text::{Analyzer, TokenKind};

/// The factor for all terms of a query's part except the best one.
///
/// The terms of a part have the same meaning. bench/NOTES.md compares other factors.
const OTHER_TERMS_FACTOR: f32 = 0.4;

/// The exponent of a term's rarity.
///
/// It is below 1 because rarity alone says too little: a word may be rare because it names
/// something, or because people do not write it into skills ("hardly", "decade").
const RARITY_EXPONENT: f32 = 0.7;

/// The maximum number of hits of an answer. Guards against: a model that asks for all skills.
const MAX_HITS: usize = 100;

/// The maximum number of words among the reasons for a hit.
const MAX_REASON_WORDS: usize = 6;

/// The maximum number of headings among the reasons for a hit.
const MAX_REASON_HEADINGS: usize = 2;

/// The maximum number of characters of a reason. Guards against: a heading as long as a page.
const MAX_REASON_CHARS: usize = 80;

/// A skill with a score. Ordered by score, then by name.
struct Candidate<'a> {
    score: f32,
    name: &'a str,
    number: SkillNumber,
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

/// Returns the best hits for a query, best first.
pub(crate) fn search(skills: &AllowedSkills<'_>, query: &str, limit: usize) -> Vec<SearchHit> {
    let store = skills.store();
    let mut query = Query::read(query, skills);
    for term in query.parts.iter_mut().flatten() {
        term.weight *= rarity(skills, &term.term);
    }
    let scores = scores(store, &query).into_iter().enumerate();
    let candidates = scores.filter_map(|(number, score)| {
        let number = number as SkillNumber;
        if score <= 0.0 || !skills.contains(number) {
            return None;
        }
        let name = &*store.skill(number)?.name;
        Some(Candidate {
            score,
            name,
            number,
        })
    });
    let mut candidates: BinaryHeap<Candidate> = candidates.collect();
    let mut best = Vec::new();
    while best.len() < limit.min(MAX_HITS)
        && let Some(candidate) = candidates.pop()
    {
        best.push(candidate.number);
    }
    hits(store, &query, &best)
}

/// Returns the rarity of a term among these skills, or 0 if no skill has the term.
fn rarity(skills: &AllowedSkills<'_>, term: &str) -> f32 {
    let (all, with_term) = (skills.len() as f32, skills.count_with(term) as f32);
    if with_term == 0.0 {
        return 0.0;
    }
    let rarity = (1.0 + (all - with_term + 0.5) / (with_term + 0.5)).ln();
    rarity.powf(RARITY_EXPONENT)
}

/// Returns the score of each skill, by the skill's number.
fn scores(store: &Store, query: &Query) -> Vec<f32> {
    let mut scores = vec![0.0_f32; store.number_count()];
    // For each skill, the best score of a term in the current part, and the sum of the scores.
    let mut part_scores = vec![(0.0_f32, 0.0_f32); store.number_count()];
    let mut skills_of_part = Vec::new();
    for part in &query.parts {
        for term in part {
            if blocking::is_abandoned() {
                return scores;
            }
            let Some(postings) = store.postings(&term.term) else {
                continue;
            };
            for (number, weight) in postings.iter() {
                let score = term.weight * decode_weight(weight);
                let (best, sum) = &mut part_scores[number as usize];
                if *sum == 0.0 {
                    skills_of_part.push(number);
                }
                *best = best.max(score);
                *sum += score;
            }
        }
        for number in skills_of_part.drain(..) {
            let (best, sum) = std::mem::take(&mut part_scores[number as usize]);
            scores[number as usize] += best + OTHER_TERMS_FACTOR * (sum - best);
        }
    }
    scores
}

/// Returns the hits with their reasons.
fn hits(store: &Store, query: &Query, best: &[SkillNumber]) -> Vec<SearchHit> {
    // A table rather than a map, because a term may have as many postings as there are skills.
    let mut ranks: Vec<Option<u8>> = vec![None; store.number_count()];
    for (number, rank) in best.iter().zip(0..) {
        ranks[*number as usize] = Some(rank);
    }
    let mut terms_by_rank: Vec<Vec<(f32, &QueryTerm)>> = vec![Vec::new(); best.len()];
    for term in query.parts.iter().flatten() {
        let Some(postings) = store.postings(&term.term) else {
            continue;
        };
        for (number, weight) in postings.iter() {
            if let Some(rank) = ranks[number as usize] {
                let score = term.weight * decode_weight(weight);
                terms_by_rank[usize::from(rank)].push((score, term));
            }
        }
    }
    let mut analyzer = Analyzer::new();
    let hits = best.iter().zip(terms_by_rank);
    let hits = hits.filter_map(|(number, mut terms)| {
        let skill = store.skill(*number)?;
        terms.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let terms: Vec<&QueryTerm> = terms.into_iter().map(|(_, term)| term).collect();
        Some(SearchHit {
            name: skill.name.to_string(),
            matches: reasons(&mut analyzer, &skill.name, &skill.display_text, &terms),
        })
    });
    hits.collect()
}

/// Returns the skill's own words for the matched terms, best first, and then the headings
/// with the most matches.
fn reasons(
    analyzer: &mut Analyzer,
    name: &str,
    display_text: &str,
    terms: &[&QueryTerm],
) -> Vec<String> {
    let position_of_term: HashMap<&str, usize> = terms
        .iter()
        .map(|term| term.term.as_str())
        .zip(0..)
        .collect();
    let mut words: Vec<Option<String>> = vec![None; terms.len()];
    let mut headings = Vec::new();
    let lines = std::iter::once(name).chain(display_text.lines());
    for (line_number, line) in lines.enumerate() {
        let mut matches = 0;
        analyzer.tokens(line, |token| {
            if token.kind != TokenKind::StopWord
                && let Some(position) = position_of_term.get(token.term)
            {
                matches += 1;
                words[*position].get_or_insert_with(|| token.written.to_owned());
            }
        });
        // The first line is the name, and the second the description.
        if line_number > 1 && matches > 0 {
            headings.push((matches, line));
        }
    }
    let word_or_query_word = |(word, term): (Option<String>, &&QueryTerm)| {
        word.or_else(|| Some(term.written.clone()).filter(|word| !word.is_empty()))
    };
    let contains = |reasons: &[String], text: &str| {
        let lower = text.to_lowercase();
        reasons.iter().any(|reason| reason.to_lowercase() == lower)
    };
    let mut reasons: Vec<String> = Vec::new();
    for word in words.into_iter().zip(terms).filter_map(word_or_query_word) {
        if reasons.len() < MAX_REASON_WORDS && !contains(&reasons, &word) {
            reasons.push(shortened(&word));
        }
    }
    // A heading that equals a word adds nothing to it.
    headings.retain(|(_, heading)| !contains(&reasons, heading));
    headings.sort_by_key(|(matches, _)| usize::MAX - matches);
    let headings = headings.into_iter().take(MAX_REASON_HEADINGS);
    reasons.extend(headings.map(|(_, heading)| shortened(heading)));
    reasons
}

/// Returns the start of a text, with an ellipsis if it is longer.
fn shortened(text: &str) -> String {
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(MAX_REASON_CHARS).collect();
    match chars.next() {
        Some(_) => start + "…",
        None => start,
    }
}
