//! The memory of one call: linear memories of its guest, and memory that the host uses for
//! it.

use std::sync::Arc;

use super::CallQuota;
use crate::tool::Stop;
use crate::tool::audit::MemoryMeter;

/// The memory of a call. It counts against the call's limit and the shared quota, and
/// returns to the quota on drop.
pub(crate) struct CallMemory {
    bytes: usize,
    limit: usize,
    quota: Arc<CallQuota>,
    /// The meter of the call's record, which may outlive the call.
    meter: MemoryMeter,
}

impl CallMemory {
    /// Creates the memory of a call that uses none yet.
    pub(crate) fn new(limit: usize, quota: &Arc<CallQuota>) -> Self {
        Self {
            bytes: 0,
            limit,
            quota: Arc::clone(quota),
            meter: MemoryMeter::default(),
        }
    }

    /// Sets the meter, which shows the bytes in use from now on.
    pub(crate) fn measure(&mut self, meter: MemoryMeter) {
        self.meter = meter;
        self.meter.set(self.bytes);
    }

    /// Takes more memory. The error is the limit that this would exceed.
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

    /// Returns the bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for CallMemory {
    fn drop(&mut self) {
        self.quota.give_memory_back(self.bytes);
    }
}
