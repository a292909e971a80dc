//! Loads components: takes compiled code and definitions from the cache, or compiles and
//! links the component and asks it for its tools. Errors name the component.

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
use skillhost_skills::broker::Opener;

/// A loader of components for one engine and one set of limits.
pub struct Loader {
    /// The engine.
    pub engine: EpochEngine,
    /// The cache of compiled code, if there is one.
    pub cache: Option<Arc<ComponentCache>>,
    /// The limits of a component while the host asks it for its definitions.
    pub limits: Limits,
    /// The compiler of third-party components. Built-in components are compiled in this
    /// process.
    pub compiler: Compiler,
    /// The callback that runs before and after each compilation.
    pub progress: Option<Arc<ProgressCallback>>,
    /// The opener of component files. Its broker starts the compiler.
    pub opener: Opener,
}

impl Loader {
    /// Returns a component's cached definitions, if a host with these limits has loaded it
    /// before.
    pub fn cached_definitions(&self, digest: &str) -> Option<Vec<Definition>> {
        let cache = self.cache.as_ref()?;
        // Definitions help only together with code. Without it, the host compiles the component
        // and asks it for its tools.
        if !self.has_code(digest) {
            return None;
        }
        let key = DefinitionsKey::new(&self.engine, digest, &self.limits);
        definitions::json::read(&cache.definitions(&key)?)
            .inspect_err(|error| tracing::debug!("cannot use cached definitions: {error:#}"))
            .ok()
    }

    /// Returns a third-party component from the cache, or compiles it.
    pub fn load_code(&self, origin: &str, bytes: &[u8], digest: &str) -> anyhow::Result<Component> {
        match self.cached_code(digest) {
            Some(component) => Ok(component),
            None => self.compile(origin, bytes, digest, false),
        }
    }

    /// Links a third-party component, asks for its tools, and caches their definitions.
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

    /// Returns whether there is a cache.
    pub fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// Returns whether the cache has the compiled component.
    pub fn has_code(&self, digest: &str) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|cache| cache.has_code(&CodeKey::new(&self.engine, digest)))
    }

    /// Returns the compiled component, if the cache has it.
    pub(super) fn cached_code(&self, digest: &str) -> Option<Component> {
        let key = CodeKey::new(&self.engine, digest);
        self.cache.as_ref()?.code(&self.engine, &key)
    }

    /// Compiles a component and caches its code, unless another process has just cached it.
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
        // Only one process compiles, even if a client restarts its server repeatedly.
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
            None => check_header(bytes)
                .and_then(|()| self.compiler.compile(&self.engine, bytes, &self.opener)),
        };
        report(Compilation::Ended);
        let component = component?;
        if let Some(cache) = &self.cache {
            cache.put_code(&key, &component);
        }
        Ok(component)
    }
}

/// Returns the start of the message for a component that does not load.
pub fn cannot_load(origin: &str) -> String {
    format!("cannot load the tool component `{origin}`")
}
