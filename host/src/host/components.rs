//! The components of a host, as they are loaded. What an earlier host had of
//! the same content is taken over and not loaded again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context as _, bail};
use wasmtime::component::Component;

use crate::component::{Loader, Runnable, Source, Tool, cannot_load, digest as sha256, read};
use crate::embedded::EMBEDDED;
use crate::tool::Definition;

/// A component, and the tools that it defines.
#[derive(Clone)]
pub(crate) struct Loaded {
    component: Arc<Runnable>,
    /// Whether it is one that comes with the host.
    pub(crate) own: bool,
    pub(crate) tools: Vec<Arc<Tool>>,
}

/// Components being loaded.
pub(crate) struct Components<'a> {
    pub(crate) loader: Arc<Loader>,
    /// What the host had that is being replaced.
    pub(crate) earlier: &'a [Loaded],
    pub(crate) pins: Pins<'a>,
    pub(crate) loaded: Vec<Loaded>,
}

/// Which component files may be loaded, by the operator's word.
pub(crate) struct Pins<'a> {
    pub(crate) pins: &'a BTreeMap<String, String>,
    pub(crate) required: bool,
}

/// A component file that was looked at.
enum Seen {
    /// The earlier host has it.
    Earlier(Loaded),
    /// Its tools are known.
    Known(String, Vec<Definition>),
    /// It has to say what its tools are.
    Compiled(String, Component),
}

impl Components<'_> {
    /// Adds the components that come with the host.
    pub(crate) fn add_embedded(&mut self) -> anyhow::Result<()> {
        for embedded in &EMBEDDED {
            let (origin, digest) = (embedded.name, embedded.digest());
            let component = match self.earlier(origin, digest, true) {
                Some(unchanged) => unchanged.clone(),
                None => {
                    let loader = Arc::clone(&self.loader);
                    let source = embedded.source();
                    let runnable =
                        Runnable::new(loader, origin.to_owned(), digest.to_owned(), source);
                    let definitions = embedded.definitions();
                    let definitions = definitions.with_context(|| cannot_load(origin))?;
                    Loaded::new(runnable, true, definitions)
                }
            };
            self.push(component)?;
        }
        Ok(())
    }

    /// Adds components from files, in this order. The others are told of as
    /// problems.
    pub(crate) async fn add_files(&mut self, files: Vec<PathBuf>) -> Vec<String> {
        let mut problems = Vec::new();
        for (file, seen) in self.look_at_all(&files) {
            let origin = file.display().to_string();
            let added = match seen {
                Ok(seen) => self.add(file, &origin, seen).await,
                Err(error) => Err(error),
            };
            if let Err(error) = added {
                let stays = match self.keep(&origin) {
                    true => "; its earlier tools stay",
                    false => "",
                };
                problems.push(format!("{error:#}{stays}"));
            }
        }
        problems
    }

    /// Adds a component. The error names it; nothing was added then.
    async fn add(&mut self, file: &Path, origin: &str, seen: Seen) -> anyhow::Result<()> {
        let runnable = |digest| {
            let source = Source::File(file.to_owned());
            Runnable::new(Arc::clone(&self.loader), origin.to_owned(), digest, source)
        };
        let component = match seen {
            Seen::Earlier(unchanged) => unchanged,
            Seen::Known(digest, definitions) => Loaded::new(runnable(digest), false, definitions),
            Seen::Compiled(digest, component) => {
                // Read again, so that not all files are in memory at a time.
                let bytes = read(file)?;
                if sha256(&bytes) != digest {
                    bail!("{}: its file has changed meanwhile", cannot_load(origin));
                }
                let asked = self.loader.ask(origin, &bytes, &component, &digest);
                let (sandbox, definitions) = asked.await?;
                Loaded::new(runnable(digest).ready(sandbox), false, definitions)
            }
        };
        self.push(component)
    }

    /// Looks at files, several at a time: those that nobody has seen are
    /// compiled.
    fn look_at_all<'f>(&self, files: &'f [PathBuf]) -> Vec<(&'f Path, anyhow::Result<Seen>)> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let next = AtomicUsize::new(0);
        let (send, receive) = mpsc::channel();
        let look = |send: mpsc::Sender<_>| {
            while let Some((index, file)) = {
                let index = next.fetch_add(1, Ordering::Relaxed);
                files.get(index).map(|file| (index, file))
            } {
                let _ = send.send((index, file.as_path(), self.look(file)));
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads.min(files.len()) {
                let send = send.clone();
                scope.spawn(|| look(send));
            }
            look(send);
        });
        let mut seen: Vec<_> = receive.into_iter().collect();
        seen.sort_by_key(|(index, ..)| *index);
        let seen = seen.into_iter();
        seen.map(|(_, file, seen)| (file, seen)).collect()
    }

    fn look(&self, file: &Path) -> anyhow::Result<Seen> {
        let bytes = read(file)?;
        let digest = sha256(&bytes);
        self.pins.check(file, &digest)?;
        let origin = file.display().to_string();
        if let Some(unchanged) = self.earlier(&origin, &digest, false) {
            return Ok(Seen::Earlier(unchanged.clone()));
        }
        if let Some(definitions) = self.loader.known(&digest) {
            return Ok(Seen::Known(digest, definitions));
        }
        let component = self.loader.compiled(&origin, &bytes, &digest);
        let component = component.with_context(|| cannot_load(&origin))?;
        Ok(Seen::Compiled(digest, component))
    }

    /// The component as the earlier host had it, if it did.
    fn earlier(&self, origin: &str, digest: &str, own: bool) -> Option<&Loaded> {
        self.earlier.iter().find(|earlier| {
            let Runnable {
                origin: its_origin,
                digest: its_digest,
                ..
            } = &*earlier.component;
            its_origin == origin && its_digest == digest && earlier.own == own
        })
    }

    /// Adds a component as the earlier host had it, if it did.
    fn keep(&mut self, origin: &str) -> bool {
        let mut earlier = self.earlier.iter();
        let kept = earlier.find(|earlier| earlier.component.origin == origin && !earlier.own);
        kept.is_some_and(|kept| self.push(kept.clone()).is_ok())
    }

    /// Refuses a component that gives a name that is taken: which of the two
    /// an agent would call must not depend on the order of files.
    fn push(&mut self, component: Loaded) -> anyhow::Result<()> {
        for (index, tool) in component.tools.iter().enumerate() {
            let name = &tool.definition.name;
            let mut before = tools_of(&self.loaded).chain(&component.tools[..index]);
            if let Some(other) = before.find(|other| other.definition.name == *name) {
                let is_other = |loaded: &&Loaded| Arc::ptr_eq(&loaded.component, &other.component);
                let fix = match self.loaded.iter().find(is_other).is_some_and(|it| it.own) {
                    true => "that one is built in: give it another name",
                    false => "take one of the two away, or give it another name",
                };
                bail!(
                    "{}: it defines the tool `{name}`, which `{}` has already defined; {fix}",
                    cannot_load(&tool.component.origin),
                    other.component.origin
                );
            }
        }
        self.loaded.push(component);
        Ok(())
    }
}

impl Loaded {
    fn new(component: Runnable, own: bool, definitions: Vec<Definition>) -> Self {
        let component = Arc::new(component);
        let tool = |definition| Arc::new(Tool::new(definition, &component));
        let tools = definitions.into_iter().map(tool).collect();
        Self {
            component,
            own,
            tools,
        }
    }
}

impl Pins<'_> {
    /// Whether a component of this digest may be loaded from this file.
    fn check(&self, file: &Path, digest: &str) -> anyhow::Result<()> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let cannot = || cannot_load(&file.display().to_string());
        match self.pins.get(&*name) {
            Some(pin) if pin.eq_ignore_ascii_case(digest) => Ok(()),
            Some(pin) => bail!(
                "{}: its SHA-256 is {digest}, and the pin `{name}` is {pin}",
                cannot()
            ),
            None if self.required => bail!(
                "{}: it has no pin, and pins are required; its SHA-256 is {digest}",
                cannot()
            ),
            None => Ok(()),
        }
    }
}

/// The tools of components, in their order.
pub(crate) fn tools_of(components: &[Loaded]) -> impl Iterator<Item = &Arc<Tool>> {
    components.iter().flat_map(|component| &component.tools)
}
