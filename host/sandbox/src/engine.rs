//! The engine that compiles and runs components: enabled WebAssembly features, allocation
//! of instances, and the epoch clock that interrupts them. `quota` has the budgets that
//! calls share, `fair` the sharing among clients, `memory` the memory of one call, `turns`
//! the scheduling of third-party guests, `pauses` the times that do not count towards a
//! call's time limit.

mod fair;
mod machine;
mod memory;
pub(crate) mod pauses;
mod quota;
#[cfg(test)]
mod tests;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use anyhow::Context as _;
use wasmtime::component::Component;
use wasmtime::{
    CacheStore, Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig,
    WasmBacktraceDetails,
};

use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use crate::tool::audit::CpuMeter;
use crate::tool::limits::{self, Load};
use crate::tool::observer::Occupancy;
use crate::tool::{Caller, CallerLease};
use skillhost_skills::descriptors::{CallDescriptors, DescriptorBudget};
use skillhost_skills::{blocking, guard, trust};

pub use machine::processors;
pub(crate) use memory::CallMemory;
pub use quota::CallQuota;
use quota::{QuotaRegistry, Slots};
pub(crate) use turns::HostTurn;
use turns::Turns;

/// The interval of epochs. At each epoch, running guests are interrupted to check their
/// deadlines and to yield.
const TICK: Duration = Duration::from_millis(10);

/// The maximum number of bytes at the start of a memory that stay resident between calls.
/// Resetting them by copying is cheaper than returning them to the kernel. No built-in tool starts
/// with more.
const MAX_RESIDENT: usize = 256 << 10;

/// The number of memories in the pool per slot: enough for a component with the adapter that
/// languages other than Rust need.
const MEMORIES_PER_SLOT: u32 = 2;

/// The default memory of all calls is the machine's memory divided by this.
const CALLS_MEMORY_DIVISOR: usize = 4;

/// The size of the stack for host functions in bytes, in addition to the guest's stack.
const HOST_STACK: usize = 512 << 10;

/// An engine with its epoch clock and the quotas of its calls.
#[derive(Clone)]
pub struct EpochEngine {
    pub(crate) engine: Engine,
    pub(crate) bounds_checks: BoundsChecks,
    /// True if calls have limits. False only in a benchmark that measures the cost of limits.
    pub(crate) limited: bool,
    stack: usize,
    clock: Arc<EpochClock>,
    quotas: Arc<QuotaRegistry>,
    turns: Arc<Turns>,
    descriptors: Arc<DescriptorBudget>,
}

/// The method that detects out-of-bounds accesses. Compiled code only runs on engines with
/// the same method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoundsChecks {
    /// Reserves the whole address range of a guest for each memory, so that the processor
    /// detects out-of-bounds accesses.
    GuardPages,
    /// Compares each access with the memory's size. This is slower, but works if a process
    /// can reserve only little address space.
    Explicit,
}

struct EpochClock {
    /// The number of calls in flight. At zero the clock stops.
    running: AtomicUsize,
    thread: Thread,
}

/// A call in flight: holds its slots and its caller's lease, and keeps the clock running.
pub struct CallSlot {
    clock: Arc<EpochClock>,
    slots: Slots,
    _lease: CallerLease,
    cpu: CpuMeter,
    /// The turns of a third-party guest. Built-in tools do not need turns.
    turns: Option<Arc<Turns>>,
}

/// Returns the limit of linear memory for all calls together, in bytes.
pub fn calls_memory(load: &Load) -> usize {
    load.calls_memory
        .unwrap_or_else(|| machine::memory() / CALLS_MEMORY_DIVISOR)
}

/// Reads and opens in advance what an engine needs from the machine. A process calls this
/// before it confines itself and creates a host.
pub fn read_before_confinement() {
    // The host repeats this check, and reports an error.
    let _ = guard::check_machine();
    trust::read_before_confinement();
    let _ = (machine::memory(), machine::processors());
}

impl EpochEngine {
    /// Creates an engine for calls with at most `memory` bytes each.
    pub fn new(load: &Load, memory: usize, limited: bool) -> anyhow::Result<Self> {
        // Without a slot, every call would wait forever.
        let load = &Load {
            calls: load.calls.clamp(1, limits::MAX_CALLS),
            ..load.clone()
        };
        let mut config = pooling_config(load, memory);
        let (engine, bounds_checks) = match Engine::new(config.epoch_interruption(limited)) {
            Ok(engine) => (engine, BoundsChecks::GuardPages),
            Err(error) => {
                tracing::warn!("no pooled allocation, calls will be slower: {error:#}");
                let engine = Engine::new(&on_demand_config(BoundsChecks::Explicit, load.stack))
                    .map_err(anyhow::Error::from)
                    .context("cannot set up WebAssembly")?;
                (engine, BoundsChecks::Explicit)
            }
        };
        let clock = start_clock(engine.clone())?;
        Ok(Self {
            engine,
            bounds_checks,
            limited,
            stack: load.stack,
            clock,
            quotas: Arc::new(QuotaRegistry::new(load, calls_memory(load))),
            turns: Arc::default(),
            descriptors: Arc::new(DescriptorBudget::of_process(load.calls)),
        })
    }

    /// Returns the number of calls and the memory in use.
    pub fn occupancy(&self) -> Occupancy {
        let (running, waiting) = self.quotas.occupied();
        Occupancy {
            running,
            waiting,
            memory: self.quotas.memory(),
            refused_components: 0,
        }
    }

    /// Returns the quota of a tool. `limit` is the maximum memory of one call.
    pub fn quota(&self, tool: &str, is_built_in: bool, limit: usize) -> Arc<CallQuota> {
        self.quotas.for_tool(tool, is_built_in, limit)
    }

    /// Returns the number of calls that may run at a time.
    pub fn calls(&self) -> u32 {
        self.quotas.calls()
    }

    /// Returns the number of calls of one tool that may run at a time.
    pub fn calls_per_tool(&self) -> u32 {
        self.quotas.calls_per_tool()
    }

    /// Creates the counter of a call's file descriptors, within the process's budget.
    pub fn descriptors(&self) -> Arc<CallDescriptors> {
        CallDescriptors::new(Arc::clone(&self.descriptors))
    }

    /// Returns the size of a guest's stack in bytes.
    pub(crate) fn stack(&self) -> usize {
        self.stack
    }

    /// Returns the number of slots for a call of this component. A component with many
    /// memories needs several slots, so that the pool has enough memories for all running
    /// calls.
    pub(crate) fn weight(&self, component: &Component) -> u32 {
        let memories = component
            .resources_required()
            .map_or(limits::MEMORIES, |required| required.num_memories);
        memories
            .div_ceil(MEMORIES_PER_SLOT)
            .clamp(1, self.quotas.max_slots())
    }

    /// Waits for `weight` slots of a quota, if its queue is not full. The clock runs while
    /// the slots are held.
    pub async fn enter(&self, quota: &Arc<CallQuota>, weight: u32) -> Option<CallSlot> {
        let slots = quota.enter(weight).await?;
        Some(self.start(slots))
    }

    /// Waits for slots even if the queue is full.
    ///
    /// The host uses this for its own work on third-party components, one at a time, so that
    /// callers who keep the host busy cannot prevent it.
    pub(crate) async fn enter_unqueued(&self, weight: u32) -> CallSlot {
        let slots = self.quotas.for_host().enter_unqueued(weight).await;
        self.start(slots)
    }

    fn start(&self, slots: Slots) -> CallSlot {
        if self.clock.running.fetch_add(1, Ordering::SeqCst) == 0 {
            self.clock.thread.unpark();
        }
        let is_built_in = slots.quota().is_built_in;
        CallSlot {
            clock: Arc::clone(&self.clock),
            turns: (!is_built_in).then(|| Arc::clone(&self.turns)),
            slots,
            _lease: CallerLease::default(),
            cpu: CpuMeter::default(),
        }
    }
}

impl CallSlot {
    /// Makes the slot hold the lease of the call's caller, and count processor time for the
    /// call.
    #[must_use]
    pub fn for_caller(mut self, caller: &Caller, cpu: CpuMeter) -> Self {
        (self._lease, self.cpu) = (caller.lease.clone(), cpu);
        self
    }

    /// Runs blocking work of the call on another thread. Work for third-party guests takes turns
    /// with them. The work holds the slot until it ends, even if the call is dropped.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let cpu = self.cpu.clone();
        let (turns, client) = (self.turns.clone(), self.quota().client().clone());
        let work = blocking::run(self, move || cpu.measure(work));
        let Some(turns) = turns else {
            return work.await;
        };
        // Runs in its own task, because the guest's task needs another turn to read the result.
        let task = tokio::spawn(async move { turns.run_in_one_turn(&client, work).await });
        AbortOnDropHandle::new(task).await?
    }

    /// Returns the quota of its call.
    pub(crate) fn quota(&self) -> &Arc<CallQuota> {
        self.slots.quota()
    }

    /// Runs a guest. Third-party guests take turns, shared fairly among clients.
    pub(crate) async fn run<T>(&self, guest: impl Future<Output = T>) -> T {
        match &self.turns {
            Some(turns) => turns.run(self.quota().client(), guest).await,
            None => guest.await,
        }
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        self.clock.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Creates an engine that only compiles for an [`EpochEngine`]. `functions` caches compiled
/// functions.
pub(crate) fn for_compiling(
    bounds_checks: BoundsChecks,
    functions: Option<Arc<impl CacheStore + 'static>>,
) -> anyhow::Result<Engine> {
    let mut config = on_demand_config(bounds_checks, Load::default().stack);
    if let Some(functions) = functions {
        config.enable_incremental_compilation(functions)?;
    }
    Ok(Engine::new(&config)?)
}

/// Returns the common configuration of all engines, which allocates instances on demand.
fn on_demand_config(bounds_checks: BoundsChecks, stack: usize) -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(stack)
        .async_stack_size(stack + HOST_STACK)
        // By default, an environment variable decides. It would differ between this process and
        // the compiling one, which has no environment.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false);
    if bounds_checks == BoundsChecks::Explicit {
        config
            .memory_reservation(0)
            .memory_reservation_for_growth(1 << 20)
            .memory_guard_size(0);
    }
    config
}

/// Returns the configuration of an engine that allocates instances from a pool.
fn pooling_config(load: &Load, memory: usize) -> Config {
    let mut config = on_demand_config(BoundsChecks::GuardPages, load.stack);
    let pool = pool_config(load, memory);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

/// Returns the number of bytes of each memory that stay resident between calls.
///
/// All memories together keep at most a quarter of the limit for all calls. The limit does
/// not include these bytes. Guards against: holding most of a small machine's memory for
/// calls that have ended.
fn resident_bytes(all_memory: usize, memories: usize) -> usize {
    MAX_RESIDENT.min(all_memory / 4 / memories)
}

/// Returns the sizes of the pool of instances, and how its memories are reset between calls.
fn pool_config(load: &Load, memory: usize) -> PoolingAllocationConfig {
    // Instances and tables take megabytes of address space, so all slots can have their
    // maximum. Memories take gigabytes.
    let calls = load.calls;
    let (instances, tables) = (limits::MAX_INSTANCES as u32, limits::MAX_TABLES as u32);
    // Even with few slots, a component with the maximum number of memories must fit beside
    // another one that is being loaded.
    let memories = calls
        .saturating_mul(MEMORIES_PER_SLOT)
        .max(limits::MEMORIES * calls.min(2));
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
        .linear_memory_keep_resident(resident_bytes(calls_memory(load), memories as usize))
        // Linux 6.7 and later can list the written pages. This version of wasmtime misses a
        // page that the kernel moves at that moment, so the next call would see its contents
        // (https://github.com/bytecodealliance/wasmtime/pull/14357).
        .pagemap_scan(Enabled::No)
        .table_keep_resident(16 << 10)
        .async_stack_keep_resident(32 << 10)
        .max_component_instance_size(4 << 20)
        .max_core_instance_size(4 << 20);
    pool
}

/// Starts the thread that increments the engine's epoch. It ends with the engine.
fn start_clock(engine: Engine) -> anyhow::Result<Arc<EpochClock>> {
    let engine = engine.weak();
    let (send, receive) = std::sync::mpsc::sync_channel::<Arc<EpochClock>>(1);
    let ticker = thread::Builder::new()
        .name("skillhost-clock".to_owned())
        .spawn(move || {
            let Ok(clock) = receive.recv() else { return };
            let weak_clock = Arc::downgrade(&clock);
            drop(clock);
            loop {
                match weak_clock.upgrade() {
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
    let clock = Arc::new(EpochClock {
        running: AtomicUsize::new(0),
        thread: ticker.thread().clone(),
    });
    send.send(Arc::clone(&clock))
        .context("the thread that interrupts guests ended early")?;
    Ok(clock)
}
