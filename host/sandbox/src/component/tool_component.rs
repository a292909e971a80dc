//! A tool component. Its first call prepares it: maps its code from the cache or compiles it,
//! and links it. This happens once for all waiting calls.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::bail;
use wasmtime::component::Component;

use crate::call::Sandbox;
use crate::component::definitions;
use crate::component::file::read;
use crate::component::load::{Loader, cannot_load};
use crate::component::needs::DeclaredNeeds;
use crate::tool::arguments::Schema;
use crate::tool::limits::Limits;
use crate::tool::{Definition, Stop};
use skillhost_skills::text::digest::sha256_hex;

/// A tool that can be called.
pub struct Tool {
    /// The definition's name.
    pub name: Arc<str>,
    /// The definition.
    pub definition: Definition,
    schema: OnceLock<Result<Schema, String>>,
    /// The component that defines it.
    pub component: Arc<ToolComponent>,
}

impl Tool {
    /// Creates a tool from a definition that this or an earlier process checked.
    pub fn new(definition: Definition, component: &Arc<ToolComponent>) -> Self {
        Self {
            name: definition.name.as_str().into(),
            definition,
            schema: OnceLock::new(),
            component: Arc::clone(component),
        }
    }

    /// Returns the schema of its arguments.
    pub fn schema(&self) -> Result<&Schema, Stop> {
        let schema = self.schema.get_or_init(|| {
            Schema::uncompiled(&self.definition.input_schema).map_err(|error| format!("{error:#}"))
        });
        schema.as_ref().map_err(|error| Stop::Trap(error.clone()))
    }
}

/// A component with known definitions.
pub struct ToolComponent {
    loader: Arc<Loader>,
    /// Its name in messages.
    pub origin: String,
    /// SHA-256 of its bytes, in hex.
    pub digest: String,
    source: ComponentSource,
    /// The linked component, or the reason why it cannot be prepared. An error is kept, so that
    /// later calls do not compile the component again.
    sandbox: OnceLock<Result<Sandbox, String>>,
    /// The lock of the call that prepares the component. Other calls wait without blocking a
    /// thread.
    first_call: tokio::sync::Mutex<()>,
    /// The lock of the compiling thread, which continues if its call is dropped.
    compiling: Mutex<()>,
}

/// The source of a component's bytes, in case they are needed again.
pub enum ComponentSource {
    /// The bytes of a built-in component.
    BuiltIn(&'static [u8]),
    /// The file of a third-party component.
    File(PathBuf),
}

impl ToolComponent {
    /// Creates a component that is prepared at its first call.
    pub fn new(
        loader: Arc<Loader>,
        origin: String,
        digest: String,
        source: ComponentSource,
    ) -> Self {
        Self {
            loader,
            origin,
            digest,
            source,
            sandbox: OnceLock::new(),
            first_call: tokio::sync::Mutex::new(()),
            compiling: Mutex::new(()),
        }
    }

    /// Returns this component with its linked code.
    pub fn with_sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = OnceLock::from(Ok(sandbox));
        self
    }

    /// Returns the name for grants and pins: the file name, or a built-in component's own
    /// name.
    pub fn grant_name(&self) -> &str {
        match &self.source {
            ComponentSource::BuiltIn(_) => &self.origin,
            ComponentSource::File(_) => file_name(&self.origin),
        }
    }

    /// Returns whether the preparation failed. Another attempt can succeed, for example if the
    /// file was replaced only for a moment.
    pub fn is_broken(&self) -> bool {
        matches!(self.sandbox.get(), Some(Err(_)))
    }

    /// Returns whether the first call has to wait for the compiler.
    pub fn needs_compiling(&self) -> bool {
        self.sandbox.get().is_none() && !self.loader.has_code(&self.digest)
    }

    /// Returns the linked component. Prepares it if necessary.
    pub async fn sandbox(self: &Arc<Self>) -> Result<&Sandbox, Stop> {
        if self.sandbox.get().is_none() {
            let _guard = self.first_call.lock().await;
            self.prepare().await?;
        }
        match self.sandbox.get() {
            Some(Ok(sandbox)) => Ok(sandbox),
            Some(Err(causes)) => Err(Stop::Trap(causes.clone())),
            None => Err(Stop::Trap("it is not compiled yet".to_owned())),
        }
    }

    /// Reads the needs that the component declares.
    ///
    /// # Errors
    ///
    /// Fails if its file cannot be read, or has changed.
    pub fn needs(&self) -> anyhow::Result<DeclaredNeeds> {
        Ok(DeclaredNeeds::read(&self.bytes()?))
    }

    /// Asks the component for its definitions.
    pub async fn read_definitions(
        self: &Arc<Self>,
        limits: &Limits,
    ) -> anyhow::Result<Vec<Definition>> {
        let sandbox = self.sandbox().await;
        let sandbox = sandbox.map_err(|stop| anyhow::anyhow!("{stop}"))?;
        let bytes = self.bytes()?;
        definitions::ask(sandbox, &self.origin, &bytes, limits).await
    }

    async fn prepare(self: &Arc<Self>) -> Result<(), Stop> {
        if self.sandbox.get().is_some() {
            return Ok(());
        }
        if let Some(component) = self.loader.cached_code(&self.digest) {
            // Mapping is faster than starting a thread for it.
            self.sandbox.get_or_init(|| {
                let linked = self.link(&component);
                linked.map_err(|error| self.explain(&error))
            });
            return Ok(());
        }
        let this = Arc::clone(self);
        let compiled = tokio::task::spawn_blocking(move || this.compile_and_link());
        compiled
            .await
            .map_err(|error| Stop::Trap(format!("it could not be compiled: {error}")))
    }

    fn compile_and_link(&self) {
        let lock = self.compiling.lock();
        let _guard = lock.unwrap_or_else(|broken| broken.into_inner());
        self.sandbox.get_or_init(|| {
            let compiled = self.compile();
            let linked = compiled.and_then(|component| self.link(&component));
            linked.map_err(|error| self.explain(&error))
        });
    }

    /// Returns the component's bytes, if its file is unchanged.
    fn bytes(&self) -> anyhow::Result<Cow<'static, [u8]>> {
        match &self.source {
            ComponentSource::BuiltIn(bytes) => Ok(Cow::Borrowed(bytes)),
            ComponentSource::File(path) => {
                let bytes = read(path, &self.loader.opener)?;
                if sha256_hex(&bytes) != self.digest {
                    bail!("its file has changed since it was loaded");
                }
                Ok(Cow::Owned(bytes))
            }
        }
    }

    fn compile(&self) -> anyhow::Result<Component> {
        let is_built_in = matches!(self.source, ComponentSource::BuiltIn(_));
        let bytes = self.bytes()?;
        self.loader
            .compile(&self.origin, &bytes, &self.digest, is_built_in)
    }

    fn link(&self, component: &Component) -> anyhow::Result<Sandbox> {
        Ok(Sandbox::new(self.loader.engine.clone(), component)?)
    }

    fn explain(&self, error: &anyhow::Error) -> String {
        format!("{}: {error:#}", cannot_load(&self.origin))
    }
}

/// Returns the last component of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
