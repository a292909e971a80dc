//! One call in one fresh sandbox: a store with its limits armed before
//! anything of the guest runs, one preopen at most, and nothing that outlives
//! the call.

mod entry;
mod limiter;
mod types;

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value};
use wasmtime::component::{Component, InstancePre, Linker, ResourceTableError};
use wasmtime::{Store, StoreContextMut, Trap, UpdateDeadline};

use crate::sandbox::engine::{Clocked, Quota, Running};
use crate::sandbox::known::KnownSkills;
use crate::sandbox::versions::{self, Known};
use crate::sandbox::wasi::{self, HasWorld, World};
use crate::skill::catalog::{CallFolder, FolderError};
use crate::skill::guard::Folder;
use crate::tool::grant::Terms;
use crate::tool::limits::Limits;
use crate::tool::{CallError, FailureKind, Stop};

use entry::Entry;
pub(crate) use entry::{Arguments, is_granted};
use limiter::Used;
use types::{
    CallParameters, CallResult, RawFailure, RawFolder, RawOpenFolder, RawOutput, RawSkill,
};
pub(crate) use types::{RawDefinition, RawForm};

/// A component, ready to be run any number of times.
pub(crate) struct Sandbox {
    engine: Clocked,
    component: InstancePre<State>,
    entry: Entry,
    /// Slots that a call takes.
    weight: u32,
}

/// One call: what is asked, and what it may do.
pub(crate) struct Call<'a> {
    pub(crate) tool: &'a Arc<str>,
    pub(crate) arguments: Arguments,
    pub(crate) folder: Option<Result<CallFolder, FolderError>>,
    pub(crate) terms: &'a Terms,
    /// The skills that the call may know of.
    pub(crate) skills: KnownSkills,
    /// Its slot. The clock of the call starts when it has one.
    pub(crate) slot: Running,
}

/// What a store holds.
pub(crate) struct State {
    world: World,
    skills: KnownSkills,
    used: Used,
    /// None is later than any clock can say.
    deadline: Option<Instant>,
    limits: Limits,
}

/// What a component says of its tools, and whether they can be called.
pub(crate) struct Asked {
    pub(crate) definitions: Vec<RawDefinition>,
    pub(crate) callable: wasmtime::Result<()>,
}

/// How a run ended, and the most memory that the guest had.
pub(crate) struct Ended<T> {
    pub(crate) result: Result<T, Stop>,
    pub(crate) memory: usize,
}

impl<T> Ended<T> {
    fn and_then<U>(self, next: impl FnOnce(T) -> Result<U, Stop>) -> Ended<U> {
        Ended {
            result: self.result.and_then(next),
            memory: self.memory,
        }
    }
}

/// What a guest answered.
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) details: Option<String>,
}

/// What a guest answered when it had no output.
pub(crate) struct Refusal {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
    pub(crate) details: Option<String>,
}

impl Sandbox {
    /// Links a component. What it imports and is not granted, and what it
    /// lacks, is an error that names it.
    pub(crate) fn new(engine: Clocked, component: &Component) -> wasmtime::Result<Self> {
        let known = versions::exported(component, &engine.engine)?;
        let Known { skills, answer, .. } = known.unwrap_or(versions::newest());
        let imports = component.component_type();
        for (name, import) in imports.imports(&engine.engine) {
            if !is_granted(&engine.engine, name, &import.ty) {
                wasmtime::bail!(versions::refusal(name));
            }
        }
        let mut linker = Linker::new(&engine.engine);
        wasi::link::<State>(&mut linker)?;
        linker
            .instance(skills)?
            .func_wrap_async("list", |store, (): ()| Box::new(list(store)))?;
        linker.instance(answer)?.func_wrap(
            "text-from-file",
            |mut store: StoreContextMut<'_, State>, (path, limit): (String, u64)| {
                let world = &mut store.data_mut().world;
                let taken = world.text_from_file(&path, limit);
                // Where there is nothing left to open a file with.
                match world.hit {
                    Some(Stop::Busy) => wasmtime::bail!("no file can be opened"),
                    _ => Ok((taken,)),
                }
            },
        )?;
        Ok(Self {
            component: linker.instantiate_pre(component)?,
            entry: Entry::of(&engine.engine, component, known)?,
            weight: engine.weight(component),
            engine,
        })
    }

    /// Whether its tools are functions with types of their own, whose failures
    /// have no kind.
    pub(crate) fn is_of_functions(&self) -> bool {
        matches!(self.entry, Entry::Functions(_))
    }

    /// Waits for a slot to run in, if there is room to wait.
    pub(crate) async fn enter(&self, quota: &Arc<Quota>) -> Result<Running, Stop> {
        let entered = self.engine.enter(quota, self.weight).await;
        entered.ok_or(Stop::Busy)
    }

    /// The arguments of a call, in the form that the component takes.
    pub(crate) fn arguments(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Arguments, CallError> {
        self.entry.arguments(tool, arguments)
    }

    /// Asks the component for its tools. No skill is known to it then. `bytes`
    /// are the component, in which functions may carry what they say of
    /// themselves.
    pub(crate) async fn definitions(
        &self,
        origin: &str,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Asked, Stop> {
        let (definitions, call) = match &self.entry {
            Entry::Tools { definitions, call } => (definitions, call),
            Entry::Functions(functions) => {
                return Ok(Asked {
                    definitions: entry::definitions(functions, bytes),
                    callable: Ok(()),
                });
            }
        };
        let world = World::new(
            None,
            Arc::default(),
            limits,
            self.engine.descriptors(),
            origin.into(),
        );
        let slot = self
            .engine
            .enter_at_length(self.weight)
            .await
            .ok_or(Stop::Busy)?;
        self.run(
            &slot,
            self.state(world, KnownSkills::default(), limits, &slot),
            async |store| {
                let instance = self.component.instantiate_async(&mut *store).await?;
                let definitions = instance
                    .get_typed_func::<(), (Vec<RawDefinition>,)>(&mut *store, definitions)?;
                let (definitions,) = definitions.call_async(&mut *store, ()).await?;
                // What a call will need is looked at now, and not at the first call.
                let call =
                    instance.get_typed_func::<CallParameters<'_>, CallResult>(&mut *store, call);
                Ok(Asked {
                    definitions,
                    callable: call.map(drop),
                })
            },
        )
        .await
        .result
    }

    /// Runs one call.
    pub(crate) async fn call(&self, call: Call<'_>) -> Ended<Result<Answer, Refusal>> {
        if let (Entry::Functions(_), Some(Err(none))) = (&self.entry, &call.folder) {
            return Ended {
                result: Ok(Err(entry::without_folder(none))),
                memory: 0,
            };
        }
        let Terms {
            limits,
            environment,
            ..
        } = call.terms;
        let (preopen, folder) = tell(call.folder);
        let world = World::new(
            preopen,
            Arc::clone(environment),
            limits,
            self.engine.descriptors(),
            Arc::clone(call.tool),
        );
        let slot = call.slot;
        let state = self.state(world, call.skills, limits, &slot);
        match (&self.entry, call.arguments) {
            (Entry::Tools { call: index, .. }, Arguments::Json(arguments)) => {
                let run = self.run(&slot, state, async |store| {
                    let instance = self.component.instantiate_async(&mut *store).await?;
                    let function = instance
                        .get_typed_func::<CallParameters<'_>, CallResult>(&mut *store, index)?;
                    let parameters = (&**call.tool, &*arguments, folder);
                    let (result,) = function.call_async(&mut *store, parameters).await?;
                    let held = store.data_mut().world.take_text();
                    Ok(result.map(|output| output.with_text(held)))
                });
                run.await.and_then(|answer| bounded(answer, limits.output))
            }
            (Entry::Functions(functions), Arguments::Values(values)) => {
                let run = self.run(&slot, state, async |store| {
                    let function = functions.get(call.tool);
                    let function = function.ok_or_else(|| wasmtime::format_err!("it is gone"))?;
                    let instance = self.component.instantiate_async(&mut *store).await?;
                    let called = instance.get_func(&mut *store, function.export);
                    let called = called.ok_or_else(|| wasmtime::format_err!("it is gone"))?;
                    let mut results = function.results();
                    called
                        .call_async(&mut *store, &values, &mut results)
                        .await?;
                    Ok((function, results))
                });
                let run = run.await;
                run.and_then(|(function, results)| entry::answer(function, &results, limits.output))
            }
            _ => Ended {
                result: Err(Stop::Trap(
                    "its arguments are for another component".to_owned(),
                )),
                memory: 0,
            },
        }
    }

    /// Makes an instance with all its limits on, and lets it go: what a call
    /// costs before it does anything.
    #[cfg(feature = "measure")]
    pub(crate) async fn instantiate(
        &self,
        quota: &Arc<Quota>,
        limits: &Limits,
    ) -> Result<(), Stop> {
        let slot = self.enter(quota).await?;
        let descriptors = self.engine.descriptors();
        let world = World::new(None, Arc::default(), limits, descriptors, "".into());
        let state = self.state(world, KnownSkills::default(), limits, &slot);
        self.run(&slot, state, async |store| {
            self.component.instantiate_async(store).await.map(drop)
        })
        .await
        .result
    }

    /// What a store begins with.
    fn state(&self, world: World, skills: KnownSkills, limits: &Limits, slot: &Running) -> State {
        State {
            world,
            skills,
            used: Used::of(slot.quota()),
            deadline: None,
            limits: limits.clone(),
        }
    }

    /// Runs the guest until it is done, stopped, or out of time. The store is
    /// gone when this returns, whatever happened.
    async fn run<T>(
        &self,
        slot: &Running,
        mut state: State,
        guest: impl AsyncFnOnce(&mut Store<State>) -> wasmtime::Result<T>,
    ) -> Ended<T> {
        let time = state.limits.time;
        state.deadline = Instant::now().checked_add(time);
        let mut store = armed(&self.engine, state);
        let waited = match self.engine.limited {
            true => tokio::time::timeout(time, slot.run(guest(&mut store))).await,
            false => Ok(guest(&mut store).await),
        };
        let result = match waited {
            Ok(Ok(done)) => Ok(done),
            Err(_) => Err(Stop::Time(time)),
            Ok(Err(error)) => Err(why(store.data_mut(), self.engine.stack(), &error)),
        };
        Ended {
            result,
            memory: store.data().used.bytes(),
        }
    }
}

/// The skills that the call may know of.
async fn list(mut store: StoreContextMut<'_, State>) -> wasmtime::Result<(Vec<RawSkill>,)> {
    let State { skills, limits, .. } = store.data();
    match skills.list(limits).await {
        Ok(skills) => {
            let raw = skills.into_iter().map(|skill| RawSkill {
                name: skill.name,
                description: skill.description,
            });
            Ok((raw.collect(),))
        }
        Err(stop) => {
            store.data_mut().world.hit = Some(stop);
            wasmtime::bail!("there are more skills than the call may list")
        }
    }
}

/// A store with all its limits on, and nothing of the guest in it yet.
fn armed(engine: &Clocked, state: State) -> Store<State> {
    let (fuel, handles) = (state.limits.hostcall_fuel, state.limits.handles);
    let mut store = Store::new(&engine.engine, state);
    if !engine.limited {
        return store;
    }
    store.limiter(|state| state);
    store.set_hostcall_fuel(fuel);
    // Handles and what is lent of them to a call of the host. Twice the limit,
    // so that the table of what they stand for is full first: that has a name.
    store.set_max_component_handles(handles.saturating_mul(2));
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut context| {
        let state = context.data_mut();
        if state
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            state.world.hit = Some(Stop::Time(state.limits.time));
            wasmtime::bail!("the call is past its deadline");
        }
        // Not `Yield`, which wakes the task at once: while guests compute on
        // every thread of the runtime, it would not come to look at its timers
        // and sockets for 61 turns, more than half a second.
        let others = Box::pin(tokio::task::yield_now());
        Ok(UpdateDeadline::YieldCustom(1, others))
    });
    store
}

/// Why a guest broke off: the limit that it ran into, if it ran into one.
fn why(state: &mut State, stack: usize, error: &wasmtime::Error) -> Stop {
    if let Some(stop) = state.world.hit.take() {
        return stop;
    }
    let limits = &state.limits;
    match (error.downcast_ref(), error.downcast_ref()) {
        (Some(ResourceTableError::Full), _) => return Stop::Handles(limits.handles),
        (_, Some(Trap::StackOverflow)) => return Stop::Stack(stack),
        _ => {}
    }
    // These the runtime says in words alone.
    let cause = error.root_cause().to_string();
    let said = [
        ("store handle limit exceeded", Stop::Handles(limits.handles)),
        ("instance count too high", Stop::Instances(limits.instances)),
        ("table count too high", Stop::Tables(limits.tables)),
        (
            "fuel allocated for hostcalls has been exhausted",
            Stop::HostcallFuel(limits.hostcall_fuel),
        ),
    ];
    said.into_iter()
        .find(|(words, _)| cause.contains(words))
        .map_or_else(|| Stop::Trap(format!("{error:#}")), |(_, stop)| stop)
}

/// What the guest is told of its folder, and the folder itself.
fn tell(folder: Option<Result<CallFolder, FolderError>>) -> (Option<(Folder, String)>, RawFolder) {
    match folder {
        None => (None, RawFolder::None),
        Some(Err(FolderError::Unknown)) => (None, RawFolder::UnknownSkill),
        Some(Err(FolderError::Unreadable)) => (None, RawFolder::Unreadable),
        Some(Err(FolderError::NoHome)) => (None, RawFolder::NoHome),
        Some(Err(FolderError::Outside)) => (None, RawFolder::Outside),
        Some(Ok(open)) => {
            let mount = match &open.skill {
                Some(skill) => format!("/skills/{skill}"),
                None => "/home".to_owned(),
            };
            let raw = RawFolder::Open(RawOpenFolder {
                skill: open.skill,
                mount: mount.clone(),
                path: open.path,
            });
            (Some((open.folder, mount)), raw)
        }
    }
}

/// An answer, if it is not too large.
fn bounded(
    result: Result<RawOutput, RawFailure>,
    limit: usize,
) -> Result<Result<Answer, Refusal>, Stop> {
    let (text, details) = match &result {
        Ok(output) => (&output.text, &output.details),
        Err(failure) => (&failure.message, &failure.details),
    };
    if text.len() + details.as_ref().map_or(0, String::len) > limit {
        return Err(Stop::Output(limit));
    }
    Ok(match result {
        Ok(RawOutput { text, details }) => Ok(Answer { text, details }),
        Err(RawFailure {
            kind,
            message,
            details,
        }) => Err(Refusal {
            kind: kind.into(),
            message,
            details,
        }),
    })
}

impl HasWorld for State {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }
}
