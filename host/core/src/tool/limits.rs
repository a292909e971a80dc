//! What one call may cost, each limit with the threat that it meets.

use std::time::Duration;

/// The limits of one call. Every call has them all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Wall-clock time of a call, from its start to its answer: waiting,
    /// instantiation, computing and host calls. Meets: a guest that loops or
    /// sleeps. Default: 10 seconds.
    pub time: Duration,
    /// Bytes of all linear memories of a call together. Meets: a guest that
    /// takes the host's memory. Default: 64 MiB.
    pub memory: usize,
    /// Bytes of an answer, text and details together. Meets: a guest that
    /// floods the model's context or the host's memory. Default: 16 MiB.
    pub output: usize,
    /// Elements of all tables of a call together. Meets: table bombs. A
    /// component made from JavaScript has 7,746. Default: 20,000.
    pub table_elements: usize,
    /// Core instances that a component may consist of, at most
    /// [`MAX_INSTANCES`]. Meets: a component that is small on disk and huge when
    /// instantiated. One made from Python has 65. Default: 200.
    pub instances: usize,
    /// Tables of a call, at most [`MAX_TABLES`]. Meets: the same. Default: 64.
    pub tables: usize,
    /// Bytes that one call between host and guest may make the host allocate,
    /// such as a list of paths or an answer. Meets: a list whose every entry is
    /// all of the guest's memory. Default: 128 MiB.
    pub hostcall_fuel: usize,
    /// Handles that a guest may hold at a time, open files among them. Meets:
    /// a guest that takes the host's file descriptors. Default: 256.
    pub handles: usize,
    /// Entries of all directory listings of a call together. Meets: a folder
    /// with a million files. Default: 100,000.
    pub directory_entries: usize,
    /// Bytes that a guest's standard output and error together leave in the
    /// log. Meets: a guest that floods the log. Default: 16 KiB.
    pub log: usize,
}

/// How many calls a host takes at a time, and what is set aside for each.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// Calls that run at a time; memory is reserved for so many. Meets: callers
    /// who together take the host's memory. Default: 64.
    pub calls: u32,
    /// Calls that wait for one of those to end. Any more are told that the
    /// host is busy. Meets: callers who ask faster than guests answer. Default:
    /// 1024.
    pub queue: u32,
    /// Calls of one tool that run at a time; it has the same part of the places
    /// in the queue and of the memory. Meets: one tool that keeps all others
    /// waiting. Default: a quarter of the calls, at least 1.
    pub calls_per_tool: Option<u32>,
    /// Bytes of the linear memories of all calls together; an eighth of them,
    /// and of the slots and places, is for built-in tools alone. Meets: calls
    /// that each take as much as one may. Default: a quarter of what the
    /// machine has, or of what its control group allows this process.
    pub calls_memory: Option<usize>,
    /// Bytes of stack of each guest, of all tools alike: the engine sets them
    /// aside. Meets: recursion. Default: 512 KiB.
    pub stack: usize,
}

/// Most calls that can run at a time: each reserves address space.
pub const MAX_CALLS: u32 = 1024;

impl Default for Load {
    fn default() -> Self {
        Self {
            calls: 64,
            queue: 1024,
            calls_per_tool: None,
            calls_memory: None,
            stack: 512 << 10,
        }
    }
}

/// Default of [`Limits::time`].
pub const DEFAULT_TIME: Duration = Duration::from_secs(10);
/// Default of [`Limits::memory`].
pub const DEFAULT_MEMORY: usize = 64 << 20;
/// Default of [`Limits::output`].
pub const DEFAULT_OUTPUT: usize = 16 << 20;

/// Most that [`Limits::memory`] can be set to: a 32-bit guest has no more.
pub const MAX_MEMORY: usize = 4 << 30;

/// Most that [`Limits::table_elements`] can be: the pool's tables are so large.
pub const MAX_TABLE_ELEMENTS: usize = 20_000;

/// Most that [`Limits::instances`] can be.
pub const MAX_INSTANCES: usize = 200;
/// Most that [`Limits::tables`] can be.
pub const MAX_TABLES: usize = 64;

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Things,
}

/// A limit's key, and what it can be set to in a configuration. With less than
/// the least, no tool that comes with the host could answer; there is no room
/// for more than the most.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) key: &'static str,
    pub(crate) unit: Unit,
    pub(crate) least: usize,
    pub(crate) most: usize,
}

/// The bounds of every limit but time, at these places.
pub(crate) const BOUNDS: [Bound; 9] = [
    bytes("memory", LEAST_MEMORY),
    bytes("output", 256),
    things("table_elements", 100, MAX_TABLE_ELEMENTS),
    things("instances", 4, MAX_INSTANCES),
    things("tables", 2, MAX_TABLES),
    bytes("hostcall_fuel", 64 << 10),
    things("handles", 8, u32::MAX as usize),
    things("directory_entries", 1, u32::MAX as usize),
    bytes("log", 1),
];
pub(crate) const MEMORY: usize = 0;
pub(crate) const OUTPUT: usize = 1;
pub(crate) const TABLE_ELEMENTS: usize = 2;
pub(crate) const INSTANCES: usize = 3;
pub(crate) const TABLES: usize = 4;
pub(crate) const HOSTCALL_FUEL: usize = 5;
pub(crate) const HANDLES: usize = 6;
pub(crate) const DIRECTORY_ENTRIES: usize = 7;
pub(crate) const LOG: usize = 8;

/// Least that [`Limits::memory`] and [`Load::calls_memory`] can be set to.
pub(crate) const LEAST_MEMORY: usize = 1 << 20;

const fn bytes(key: &'static str, least: usize) -> Bound {
    Bound {
        key,
        unit: Unit::Bytes,
        least,
        most: MAX_MEMORY,
    }
}

const fn things(key: &'static str, least: usize, most: usize) -> Bound {
    Bound {
        key,
        unit: Unit::Things,
        least,
        most,
    }
}

/// Least and most that [`Load::stack`] can be: the tools that come with the
/// host need some, and each call in flight has as much.
pub const STACK: std::ops::RangeInclusive<usize> = 64 << 10..=64 << 20;

/// Memories of a component. Each reserves address space. Meets: as
/// [`Limits::instances`].
pub(crate) const MEMORIES: u32 = 8;
/// Bytes that one WASI read may return. Meets: a guest that makes the host
/// allocate for a huge file; its own memory limit would stop it only after.
pub(crate) const READ_BYTES: u64 = 16 << 20;
/// Bytes that one WASI call for random bytes may return. Meets: a guest that
/// makes the host compute: of 64 MiB, for longer than a deadline may be passed.
pub(crate) const RANDOM_BYTES: u64 = 1 << 20;
/// Bytes of a path, from here on too many: Linux's `PATH_MAX`. Meets: a path of
/// millions of steps, which takes seconds where the kernel has no `openat2` and
/// each step is looked up by itself.
pub const PATH_BYTES: usize = 4096;
/// Bytes of a component's definitions together. Meets: a component whose
/// definitions fill the model's context.
pub(crate) const DEFINITIONS_BYTES: usize = 1 << 20;
/// Tools that one component may define.
pub(crate) const DEFINITIONS: usize = 256;

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: DEFAULT_TIME,
            memory: DEFAULT_MEMORY,
            output: DEFAULT_OUTPUT,
            table_elements: MAX_TABLE_ELEMENTS,
            instances: MAX_INSTANCES,
            tables: MAX_TABLES,
            hostcall_fuel: 128 << 20,
            handles: 256,
            directory_entries: 100_000,
            log: 16 << 10,
        }
    }
}
