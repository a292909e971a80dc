//! The store of one call: its state, its limits, and the limit that stopped it.

mod limiter;

use std::sync::Arc;
use std::time::Instant;

use wasmtime::component::ResourceTableError;
use wasmtime::{Store, Trap, UpdateDeadline};

use crate::sandbox::engine::{CallQuota, EpochEngine};
use crate::sandbox::granted_skills::GrantedSkills;
use crate::sandbox::wasi::{HasImportState, ImportState};
use crate::tool::Stop;
use crate::tool::limits::Limits;

use limiter::ResourceUsage;

/// The state of a store.
pub(crate) struct StoreState {
    pub(super) imports: ImportState,
    pub(super) skills: GrantedSkills,
    pub(super) usage: ResourceUsage,
    /// `None` if it is too far away for the clock to represent.
    pub(super) deadline: Option<Instant>,
    pub(super) limits: Limits,
}

impl StoreState {
    /// Makes the state that a store begins with.
    pub(super) fn new(
        imports: ImportState,
        skills: GrantedSkills,
        limits: &Limits,
        quota: &Arc<CallQuota>,
    ) -> Self {
        Self {
            imports,
            skills,
            usage: ResourceUsage::new(quota),
            deadline: None,
            limits: limits.clone(),
        }
    }

    /// Returns why a guest stopped: the limit that it reached, or a trap.
    pub(super) fn stop_for(&mut self, stack: usize, error: &wasmtime::Error) -> Stop {
        if let Some(stop) = self.imports.stop.take() {
            return stop;
        }
        let limits = &self.limits;
        match (error.downcast_ref(), error.downcast_ref()) {
            (Some(ResourceTableError::Full), _) => return Stop::Handles(limits.handles),
            (_, Some(Trap::StackOverflow)) => return Stop::Stack(stack),
            _ => {}
        }
        // The runtime reports these limits in words alone.
        let cause = error.root_cause().to_string();
        let messages = [
            ("store handle limit exceeded", Stop::Handles(limits.handles)),
            ("instance count too high", Stop::Instances(limits.instances)),
            ("table count too high", Stop::Tables(limits.tables)),
            (
                "fuel allocated for hostcalls has been exhausted",
                Stop::HostcallFuel(limits.hostcall_fuel),
            ),
        ];
        messages
            .into_iter()
            .find(|(message, _)| cause.contains(message))
            .map_or_else(|| Stop::Trap(format!("{error:#}")), |(_, stop)| stop)
    }
}

impl HasImportState for StoreState {
    fn imports(&mut self) -> &mut ImportState {
        &mut self.imports
    }
}

/// Makes a store with all its limits armed and nothing of the guest in it yet.
pub(super) fn armed(engine: &EpochEngine, state: StoreState) -> Store<StoreState> {
    let (fuel, handles) = (state.limits.hostcall_fuel, state.limits.handles);
    let mut store = Store::new(&engine.engine, state);
    if !engine.limited {
        return store;
    }
    store.limiter(|state| state);
    store.set_hostcall_fuel(fuel);
    // This counts handles, and borrows of them during a call of the host. It is
    // twice the limit, so that the table of the resources is full first: that
    // error has a type.
    store.set_max_component_handles(handles.saturating_mul(2));
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut context| {
        let state = context.data_mut();
        if state
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            state.imports.stop = Some(Stop::Time(state.limits.time));
            wasmtime::bail!("the call is past its deadline");
        }
        // Not `Yield`, which wakes the task at once: while guests compute on every
        // thread of the runtime, it would not check its timers and sockets for 61
        // turns, more than half a second.
        let others = Box::pin(tokio::task::yield_now());
        Ok(UpdateDeadline::YieldCustom(1, others))
    });
    store
}
