//! The skills that a caller may see, and the terms in them.
//!
//! A search ignores all other skills, so its answer tells nothing about them. The host decides
//! which skills a caller may see.

use skillhost::Coverage;
use skillhost_skills::blocking;

use crate::store::{Extent, Postings, SkillNumber, Store};

/// The skills of a store that a caller may see.
pub(crate) struct AllowedSkills<'a> {
    store: &'a Store,
    /// True for each skill that the caller may see, by the skill's number.
    is_allowed: Vec<bool>,
    count: usize,
    coverage: Coverage,
}

impl<'a> AllowedSkills<'a> {
    /// Finds the skills that `allowed` accepts.
    ///
    /// Leaves out skills without a SKILL.md and unlisted skills, because the host never shows
    /// them. Ends early if the search is [abandoned](blocking::is_abandoned).
    pub(crate) fn new(store: &'a Store, allowed: &dyn Fn(&str) -> bool) -> Self {
        let allowed = |name: &str| !blocking::is_abandoned() && allowed(name);
        let mut coverage = Coverage::All;
        let numbers = 0..store.number_count() as SkillNumber;
        let is_allowed = numbers.map(|number| {
            let skill = store.skill(number).filter(|skill| skill.stamp.is_some());
            let skill = skill.filter(|skill| skill.extent != Extent::Unlisted);
            let Some(skill) = skill.filter(|skill| allowed(&skill.name)) else {
                return false;
            };
            if skill.extent == Extent::Pending {
                coverage = Coverage::Descriptions;
            }
            true
        });
        let is_allowed: Vec<bool> = is_allowed.collect();
        Self {
            count: is_allowed.iter().filter(|allowed| **allowed).count(),
            store,
            is_allowed,
            coverage,
        }
    }

    /// Allows all texts of a [`TextIndex`](crate::TextIndex). Its store contains no skills.
    pub(crate) fn all(store: &'a Store) -> Self {
        let is_allowed = vec![true; store.number_count()];
        Self {
            count: is_allowed.len(),
            store,
            is_allowed,
            coverage: Coverage::All,
        }
    }

    /// Returns how much of the allowed skills' text the store contains.
    pub(crate) fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Returns the store. It may also contain other skills.
    pub(crate) fn store(&self) -> &'a Store {
        self.store
    }

    /// Returns the number of allowed skills.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns the number of allowed skills that contain a term.
    pub(crate) fn count_with(&self, term: &str) -> u32 {
        let postings = self.store.postings(term);
        postings.map_or(0, |postings| self.count_in(postings))
    }

    /// Returns the number of allowed skills in the postings of a term.
    pub(crate) fn count_in(&self, postings: &Postings) -> u32 {
        // The common case: the caller may see all skills, and none was removed.
        if self.count == self.is_allowed.len() {
            return postings.count();
        }
        let allowed = postings.iter().filter(|(number, _)| self.contains(*number));
        allowed.map(|_| 1).sum()
    }

    /// Returns whether the caller may see the skill with this number.
    pub(crate) fn contains(&self, number: SkillNumber) -> bool {
        self.is_allowed[number as usize]
    }
}
