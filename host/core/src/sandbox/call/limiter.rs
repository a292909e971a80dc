//! Memory and tables, counted as they grow: against the limits of the call, and
//! memory against what calls have together.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use super::State;
use crate::sandbox::engine::Quota;
use crate::tool::Stop;
use crate::tool::limits;

/// What a call has taken of its memory and table limits. It gives back what it
/// took of the memory that calls share.
pub(super) struct Used {
    bytes: usize,
    table_elements: usize,
    quota: Arc<Quota>,
}

impl Used {
    /// Nothing yet.
    pub(super) fn of(quota: &Arc<Quota>) -> Self {
        Self {
            bytes: 0,
            table_elements: 0,
            quota: Arc::clone(quota),
        }
    }

    /// Bytes of all linear memories of the call.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        self.quota.give_memory_back(self.bytes);
    }
}

impl ResourceLimiter for State {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if is_beyond(desired, maximum) {
            return Ok(false);
        }
        let more = desired.saturating_sub(current);
        let bytes = self.used.bytes.saturating_add(more);
        if bytes > self.limits.memory {
            // The guest learns that there is no more, as on any machine. If
            // that is what it breaks off for, this is why.
            self.world.hit = Some(Stop::Memory(self.limits.memory));
            return Ok(false);
        }
        if !self.used.quota.take_memory(more) {
            self.world.hit = Some(Stop::HostMemory);
            return Ok(false);
        }
        self.used.bytes = bytes;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let elements = self.used.table_elements.saturating_add(more);
        if elements > self.limits.table_elements {
            self.world.hit = Some(Stop::TableElements(self.limits.table_elements));
            return Ok(false);
        }
        self.used.table_elements = elements;
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

/// Whether the component's own maximum refuses it, whoever asks. Nothing is
/// counted then: the runtime asks here first.
fn is_beyond(desired: usize, maximum: Option<usize>) -> bool {
    maximum.is_some_and(|maximum| desired > maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_components_own_maximum_refuses_is_not_counted() {
        for (desired, maximum, beyond) in [
            (2, Some(1), true),
            (1, Some(1), false),
            (usize::MAX, None, false),
        ] {
            assert_eq!(is_beyond(desired, maximum), beyond);
        }
    }
}
