//! One call in one fresh sandbox: a store with limits that are armed before guest code
//! runs, and at most one preopen. Nothing outlives the call.

mod answer;
mod entry_point;
mod link;
mod store;
mod types;

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value};
use wasmtime::Store;
use wasmtime::component::{Component, InstancePre};

use crate::engine::pauses::CallPauses;
use crate::engine::{CallQuota, CallSlot, EpochEngine};
use crate::granted_skills::GrantedSkills;
use crate::tool::audit::MemoryMeter;
use crate::tool::grant::{FolderAccess, Terms};
use crate::tool::limits::Limits;
use crate::tool::{CallError, CallTrace, Stop};
use crate::versions;
use crate::view::View;
use crate::wasi::{HttpAccess, ImportState, ScriptGate};

pub use crate::wasi::{ConsentGate, RequestGate};
use skillhost_skills::catalog::{CallFolder, FolderError};

pub(crate) use answer::{GuestAnswer, GuestFailure};
use entry_point::EntryPoint;
pub(crate) use entry_point::GuestArguments;
pub(crate) use link::is_granted;
use store::StoreState;
#[cfg(test)]
pub(crate) use types::RawFolderRule;
use types::{RawCallParameters, RawCallResult};
pub(crate) use types::{RawDefinition, RawForm};

/// A linked component that can run many times.
pub struct Sandbox {
    engine: EpochEngine,
    component: InstancePre<StoreState>,
    entry_point: EntryPoint,
    /// The number of slots that a call takes.
    weight: u32,
}

/// The arguments and resources of a call.
pub struct SandboxCall<'a> {
    /// The tool's name.
    pub tool: &'a Arc<str>,
    /// The arguments in the guest's form.
    pub arguments: GuestArguments,
    /// The folder that the call may read, or the reason why it cannot be opened. `None` if
    /// the call names no folder.
    pub folder: Option<Result<CallFolder, FolderError>>,
    /// The rights and limits.
    pub terms: &'a Terms,
    /// The skills that the guest may list.
    pub skills: GrantedSkills,
    /// The scripts of the call's skill that the guest may start.
    pub scripts: Option<ScriptGate>,
    /// The gate of the guest's requests. `None` denies all requests, without a record.
    pub requests: Option<RequestGate>,
    /// True if the outcome must have a trace.
    pub is_traced: bool,
    /// The meter of the call's memory.
    pub memory: MemoryMeter,
    /// The call's slot. The time limit starts once the call has it.
    pub slot: &'a Arc<CallSlot>,
}

/// The tools that a component declares, and whether they can be called.
pub(crate) struct DeclaredTools {
    pub(crate) definitions: Vec<RawDefinition>,
    pub(crate) callable: wasmtime::Result<()>,
}

/// The outcome of a run.
pub struct RunOutcome<T> {
    /// The answer, or the reason why the guest was stopped.
    pub result: Result<T, Stop>,
    /// The guest's peak memory in bytes.
    pub memory: usize,
    /// The copy-on-write view, if the call had one. The guest cannot use it any more.
    pub view: Option<Arc<View>>,
    /// The deadline. `None` if it is too far in the future for the clock.
    pub deadline: Option<Instant>,
    /// A limit that the guest reached without being stopped.
    pub met: Option<Stop>,
    /// The guest's output, and its stack at a trap. Empty unless the call is traced.
    pub trace: CallTrace,
}

impl<T> RunOutcome<T> {
    fn and_then<U>(self, next: impl FnOnce(T) -> Result<U, Stop>) -> RunOutcome<U> {
        RunOutcome {
            result: self.result.and_then(next),
            memory: self.memory,
            view: self.view,
            deadline: self.deadline,
            met: self.met,
            trace: self.trace,
        }
    }

    /// Creates the outcome of a call whose guest did not run.
    fn without_run(result: Result<T, Stop>) -> Self {
        Self {
            result,
            memory: 0,
            view: None,
            deadline: None,
            met: None,
            trace: CallTrace::default(),
        }
    }
}

impl Sandbox {
    /// Links a component. The error names an import that is not granted, or a missing export.
    pub(crate) fn new(engine: EpochEngine, component: &Component) -> wasmtime::Result<Self> {
        let version = versions::exported_version(component, &engine.engine)?;
        let linker = link::linker(&engine.engine, component, version)?;
        Ok(Self {
            component: linker.instantiate_pre(component)?,
            entry_point: EntryPoint::find(&engine.engine, component, version)?,
            weight: engine.weight(component),
            engine,
        })
    }

    /// Returns whether the component's tools are typed functions, whose failures have no kind.
    pub fn exports_functions(&self) -> bool {
        matches!(self.entry_point, EntryPoint::Functions(_))
    }

    /// Waits for a slot, if the queue is not full.
    pub async fn enter(&self, quota: &Arc<CallQuota>) -> Result<CallSlot, Stop> {
        let entered = self.engine.enter(quota, self.weight).await;
        entered.ok_or(Stop::Busy)
    }

    /// Converts the arguments of a call to the form that the component expects.
    pub fn arguments(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<GuestArguments, CallError> {
        self.entry_point.arguments(tool, arguments)
    }

    /// Asks the component for its tools. The guest sees no skills. `bytes` is the component's
    /// binary, which may contain documentation of functions.
    pub(crate) async fn declared_tools(
        &self,
        origin: &str,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<DeclaredTools, Stop> {
        let (definitions, call) = match &self.entry_point {
            EntryPoint::Tools { definitions, call } => (definitions, call),
            EntryPoint::Functions(functions) => {
                let (engine, component) = (&self.engine.engine, self.component.component());
                return Ok(DeclaredTools {
                    definitions: entry_point::definitions(functions, engine, component, bytes),
                    callable: Ok(()),
                });
            }
        };
        let slot = self.engine.enter_unqueued(self.weight).await;
        let imports = ImportState::new(
            None,
            Arc::default(),
            limits,
            slot.quota(),
            self.engine.descriptors(),
            origin.into(),
        );
        let store = self.store(imports, GrantedSkills::default(), limits);
        self.run(&slot, store, async |store| {
            let instance = self.component.instantiate_async(&mut *store).await?;
            let definitions =
                instance.get_typed_func::<(), (Vec<RawDefinition>,)>(&mut *store, definitions)?;
            let (definitions,) = definitions.call_async(&mut *store, ()).await?;
            // Checks the type of `call` now instead of at the first call.
            let call =
                instance.get_typed_func::<RawCallParameters<'_>, RawCallResult>(&mut *store, call);
            Ok(DeclaredTools {
                definitions,
                callable: call.map(drop),
            })
        })
        .await
        .result
    }

    /// Runs one call.
    pub async fn call(
        &self,
        call: SandboxCall<'_>,
    ) -> RunOutcome<Result<GuestAnswer, GuestFailure>> {
        if let (EntryPoint::Functions(_), Some(Err(error))) = (&self.entry_point, &call.folder) {
            return RunOutcome::without_run(Ok(Err(entry_point::folder_failure(error))));
        }
        let Terms {
            limits,
            environment,
            view,
            ..
        } = call.terms;
        let (preopen, folder) = types::folder_parameter(call.folder);
        let slot = call.slot;
        let environment = match call.requests.as_ref().and_then(RequestGate::environment) {
            None => Arc::clone(environment),
            Some(added) => environment.iter().cloned().chain(added).collect(),
        };
        let mut imports = ImportState::new(
            preopen,
            environment,
            limits,
            slot.quota(),
            self.engine.descriptors(),
            Arc::clone(call.tool),
        );
        imports.scripts = call.scripts;
        if let Some(gate) = call.requests {
            imports.http = HttpAccess::new(gate, limits);
        }
        imports.is_traced = call.is_traced;
        imports.measure_memory(call.memory);
        if *view == FolderAccess::CopyOnWrite
            && let Err(error) = imports.make_view(limits, slot.quota())
        {
            return RunOutcome::without_run(Err(Stop::Trap(error.to_string())));
        }
        let store = self.store(imports, call.skills.in_slot(slot), limits);
        match (&self.entry_point, call.arguments) {
            (EntryPoint::Tools { call: index, .. }, GuestArguments::Json(arguments)) => {
                let run = self.run(slot, store, async |store| {
                    let instance = self.component.instantiate_async(&mut *store).await?;
                    let function = instance
                        .get_typed_func::<RawCallParameters<'_>, RawCallResult>(
                            &mut *store,
                            index,
                        )?;
                    let parameters = (&**call.tool, &*arguments, folder);
                    let (result,) = function.call_async(&mut *store, parameters).await?;
                    let text = store.data_mut().imports.take_text();
                    Ok(result.map(|output| output.with_text(text)))
                });
                let outcome = run.await;
                outcome.and_then(|result| answer::bounded(result, limits.output))
            }
            (EntryPoint::Functions(functions), GuestArguments::Values(values)) => {
                let run = self.run(slot, store, async |store| {
                    let missing = || wasmtime::format_err!("its function is missing");
                    let function = functions.get(call.tool).ok_or_else(missing)?;
                    let instance = self.component.instantiate_async(&mut *store).await?;
                    let export = instance.get_func(&mut *store, function.export);
                    let export = export.ok_or_else(missing)?;
                    let mut results = function.result_placeholders();
                    export
                        .call_async(&mut *store, &values, &mut results)
                        .await?;
                    Ok((function, results))
                });
                let outcome = run.await;
                outcome.and_then(|(function, results)| {
                    entry_point::answer(function, &results, limits.output)
                })
            }
            _ => RunOutcome::without_run(Err(Stop::Trap(
                "its arguments are for another component".to_owned(),
            ))),
        }
    }

    /// Creates an instance with all limits and drops it, to measure the fixed cost of a call.
    #[cfg(skillhost_measure)]
    pub(crate) async fn instantiate(
        &self,
        quota: &Arc<CallQuota>,
        limits: &Limits,
    ) -> Result<(), Stop> {
        let slot = self.enter(quota).await?;
        let descriptors = self.engine.descriptors();
        let none = Arc::default();
        let imports = ImportState::new(None, none, limits, quota, descriptors, "".into());
        let store = self.store(imports, GrantedSkills::default(), limits);
        self.run(&slot, store, async |store| {
            self.component.instantiate_async(store).await.map(drop)
        })
        .await
        .result
    }

    /// Creates the store of a call.
    fn store(
        &self,
        imports: ImportState,
        skills: GrantedSkills,
        limits: &Limits,
    ) -> Store<StoreState> {
        store::armed(&self.engine, StoreState::new(imports, skills, limits))
    }

    /// Runs the guest until it ends, is stopped, or exceeds its time. The store is always
    /// dropped before this returns.
    async fn run<T>(
        &self,
        slot: &CallSlot,
        mut store: Store<StoreState>,
        guest: impl AsyncFnOnce(&mut Store<StoreState>) -> wasmtime::Result<T>,
    ) -> RunOutcome<T> {
        let state = store.data_mut();
        let time = state.limits.time;
        state.deadline = Instant::now().checked_add(time);
        let pauses = state.imports.http.pauses().cloned();
        let finished = if self.engine.limited {
            // Not tokio's timeout, because the time of a person's decision does not count.
            // Unconstrained, so that the time limit also stops a guest that is always ready.
            let elapsed = tokio::task::unconstrained(async {
                match &pauses {
                    Some(pauses) => pauses.sleep_outside_pauses(time).await,
                    None => tokio::time::sleep(time).await,
                }
            });
            tokio::select! {
                biased;
                done = slot.run(guest(&mut store)) => Some(done),
                () = elapsed => None,
            }
        } else {
            Some(guest(&mut store).await)
        };
        let mut trace = CallTrace::default();
        let result = match finished {
            Some(Ok(done)) => Ok(done),
            None => Err(Stop::Time(time)),
            Some(Err(error)) => {
                if store.data().imports.is_traced {
                    trace.frames = store::frames(&error);
                }
                Err(store.data_mut().stop_for(self.engine.stack(), &error))
            }
        };
        let paused = pauses.as_ref().map(CallPauses::total).unwrap_or_default();
        let state = store.data_mut();
        if state.imports.is_traced {
            trace.output = state.imports.take_output();
        }
        RunOutcome {
            result,
            memory: state.imports.memory(),
            view: state.imports.view(),
            deadline: state.deadline.map(|deadline| deadline + paused),
            met: state.imports.stop.take(),
            trace,
        }
    }
}
