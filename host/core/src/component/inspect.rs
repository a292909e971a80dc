//! Looking at a component before it is trusted: what it is, what it defines,
//! what it asks for, and what it would be refused for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use wasmtime::component::Component;

use crate::component::cache::Cache;
use crate::component::compile::{self, Compiler};
use crate::component::{Loader, digest, read};
use crate::sandbox::engine::Clocked;
use crate::sandbox::versions;
use crate::sandbox::{Sandbox, is_granted};
use crate::tool::Definition;
use crate::tool::arguments::Schema;
use crate::tool::limits::{Limits, Load};

/// What is known of a component.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Inspection {
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// Bytes of the file.
    pub size: usize,
    /// The interface that it exports and is called by, with the version that it
    /// was built with. None: its functions have types of their own, or it
    /// exports no tools.
    pub interface: Option<String>,
    /// What it imports, in its order.
    pub imports: Vec<Import>,
    /// Bytes of memory and elements of tables that it starts with.
    pub start: Option<Start>,
    /// The tools that it defines, or why it would not be loaded.
    pub tools: Result<Vec<Definition>, String>,
}

/// An interface that a component imports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Import {
    /// Its name, with the version.
    pub name: String,
    /// Whether a tool is given it. One that is not refuses the component.
    pub granted: bool,
}

/// Bytes of a page of linear memory.
const WASM_PAGE: u64 = 64 << 10;

/// What a component has when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Start {
    /// Linear memories.
    pub memories: u32,
    /// Bytes of the largest of them.
    pub largest_memory: Option<u64>,
    /// Tables.
    pub tables: u32,
    /// Elements of the largest of them.
    pub largest_table: Option<u64>,
}

/// A component that is to be looked at.
#[derive(Debug)]
pub struct Inspect {
    component: PathBuf,
    cache: Option<PathBuf>,
    compiler: Option<PathBuf>,
    compile_time: Option<Duration>,
}

impl Inspect {
    /// A look at the component in this file.
    pub fn of(component: impl Into<PathBuf>) -> Self {
        Self {
            component: component.into(),
            cache: None,
            compiler: None,
            compile_time: None,
        }
    }

    /// As [`HostBuilder::cache`](crate::HostBuilder::cache).
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// As [`HostBuilder::compiler`](crate::HostBuilder::compiler).
    pub fn compiler(mut self, program: impl Into<PathBuf>) -> Self {
        self.compiler = Some(program.into());
        self
    }

    /// As [`HostBuilder::compile_time`](crate::HostBuilder::compile_time).
    pub fn compile_time(mut self, time: Duration) -> Self {
        self.compile_time = Some(time);
        self
    }

    /// Looks at it. The error says why there is nothing to look at: no such
    /// file, or no component. Its definitions are asked for in a sandbox with
    /// no folder.
    pub async fn run(self) -> anyhow::Result<Inspection> {
        let bytes = read(&self.component)?;
        let limits = Limits::default();
        let cache = self.cache.as_deref().and_then(|folder| {
            Cache::open(folder)
                .inspect_err(|error| tracing::warn!("{error:#}"))
                .ok()
        });
        let loader = Loader {
            engine: Clocked::new(&Load::default(), limits.memory, true)?,
            cache,
            limits,
            compiler: Compiler {
                program: self.compiler,
                time: self.compile_time.unwrap_or(compile::DEFAULT_TIME),
            },
            progress: None,
        };
        let digest = digest(&bytes);
        let origin = self.component.display().to_string();
        let component = loader
            .compiled(&origin, &bytes, &digest)
            .with_context(|| format!("`{origin}` is no component"))?;
        look(&loader, &component, &bytes, digest).await
    }
}

/// Looks at a component, which is compiled in this process or by the program
/// that is named.
pub async fn inspect(path: &Path, compiler: Option<&Path>) -> anyhow::Result<Inspection> {
    let mut inspect = Inspect::of(path);
    inspect.compiler = compiler.map(Path::to_owned);
    inspect.run().await
}

async fn look(
    loader: &Loader,
    component: &Component,
    bytes: &[u8],
    digest: String,
) -> anyhow::Result<Inspection> {
    let engine = &loader.engine;
    let kind = component.component_type();
    let imports = kind.imports(&engine.engine).map(|(name, import)| Import {
        granted: is_granted(&engine.engine, name, &import.ty),
        name: name.to_owned(),
    });
    let start = component.resources_required().map(|required| Start {
        memories: required.num_memories,
        largest_memory: required
            .max_initial_memory_size
            .map(|pages| pages * WASM_PAGE),
        tables: required.num_tables,
        largest_table: required.max_initial_table_size,
    });
    Ok(Inspection {
        digest,
        size: bytes.len(),
        interface: versions::called(component, &engine.engine),
        imports: imports.collect(),
        start,
        tools: tools(engine.clone(), component, bytes, &loader.limits)
            .await
            .map_err(|error| format!("{error:#}")),
    })
}

async fn tools(
    engine: Clocked,
    component: &Component,
    bytes: &[u8],
    limits: &Limits,
) -> anyhow::Result<Vec<Definition>> {
    let sandbox = Sandbox::new(engine, component)?;
    let definitions = crate::component::definitions(&sandbox, "inspect", bytes, limits).await?;
    // As it is when it is loaded to be called.
    for definition in &definitions {
        Schema::new(&definition.input_schema)
            .with_context(|| format!("in its tool `{}`", definition.name))?;
    }
    Ok(definitions)
}
