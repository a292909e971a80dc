//! Compiling a stranger's component in a process of its own: a component that
//! keeps the compiler busy without end, or takes all memory, costs that process
//! and nothing else.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Resource, Rlimit, Signal};
use wasmtime::component::Component;

use crate::component::file::MAX_COMPONENT;
use crate::component::functions::{self, FunctionStore};
use crate::sandbox::engine::{self, BoundsChecks, EpochEngine};
use crate::sandbox::typed;

/// The argument that starts the program as a compiling process.
pub const COMPILE_ARGUMENT: &str = "--compile-component";

/// The address space of the compiling process. That honest component takes a
/// quarter of it.
const MEMORY: u64 = 8 << 30;

/// The largest compiled component that is taken from the process.
const MAX_COMPILED: u64 = 512 << 20;

/// Set in the environment of the compiling process to ask for code with
/// [`BoundsChecks::Explicit`].
const EXPLICIT_CHECKS: &str = "SKILLHOST_CHECKED_CODE";

/// Names the file of compiled functions in the environment of the compiling process.
const FUNCTIONS: &str = "SKILLHOST_COMPILED_FUNCTIONS";

/// A callback that receives the name of a component around its compilation.
pub(crate) type ProgressCallback = dyn Fn(&str, Compilation) + Send + Sync;

/// The progress of a component that has to be compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compilation {
    /// It is being compiled.
    Started,
    /// It is compiled, or cannot be.
    Ended,
}

/// Compiles strangers' components.
#[derive(Debug, Clone)]
pub(crate) struct Compiler {
    /// The program to start. `None` compiles in this process.
    pub(crate) program: Option<PathBuf>,
    /// The longest time that a compilation may take.
    pub(crate) time: Duration,
    /// The file with the functions of a project's builds.
    pub(crate) functions: Option<PathBuf>,
}

impl Compiler {
    /// Compiles a component for an engine.
    pub(crate) fn compile(&self, engine: &EpochEngine, bytes: &[u8]) -> anyhow::Result<Component> {
        let EpochEngine {
            engine,
            bounds_checks,
            ..
        } = engine;
        let Some(program) = &self.program else {
            return Component::from_binary(engine, bytes).map_err(|error| explain(error, bytes));
        };
        let compiled = self.run(program, bytes, *bounds_checks)?;
        #[allow(
            unsafe_code,
            reason = "the bytes come from our own compiler, run on this component a moment ago"
        )]
        // SAFETY: as above, over a pipe that nobody else has.
        let component = unsafe { Component::deserialize(engine, &compiled) };
        component
            .map_err(anyhow::Error::from)
            .context("the compiling process is of another version")
    }

    fn run(
        &self,
        program: &Path,
        bytes: &[u8],
        bounds_checks: BoundsChecks,
    ) -> anyhow::Result<Vec<u8>> {
        let explicit = bounds_checks == BoundsChecks::Explicit;
        let mut child = Command::new(program)
            .arg(COMPILE_ARGUMENT)
            .env_clear()
            .envs(explicit.then_some((EXPLICIT_CHECKS, "1")))
            .envs(self.functions.iter().map(|file| (FUNCTIONS, file)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}` to compile it", program.display()))?;
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        let watchdog = Watchdog::start(Arc::clone(&child), self.time);
        let (compiled, message) = thread::scope(|scope| {
            // A process that gave up does not read. Its exit status says why.
            scope.spawn(move || input.map(|mut input| input.write_all(bytes)));
            let message = scope.spawn(move || read_up_to(errors, 4096));
            let compiled = read_up_to(output, MAX_COMPILED);
            (compiled, message.join().unwrap_or_default())
        });
        if compiled.len() as u64 == MAX_COMPILED {
            kill(&child);
        }
        let status = wait(&child)?;
        if watchdog.stop() {
            bail!("compiling it took longer than {:?}", self.time);
        }
        check(status, &message)?;
        Ok(compiled)
    }
}

/// Kills a process after a time, unless it has ended before.
struct Watchdog {
    done: mpsc::Sender<()>,
    thread: thread::JoinHandle<bool>,
}

impl Watchdog {
    fn start(child: Arc<Mutex<Child>>, time: Duration) -> Self {
        let (done, wait) = mpsc::channel();
        let thread = thread::spawn(move || {
            let late = wait.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if late {
                kill(&child);
            }
            late
        });
        Self { done, thread }
    }

    /// Stops watching. Returns whether the process was killed.
    fn stop(self) -> bool {
        let _ = self.done.send(());
        self.thread.join().unwrap_or(true)
    }
}

/// Waits for a process that has closed its output. The lock is free meanwhile, so
/// that the watchdog can still kill it: a process can close its output and go on.
fn wait(child: &Mutex<Child>) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = lock(child).try_wait()? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn kill(child: &Mutex<Child>) {
    // An error means that the process has ended already.
    let _ = lock(child).kill();
}

fn lock(child: &Mutex<Child>) -> std::sync::MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(|broken| broken.into_inner())
}

fn read_up_to(from: Option<impl io::Read>, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // The exit status shows whether the bytes are whole.
        let _ = from.take(limit).read_to_end(&mut bytes);
    }
    bytes
}

fn check(status: ExitStatus, message: &[u8]) -> anyhow::Result<()> {
    match status.code() {
        Some(0) => Ok(()),
        Some(_) => bail!("{}", String::from_utf8_lossy(message).trim_end()),
        None => bail!("the compiling process exceeded its limits: {status}"),
    }
}

/// Runs the compiling process: reads a component from stdin and writes it
/// compiled to stdout. The error says why the component does not compile.
pub fn compile_component() -> anyhow::Result<()> {
    let functions = std::env::var_os(FUNCTIONS);
    limit_this_process(functions.is_some())?;
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .take(MAX_COMPONENT)
        .read_to_end(&mut bytes)?;
    let bounds_checks = match std::env::var_os(EXPLICIT_CHECKS) {
        Some(_) => BoundsChecks::Explicit,
        None => BoundsChecks::GuardPages,
    };
    let functions = functions.map(|file| Arc::new(FunctionStore::read(file.as_ref())));
    let engine = engine::for_compiling(bounds_checks, functions.clone())?;
    let compiled = engine.precompile_component(&bytes);
    let compiled = compiled.map_err(|error| explain(error, &bytes))?;
    io::stdout().lock().write_all(&compiled)?;
    if let Some(functions) = functions {
        // Costs the next build time, and nothing else.
        let _ = functions.write();
    }
    Ok(())
}

/// Names the function that the engine cannot run, if that is why a component does
/// not compile.
fn explain(error: wasmtime::Error, component: &[u8]) -> anyhow::Error {
    match typed::find_unsupported(component) {
        Some(reason) => anyhow::anyhow!(reason),
        None => error.into(),
    }
}

/// Limits this process before it reads a byte of the component. Only a build, which has
/// run the project's code already, lets it write.
fn limit_this_process(writes: bool) -> anyhow::Result<()> {
    let largest_file = if writes { functions::MAX_BYTES } else { 0 };
    let cannot = "cannot limit the compiling process";
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).context(cannot)?;
    for (resource, limit) in [
        (Resource::As, MEMORY),
        (Resource::Core, 0),
        (Resource::Fsize, largest_file),
    ] {
        // The limit that this process inherited may be lower already.
        let inherited = rustix::process::getrlimit(resource).maximum;
        let limit = Some(inherited.map_or(limit, |inherited| inherited.min(limit)));
        let limit = Rlimit {
            current: limit,
            maximum: limit,
        };
        rustix::process::setrlimit(resource, limit).context(cannot)?;
    }
    Ok(())
}
