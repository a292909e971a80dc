//! The budget of file descriptors for all guests, which leaves enough for the rest of the
//! process. Each call has a few reserved descriptors. All calls share the others, first come,
//! first served.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Resource;

/// The maximum number of reserved descriptors per call. A tool that reads a file has one or
/// two open at a time.
const RESERVED: usize = 8;

/// The file descriptors that all calls share.
#[derive(Debug)]
pub struct DescriptorBudget {
    /// The number of reserved descriptors per call.
    reserved: usize,
    /// The number of free descriptors beyond the reserved ones.
    left: AtomicUsize,
}

/// The open descriptors of one call.
#[derive(Debug)]
pub struct CallDescriptors {
    budget: Arc<DescriptorBudget>,
    open: AtomicUsize,
}

/// The lease of one descriptor. Dropping it returns the descriptor to the budget.
#[derive(Debug)]
pub struct DescriptorLease {
    call: Arc<CallDescriptors>,
    is_reserved: bool,
}

/// Returns the process's limit on open descriptors.
pub(crate) fn process_limit() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

impl DescriptorBudget {
    /// Creates a budget for a number of calls, from half of the process's descriptors.
    pub fn of_process(calls: u32) -> Self {
        Self::new(process_limit() / 2, calls as usize)
    }

    fn new(all: usize, calls: usize) -> Self {
        let reserved = (all / 2 / calls.max(1)).clamp(1, RESERVED);
        Self {
            reserved,
            left: AtomicUsize::new(all.saturating_sub(reserved.saturating_mul(calls))),
        }
    }
}

impl CallDescriptors {
    /// Creates the count for a new call, which has no open descriptors yet.
    pub fn new(budget: Arc<DescriptorBudget>) -> Arc<Self> {
        Arc::new(Self {
            budget,
            open: AtomicUsize::new(0),
        })
    }

    /// Leases a descriptor. Returns `None` if the budget has none left for this call.
    pub fn lease(self: &Arc<Self>) -> Option<DescriptorLease> {
        let order = Ordering::Relaxed;
        let is_reserved = self.open.fetch_add(1, order) < self.budget.reserved;
        let one_less = |left: usize| left.checked_sub(1);
        if !is_reserved
            && self
                .budget
                .left
                .fetch_update(order, order, one_less)
                .is_err()
        {
            self.open.fetch_sub(1, order);
            return None;
        }
        Some(DescriptorLease {
            call: Arc::clone(self),
            is_reserved,
        })
    }
}

impl Drop for DescriptorLease {
    fn drop(&mut self) {
        self.call.open.fetch_sub(1, Ordering::Relaxed);
        if !self.is_reserved {
            self.call.budget.left.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(call: &Arc<CallDescriptors>, wanted: usize) -> Vec<DescriptorLease> {
        (0..wanted).map_while(|_| call.lease()).collect()
    }

    #[test]
    fn greedy_call_leaves_others_their_reserved_descriptors() {
        // Each of 4 calls has 5 reserved descriptors, and 20 are for any call.
        let budget = Arc::new(DescriptorBudget::new(40, 4));
        let (greedy, other) = (
            CallDescriptors::new(Arc::clone(&budget)),
            CallDescriptors::new(budget),
        );
        let all = take(&greedy, 1000);
        assert_eq!(all.len(), 5 + 20);
        let few = take(&other, 1000);
        assert_eq!(few.len(), 5);
        drop(all);
        assert_eq!(take(&other, 1000).len(), 20);
        drop(few);
        assert_eq!(take(&greedy, 1000).len(), 5 + 20, "all were returned");
    }

    #[test]
    fn each_call_has_descriptor_even_if_process_has_few() {
        for (all, calls, reserved) in [(0, 64, 1), (512, 64, 4), (500_000, 64, 8), (512, 1, 8)] {
            let call = CallDescriptors::new(Arc::new(DescriptorBudget::new(all, calls)));
            assert!(take(&call, 1000).len() >= reserved, "{all} {calls}");
        }
    }
}
