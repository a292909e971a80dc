//! Building a host: folders opened, components loaded, grants worked out.

mod checks;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::components::{Components, Loaded, Rules};
use super::{Granted, Host, Inner, Resources, Running};
use crate::component::cache::ComponentCache;
use crate::component::compile::{self, Compilation, Compiler, ProgressCallback};
use crate::component::embedded::SKILL_RESOURCES;
use crate::component::{Loader, Tool};
use crate::sandbox::engine::{self, EpochEngine};
use crate::sandbox::granted_skills::GrantedSkills;
use crate::skill::catalog::{Catalog, SkillsRoot};
use crate::skill::guard;
use crate::tool::audit::{Audit, AuditMode};
use crate::tool::grant::{Defaults, Grant};
use crate::tool::limits::{Limits, Load};
use crate::tool::observer::Observer;
use crate::trust::Trust;

/// Bytes of an answer that say how the file in it is encoded, and a little more.
const ENCODING_NOTE: usize = 256;

/// What a host is built from. See [`Host::builder`].
#[derive(Clone, Default)]
pub struct HostBuilder {
    skills: Vec<SkillsRoot>,
    tools: Vec<PathBuf>,
    components: Vec<PathBuf>,
    home: Option<PathBuf>,
    cache: Option<PathBuf>,
    disabled: BTreeSet<String>,
    grants: BTreeMap<String, Grant>,
    defaults: Defaults,
    load: Load,
    without_embedded: bool,
    unlimited: bool,
    progress: Option<Arc<ProgressCallback>>,
    audit: Option<(PathBuf, AuditMode)>,
    observer: Option<Arc<dyn Observer>>,
    pins: BTreeMap<String, String>,
    require_pins: bool,
    require_components: bool,
    trust: Trust,
    /// Whether component files are trusted whoever can change them.
    /// What messages call the configuration.
    configuration: Option<String>,
    compiler: Option<PathBuf>,
    compile_time: Option<Duration>,
}

impl HostBuilder {
    /// Adds a folder of skills. Folders are asked in the order in which they
    /// were added, and the first that has a skill wins.
    pub fn skills(self, folder: impl Into<PathBuf>) -> Self {
        self.skills_root(SkillsRoot {
            path: folder.into(),
            follow_links: false,
        })
    }

    /// Like [`HostBuilder::skills`], with a choice about symlinks.
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

    /// The folder that paths are relative to when a call names no skill.
    /// Default: none, such calls are refused.
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

    /// Leaves a tool out: it is not offered and cannot be called.
    pub fn disable(mut self, tool: impl Into<String>) -> Self {
        self.disabled.insert(tool.into());
        self
    }

    /// Whether the host will have [resources](Host::skill_resources).
    pub fn serves_resources(&self) -> bool {
        !self.without_embedded && !self.disabled.contains(SKILL_RESOURCES)
    }

    /// What a component may do; see [`Grant`]. It is named by its file, such as
    /// `count_lines.wasm`, and a built-in one by its tool. The grant covers all
    /// tools that the component defines, and replaces an earlier one.
    ///
    /// Where two components define one tool, the one that a grant or a
    /// [pin](HostBuilder::pin) names serves. Where both are named, or neither,
    /// both are refused.
    pub fn grant(mut self, component: impl Into<String>, grant: Grant) -> Self {
        self.grants.insert(component.into(), grant);
        self
    }

    /// Who may change component files, tools folders and the audit log. Others'
    /// are refused. Default: root and the user who runs the host.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// What messages call the configuration, such as its file. Default: the
    /// configuration.
    pub fn configuration(mut self, name: impl Into<String>) -> Self {
        self.configuration = Some(name.into());
        self
    }

    /// What one call may cost, for tools whose grant does not say.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.defaults.limits = limits;
        self
    }

    /// How many calls run and wait at a time.
    pub fn load(mut self, load: Load) -> Self {
        self.load = load;
        self
    }

    /// Whether files with several hard links may be read, for tools whose
    /// grant does not say. One of their names may lie outside the skill.
    /// Default: no.
    pub fn hard_links(mut self, allowed: bool) -> Self {
        self.defaults.hard_links = allowed;
        self
    }

    /// Leaves out the five tools that come with the host, and what reads
    /// skills' files as [resources](Host::skill_resources).
    pub fn without_embedded_tools(mut self) -> Self {
        self.without_embedded = true;
        self
    }

    /// Leaves out what limits a call, to measure what it costs. A guest that
    /// loops then loops for ever.
    #[cfg(feature = "measure")]
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

    /// Makes [`HostBuilder::build`] fail where a component file cannot be loaded.
    /// Default: it is one of the host's [`problems`](Host::problems).
    pub fn require_components(mut self, required: bool) -> Self {
        self.require_components = required;
        self
    }

    /// Records every call in this file: one line of JSON each, appended. The
    /// file is made for its owner alone; one that is there must be empty or end
    /// in such a record. `-` is standard error. Default: none.
    pub fn audit(mut self, file: impl Into<PathBuf>, mode: AuditMode) -> Self {
        self.audit = Some((file.into(), mode));
        self
    }

    /// Is told how every call ends. Default: nobody is.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The program that compiles component files, in a process of its own: one
    /// that calls [`compile_component`](crate::compile_component) when its only
    /// argument is [`COMPILE_ARGUMENT`](crate::COMPILE_ARGUMENT), such as
    /// `skillhost` itself. Default: none, they are compiled in this process,
    /// where a component made for it can take all memory and time.
    pub fn compiler(mut self, program: impl Into<PathBuf>) -> Self {
        self.compiler = Some(program.into());
        self
    }

    /// Longest that compiling a component file may take, in a process of its
    /// own. Default: 60 seconds.
    pub fn compile_time(mut self, time: Duration) -> Self {
        self.compile_time = Some(time);
        self
    }

    /// Is told of each component that has to be compiled, before and after.
    /// Several are compiled at a time.
    pub fn progress(mut self, told: impl Fn(&str, Compilation) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(told));
        self
    }

    /// Opens the folders and learns what the tools are. A folder that cannot be
    /// opened is an error; a component that cannot be loaded is one of the
    /// host's [`problems`](Host::problems).
    ///
    /// Component files that no host has seen before are compiled and checked
    /// now. The code of others is made ready at their first call; see
    /// [`Host::prepare`].
    pub async fn build(self) -> anyhow::Result<Host> {
        guard::check_machine()?;
        let memory = self.most_memory();
        self.check_memory(engine::calls_memory(&self.load))?;
        let engine = EpochEngine::new(&self.load, memory, !self.unlimited)?;
        let audit = self.audit.as_ref();
        let audit = audit.map(|(path, mode)| Audit::open(path, *mode, &self.trust));
        let running = Running {
            engine,
            memory,
            audit: audit.transpose()?.map(Arc::new),
        };
        self.build_on(running, None).await
    }

    /// Like [`HostBuilder::build`], in the place of an earlier host: on its
    /// engine, with its slots for calls and its audit log, so that limits hold
    /// for calls of both together. Of the builder's own, [`load`] and [`audit`]
    /// do not count. Components that have not changed are taken over as they
    /// are. One that has changed and cannot be loaded is a problem, and its
    /// earlier tools stay.
    ///
    /// [`load`]: HostBuilder::load
    /// [`audit`]: HostBuilder::audit
    pub async fn rebuild(self, earlier: &Host) -> anyhow::Result<Host> {
        let running = earlier.0.running.clone();
        if self.most_memory() > running.memory {
            bail!(
                "the engine that runs was set up for calls of {} bytes of memory, fewer than are \
                 asked for now",
                running.memory
            );
        }
        self.build_on(running, Some(&earlier.0.components)).await
    }

    async fn build_on(self, running: Running, earlier: Option<&[Loaded]>) -> anyhow::Result<Host> {
        let catalog = Catalog::open(&self.skills, self.home.as_deref())?;
        let catalog = Arc::new(catalog.hard_links(self.defaults.hard_links));
        let mut problems = Vec::new();
        let cache = self.cache.as_deref().and_then(|folder| {
            ComponentCache::open(folder)
                .inspect_err(|error| problems.push(format!("{error:#}")))
                .ok()
        });
        let compiler = Compiler {
            program: self.compiler.clone(),
            time: self.compile_time.unwrap_or(compile::DEFAULT_TIME),
        };
        // A component may need what its tools are granted.
        let loading = Limits {
            memory: self.most_memory(),
            ..self.defaults.limits.clone()
        };
        let loader = Loader {
            compiler,
            engine: running.engine.clone(),
            cache,
            limits: loading,
            progress: self.progress.clone(),
        };
        let mut components = Components {
            loader: Arc::new(loader),
            earlier: earlier.unwrap_or_default(),
            rules: Rules {
                pins: &self.pins,
                require_pins: self.require_pins,
                grants: &self.grants,
                trust: &self.trust,
            },
            loaded: Vec::new(),
        };
        if !self.without_embedded {
            components.add_embedded()?;
        }
        let files = self.component_files()?;
        let refused = components.add_files(files.clone()).await;
        if self.require_components && earlier.is_none() && !refused.is_empty() {
            bail!(
                "{}; `require_components = false` would serve without",
                refused.join("; ")
            );
        }
        let refused_components = refused.len();
        problems.extend(refused);
        let components = components.loaded;
        // A tool may be missing because its component is refused, and a file may
        // have gone since: that is a problem, and the rest of the host works.
        for (checked, may_be_refused) in [
            (self.check_disabled(&components), refused_components > 0),
            (self.check_files(&components, &files), false),
        ] {
            match checked {
                Err(error) if earlier.is_some() || may_be_refused => {
                    problems.push(error.to_string());
                }
                checked => checked?,
            }
        }
        problems.extend(self.missing_skills(&catalog));
        let engine = &running.engine;
        let granted = |(tool, own): (&Arc<Tool>, bool)| {
            let grant = self.grants.get(tool.component.grant_name());
            let terms = grant
                .cloned()
                .unwrap_or_default()
                .terms(own, &self.defaults);
            let name = &tool.definition.name;
            Granted {
                quota: engine.quota(name, own, terms.limits.memory),
                skills: GrantedSkills::new(Arc::clone(&catalog), terms.skills.clone()),
                terms,
                tool: Arc::clone(tool),
            }
        };
        let mut tools: Vec<Granted> = components
            .iter()
            .flat_map(|component| {
                component
                    .tools
                    .iter()
                    .map(|tool| (tool, component.is_own()))
            })
            .filter(|(tool, _)| !self.disabled.contains(&tool.definition.name))
            .map(granted)
            .collect();
        let own = !self.without_embedded;
        let resources = tools
            .extract_if(.., |granted| {
                own && granted.tool.definition.name == SKILL_RESOURCES
            })
            .next()
            .map(resources);
        Ok(Host(Arc::new(Inner {
            catalog,
            running,
            observer: self.observer,
            components,
            tools,
            resources,
            problems,
            refused_components,
            capacity: self.load.calls as usize,
        })))
    }

    /// The folders of skills, in their order.
    pub fn skills_roots(&self) -> &[SkillsRoot] {
        &self.skills
    }

    /// The folders of tool components, in their order.
    pub fn tool_folders(&self) -> &[PathBuf] {
        &self.tools
    }

    /// The memory that the engine has to have ready for a call.
    fn most_memory(&self) -> usize {
        let granted = self
            .grants
            .values()
            .filter_map(|grant| grant.limits.as_ref());
        let all = granted.chain([&self.defaults.limits]);
        all.map(|limits| limits.memory).max().unwrap_or_default()
    }

    /// The `.wasm` files of the tool folders, in order of their names, and the
    /// components that were named themselves.
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
            for entry in std::fs::read_dir(folder).with_context(cannot)? {
                let path = entry.with_context(cannot)?.path();
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

/// What reads resources. Its answers may be longer than the operator's limit by
/// what base64 adds: the limit then counts a file's bytes, of either kind.
fn resources(mut granted: Granted) -> Resources {
    let max_bytes = granted.terms.limits.output;
    let encoded = max_bytes.div_ceil(3).saturating_mul(4);
    granted.terms.limits.output = encoded.saturating_add(ENCODING_NOTE);
    Resources { granted, max_bytes }
}
