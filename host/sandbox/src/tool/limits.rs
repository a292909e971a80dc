//! The limits of calls. Each limit has one row in a table, which defines its field, its
//! default, its bounds in a configuration, its outcome and its documentation. A new limit
//! is a row here and the code that enforces it.

mod unit;

use std::time::Duration;

pub use unit::{Quantity, Unit};

/// A row of a table of limits.
#[derive(Debug)]
pub struct Limit<S> {
    /// The key in a configuration.
    pub key: &'static str,
    /// The unit of the quantities below.
    pub unit: Unit,
    /// The default: a quantity as a configuration writes it, or a description of how the host
    /// chooses one.
    pub default: &'static str,
    /// The least that a configuration can set.
    pub least: u64,
    /// The greatest that a configuration can set.
    pub greatest: u64,
    /// The threat that the limit guards against.
    pub threat: &'static str,
    /// The name of the outcome of a call that the limit stopped. `None` if it stops no call.
    pub outcome: Option<&'static str>,
    #[doc(hidden)]
    pub get: fn(&S) -> Option<u64>,
    #[doc(hidden)]
    pub set: fn(&mut S, u64),
}

/// A set of limits that a configuration can set.
pub trait LimitSet: Default + Clone + 'static {
    /// The limits.
    const TABLE: &'static [Limit<Self>];
    /// The key of the limits' table in a configuration. Empty for the top level.
    const KEY: &'static str;
    /// The consequence of setting a limit below its least quantity, for messages.
    const TOO_LITTLE: &'static str;
}

impl<S: LimitSet> Limit<S> {
    /// Returns the limit's quantity, if one is set.
    pub fn get(&self, limits: &S) -> Option<u64> {
        (self.get)(limits)
    }

    /// Sets the limit.
    pub fn set(&self, limits: &mut S, quantity: u64) {
        (self.set)(limits, quantity);
    }

    /// Returns the limit and its quantity in words, for a person.
    pub fn describe(&self, limits: &S) -> String {
        let quantity = self.get(limits).unwrap_or_default();
        let name = self.key.replace('_', " ");
        match self.unit {
            Unit::Time => format!("{:?} of {name}", Duration::from_millis(quantity)),
            Unit::Bytes => format!("{} of {name}", self.unit.show(quantity)),
            Unit::Count => format!("{quantity} {name}"),
        }
    }

    /// Checks a quantity that a configuration sets. The error names the bound.
    pub fn check(&self, quantity: u64) -> Result<(), String> {
        let Self { key, unit, .. } = *self;
        if quantity < self.least {
            let reason = match self.least {
                1 => String::new(),
                _ => format!(": with less, {}", S::TOO_LITTLE),
            };
            return Err(format!(
                "`{key}` is at least {}{reason}",
                unit.show(self.least)
            ));
        }
        if quantity > self.greatest {
            return Err(format!("`{key}` is at most {}", unit.show(self.greatest)));
        }
        Ok(())
    }
}

/// Declares sets of limits: the structs, their defaults and their tables.
#[macro_export]
macro_rules! declare_limits {
    ($(
        $(#[$attribute:meta])*
        $set:ident in $table:literal, $too_little:literal {$(
            $(#[$doc:meta])*
            $field:ident: $type:ty, $unit:ident $default:literal in $least:expr, $greatest:expr;
            against $threat:literal $(; $variant:ident $outcome:literal $sentence:literal)?
        )*}
    )*) => {$(
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub struct $set {$(
            $(#[$doc])*
            #[doc = concat!("\n\nGuards against: ", $threat, ". Default: ", $default, ".")]
            pub $field: $type,
        )*}

        impl Default for $set {
            fn default() -> Self {
                use $crate::tool::limits::{Quantity, Unit};
                Self {$($field: Quantity::of(Unit::$unit.parse($default)),)*}
            }
        }

        impl $crate::tool::limits::LimitSet for $set {
            const TABLE: &'static [$crate::tool::limits::Limit<Self>] = &[$(
                $crate::tool::limits::Limit {
                    key: stringify!($field),
                    unit: $crate::tool::limits::Unit::$unit,
                    default: $default,
                    least: $least as u64,
                    greatest: $greatest as u64,
                    threat: $threat,
                    outcome: [$(Some($outcome),)? None][0],
                    get: |set| $crate::tool::limits::Quantity::quantity(&set.$field),
                    set: |set, quantity| {
                        set.$field = $crate::tool::limits::Quantity::of(Some(quantity));
                    },
                },
            )*];
            const KEY: &'static str = $table;
            const TOO_LITTLE: &'static str = $too_little;
        }
    )*};
}

/// Passes the tables of limits to a macro that declares items from their rows. A row is
///
/// ```text
/// /// The quantity that the limit bounds.
/// key: type, unit "default" in least, greatest;
/// against "threat"; StopVariant "outcome" "sentence"
/// ```
///
/// The last part is missing if the limit stops no call.
macro_rules! with_call_limits {
    ($declare:ident) => {
        $declare! {
            /// The limits of one call. All of them hold for every call.
            Limits in "limits", "no built-in tool would answer" {
                /// Wall-clock time of a call from when it has its slot to its answer:
                /// instantiation, computing, host calls, and gathering the changed files.
                /// Waiting counts too, but not for a person's decision about a request.
                time: Duration, Time "10s" in 1, DAY;
                against "a guest that loops or sleeps";
                Time "time" "it took longer than {:?}"

                /// Bytes of all linear memories of a call together.
                memory: usize, Bytes "64MiB" in LEAST_MEMORY, MAX_MEMORY;
                against "a guest that takes the host's memory";
                Memory "memory" "it needed more than {:?} bytes of memory"

                /// Bytes of an answer, text and details together.
                output: usize, Bytes "16MiB" in 256, MAX_MEMORY;
                against "a guest that floods the model's context or the host's memory";
                Output "output" "its answer was larger than {:?} bytes"

                /// Changed files that an answer lists. Further files are only counted.
                output_files: usize, Count "1000" in 1, u32::MAX;
                against "a script that makes ten thousand files"

                /// Bytes of changed files that an answer carries. Further files are listed
                /// without their bytes.
                output_file_bytes: usize, Bytes "16MiB" in 1, MAX_MEMORY;
                against "a script whose files fill the host's memory while a client reads them"

                /// Elements of all tables of a call together. A component made from
                /// JavaScript has 7,746.
                table_elements: usize, Count "20000" in 100, MAX_TABLE_ELEMENTS;
                against "tables that fill the host's memory";
                TableElements "table-elements" "it needed more than {:?} table elements"

                /// Core instances of a component. A component made from Python
                /// has 65.
                instances: usize, Count "200" in 4, MAX_INSTANCES;
                against "a component that is small on disk and huge when instantiated";
                Instances "instances" "it consists of more than {:?} core instances"

                /// Tables of a call.
                tables: usize, Count "64" in 2, MAX_TABLES;
                against "a component that is small on disk and huge when instantiated";
                Tables "tables" "it needed more than {:?} tables"

                /// Bytes that one call between host and guest makes the host
                /// allocate, for example for a list of paths or an answer.
                hostcall_fuel: usize, Bytes "128MiB" in 64 << 10, MAX_MEMORY;
                against "a list with thousands of entries that each contain all of the guest's memory";
                HostcallFuel "hostcall-fuel" "it handed the host more than {:?} bytes at once"

                /// Handles that a guest holds at a time, including open files.
                handles: usize, Count "256" in 8, u32::MAX;
                against "a guest that takes the host's file descriptors";
                Handles "handles" "it held more than {:?} handles"

                /// Entries of all directory listings of a call together.
                directory_entries: usize, Count "100000" in 1, u32::MAX;
                against "a folder with a million files";
                DirectoryEntries "directory-entries" "it listed more than {:?} directory entries"

                /// Bytes that a copy-on-write view holds: what a call has written, and
                /// the host's data about it. Beyond the limit, a guest gets the error that no
                /// space is left. They count in [`calls_memory`](Load::calls_memory) too.
                view_bytes: usize, Bytes "64MiB" in 1, MAX_MEMORY;
                against "a guest that writes without end"

                /// Files, folders and links of a copy-on-write view that a call has created,
                /// opened or traversed. Beyond the limit, a guest gets the error that no
                /// space is left.
                view_files: usize, Count "10000" in 1, MAX_VIEW_FILES;
                against "a guest that makes a million files"

                /// Nested folders in a copy-on-write view. Beyond the limit, a guest gets the
                /// error that the name is too long.
                view_depth: usize, Count "64" in 1, MAX_VIEW_DEPTH;
                against "folders nested so deeply that the host's stack overflows"

                /// HTTP requests of a call. Beyond the limit, a guest gets an error.
                requests: usize, Count "20" in 1, MAX_REQUESTS;
                against "a guest that floods a server"

                /// Bytes of the bodies of all requests of a call. Beyond the limit, a request
                /// fails.
                request_bytes: usize, Bytes "16MiB" in 1, MAX_BODY_BYTES;
                against "a guest that never stops sending"

                /// Bytes of the bodies of all responses of a call. Beyond the limit, a body
                /// ends with an error.
                response_bytes: usize, Bytes "64MiB" in 1, MAX_BODY_BYTES;
                against "an endless response"

                /// Bytes that a guest's standard output and error together leave in
                /// the log.
                log: usize, Bytes "16KiB" in 1, MAX_MEMORY;
                against "a guest that floods the log"
            }

            /// The calls that a host runs at a time, and the resources that it reserves.
            Load in "", "no built-in tool would answer" {
                /// Calls that run at a time. The host reserves address space for each. A number
                /// above 1024 has the same effect as 1024.
                calls: u32, Count "64" in 1, u32::MAX;
                against "callers who together take the host's memory"

                /// Calls that wait for a running call to end. Further calls get the
                /// answer that the host is busy.
                queue: u32, Count "1024" in 1, u32::MAX;
                against "callers who ask faster than guests answer"

                /// Calls of one tool that run at a time. The tool gets the same fraction
                /// of the queue and of the memory.
                calls_per_tool: Option<u32>, Count "a quarter of `calls`" in 1, u32::MAX;
                against "one tool that keeps all others waiting"

                /// Bytes of the linear memories and copy-on-write views of all calls
                /// together. An eighth of them, of the slots and of the queue is reserved for
                /// built-in tools.
                calls_memory: Option<usize>, Bytes "a quarter of the machine's, or of its cgroup's"
                    in LEAST_MEMORY, u64::MAX;
                against "calls that each use all the memory that one call is allowed"

                /// Bytes of stack of each guest, the same for all tools: the engine
                /// reserves them.
                stack: usize, Bytes "512KiB" in 64 << 10, 64 << 20;
                against "recursion";
                Stack "stack" "it needed more than {:?} bytes of stack"
            }

            /// The limits of compiling a component file, in a process of its own.
            CompileLimits in "", "no component would be compiled" {
                /// Wall-clock time. Compiling a component made from Python takes 6 seconds on two
                /// cores.
                compile_time: Duration, Time "60s" in 1, DAY;
                against "a component that keeps the compiler busy forever"
            }
        }
    };
}
pub(crate) use with_call_limits;

with_call_limits!(declare_limits);

/// The longest time that a limit can be set to, in milliseconds.
pub const DAY: u64 = 24 * 60 * 60 * 1000;

/// The maximum number of calls that run at a time: each reserves address space.
pub(crate) const MAX_CALLS: u32 = 1024;

/// The least that [`Limits::memory`] and [`Load::calls_memory`] can be set to.
const LEAST_MEMORY: u64 = 1 << 20;
/// The highest value that [`Limits::memory`] can be set to: a 32-bit guest has no more.
pub const MAX_MEMORY: u64 = 4 << 30;
/// The highest value that [`Limits::table_elements`] can be: the size of each table in the engine's
/// pool of instances.
pub(crate) const MAX_TABLE_ELEMENTS: usize = 20_000;
/// The highest value that [`Limits::instances`] can be.
pub(crate) const MAX_INSTANCES: usize = 200;
/// The highest value that [`Limits::tables`] can be.
pub(crate) const MAX_TABLES: usize = 64;
/// The highest value that [`Limits::requests`] can be: the host remembers each request of a call
/// for the audit log.
const MAX_REQUESTS: u64 = 1000;
/// The highest value that [`Limits::request_bytes`] and [`Limits::response_bytes`] can be.
const MAX_BODY_BYTES: u64 = 1 << 40;
/// The highest value that [`Limits::view_files`] can be.
const MAX_VIEW_FILES: u64 = 1_000_000;
/// The highest value that [`Limits::view_depth`] can be: nested folders are dropped recursively.
const MAX_VIEW_DEPTH: u64 = 256;

// Limits that no configuration changes.

/// The maximum number of memories of a component. Each reserves address space. Guards against: a
/// component that is small on disk and huge when instantiated.
pub(crate) const MEMORIES: u32 = 8;
/// The maximum number of bytes that one WASI read returns. Guards against: a guest that makes the
/// host allocate memory for a huge file. The guest's memory limit would stop it only afterwards.
pub(crate) const READ_BYTES: u64 = 16 << 20;
/// The maximum number of random bytes that one WASI call returns. Guards against: a guest that
/// keeps the host busy. With 64 MiB of random bytes, a tool call would end long after its deadline.
pub(crate) const RANDOM_BYTES: u64 = 1 << 20;
/// A path of this many bytes or more is too long, as with Linux's `PATH_MAX`.
/// Guards against: a path of millions of steps, which takes seconds where the kernel
/// has no `openat2` and the host looks up each step by itself.
pub const PATH_BYTES: usize = 4096;
/// The maximum size of a skill's script, and of each of its modules, in bytes. Guards against: a
/// script of 50 MB. The host would read and digest it on the thread of the call, and a guest would
/// need many times its size to parse it.
pub(crate) const SCRIPT_BYTES: u64 = 4 << 20;
/// The maximum size of all definitions of a component together, in bytes. Guards against: a
/// component whose definitions fill the model's context.
pub(crate) const DEFINITIONS_BYTES: usize = 1 << 20;
/// The maximum number of values in all schemas of a component's definitions together. Guards
/// against: short JSON that takes a hundred times its size in memory once it is parsed, again for
/// each list of tools.
pub(crate) const DEFINITIONS_VALUES: usize = 50_000;
/// The maximum number of patterns in all input schemas of a component's definitions together.
/// Guards against: patterns that take tens of KiB each once they are compiled.
pub(crate) const DEFINITIONS_PATTERNS: usize = 2_000;
/// The maximum number of tools that one component defines.
pub(crate) const DEFINITIONS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn check_rows<S: LimitSet>() {
        for row in S::TABLE {
            let default = row.get(&S::default());
            assert_eq!(default, row.unit.parse(row.default), "{}", row.key);
            if let Some(default) = default {
                assert_eq!(row.check(default), Ok(()), "{}", row.key);
            }
            assert!(row.check(row.least - 1).is_err(), "{}", row.key);
            if let Some(more) = row.greatest.checked_add(1) {
                assert!(row.check(more).is_err(), "{}", row.key);
            }
            let mut set = S::default();
            row.set(&mut set, row.least);
            assert_eq!(row.get(&set), Some(row.least), "{}", row.key);
            if let Some(outcome) = row.outcome {
                assert_eq!(outcome, row.key.replace('_', "-"));
            }
        }
    }

    #[test]
    fn describes_a_quantity_in_its_unit() {
        let mut limits = Limits::default();
        (limits.time, limits.memory, limits.output_files) =
            (Duration::from_millis(1500), 3 << 20, 7);
        let described = |key| {
            let row = Limits::TABLE.iter().find(|row| row.key == key);
            row.unwrap().describe(&limits)
        };
        assert_eq!(described("time"), "1.5s of time");
        assert_eq!(described("memory"), "3 MiB of memory");
        assert_eq!(described("output_files"), "7 output files");
    }

    #[test]
    fn each_row_has_valid_default_and_outcome() {
        check_rows::<Limits>();
        check_rows::<Load>();
        check_rows::<CompileLimits>();
    }
}
