//! The engine that compiles and runs components: what of WebAssembly is on,
//! how instances are allocated, and the clock that interrupts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::limits::{self, Load};
use crate::observer::Occupancy;

/// How often running guests are interrupted, to see whether they are past
/// their time and to let others run.
const TICK: Duration = Duration::from_millis(10);

/// Bytes at the start of a memory that are kept and zeroed by hand between
/// calls. Below this, zeroing is cheaper than giving pages back to the kernel
/// and taking them again.
const KEEP_RESIDENT: usize = 256 << 10;

/// An engine with its clock.
#[derive(Clone)]
pub(crate) struct Clocked {
    pub(crate) engine: Engine,
    clock: Arc<Clock>,
    slots: Arc<Slots>,
    /// Bytes of all sandboxes' linear memories.
    pub(crate) memory: Arc<AtomicUsize>,
}

/// Room for calls: so many run, so many wait, and others are told to come back.
struct Slots {
    load: Load,
    running: Arc<Semaphore>,
    waiting: Semaphore,
}

struct Clock {
    /// Calls in flight. The clock stands still while there are none.
    running: AtomicUsize,
    thread: Thread,
}

/// A call in flight: holds its slot, and keeps the clock going.
pub(crate) struct Running {
    clock: Arc<Clock>,
    _slot: OwnedSemaphorePermit,
}

impl Clocked {
    /// An engine for so many calls at a time, of at most so much memory each.
    pub(crate) fn new(load: &Load, memory: usize) -> anyhow::Result<Self> {
        let engine = Engine::new(&pooling(load.calls, memory)).or_else(|error| {
            // A machine that lets a process reserve little address space.
            tracing::warn!("no pooled allocation, calls will be slower: {error:#}");
            Engine::new(&on_demand())
        });
        let engine = engine
            .map_err(anyhow::Error::from)
            .context("cannot set up WebAssembly")?;
        let clock = start_clock(engine.clone())?;
        let slots = Arc::new(Slots {
            load: load.clone(),
            running: Arc::new(Semaphore::new(load.calls as usize)),
            waiting: Semaphore::new(load.queue as usize),
        });
        Ok(Self {
            engine,
            clock,
            slots,
            memory: Arc::default(),
        })
    }

    /// What is in hand now.
    pub(crate) fn occupancy(&self) -> Occupancy {
        let Slots {
            load,
            running,
            waiting,
        } = &*self.slots;
        let taken =
            |all: u32, left: &Semaphore| (all as usize).saturating_sub(left.available_permits());
        Occupancy {
            running: taken(load.calls, running),
            waiting: taken(load.queue, waiting),
            memory: self.memory.load(Ordering::Relaxed),
        }
    }

    /// Waits for a slot, if there is room to wait. The clock ticks for as long
    /// as the slot is held.
    pub(crate) async fn enter(&self) -> Option<Running> {
        let slots = &*self.slots;
        let slot = match Arc::clone(&slots.running).try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => {
                let _place = slots.waiting.try_acquire().ok()?;
                Arc::clone(&slots.running).acquire_owned().await.ok()?
            }
        };
        Some(self.start(slot))
    }

    /// Waits for a slot, however many wait. For the host's own work, which
    /// comes one at a time: callers who keep it busy must not keep it from
    /// loading a component.
    pub(crate) async fn enter_at_length(&self) -> Option<Running> {
        let slot = Arc::clone(&self.slots.running).acquire_owned().await.ok()?;
        Some(self.start(slot))
    }

    fn start(&self, slot: OwnedSemaphorePermit) -> Running {
        if self.clock.running.fetch_add(1, Ordering::SeqCst) == 0 {
            self.clock.thread.unpark();
        }
        Running {
            clock: Arc::clone(&self.clock),
            _slot: slot,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.clock.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An engine that compiles for [`Clocked`] ones, and runs nothing.
pub(crate) fn compiling() -> anyhow::Result<Engine> {
    Ok(Engine::new(&on_demand())?)
}

/// What every engine has, however it allocates.
fn on_demand() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(limits::WASM_STACK)
        .async_stack_size(limits::WASM_STACK + (512 << 10))
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false);
    config
}

fn pooling(calls: u32, memory: usize) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls)
        .total_core_instances(calls.saturating_mul(16).max(limits::CORE_INSTANCES))
        .total_memories(calls.saturating_mul(2).max(limits::MEMORIES))
        .total_tables(calls.saturating_mul(16).max(limits::TABLES))
        .total_stacks(calls)
        .max_core_instances_per_component(limits::CORE_INSTANCES)
        .max_memories_per_component(limits::MEMORIES)
        .max_tables_per_component(limits::TABLES)
        .table_elements(limits::MAX_TABLE_ELEMENTS)
        .max_memory_size(memory)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(16 << 10)
        .async_stack_keep_resident(32 << 10)
        .max_component_instance_size(4 << 20)
        .max_core_instance_size(4 << 20);
    let mut config = on_demand();
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
