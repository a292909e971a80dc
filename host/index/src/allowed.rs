//! The skills that an asker may see, and the terms that they have. A search counts no other
//! skills, so that its answer says nothing about them. Not here: who may see which skill.

use crate::store::{Number, Postings, Store};

/// The skills of a store that an asker may see.
pub(crate) struct AllowedSkills<'a> {
    store: &'a Store,
    /// By its number: true for a skill that the asker may see, false for a removed one.
    allowed: Vec<bool>,
    count: usize,
}

impl<'a> AllowedSkills<'a> {
    pub(crate) fn new(store: &'a Store, allowed: &dyn Fn(&str) -> bool) -> Self {
        let numbers = 0..store.end() as Number;
        let skills = numbers.map(|number| store.skill(number));
        let allowed = skills.map(|skill| skill.is_some_and(|skill| allowed(&skill.name)));
        let allowed: Vec<bool> = allowed.collect();
        Self {
            count: allowed.iter().filter(|allowed| **allowed).count(),
            store,
            allowed,
        }
    }

    /// Returns the store, which has other skills as well.
    pub(crate) fn store(&self) -> &'a Store {
        self.store
    }

    /// Returns the number of skills.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns the number of skills that have a term.
    pub(crate) fn count(&self, term: &str) -> u32 {
        let postings = self.store.postings(term);
        postings.map_or(0, |postings| self.count_of(postings))
    }

    /// Returns the number of skills in a term's postings.
    pub(crate) fn count_of(&self, postings: &Postings) -> u32 {
        // The common case: the asker may see everything, and nothing was removed.
        if self.count == self.allowed.len() {
            return postings.count();
        }
        let allowed = postings.iter().filter(|(number, _)| self.has(*number));
        allowed.map(|_| 1).sum()
    }

    /// Returns whether the asker may see the skill of a number.
    pub(crate) fn has(&self, number: Number) -> bool {
        self.allowed[number as usize]
    }
}
