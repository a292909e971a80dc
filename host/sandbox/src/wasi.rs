//! The imports of a guest: the whole surface of the sandbox, linked interface by interface.
//! Components that import anything else are refused when they are loaded.
//!
//! | interface | what a guest gets |
//! |---|---|
//! | `wasi:cli/environment` | the variables that the operator set for the tool; no arguments |
//! | `wasi:cli/std*`, `terminal-*` | an empty input; output goes to the log, bounded, line by line |
//! | `wasi:cli/exit` | the end of the call, without an answer |
//! | `wasi:clocks` | the time, or a fixed time that the operator set; sleeping counts towards the call's time |
//! | `wasi:filesystem` | one read-only preopen, or two preopens of a copy-on-write view; our own implementation |
//! | `wasi:io` | streams and polling over the above |
//! | `wasi:random` | random bytes |
//! | `skillhost:tool/answer` | a file's text in the answer without a copy in the guest |
//! | `skillhost:tool/scripts` | the scripts of the call's skill that the grant allows, and their modules |
//! | `wasi:http/outgoing-handler` | the requests that the grant allows; all others are denied |
//! | `wasi:sockets` | nothing: every call is refused; components made from Python always import it |

mod answer;
mod environment;
mod filesystem;
#[cfg(test)]
pub(crate) mod fixture;
mod handles;
pub(crate) mod http;
mod log;
pub(crate) mod newer;
mod preopens;
mod scripts;
mod sockets;
mod streams;

use std::hash::RandomState;
use std::io;
use std::sync::Arc;

use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
use wasmtime_wasi::p2::bindings::sync::filesystem::types as filesystem_types;
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem::preopens as preopens_bindings, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView as _};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::p2::bindings::http as http_bindings;
use wasmtime_wasi_http::{WasiHttp, WasiHttpCtx, WasiHttpCtxView, WasiHttpView};
use wasmtime_wasi_io::bindings::wasi::io as io_bindings;

use crate::engine::{CallMemory, CallQuota};
use crate::tool::Stop;
use crate::tool::audit::MemoryMeter;
use crate::tool::limits::{self, Limits};
use crate::view::View;
use skillhost_skills::descriptors::CallDescriptors;
use skillhost_skills::guard::Folder;

use environment::FixedClock;
pub(crate) use http::HttpAccess;
pub use http::{ConsentGate, RequestGate};
use log::GuestLog;
pub(crate) use scripts::ScriptGate;

/// The state behind the imports of one guest.
pub(crate) struct ImportState {
    table: ResourceTable,
    /// The call's folder on the disk, and the guest's path for it. `None` for a call without a
    /// folder.
    preopen: Option<(Arc<Folder>, String)>,
    /// The copy-on-write view of the call's folder, if its grant has one.
    view: Option<Arc<View>>,
    environment: Arc<[(String, String)]>,
    memory: CallMemory,
    descriptors: Arc<CallDescriptors>,
    /// The key of the hashes that identify files to the guest.
    hash_key: RandomState,
    /// The maximum number of directory entries that the call may list, and how many remain.
    directory_entries: (usize, usize),
    /// The text of the file that the guest chose as its answer.
    text: Option<String>,
    /// The maximum size of this text, in bytes.
    max_text: usize,
    /// The scripts that the guest may start. `None` if it may start no script.
    pub(crate) scripts: Option<ScriptGate>,
    /// The requests that the guest may send.
    pub(crate) http: HttpAccess,
    http_context: WasiHttpCtx,
    /// The limit that the guest reached, if any.
    pub(crate) stop: Option<Stop>,
    /// The tool's name, for the log.
    tool: Arc<str>,
    /// The maximum size of the guest's log, in bytes.
    log_limit: usize,
    /// The context of wasmtime-wasi. It is created on first use, because most guests never
    /// read a clock.
    wasi: Option<WasiCtx>,
    /// True if the guest's output is captured until the call has ended.
    pub(crate) is_traced: bool,
    /// The guest's log, if its output is captured.
    log: Option<GuestLog>,
}

impl ImportState {
    pub(crate) fn new(
        preopen: Option<(Folder, String)>,
        environment: Arc<[(String, String)]>,
        limits: &Limits,
        quota: &Arc<CallQuota>,
        descriptors: Arc<CallDescriptors>,
        tool: Arc<str>,
    ) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        let mut http_context = WasiHttpCtx::new();
        http_context.set_field_size_limit(http::MAX_FIELD_BYTES);
        Self {
            table,
            preopen: preopen.map(|(folder, mount)| (Arc::new(folder), mount)),
            view: None,
            environment,
            memory: CallMemory::new(limits.memory, quota),
            descriptors,
            hash_key: RandomState::new(),
            directory_entries: (limits.directory_entries, limits.directory_entries),
            text: None,
            max_text: limits.output.min(limits.hostcall_fuel),
            scripts: None,
            http: HttpAccess::default(),
            http_context,
            stop: None,
            tool,
            log_limit: limits.log,
            wasi: None,
            is_traced: false,
            log: None,
        }
    }

    /// Creates a copy-on-write view of the call's folder. Does nothing for a call without a
    /// folder.
    pub(crate) fn make_view(&mut self, limits: &Limits, quota: &Arc<CallQuota>) -> io::Result<()> {
        if let Some((folder, _)) = &self.preopen {
            let (descriptors, tool) = (Arc::clone(&self.descriptors), Arc::clone(&self.tool));
            let view = View::new(Arc::clone(folder), limits, quota, descriptors, tool)?;
            self.view = Some(Arc::new(view));
        }
        Ok(())
    }

    /// Charges memory to the call. Returns `false` if that would exceed a limit, which then is the
    /// reason if the guest traps later.
    pub(crate) fn take_memory(&mut self, bytes: usize) -> bool {
        let taken = self.memory.take(bytes);
        taken.map_err(|stop| self.stop = Some(stop)).is_ok()
    }

    /// Makes a meter measure the call's memory.
    pub(crate) fn measure_memory(&mut self, meter: MemoryMeter) {
        self.memory.measure(meter);
    }

    /// Returns the bytes of memory that the call uses.
    pub(crate) fn memory(&self) -> usize {
        self.memory.bytes()
    }

    /// Takes the guest's captured output. It is empty unless the call is traced.
    pub(crate) fn take_output(&mut self) -> String {
        self.log
            .take()
            .map(|log| log.take_captured())
            .unwrap_or_default()
    }

    /// Returns the call's view, if it has one.
    pub(crate) fn view(&self) -> Option<Arc<View>> {
        self.view.clone()
    }
}

impl WasiView for ImportState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let (tool, limit, is_traced) = (&self.tool, self.log_limit, self.is_traced);
        let traced_log = &mut self.log;
        let clock = FixedClock::from_variables(&self.environment);
        let ctx = self.wasi.get_or_insert_with(|| {
            let log = GuestLog::new(Arc::clone(tool), limit, is_traced);
            *traced_log = is_traced.then(|| log.clone());
            let mut builder = WasiCtxBuilder::new();
            if let Some(clock) = clock {
                builder.wall_clock(clock);
            }
            builder
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

impl WasiHttpView for ImportState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            hooks: &mut self.http,
            table: &mut self.table,
            ctx: &mut self.http_context,
        }
    }
}

/// The state of a store that contains an [`ImportState`].
pub(crate) trait HasImportState: Send + 'static {
    fn imports(&mut self) -> &mut ImportState;
}

/// Links the WASI interfaces of the table above, one per line.
pub(crate) fn link<T: HasImportState>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    cli::environment::add_to_linker::<T, ImportState>(linker, T::imports)?;
    cli::exit::add_to_linker::<T, WasiCli>(linker, |t| t.imports().cli())?;
    cli::stdin::add_to_linker::<T, WasiCli>(linker, |t| t.imports().cli())?;
    cli::stdout::add_to_linker::<T, WasiCli>(linker, |t| t.imports().cli())?;
    cli::stderr::add_to_linker::<T, WasiCli>(linker, |t| t.imports().cli())?;
    cli::terminal_input::add_to_linker::<T, WasiCli>(linker, |t| t.imports().cli())?;
    cli::terminal_output::add_to_linker::<T, WasiCli>(linker, |t| t.imports().cli())?;
    cli::terminal_stdin::add_to_linker::<T, WasiCli>(linker, |t| t.imports().cli())?;
    cli::terminal_stdout::add_to_linker::<T, WasiCli>(linker, |t| t.imports().cli())?;
    cli::terminal_stderr::add_to_linker::<T, WasiCli>(linker, |t| t.imports().cli())?;
    clocks::monotonic_clock::add_to_linker::<T, WasiClocks>(linker, |t| t.imports().clocks())?;
    clocks::wall_clock::add_to_linker::<T, WasiClocks>(linker, |t| t.imports().clocks())?;
    filesystem_types::add_to_linker::<T, ImportState>(linker, T::imports)?;
    filesystem::link_entries(linker)?;
    preopens_bindings::add_to_linker::<T, ImportState>(linker, T::imports)?;
    http_bindings::outgoing_handler::add_to_linker::<T, WasiHttp>(linker, |t| t.imports().http())?;
    let options = http_bindings::types::LinkOptions::default();
    http_bindings::types::add_to_linker::<T, WasiHttp>(linker, &options, |t| t.imports().http())?;
    http::link(linker)?;
    io_bindings::error::add_to_linker::<T, TableData>(linker, |t| &mut t.imports().table)?;
    io_bindings::poll::add_to_linker::<T, TableData>(linker, |t| &mut t.imports().table)?;
    io_bindings::streams::add_to_linker::<T, TableData>(linker, |t| &mut t.imports().table)?;
    random::insecure::add_to_linker::<T, WasiRandom>(linker, |t| t.imports().random())?;
    random::insecure_seed::add_to_linker::<T, WasiRandom>(linker, |t| t.imports().random())?;
    random::random::add_to_linker::<T, WasiRandom>(linker, |t| t.imports().random())?;
    sockets::link(linker)?;
    Ok(())
}

/// The names of the interfaces that [`link`] links, without the version `0.2`.
const LINKED: [&str; 29] = [
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
    "wasi:http/outgoing-handler",
    "wasi:http/types",
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

/// Returns whether an import is linked. Its name includes the version.
pub(crate) fn is_linked(import: &str) -> bool {
    let (name, version) = import.split_once('@').unwrap_or((import, ""));
    LINKED.contains(&name) && version.starts_with("0.2.")
}

impl HasData for ImportState {
    type Data<'a> = &'a mut ImportState;
}

/// The part of the state that `wasi:io` uses: the table of resources.
struct TableData;

impl HasData for TableData {
    type Data<'a> = &'a mut ResourceTable;
}
