//! Looking at a component before it is trusted: what it is, what it defines,
//! what it asks for, and what it would be refused for.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use wasmtime::component::Component;

use crate::arguments::Schema;
use crate::compile::{self, Compiler};
use crate::component::{check_layer, digest, read};
use crate::engine::Clocked;
use crate::limits::{Limits, Load};
use crate::sandbox::{Sandbox, is_granted};
use crate::tool::Definition;

/// What is known of a component.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Inspection {
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// Bytes of the file.
    pub size: usize,
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

/// Looks at a component. The error says why there is nothing to look at: no
/// such file, or no component. Its definitions are asked for in a sandbox with
/// no folder.
/// `compiler` is as for [`HostBuilder::compiler`](crate::HostBuilder::compiler).
pub async fn inspect(path: &Path, compiler: Option<&Path>) -> anyhow::Result<Inspection> {
    inspect_within(path, compiler, compile::DEFAULT_TIME).await
}

/// Like [`inspect`], where compiling the component may take so long.
pub async fn inspect_within(
    path: &Path,
    compiler: Option<&Path>,
    time: Duration,
) -> anyhow::Result<Inspection> {
    let bytes = read(path)?;
    let limits = Limits::default();
    let engine = Clocked::new(&Load::default(), limits.memory, true)?;
    let compiler = Compiler {
        program: compiler.map(Path::to_owned),
        time,
    };
    let component = check_layer(&bytes)
        .and_then(|()| compiler.compile(&engine, &bytes))
        .with_context(|| format!("`{}` is no component", path.display()))?;
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
        digest: digest(&bytes),
        size: bytes.len(),
        imports: imports.collect(),
        start,
        tools: tools(engine.clone(), &component, &bytes, &limits)
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
