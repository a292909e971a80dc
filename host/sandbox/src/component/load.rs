//! Loading a component: its compiled code and its definitions come from the
//! cache, or it is compiled, linked and asked for its tools. An error names the
//! component; the others still load.

use std::sync::Arc;

use anyhow::Context as _;
use wasmtime::component::Component;

use crate::call::Sandbox;
use crate::component::cache::{CodeKey, ComponentCache, DefinitionsKey};
use crate::component::compile::{Compilation, Compiler, ProgressCallback};
use crate::component::definitions;
use crate::component::file::check_header;
use crate::engine::EpochEngine;
use crate::tool::Definition;
use crate::tool::limits::Limits;

/// Loads components, for one engine and with one set of limits.
pub struct Loader {
    /// The engine that they run on.
    pub engine: EpochEngine,
    /// The cache of compiled code, if there is one.
    pub cache: Option<Arc<ComponentCache>>,
    /// The limits of a component that tells its definitions.
    pub limits: Limits,
    /// Compiles strangers' components. Built-in ones are compiled in this process.
    pub compiler: Compiler,
    /// Called around each compilation.
    pub progress: Option<Arc<ProgressCallback>>,
}

impl Loader {
    /// Returns a component's definitions if a host with these limits has loaded
    /// it before.
    pub fn cached_definitions(&self, digest: &str) -> Option<Vec<Definition>> {
        let cache = self.cache.as_ref()?;
        // Definitions without code are not used: the component is loaded as if
        // it were new.
        if !self.has_code(digest) {
            return None;
        }
        let key = DefinitionsKey::new(&self.engine, digest, &self.limits);
        definitions::json::read(&cache.definitions(&key)?)
            .inspect_err(|error| tracing::debug!("in the cache: {error:#}"))
            .ok()
    }

    /// Returns a stranger's component, from the cache or compiled now.
    pub fn load_code(&self, origin: &str, bytes: &[u8], digest: &str) -> anyhow::Result<Component> {
        match self.cached_code(digest) {
            Some(component) => Ok(component),
            None => self.compile(origin, bytes, digest, false),
        }
    }

    /// Links a stranger's component, asks for its tools, and caches their
    /// definitions.
    pub async fn load_definitions(
        &self,
        origin: &str,
        bytes: &[u8],
        component: &Component,
        digest: &str,
    ) -> anyhow::Result<(Sandbox, Vec<Definition>)> {
        let ask = async {
            let sandbox = Sandbox::new(self.engine.clone(), component)?;
            let definitions = definitions::ask(&sandbox, origin, bytes, &self.limits).await?;
            definitions::check_schemas(&definitions)?;
            anyhow::Ok((sandbox, definitions))
        };
        let (sandbox, definitions) = ask.await.with_context(|| cannot_load(origin))?;
        if let Some(cache) = &self.cache {
            let key = DefinitionsKey::new(&self.engine, digest, &self.limits);
            cache.put_definitions(&key, definitions::json::write(&definitions)?);
        }
        Ok((sandbox, definitions))
    }

    /// Checks whether what is compiled is kept.
    pub fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// Checks whether the cache has the compiled component.
    pub fn has_code(&self, digest: &str) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|cache| cache.has_code(&CodeKey::new(&self.engine, digest)))
    }

    /// Returns the compiled component if the cache has it.
    pub(super) fn cached_code(&self, digest: &str) -> Option<Component> {
        let key = CodeKey::new(&self.engine, digest);
        self.cache.as_ref()?.code(&self.engine, &key)
    }

    /// Compiles a component and caches its code.
    pub(super) fn compile(
        &self,
        origin: &str,
        bytes: &[u8],
        digest: &str,
        is_built_in: bool,
    ) -> anyhow::Result<Component> {
        let report = |compilation| {
            if let Some(progress) = &self.progress {
                progress(origin, compilation);
            }
        };
        report(Compilation::Started);
        // A client that starts its server again and again must not have each of them, and
        // of their successors, compile the same.
        let key = CodeKey::new(&self.engine, digest);
        let _lock = self.cache.as_ref().and_then(|cache| cache.lock(&key));
        let component = match self.cached_code(digest) {
            Some(component) => {
                report(Compilation::Ended);
                return Ok(component);
            }
            None if is_built_in => {
                Component::from_binary(&self.engine.engine, bytes).map_err(Into::into)
            }
            None => check_header(bytes).and_then(|()| self.compiler.compile(&self.engine, bytes)),
        };
        report(Compilation::Ended);
        let component = component?;
        if let Some(cache) = &self.cache {
            cache.put_code(&key, &component);
        }
        Ok(component)
    }
}

/// Returns the beginning of the operator's message about a component that does
/// not load.
pub fn cannot_load(origin: &str) -> String {
    format!("cannot load the tool component `{origin}`")
}
