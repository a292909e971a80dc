//! Building a host: opening folders, loading components, working out grants.

mod audit;
mod checks;
mod config;
mod offer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use audit::AuditSettings;

use super::components::{ComponentIntake, IntakeRules, Stage};
use super::{Host, Inner, ResourceReader, Runtime, ServedTool};
use crate::config::PromptLimits;
use skillhost_sandbox::component::cache::{ComponentCache, IndexEntry};
use skillhost_sandbox::component::compile::{Compilation, Compiler, ProgressCallback};
use skillhost_sandbox::component::embedded::SKILL_RESOURCES;
use skillhost_sandbox::component::{Loader, Tool};
use skillhost_sandbox::engine::{self, EpochEngine};
use skillhost_sandbox::granted_skills::GrantedSkills;
use skillhost_sandbox::tool::grant::{Defaults, Grant};
use skillhost_sandbox::tool::limits::{CompileLimits, Limits, Load};
use skillhost_sandbox::tool::observer::Observer;
use skillhost_sandbox::tool::offer::{ToolSet, Wording};
use skillhost_skills::catalog::{Catalog, SkillsRoot};
use skillhost_skills::entries::EntryCursor;
use skillhost_skills::guard;
use skillhost_skills::search::{SearchOffer, SkillIndex};
use skillhost_skills::trust::Trust;

/// The bytes of an answer that say how the file in it is encoded, and a little more.
const ENCODING_NOTE: usize = 256;

/// The settings from which a host is built. See [`Host::builder`].
#[derive(Clone, Default)]
pub struct HostBuilder {
    skills: Vec<SkillsRoot>,
    tools: Vec<PathBuf>,
    components: Vec<PathBuf>,
    home: Option<PathBuf>,
    cache: Option<PathBuf>,
    new_cache_entries: Option<PathBuf>,
    disabled: BTreeSet<String>,
    offer: ToolSet,
    wording: Wording,
    descriptions: BTreeMap<String, String>,
    without_help: bool,
    grants: BTreeMap<String, Grant>,
    defaults: Defaults,
    load: Load,
    without_embedded: bool,
    unlimited: bool,
    progress: Option<Arc<ProgressCallback>>,
    audit: AuditSettings,
    observer: Option<Arc<dyn Observer>>,
    pins: BTreeMap<String, String>,
    require_pins: bool,
    require_components: bool,
    trust: Trust,
    /// The configuration's name in messages.
    configuration: Option<String>,
    compiler: Option<PathBuf>,
    compile_limits: CompileLimits,
    index: Option<Arc<dyn SkillIndex>>,
    search_offer: SearchOffer,
    prompt_limits: PromptLimits,
}

impl HostBuilder {
    /// Adds a folder of skills. The first folder that has a skill wins.
    pub fn skills(self, folder: impl Into<PathBuf>) -> Self {
        self.skills_root(SkillsRoot::new(folder))
    }

    /// Adds a folder of skills, with a choice about symlinks and depth.
    pub fn skills_root(mut self, root: SkillsRoot) -> Self {
        self.skills.push(root);
        self
    }

    /// Adds a folder of tool components: every `.wasm` file in it. The folder
    /// and the files must be [trusted](HostBuilder::trust).
    pub fn tools(mut self, folder: impl Into<PathBuf>) -> Self {
        self.tools.push(folder.into());
        self
    }

    /// Adds one tool component, after those of the folders.
    pub fn component(mut self, file: impl Into<PathBuf>) -> Self {
        self.components.push(file.into());
        self
    }

    /// Sets the folder that paths are relative to when a call names no skill.
    /// Default: none, and such calls are refused.
    pub fn home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.home = Some(folder.into());
        self
    }

    /// Keeps compiled components in this folder, so that the next start takes
    /// milliseconds. It must be the user's own. Default: none.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// Puts new entries of the cache, which are code, into another folder. Nothing should run
    /// them that trusts this process less.
    pub fn new_cache_entries(mut self, folder: impl Into<PathBuf>) -> Self {
        self.new_cache_entries = Some(folder.into());
        self
    }

    /// Leaves a tool out: it is not offered and cannot be called.
    pub fn disable(mut self, tool: impl Into<String>) -> Self {
        self.disabled.insert(tool.into());
        self
    }

    /// Sets whether a failure comes with [help](crate::CallError::help) for the model:
    /// the names that were meant, what a folder holds. Default: yes.
    pub fn help(mut self, wanted: bool) -> Self {
        self.without_help = !wanted;
        self
    }

    /// Checks that the host will have [resources](Host::skill_resources).
    pub fn serves_resources(&self) -> bool {
        !self.without_embedded && !self.disabled.contains(SKILL_RESOURCES)
    }

    /// Sets what a component may do; see [`Grant`]. Name it by its file, such as
    /// `count_lines.wasm`, and a built-in one by its tool. The grant covers all tools
    /// that the component defines, and replaces an earlier one.
    ///
    /// Where two components define one tool, the one that a grant or a
    /// [pin](HostBuilder::pin) names serves. Where both are named, or neither,
    /// both are refused.
    pub fn grant(mut self, component: impl Into<String>, grant: Grant) -> Self {
        self.grants.insert(component.into(), grant);
        self
    }

    /// Sets who may change component files, tools folders and the audit log. The
    /// host refuses those of others. Default: root and the user who runs the host.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Sets the configuration's name in messages, such as its file. Default: the
    /// configuration.
    pub fn configuration(mut self, name: impl Into<String>) -> Self {
        self.configuration = Some(name.into());
        self
    }

    /// Sets the limits of a call, for tools whose grant does not say.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.defaults.limits = limits;
        self
    }

    /// Sets how many calls run and wait at a time.
    pub fn load(mut self, load: Load) -> Self {
        self.load = load;
        self
    }

    /// Allows tools whose grant does not say to read files with several hard links.
    /// One of their names may lie outside the skill. Default: no.
    pub fn hard_links(mut self, allowed: bool) -> Self {
        self.defaults.hard_links = allowed;
        self
    }

    /// Leaves out the tools that come with the host, and
    /// [resources](Host::skill_resources).
    pub fn without_embedded_tools(mut self) -> Self {
        self.without_embedded = true;
        self
    }

    /// Leaves out what limits a call, to measure what limits cost. A guest that
    /// loops then loops forever.
    #[cfg(skillhost_measure)]
    pub fn unlimited(mut self) -> Self {
        self.unlimited = true;
        self
    }

    /// Loads the component file of this name only if its SHA-256 is this, in
    /// hex.
    pub fn pin(mut self, file_name: impl Into<String>, sha256: impl Into<String>) -> Self {
        self.pins.insert(file_name.into(), sha256.into());
        self
    }

    /// Loads no component file that has no [pin](HostBuilder::pin).
    pub fn require_pins(mut self, required: bool) -> Self {
        self.require_pins = required;
        self
    }

    /// Makes [`HostBuilder::build`] fail if a component file cannot be loaded.
    /// Default: it is one of the host's [`problems`](Host::problems).
    pub fn require_components(mut self, required: bool) -> Self {
        self.require_components = required;
        self
    }

    /// Returns whether a component that cannot be loaded is an error of the build.
    pub fn requires_components(&self) -> bool {
        self.require_components
    }

    /// Sets the index that `find_skills` asks. [`Host::update_index`] makes it read the
    /// skills. Default: none, and no `find_skills`.
    pub fn index(mut self, index: Arc<dyn SkillIndex>) -> Self {
        self.index = Some(index);
        self
    }

    /// Sets when agents see `find_skills`. Default: when the skills do not fit
    /// the [budget](HostBuilder::prompt_budget) of a prompt.
    pub fn search_offer(mut self, offer: SearchOffer) -> Self {
        self.search_offer = offer;
        self
    }

    /// Sets the tokens that [`Host::prompt`] may take. Default: 4,000, which is 2 %
    /// of 200,000.
    pub fn prompt_budget(mut self, tokens: usize) -> Self {
        self.prompt_limits.budget = tokens;
        self
    }

    /// Sets what learns how every call ends. Default: nothing.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Sets the program that compiles component files in a process of its own: one
    /// that calls [`compile_component`](crate::compile_component) when its only
    /// argument is [`COMPILE_ARGUMENT`](crate::COMPILE_ARGUMENT), such as
    /// `skillhost` itself. Default: none. This process then compiles them, and a
    /// component made for it can take all memory and time.
    pub fn compiler(mut self, program: impl Into<PathBuf>) -> Self {
        self.compiler = Some(program.into());
        self
    }

    /// Sets the longest time that compiling a component file may take, in a process
    /// of its own. Default: 60 seconds.
    pub fn compile_time(mut self, time: Duration) -> Self {
        self.compile_limits.compile_time = time;
        self
    }

    /// Sets a callback for each component that has to be compiled, before and after.
    /// Several are compiled at a time.
    pub fn progress(
        mut self,
        callback: impl Fn(&str, Compilation) + Send + Sync + 'static,
    ) -> Self {
        self.progress = Some(Arc::new(callback));
        self
    }

    /// Opens the folders and loads the components. A folder that cannot be opened is
    /// an error. A component that cannot be loaded is one of the host's
    /// [`problems`](Host::problems).
    ///
    /// Component files that are new to the cache are compiled and checked now. The
    /// code of others is made ready at their first call; see [`Host::prepare`].
    pub async fn build(self) -> anyhow::Result<Host> {
        self.build_new(Stage::Whole).await
    }

    /// Builds a host as [`HostBuilder::build`] does, but compiles nothing: leaves out
    /// component files that are new to the cache. [`HostBuilder::complete`] adds them.
    ///
    /// A component `NAME.wasm` that is new to the cache, and has no pin, is not left out if
    /// `NAME.tools.json` beside it has its definitions; see [`Inspection::tools_file`].
    ///
    /// [`Inspection::tools_file`]: crate::Inspection::tools_file
    ///
    /// While any is left out, a component file without a grant or a pin is left out
    /// too: one of the others may have a better claim to its tools' names.
    pub async fn build_compiled(self) -> anyhow::Result<Host> {
        self.build_new(Stage::Compiled).await
    }

    /// Builds the whole host after [`HostBuilder::build_compiled`], on the same engine.
    /// Which component serves a name is decided for all of them together, as
    /// [`HostBuilder::build`] decides it.
    pub async fn complete(self, compiled: &Host) -> anyhow::Result<Host> {
        let runtime = compiled.0.runtime.clone();
        self.build_on(runtime, Stage::Rest(&compiled.0.components))
            .await
    }

    async fn build_new(self, stage: Stage<'_>) -> anyhow::Result<Host> {
        guard::check_machine()?;
        let memory = self.most_memory();
        self.check_memory(engine::calls_memory(&self.load))?;
        let engine = EpochEngine::new(&self.load, memory, !self.unlimited)?;
        let runtime = Runtime {
            engine,
            memory,
            audit: self.audit.open(&self.trust)?,
        };
        self.build_on(runtime, stage).await
    }

    /// Builds a host in the place of an earlier one: on its engine, with its slots
    /// for calls and its audit log, so that limits hold for calls of both together.
    /// The builder's [`load`] and [`audit`] do not count. Components that have not
    /// changed are taken over as they are. One that has changed and cannot be loaded
    /// is a problem, and its earlier tools stay.
    ///
    /// [`load`]: HostBuilder::load
    /// [`audit`]: HostBuilder::audit
    pub async fn rebuild(self, earlier: &Host) -> anyhow::Result<Host> {
        let runtime = earlier.0.runtime.clone();
        if self.most_memory() > runtime.memory {
            bail!(
                "the engine that runs was set up for calls of {} bytes of memory, fewer than are \
                 asked for now",
                runtime.memory
            );
        }
        self.build_on(runtime, Stage::Successor(&earlier.0.components))
            .await
    }

    async fn build_on(self, runtime: Runtime, stage: Stage<'_>) -> anyhow::Result<Host> {
        let catalog = Catalog::open(&self.skills, self.home.as_deref())?;
        let catalog = Arc::new(catalog.hard_links(self.defaults.hard_links));
        let mut problems = Vec::new();
        let cache = self.cache.as_deref().and_then(|folder| {
            ComponentCache::open(folder, self.new_cache_entries.as_deref(), &self.trust)
                .inspect_err(|error| problems.push(format!("{error:#}")))
                .ok()
                .map(Arc::new)
        });
        let index = self.index.clone();
        let index = index.filter(|_| self.search_offer != SearchOffer::Never);
        if let (Some(index), Some(cache)) = (&index, &cache) {
            index.set_storage(Arc::new(IndexEntry::new(Arc::clone(cache), &self.skills)));
        }
        let compiler = Compiler {
            program: self.compiler.clone(),
            time: self.compile_limits.compile_time,
            functions: None,
        };
        // A component may need what its tools are granted.
        let mut loading = self.defaults.limits.clone();
        loading.memory = self.most_memory();
        let loader = Loader {
            compiler,
            engine: runtime.engine.clone(),
            cache,
            limits: loading,
            progress: self.progress.clone(),
        };
        let mut components = ComponentIntake {
            loader: Arc::new(loader),
            stage,
            rules: IntakeRules {
                pins: &self.pins,
                require_pins: self.require_pins,
                grants: &self.grants,
                trust: &self.trust,
            },
            loaded: Vec::new(),
            left_out: 0,
        };
        if !self.without_embedded {
            components.add_embedded()?;
        }
        let files = self.component_files()?;
        let refused = components.add_files(files.clone()).await;
        let is_successor = matches!(stage, Stage::Successor(_));
        if self.require_components && !is_successor && !refused.is_empty() {
            bail!(
                "{}; `require_components = false` would serve without",
                refused.join("; ")
            );
        }
        let refused_components = refused.len();
        problems.extend(refused);
        let left_out = components.left_out;
        let components = components.loaded;
        let is_complete = left_out == 0 && !components.iter().any(|loaded| loaded.is_declared);
        // A tool may be missing because its component is refused, and a file may
        // have gone since. The rest of the host works.
        for (checked, may_be_refused) in [
            (
                self.check_tools(&components),
                refused_components + left_out > 0,
            ),
            (self.check_files(&components, &files), false),
        ] {
            match checked {
                Err(error) if is_successor || may_be_refused => {
                    problems.push(error.to_string());
                }
                checked => checked?,
            }
        }
        problems.extend(self.missing_skills(&catalog));
        let engine = &runtime.engine;
        let granted = |(tool, own): (&Arc<Tool>, bool)| {
            let grant = self.grants.get(tool.component.grant_name());
            let terms = grant
                .cloned()
                .unwrap_or_default()
                .terms(own, &self.defaults);
            let name = &tool.definition.name;
            ServedTool {
                quota: engine.quota(name, own, terms.limits.memory),
                skills: GrantedSkills::new(
                    Arc::clone(&catalog),
                    index.clone(),
                    terms.skills.clone(),
                ),
                description: self.description(name, own),
                terms,
                tool: Arc::clone(tool),
                gives_help: !self.without_help,
            }
        };
        let mut tools: Vec<ServedTool> = components
            .iter()
            .flat_map(|component| {
                let own = component.is_own();
                component.tools.iter().map(move |tool| (tool, own))
            })
            .filter(|(tool, own)| self.has_tool(&tool.definition.name, *own))
            .map(granted)
            .filter(|served| index.is_some() || !served.is_search())
            .collect();
        let own = !self.without_embedded;
        let resources = tools
            .extract_if(.., |granted| {
                own && granted.tool.definition.name == SKILL_RESOURCES
            })
            .next()
            .map(resource_reader);
        let inner = Arc::new(Inner {
            catalog,
            runtime,
            observer: self.observer,
            components,
            tools,
            resources,
            problems,
            refused_components,
            is_complete,
            index,
            search_offer: self.search_offer,
            prompt_budget: self.prompt_limits.budget,
        });
        Ok(Host(inner, None))
    }

    /// Returns the folders of skills, in their order.
    pub fn skills_roots(&self) -> &[SkillsRoot] {
        &self.skills
    }

    /// Returns the folders of tool components, in their order.
    pub fn tool_folders(&self) -> &[PathBuf] {
        &self.tools
    }

    /// Returns the memory that the engine must have ready for a call.
    fn most_memory(&self) -> usize {
        let granted = self
            .grants
            .values()
            .filter_map(|grant| grant.limits.as_ref());
        let all = granted.chain([&self.defaults.limits]);
        all.map(|limits| limits.memory).max().unwrap_or_default()
    }

    /// Returns the `.wasm` files of the tool folders, in order of their names, and
    /// then the components that were named themselves.
    fn component_files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = Vec::new();
        // A folder that is named twice, by whatever path, is one folder.
        let mut listed = BTreeSet::new();
        for folder in &self.tools {
            let cannot = || format!("cannot use the tools folder `{}`", folder.display());
            self.trust.check(folder).with_context(cannot)?;
            if !listed.insert(folder.canonicalize().with_context(cannot)?) {
                continue;
            }
            let mut found = Vec::new();
            let handle = Dir::open_ambient_dir(folder, ambient_authority());
            let entries = handle.and_then(EntryCursor::of).with_context(cannot)?;
            for entry in entries {
                let path = folder.join(entry.with_context(cannot)?.name);
                if path
                    .extension()
                    .is_some_and(|extension| extension == "wasm")
                {
                    found.push(path);
                }
            }
            found.sort();
            files.append(&mut found);
        }
        files.extend_from_slice(&self.components);
        Ok(files)
    }
}

/// Returns the reader of resources. Its answers may be longer than the operator's
/// limit by what base64 adds: the limit counts a file's bytes, text or not.
fn resource_reader(mut tool: ServedTool) -> ResourceReader {
    let max_bytes = tool.terms.limits.output;
    let encoded = max_bytes.div_ceil(3).saturating_mul(4);
    tool.terms.limits.output = encoded.saturating_add(ENCODING_NOTE);
    // No model reads its failures.
    tool.gives_help = false;
    ResourceReader { tool, max_bytes }
}
