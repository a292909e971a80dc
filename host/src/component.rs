//! Loading a component: compiled or taken from the cache, linked, and asked
//! for its tools. What is wrong with it is a problem that names it, and the
//! others still load.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use crate::arguments::Schema;
use crate::cache::{Cache, Key};
use crate::engine::Clocked;
use crate::host::Progress;
use crate::limits::{self, Limits};
use crate::sandbox::{RawDefinition, RawForm, Sandbox};
use crate::tool::{Definition, FolderRule, Form};

/// A tool that can be called.
pub(crate) struct Tool {
    pub(crate) definition: Definition,
    pub(crate) schema: Schema,
    pub(crate) sandbox: Arc<Sandbox>,
    /// The component it comes from, for the operator.
    pub(crate) origin: String,
}

/// What is needed to load components.
pub(crate) struct Loader<'a> {
    pub(crate) engine: &'a Clocked,
    pub(crate) cache: Option<&'a Cache>,
    pub(crate) limits: &'a Limits,
    /// Is told what has to be compiled.
    pub(crate) progress: Option<&'a Progress>,
}

impl Loader<'_> {
    /// Loads one component. `origin` names it in messages.
    pub(crate) async fn load(&self, origin: &str, bytes: &[u8]) -> anyhow::Result<Vec<Tool>> {
        self.tools(origin, bytes)
            .await
            .with_context(|| format!("cannot load the tool component `{origin}`"))
    }

    async fn tools(&self, origin: &str, bytes: &[u8]) -> anyhow::Result<Vec<Tool>> {
        let component = self.compile(origin, bytes)?;
        let sandbox = Sandbox::new(self.engine.clone(), &component)?;
        let sandbox = Arc::new(sandbox);
        let definitions = sandbox
            .definitions(origin, self.limits)
            .await
            .map_err(|stop| {
                anyhow::anyhow!("it was stopped while it was asked for its tools: {stop:?}")
            })?;
        check_size(&definitions)?;
        definitions
            .into_iter()
            .map(|raw| {
                let name = raw.name.clone();
                let definition = definition(raw)
                    .with_context(|| format!("in its tool `{}`", name.escape_debug()))?;
                Ok(Tool {
                    schema: Schema::new(&definition)
                        .with_context(|| format!("in its tool `{name}`"))?,
                    definition,
                    sandbox: Arc::clone(&sandbox),
                    origin: origin.to_owned(),
                })
            })
            .collect()
    }

    fn compile(&self, origin: &str, bytes: &[u8]) -> anyhow::Result<Component> {
        let engine = &self.engine.engine;
        let key = Key::new(engine, &digest(bytes));
        if let Some(component) = self.cache.and_then(|cache| cache.get(engine, &key)) {
            return Ok(component);
        }
        if let Some(progress) = self.progress {
            progress(origin);
        }
        let component = Component::from_binary(engine, bytes)?;
        if let Some(cache) = self.cache {
            cache.put(&key, &component);
        }
        Ok(component)
    }
}

fn digest(bytes: &[u8]) -> String {
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
