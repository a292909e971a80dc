//! The host: skills, tools, and calls of the one on the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value};

use crate::cache::Cache;
use crate::catalog::{Catalog, NoFolder, OpenFolder};
use crate::component::{Loader, Tool};
use crate::engine::Clocked;
use crate::guard;
use crate::limits::Limits;
use crate::sandbox::SkillsSource;
use crate::suggest;
use crate::tool::{CallError, Definition, Failure, FolderRule, Output};

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

/// Largest component that is read. One made from Python has 18 MB.
const MAX_COMPONENT: u64 = 64 << 20;

type Environment = Arc<[(String, String)]>;

/// Is told the name of a component that has to be compiled.
pub(crate) type Progress = dyn Fn(&str) + Send + Sync;

/// Skills and tools, ready to answer calls. Cheap to clone; all clones are the
/// same host.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    catalog: Arc<Catalog>,
    tools: Vec<Tool>,
    environment: BTreeMap<String, Environment>,
    limits: Limits,
    problems: Vec<String>,
}

/// What a host is built from. See [`Host::builder`].
#[derive(Default)]
pub struct HostBuilder {
    skills: Vec<PathBuf>,
    tools: Vec<PathBuf>,
    home: Option<PathBuf>,
    cache: Option<PathBuf>,
    disabled: BTreeSet<String>,
    environment: BTreeMap<String, Vec<(String, String)>>,
    limits: Limits,
    without_embedded: bool,
    progress: Option<Box<Progress>>,
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
            .filter_map(|tool| {
                let mut definition = tool.definition.clone();
                if let Some(rule) = definition.folder.as_ref().filter(|rule| rule.enumerate) {
                    let names = names.get_or_insert_with(|| self.0.catalog.names());
                    if names.is_empty() {
                        return None;
                    }
                    add_enum(&mut definition.input_schema, &rule.skill_property, names);
                }
                Some(definition)
            })
            .collect()
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
        let tool = self.tool(tool)?;
        let arguments = tool.schema.check(arguments)?;
        let rule = tool.definition.folder.as_ref();
        let folder = rule.map(|rule| self.folder(rule, &arguments));
        let unknown_skill = match (&folder, rule) {
            (Some(Err(NoFolder::Unknown)), Some(rule)) => {
                string(&arguments, &rule.skill_property).map(str::to_owned)
            }
            _ => None,
        };
        let name = &tool.definition.name;
        let environment = self.0.environment.get(name).cloned().unwrap_or_default();
        let arguments = Value::Object(arguments).to_string();
        let answered = tool
            .sandbox
            .call(&self.0.limits, environment, name, &arguments, folder)
            .await;
        match answered {
            Ok(Ok(answer)) => Ok(Output {
                text: answer.text,
                details: answer.details,
                text_property: tool.definition.text_property.clone(),
                model_reads: tool.definition.model_reads,
            }),
            Ok(Err(refusal)) => Err(CallError::Failed(Failure {
                kind: refusal.kind,
                message: refusal.message,
                details: refusal.details,
                unknown_skill,
                model_reads: tool.definition.model_reads,
            })),
            Err(stop) => {
                tracing::warn!(tool = name, origin = tool.origin, "stopped: {stop:?}");
                Err(CallError::Stopped {
                    tool: name.clone(),
                    stop,
                })
            }
        }
    }

    fn tool(&self, name: &str) -> Result<&Tool, CallError> {
        let tools = &self.0.tools;
        tools
            .iter()
            .find(|tool| tool.definition.name == name)
            .ok_or_else(|| CallError::UnknownTool {
                name: name.chars().take(64).collect(),
                nearest: suggest::nearest(name, tools.iter().map(|t| t.definition.name.as_str())),
            })
    }

    /// The one folder that a call may read.
    fn folder(
        &self,
        rule: &FolderRule,
        arguments: &Map<String, Value>,
    ) -> Result<OpenFolder, NoFolder> {
        let skill = string(arguments, &rule.skill_property);
        let path = rule.path_property.as_deref();
        match (skill, path) {
            (None | Some(""), Some(property)) => {
                let path = string(arguments, property).unwrap_or_default();
                self.0.catalog.folder_of_path(path)
            }
            (Some(name), _) => self.0.catalog.skill(name),
            (None, None) => Err(NoFolder::Unknown),
        }
    }
}

impl HostBuilder {
    /// Adds a folder of skills. Folders are asked in the order in which they
    /// were added, and the first that has a skill wins.
    pub fn skills(mut self, folder: impl Into<PathBuf>) -> Self {
        self.skills.push(folder.into());
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

    /// Sets an environment variable that calls of this tool see.
    pub fn environment(
        mut self,
        tool: impl Into<String>,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.environment
            .entry(tool.into())
            .or_default()
            .push((name.into(), value.into()));
        self
    }

    /// What one call may cost.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Leaves out the five tools that come with the host.
    pub fn without_embedded_tools(mut self) -> Self {
        self.without_embedded = true;
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
        let catalog = Arc::new(Catalog::open(&self.skills, self.home.as_deref())?);
        let engine = Clocked::new(&self.limits)?;
        let mut problems = Vec::new();
        let cache = self.cache.as_deref().and_then(|folder| {
            Cache::open(folder)
                .inspect_err(|error| problems.push(format!("{error:#}")))
                .ok()
        });
        let listed = Arc::clone(&catalog);
        let skills: SkillsSource = Arc::new(move || listed.list().skills);
        let loader = Loader {
            engine: &engine,
            cache: cache.as_ref(),
            limits: &self.limits,
            skills: &skills,
            progress: self.progress.as_deref(),
        };
        let mut tools = Vec::new();
        if !self.without_embedded {
            for (name, bytes) in EMBEDDED {
                tools.extend(loader.load(name, bytes).await?);
            }
        }
        for file in self.component_files()? {
            let loaded = match read_component(&file) {
                Ok(bytes) => loader.load(&file.display().to_string(), &bytes).await,
                Err(error) => Err(error),
            };
            match loaded.and_then(|more| no_name_twice(&tools, more)) {
                Ok(more) => tools.extend(more),
                Err(error) => problems.push(format!("{error:#}")),
            }
        }
        self.check_tool_names(&tools)?;
        tools.retain(|tool| !self.disabled.contains(&tool.definition.name));
        Ok(Host(Arc::new(Inner {
            catalog,
            tools,
            environment: self
                .environment
                .into_iter()
                .map(|(tool, variables)| (tool, variables.into()))
                .collect(),
            limits: self.limits,
            problems,
        })))
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

    /// A tool that is switched off or set up under a wrong name would stay on,
    /// or as it was.
    fn check_tool_names(&self, tools: &[Tool]) -> anyhow::Result<()> {
        let names = || tools.iter().map(|tool| tool.definition.name.as_str());
        for named in self.disabled.iter().chain(self.environment.keys()) {
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

fn read_component(path: &Path) -> anyhow::Result<Vec<u8>> {
    let cannot = || format!("cannot load the tool component `{}`", path.display());
    let folder = path.parent().unwrap_or(Path::new("."));
    let folder = cap_std::fs::Dir::open_ambient_dir(folder, cap_std::ambient_authority());
    let name = Path::new(path.file_name().unwrap_or_default());
    let file = folder
        .and_then(|folder| guard::open_file(&folder, name))
        .with_context(cannot)?;
    if file.metadata().with_context(cannot)?.len() > MAX_COMPONENT {
        return Err(anyhow::anyhow!("it is larger than {MAX_COMPONENT} bytes"))
            .with_context(cannot);
    }
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_COMPONENT), &mut bytes)
        .with_context(cannot)?;
    Ok(bytes)
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
