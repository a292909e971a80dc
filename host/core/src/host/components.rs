//! The components of a host, as they are loaded. What an earlier host had of
//! the same content is taken over and not loaded again. Which of them are taken
//! in where names collide is decided in `admission`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context as _, bail};
use wasmtime::component::Component;

use super::admission::{Candidate, Claim, refusals};
use crate::component::embedded::EMBEDDED;
use crate::component::{
    ComponentSource, Loader, Tool, ToolComponent, cannot_load, digest as sha256, read,
};
use crate::tool::Definition;
use crate::tool::grant::Grant;
use crate::trust::Trust;

/// A component, and the tools that it defines.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) component: Arc<ToolComponent>,
    pub(crate) tools: Vec<Arc<Tool>>,
    /// The user whose file it is; none of one that comes with the host.
    owner: Option<u32>,
}

/// Components being loaded.
pub(crate) struct Components<'a> {
    pub(crate) loader: Arc<Loader>,
    /// What the host had that is being replaced.
    pub(crate) earlier: &'a [Loaded],
    pub(crate) rules: Rules<'a>,
    pub(crate) loaded: Vec<Loaded>,
}

/// Which component files may be loaded, by the operator's word.
pub(crate) struct Rules<'a> {
    pub(crate) pins: &'a BTreeMap<String, String>,
    pub(crate) require_pins: bool,
    pub(crate) grants: &'a BTreeMap<String, Grant>,
    pub(crate) trust: &'a Trust,
}

/// A component file that was looked at.
struct Seen {
    owner: Option<u32>,
    digest: String,
    known: Known,
}

/// What is known of such a file.
enum Known {
    /// The earlier host has it.
    Earlier(Loaded),
    /// Its tools.
    Tools(Vec<Definition>),
    /// Its code; it has to say what its tools are.
    Code(Component),
}

impl Components<'_> {
    /// Adds the components that come with the host.
    pub(crate) fn add_embedded(&mut self) -> anyhow::Result<()> {
        for embedded in &EMBEDDED {
            let (origin, digest) = (embedded.name, embedded.digest());
            let earlier = self.earlier.iter();
            let mut own = earlier.filter(|earlier| earlier.owner.is_none());
            let component = match own.find(|own| own.component.digest == digest) {
                Some(unchanged) => unchanged.clone(),
                None => {
                    let loader = Arc::clone(&self.loader);
                    let source = embedded.source();
                    let runnable =
                        ToolComponent::new(loader, origin.to_owned(), digest.to_owned(), source);
                    let definitions = embedded.definitions();
                    let definitions = definitions.with_context(|| cannot_load(origin))?;
                    Loaded::new(runnable, None, definitions)
                }
            };
            self.loaded.push(component);
        }
        Ok(())
    }

    /// Adds components from files, in this order. The others are told of as
    /// problems.
    ///
    /// A component that the earlier host had stays for as long as its file does:
    /// as it is now where it may take its own place, else as it was.
    pub(crate) async fn add_files(&mut self, files: Vec<PathBuf>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut newcomers = Vec::new();
        // Components in the place of those that the earlier host had.
        let mut successors = Vec::new();
        // By the place of their files.
        let mut taken = BTreeMap::new();
        for (at, (file, seen)) in self.look_at_all(&files).into_iter().enumerate() {
            let loaded = match seen {
                Ok(seen) => self.load(file, seen).await,
                Err(error) => Err(error),
            };
            let Some(earlier) = self.earlier_of(file) else {
                match loaded {
                    Ok(newcomer) => newcomers.push((at, newcomer)),
                    Err(error) => problems.push(format!("{error:#}")),
                }
                continue;
            };
            let successor = loaded.and_then(|loaded| {
                self.check_successor(earlier, &loaded, &files)?;
                Ok(loaded)
            });
            match successor {
                Ok(successor) => successors.push((at, earlier, successor)),
                Err(error) => {
                    problems.push(stays(&format!("{error:#}")));
                    taken.insert(at, earlier.clone());
                }
            }
        }
        // Several that change at a time may claim one name.
        let refused = {
            let successors = successors.iter();
            let new: Vec<_> = successors
                .map(|(_, _, successor)| self.rules.candidate(successor))
                .collect();
            refusals(&[], &new)
        };
        for ((at, earlier, successor), refused) in successors.into_iter().zip(refused) {
            let stays = refused.map(|why| {
                problems.push(stays(&why));
                earlier.clone()
            });
            taken.insert(at, stays.unwrap_or(successor));
        }
        let refused = {
            let candidate = |loaded| self.rules.candidate(loaded);
            let serving = self.loaded.iter().chain(taken.values());
            let serving: Vec<_> = serving.map(candidate).collect();
            let new: Vec<_> = newcomers.iter().map(|(_, new)| candidate(new)).collect();
            refusals(&serving, &new)
        };
        for ((at, newcomer), refused) in newcomers.into_iter().zip(refused) {
            match refused {
                Some(why) => problems.push(why),
                None => {
                    taken.insert(at, newcomer);
                }
            }
        }
        self.loaded.extend(taken.into_values());
        problems
    }

    /// Loads a component. The error names it.
    async fn load(&self, file: &Path, seen: Seen) -> anyhow::Result<Loaded> {
        let Seen {
            owner,
            digest,
            known,
        } = seen;
        let origin = file.display().to_string();
        let runnable = |digest| {
            let source = ComponentSource::File(file.to_owned());
            ToolComponent::new(Arc::clone(&self.loader), origin.clone(), digest, source)
        };
        let loaded = match known {
            // Its owner stays the one whose bytes they were.
            Known::Earlier(unchanged) => unchanged,
            Known::Tools(definitions) => Loaded::new(runnable(digest), owner, definitions),
            Known::Code(component) => {
                // Read again, so that not all files are in memory at a time.
                let bytes = read(file)?;
                if sha256(&bytes) != digest {
                    bail!("{}: its file has changed meanwhile", cannot_load(&origin));
                }
                let asked = self
                    .loader
                    .load_definitions(&origin, &bytes, &component, &digest);
                let (sandbox, definitions) = asked.await?;
                Loaded::new(runnable(digest).with_sandbox(sandbox), owner, definitions)
            }
        };
        let names: Vec<&str> = loaded.tool_names().collect();
        let twice = |(at, name): &(usize, &&str)| names[..*at].contains(*name);
        if let Some((_, name)) = names.iter().enumerate().find(twice) {
            bail!(
                "{}: it defines the tool `{name}` twice",
                cannot_load(&origin)
            );
        }
        Ok(loaded)
    }

    /// Whether a component may take the place of the one that its file held
    /// before. `files` are there now: what another one has is not for it.
    fn check_successor(
        &self,
        earlier: &Loaded,
        loaded: &Loaded,
        files: &[PathBuf],
    ) -> anyhow::Result<()> {
        if loaded.component.digest == earlier.component.digest {
            return Ok(());
        }
        let origin = &loaded.component.origin;
        if loaded.owner != earlier.owner && !self.rules.is_pinned(loaded) {
            bail!(
                "{}: its content has changed and so has its owner; a pin in `pins` allows that, \
                 and so does a restart",
                cannot_load(origin)
            );
        }
        let others = self.earlier.iter().filter(|other| {
            let path = Path::new(&other.component.origin);
            other.owner.is_none()
                || (other.component.origin != *origin && files.iter().any(|file| file == path))
        });
        let others: Vec<_> = others.map(|other| self.rules.candidate(other)).collect();
        match refusals(&others, &[self.rules.candidate(loaded)]).pop() {
            Some(Some(why)) => bail!(why),
            _ => Ok(()),
        }
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
        let origin = file.display().to_string();
        let cannot = || cannot_load(&origin);
        let owner = self.rules.trust.check(file).with_context(cannot)?;
        let bytes = read(file)?;
        let digest = sha256(&bytes);
        self.rules.check_pin(file, &digest)?;
        let unchanged = self.earlier_of(file);
        let unchanged = unchanged.filter(|earlier| earlier.component.digest == digest);
        let known = match (unchanged, self.loader.cached_definitions(&digest)) {
            (Some(unchanged), _) => Known::Earlier(unchanged.clone()),
            (None, Some(definitions)) => Known::Tools(definitions),
            (None, None) => {
                let component = self.loader.load_code(&origin, &bytes, &digest);
                Known::Code(component.with_context(cannot)?)
            }
        };
        Ok(Seen {
            owner: Some(owner),
            digest,
            known,
        })
    }

    /// What the earlier host had of this file.
    fn earlier_of(&self, file: &Path) -> Option<&'_ Loaded> {
        let mut strangers = self
            .earlier
            .iter()
            .filter(|earlier| earlier.owner.is_some());
        strangers.find(|earlier| Path::new(&earlier.component.origin) == file)
    }
}

impl Loaded {
    fn new(component: ToolComponent, owner: Option<u32>, definitions: Vec<Definition>) -> Self {
        let component = Arc::new(component);
        let tool = |definition| Arc::new(Tool::new(definition, &component));
        let tools = definitions.into_iter().map(tool).collect();
        Self {
            component,
            tools,
            owner,
        }
    }

    /// Whether it is one that comes with the host.
    pub(crate) fn is_own(&self) -> bool {
        self.owner.is_none()
    }

    fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.definition.name.as_str())
    }
}

impl Rules<'_> {
    /// Whether a component of this digest may be loaded from this file.
    fn check_pin(&self, file: &Path, digest: &str) -> anyhow::Result<()> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let cannot = || cannot_load(&file.display().to_string());
        match self.pins.get(&*name) {
            Some(pin) if pin.eq_ignore_ascii_case(digest) => Ok(()),
            Some(pin) => bail!(
                "{}: its SHA-256 is {digest}, and the pin `{name}` is {pin}",
                cannot()
            ),
            None if self.require_pins => bail!(
                "{}: it has no pin, and pins are required; its SHA-256 is {digest}",
                cannot()
            ),
            None => Ok(()),
        }
    }

    fn is_pinned(&self, loaded: &Loaded) -> bool {
        self.pins.contains_key(loaded.component.grant_name())
    }

    /// How admission sees a component.
    fn candidate<'l>(&self, loaded: &'l Loaded) -> Candidate<'l> {
        let file = loaded.component.grant_name();
        Candidate {
            origin: &loaded.component.origin,
            digest: &loaded.component.digest,
            tools: loaded.tool_names().collect(),
            claim: match (loaded.is_own(), self.grants.contains_key(file)) {
                (true, _) => Claim::BuiltIn,
                (false, true) => Claim::Granted { file },
                (false, false) if self.is_pinned(loaded) => Claim::Pinned,
                (false, false) => Claim::None,
            },
        }
    }
}

/// What is said of a component that cannot take its own place.
fn stays(why: &str) -> String {
    format!("{why}; its earlier tools stay")
}

/// The tools of components, in their order.
pub(crate) fn tools_of(components: &[Loaded]) -> impl Iterator<Item = &Arc<Tool>> {
    components.iter().flat_map(|component| &component.tools)
}
