//! Inspects a component before it is trusted: its imports, its tools, its initial memories and
//! tables, and the reason why a host would refuse it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use wasmtime::component::Component;

use crate::call::{Sandbox, is_granted};
use crate::component::cache::ComponentCache;
use crate::component::compile::{Compilation, Compiler, ProgressCallback};
use crate::component::metadata::ComponentMetadata;
use crate::component::needs::DeclaredNeeds;
use crate::component::{Loader, definitions, read};
use crate::engine::EpochEngine;
use crate::tool::Definition;
use crate::tool::limits::{CompileLimits, Limits, Load};
use crate::versions;
use skillhost_skills::broker::Opener;
use skillhost_skills::text::digest::sha256_hex;
use skillhost_skills::trust::Trust;

/// The result of inspecting a component.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Inspection {
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// The size of the file in bytes.
    pub size: usize,
    /// The exported interface with its version. `None` if its tools are typed functions, or
    /// if it exports no tools.
    pub interface: Option<String>,
    /// Its imports, in the component's order.
    pub imports: Vec<Import>,
    /// Its initial memories and tables.
    pub start: Option<StartSize>,
    /// Its metadata.
    pub metadata: ComponentMetadata,
    /// The requests and secrets that it asks for.
    pub needs: DeclaredNeeds,
    /// Its tools, or the reason why a host would refuse it.
    pub tools: Result<Vec<Definition>, String>,
}

impl Inspection {
    /// Returns the content of a file `NAME.tools.json` beside the component `NAME.wasm`. A
    /// host lists the tools in it while it compiles the component.
    ///
    /// # Errors
    ///
    /// Fails if a host would refuse the component.
    pub fn tools_file(&self) -> anyhow::Result<String> {
        let tools = self
            .tools
            .as_ref()
            .map_err(|why| anyhow::anyhow!("{why}"))?;
        Ok(definitions::json::write_tools_file(&self.digest, tools)?)
    }
}

/// An interface that a component imports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Import {
    /// The name with the version.
    pub name: String,
    /// True if the host offers the interface to tools. Otherwise the component is refused.
    pub granted: bool,
}

/// The size of a page of linear memory in bytes.
const WASM_PAGE: u64 = 64 << 10;

/// The initial memories and tables of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartSize {
    /// The number of linear memories.
    pub memories: u32,
    /// The size of the largest memory, in bytes.
    pub largest_memory: Option<u64>,
    /// The number of tables.
    pub tables: u32,
    /// The number of elements of the largest table.
    pub largest_table: Option<u64>,
}

/// A configurable inspection of a component file.
pub struct Inspector {
    component: PathBuf,
    cache: Option<PathBuf>,
    compiler: Option<PathBuf>,
    compile_time: Option<Duration>,
    functions: Option<PathBuf>,
    progress: Option<Arc<ProgressCallback>>,
}

impl Inspector {
    /// Creates an inspection of a component file.
    pub fn of(component: impl Into<PathBuf>) -> Self {
        Self {
            component: component.into(),
            cache: None,
            compiler: None,
            compile_time: None,
            functions: None,
            progress: None,
        }
    }

    /// Sets the cache folder, like `HostBuilder::cache`.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// Sets the compiling program, like `HostBuilder::compiler`.
    pub fn compiler(mut self, program: impl Into<PathBuf>) -> Self {
        self.compiler = Some(program.into());
        self
    }

    /// Limits the time of compilation, like `HostBuilder::compile_time`.
    pub fn compile_time(mut self, time: Duration) -> Self {
        self.compile_time = Some(time);
        self
    }

    /// Keeps compiled functions in a file, and reuses those of an earlier build. Other users
    /// must not be able to write the file. Needs a compiling program.
    pub fn functions(mut self, file: impl Into<PathBuf>) -> Self {
        self.functions = Some(file.into());
        self
    }

    /// Sets a callback that runs before and after the compilation, like
    /// `HostBuilder::progress`.
    pub fn progress(
        mut self,
        callback: impl Fn(&str, Compilation) + Send + Sync + 'static,
    ) -> Self {
        self.progress = Some(Arc::new(callback));
        self
    }

    /// Inspects the component, and asks it for its definitions in a sandbox without a
    /// folder. Fails if the file cannot be read or is not a component.
    pub async fn run(self) -> anyhow::Result<Inspection> {
        let bytes = read(&self.component, &Opener::DIRECT)?;
        let limits = Limits::default();
        let cache = self.cache.as_deref().and_then(|folder| {
            ComponentCache::open(folder, None, &Trust::new())
                .inspect_err(|error| tracing::warn!("{error:#}"))
                .ok()
                .map(Arc::new)
        });
        let loader = Loader {
            engine: EpochEngine::new(&Load::default(), limits.memory, true)?,
            cache,
            limits,
            compiler: Compiler {
                program: self.compiler,
                time: self
                    .compile_time
                    .unwrap_or(CompileLimits::default().compile_time),
                functions: self.functions,
            },
            progress: self.progress,
            opener: Opener::DIRECT,
        };
        let digest = sha256_hex(&bytes);
        let origin = self.component.display().to_string();
        let component = loader
            .load_code(&origin, &bytes, &digest)
            .with_context(|| format!("`{origin}` is not a component"))?;
        inspect_loaded(&loader, &component, &bytes, digest).await
    }
}

/// Inspects a component file. `compiler` is the program that compiles it; `None`
/// compiles it in this process.
pub async fn inspect(path: &Path, compiler: Option<&Path>) -> anyhow::Result<Inspection> {
    let mut inspector = Inspector::of(path);
    inspector.compiler = compiler.map(Path::to_owned);
    inspector.run().await
}

async fn inspect_loaded(
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
    let start = component.resources_required().map(|required| StartSize {
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
        interface: versions::tools_interface(component, &engine.engine),
        imports: imports.collect(),
        start,
        metadata: ComponentMetadata::read(bytes),
        needs: DeclaredNeeds::read(bytes),
        tools: tools(engine.clone(), component, bytes, &loader.limits)
            .await
            .map_err(|error| format!("{error:#}")),
    })
}

async fn tools(
    engine: EpochEngine,
    component: &Component,
    bytes: &[u8],
    limits: &Limits,
) -> anyhow::Result<Vec<Definition>> {
    let sandbox = Sandbox::new(engine, component)?;
    let definitions = definitions::ask(&sandbox, "inspect", bytes, limits).await?;
    // A host makes the same checks when it loads a component.
    definitions::check_schemas(&definitions)?;
    Ok(definitions)
}
