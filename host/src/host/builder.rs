//! Building a host: folders opened, components loaded, grants worked out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::{Granted, Host, Inner, Resources, SKILL_RESOURCES};
use crate::audit::{Audit, AuditMode};
use crate::cache::Cache;
use crate::catalog::{Catalog, SkillsRoot};
use crate::compile::{self, Compiler};
use crate::component::{self, Loader, Tool};
use crate::engine::Clocked;
use crate::grant::{Defaults, Grant, Terms};
use crate::guard;
use crate::limits::{Limits, Load};
use crate::observer::Observer;
use crate::sandbox::SkillsSource;
use crate::suggest;

/// The components that come with the host, with the names that messages use.
const EMBEDDED: [(&str, &[u8]); 6] = [
    (
        "read_file_in_skill",
        include_bytes!("../../../guest-tools/dist/read_file_in_skill.wasm"),
    ),
    (
        "get_skill",
        include_bytes!("../../../guest-tools/dist/get_skill.wasm"),
    ),
    (
        "read_skill_file",
        include_bytes!("../../../guest-tools/dist/read_skill_file.wasm"),
    ),
    (
        "read_skill",
        include_bytes!("../../../guest-tools/dist/read_skill.wasm"),
    ),
    (
        "list_skills",
        include_bytes!("../../../guest-tools/dist/list_skills.wasm"),
    ),
    (
        SKILL_RESOURCES,
        include_bytes!("../../../guest-tools/dist/skill_resources.wasm"),
    ),
];

/// Bytes of an answer that say how the file in it is encoded, and a little more.
const ENCODING_NOTE: usize = 256;

/// Is told the name of a component that has to be compiled.
pub(crate) type Progress = dyn Fn(&str) + Send + Sync;

/// What a host is built from. See [`Host::builder`].
#[derive(Default)]
pub struct HostBuilder {
    skills: Vec<SkillsRoot>,
    tools: Vec<PathBuf>,
    home: Option<PathBuf>,
    cache: Option<PathBuf>,
    disabled: BTreeSet<String>,
    grants: BTreeMap<String, Grant>,
    defaults: Defaults,
    load: Load,
    without_embedded: bool,
    progress: Option<Box<Progress>>,
    audit: Option<(PathBuf, AuditMode)>,
    observer: Option<Arc<dyn Observer>>,
    pins: BTreeMap<String, String>,
    require_pins: bool,
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

    /// Adds a folder of tool components: every `.wasm` file in it.
    pub fn tools(mut self, folder: impl Into<PathBuf>) -> Self {
        self.tools.push(folder.into());
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

    /// What a tool may do; see [`Grant`]. Replaces an earlier grant of it.
    pub fn grant(mut self, tool: impl Into<String>, grant: Grant) -> Self {
        self.grants.insert(tool.into(), grant);
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

    /// Records every call in this file: one line of JSON each, appended. The
    /// file is made for its owner alone. Default: none.
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

    /// Is told each component that has to be compiled, before it is.
    pub fn progress(mut self, told: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.progress = Some(Box::new(told));
        self
    }

    /// Opens the folders and loads the tools. A folder that cannot be opened
    /// is an error; a component that cannot be loaded is one of the host's
    /// [`problems`](Host::problems).
    pub async fn build(self) -> anyhow::Result<Host> {
        guard::check_machine()?;
        let catalog = Catalog::open(&self.skills, self.home.as_deref())?;
        let catalog = Arc::new(catalog.hard_links(self.defaults.hard_links));
        let engine = Clocked::new(&self.load, self.most_memory())?;
        let mut problems = Vec::new();
        let cache = self.cache.as_deref().and_then(|folder| {
            Cache::open(folder)
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
            compiler: &compiler,
            engine: &engine,
            cache: cache.as_ref(),
            limits: &loading,
            progress: self.progress.as_deref(),
        };
        let mut tools = Vec::new();
        let mut own = 0;
        if !self.without_embedded {
            for (name, bytes) in EMBEDDED {
                tools.extend(loader.load(name, bytes, true).await?);
            }
            own = tools.len();
        }
        for file in self.component_files()? {
            let loaded = match component::read(&file).and_then(|bytes| self.check_pin(&file, bytes))
            {
                Ok(bytes) => {
                    loader
                        .load(&file.display().to_string(), &bytes, false)
                        .await
                }
                Err(error) => Err(error),
            };
            match loaded.and_then(|more| no_name_twice(&tools, more)) {
                Ok(more) => tools.extend(more),
                Err(error) => problems.push(format!("{error:#}")),
            }
        }
        // A tool may be missing because its component is: that is one problem
        // with one cause, and the rest of the host works.
        if let Err(error) = self.check_tool_names(&tools) {
            match problems.is_empty() {
                true => return Err(error),
                false => problems.push(error.to_string()),
            }
        }
        let granted = |(index, tool): (usize, Tool)| {
            let grant = self.grants.get(&tool.definition.name);
            let terms = grant
                .cloned()
                .unwrap_or_default()
                .terms(index < own, &self.defaults);
            Granted {
                skills: known_skills(&catalog, &terms),
                terms,
                tool,
            }
        };
        let mut tools: Vec<Granted> = tools
            .into_iter()
            .enumerate()
            .map(granted)
            .filter(|granted| !self.disabled.contains(&granted.tool.definition.name))
            .collect();
        let resources = tools
            .extract_if(.., |granted| {
                own > 0 && granted.tool.definition.name == SKILL_RESOURCES
            })
            .next()
            .map(resources);
        let audit = self.audit.map(|(path, mode)| Audit::open(&path, mode));
        Ok(Host(Arc::new(Inner {
            catalog,
            engine,
            audit: audit.transpose()?.map(Arc::new),
            observer: self.observer,
            tools,
            resources,
            problems,
            capacity: self.load.calls as usize,
        })))
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

    /// The `.wasm` files of the tool folders, in order of their names.
    fn component_files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for folder in &self.tools {
            let cannot = || format!("cannot list the tools folder `{}`", folder.display());
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
        Ok(files)
    }

    /// Hands on a component that is the pinned one.
    fn check_pin(&self, file: &Path, bytes: Vec<u8>) -> anyhow::Result<Vec<u8>> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let digest = component::digest(&bytes);
        match self.pins.get(&*name) {
            Some(pin) if pin.eq_ignore_ascii_case(&digest) => Ok(bytes),
            Some(pin) => bail!(
                "cannot load the tool component `{}`: its SHA-256 is {digest}, and the pin `{name}` is {pin}",
                file.display()
            ),
            None if self.require_pins => bail!(
                "cannot load the tool component `{}`: it has no pin, and pins are required; its SHA-256 is {digest}",
                file.display()
            ),
            None => Ok(bytes),
        }
    }

    /// A tool that is switched off or set up under a wrong name would stay on,
    /// or as it was.
    fn check_tool_names(&self, tools: &[Tool]) -> anyhow::Result<()> {
        let names = || tools.iter().map(|tool| tool.definition.name.as_str());
        for named in self.disabled.iter().chain(self.grants.keys()) {
            if !names().any(|name| name == named) {
                let nearest = suggest::nearest(named, names());
                let hint = nearest
                    .first()
                    .map(|nearest| format!("; did you mean `{nearest}`?"))
                    .unwrap_or_default();
                bail!(
                    "the configuration names the tool `{}`, and there is none of that name{hint}",
                    named.escape_debug()
                );
            }
        }
        Ok(())
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

/// Refuses a component that gives a name that is taken: which of the two an
/// agent would call must not depend on the order of files.
fn no_name_twice(tools: &[Tool], more: Vec<Tool>) -> anyhow::Result<Vec<Tool>> {
    for (index, tool) in more.iter().enumerate() {
        let name = &tool.definition.name;
        let mut earlier = tools.iter().chain(&more[..index]);
        if let Some(other) = earlier.find(|other| other.definition.name == *name) {
            bail!(
                "cannot load the tool component `{}`: it defines the tool `{name}`, which `{}` has already defined",
                tool.origin,
                other.origin
            );
        }
    }
    Ok(more)
}

/// The skills that a tool may know of, as they are when it asks.
fn known_skills(catalog: &Arc<Catalog>, terms: &Terms) -> SkillsSource {
    let (catalog, granted) = (Arc::clone(catalog), terms.skills.clone());
    Arc::new(move || {
        let mut skills = catalog.list().skills;
        skills.retain(|skill| granted.allow(&skill.name));
        skills
    })
}
