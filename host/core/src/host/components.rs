//! Loads the components of a host, and reuses unchanged components of an earlier host.
//! `admission` decides when names collide.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use wasmtime::component::Component;

use super::admission::{Candidate, Claim, refusals};
use skillhost_sandbox::component::definitions::{read_beside, tools_file};
use skillhost_sandbox::component::embedded::EMBEDDED;
use skillhost_sandbox::component::{
    ComponentSource, Loader, Tool, ToolComponent, cannot_load, check_header, read,
};
use skillhost_sandbox::engine::processors;
use skillhost_sandbox::tool::Definition;
use skillhost_sandbox::tool::grant::Grant;
use skillhost_skills::text::digest::sha256_hex;
use skillhost_skills::trust::Trust;

/// The maximum number of files that are compiled at once while a host is built. The broker of a
/// confined process starts at most twice as many processes.
const MAX_COMPILED_AT_ONCE: usize = 8;

/// The recorded owner of a file whose real owner was not checked, because a pin fixes its bytes.
const UNCHECKED_OWNER: u32 = 0;

/// A component and its tools.
#[derive(Clone)]
pub(crate) struct LoadedComponent {
    pub(crate) component: Arc<ToolComponent>,
    pub(crate) tools: Vec<Arc<Tool>>,
    /// The owner of the component's file, or [`UNCHECKED_OWNER`]. `None` for a built-in component.
    owner: Option<u32>,
    /// True if the definitions come from a file beside the component, because the component is not
    /// compiled yet.
    pub(crate) is_declared: bool,
}

/// The components that a build of a host loads, and the components of the earlier host, which the
/// build reuses.
#[derive(Clone, Copy)]
pub(crate) enum Stage<'a> {
    /// All components.
    Whole,
    /// The components that can be loaded without compiling.
    Compiled,
    /// All components, after a build of [`Stage::Compiled`]. The earlier host lacks the components
    /// that had to be compiled first.
    Rest(&'a [LoadedComponent]),
    /// All components, for a host that replaces another one.
    Successor(&'a [LoadedComponent]),
}

impl<'a> Stage<'a> {
    /// Returns the components of the earlier host.
    fn earlier(self) -> &'a [LoadedComponent] {
        match self {
            Self::Whole | Self::Compiled => &[],
            Self::Rest(earlier) | Self::Successor(earlier) => earlier,
        }
    }
}

/// The components of a host while they are loaded and admitted.
pub(crate) struct ComponentIntake<'a> {
    pub(crate) loader: Arc<Loader>,
    pub(crate) stage: Stage<'a>,
    pub(crate) rules: IntakeRules<'a>,
    pub(crate) loaded: Vec<LoadedComponent>,
    /// The number of components that a build of [`Stage::Compiled`] leaves to the next build.
    pub(crate) left_out: usize,
}

/// The operator's rules for component files.
pub(crate) struct IntakeRules<'a> {
    pub(crate) pins: &'a BTreeMap<String, String>,
    pub(crate) require_pins: bool,
    pub(crate) denied: &'a BTreeMap<String, String>,
    pub(crate) grants: &'a BTreeMap<String, Grant>,
    pub(crate) trust: &'a Trust,
    /// The files of [named components](crate::HostBuilder::named_component), by name.
    pub(crate) named: &'a BTreeMap<String, PathBuf>,
}

/// A component file with a checked owner and pin.
struct ComponentFile {
    owner: Option<u32>,
    digest: String,
    content: FileContent,
}

/// The known facts about the component in a file.
enum FileContent {
    /// The same component as in the earlier host.
    Earlier(LoadedComponent),
    /// The definitions of the component's tools, from the cache.
    Tools(Vec<Definition>),
    /// The definitions of the component's tools, from a file beside the component.
    DeclaredTools(Vec<Definition>),
    /// The component's code. The component's tools are not known yet.
    Code(Component),
}

/// The time after which a build of [`Stage::Compiled`] reads no further files. Guards against: a
/// tools folder that is so large that clients would not wait until it is read.
const READING_TIME: Duration = Duration::from_millis(100);

impl<'a> ComponentIntake<'a> {
    /// Adds the built-in components.
    pub(crate) fn add_embedded(&mut self) -> anyhow::Result<()> {
        for embedded in &EMBEDDED {
            let (origin, digest) = (embedded.name, embedded.digest());
            let earlier = self.stage.earlier().iter();
            let mut built_in = earlier.filter(|earlier| earlier.owner.is_none());
            let component = match built_in.find(|earlier| earlier.component.digest == digest) {
                Some(unchanged) => unchanged.clone(),
                None => {
                    let loader = Arc::clone(&self.loader);
                    let source = embedded.source();
                    let runnable =
                        ToolComponent::new(loader, origin.to_owned(), digest.to_owned(), source);
                    let definitions = embedded.definitions();
                    let definitions = definitions.with_context(|| cannot_load(origin))?;
                    LoadedComponent::new(runnable, None, definitions)
                }
            };
            self.loaded.push(component);
        }
        Ok(())
    }

    /// Adds components from files in order. Returns the problems of components that are not
    /// admitted.
    ///
    /// If this host replaces another one, a component of that host stays as long as its file
    /// exists. If the file has changed and the new component is admitted, the new component
    /// replaces it.
    pub(crate) async fn add_files(&mut self, files: Vec<PathBuf>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut newcomers = Vec::new();
        // Components that replace components of the earlier host.
        let mut successors = Vec::new();
        // The admitted components, by the position of their files.
        let mut admitted = BTreeMap::new();
        for (at, (path, file)) in self.inspect_all(&files).into_iter().enumerate() {
            let loaded = match file {
                Ok(Some(file)) => self.load(path, file).await,
                Ok(None) => {
                    self.left_out += 1;
                    continue;
                }
                Err(error) => Err(error),
            };
            if let (Ok(loaded), Some(earlier)) = (&loaded, self.earlier_of(path))
                && earlier.is_declared
                && !loaded.has_same_tools(earlier)
            {
                problems.push(format!(
                    "`{}` does not match `{}`: serving the component's own tools; build it again",
                    tools_file(path).display(),
                    path.display()
                ));
            }
            let Some(earlier) = self.predecessor(path) else {
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
                Ok(successor) => successors.push((at, path, earlier, successor)),
                Err(error) => {
                    let (earlier, problem) =
                        self.refuse_change(path, earlier, format!("{error:#}"));
                    problems.push(problem);
                    admitted.extend(earlier.map(|earlier| (at, earlier)));
                }
            }
        }
        if self.left_out > 0 {
            // An omitted file may have a stronger claim to the tool names of a newcomer that no
            // grant or pin names.
            let unnamed = newcomers.extract_if(.., |(_, new)| !self.rules.is_named(new));
            self.left_out += unnamed.count();
        }
        // Several changed components may claim the same name.
        let candidates: Vec<_> = successors
            .iter()
            .map(|(.., successor)| self.rules.candidate(successor))
            .collect();
        let refused = refusals(&[], &candidates);
        drop(candidates);
        for ((at, path, earlier, successor), refused) in successors.into_iter().zip(refused) {
            let serving = match refused {
                None => Some(successor),
                Some(why) => {
                    let (earlier, problem) = self.refuse_change(path, earlier, why);
                    problems.push(problem);
                    earlier
                }
            };
            admitted.extend(serving.map(|serving| (at, serving)));
        }
        problems.extend(self.admit_newcomers(newcomers, &mut admitted));
        self.loaded.extend(admitted.into_values());
        problems
    }

    /// Refuses the successor of a component. Returns the earlier component, if the current pins
    /// allow it, and the problem of the successor.
    ///
    /// Pins can change while a server runs. A component that the current pins exclude must not keep
    /// the grant of its file.
    fn refuse_change(
        &self,
        path: &Path,
        earlier: &LoadedComponent,
        why: String,
    ) -> (Option<LoadedComponent>, String) {
        let allowed = self.rules.check_pin(path, &earlier.component.digest);
        match allowed.is_ok().then(|| earlier.clone()) {
            None => (None, why),
            earlier => (earlier, format!("{why}; its earlier tools remain")),
        }
    }

    /// Adds components that the earlier host does not have. Returns the problems of components that
    /// are not admitted.
    fn admit_newcomers(
        &mut self,
        newcomers: Vec<(usize, LoadedComponent)>,
        admitted: &mut BTreeMap<usize, LoadedComponent>,
    ) -> Vec<String> {
        let refused = {
            let candidate = |loaded| self.rules.candidate(loaded);
            let serving = self.loaded.iter().chain(admitted.values());
            let serving: Vec<_> = serving.map(candidate).collect();
            let new: Vec<_> = newcomers.iter().map(|(_, new)| candidate(new)).collect();
            refusals(&serving, &new)
        };
        let mut problems = Vec::new();
        // Declared definitions may be wrong, so a newcomer that they exclude is only left out until
        // the declared component is compiled.
        let has_declared = newcomers.iter().any(|(_, new)| new.is_declared);
        for ((at, newcomer), refused) in newcomers.into_iter().zip(refused) {
            match refused {
                Some(_) if has_declared => self.left_out += 1,
                Some(why) => problems.push(why),
                None => {
                    admitted.insert(at, newcomer);
                }
            }
        }
        problems
    }

    /// Loads a component. The error names the component.
    async fn load(&self, path: &Path, file: ComponentFile) -> anyhow::Result<LoadedComponent> {
        let ComponentFile {
            owner,
            digest,
            content,
        } = file;
        let origin = path.display().to_string();
        let runnable = |digest| {
            let source = ComponentSource::File(self.rules.content_file(path).to_owned());
            ToolComponent::new(Arc::clone(&self.loader), origin.clone(), digest, source)
        };
        let loaded = match content {
            // This keeps the owner that was recorded when the component was first loaded.
            FileContent::Earlier(unchanged) => unchanged,
            FileContent::Tools(definitions) => {
                LoadedComponent::new(runnable(digest), owner, definitions)
            }
            FileContent::DeclaredTools(definitions) => LoadedComponent {
                is_declared: true,
                ..LoadedComponent::new(runnable(digest), owner, definitions)
            },
            FileContent::Code(component) => {
                // Read the file again instead of keeping its bytes, so that few files are in memory
                // at a time.
                let bytes = read(self.rules.content_file(path), &self.loader.opener)?;
                if sha256_hex(&bytes) != digest {
                    bail!(
                        "{}: its file changed while it was loaded",
                        cannot_load(&origin)
                    );
                }
                let loading = self
                    .loader
                    .load_definitions(&origin, &bytes, &component, &digest);
                let (sandbox, definitions) = loading.await?;
                LoadedComponent::new(runnable(digest).with_sandbox(sandbox), owner, definitions)
            }
        };
        let names: Vec<&str> = loaded.tool_names().collect();
        let is_repeated = |(at, name): &(usize, &&str)| names[..*at].contains(*name);
        if let Some((_, name)) = names.iter().enumerate().find(is_repeated) {
            bail!(
                "{}: it defines the tool `{name}` twice",
                cannot_load(&origin)
            );
        }
        Ok(loaded)
    }

    /// Checks that a component may replace the earlier component of its file. It must not take a
    /// name from a built-in component, or from the earlier component of another file that still
    /// exists. `files` has all existing files.
    fn check_successor(
        &self,
        earlier: &LoadedComponent,
        loaded: &LoadedComponent,
        files: &[PathBuf],
    ) -> anyhow::Result<()> {
        if loaded.component.digest == earlier.component.digest {
            return Ok(());
        }
        let origin = &loaded.component.origin;
        if loaded.owner != earlier.owner && !self.rules.is_pinned(loaded) {
            bail!(
                "{}: its content and its owner have changed; pin it in `pins`, or restart, to \
                 allow that",
                cannot_load(origin)
            );
        }
        let others = self.stage.earlier().iter().filter(|other| {
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

    /// Inspects files, several at a time, and compiles those that are not in the cache. Returns
    /// `None` for a file that a build of [`Stage::Compiled`] leaves to the next build.
    fn inspect_all<'f>(
        &self,
        files: &'f [PathBuf],
    ) -> Vec<(&'f Path, anyhow::Result<Option<ComponentFile>>)> {
        let threads = processors().min(MAX_COMPILED_AT_ONCE);
        let next = AtomicUsize::new(0);
        let (send, receive) = mpsc::channel();
        let start = Instant::now();
        let inspect = |send: mpsc::Sender<_>| {
            while let Some((index, file)) = {
                let index = next.fetch_add(1, Ordering::Relaxed);
                files.get(index).map(|file| (index, file))
            } {
                let is_late = self.compiles_nothing() && start.elapsed() > READING_TIME;
                let inspected = if is_late {
                    Ok(None)
                } else {
                    self.inspect(file)
                };
                let _ = send.send((index, file.as_path(), inspected));
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads.min(files.len()) {
                let send = send.clone();
                scope.spawn(|| inspect(send));
            }
            inspect(send);
        });
        let mut inspected: Vec<_> = receive.into_iter().collect();
        inspected.sort_by_key(|(index, ..)| *index);
        let inspected = inspected.into_iter();
        inspected.map(|(_, path, file)| (path, file)).collect()
    }

    /// Inspects a file, and compiles it if it is not in the cache. Returns `None` if the file is
    /// omitted because this build compiles nothing.
    fn inspect(&self, file: &Path) -> anyhow::Result<Option<ComponentFile>> {
        let origin = file.display().to_string();
        let cannot = || cannot_load(&origin);
        let content = self.rules.content_file(file);
        let owner = if self.rules.has_pinned_content(file) {
            UNCHECKED_OWNER
        } else {
            self.rules.trust.check(content).with_context(cannot)?
        };
        let bytes = read(content, &self.loader.opener)?;
        let digest = sha256_hex(&bytes);
        self.rules.check_pin(file, &digest)?;
        let unchanged = self.earlier_of(file);
        let unchanged = unchanged.filter(|earlier| {
            let is_same = earlier.component.digest == digest;
            is_same && !earlier.is_declared && !earlier.component.is_broken()
        });
        let content = match (unchanged, self.loader.cached_definitions(&digest)) {
            (Some(unchanged), _) => FileContent::Earlier(unchanged.clone()),
            (None, Some(definitions)) => FileContent::Tools(definitions),
            (None, None) if self.compiles_nothing() && !self.loader.has_code(&digest) => {
                check_header(&bytes).with_context(cannot)?;
                match self.declared_tools(file, &digest) {
                    Some(definitions) => FileContent::DeclaredTools(definitions),
                    None => return Ok(None),
                }
            }
            (None, None) => {
                let component = self.loader.load_code(&origin, &bytes, &digest);
                FileContent::Code(component.with_context(cannot)?)
            }
        };
        Ok(Some(ComponentFile {
            owner: Some(owner),
            digest,
            content,
        }))
    }

    /// Returns the definitions in the file beside a component, which are used until the component
    /// is compiled. Returns `None` for a component that has or needs a pin, because a pin does not
    /// cover that file.
    fn declared_tools(&self, file: &Path, digest: &str) -> Option<Vec<Definition>> {
        let beside = tools_file(file);
        if self.rules.has_or_needs_pin(file) || !self.loader.has_cache() || !beside.exists() {
            return None;
        }
        let read = || {
            self.rules.trust.check(&beside)?;
            read_beside(file, digest, &self.loader.opener)
        };
        read()
            .inspect_err(|error| tracing::warn!("cannot use `{}`: {error:#}", beside.display()))
            .ok()
    }

    fn compiles_nothing(&self) -> bool {
        matches!(self.stage, Stage::Compiled)
    }

    /// Returns the earlier host's component of this file.
    fn earlier_of(&self, file: &Path) -> Option<&'a LoadedComponent> {
        let earlier = self.stage.earlier().iter();
        let mut from_files = earlier.filter(|earlier| earlier.owner.is_some());
        from_files.find(|earlier| Path::new(&earlier.component.origin) == file)
    }

    /// Returns the component of this file in the host that is being replaced, if there is such a
    /// host.
    fn predecessor(&self, file: &Path) -> Option<&'a LoadedComponent> {
        match self.stage {
            Stage::Successor(_) => self.earlier_of(file),
            Stage::Whole | Stage::Compiled | Stage::Rest(_) => None,
        }
    }
}

impl LoadedComponent {
    fn new(component: ToolComponent, owner: Option<u32>, definitions: Vec<Definition>) -> Self {
        let component = Arc::new(component);
        let tool = |definition| Arc::new(Tool::new(definition, &component));
        let tools = definitions.into_iter().map(tool).collect();
        Self {
            component,
            tools,
            owner,
            is_declared: false,
        }
    }

    fn has_same_tools(&self, other: &Self) -> bool {
        let tools = self.tools.iter().map(|tool| &tool.definition);
        tools.eq(other.tools.iter().map(|tool| &tool.definition))
    }

    /// Returns whether the component is built in.
    pub(crate) fn is_built_in(&self) -> bool {
        self.owner.is_none()
    }

    fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.definition.name.as_str())
    }
}

impl IntakeRules<'_> {
    /// Returns the file that has the bytes of a component. For a named component, `file` is only
    /// its name.
    fn content_file<'f>(&'f self, file: &'f Path) -> &'f Path {
        let named = file.to_str().and_then(|name| self.named.get(name));
        named.map_or(file, |content| content)
    }

    /// Returns whether `file` is the name of a named component with a pin. The pin fixes the
    /// component's bytes, so anybody may own the file that has them.
    fn has_pinned_content(&self, file: &Path) -> bool {
        let name = file.to_str();
        name.is_some_and(|name| self.named.contains_key(name) && self.pins.contains_key(name))
    }

    /// Checks that a component of this digest may be loaded from this file.
    fn check_pin(&self, file: &Path, digest: &str) -> anyhow::Result<()> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let cannot = || cannot_load(&file.display().to_string());
        if let Some(why) = self.denied.get(digest) {
            bail!("{}: {why}", cannot());
        }
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

    /// Returns whether a grant or a pin names the file of a component.
    fn is_named(&self, loaded: &LoadedComponent) -> bool {
        self.grants.contains_key(loaded.component.grant_name()) || self.is_pinned(loaded)
    }

    /// Returns whether a file has a pin, or needs one.
    fn has_or_needs_pin(&self, file: &Path) -> bool {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        self.require_pins || self.pins.contains_key(&*name)
    }

    fn is_pinned(&self, loaded: &LoadedComponent) -> bool {
        self.pins.contains_key(loaded.component.grant_name())
    }

    /// Returns a component as a candidate for admission.
    fn candidate<'l>(&self, loaded: &'l LoadedComponent) -> Candidate<'l> {
        let file = loaded.component.grant_name();
        Candidate {
            origin: &loaded.component.origin,
            digest: &loaded.component.digest,
            tools: loaded.tool_names().collect(),
            claim: match (loaded.is_built_in(), self.grants.contains_key(file)) {
                (true, _) => Claim::BuiltIn,
                (false, true) => Claim::Granted { file },
                (false, false) if self.is_pinned(loaded) => Claim::Pinned,
                (false, false) => Claim::None,
            },
        }
    }
}

/// Returns the tools of all components in order.
pub(crate) fn tools_of(components: &[LoadedComponent]) -> impl Iterator<Item = &Arc<Tool>> {
    components.iter().flat_map(|component| &component.tools)
}
