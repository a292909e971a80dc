//! Compiles third-party components in a child process (see `child`).

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use skillhost_helper::answer_stdin;
use skillhost_skills::broker::Opener;
use wasmtime::component::Component;

use crate::component::child::{ChildProcess, limit_this_process};
use crate::component::file::MAX_COMPONENT;
use crate::component::functions::{self, FunctionStore};
use crate::engine::{self, BoundsChecks, EpochEngine};
use crate::typed;
use crate::wasi::newer;

/// The argument that starts the program as a compiler process.
pub const COMPILE_ARGUMENT: &str = "--compile-component";

/// The maximum size of a compiled component, in bytes.
const MAX_COMPILED: usize = 512 << 20;

/// The environment variable that makes the compiler process add explicit bounds checks to
/// code.
pub const EXPLICIT_CHECKS: &str = "SKILLHOST_CHECKED_CODE";

/// The environment variable that names the file of compiled functions for the compiler
/// process.
const FUNCTIONS: &str = "SKILLHOST_COMPILED_FUNCTIONS";

/// A callback that runs before and after each compilation. It receives the component's name.
pub type ProgressCallback = dyn Fn(&str, Compilation) + Send + Sync;

/// The progress of a compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compilation {
    /// The compilation has started.
    Started,
    /// The compilation has succeeded or failed.
    Ended,
}

/// The compiler of third-party components.
#[derive(Debug, Clone)]
pub struct Compiler {
    /// The program to start. `None` compiles in this process.
    pub program: Option<PathBuf>,
    /// The time limit of a compilation.
    pub time: Duration,
    /// The file of compiled functions from earlier builds of a project.
    pub functions: Option<PathBuf>,
}

impl Compiler {
    /// Compiles a component for an engine.
    pub(crate) fn compile(
        &self,
        engine: &EpochEngine,
        bytes: &[u8],
        opener: &Opener,
    ) -> anyhow::Result<Component> {
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
            name: "the compiling process",
            time: self.time,
            max_answer: MAX_COMPILED,
            opener,
        }
        .run(bytes)?;
        #[allow(
            unsafe_code,
            reason = "the bytes come from our own compiler, run on this component a moment ago"
        )]
        // SAFETY: as above, through a pipe that no other process has.
        let component = unsafe { Component::deserialize(engine, &compiled) };
        component
            .map_err(anyhow::Error::from)
            .context("the compiling process runs another version of skillhost")
    }
}

/// Runs the compiler process.
///
/// Reads components from stdin. Writes each compiled component to stdout, or the reason why
/// it does not compile.
pub fn compile_component() -> anyhow::Result<()> {
    compile_component_confined(|| Ok(()))
}

/// Runs the compiler process like [`compile_component`], and calls `confine` before it
/// reads a component. Does not call `confine` if the process keeps compiled functions in a file.
pub fn compile_component_confined(
    confine: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let functions = std::env::var_os(FUNCTIONS);
    // Only `skillhost build`, which has already run the project's code, lets this process write
    // a file.
    let largest_file = functions.as_ref().map_or(0, |_| functions::MAX_BYTES);
    limit_this_process(largest_file).context("cannot limit the compiling process")?;
    if functions.is_none() {
        confine()?;
    }
    let bounds_checks = match std::env::var_os(EXPLICIT_CHECKS) {
        Some(_) => BoundsChecks::Explicit,
        None => BoundsChecks::GuardPages,
    };
    let functions = functions.map(|file| Arc::new(FunctionStore::read(file.as_ref())));
    let engine = engine::for_compiling(bounds_checks, functions.clone())?;
    let compile = |bytes: Vec<u8>| {
        let compiled = engine.precompile_component(&bytes);
        let compiled = compiled.map_err(|error| explain(error, &bytes))?;
        if let Some(functions) = &functions {
            // A failure only costs time in the next build.
            let _ = functions.write();
        }
        Ok(compiled)
    };
    answer_stdin(MAX_COMPONENT as usize, compile)
}

/// Returns the reason why a component does not compile: a newer WASI, an unsupported function, or
/// the compiler's error.
fn explain(error: wasmtime::Error, component: &[u8]) -> anyhow::Error {
    if newer::has_import(component) {
        return anyhow::anyhow!(newer::REASON);
    }
    match typed::find_unsupported(component) {
        Some(reason) => anyhow::anyhow!(reason),
        None if newer::is_async(component) => anyhow::anyhow!(newer::REASON),
        None => error.into(),
    }
}
