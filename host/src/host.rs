//! The host: skills, tools, and calls of the one on the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value};

use crate::audit::{Audit, AuditMode, Entry, Subject};
use crate::cache::Cache;
use crate::catalog::{Catalog, NoFolder, OpenFolder, SkillsRoot, is_skill_name};
use crate::compile::{self, Compiler};
use crate::component::{self, Loader, Tool};
use crate::engine::Clocked;
use crate::grant::{Defaults, EffectiveGrant, Grant, Terms};
use crate::guard::{self, HardLinks};
use crate::limits::{Limits, Load};
use crate::sandbox::{Call, Ended, SkillsSource};
use crate::suggest;
use crate::tool::{CallError, Definition, Failure, FolderRule, Output, Stop};

/// The components that come with the host, with the names that messages use.
const EMBEDDED: [(&str, &[u8]); 5] = [
    (
        "read_file_in_skill",
        include_bytes!("../../guest-tools/dist/read_file_in_skill.wasm"),
    ),
    (
        "get_skill",
        include_bytes!("../../guest-tools/dist/get_skill.wasm"),
    ),
    (
        "read_skill_file",
        include_bytes!("../../guest-tools/dist/read_skill_file.wasm"),
    ),
    (
        "read_skill",
        include_bytes!("../../guest-tools/dist/read_skill.wasm"),
    ),
    (
        "list_skills",
        include_bytes!("../../guest-tools/dist/list_skills.wasm"),
    ),
];

/// Is told the name of a component that has to be compiled.
pub(crate) type Progress = dyn Fn(&str) + Send + Sync;

/// Skills and tools, ready to answer calls. Cheap to clone; all clones are the
/// same host.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    catalog: Arc<Catalog>,
    audit: Option<Arc<Audit>>,
    tools: Vec<Granted>,
    problems: Vec<String>,
}

/// A tool, with what it may do.
struct Granted {
    tool: Tool,
    terms: Terms,
    /// The skills that it may know of.
    skills: SkillsSource,
}

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
    pins: BTreeMap<String, String>,
    require_pins: bool,
    compiler: Option<PathBuf>,
    compile_time: Option<Duration>,
}

impl Host {
    /// Starts to build a host.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// The tools as an agent sees them at this moment, in the order in which
    /// they were loaded. A tool whose schema lists the skills is not among
    /// them while there are none.
    pub fn definitions(&self) -> Vec<Definition> {
        let mut names = None;
        self.0
            .tools
            .iter()
            .filter_map(|Granted { tool, terms, .. }| {
                let mut definition = tool.definition.clone();
                if let Some(rule) = definition.folder.as_ref().filter(|rule| rule.enumerate) {
                    let names = names.get_or_insert_with(|| self.0.catalog.names());
                    let mut names = names.clone();
                    names.retain(|name| terms.skills.allow(name));
                    if names.is_empty() {
                        return None;
                    }
                    add_enum(&mut definition.input_schema, &rule.skill_property, &names);
                }
                Some(definition)
            })
            .collect()
    }

    /// What each tool may do, with every default filled in.
    pub fn grants(&self) -> Vec<EffectiveGrant> {
        let names = self.0.catalog.names();
        let grant = |Granted { tool, terms, .. }: &Granted| {
            let (allowed, refused) = names
                .iter()
                .cloned()
                .partition(|name| terms.skills.allow(name));
            EffectiveGrant {
                tool: tool.definition.name.clone(),
                origin: tool.origin.clone(),
                digest: tool.digest.clone(),
                skills: terms.skills.to_string(),
                allowed,
                refused,
                home: terms.home,
                hard_links: terms.hard_links == HardLinks::Allowed,
                limits: terms.limits.clone(),
            }
        };
        self.0.tools.iter().map(grant).collect()
    }

    /// The skills.
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// What went wrong while tools were loaded, for the operator. The other
    /// tools are not affected.
    pub fn problems(&self) -> &[String] {
        &self.0.problems
    }

    /// Calls a tool, in a sandbox of its own that is gone when this returns.
    /// Dropping the future stops the call. Needs a tokio runtime with a timer.
    ///
    /// `arguments` is the JSON object that the model wrote; see
    /// [`parse_arguments`](crate::parse_arguments) for its text.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Output, CallError> {
        self.call_with_id(tool, arguments, None).await
    }

    /// Like [`Host::call`]; the audit log has the caller's id for the call.
    pub async fn call_with_id(
        &self,
        tool: &str,
        arguments: Value,
        id: Option<&str>,
    ) -> Result<Output, CallError> {
        let mut entry = self.0.audit.as_ref().map(|audit| audit.begin(tool, id));
        let outcome = match self.tool(tool) {
            Ok(granted) => self.run(granted, arguments, entry.as_mut()).await,
            Err(error) => Err(error),
        };
        if let Some(entry) = entry {
            entry.end(&outcome).map_err(|stop| CallError::Stopped {
                tool: tool.to_owned(),
                stop,
            })?;
        }
        outcome
    }

    async fn run(
        &self,
        Granted {
            tool,
            terms,
            skills,
        }: &Granted,
        arguments: Value,
        mut entry: Option<&mut Entry>,
    ) -> Result<Output, CallError> {
        let arguments = tool.schema.check(arguments)?;
        let rule = tool.definition.folder.as_ref();
        let skill = rule.and_then(|rule| string(&arguments, &rule.skill_property));
        if let Some(entry) = &mut entry {
            let path = rule.and_then(|rule| rule.path_property.as_deref());
            entry.subject(&Subject {
                component: &tool.digest,
                skill,
                path: path.and_then(|property| string(&arguments, property)),
            });
        }
        // A call that waits holds nothing open.
        let slot = tool.sandbox.enter().await;
        let slot = slot.map_err(|stop| stopped(tool, stop))?;
        let folder = rule.map(|rule| self.folder(rule, &arguments, terms));
        let folder = folder.transpose().map_err(|stop| stopped(tool, stop))?;
        if let (Some(entry), Some(Ok(open))) = (&mut entry, &folder) {
            entry.read_in(open.skill.as_deref());
        }
        let unknown_skill = match &folder {
            Some(Err(NoFolder::Unknown)) => skill.map(str::to_owned),
            _ => None,
        };
        let call = Call {
            tool: &tool.name,
            arguments: &Value::Object(arguments).to_string(),
            folder,
            terms,
            skills: Arc::clone(skills),
            slot,
        };
        let Ended { result, memory } = tool.sandbox.call(call).await;
        if let Some(entry) = entry {
            entry.memory(memory);
        }
        let model_reads = tool.definition.model_reads;
        match result {
            Ok(Ok(answer)) => Ok(Output {
                text: answer.text,
                details: answer.details,
                text_property: tool.definition.text_property.clone(),
                model_reads,
            }),
            Ok(Err(refusal)) => Err(CallError::Failed(Failure {
                kind: refusal.kind,
                message: refusal.message,
                details: refusal.details,
                unknown_skill,
                model_reads,
            })),
            Err(stop) => Err(stopped(tool, stop)),
        }
    }

    fn tool(&self, name: &str) -> Result<&Granted, CallError> {
        let tools = &self.0.tools;
        tools
            .iter()
            .find(|granted| granted.tool.definition.name == name)
            .ok_or_else(|| CallError::UnknownTool {
                name: name.chars().take(64).collect(),
                nearest: suggest::nearest(
                    name,
                    tools
                        .iter()
                        .map(|granted| granted.tool.definition.name.as_str()),
                ),
            })
    }

    /// The one folder that a call may read, if its grant lets it.
    fn folder(
        &self,
        rule: &FolderRule,
        arguments: &Map<String, Value>,
        terms: &Terms,
    ) -> Result<Result<OpenFolder, NoFolder>, Stop> {
        let not_granted = |skill: &str| Stop::NotGranted {
            skill: skill.to_owned(),
        };
        let skill = string(arguments, &rule.skill_property);
        match (skill, rule.skill_optional) {
            (None | Some(""), true) => {
                let path = rule.path_property.as_deref();
                let path = path.and_then(|property| string(arguments, property));
                let path = path.unwrap_or_default();
                let found = self.0.catalog.folder_of_path(path, terms.hard_links);
                match found.as_ref().map(|open| open.skill.as_deref()) {
                    Ok(None) if !terms.home => Ok(Err(NoFolder::NoHome)),
                    Ok(Some(skill)) if !terms.skills.allow(skill) => Err(not_granted(skill)),
                    _ => Ok(found),
                }
            }
            // A name that no skill can have is the tool's to answer.
            (Some(name), _) if is_skill_name(name) && !terms.skills.allow(name) => {
                Err(not_granted(name))
            }
            (Some(name), _) => Ok(self.0.catalog.skill(name, terms.hard_links)),
            (None, false) => Ok(Err(NoFolder::Unknown)),
        }
    }
}

/// What the operator and the caller learn of a call that the host ended.
fn stopped(tool: &Tool, stop: Stop) -> CallError {
    let name = &tool.definition.name;
    tracing::warn!(tool = name, origin = tool.origin, "stopped: {stop:?}");
    CallError::Stopped {
        tool: name.clone(),
        stop,
    }
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

    /// Leaves out the five tools that come with the host.
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
        let tools = tools
            .into_iter()
            .enumerate()
            .map(granted)
            .filter(|granted| !self.disabled.contains(&granted.tool.definition.name))
            .collect();
        let audit = self.audit.map(|(path, mode)| Audit::open(&path, mode));
        Ok(Host(Arc::new(Inner {
            catalog,
            audit: audit.transpose()?.map(Arc::new),
            tools,
            problems,
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

fn string<'a>(arguments: &'a Map<String, Value>, property: &str) -> Option<&'a str> {
    arguments.get(property).and_then(Value::as_str)
}

fn add_enum(schema: &mut Map<String, Value>, property: &str, names: &[String]) {
    if let Some(Value::Object(property)) = schema
        .get_mut("properties")
        .and_then(|properties| properties.get_mut(property))
    {
        property.insert("enum".to_owned(), names.into());
    }
}
