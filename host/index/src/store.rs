//! The inverted index: for each term the skills that have it, with the term's weight.
//! Not here: what terms and weights are, and how requests are answered.
//!
//! A posting is the distance from the posting before it, as a number of seven bits a
//! byte, and a byte of weight: two bytes for most. A changed skill gets a new number,
//! and its old number has no skill any more. Its old postings are dead text. The store
//! removes dead text before it is larger than the rest.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use skillhost::DocumentStamp;

use crate::fields::SkillFields;
use crate::typo::letters_of;

/// The number of a skill in the index.
pub(crate) type Number = u32;

/// The bytes that a term takes besides its text and its postings: its place in the table
/// and what the allocator adds.
const TERM_BYTES: usize = 96;
/// The same for a skill.
const SKILL_BYTES: usize = 160;

/// The skills and their terms.
#[derive(Default)]
pub(crate) struct Store {
    terms: HashMap<Box<str>, Postings, RandomState>,
    skills: Vec<Option<IndexedSkill>>,
    /// By the number of a skill: the bytes that its terms added to the store. The bytes of a
    /// term itself count for the first skill that has it.
    text_bytes: Vec<u32>,
    numbers: HashMap<Box<str>, Number, RandomState>,
    bytes: usize,
    /// The bytes that the terms of removed skills added.
    dead_bytes: usize,
}

/// A skill of the index.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct IndexedSkill {
    pub(crate) name: Box<str>,
    /// Its description and its headings, a line each.
    pub(crate) shown: Box<str>,
    /// The file as it was read. `None` if there was none.
    pub(crate) stamp: Option<DocumentStamp>,
    pub(crate) extent: Extent,
}

/// The part of a skill that is in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Extent {
    All,
    /// The start of its SKILL.md, which is longer than the index takes.
    Start,
    /// Its name and its description: the index is full.
    Description,
    /// Its name. The SKILL.md cannot be read.
    Unreadable,
    /// Its name and its description so far. The update reads its body next.
    Pending,
}

impl IndexedSkill {
    fn bytes(&self) -> usize {
        SKILL_BYTES + 2 * self.name.len() + self.shown.len()
    }
}

/// The skills that have a term.
pub(crate) struct Postings {
    bytes: Vec<u8>,
    last: Number,
    count: u32,
    /// The [`letters_of`] the term.
    letters: u32,
}

impl Store {
    /// Adds a skill, in place of the one of the same name.
    pub(crate) fn insert(&mut self, skill: IndexedSkill, fields: &SkillFields<'_>) {
        self.remove(&skill.name);
        let number = self.skills.len() as Number;
        let bytes_before = self.bytes;
        for (term, weight) in &fields.terms {
            let postings = match self.terms.get_mut(*term) {
                Some(postings) => postings,
                None => {
                    self.bytes += TERM_BYTES + term.len();
                    let postings = Postings::new(letters_of(term));
                    self.terms.entry((*term).into()).or_insert(postings)
                }
            };
            let before = postings.bytes.capacity();
            postings.push(number, *weight);
            self.bytes += postings.bytes.capacity() - before;
        }
        self.text_bytes.push((self.bytes - bytes_before) as u32);
        self.bytes += skill.bytes();
        self.numbers.insert(skill.name.clone(), number);
        self.skills.push(Some(skill));
    }

    /// Makes a store of skills and of terms with the bytes of their postings, in the order of
    /// the skills. `None` if another store did not have them so, or if they take more memory
    /// than `most`.
    pub(crate) fn restore(
        skills: Vec<IndexedSkill>,
        terms: &[(&str, &[u8])],
        most: usize,
    ) -> Option<Self> {
        let mut store = Self::default();
        for skill in skills {
            let number = store.skills.len() as Number;
            store.bytes += skill.bytes();
            if store.numbers.insert(skill.name.clone(), number).is_some() {
                return None;
            }
            store.skills.push(Some(skill));
        }
        store.text_bytes = vec![0; store.skills.len()];
        for (term, bytes) in terms {
            let postings = Postings::restore(bytes, term, &mut store.text_bytes)?;
            store.bytes += TERM_BYTES + term.len() + bytes.len();
            if store.bytes > most || store.terms.insert((*term).into(), postings).is_some() {
                return None;
            }
        }
        Some(store)
    }

    /// Removes the skill of a name.
    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(number) = self.numbers.remove(name) {
            let removed = self.skills[number as usize].take();
            self.bytes -= removed.map_or(0, |skill| skill.bytes());
            self.dead_bytes += self.text_bytes[number as usize] as usize;
            if self.is_mostly_dead() {
                self.compact();
            }
        }
    }

    /// Notes that the index has no room for the body of a skill that is
    /// [pending](Extent::Pending).
    pub(crate) fn leave_out_body(&mut self, name: &str) {
        let number = self.numbers.get(name);
        let skill = number.and_then(|number| self.skills[*number as usize].as_mut());
        if let Some(skill) = skill.filter(|skill| skill.extent == Extent::Pending) {
            skill.extent = Extent::Description;
        }
    }

    /// Returns the skills in the order of their numbers, without removed ones.
    pub(crate) fn skills(&self) -> impl Iterator<Item = &IndexedSkill> {
        self.skills.iter().flatten()
    }

    /// Returns whether most of the text or most of the numbers belong to removed skills.
    /// Guards against: an author who changes a skill again and again.
    fn is_mostly_dead(&self) -> bool {
        2 * self.dead_bytes > self.bytes || self.skills.len() > 2 * self.len() + 100
    }

    /// Removes the postings of removed skills and gives the others new numbers.
    pub(crate) fn compact(&mut self) {
        let mut next = 0;
        let renumbered: Vec<Option<Number>> = self
            .skills
            .iter()
            .map(|skill| {
                skill.as_ref()?;
                next += 1;
                Some(next - 1)
            })
            .collect();
        self.skills.retain(Option::is_some);
        self.skills.shrink_to_fit();
        self.bytes = self.skills.iter().flatten().map(IndexedSkill::bytes).sum();
        self.dead_bytes = 0;
        self.text_bytes = vec![0; self.skills.len()];
        let (bytes, text_bytes) = (&mut self.bytes, &mut self.text_bytes);
        self.terms.retain(|term, postings| {
            let mut kept = Postings::new(postings.letters);
            for (number, weight) in postings.iter() {
                if let Some(number) = renumbered[number as usize] {
                    kept.push_counted(number, weight, term, text_bytes);
                }
            }
            kept.bytes.shrink_to_fit();
            *postings = kept;
            let is_used = postings.count > 0;
            if is_used {
                *bytes += TERM_BYTES + term.len() + postings.bytes.len();
            }
            is_used
        });
        self.terms.shrink_to_fit();
        for number in self.numbers.values_mut() {
            *number = renumbered[*number as usize].unwrap_or_default();
        }
    }

    /// Returns the skill of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&IndexedSkill> {
        self.skill(*self.numbers.get(name)?)
    }

    /// Returns the skill of a number.
    pub(crate) fn skill(&self, number: Number) -> Option<&IndexedSkill> {
        self.skills.get(number as usize)?.as_ref()
    }

    /// Returns the names of the skills, in no order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.numbers.keys().map(|name| &**name)
    }

    /// Returns the number of skills.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns one more than the highest number of a skill.
    pub(crate) fn end(&self) -> usize {
        self.skills.len()
    }

    /// Returns the bytes of memory that the skills take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many of these bytes belong to removed skills, at most.
    pub(crate) fn dead_bytes(&self) -> usize {
        self.dead_bytes
    }

    /// Returns the postings of a term.
    pub(crate) fn postings(&self, term: &str) -> Option<&Postings> {
        self.terms.get(term)
    }

    /// Returns all terms and their postings.
    pub(crate) fn terms(&self) -> impl Iterator<Item = (&str, &Postings)> {
        let terms = self.terms.iter();
        terms.map(|(term, postings)| (&**term, postings))
    }
}

impl Postings {
    fn new(letters: u32) -> Self {
        Self {
            bytes: Vec::new(),
            last: 0,
            count: 0,
            letters,
        }
    }

    /// Makes postings of their bytes, and adds these to the bytes of the skills. `None` if
    /// the bytes are not as [`Self::push`] writes them for these skills.
    fn restore(bytes: &[u8], term: &str, text_bytes: &mut [u32]) -> Option<Self> {
        let letters = letters_of(term);
        let stored = Self {
            bytes: bytes.to_vec(),
            ..Self::new(letters)
        };
        let mut postings = Self::new(letters);
        for (number, weight) in stored.iter() {
            let follows = postings.count == 0 || number > postings.last;
            if !follows || number as usize >= text_bytes.len() {
                return None;
            }
            postings.push_counted(number, weight, term, text_bytes);
        }
        let is_same = postings.count > 0 && postings.bytes == bytes;
        // The bytes of this one have no room to spare.
        is_same.then_some(Self {
            bytes: stored.bytes,
            ..postings
        })
    }

    /// Returns their bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the [`letters_of`] the term.
    pub(crate) fn letters(&self) -> u32 {
        self.letters
    }

    /// Returns the number of skills, with removed ones.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    fn push(&mut self, number: Number, weight: u8) {
        let mut distance = number - self.last;
        while distance >= 0x80 {
            self.bytes.push(distance as u8 | 0x80);
            distance >>= 7;
        }
        self.bytes.push(distance as u8);
        self.bytes.push(weight);
        self.last = number;
        self.count += 1;
    }

    /// Adds a skill, and counts the bytes that this takes, for the skill.
    fn push_counted(&mut self, number: Number, weight: u8, term: &str, text_bytes: &mut [u32]) {
        let before = self.bytes.len();
        self.push(number, weight);
        let mut added = self.bytes.len() - before;
        if self.count == 1 {
            added += TERM_BYTES + term.len();
        }
        text_bytes[number as usize] += added as u32;
    }

    /// Returns the skills and weights in the order of their numbers, with removed ones.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Number, u8)> {
        let mut bytes = self.bytes.iter().copied();
        let mut number: Number = 0;
        std::iter::from_fn(move || {
            let mut shift: u32 = 0;
            loop {
                let byte = bytes.next()?;
                // Only bytes that are still to be checked can wrap.
                number = number.wrapping_add(Number::from(byte & 0x7f).wrapping_shl(shift));
                shift = shift.wrapping_add(7);
                if byte < 0x80 {
                    break;
                }
            }
            Some((number, bytes.next()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(name: &str) -> IndexedSkill {
        IndexedSkill {
            name: name.into(),
            shown: "".into(),
            stamp: None,
            extent: Extent::All,
        }
    }

    fn fields<'a>(terms: &[(&'a str, u8)]) -> SkillFields<'a> {
        SkillFields {
            terms: terms.to_vec(),
            ..SkillFields::default()
        }
    }

    /// Returns the names of the skills with a term, and its weights.
    fn found(store: &Store, term: &str) -> Vec<(String, u8)> {
        let postings = store.postings(term).into_iter().flat_map(Postings::iter);
        postings
            .filter_map(|(number, weight)| Some((store.skill(number)?.name.to_string(), weight)))
            .collect()
    }

    #[test]
    fn finds_what_was_inserted_last_before_and_after_compacting() {
        let mut store = Store::default();
        for number in 0..1000 {
            let rare = if number % 300 == 0 { "rare" } else { "common" };
            store.insert(skill(&number.to_string()), &fields(&[(rare, 7)]));
        }
        store.insert(skill("300"), &fields(&[("rare", 9)]));
        store.insert(skill("600"), &fields(&[("common", 1)]));
        store.remove("900");
        store.remove("901");
        let expected = [("0".to_owned(), 7), ("300".to_owned(), 9)];
        assert_eq!(found(&store, "rare"), expected);
        assert_eq!(store.end(), 1002, "not compacted yet");
        let before = store.bytes();
        store.compact();
        assert_eq!(found(&store, "rare"), expected);
        assert_eq!(found(&store, "common").len(), 996);
        assert_eq!((store.len(), store.end()), (998, 998));
        assert!(store.bytes() < before);
    }

    #[test]
    fn a_store_that_loses_all_its_skills_loses_their_memory() {
        let mut store = Store::default();
        for number in 0..1000 {
            let term = format!("term{number}");
            store.insert(skill("same"), &fields(&[(&term, 1)]));
        }
        store.remove("same");
        assert_eq!(
            (store.len(), store.bytes(), store.terms().count()),
            (0, 0, 0)
        );
    }

    #[test]
    fn dead_text_never_outweighs_live_text() {
        let mut store = Store::default();
        for number in 0..200 {
            store.insert(skill(&number.to_string()), &fields(&[("common", 1)]));
        }
        let mut bytes = Vec::new();
        for version in 0..100 {
            let words: Vec<String> = (0..300).map(|word| format!("v{version}w{word}")).collect();
            let terms: Vec<(&str, u8)> = words.iter().map(|word| (&**word, 1)).collect();
            store.insert(skill("busy"), &fields(&terms));
            bytes.push(store.bytes());
            assert!(store.bytes() < 3 * bytes[0], "{version}: {bytes:?}");

            let (mut live, mut dead) = (0, 0);
            for (skill, text_bytes) in store.skills.iter().zip(&store.text_bytes) {
                match skill {
                    Some(skill) => live += skill.bytes() + *text_bytes as usize,
                    None => dead += *text_bytes as usize,
                }
            }
            assert_eq!((live + dead, dead), (store.bytes, store.dead_bytes));
        }
    }
}
