//! The inverted index: the skills that contain each term, with the term's weight.
//!
//! `fields.rs` finds the terms and weights of a skill, and `rank.rs` searches.
//!
//! A posting is a skill's number and the weight of a term in it. The number is stored as
//! the distance from the previous posting, seven bits per byte, and the weight as one
//! byte, so most postings take two bytes. A skill that changes gets a new number. The
//! postings of its old number are dead text. The store removes dead text before it
//! outweighs the rest.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use skillhost::DocumentStamp;

use crate::fields::SkillFields;
use crate::typo::letter_set;

/// The number of a skill in a store.
pub(crate) type SkillNumber = u32;

/// The approximate overhead of a term in bytes: its entry in the table, and the overhead of the
/// allocator.
const TERM_BYTES: usize = 96;
/// The approximate overhead of a skill in bytes.
const SKILL_BYTES: usize = 160;

/// The skills and their terms.
#[derive(Default)]
pub(crate) struct Store {
    terms: HashMap<Box<str>, Postings, RandomState>,
    skills: Vec<Option<IndexedSkill>>,
    /// The bytes that the terms of each skill added to the store, by the skill's number. The
    /// overhead of a new term is added to the first skill that contains the term.
    text_bytes: Vec<u32>,
    numbers: HashMap<Box<str>, SkillNumber, RandomState>,
    bytes: usize,
    /// The part of `bytes` that the terms of removed skills added.
    dead_bytes: usize,
}

/// A skill of the index.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct IndexedSkill {
    pub(crate) name: Box<str>,
    /// The description and the headings, one per line.
    pub(crate) display_text: Box<str>,
    /// The stamp of the SKILL.md when it was read, or `None` if it could not be read.
    pub(crate) stamp: Option<DocumentStamp>,
    pub(crate) extent: Extent,
}

/// The part of a skill that is in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Extent {
    /// The whole SKILL.md.
    All,
    /// The start of the SKILL.md, because it is longer than the limit, or no text after its start.
    Start,
    /// The name and the description, because the index is full.
    Description,
    /// The name, because the SKILL.md cannot be read.
    Unreadable,
    /// The name and the description, until the update reads the body.
    Pending,
    /// No text, because lists for models leave the skill out. No search finds it.
    Unlisted,
}

impl IndexedSkill {
    fn bytes(&self) -> usize {
        SKILL_BYTES + 2 * self.name.len() + self.display_text.len()
    }
}

/// The skills that contain a term.
pub(crate) struct Postings {
    bytes: Vec<u8>,
    last: SkillNumber,
    count: u32,
    /// The [`letter_set`] of the term.
    letters: u32,
}

impl Store {
    /// Adds a skill, or replaces the skill of the same name.
    pub(crate) fn insert(&mut self, skill: IndexedSkill, fields: &SkillFields<'_>) {
        self.remove(&skill.name);
        let number = self.skills.len() as SkillNumber;
        let bytes_before = self.bytes;
        for (term, weight) in &fields.terms {
            let postings = match self.terms.get_mut(*term) {
                Some(postings) => postings,
                None => {
                    self.bytes += TERM_BYTES + term.len();
                    let postings = Postings::new(letter_set(term));
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

    /// Restores a saved store from its skills and its terms. Each term comes with
    /// [the bytes of its postings](Postings::bytes).
    ///
    /// Returns `None` if they are damaged, or if they need more than `max_bytes` of memory.
    pub(crate) fn restore(
        skills: Vec<IndexedSkill>,
        terms: &[(&str, &[u8])],
        max_bytes: usize,
    ) -> Option<Self> {
        let mut store = Self::default();
        for skill in skills {
            let number = store.skills.len() as SkillNumber;
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
            if store.bytes > max_bytes || store.terms.insert((*term).into(), postings).is_some() {
                return None;
            }
        }
        Some(store)
    }

    /// Removes the skill with this name.
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

    /// Marks a [pending](Extent::Pending) skill as one whose body does not fit into the index.
    pub(crate) fn leave_out_body(&mut self, name: &str) {
        let number = self.numbers.get(name);
        let skill = number.and_then(|number| self.skills[*number as usize].as_mut());
        if let Some(skill) = skill.filter(|skill| skill.extent == Extent::Pending) {
            skill.extent = Extent::Description;
        }
    }

    /// Returns the skills in the order of their numbers.
    pub(crate) fn skills(&self) -> impl Iterator<Item = &IndexedSkill> {
        self.skills.iter().flatten()
    }

    /// Returns whether most of the text, or most of the numbers, belong to removed skills. Guards
    /// against: an author who changes a skill again and again.
    fn is_mostly_dead(&self) -> bool {
        2 * self.dead_bytes > self.bytes || self.skills.len() > 2 * self.len() + 100
    }

    /// Removes the postings of removed skills, and renumbers the other skills.
    pub(crate) fn compact(&mut self) {
        let mut next = 0;
        let renumbered: Vec<Option<SkillNumber>> = self
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

    /// Returns the skill with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&IndexedSkill> {
        self.skill(*self.numbers.get(name)?)
    }

    /// Returns the skill with this number.
    pub(crate) fn skill(&self, number: SkillNumber) -> Option<&IndexedSkill> {
        self.skills.get(number as usize)?.as_ref()
    }

    /// Returns the names of the skills in arbitrary order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.numbers.keys().map(|name| &**name)
    }

    /// Returns the number of skills.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the length of a list with an entry for each skill number. Removed skills keep their
    /// numbers until compaction.
    pub(crate) fn number_count(&self) -> usize {
        self.skills.len()
    }

    /// Returns the approximate memory of the store in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns an upper bound of the bytes that removed skills take.
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

    /// Reads the postings of a term from [their bytes](Self::bytes), and counts the bytes
    /// for each skill.
    ///
    /// Returns `None` if [`Self::push`] cannot have written these bytes for these skills.
    fn restore(bytes: &[u8], term: &str, text_bytes: &mut [u32]) -> Option<Self> {
        let letters = letter_set(term);
        let stored = Self {
            bytes: bytes.to_vec(),
            ..Self::new(letters)
        };
        let mut postings = Self::new(letters);
        for (number, weight) in stored.iter() {
            let is_ascending = postings.count == 0 || number > postings.last;
            if !is_ascending || number as usize >= text_bytes.len() {
                return None;
            }
            postings.push_counted(number, weight, term, text_bytes);
        }
        let is_same = postings.count > 0 && postings.bytes == bytes;
        // Uses the bytes of `stored`, because their capacity is exact.
        is_same.then_some(Self {
            bytes: stored.bytes,
            ..postings
        })
    }

    /// Returns the encoded postings.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the [`letter_set`] of the term.
    pub(crate) fn letters(&self) -> u32 {
        self.letters
    }

    /// Returns the number of skills, including removed ones.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    fn push(&mut self, number: SkillNumber, weight: u8) {
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

    /// Adds a posting, and counts its bytes for the skill.
    fn push_counted(
        &mut self,
        number: SkillNumber,
        weight: u8,
        term: &str,
        text_bytes: &mut [u32],
    ) {
        let before = self.bytes.len();
        self.push(number, weight);
        let mut added = self.bytes.len() - before;
        if self.count == 1 {
            added += TERM_BYTES + term.len();
        }
        text_bytes[number as usize] += added as u32;
    }

    /// Returns the number and the weight of each skill, including removed ones, in the order of
    /// the numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SkillNumber, u8)> {
        let mut bytes = self.bytes.iter().copied();
        let mut number: SkillNumber = 0;
        std::iter::from_fn(move || {
            let mut shift: u32 = 0;
            loop {
                let byte = bytes.next()?;
                // Wraps only if `restore` has not checked these bytes yet.
                number = number.wrapping_add(SkillNumber::from(byte & 0x7f).wrapping_shl(shift));
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
            display_text: "".into(),
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

    /// Returns the names of the skills with a term, and the term's weights.
    fn skills_with(store: &Store, term: &str) -> Vec<(String, u8)> {
        let postings = store.postings(term).into_iter().flat_map(Postings::iter);
        postings
            .filter_map(|(number, weight)| Some((store.skill(number)?.name.to_string(), weight)))
            .collect()
    }

    #[test]
    fn finds_the_last_version_before_and_after_compaction() {
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
        assert_eq!(skills_with(&store, "rare"), expected);
        assert_eq!(store.number_count(), 1002, "not compacted yet");
        let before = store.bytes();
        store.compact();
        assert_eq!(skills_with(&store, "rare"), expected);
        assert_eq!(skills_with(&store, "common").len(), 996);
        assert_eq!((store.len(), store.number_count()), (998, 998));
        assert!(store.bytes() < before);
    }

    #[test]
    fn removing_all_skills_frees_their_memory() {
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
