//! The time for which cached names of skills stay valid.

use std::time::Duration;

/// The longest time that names stay valid. Guards against: a file system that does not
/// update the times of folders.
pub(super) const MAX_AGE: Duration = Duration::from_secs(1);

/// The pages of a listing may spend at most this fraction (1 / `LISTING_DIVISOR`) of the time
/// on listing names. Guards against: a search of all folders for every page.
const LISTING_DIVISOR: u32 = 10;

/// The required freshness of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Names as of now.
    Now,
    /// Names that are at most a second old, and less in a small catalog. Used for later
    /// pages of a listing and for help.
    Recent,
}

/// Returns whether cached names are still valid, given their age and the time that finding
/// them took.
pub(super) fn is_recent(age: Duration, took: Duration) -> bool {
    age < MAX_AGE.min(took * LISTING_DIVISOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_names_for_ten_times_their_cost_up_to_a_second() {
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
