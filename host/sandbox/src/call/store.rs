//! The store of one call: its state, its limits, and the reason why it was stopped.

mod limiter;

use std::time::Instant;

use wasmtime::component::ResourceTableError;
use wasmtime::{Store, Trap, UpdateDeadline, WasmBacktrace};

use crate::engine::EpochEngine;
use crate::engine::pauses::CallPauses;
use crate::granted_skills::GrantedSkills;
use crate::tool::limits::Limits;
use crate::tool::{Stop, TraceFrame};
use crate::wasi::{HasImportState, ImportState};

/// The maximum number of functions in a trap's cause. Guards against: recursion.
const MAX_NAMES: usize = 5;
/// The maximum number of characters of a function's name, which is untrusted.
const MAX_NAME: usize = 100;

/// The state of a store.
pub(crate) struct StoreState {
    pub(super) imports: ImportState,
    pub(super) skills: GrantedSkills,
    /// The number of elements of all tables of the call.
    table_elements: usize,
    /// The deadline. `None` if it is too far in the future for the clock.
    pub(super) deadline: Option<Instant>,
    pub(super) limits: Limits,
}

impl StoreState {
    /// Creates the initial state of a store.
    pub(super) fn new(imports: ImportState, skills: GrantedSkills, limits: &Limits) -> Self {
        Self {
            imports,
            skills,
            table_elements: 0,
            deadline: None,
            limits: limits.clone(),
        }
    }

    /// Returns the reason why a guest was stopped: a limit, or a trap.
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
        // The runtime reports these limits only as text.
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
            .map_or_else(|| Stop::Trap(causes(error)), |(_, stop)| stop)
    }
}

/// Returns the causes of a trap, and the guest's stack of function names if the component
/// has names.
fn causes(error: &wasmtime::Error) -> String {
    let backtrace = error.downcast_ref::<WasmBacktrace>();
    let list = backtrace.map(ToString::to_string);
    let causes = error.chain().map(ToString::to_string);
    // One of the causes is a list of addresses, which is not useful here.
    let causes = causes.filter(|cause| list.as_ref() != Some(cause));
    let causes = causes.collect::<Vec<_>>().join(": ");
    let frames = backtrace.map_or(&[][..], WasmBacktrace::frames);
    let names = frames.iter().filter_map(|frame| frame.func_name());
    // Mangled names of Rust and C++ functions are unreadable.
    let names = names.filter(|name| !name.starts_with("_R") && !name.starts_with("_Z"));
    let names = names.take(MAX_NAMES).map(|name| {
        let name: String = name.chars().take(MAX_NAME).collect();
        format!("`{name}`")
    });
    match names.collect::<Vec<_>>().join(", called by ") {
        names if names.is_empty() => causes,
        names => format!("{causes} in {names}"),
    }
}

/// Returns the guest's stack at the time of a trap.
pub(super) fn frames(error: &wasmtime::Error) -> Vec<TraceFrame> {
    let backtrace = error.downcast_ref::<WasmBacktrace>();
    let frames = backtrace.map_or(&[][..], WasmBacktrace::frames);
    let frame = |frame: &wasmtime::FrameInfo| {
        Some(TraceFrame {
            offset: frame.module_offset()? as u64,
            function: frame.func_name().map(str::to_owned),
        })
    };
    frames.iter().filter_map(frame).collect()
}

impl HasImportState for StoreState {
    fn imports(&mut self) -> &mut ImportState {
        &mut self.imports
    }
}

/// Creates a store with all limits armed and without an instance.
pub(super) fn armed(engine: &EpochEngine, state: StoreState) -> Store<StoreState> {
    let (fuel, handles) = (state.limits.hostcall_fuel, state.limits.handles);
    let mut store = Store::new(&engine.engine, state);
    if !engine.limited {
        return store;
    }
    store.limiter(|state| state);
    store.set_hostcall_fuel(fuel);
    // The runtime also counts the borrows of handles during a host call. With twice the limit,
    // the resource table is always full first, and its error has a type.
    store.set_max_component_handles(handles.saturating_mul(2));
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut context| {
        let state = context.data_mut();
        let pauses = state.imports.http.pauses();
        if let Some(end) = pauses.and_then(CallPauses::end_of_open_pauses) {
            return Ok(UpdateDeadline::YieldCustom(1, end));
        }
        let paused = pauses.map(CallPauses::total).unwrap_or_default();
        if state
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline + paused)
        {
            state.imports.stop = Some(Stop::Time(state.limits.time));
            wasmtime::bail!("the call is past its deadline");
        }
        // Not `Yield`, which wakes the task at once. While guests compute on every
        // thread, the runtime would then not check its timers and sockets for 61 turns,
        // more than half a second.
        let next_turn = Box::pin(tokio::task::yield_now());
        Ok(UpdateDeadline::YieldCustom(1, next_turn))
    });
    store
}

#[cfg(test)]
mod tests {
    use wasmtime::{Engine, Instance, Module};

    use super::*;

    /// Returns the error of a module's function `f`, which traps.
    fn error(functions: &str) -> wasmtime::Error {
        let engine = Engine::default();
        let module = wat::parse_str(format!("(module {functions})")).unwrap();
        let module = Module::new(&engine, module).unwrap();
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let f = instance.get_typed_func::<(), ()>(&mut store, "f").unwrap();
        f.call(&mut store, ()).unwrap_err()
    }

    const TRAP: &str = "wasm trap: wasm `unreachable` instruction executed";

    #[test]
    fn trap_names_innermost_function_first() {
        let nested = r#"(func $inner unreachable) (func $outer (export "f") call $inner)"#;
        let long = "x".repeat(101);
        // Mangled names, as Rust and C++ compilers write them.
        let symbols = format!(
            r#"(func $_RNvCs_4main unreachable) (func $_ZN4main call $_RNvCs_4main)
               (func ${long} (export "f") call $_ZN4main)"#
        );
        let deep: String = (1..9)
            .map(|number| format!("(func $f{number} call $f{})", number - 1))
            .collect();
        let deep = format!(r#"(func $f0 unreachable) {deep} (export "f" (func $f8))"#);
        for (functions, expected) in [
            (r#"(func (export "f") unreachable)"#, String::new()),
            (nested, " in `inner`, called by `outer`".to_owned()),
            (&symbols, format!(" in `{}`", "x".repeat(100))),
            (
                &deep,
                " in `f0`, called by `f1`, called by `f2`, called by `f3`, called by `f4`"
                    .to_owned(),
            ),
        ] {
            let causes = causes(&error(functions));
            assert_eq!(causes, format!("{TRAP}{expected}"), "{functions}");
        }
    }

    #[test]
    fn host_error_shows_its_chain_of_causes() {
        let error = wasmtime::Error::msg("no such thing").context("cannot begin");
        assert_eq!(causes(&error), "cannot begin: no such thing");
        assert_eq!(frames(&error), []);
    }

    #[test]
    fn trace_has_each_function_and_offset() {
        let frames = frames(&error(
            r#"(func unreachable) (func $outer (export "f") call 0)"#,
        ));
        let names = frames.iter().map(|frame| frame.function.as_deref());
        assert_eq!(names.collect::<Vec<_>>(), [None, Some("outer")]);
        assert!(frames[0].offset < frames[1].offset);
    }
}
