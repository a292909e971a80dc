//! How many file descriptors guests may hold together: so many that the rest
//! of the process has its own. A call is sure of a few, whatever others hold;
//! what is left belongs to whoever comes first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Resource;

/// Descriptors that a call is sure of, where the process may have enough: a
/// tool that reads a file has one or two open at a time.
const SURE: usize = 8;

/// The descriptors of all calls.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Those that each call is sure of.
    sure: usize,
    /// Those that are left for any call.
    left: AtomicUsize,
}

/// The descriptors of one call.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    held: AtomicUsize,
}

/// One descriptor of a call's. It is given back when this goes.
#[derive(Debug)]
pub(crate) struct Permit {
    share: Arc<Share>,
    sure: bool,
}

/// How many the process may have.
pub(crate) fn of_process() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

impl Budget {
    /// Half of what the process may have is for guests.
    pub(crate) fn of_process(calls: u32) -> Self {
        Self::new(of_process() / 2, calls as usize)
    }

    fn new(all: usize, calls: usize) -> Self {
        let sure = (all / 2 / calls.max(1)).clamp(1, SURE);
        Self {
            sure,
            left: AtomicUsize::new(all.saturating_sub(sure.saturating_mul(calls))),
        }
    }
}

impl Share {
    pub(crate) fn new(budget: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            budget,
            held: AtomicUsize::new(0),
        })
    }

    /// A descriptor, if there is one for this call.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Permit> {
        let order = Ordering::Relaxed;
        let sure = self.held.fetch_add(1, order) < self.budget.sure;
        let one_less = |left: usize| left.checked_sub(1);
        if !sure
            && self
                .budget
                .left
                .fetch_update(order, order, one_less)
                .is_err()
        {
            self.held.fetch_sub(1, order);
            return None;
        }
        Some(Permit {
            share: Arc::clone(self),
            sure,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.share.held.fetch_sub(1, Ordering::Relaxed);
        if !self.sure {
            self.share.budget.left.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(share: &Arc<Share>, wanted: usize) -> Vec<Permit> {
        (0..wanted).map_while(|_| share.take()).collect()
    }

    #[test]
    fn a_call_that_takes_all_leaves_others_what_they_are_sure_of() {
        // 4 calls of 5 are sure, 20 are anyone's.
        let budget = Arc::new(Budget::new(40, 4));
        let (greedy, other) = (Share::new(Arc::clone(&budget)), Share::new(budget));
        let all = take(&greedy, 1000);
        assert_eq!(all.len(), 5 + 20);
        let few = take(&other, 1000);
        assert_eq!(few.len(), 5);
        drop(all);
        assert_eq!(take(&other, 1000).len(), 20);
        drop(few);
        assert_eq!(take(&greedy, 1000).len(), 5 + 20, "all came back");
    }

    #[test]
    fn a_process_with_few_descriptors_still_has_one_for_each_call() {
        for (all, calls, sure) in [(0, 64, 1), (512, 64, 4), (500_000, 64, 8), (512, 1, 8)] {
            let share = Share::new(Arc::new(Budget::new(all, calls)));
            assert!(take(&share, 1000).len() >= sure, "{all} {calls}");
        }
    }
}
