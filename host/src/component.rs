//! Loading a component: compiled or taken from the cache, linked, and asked
//! for its tools. What is wrong with it is a problem that names it, and the
//! others still load.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use crate::arguments::Schema;
use crate::cache::{Cache, Key};
use crate::compile::Compiler;
use crate::engine::Clocked;
use crate::guard::{Folder, HardLinks};
use crate::host::Progress;
use crate::limits::{self, Limits};
use crate::sandbox::{RawDefinition, RawForm, Sandbox};
use crate::tool::{Definition, FolderRule, Form, Stop};

/// Largest component that is read. Meets: a file that fills the memory before
/// anything is known of it. One made from Python has 18 MB.
pub(crate) const MAX_COMPONENT: u64 = 64 << 20;

/// A tool that can be called.
pub(crate) struct Tool {
    /// The definition's name.
    pub(crate) name: Arc<str>,
    pub(crate) definition: Definition,
    pub(crate) schema: Schema,
    pub(crate) sandbox: Arc<Sandbox>,
    /// The component it comes from, for the operator.
    pub(crate) origin: String,
    /// SHA-256 of that component, in hex.
    pub(crate) digest: String,
}

/// What is needed to load components.
pub(crate) struct Loader<'a> {
    pub(crate) engine: &'a Clocked,
    pub(crate) cache: Option<&'a Cache>,
    pub(crate) limits: &'a Limits,
    /// Compiles strangers' components; the host's own are compiled here.
    pub(crate) compiler: &'a Compiler,
    /// Is told what has to be compiled.
    pub(crate) progress: Option<&'a Progress>,
}

impl Loader<'_> {
    /// Loads one component. `origin` names it in messages.
    pub(crate) async fn load(
        &self,
        origin: &str,
        bytes: &[u8],
        own: bool,
    ) -> anyhow::Result<Vec<Tool>> {
        self.tools(origin, bytes, own)
            .await
            .with_context(|| format!("cannot load the tool component `{origin}`"))
    }

    async fn tools(&self, origin: &str, bytes: &[u8], own: bool) -> anyhow::Result<Vec<Tool>> {
        let digest = digest(bytes);
        let component = self.compile(origin, bytes, &digest, own)?;
        let sandbox = Arc::new(Sandbox::new(self.engine.clone(), &component)?);
        let definitions = definitions(&sandbox, origin, bytes, self.limits).await?;
        let tool = |definition: Definition| {
            let schema = Schema::new(&definition.input_schema);
            Ok(Tool {
                name: definition.name.as_str().into(),
                schema: schema.with_context(|| format!("in its tool `{}`", definition.name))?,
                definition,
                sandbox: Arc::clone(&sandbox),
                origin: origin.to_owned(),
                digest: digest.clone(),
            })
        };
        definitions.into_iter().map(tool).collect()
    }

    fn compile(
        &self,
        origin: &str,
        bytes: &[u8],
        digest: &str,
        own: bool,
    ) -> anyhow::Result<Component> {
        let engine = &self.engine.engine;
        let key = Key::new(engine, digest);
        if let Some(component) = self.cache.and_then(|cache| cache.get(engine, &key)) {
            return Ok(component);
        }
        if let Some(progress) = self.progress {
            progress(origin);
        }
        let component = if own {
            Component::from_binary(engine, bytes)?
        } else {
            self.compiler.compile(self.engine, bytes)?
        };
        if let Some(cache) = self.cache {
            cache.put(&key, &component);
        }
        Ok(component)
    }
}

/// Reads a component's file, if it is a regular one and not too large.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
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
    read().with_context(|| format!("cannot read the tool component `{}`", path.display()))
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
        definition(raw).with_context(|| format!("in its tool `{}`", name.escape_debug()))
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
                named.escape_debug()
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
