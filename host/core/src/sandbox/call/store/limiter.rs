//! Memory and tables, counted as they grow against the limits of the call. Memory
//! also counts against the quota that calls share.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use super::StoreState;
use crate::sandbox::engine::CallQuota;
use crate::tool::Stop;
use crate::tool::limits;

/// The memory and tables that a call has. Its memory returns to the quota on drop.
pub(in crate::sandbox::call) struct ResourceUsage {
    bytes: usize,
    table_elements: usize,
    quota: Arc<CallQuota>,
}

impl ResourceUsage {
    /// Starts counting at nothing.
    pub(super) fn new(quota: &Arc<CallQuota>) -> Self {
        Self {
            bytes: 0,
            table_elements: 0,
            quota: Arc::clone(quota),
        }
    }

    /// Returns the bytes of all linear memories of the call.
    pub(in crate::sandbox::call) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for ResourceUsage {
    fn drop(&mut self) {
        self.quota.give_memory_back(self.bytes);
    }
}

impl ResourceLimiter for StoreState {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if is_above_maximum(desired, maximum) {
            return Ok(false);
        }
        let more = desired.saturating_sub(current);
        let bytes = self.usage.bytes.saturating_add(more);
        if bytes > self.limits.memory {
            // The guest learns that there is no more, as on any machine. If it
            // traps then, this is the reason.
            self.imports.stop = Some(Stop::Memory(self.limits.memory));
            return Ok(false);
        }
        if !self.usage.quota.take_memory(more) {
            self.imports.stop = Some(Stop::HostMemory);
            return Ok(false);
        }
        self.usage.bytes = bytes;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // The runtime's own is no less than the limit.
        let own = maximum.filter(|maximum| *maximum < self.limits.table_elements);
        if is_above_maximum(desired, own) {
            return Ok(false);
        }
        let more = desired.saturating_sub(current);
        let elements = self.usage.table_elements.saturating_add(more);
        if elements > self.limits.table_elements {
            self.imports.stop = Some(Stop::TableElements(self.limits.table_elements));
            return Ok(false);
        }
        self.usage.table_elements = elements;
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.limits.instances
    }

    fn tables(&self) -> usize {
        self.limits.tables
    }

    fn memories(&self) -> usize {
        limits::MEMORIES as usize
    }
}

/// Checks whether the component's own maximum forbids it. Nothing is counted then:
/// the runtime asks here before it checks the maximum itself.
fn is_above_maximum(desired: usize, maximum: Option<usize>) -> bool {
    maximum.is_some_and(|maximum| desired > maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_not_count_growth_above_the_components_own_maximum() {
        for (desired, maximum, above) in [
            (2, Some(1), true),
            (1, Some(1), false),
            (usize::MAX, None, false),
        ] {
            assert_eq!(is_above_maximum(desired, maximum), above);
        }
    }
}
