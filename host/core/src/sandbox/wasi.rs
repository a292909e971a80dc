//! What a guest finds when it calls out: the sandbox's surface, linked
//! interface by interface. What is not linked here does not exist for a guest;
//! a component that imports it is refused when it is loaded.
//!
//! | interface | what a guest gets |
//! |---|---|
//! | `wasi:cli/environment` | the variables that the operator set for the tool, no arguments |
//! | `wasi:cli/std*`, `terminal-*` | an empty input; output goes to the log, bounded, line by line |
//! | `wasi:cli/exit` | ends the call, which then has no answer |
//! | `wasi:clocks` | the time; sleeping counts towards the call's time |
//! | `wasi:filesystem` | one read-only preopen: our own implementation |
//! | `wasi:io` | streams and polling over the above |
//! | `wasi:random` | random bytes |
//! | `skillhost:tool/answer` | a file's text goes into the answer without passing through the guest |
//! | `wasi:sockets` | nothing: every call is refused; components made from Python import it always |

mod answer;
mod environment;
mod filesystem;
mod log;
mod preopens;
mod sockets;
mod streams;

use std::hash::RandomState;
use std::sync::Arc;

use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
use wasmtime_wasi::p2::bindings::sync::filesystem::types as filesystem_types;
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem::preopens as preopens_bindings, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView as _};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_io::bindings::wasi::io;

use crate::skill::guard::Folder;
use crate::tool::Stop;
use crate::tool::limits::{self, Limits};

use crate::skill::descriptors::DescriptorShare;
use log::Log;

/// What one sandbox has of the outside.
pub(crate) struct World {
    table: ResourceTable,
    /// The call's only preopen, and its name for the guest.
    preopen: Option<(Arc<Folder>, String)>,
    environment: Arc<[(String, String)]>,
    descriptors: Arc<DescriptorShare>,
    /// Of the hashes by which the guest tells files apart.
    hash_key: RandomState,
    /// Directory entries that the call may list, and how many of them are left.
    directory_entries: (usize, usize),
    /// A file's text that the guest answers with, and the most bytes of one.
    text: Option<String>,
    most_text: usize,
    /// Which limit the guest ran into, if one.
    pub(crate) hit: Option<Stop>,
    /// Who runs here, for the log, and how much may be logged.
    tool: Arc<str>,
    log: usize,
    /// Made when it is first needed: most guests never look at a clock.
    wasi: Option<WasiCtx>,
}

impl World {
    pub(crate) fn new(
        preopen: Option<(Folder, String)>,
        environment: Arc<[(String, String)]>,
        limits: &Limits,
        descriptors: Arc<DescriptorShare>,
        tool: Arc<str>,
    ) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        Self {
            table,
            preopen: preopen.map(|(folder, mount)| (Arc::new(folder), mount)),
            environment,
            descriptors,
            hash_key: RandomState::new(),
            directory_entries: (limits.directory_entries, limits.directory_entries),
            text: None,
            most_text: limits.output.min(limits.hostcall_fuel),
            hit: None,
            tool,
            log: limits.log,
            wasi: None,
        }
    }
}

impl WasiView for World {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let (tool, limit) = (&self.tool, self.log);
        let ctx = self.wasi.get_or_insert_with(|| {
            let log = Log::new(Arc::clone(tool), limit);
            WasiCtxBuilder::new()
                .stdout(log.clone())
                .stderr(log)
                .allow_tcp(false)
                .allow_udp(false)
                .max_random_size(limits::RANDOM_BYTES)
                .build()
        });
        WasiCtxView {
            ctx,
            table: &mut self.table,
        }
    }
}

/// What a store holds, that has a [`World`] in it.
pub(crate) trait HasWorld: Send + 'static {
    fn world(&mut self) -> &mut World;
}

/// Links all of the above, one interface per line.
pub(crate) fn link<T: HasWorld>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    cli::environment::add_to_linker::<T, World>(linker, T::world)?;
    cli::exit::add_to_linker::<T, WasiCli>(linker, |t| t.world().cli())?;
    cli::stdin::add_to_linker::<T, WasiCli>(linker, |t| t.world().cli())?;
    cli::stdout::add_to_linker::<T, WasiCli>(linker, |t| t.world().cli())?;
    cli::stderr::add_to_linker::<T, WasiCli>(linker, |t| t.world().cli())?;
    cli::terminal_input::add_to_linker::<T, WasiCli>(linker, |t| t.world().cli())?;
    cli::terminal_output::add_to_linker::<T, WasiCli>(linker, |t| t.world().cli())?;
    cli::terminal_stdin::add_to_linker::<T, WasiCli>(linker, |t| t.world().cli())?;
    cli::terminal_stdout::add_to_linker::<T, WasiCli>(linker, |t| t.world().cli())?;
    cli::terminal_stderr::add_to_linker::<T, WasiCli>(linker, |t| t.world().cli())?;
    clocks::monotonic_clock::add_to_linker::<T, WasiClocks>(linker, |t| t.world().clocks())?;
    clocks::wall_clock::add_to_linker::<T, WasiClocks>(linker, |t| t.world().clocks())?;
    filesystem_types::add_to_linker::<T, World>(linker, T::world)?;
    preopens_bindings::add_to_linker::<T, World>(linker, T::world)?;
    io::error::add_to_linker::<T, Table>(linker, |t| &mut t.world().table)?;
    io::poll::add_to_linker::<T, Table>(linker, |t| &mut t.world().table)?;
    io::streams::add_to_linker::<T, Table>(linker, |t| &mut t.world().table)?;
    random::insecure::add_to_linker::<T, WasiRandom>(linker, |t| t.world().random())?;
    random::insecure_seed::add_to_linker::<T, WasiRandom>(linker, |t| t.world().random())?;
    random::random::add_to_linker::<T, WasiRandom>(linker, |t| t.world().random())?;
    sockets::link(linker)?;
    Ok(())
}

/// The interfaces that [`link`] links, of `wasi:…@0.2`.
const LINKED: [&str; 27] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

/// Whether an import of this name, with its version, is linked.
pub(crate) fn is_linked(import: &str) -> bool {
    let (name, version) = import.split_once('@').unwrap_or((import, ""));
    LINKED.contains(&name) && version.starts_with("0.2.")
}

impl HasData for World {
    type Data<'a> = &'a mut World;
}

struct Table;

impl HasData for Table {
    type Data<'a> = &'a mut ResourceTable;
}
