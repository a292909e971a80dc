//! Counts memory and tables against the limits of a call as they grow. Memory also counts
//! against the quota that calls share.

use wasmtime::ResourceLimiter;

use super::StoreState;
use crate::tool::Stop;
use crate::tool::limits;

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
        // The guest sees a failed allocation.
        Ok(self.imports.take_memory(desired.saturating_sub(current)))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // The runtime also passes its own maximum, which is at least the limit.
        let component_maximum = maximum.filter(|maximum| *maximum < self.limits.table_elements);
        if is_above_maximum(desired, component_maximum) {
            return Ok(false);
        }
        let more = desired.saturating_sub(current);
        let elements = self.table_elements.saturating_add(more);
        if elements > self.limits.table_elements {
            self.imports.stop = Some(Stop::TableElements(self.limits.table_elements));
            return Ok(false);
        }
        self.table_elements = elements;
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

/// Returns whether the component's own maximum forbids the growth. Such growth is not
/// counted: the runtime asks the limiter before it checks the maximum.
fn is_above_maximum(desired: usize, maximum: Option<usize>) -> bool {
    maximum.is_some_and(|maximum| desired > maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_growth_above_maximum_of_component() {
        for (desired, maximum, above) in [
            (2, Some(1), true),
            (1, Some(1), false),
            (usize::MAX, None, false),
        ] {
            assert_eq!(is_above_maximum(desired, maximum), above);
        }
    }
}
