//! The memory of one call: the linear memories of its guest, and what the host keeps
//! for it.

use std::sync::Arc;

use super::CallQuota;
use crate::tool::Stop;

/// The memory that a call has, against its own limit and the quota that calls share.
/// It returns to the quota on drop.
pub(crate) struct CallMemory {
    bytes: usize,
    limit: usize,
    quota: Arc<CallQuota>,
}

impl CallMemory {
    /// Starts counting at nothing.
    pub(crate) fn new(limit: usize, quota: &Arc<CallQuota>) -> Self {
        Self {
            bytes: 0,
            limit,
            quota: Arc::clone(quota),
        }
    }

    /// Takes more memory, or says which limit it met.
    pub(crate) fn take(&mut self, more: usize) -> Result<(), Stop> {
        let bytes = self.bytes.saturating_add(more);
        if bytes > self.limit {
            return Err(Stop::Memory(self.limit));
        }
        if !self.quota.take_memory(more) {
            return Err(Stop::HostMemory);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Returns the bytes that the call has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for CallMemory {
    fn drop(&mut self) {
        self.quota.give_memory_back(self.bytes);
    }
}
