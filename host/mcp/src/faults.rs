//! Faults of skills that were already logged, so that the operator reads each
//! once and not at every listing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use skillhost::Line;

/// The most skills whose faults are remembered. Guards against: a root of ever
/// new names.
const MOST_SKILLS: usize = 4096;

/// The most characters of a fault. Guards against: a path as long as a page.
const MOST_CHARACTERS: usize = 512;

/// The last fault of each skill that was logged.
#[derive(Debug, Default)]
pub(crate) struct FaultLog(Mutex<BTreeMap<String, String>>);

impl FaultLog {
    /// Logs that a skill is not in the skills extension.
    pub(crate) fn left_out(&self, skill: &str, why: &str) {
        let why = shortened(why);
        if self.is_new(skill, &why) {
            tracing::warn!(
                "`{}` is left out of the skills extension: {}",
                Line::new(skill),
                Line::new(why)
            );
        }
    }

    /// Logs that files of a skill are not in its manifest.
    pub(crate) fn incomplete(&self, skill: &str, files: &str) {
        let files = shortened(files);
        if self.is_new(skill, &files) {
            tracing::warn!(
                "the manifest of `{}` is without {}",
                Line::new(skill),
                Line::new(files)
            );
        }
    }

    /// Forgets the fault of a skill that has none any more.
    pub(crate) fn clear(&self, skill: &str) {
        self.faults().remove(skill);
    }

    /// Remembers a fault. Returns whether it is not the one that was logged last.
    fn is_new(&self, skill: &str, fault: &str) -> bool {
        let mut faults = self.faults();
        if faults.get(skill).is_some_and(|last| last == fault) {
            return false;
        }
        if faults.len() >= MOST_SKILLS {
            faults.clear();
        }
        faults.insert(skill.to_owned(), fault.to_owned());
        true
    }

    fn faults(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MOST_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_a_fault_once_and_again_when_it_changes() {
        let log = FaultLog::default();
        assert!(log.is_new("a", "x"));
        assert!(!log.is_new("a", "x"));
        assert!(log.is_new("a", "y"));
        assert!(log.is_new("b", "y"));
        log.clear("a");
        assert!(log.is_new("a", "y"));
        for number in 0..2 * MOST_SKILLS {
            log.is_new(&number.to_string(), "x");
        }
        assert!(log.faults().len() <= MOST_SKILLS);
    }
}
