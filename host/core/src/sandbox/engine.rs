//! The engine that compiles and runs components: what of WebAssembly is on,
//! how instances are allocated, and the clock that interrupts them. What calls
//! share is in `quota`, how strangers' guests take turns in `turns`.

mod machine;
mod quota;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use anyhow::Context as _;
use wasmtime::component::Component;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::skill::descriptors::{DescriptorBudget, DescriptorShare};
use crate::tool::limits::{self, Load};
use crate::tool::observer::Occupancy;

pub(crate) use quota::Quota;
use quota::{Quotas, Slots};
use turns::Turns;

/// How often running guests are interrupted, to see whether they are past
/// their time and to let others run.
const TICK: Duration = Duration::from_millis(10);

/// Bytes of a memory that are kept and set back by hand between calls: copying
/// is cheaper than giving pages back to the kernel and taking them again. Linux
/// tells from 6.7 on which pages a call has written to, and only those are set
/// back. Before that it is all of the memory's start: see [`START_RESIDENT`].
const WRITTEN_RESIDENT: usize = 2 << 20;

/// Bytes at the start of a memory that are kept where the kernel does not tell
/// what was written to: all of those of the host's own tools.
const START_RESIDENT: usize = 256 << 10;

/// Memories that the pool holds for each slot: those of a component with the
/// adapter that languages other than Rust need.
const MEMORIES_PER_SLOT: u32 = 2;

/// One part in so many of the memory that all calls may have is the most that
/// is kept between calls, beside it. Meets: a machine with little memory, most
/// of which would be kept for calls that have ended.
const KEPT: usize = 4;

/// One part in so many of the machine's memory is for all calls, where the
/// operator does not say.
const OF_MACHINE: usize = 4;

/// Stack for what the host does when a guest calls it, beside the guest's own.
const HOST_STACK: usize = 512 << 10;

/// An engine with its clock.
#[derive(Clone)]
pub(crate) struct Clocked {
    pub(crate) engine: Engine,
    pub(crate) code: Code,
    /// Whether calls have limits. They always do, but where those are measured.
    pub(crate) limited: bool,
    stack: usize,
    clock: Arc<Clock>,
    quotas: Arc<Quotas>,
    turns: Arc<Turns>,
    descriptors: Arc<DescriptorBudget>,
}

/// What compiled code may count on. Code of one kind runs on engines of that
/// kind alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Each memory has all the addresses that a guest can name to itself, so
    /// that the processor finds an access out of bounds.
    Reserved,
    /// Each access is compared with the memory's size: slower, on a machine
    /// that lets a process reserve little.
    Checked,
}

struct Clock {
    /// Calls in flight. The clock stands still while there are none.
    running: AtomicUsize,
    thread: Thread,
}

/// A call in flight: holds its slots, and keeps the clock going.
pub(crate) struct Running {
    clock: Arc<Clock>,
    slots: Slots,
    /// Those in which a stranger's guest computes.
    turns: Option<Arc<Turns>>,
}

/// Bytes of linear memory that all calls may have together.
pub(crate) fn calls_memory(load: &Load) -> usize {
    load.calls_memory
        .unwrap_or_else(|| machine::memory() / OF_MACHINE)
}

impl Clocked {
    /// An engine for so many calls at a time, of at most so much memory each.
    pub(crate) fn new(load: &Load, memory: usize, limited: bool) -> anyhow::Result<Self> {
        // With no slot at all, every call would wait for ever.
        let load = &Load {
            calls: load.calls.max(1),
            ..load.clone()
        };
        let all_memory = calls_memory(load);
        let mut config = pooling(load, memory, all_memory);
        let (engine, code) = match Engine::new(config.epoch_interruption(limited)) {
            Ok(engine) => (engine, Code::Reserved),
            Err(error) => {
                tracing::warn!("no pooled allocation, calls will be slower: {error:#}");
                let engine = Engine::new(&on_demand(Code::Checked, load.stack))
                    .map_err(anyhow::Error::from)
                    .context("cannot set up WebAssembly")?;
                (engine, Code::Checked)
            }
        };
        let clock = start_clock(engine.clone())?;
        Ok(Self {
            engine,
            code,
            limited,
            stack: load.stack,
            clock,
            quotas: Arc::new(Quotas::new(load, all_memory)),
            turns: Arc::default(),
            descriptors: Arc::new(DescriptorBudget::of_process(load.calls)),
        })
    }

    /// What is in hand now.
    pub(crate) fn occupancy(&self) -> Occupancy {
        let (running, waiting) = self.quotas.occupied();
        Occupancy {
            running,
            waiting,
            memory: self.quotas.memory(),
            refused_components: 0,
        }
    }

    /// What the tool of this name has of all that calls share. `limit` is the
    /// memory that one call of it may have.
    pub(crate) fn quota(&self, tool: &str, built_in: bool, limit: usize) -> Arc<Quota> {
        self.quotas.of_tool(tool, built_in, limit)
    }

    /// Calls of one tool that run at a time.
    pub(crate) fn calls_per_tool(&self) -> u32 {
        self.quotas.calls_per_tool()
    }

    /// What a call has of the process's file descriptors.
    pub(crate) fn descriptors(&self) -> Arc<DescriptorShare> {
        DescriptorShare::new(Arc::clone(&self.descriptors))
    }

    /// Bytes of stack of a guest.
    pub(crate) fn stack(&self) -> usize {
        self.stack
    }

    /// How many slots a call of this component takes: one with more memories
    /// than a slot has room for takes several, so that the pool is never
    /// empty for a call that has its slots.
    pub(crate) fn weight(&self, component: &Component) -> u32 {
        let memories = component
            .resources_required()
            .map_or(limits::MEMORIES, |required| required.num_memories);
        memories
            .div_ceil(MEMORIES_PER_SLOT)
            .clamp(1, self.quotas.most_slots())
    }

    /// Waits for so many slots of a tool's quota, if there is room to wait. The
    /// clock ticks for as long as they are held.
    pub(crate) async fn enter(&self, quota: &Arc<Quota>, weight: u32) -> Option<Running> {
        let slots = quota.enter(weight).await?;
        Some(self.start(slots))
    }

    /// Waits for slots, however many calls wait. For the host's own work on a
    /// stranger's component, which comes one at a time: callers who keep the
    /// host busy must not keep it from loading a component.
    pub(crate) async fn enter_at_length(&self, weight: u32) -> Option<Running> {
        let slots = self.quotas.of_host().enter_at_length(weight).await?;
        Some(self.start(slots))
    }

    fn start(&self, slots: Slots) -> Running {
        if self.clock.running.fetch_add(1, Ordering::SeqCst) == 0 {
            self.clock.thread.unpark();
        }
        let built_in = slots.quota().built_in;
        Running {
            clock: Arc::clone(&self.clock),
            turns: (!built_in).then(|| Arc::clone(&self.turns)),
            slots,
        }
    }
}

impl Running {
    /// What its memory counts in.
    pub(crate) fn quota(&self) -> &Arc<Quota> {
        self.slots.quota()
    }

    /// Runs its guest: a stranger's, a turn at a time.
    pub(crate) async fn run<T>(&self, guest: impl Future<Output = T>) -> T {
        match &self.turns {
            Some(turns) => turns.run(guest).await,
            None => guest.await,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.clock.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An engine that compiles for [`Clocked`] ones, and runs nothing.
pub(crate) fn compiling(code: Code) -> anyhow::Result<Engine> {
    Ok(Engine::new(&on_demand(code, Load::default().stack))?)
}

/// What every engine has, however it allocates.
fn on_demand(code: Code, stack: usize) -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(stack)
        .async_stack_size(stack + HOST_STACK)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false);
    if code == Code::Checked {
        config
            .memory_reservation(0)
            .memory_reservation_for_growth(1 << 20)
            .memory_guard_size(0);
    }
    config
}

fn pooling(load: &Load, memory: usize, all_memory: usize) -> Config {
    // Instances and tables cost address space in megabytes: there are enough
    // for any calls that have slots. Memories cost it in gigabytes.
    let calls = load.calls;
    let (instances, tables) = (limits::MAX_INSTANCES as u32, limits::MAX_TABLES as u32);
    let resident = match PoolingAllocationConfig::is_pagemap_scan_available() {
        true => WRITTEN_RESIDENT,
        false => START_RESIDENT,
    };
    // Where there are few slots, one call of a component with all the memories
    // that there may be has as few of them, and one may be loaded beside it.
    let memories = calls
        .saturating_mul(MEMORIES_PER_SLOT)
        .max(limits::MEMORIES * calls.min(2));
    let resident = resident.min(all_memory / KEPT / memories as usize);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls)
        .total_core_instances(calls.saturating_mul(instances))
        .total_memories(memories)
        .total_tables(calls.saturating_mul(tables))
        .total_stacks(calls)
        .max_core_instances_per_component(instances)
        .max_memories_per_component(limits::MEMORIES)
        .max_tables_per_component(tables)
        .table_elements(limits::MAX_TABLE_ELEMENTS)
        .max_memory_size(memory)
        .linear_memory_keep_resident(resident)
        .pagemap_scan(Enabled::Auto)
        .table_keep_resident(16 << 10)
        .async_stack_keep_resident(32 << 10)
        .max_component_instance_size(4 << 20)
        .max_core_instance_size(4 << 20);
    let mut config = on_demand(Code::Reserved, load.stack);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

/// The one thread that moves the engine's epoch on. It ends with the engine.
fn start_clock(engine: Engine) -> anyhow::Result<Arc<Clock>> {
    let engine = engine.weak();
    let (send, receive) = std::sync::mpsc::sync_channel::<Arc<Clock>>(1);
    let ticker = thread::Builder::new()
        .name("skillhost-clock".to_owned())
        .spawn(move || {
            let Ok(clock) = receive.recv() else { return };
            let clock_gone = Arc::downgrade(&clock);
            drop(clock);
            loop {
                match clock_gone.upgrade() {
                    None => return,
                    Some(clock) if clock.running.load(Ordering::SeqCst) == 0 => {
                        drop(clock);
                        thread::park_timeout(Duration::from_secs(1));
                    }
                    Some(_) => {
                        thread::sleep(TICK);
                        match engine.upgrade() {
                            Some(engine) => engine.increment_epoch(),
                            None => return,
                        }
                    }
                }
            }
        })
        .context("cannot start the thread that interrupts guests")?;
    let clock = Arc::new(Clock {
        running: AtomicUsize::new(0),
        thread: ticker.thread().clone(),
    });
    send.send(Arc::clone(&clock))
        .context("the thread that interrupts guests ended early")?;
    Ok(clock)
}
