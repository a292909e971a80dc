//! How old the names of skills may be that are used again.

use std::time::Duration;

/// The longest time that names are kept. Guards against: a file system that does not
/// keep the times of folders.
pub(super) const MAX_AGE: Duration = Duration::from_secs(1);

/// The part of the time in which the pages of a listing may list names again: one in
/// this number. Guards against: a listing whose every page searches all folders.
const LISTING_SHARE: u32 = 10;

/// The time of which names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Now.
    Now,
    /// At most a second ago, and less in a small catalog: for the further pages of a
    /// listing, and for help.
    Recent,
}

/// Returns whether names may be used again that are this old and took so long to find.
pub(super) fn is_recent(age: Duration, took: Duration) -> bool {
    age < MAX_AGE.min(took * LISTING_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_used_again_for_ten_times_as_long_as_they_took_and_at_most_a_second() {
        let millis = Duration::from_millis;
        for (took, longest) in [(0, 0), (1, 10), (90, 900), (100, 1000), (5000, 1000)] {
            let age = millis(longest);
            assert!(!is_recent(age, millis(took)), "{took}");
            let younger = age.checked_sub(millis(1));
            assert!(
                younger.is_none_or(|age| is_recent(age, millis(took))),
                "{took}"
            );
        }
    }
}
