//! The host: skills, tools, and calls of the one on the other.

mod admission;
mod builder;
mod components;
pub(crate) mod resources;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::component::Tool;
use crate::component::embedded::SKILL_RESOURCES;
use crate::sandbox::engine::{CallQuota, EpochEngine};
use crate::sandbox::granted_skills::GrantedSkills;
use crate::sandbox::{RunOutcome, SandboxCall};
use crate::skill::catalog::{CallFolder, Catalog, FolderError, Skill};
use crate::skill::guard::HardLinks;
use crate::text::suggest;
use crate::tool::arguments::parse_arguments;
use crate::tool::audit::{Audit, Entry, Subject};
use crate::tool::grant::{EffectiveGrant, Terms};
use crate::tool::observer::{Observer, Occupancy, Watch};
use crate::tool::{CallError, Definition, Failure, FolderRule, Output, Stop};

pub use builder::HostBuilder;
use components::Loaded;

/// Skills and tools, ready to answer calls. Cheap to clone; all clones are the
/// same host.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    catalog: Arc<Catalog>,
    running: Running,
    observer: Option<Arc<dyn Observer>>,
    components: Vec<Loaded>,
    tools: Vec<Granted>,
    /// What reads skills' files for resources: a tool that no agent is told of.
    resources: Option<Resources>,
    problems: Vec<String>,
    /// Component files that are not served as they lie on disk.
    refused_components: usize,
    /// Calls that may run at a time.
    capacity: usize,
}

/// What a host that takes the place of another goes on with.
#[derive(Clone)]
struct Running {
    engine: EpochEngine,
    /// Bytes of memory that the engine has ready for a call.
    memory: usize,
    audit: Option<Arc<Audit>>,
}

struct Resources {
    granted: Granted,
    /// Most bytes of a file: the operator's limit on answers, before base64.
    max_bytes: usize,
}

/// A tool, with what it may do.
struct Granted {
    tool: Arc<Tool>,
    terms: Terms,
    /// What its calls have of what all calls share.
    quota: Arc<CallQuota>,
    /// The skills that it may know of.
    skills: GrantedSkills,
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

    /// What a tool's component says of it, without the skills' names.
    pub fn definition(&self, tool: &str) -> Option<&Definition> {
        let granted = self.tool(tool).ok()?;
        Some(&granted.tool.definition)
    }

    /// Whether a tool comes with the host.
    pub fn is_built_in(&self, tool: &str) -> bool {
        self.tool(tool).is_ok_and(|tool| tool.quota.is_built_in)
    }

    /// Returns the tools as their components define them, without the skills'
    /// names.
    pub fn tools(&self) -> impl Iterator<Item = &Definition> {
        let tools = self.0.tools.iter();
        tools.map(|granted| &granted.tool.definition)
    }

    /// Asks a tool's component for its definitions again, in a sandbox of its own.
    pub async fn redefine(&self, tool: &str) -> anyhow::Result<Vec<Definition>> {
        let Granted { tool, terms, .. } = self.tool(tool)?;
        tool.component.define(&terms.limits).await
    }

    /// Returns whether the failures of a tool say which kind they are. Those of a
    /// function with types of its own do not.
    pub async fn has_failure_kinds(&self, tool: &str) -> Result<bool, CallError> {
        let granted = self.tool(tool)?;
        let sandbox = granted.tool.component.sandbox().await;
        let sandbox = sandbox.map_err(|stop| stopped(&granted.tool, stop))?;
        Ok(!sandbox.exports_functions())
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
                origin: tool.component.origin.clone(),
                digest: tool.component.digest.clone(),
                skills: terms.skills.to_string(),
                allowed,
                refused,
                home: terms.home,
                hard_links: terms.hard_links == HardLinks::Allowed,
                limits: terms.limits.clone(),
            }
        };
        let mut grants: Vec<_> = self.0.tools.iter().map(grant).collect();
        grants.extend(self.0.resources.as_ref().map(|resources| {
            let mut grant = grant(&resources.granted);
            grant.limits.output = resources.max_bytes;
            grant
        }));
        grants
    }

    /// The skills.
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// What is wrong with components and grants, for the operator. Other tools
    /// are not affected.
    pub fn problems(&self) -> &[String] {
        &self.0.problems
    }

    /// What the host has in hand now: calls that run and wait, and the memory
    /// of their sandboxes.
    pub fn occupancy(&self) -> Occupancy {
        Occupancy {
            refused_components: self.0.refused_components,
            ..self.0.running.engine.occupancy()
        }
    }

    /// How many calls run at a time: [`Load::calls`](crate::Load::calls). Others
    /// wait, or are told that the host is busy.
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// How many calls of one tool run at a time.
    pub(crate) fn calls_per_tool(&self) -> usize {
        self.0.running.engine.calls_per_tool() as usize
    }

    /// Compiles the components that the cache does not have, several at a
    /// time, so that no first call has to wait for it. Calls can be made
    /// meanwhile, and wait for what they need. What cannot be compiled is an
    /// error of its calls.
    pub async fn prepare(&self) {
        let resources = self.0.resources.as_ref();
        let resources = resources.map(|resources| &resources.granted);
        let mut preparing = tokio::task::JoinSet::new();
        for Granted { tool, .. } in self.0.tools.iter().chain(resources) {
            if tool.component.needs_compiling() {
                let component = Arc::clone(&tool.component);
                preparing.spawn(async move { component.sandbox().await.map(drop) });
            }
        }
        preparing.join_all().await;
    }

    /// Calls a tool, in a sandbox of its own that is gone when this returns.
    /// Dropping the future stops the call. Needs a tokio runtime with a timer.
    /// A future that is neither polled nor dropped keeps what the call has, its
    /// slot among it, from others.
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
        self.recorded(self.tool(tool), tool, Ok(arguments), id)
            .await
    }

    /// Like [`Host::call_with_id`], with the arguments as the model wrote them:
    /// what is no JSON is an outcome of the call, and in the audit log.
    pub async fn call_json(
        &self,
        tool: &str,
        arguments: &str,
        id: Option<&str>,
    ) -> Result<Output, CallError> {
        let arguments = parse_arguments(arguments);
        self.recorded(self.tool(tool), tool, arguments, id).await
    }

    /// Reads for the host's resources: the same call, of the tool that no agent
    /// can name.
    pub(crate) async fn call_resources(
        &self,
        arguments: Value,
        id: Option<&str>,
    ) -> Result<Output, CallError> {
        let resources = self.0.resources.as_ref();
        let granted = resources.map(|resources| &resources.granted);
        let granted = granted.ok_or_else(|| self.unknown(SKILL_RESOURCES));
        self.recorded(granted, SKILL_RESOURCES, Ok(arguments), id)
            .await
    }

    /// Most bytes of a file that resources are read with; none where they are
    /// switched off.
    pub(crate) fn resource_bytes(&self) -> Option<usize> {
        let resources = self.0.resources.as_ref();
        resources.map(|resources| resources.max_bytes)
    }

    /// Whether resources may be read of the skill of this name.
    pub(crate) fn resources_allow(&self, skill: &str) -> bool {
        let resources = self.0.resources.as_ref();
        resources.is_some_and(|resources| resources.granted.terms.skills.allow(skill))
    }

    /// Runs a call, and sees to it that its end is known.
    async fn recorded(
        &self,
        found: Result<&Granted, CallError>,
        tool: &str,
        arguments: Result<Value, CallError>,
        id: Option<&str>,
    ) -> Result<Output, CallError> {
        let audit = self.0.running.audit.as_ref();
        let mut entry = audit.map(|audit| audit.begin(tool, id));
        let name = found.as_ref().ok();
        let name = name.map(|granted| granted.tool.definition.name.as_str());
        let observer = self.0.observer.as_ref();
        let watch = observer.map(|observer| Watch::begin(observer, name));
        let mut memory = None;
        let mut outcome = match found.and_then(|granted| Ok((granted, arguments?))) {
            Ok((granted, arguments)) => {
                let run = self.run(granted, arguments, entry.as_mut(), &mut memory);
                run.await
            }
            Err(error) => Err(error),
        };
        if let Some(Err(stop)) = entry.map(|entry| entry.end(&outcome)) {
            outcome = Err(CallError::Stopped {
                tool: tool.to_owned(),
                stop,
            });
        }
        if let Some(watch) = watch {
            watch.end(&outcome, memory);
        }
        outcome
    }

    /// Makes a tool's sandbox and lets it go, to measure what that costs.
    #[cfg(feature = "measure")]
    pub async fn instantiate(&self, tool: &str) -> Result<(), CallError> {
        let Granted {
            tool, terms, quota, ..
        } = self.tool(tool)?;
        let sandbox = tool.component.sandbox().await;
        let sandbox = sandbox.map_err(|stop| stopped(tool, stop))?;
        let done = sandbox.instantiate(quota, &terms.limits).await;
        done.map_err(|stop| stopped(tool, stop))
    }

    async fn run(
        &self,
        Granted {
            tool,
            terms,
            quota,
            skills,
        }: &Granted,
        arguments: Value,
        mut entry: Option<&mut Entry>,
        peak: &mut Option<usize>,
    ) -> Result<Output, CallError> {
        let schema = tool.schema().map_err(|stop| stopped(tool, stop))?;
        let arguments = schema.check(arguments)?;
        let rule = tool.definition.folder.as_ref();
        let skill = rule.and_then(|rule| string(&arguments, &rule.skill_property));
        if let Some(entry) = &mut entry {
            let path = rule.and_then(|rule| rule.path_property.as_deref());
            entry.subject(&Subject {
                component: &tool.component.digest,
                skill,
                path: path.and_then(|property| string(&arguments, property)),
            });
        }
        let sandbox = tool.component.sandbox().await;
        let sandbox = sandbox.map_err(|stop| stopped(tool, stop))?;
        let given = sandbox.arguments(&tool.name, &arguments)?;
        // A call that waits holds nothing open.
        let slot = sandbox.enter(quota).await;
        let slot = slot.map_err(|stop| stopped(tool, stop))?;
        let folder = rule.map(|rule| self.folder(tool, rule, &arguments, terms));
        let folder = folder.transpose().map_err(|stop| stopped(tool, stop))?;
        if let (Some(entry), Some(Ok(open))) = (&mut entry, &folder) {
            entry.read_in(open.skill.as_deref());
        }
        let unknown_skill = match &folder {
            Some(Err(FolderError::Unknown)) => skill.map(str::to_owned),
            _ => None,
        };
        let call = SandboxCall {
            tool: &tool.name,
            arguments: given,
            folder,
            terms,
            skills: skills.clone(),
            slot,
        };
        let RunOutcome { result, memory } = sandbox.call(call).await;
        *peak = Some(memory);
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
            .ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> CallError {
        let names = self.0.tools.iter();
        CallError::UnknownTool {
            name: name.chars().take(64).collect(),
            nearest: suggest::nearest(
                name,
                names.map(|granted| granted.tool.definition.name.as_str()),
            ),
        }
    }

    /// The one folder that a call may read, if its grant lets it.
    fn folder(
        &self,
        tool: &Tool,
        rule: &FolderRule,
        arguments: &Map<String, Value>,
        terms: &Terms,
    ) -> Result<Result<CallFolder, FolderError>, Stop> {
        let not_granted = |skill: &str| Stop::NotGranted {
            skill: skill.to_owned(),
            component: tool.component.grant_name().to_owned(),
        };
        let skill = string(arguments, &rule.skill_property);
        match (skill, rule.skill_optional) {
            (None | Some(""), true) => {
                let path = rule.path_property.as_deref();
                let path = path.and_then(|property| string(arguments, property));
                let path = path.unwrap_or_default();
                let found = self.0.catalog.folder_of_path(path, terms.hard_links);
                match found.as_ref().map(|open| open.skill.as_deref()) {
                    Ok(None) if !terms.home => Ok(Err(FolderError::NoHome)),
                    Ok(Some(skill)) if !terms.skills.allow(skill) => Err(not_granted(skill)),
                    _ => Ok(found),
                }
            }
            // A name that no skill can have is the tool's to answer.
            (Some(name), _) if Skill::is_name(name) && !terms.skills.allow(name) => {
                Err(not_granted(name))
            }
            (Some(name), _) => Ok(self.0.catalog.skill(name, terms.hard_links)),
            (None, false) => Ok(Err(FolderError::Unknown)),
        }
    }
}

/// What the operator and the caller learn of a call that the host ended.
fn stopped(tool: &Tool, stop: Stop) -> CallError {
    let name = &tool.definition.name;
    let origin = &tool.component.origin;
    tracing::info!(tool = name, origin, "stopped: {stop:?}");
    CallError::Stopped {
        tool: name.clone(),
        stop,
    }
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
