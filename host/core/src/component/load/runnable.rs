//! A component that is made ready to run when it is first called: its compiled
//! code is mapped from the cache, or it is compiled, and it is linked. That
//! happens once, however many calls wait for it.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::bail;
use wasmtime::component::Component;

use super::{Loader, cannot_load, definitions, digest, read};
use crate::sandbox::Sandbox;
use crate::tool::limits::Limits;
use crate::tool::{Definition, Stop};

/// A component whose tools are known.
pub(crate) struct Runnable {
    loader: Arc<Loader>,
    /// What messages call it.
    pub(crate) origin: String,
    /// SHA-256 of its bytes, in hex.
    pub(crate) digest: String,
    source: Source,
    /// What came of making it ready. A failure stays one: callers must not be
    /// able to have it compiled again and again.
    made: OnceLock<Result<Sandbox, String>>,
    /// Held by the call that makes it ready; others wait without a thread.
    waiting: tokio::sync::Mutex<()>,
    /// Held by the thread that compiles, which goes on when its call is gone.
    compiling: Mutex<()>,
}

/// Where a component's bytes are, if they are needed again.
pub(crate) enum Source {
    /// It comes with the host.
    Own(&'static [u8]),
    /// A stranger's.
    File(PathBuf),
}

impl Runnable {
    /// A component that is made ready when it is called.
    pub(crate) fn new(loader: Arc<Loader>, origin: String, digest: String, source: Source) -> Self {
        Self {
            loader,
            origin,
            digest,
            source,
            made: OnceLock::new(),
            waiting: tokio::sync::Mutex::new(()),
            compiling: Mutex::new(()),
        }
    }

    /// The name by which a grant or a pin names it: its file's, or its own of one
    /// that comes with the host.
    pub(crate) fn grant_name(&self) -> &str {
        match &self.source {
            Source::Own(_) => &self.origin,
            Source::File(_) => file_name(&self.origin),
        }
    }

    /// A component that is ready.
    pub(crate) fn ready(mut self, sandbox: Sandbox) -> Self {
        self.made = OnceLock::from(Ok(sandbox));
        self
    }

    /// Whether its first call would have to wait for it to be compiled.
    pub(crate) fn has_to_be_compiled(&self) -> bool {
        self.made.get().is_none() && !self.loader.has_code(&self.digest)
    }

    /// The component, ready to run.
    pub(crate) async fn sandbox(self: &Arc<Self>) -> Result<&Sandbox, Stop> {
        if self.made.get().is_none() {
            let _turn = self.waiting.lock().await;
            self.make().await?;
        }
        match self.made.get() {
            Some(Ok(sandbox)) => Ok(sandbox),
            Some(Err(causes)) => Err(Stop::Trap(causes.clone())),
            None => Err(Stop::Trap("it was not made ready".to_owned())),
        }
    }

    /// Asks the component for its definitions.
    pub(crate) async fn define(
        self: &Arc<Self>,
        limits: &Limits,
    ) -> anyhow::Result<Vec<Definition>> {
        let sandbox = self.sandbox().await;
        let sandbox = sandbox.map_err(|stop| anyhow::anyhow!("{stop}"))?;
        let bytes = self.bytes()?;
        definitions(sandbox, &self.origin, &bytes, limits).await
    }

    async fn make(self: &Arc<Self>) -> Result<(), Stop> {
        if self.made.get().is_some() {
            return Ok(());
        }
        if let Some(component) = self.loader.cached(&self.digest) {
            // Mapping takes less than starting a thread for it.
            self.made.get_or_init(|| self.link(&component));
            return Ok(());
        }
        let this = Arc::clone(self);
        let compiled = tokio::task::spawn_blocking(move || this.compile());
        compiled
            .await
            .map_err(|error| Stop::Trap(format!("it could not be compiled: {error}")))
    }

    fn compile(&self) {
        let lock = self.compiling.lock();
        let _turn = lock.unwrap_or_else(|broken| broken.into_inner());
        self.made.get_or_init(|| {
            let compiled = self.bytes_compiled();
            let compiled = compiled.and_then(|component| self.linked(&component));
            compiled.map_err(|error| self.explain(&error))
        });
    }

    /// The bytes that were loaded.
    fn bytes(&self) -> anyhow::Result<Cow<'static, [u8]>> {
        match &self.source {
            Source::Own(bytes) => Ok(Cow::Borrowed(bytes)),
            Source::File(path) => {
                let bytes = read(path)?;
                if digest(&bytes) != self.digest {
                    bail!("its file has changed since it was loaded");
                }
                Ok(Cow::Owned(bytes))
            }
        }
    }

    fn bytes_compiled(&self) -> anyhow::Result<Component> {
        let is_own = matches!(self.source, Source::Own(_));
        let bytes = self.bytes()?;
        self.loader
            .compile(&self.origin, &bytes, &self.digest, is_own)
    }

    fn link(&self, component: &Component) -> Result<Sandbox, String> {
        self.linked(component).map_err(|error| self.explain(&error))
    }

    fn linked(&self, component: &Component) -> anyhow::Result<Sandbox> {
        Ok(Sandbox::new(self.loader.engine.clone(), component)?)
    }

    fn explain(&self, error: &anyhow::Error) -> String {
        format!("{}: {error:#}", cannot_load(&self.origin))
    }
}

/// The last step of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
