//! Builds a host: opens folders, loads components and resolves grants.

mod audit;
mod checks;
mod offer;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::components::{ComponentIntake, IntakeRules, LoadedComponent, Stage};
use super::{Host, Inner, ProgramTool, ResourceReader, Runtime, ServedTool};
use crate::config::{Config, ConfiguredPath, ConfiguredRoot};
use skillhost_egress::EgressClient;
use skillhost_sandbox::component::cache::{ComponentCache, IndexEntry};
use skillhost_sandbox::component::compile::{Compilation, Compiler, ProgressCallback};
use skillhost_sandbox::component::embedded::SKILL_RESOURCES;
use skillhost_sandbox::component::{Loader, Tool};
use skillhost_sandbox::engine::{self, EpochEngine};
use skillhost_sandbox::granted_skills::GrantedSkills;
use skillhost_sandbox::tool::audit::CheckpointSigner;
use skillhost_sandbox::tool::consent::{ConsentFile, ConsentRules};
use skillhost_sandbox::tool::grant::{Defaults, Grant};
use skillhost_sandbox::tool::limits::{Limits, Load};
use skillhost_sandbox::tool::observer::Observer;
use skillhost_skills::broker::{Broker, Opener};
use skillhost_skills::catalog::{Catalog, SkillsRoot};
use skillhost_skills::entries::EntryCursor;
use skillhost_skills::guard;
use skillhost_skills::omitted::OmittedNames;
use skillhost_skills::search::{SearchOffer, SkillIndex};
use skillhost_skills::trust::Trust;

/// The bytes that an answer for a resource has besides the file's contents: the name of the
/// encoding, with a margin.
const ENCODING_NOTE: usize = 256;

/// The settings from which a host is built. See [`Host::builder`].
#[derive(Clone, Default)]
pub struct HostBuilder {
    /// The settings that a file can have.
    config: Config,
    /// The configuration's name in messages.
    configuration: Option<String>,
    components: Vec<PathBuf>,
    cache: Option<PathBuf>,
    new_cache_entries: Option<PathBuf>,
    without_embedded: bool,
    unlimited: bool,
    progress: Option<Arc<ProgressCallback>>,
    audit_signer: Option<Arc<dyn CheckpointSigner>>,
    observer: Option<Arc<dyn Observer>>,
    trust: Trust,
    compiler: Option<PathBuf>,
    index: Option<Arc<dyn SkillIndex>>,
    opener: Opener,
    egress: Option<EgressClient>,
    program_tools: Vec<Arc<dyn ProgramTool>>,
}

impl HostBuilder {
    /// Creates a builder from a configuration. Fails if a configured folder does not exist.
    ///
    /// Settings that a configuration does not have, such as [trust](HostBuilder::trust),
    /// cache and compiler, keep their defaults.
    pub fn from_config(config: &Config) -> anyhow::Result<Self> {
        config.check_folders()?;
        Ok(Self {
            configuration: config.file.as_ref().map(|file| format!("`{file}`")),
            config: config.clone(),
            ..Self::default()
        })
    }

    /// Adds a folder of skills. If several folders have a skill of the same name, the first wins.
    pub fn skills(self, folder: impl Into<PathBuf>) -> Self {
        self.skills_root(SkillsRoot::new(folder))
    }

    /// Adds a folder of skills, with options for symlinks and depth.
    pub fn skills_root(mut self, root: SkillsRoot) -> Self {
        let place = "`HostBuilder::skills`".to_owned();
        self.config.skills.push(ConfiguredRoot { root, place });
        self
    }

    /// Adds a folder of tool components: every `.wasm` file in it. The folder
    /// and the files must be [trusted](HostBuilder::trust).
    pub fn tools(mut self, folder: impl Into<PathBuf>) -> Self {
        let folder = ConfiguredPath::new(folder, "`HostBuilder::tools`");
        self.config.tools.push(folder);
        self
    }

    /// Adds one tool component. It is loaded after the components of the folders.
    pub fn component(mut self, file: impl Into<PathBuf>) -> Self {
        self.components.push(file.into());
        self
    }

    /// Adds one tool component under a name other than its file's.
    ///
    /// Grants, pins and messages use `name`, such as `csv.wasm`. The component is loaded after
    /// those of the folders.
    pub fn named_component(mut self, name: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        self.config
            .named_components
            .insert(name.into(), file.into());
        self
    }

    /// Sets the folder for relative paths in calls that name no skill. Default: none; such calls
    /// then fail.
    pub fn home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config.home = Some(ConfiguredPath::new(folder, "`HostBuilder::home`"));
        self
    }

    /// Keeps compiled components in this folder, so that the next start takes
    /// milliseconds. The folder must belong to the user. Default: none.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// Writes new cache entries to another folder. Entries are machine code: only processes that
    /// trust this process may load them.
    pub fn new_cache_entries(mut self, folder: impl Into<PathBuf>) -> Self {
        self.new_cache_entries = Some(folder.into());
        self
    }

    /// Disables a tool: it is not offered and cannot be called.
    pub fn disable(mut self, tool: impl Into<String>) -> Self {
        self.config.disabled_tools.insert(tool.into());
        self
    }

    /// Sets whether failures include [help](crate::CallError::help) for the model, such as
    /// similar names and the entries of a folder, and whether answers get notes. Default: yes.
    pub fn help(mut self, wanted: bool) -> Self {
        self.config.help = Some(wanted);
        self
    }

    /// Returns whether the host will have [resources](Host::skill_resources).
    pub fn serves_resources(&self) -> bool {
        !self.without_embedded && !self.config.disabled_tools.contains(SKILL_RESOURCES)
    }

    /// Sets the grant of a component; see [`Grant`].
    ///
    /// Identify the component by its file name, such as `count_lines.wasm`, or a built-in
    /// component by its tool. The grant covers all tools of the component, and replaces an earlier
    /// grant.
    ///
    /// If two components define the same tool, the one that a grant or a
    /// [pin](HostBuilder::pin) names is used. If both or neither are named, both are
    /// refused.
    pub fn grant(mut self, component: impl Into<String>, grant: Grant) -> Self {
        self.config.grants.insert(component.into(), grant);
        self
    }

    /// Sets the users who may own component files, tools folders and the audit log. The
    /// host refuses files of other users. Default: root and the user who runs the host.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Sets the configuration's name in messages, such as its file. Default: "the
    /// configuration".
    pub fn configuration(mut self, name: impl Into<String>) -> Self {
        self.configuration = Some(name.into());
        self
    }

    /// Sets the limits of a call, for tools whose grant sets none.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }

    /// Sets the number of calls that may run and wait at a time.
    pub fn load(mut self, load: Load) -> Self {
        self.config.load = load;
        self
    }

    /// Sets whether files with several hard links may be read, for tools whose grant does not
    /// decide this. One of the links may be outside the skill. Default: no.
    pub fn hard_links(mut self, allowed: bool) -> Self {
        self.config.hard_links = allowed;
        self
    }

    /// Sets the names that built-in tools and resources leave out of lists of a skill's files.
    pub fn omitted_names(mut self, names: OmittedNames) -> Self {
        self.config.omitted_names = names;
        self
    }

    /// Disables the built-in tools and [resources](Host::skill_resources).
    pub fn without_embedded_tools(mut self) -> Self {
        self.without_embedded = true;
        self
    }

    /// Removes all limits of calls, to measure their cost. A guest may then loop forever.
    #[cfg(skillhost_measure)]
    pub fn unlimited(mut self) -> Self {
        self.unlimited = true;
        self
    }

    /// Pins a component file by name: it is loaded only if this is its SHA-256, in hex.
    pub fn pin(mut self, file_name: impl Into<String>, sha256: impl Into<String>) -> Self {
        self.config.pins.insert(file_name.into(), sha256.into());
        self
    }

    /// Refuses component files without a [pin](HostBuilder::pin).
    pub fn require_pins(mut self, required: bool) -> Self {
        self.config.require_pins = required;
        self
    }

    /// Sets whether [`HostBuilder::build`] fails if a component file cannot be loaded. Default: no;
    /// the error becomes one of the host's [`problems`](Host::problems).
    pub fn require_components(mut self, required: bool) -> Self {
        self.config.require_components = Some(required);
        self
    }

    /// Takes the settings that packages change from `config`, for [`HostBuilder::rebuild`].
    ///
    /// These are grants, pins, denied components, [named
    /// components](HostBuilder::named_component), and the folders and names of skills.
    #[must_use]
    pub fn with_packages_of(mut self, config: Config) -> Self {
        self.config.grants = config.grants;
        self.config.pins = config.pins;
        self.config.require_pins = config.require_pins;
        self.config.denied_components = config.denied_components;
        self.config.named_components = config.named_components;
        self.config.skills = config.skills;
        self.config.withheld_skills = config.withheld_skills;
        self
    }

    /// Returns whether the build fails if a component cannot be loaded.
    pub fn requires_components(&self) -> bool {
        self.config.require_components == Some(true)
    }

    /// Sets the index for `find_skills`. [`Host::update_index`] fills it. Default: none;
    /// there is no `find_skills`.
    pub fn index(mut self, index: Arc<dyn SkillIndex>) -> Self {
        self.index = Some(index);
        self
    }

    /// Sets when agents see `find_skills`. Default: when the skills exceed the
    /// [budget](HostBuilder::prompt_budget) of a prompt.
    pub fn search_offer(mut self, offer: SearchOffer) -> Self {
        self.config.search_offer = offer;
        self
    }

    /// Sets the maximum number of tokens of [`Host::prompt`]. Default: 4,000, which is 2 % of a
    /// context of 200,000 tokens.
    pub fn prompt_budget(mut self, tokens: usize) -> Self {
        self.config.prompt.budget = tokens;
        self
    }

    /// Sets the maximum number of bytes of an answer's text that a model reads; see
    /// [`answer_bound`](Host::answer_bound). Default: no bound.
    pub fn model_output(mut self, bytes: usize) -> Self {
        self.config.answers.model_output = Some(bytes);
        self
    }

    /// Sets an observer, which gets the outcome of each call. Default: none.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Sets a program that compiles component files in a separate process.
    ///
    /// The program must call [`compile_component`](crate::compile_component) when its only argument
    /// is [`COMPILE_ARGUMENT`](crate::COMPILE_ARGUMENT), as `skillhost` does.
    ///
    /// Default: none. This process then compiles components itself, and a malicious component can
    /// use up this process's memory and time.
    pub fn compiler(mut self, program: impl Into<PathBuf>) -> Self {
        self.compiler = Some(program.into());
        self
    }

    /// Sets the maximum time to compile a component file in a separate process. Default: 60
    /// seconds.
    pub fn compile_time(mut self, time: Duration) -> Self {
        self.config.compile_limits.compile_time = time;
        self
    }

    /// Sets a callback that runs before and after each compilation. Several components are
    /// compiled at a time.
    pub fn progress(
        mut self,
        callback: impl Fn(&str, Compilation) + Send + Sync + 'static,
    ) -> Self {
        self.progress = Some(Arc::new(callback));
        self
    }

    /// Sets the broker, which a host in a confined process needs.
    ///
    /// The broker opens folders that replaced configured ones, and starts the
    /// [compiler](HostBuilder::compiler). Default: none; the host does this itself. The trait
    /// [`Broker`] is not stable.
    pub fn broker(mut self, broker: Arc<dyn Broker>) -> Self {
        self.opener = Opener::with_broker(broker);
        self
    }

    /// Sets the egress process, which sends the HTTP requests that [grants](Grant::network) allow.
    ///
    /// Start it with the [settings](Config::egress) before the process is confined. Default: none;
    /// all requests are denied.
    pub fn egress(mut self, egress: EgressClient) -> Self {
        self.egress = Some(egress);
        self
    }

    /// Adds a tool that the program answers itself. A component's tool of the same name is not
    /// served.
    pub fn program_tool(mut self, tool: Arc<dyn ProgramTool>) -> Self {
        self.program_tools.push(tool);
        self
    }

    /// Returns the opener of the host's files. It asks the [broker](HostBuilder::broker), if
    /// there is one.
    pub fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Opens the folders and loads the components.
    ///
    /// Fails if a folder cannot be opened. A component that cannot be loaded becomes one of the
    /// host's [`problems`](Host::problems).
    ///
    /// Compiles and checks component files that are not in the cache. The code of files in the
    /// cache is loaded at the first call; see [`Host::prepare`].
    pub async fn build(self) -> anyhow::Result<Host> {
        self.build_new(Stage::Whole).await
    }

    /// Builds a host like [`HostBuilder::build`], but without the components that are not in the
    /// cache. [`HostBuilder::complete`] compiles and adds them.
    ///
    /// A component `NAME.wasm` without a pin is still served if `NAME.tools.json` beside it has its
    /// definitions; see [`Inspection::tools_file`].
    ///
    /// While a component is missing, component files without a grant or a pin are omitted too: the
    /// missing component may have a stronger claim to the names of their tools.
    ///
    /// [`Inspection::tools_file`]: crate::Inspection::tools_file
    pub async fn build_compiled(self) -> anyhow::Result<Host> {
        self.build_new(Stage::Compiled).await
    }

    /// Builds the complete host after [`HostBuilder::build_compiled`], on the same engine. Compiles
    /// and admits components as [`HostBuilder::build`] does.
    pub async fn complete(self, compiled: &Host) -> anyhow::Result<Host> {
        let runtime = compiled.0.runtime.clone();
        self.build_on(runtime, Stage::Rest(&compiled.0.components))
            .await
    }

    async fn build_new(self, stage: Stage<'_>) -> anyhow::Result<Host> {
        guard::check_machine()?;
        let memory = self.max_memory();
        self.check_memory(engine::calls_memory(&self.config.load))?;
        let engine = EpochEngine::new(&self.config.load, memory, !self.unlimited)?;
        let runtime = Runtime {
            engine,
            memory,
            audit: self.open_audit()?,
        };
        self.build_on(runtime, stage).await
    }

    /// Builds a host that replaces an earlier one.
    ///
    /// Both hosts share the engine, the slots and the audit log, so limits hold for the calls of
    /// both together.
    ///
    /// Ignores the builder's [`load`] and [`audit`]. Reuses unchanged components. If a changed
    /// component cannot be loaded, the host keeps its earlier version and has a
    /// [problem](Host::problems).
    ///
    /// [`load`]: HostBuilder::load
    /// [`audit`]: HostBuilder::audit
    pub async fn rebuild(self, earlier: &Host) -> anyhow::Result<Host> {
        let runtime = earlier.0.runtime.clone();
        if self.max_memory() > runtime.memory {
            bail!(
                "the new limits allow calls more memory than the {} bytes that the running engine \
                 reserves for a call: restart",
                runtime.memory
            );
        }
        self.build_on(runtime, Stage::Successor(&earlier.0.components))
            .await
    }

    async fn build_on(mut self, runtime: Runtime, stage: Stage<'_>) -> anyhow::Result<Host> {
        self.trust = self.trust.with_opener(&self.opener);
        let roots: Vec<_> = self.skills_roots().cloned().collect();
        let home = self.config.home.as_ref().map(|home| home.path.as_path());
        let catalog = Catalog::open_with(&roots, home, &self.opener)?;
        let catalog = catalog.hard_links(self.config.hard_links);
        let catalog = Arc::new(catalog.omitted_names(self.config.omitted_names.clone()));
        let mut problems = Vec::new();
        let cache = self.open_cache(&mut problems);
        let index = self.index.clone();
        let index = index.filter(|_| self.config.search_offer != SearchOffer::Never);
        if let (Some(index), Some(cache)) = (&index, &cache) {
            index.set_storage(Arc::new(IndexEntry::new(Arc::clone(cache), &roots)));
        }
        let mut components = ComponentIntake {
            loader: Arc::new(self.loader(&runtime.engine, cache)),
            stage,
            rules: IntakeRules {
                pins: &self.config.pins,
                require_pins: self.config.require_pins,
                denied: &self.config.denied_components,
                grants: &self.config.grants,
                trust: &self.trust,
                named: &self.config.named_components,
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
        if self.requires_components() && !is_successor && !refused.is_empty() {
            bail!(
                "{}; `require_components = false` would serve without it",
                refused.join("; ")
            );
        }
        let refused_components = refused.len();
        problems.extend(refused);
        let left_out = components.left_out;
        let components = components.loaded;
        let is_complete = left_out == 0 && !components.iter().any(|loaded| loaded.is_declared);
        let may_lack_tools = is_successor || refused_components + left_out > 0;
        problems.extend(problem_if(may_lack_tools, self.check_tools(&components))?);
        problems.extend(problem_if(
            is_successor,
            self.check_files(&components, &files),
        )?);
        problems.extend(self.missing_skills(&catalog));
        let mut tools = self.served_tools(&components, &runtime.engine, &catalog, index.as_ref());
        let has_embedded = !self.without_embedded;
        let resources = tools
            .extract_if(.., |served| {
                has_embedded && served.tool.definition.name == SKILL_RESOURCES
            })
            .next()
            .map(resource_reader);
        let consent = self.consent_rules()?;
        let inner = Arc::new(Inner {
            catalog,
            runtime,
            observer: self.observer,
            components,
            tools,
            resources,
            program_tools: self.program_tools,
            problems,
            refused_components,
            is_complete,
            index,
            search_offer: self.config.search_offer,
            prompt_budget: self.config.prompt.budget,
            model_output: self.config.answers.model_output,
            egress: self.egress,
            consent: Arc::new(consent),
        });
        let host = Host(inner, None);
        Ok(host.without(&BTreeSet::new(), &self.config.withheld_skills))
    }

    /// Returns the rules for consent, with the file that the operator names.
    fn consent_rules(&self) -> anyhow::Result<ConsentRules> {
        let file = self.config.consent_file.as_ref().map(|file| {
            let opened = ConsentFile::open(&file.path, self.trust.clone(), self.opener.clone());
            opened.map(Arc::new).with_context(|| file.place.clone())
        });
        Ok(ConsentRules {
            limits: self.config.consent.clone(),
            file: file.transpose()?,
        })
    }

    /// Opens the cache, if there is one. Without it the host only starts more slowly, so an error
    /// becomes a problem and the build continues.
    fn open_cache(&self, problems: &mut Vec<String>) -> Option<Arc<ComponentCache>> {
        let folder = self.cache.as_deref()?;
        ComponentCache::open(folder, self.new_cache_entries.as_deref(), &self.trust)
            .inspect_err(|error| problems.push(format!("{error:#}")))
            .ok()
            .map(Arc::new)
    }

    fn loader(&self, engine: &EpochEngine, cache: Option<Arc<ComponentCache>>) -> Loader {
        // A component may already need all the memory of its grant while it is loaded.
        let mut limits = self.config.limits.clone();
        limits.memory = self.max_memory();
        Loader {
            compiler: Compiler {
                program: self.compiler.clone(),
                time: self.config.compile_limits.compile_time,
                functions: None,
            },
            engine: engine.clone(),
            cache,
            limits,
            progress: self.progress.clone(),
            opener: self.opener.clone(),
        }
    }

    /// Returns the tools of the components that this host serves, with their grants.
    fn served_tools(
        &self,
        components: &[LoadedComponent],
        engine: &EpochEngine,
        catalog: &Arc<Catalog>,
        index: Option<&Arc<dyn SkillIndex>>,
    ) -> Vec<ServedTool> {
        let defaults = Defaults {
            hard_links: self.config.hard_links,
            limits: self.config.limits.clone(),
        };
        let served = |(tool, is_built_in): (&Arc<Tool>, bool)| {
            let grant = self.config.grants.get(tool.component.grant_name());
            let grant = grant.cloned().unwrap_or_default();
            let terms = grant.terms(is_built_in, &defaults);
            let name = &tool.definition.name;
            ServedTool {
                quota: engine.quota(name, is_built_in, terms.limits.memory),
                skills: GrantedSkills::new(
                    Arc::clone(catalog),
                    index.cloned(),
                    terms.skills.clone(),
                ),
                description: self.description(name, is_built_in),
                terms,
                tool: Arc::clone(tool),
                gives_help: self.config.help != Some(false),
            }
        };
        components
            .iter()
            .flat_map(|component| {
                let is_built_in = component.is_built_in();
                component.tools.iter().map(move |tool| (tool, is_built_in))
            })
            .filter(|(tool, is_built_in)| self.has_tool(&tool.definition.name, *is_built_in))
            .map(served)
            .filter(|served| index.is_some() || !served.is_search())
            .collect()
    }

    /// Returns the folders of skills in order.
    pub fn skills_roots(&self) -> impl Iterator<Item = &SkillsRoot> {
        self.config.skills.iter().map(|skills| &skills.root)
    }

    /// Returns the names of skills that are not served, whichever folder has them.
    pub fn withheld_skills(&self) -> &BTreeSet<String> {
        &self.config.withheld_skills
    }

    /// Returns the files of [named components](HostBuilder::named_component), by name.
    pub fn named_components(&self) -> &BTreeMap<String, PathBuf> {
        &self.config.named_components
    }

    /// Returns the folders of tool components in order.
    pub fn tool_folders(&self) -> impl Iterator<Item = &Path> {
        self.config.tools.iter().map(|tools| &*tools.path)
    }

    /// Returns the bytes of memory that the engine reserves for a call.
    fn max_memory(&self) -> usize {
        let grants = self.config.grants.values();
        let granted = grants.filter_map(|grant| grant.limits.as_ref());
        let all = granted.chain([&self.config.limits]);
        all.map(|limits| limits.memory).max().unwrap_or_default()
    }

    /// Returns the component files in the order of loading: the files of each tools folder, sorted;
    /// the names of named components; then the files of [`HostBuilder::component`].
    fn component_files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = Vec::new();
        // Two paths may lead to the same folder.
        let mut listed = BTreeSet::new();
        for folder in self.tool_folders() {
            let cannot = || format!("cannot use the tools folder `{}`", folder.display());
            self.trust.check(folder).with_context(cannot)?;
            if !listed.insert(folder.canonicalize().with_context(cannot)?) {
                continue;
            }
            let mut found = Vec::new();
            let handle = Dir::open_ambient_dir(folder, ambient_authority()).with_context(cannot)?;
            let entries = EntryCursor::open(handle.as_fd(), ".", &self.opener);
            for entry in entries.with_context(cannot)? {
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
        files.extend(self.config.named_components.keys().map(PathBuf::from));
        files.extend_from_slice(&self.components);
        Ok(files)
    }
}

/// Returns the error of a check as a problem if `is_tolerated`, and otherwise as an error.
///
/// A host that replaces another one must keep serving in spite of such errors. Also, a tool may be
/// missing only because its component was refused or its file was removed.
fn problem_if(is_tolerated: bool, checked: anyhow::Result<()>) -> anyhow::Result<Option<String>> {
    match checked {
        Err(error) if is_tolerated => Ok(Some(error.to_string())),
        checked => checked.map(|()| None),
    }
}

/// Returns the reader of resources. The tool's answers may exceed the operator's limit on answers
/// by the overhead of base64, because the limit applies to a file's bytes.
fn resource_reader(mut tool: ServedTool) -> ResourceReader {
    let max_bytes = tool.terms.limits.output;
    let encoded = max_bytes.div_ceil(3).saturating_mul(4);
    tool.terms.limits.output = encoded.saturating_add(ENCODING_NOTE);
    // No model sees the tool's failures.
    tool.gives_help = false;
    ResourceReader { tool, max_bytes }
}
