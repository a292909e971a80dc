//! Compiling a stranger's component in a process of its own; see `child`.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use wasmtime::component::Component;

use crate::component::child::{ChildProcess, limit_this_process};
use crate::component::file::MAX_COMPONENT;
use crate::component::functions::{self, FunctionStore};
use crate::engine::{self, BoundsChecks, EpochEngine};
use crate::typed;

/// The argument that starts the program as a compiling process.
pub const COMPILE_ARGUMENT: &str = "--compile-component";

/// The largest compiled component that is taken from the process.
const MAX_COMPILED: u64 = 512 << 20;

/// Set in the environment of the compiling process to ask for code with
/// explicit checks of bounds.
pub const EXPLICIT_CHECKS: &str = "SKILLHOST_CHECKED_CODE";

/// Names the file of compiled functions in the environment of the compiling process.
const FUNCTIONS: &str = "SKILLHOST_COMPILED_FUNCTIONS";

/// A callback that receives the name of a component around its compilation.
pub type ProgressCallback = dyn Fn(&str, Compilation) + Send + Sync;

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
pub struct Compiler {
    /// The program to start. `None` compiles in this process.
    pub program: Option<PathBuf>,
    /// The longest time that a compilation may take.
    pub time: Duration,
    /// The file with the functions of a project's builds.
    pub functions: Option<PathBuf>,
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
        let explicit = *bounds_checks == BoundsChecks::Explicit;
        let explicit = explicit.then_some((EXPLICIT_CHECKS, OsStr::new("1")));
        let functions = self.functions.iter();
        let functions = functions.map(|file| (FUNCTIONS, file.as_os_str()));
        let compiled = ChildProcess {
            program,
            argument: COMPILE_ARGUMENT,
            environment: explicit.into_iter().chain(functions).collect(),
            purpose: "compiling",
            time: self.time,
            max_output: MAX_COMPILED,
        }
        .run(bytes)?;
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
}

/// Runs the compiling process: reads a component from stdin and writes it
/// compiled to stdout. The error says why the component does not compile.
pub fn compile_component() -> anyhow::Result<()> {
    compile_component_confined(|| Ok(()))
}

/// Does the same. `confine` is called before a byte of the component is read, unless this
/// process keeps compiled functions in a file.
pub fn compile_component_confined(
    confine: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let functions = std::env::var_os(FUNCTIONS);
    // Only a build, which has run the project's code already, lets this process write.
    let largest_file = functions.as_ref().map_or(0, |_| functions::MAX_BYTES);
    limit_this_process(largest_file).context("cannot limit the compiling process")?;
    if functions.is_none() {
        confine()?;
    }
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
