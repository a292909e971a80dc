//! The memory of one call: the linear memories of its guest, and what the host keeps
//! for it.

use std::sync::Arc;

use super::CallQuota;
use crate::tool::Stop;
use crate::tool::audit::MemoryMeter;

/// The memory that a call has, against its own limit and the quota that calls share.
/// It returns to the quota on drop.
pub(crate) struct CallMemory {
    bytes: usize,
    limit: usize,
    quota: Arc<CallQuota>,
    /// Tells the call's record, also if the call is dropped while it runs.
    meter: MemoryMeter,
}

impl CallMemory {
    /// Starts counting at nothing.
    pub(crate) fn new(limit: usize, quota: &Arc<CallQuota>) -> Self {
        Self {
            bytes: 0,
            limit,
            quota: Arc::clone(quota),
            meter: MemoryMeter::default(),
        }
    }

    /// Sets the meter that shows the bytes from now on.
    pub(crate) fn measure(&mut self, meter: MemoryMeter) {
        self.meter = meter;
        self.meter.set(self.bytes);
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
        self.meter.set(bytes);
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
