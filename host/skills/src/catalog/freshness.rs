//! Decides how long cached names of skills stay valid, and how long to pause between searches for
//! unknown names.

use std::time::{Duration, Instant};

/// The longest time that names stay valid. Guards against: a file system that does not
/// update the times of folders.
pub(super) const MAX_AGE: Duration = Duration::from_secs(1);

/// The pages of a listing spend at most 1 / `LISTING_DIVISOR` of the time on listing names.
/// Guards against: a search of all folders for every page.
const LISTING_DIVISOR: u32 = 10;

/// Calls with unknown names spend at most 1 / `SEARCH_DIVISOR` of the time on searches. Guards
/// against: a search of all folders for every such call.
const SEARCH_DIVISOR: u32 = 10;

/// The required freshness of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The current names.
    Now,
    /// Names that are at most a second old, and less in a small catalog. Used for later
    /// pages of a listing.
    Recent,
    /// The names of the last search, however old. Lists a folder only if it was never listed. Used
    /// for help, which must not search because other calls wait for its thread.
    Known,
}

/// The pause before a call with an unknown name is allowed to search again.
#[derive(Debug)]
pub(super) struct SearchPause {
    pub(super) end: Instant,
}

impl Default for SearchPause {
    fn default() -> Self {
        Self {
            end: Instant::now(),
        }
    }
}

impl SearchPause {
    pub(super) fn is_over(&self) -> bool {
        self.end <= Instant::now()
    }

    /// Begins the pause after a search that took this long, even if the search was stopped.
    pub(super) fn begin(&mut self, took: Duration) {
        self.end = self.end.max(Instant::now() + took * SEARCH_DIVISOR);
    }
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
    fn pauses_ten_times_as_long_as_the_search() {
        let mut pause = SearchPause::default();
        assert!(pause.is_over());
        let before = Instant::now();
        pause.begin(Duration::from_secs(60));
        let expected =
            before + Duration::from_secs(600)..=Instant::now() + Duration::from_secs(600);
        assert!(expected.contains(&pause.end) && !pause.is_over());
        pause.begin(Duration::from_secs(1));
        assert!(expected.contains(&pause.end));
    }

    #[test]
    fn caches_names_for_ten_times_their_listing_time() {
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
