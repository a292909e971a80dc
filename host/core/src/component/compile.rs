//! Compiling a stranger's component, in a process of its own: a component that
//! is made to take the compiler for ever, or all of the memory, costs that
//! process and nothing else.

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

use crate::component::MAX_COMPONENT;
use crate::sandbox::engine::{self, Clocked, Code};
use crate::sandbox::typed;

/// The argument with which the program is started to compile.
pub const COMPILE_ARGUMENT: &str = "--compile-component";

/// Default of [`Compiler::time`]. An honest component made from Python takes
/// 6 seconds on two cores.
pub(crate) const DEFAULT_TIME: Duration = Duration::from_secs(60);

/// Address space of the compiling process. That honest component takes a
/// quarter of it.
const MEMORY: u64 = 8 << 30;

/// Largest compiled component that is taken from the process.
const MAX_COMPILED: u64 = 512 << 20;

/// Set for the compiling process when it is to make [`Code::Checked`].
const CHECKED: &str = "SKILLHOST_CHECKED_CODE";

/// How components are compiled.
#[derive(Debug, Clone)]
pub(crate) struct Compiler {
    /// The program to start; none compiles in this process.
    pub(crate) program: Option<PathBuf>,
    /// Longest that a compilation may take.
    pub(crate) time: Duration,
}

impl Compiler {
    /// Compiles a component for an engine.
    pub(crate) fn compile(&self, engine: &Clocked, bytes: &[u8]) -> anyhow::Result<Component> {
        let Clocked { engine, code, .. } = engine;
        let Some(program) = &self.program else {
            return Component::from_binary(engine, bytes).map_err(|error| explained(error, bytes));
        };
        let compiled = self.run(program, bytes, *code)?;
        #[allow(
            unsafe_code,
            reason = "the bytes come from our own compiler, run on this component a moment ago"
        )]
        // SAFETY: as above, over a pipe that nobody else has.
        let component = unsafe { Component::deserialize(engine, &compiled) };
        component
            .map_err(anyhow::Error::from)
            .context("what the compiling process made is of another version")
    }

    fn run(&self, program: &Path, bytes: &[u8], code: Code) -> anyhow::Result<Vec<u8>> {
        let mut child = Command::new(program)
            .arg(COMPILE_ARGUMENT)
            .env_clear()
            .envs((code == Code::Checked).then_some((CHECKED, "1")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}` to compile it", program.display()))?;
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        let watch = Watch::start(Arc::clone(&child), self.time);
        let (compiled, message) = thread::scope(|scope| {
            // A process that gave up does not read: that is its answer.
            scope.spawn(move || input.map(|mut input| input.write_all(bytes)));
            let message = scope.spawn(move || read_up_to(errors, 4096));
            let compiled = read_up_to(output, MAX_COMPILED);
            (compiled, message.join().unwrap_or_default())
        });
        if compiled.len() as u64 == MAX_COMPILED {
            kill(&child);
        }
        let status = ended(&child)?;
        if watch.ended() {
            bail!("compiling it took longer than {:?}", self.time);
        }
        check(status, &message)?;
        Ok(compiled)
    }
}

/// Ends a process after a time, unless it has ended before.
struct Watch {
    done: mpsc::Sender<()>,
    thread: thread::JoinHandle<bool>,
}

impl Watch {
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

    /// Stops watching, and says whether the process had to be ended.
    fn ended(self) -> bool {
        let _ = self.done.send(());
        self.thread.join().unwrap_or(true)
    }
}

/// Waits for a process that has closed its output. It is not held meanwhile,
/// so that it can still be ended: closing an output is not ending.
fn ended(child: &Mutex<Child>) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = lock(child).try_wait()? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn kill(child: &Mutex<Child>) {
    // Fails for a process that has ended, which is what is wanted.
    let _ = lock(child).kill();
}

fn lock(child: &Mutex<Child>) -> std::sync::MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(|broken| broken.into_inner())
}

fn read_up_to(from: Option<impl io::Read>, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // What was read before an error shows in the exit status.
        let _ = from.take(limit).read_to_end(&mut bytes);
    }
    bytes
}

fn check(status: ExitStatus, message: &[u8]) -> anyhow::Result<()> {
    match status.code() {
        Some(0) => Ok(()),
        Some(_) => bail!("{}", String::from_utf8_lossy(message).trim_end()),
        None => bail!("compiling it took more than it is allowed: {status}"),
    }
}

/// What the compiling process does: reads a component from stdin, writes it
/// compiled to stdout. The error says what is wrong with the component.
pub fn compile_component() -> anyhow::Result<()> {
    limit_this_process()?;
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .take(MAX_COMPONENT)
        .read_to_end(&mut bytes)?;
    let code = match std::env::var_os(CHECKED) {
        Some(_) => Code::Checked,
        None => Code::Reserved,
    };
    let compiled = engine::compiling(code)?.precompile_component(&bytes);
    let compiled = compiled.map_err(|error| explained(error, &bytes))?;
    io::stdout().lock().write_all(&compiled)?;
    Ok(())
}

/// Why a component does not compile: its function that this engine cannot run,
/// where that is why.
fn explained(error: wasmtime::Error, component: &[u8]) -> anyhow::Error {
    match typed::explain(component) {
        Some(why) => anyhow::anyhow!(why),
        None => error.into(),
    }
}

/// Bounds what this process can take, before it reads a byte of the component.
fn limit_this_process() -> anyhow::Result<()> {
    let cannot = "cannot limit the compiling process";
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).context(cannot)?;
    for (resource, limit) in [
        (Resource::As, MEMORY),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ] {
        // What this process was given may be less already.
        let given = rustix::process::getrlimit(resource).maximum;
        let limit = Some(given.map_or(limit, |given| given.min(limit)));
        let limit = Rlimit {
            current: limit,
            maximum: limit,
        };
        rustix::process::setrlimit(resource, limit).context(cannot)?;
    }
    Ok(())
}
