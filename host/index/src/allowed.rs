//! The skills that an asker may see, and the terms that they have. A search counts no other
//! skills, so that its answer says nothing about them. Not here: who may see which skill.

use skillhost::Coverage;

use crate::store::{Extent, Number, Postings, Store};

/// The skills of a store that an asker may see.
pub(crate) struct AllowedSkills<'a> {
    store: &'a Store,
    /// By its number: true for a skill that the asker may see, false for a removed one.
    allowed: Vec<bool>,
    count: usize,
    coverage: Coverage,
}

impl<'a> AllowedSkills<'a> {
    pub(crate) fn new(store: &'a Store, allowed: &dyn Fn(&str) -> bool) -> Self {
        let mut coverage = Coverage::All;
        let numbers = 0..store.end() as Number;
        let allowed = numbers.map(|number| {
            // The host gives no skill without a SKILL.md.
            let skill = store.skill(number).filter(|skill| skill.stamp.is_some());
            let Some(skill) = skill.filter(|skill| allowed(&skill.name)) else {
                return false;
            };
            if skill.extent == Extent::Pending {
                coverage = Coverage::Descriptions;
            }
            true
        });
        let allowed: Vec<bool> = allowed.collect();
        Self {
            count: allowed.iter().filter(|allowed| **allowed).count(),
            store,
            allowed,
            coverage,
        }
    }

    /// Returns the part of these skills' text that the store has.
    pub(crate) fn coverage(&self) -> Coverage {
        self.coverage
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
