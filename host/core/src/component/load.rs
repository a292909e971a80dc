//! Loading a component: its tools are known from before, or it is compiled or
//! taken from the cache, linked, and asked for them. What is wrong with it is a
//! problem that names it, and the others still load.

mod kept;
mod runnable;

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, bail};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use crate::component::cache::{Cache, DefinitionsKey, Key};
use crate::component::compile::Compiler;
use crate::host::{Compilation, Progress};
use crate::sandbox::engine::Clocked;
use crate::sandbox::{RawDefinition, RawForm, Sandbox};
use crate::skill::guard::{Folder, HardLinks};
use crate::text::line::Line;
use crate::tool::arguments::Schema;
use crate::tool::limits::{self, Limits};
use crate::tool::{Definition, FolderRule, Form, Stop};

pub(crate) use kept::read as read_definitions;
#[cfg(test)]
pub(crate) use kept::write as write_definitions;
pub(crate) use runnable::{Runnable, Source};

/// Largest component that is read. Meets: a file that fills the memory before
/// anything is known of it. One made from Python has 18 MB.
pub(crate) const MAX_COMPONENT: u64 = 64 << 20;

/// A tool that can be called.
pub(crate) struct Tool {
    /// The definition's name.
    pub(crate) name: Arc<str>,
    pub(crate) definition: Definition,
    schema: OnceLock<Result<Schema, String>>,
    /// The component it comes from.
    pub(crate) component: Arc<Runnable>,
}

impl Tool {
    /// A tool whose definition was checked, if not in this process.
    pub(crate) fn new(definition: Definition, component: &Arc<Runnable>) -> Self {
        Self {
            name: definition.name.as_str().into(),
            definition,
            schema: OnceLock::new(),
            component: Arc::clone(component),
        }
    }

    /// What checks its arguments.
    pub(crate) fn schema(&self) -> Result<&Schema, Stop> {
        let schema = self.schema.get_or_init(|| {
            Schema::checked(&self.definition.input_schema).map_err(|error| format!("{error:#}"))
        });
        schema.as_ref().map_err(|error| Stop::Trap(error.clone()))
    }
}

/// What is needed to load components.
pub(crate) struct Loader {
    pub(crate) engine: Clocked,
    pub(crate) cache: Option<Cache>,
    pub(crate) limits: Limits,
    /// Compiles strangers' components; the host's own are compiled here.
    pub(crate) compiler: Compiler,
    /// Is told what has to be compiled.
    pub(crate) progress: Option<Arc<Progress>>,
}

impl Loader {
    /// What a component's tools are, if a host with these limits has loaded it
    /// before.
    pub(crate) fn known(&self, digest: &str) -> Option<Vec<Definition>> {
        let cache = self.cache.as_ref()?;
        // Without its code, it is loaded as if it were seen for the first time.
        if !self.has_code(digest) {
            return None;
        }
        let key = DefinitionsKey::new(&self.engine, digest, &self.limits);
        kept::read(&cache.definitions(&key)?)
            .inspect_err(|error| tracing::debug!("in the cache: {error:#}"))
            .ok()
    }

    /// A component, compiled: from the cache, or now.
    pub(crate) fn compiled(
        &self,
        origin: &str,
        bytes: &[u8],
        digest: &str,
    ) -> anyhow::Result<Component> {
        match self.cached(digest) {
            Some(component) => Ok(component),
            None => self.compile(origin, bytes, digest, false),
        }
    }

    /// Links a stranger's component and asks for its tools, which nobody has
    /// seen yet.
    pub(crate) async fn ask(
        &self,
        origin: &str,
        bytes: &[u8],
        component: &Component,
        digest: &str,
    ) -> anyhow::Result<(Sandbox, Vec<Definition>)> {
        let ask = async {
            let sandbox = Sandbox::new(self.engine.clone(), component)?;
            let definitions = definitions(&sandbox, origin, bytes, &self.limits).await?;
            for definition in &definitions {
                Schema::new(&definition.input_schema)
                    .with_context(|| format!("in its tool `{}`", definition.name))?;
            }
            anyhow::Ok((sandbox, definitions))
        };
        let (sandbox, definitions) = ask.await.with_context(|| cannot_load(origin))?;
        if let Some(cache) = &self.cache {
            let key = DefinitionsKey::new(&self.engine, digest, &self.limits);
            cache.put_definitions(&key, kept::write(&definitions)?);
        }
        Ok((sandbox, definitions))
    }

    /// Whether the cache has the compiled component.
    fn has_code(&self, digest: &str) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|cache| cache.has_code(&Key::new(&self.engine, digest)))
    }

    /// The compiled component, if it is in the cache.
    fn cached(&self, digest: &str) -> Option<Component> {
        let key = Key::new(&self.engine, digest);
        self.cache.as_ref()?.code(&self.engine, &key)
    }

    /// Compiles a component, and keeps it.
    fn compile(
        &self,
        origin: &str,
        bytes: &[u8],
        digest: &str,
        own: bool,
    ) -> anyhow::Result<Component> {
        let tell = |what| {
            if let Some(progress) = &self.progress {
                progress(origin, what);
            }
        };
        tell(Compilation::Started);
        let component = match own {
            true => Component::from_binary(&self.engine.engine, bytes).map_err(Into::into),
            false => check_layer(bytes).and_then(|()| self.compiler.compile(&self.engine, bytes)),
        };
        tell(Compilation::Ended);
        let component = component?;
        if let Some(cache) = &self.cache {
            cache.put_code(&Key::new(&self.engine, digest), &component);
        }
        Ok(component)
    }
}

/// What the operator is told of a component that is not loaded.
pub(crate) fn cannot_load(origin: &str) -> String {
    format!("cannot load the tool component `{origin}`")
}

/// Reads a component's file, if it is a regular one and not too large.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let read = || -> anyhow::Result<Vec<u8>> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
        // How many names it has is the operator's affair.
        let folder = Folder::new(folder.into_std_file().into(), HardLinks::Allowed)?;
        let file = folder.open_file(Path::new(path.file_name().unwrap_or_default()))?;
        if file.metadata()?.len() > MAX_COMPONENT {
            bail!("it is larger than {MAX_COMPONENT} bytes");
        }
        let mut bytes = Vec::new();
        file.take(MAX_COMPONENT).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read()
        .map_err(|error| {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            match kind {
                Some(io::ErrorKind::NotFound) => anyhow::anyhow!(
                    "there is no such file; `skillhost build` makes one of a tool project"
                ),
                Some(io::ErrorKind::PermissionDenied) if path.is_symlink() => {
                    anyhow::anyhow!(
                        "it is a symlink that leads out of its folder: put the file there"
                    )
                }
                Some(io::ErrorKind::IsADirectory) => {
                    anyhow::anyhow!("it is a folder: name the `.wasm` file in it")
                }
                _ => error,
            }
        })
        .with_context(|| format!("cannot read the tool component `{}`", path.display()))
}

/// Refuses what is no component by its first bytes, in words that say what is
/// missing: a compiler's core module looks like one, and is none until it is
/// wrapped.
pub(crate) fn check_layer(bytes: &[u8]) -> anyhow::Result<()> {
    if !bytes.starts_with(b"\0asm") {
        bail!(
            "it is no WebAssembly, which begins with the bytes `\\0asm`; `skillhost build` makes a \
             component of a tool project"
        );
    }
    if bytes.starts_with(b"\0asm\x01\0\0\0") {
        bail!(
            "it is a core module, and a tool is a component: build it for `wasm32-wasip2`, or with \
             `skillhost build`, which makes one of it"
        );
    }
    Ok(())
}

/// Asks a component for its tools, and checks what it says of them.
pub(crate) async fn definitions(
    sandbox: &Sandbox,
    origin: &str,
    bytes: &[u8],
    limits: &Limits,
) -> anyhow::Result<Vec<Definition>> {
    let asked = sandbox.definitions(origin, bytes, limits).await;
    let asked = asked.map_err(|stop| match stop {
        Stop::Trap(causes) => anyhow::anyhow!("asked for its tools, it broke off: {causes}"),
        stop => anyhow::anyhow!("asked for its tools, it was stopped: {stop}"),
    })?;
    check_size(&asked.definitions)?;
    let definition = |raw: RawDefinition| {
        let name = raw.name.clone();
        definition(raw).with_context(|| format!("in its tool `{}`", Line::new(name)))
    };
    let definitions = asked.definitions.into_iter().map(definition);
    let definitions = definitions.collect::<anyhow::Result<_>>()?;
    asked.callable.map_err(anyhow::Error::from)?;
    Ok(definitions)
}

/// SHA-256, in hex.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn check_size(definitions: &[RawDefinition]) -> anyhow::Result<()> {
    if definitions.len() > limits::DEFINITIONS {
        bail!(
            "it defines {} tools, more than {}",
            definitions.len(),
            limits::DEFINITIONS
        );
    }
    let bytes: usize = definitions
        .iter()
        .map(|raw| {
            raw.name.len()
                + raw.title.len()
                + raw.description.len()
                + raw.input_schema.len()
                + raw.output_schema.as_ref().map_or(0, String::len)
        })
        .sum();
    if bytes > limits::DEFINITIONS_BYTES {
        bail!(
            "its definitions are larger than {} bytes",
            limits::DEFINITIONS_BYTES
        );
    }
    Ok(())
}

/// A definition, checked: it comes from a guest.
fn definition(raw: RawDefinition) -> anyhow::Result<Definition> {
    if !is_tool_name(&raw.name) {
        bail!("a tool's name is 1 to 64 letters, digits, `_` or `-`");
    }
    let input_schema = object(&raw.input_schema).context("its input schema")?;
    let properties = input_schema.get("properties").and_then(Value::as_object);
    let folder = raw.folder.map(|rule| FolderRule {
        skill_property: rule.skill_property,
        enumerate: rule.enumerate,
        path_property: rule.path_property,
        skill_optional: rule.skill_optional,
    });
    for named in folder
        .iter()
        .flat_map(|rule| std::iter::once(&rule.skill_property).chain(&rule.path_property))
    {
        if !properties.is_some_and(|properties| properties.contains_key(named)) {
            bail!(
                "its schema has no property `{}`, which it says names a folder",
                Line::new(named)
            );
        }
    }
    Ok(Definition {
        title: if raw.title.is_empty() {
            raw.name.clone()
        } else {
            raw.title
        },
        name: raw.name,
        description: raw.description,
        output_schema: raw
            .output_schema
            .map(|schema| object(&schema).context("its output schema"))
            .transpose()?,
        input_schema,
        folder,
        text_property: raw.text_property,
        model_reads: match raw.model_reads {
            RawForm::Text => Form::Text,
            RawForm::Details => Form::Record,
        },
    })
}

fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn object(json: &str) -> anyhow::Result<Map<String, Value>> {
    match serde_json::from_str(json) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => bail!("it is not a JSON object"),
        Err(error) => Err(error).context("it is not JSON"),
    }
}
