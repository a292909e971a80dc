//! The host: skills, tools, and calls of tools on skills.

mod admission;
mod builder;
mod components;
mod definitions;
pub(crate) mod grants;
mod help;
mod large_answer;
mod placeholder_note;
mod program_tool;
pub(crate) mod resources;
mod scope;
mod script_note;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::timeout;

use skillhost_egress::EgressClient;
use skillhost_sandbox::call::{ConsentGate, RequestGate, SandboxCall};
use skillhost_sandbox::component::Tool;
use skillhost_sandbox::component::embedded::SKILL_RESOURCES;
use skillhost_sandbox::engine::{CallQuota, CallSlot, EpochEngine};
use skillhost_sandbox::granted_skills::GrantedSkills;
use skillhost_sandbox::scripts;
use skillhost_sandbox::tool::arguments::parse_arguments;
use skillhost_sandbox::tool::audit::{Audit, AuditEntry, CallSubject};
use skillhost_sandbox::tool::consent::{ConsentRules, Question};
use skillhost_sandbox::tool::grant::{Scope, Terms};
use skillhost_sandbox::tool::observer::{Observation, Observer, Occupancy};
use skillhost_sandbox::tool::{
    CallError, Caller, Definition, Failure, FolderRule, Help, Output, RequestLog, Stop,
};
use skillhost_skills::catalog::{CallFolder, Catalog, FolderError, Skill};
use skillhost_skills::search::{SearchOffer, SkillIndex};
use skillhost_skills::text::suggest;

pub use builder::HostBuilder;
use components::LoadedComponent;
use definitions::Description;
pub use large_answer::AnswerBound;
pub use program_tool::ProgramTool;
pub use script_note::{JudgedScript, JudgementReason};

/// Skills and tools, ready to answer calls.
///
/// Clones are cheap and share everything. [`Host::in_scope`] returns a view of the host that is
/// restricted to what a caller may use.
#[derive(Clone)]
pub struct Host(Arc<Inner>, Option<Arc<Scope>>);

struct Inner {
    catalog: Arc<Catalog>,
    runtime: Runtime,
    observer: Option<Arc<dyn Observer>>,
    components: Vec<LoadedComponent>,
    tools: Vec<ServedTool>,
    /// The tools that the program answers itself.
    program_tools: Vec<Arc<dyn ProgramTool>>,
    resources: Option<ResourceReader>,
    problems: Vec<String>,
    /// The number of component files that are not served, or of which only an earlier version is
    /// served.
    refused_components: usize,
    /// False if component files were left out because they are not compiled yet.
    is_complete: bool,
    index: Option<Arc<dyn SkillIndex>>,
    search_offer: SearchOffer,
    /// The maximum number of tokens of the prompt section about skills.
    prompt_budget: usize,
    /// The maximum number of bytes of an answer for a model.
    model_output: Option<usize>,
    /// The connection to the process that sends the requests of guests.
    egress: Option<EgressClient>,
    /// The rules for a person's consent to requests.
    consent: Arc<ConsentRules>,
}

/// The parts of a host that its successor takes over.
#[derive(Clone)]
struct Runtime {
    engine: EpochEngine,
    /// The bytes of memory that the engine reserves for a call.
    memory: usize,
    audit: Option<Arc<Audit>>,
}

/// The internal tool that reads files of skills for resources.
struct ResourceReader {
    tool: ServedTool,
    /// The maximum size of a file, in bytes: the operator's limit on answers, which applies before
    /// base64.
    max_bytes: usize,
}

/// A tool and its grant.
struct ServedTool {
    tool: Arc<Tool>,
    /// The description that replaces the component's own, if there is one.
    description: Option<Description>,
    terms: Terms,
    /// The tool's quota of slots and memory.
    quota: Arc<CallQuota>,
    /// The skills that the tool may read.
    skills: GrantedSkills,
    /// True if the host adds help to the tool's failures.
    gives_help: bool,
}

impl Host {
    /// Creates a builder.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Returns the definition that a tool's component gives, without the names of skills.
    pub fn definition(&self, tool: &str) -> Option<&Definition> {
        if let Some(tool) = self.program_tool(tool) {
            return Some(tool.definition());
        }
        let served = self.tool(tool).ok()?;
        Some(&served.tool.definition)
    }

    /// Returns the name of each component, as grants use it, and its SHA-256 in hex.
    pub fn component_digests(&self) -> impl Iterator<Item = (&str, &str)> {
        let components = self.0.components.iter().map(|loaded| &*loaded.component);
        components.map(|component| (component.grant_name(), &*component.digest))
    }

    /// Returns whether a tool is built in.
    pub fn is_built_in(&self, tool: &str) -> bool {
        self.is_program_tool(tool) || self.tool(tool).is_ok_and(|tool| tool.quota.is_built_in)
    }

    /// Returns the definitions that the components of all tools give, without the names of skills.
    pub fn tools(&self) -> impl Iterator<Item = &Definition> {
        self.served_tools().map(|served| &served.tool.definition)
    }

    /// Asks a tool's component for its definitions again, in a fresh sandbox.
    pub async fn redefine(&self, tool: &str) -> anyhow::Result<Vec<Definition>> {
        let ServedTool { tool, terms, .. } = self.tool(tool)?;
        tool.component.read_definitions(&terms.limits).await
    }

    /// Returns whether a tool's failures have a kind. Failures of typed functions have none.
    pub async fn has_failure_kinds(&self, tool: &str) -> Result<bool, CallError> {
        let served = self.tool(tool)?;
        let sandbox = served.tool.component.sandbox().await;
        let sandbox = sandbox.map_err(|stop| stop_error(&served.tool, stop))?;
        Ok(!sandbox.exports_functions())
    }

    /// Returns all skills, regardless of scope.
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// Returns the problems of components and grants, for the operator. The tools without problems
    /// can be called.
    pub fn problems(&self) -> &[String] {
        &self.0.problems
    }

    /// Returns false if component files were left out because they are not compiled yet; see
    /// [`HostBuilder::build_compiled`].
    pub fn is_complete(&self) -> bool {
        self.0.is_complete
    }

    /// Returns the running and waiting calls, and the memory they use.
    pub fn occupancy(&self) -> Occupancy {
        let mut occupancy = self.0.runtime.engine.occupancy();
        occupancy.refused_components = self.0.refused_components;
        occupancy
    }

    /// Returns the number of calls that may run at a time,
    /// [`Load::calls`](crate::Load::calls). Further calls wait, or fail because the host is
    /// busy.
    pub fn capacity(&self) -> usize {
        self.0.runtime.engine.calls() as usize
    }

    /// Returns the number of calls of one tool that may run at a time.
    pub(crate) fn calls_per_tool(&self) -> usize {
        self.0.runtime.engine.calls_per_tool() as usize
    }

    /// Compiles the components that are not in the cache, so that first calls do not wait.
    ///
    /// Compiles several components at a time, and built-in ones first. Meanwhile a call waits only
    /// for the component that it needs. If a component cannot be compiled, calls of it fail.
    pub async fn prepare(&self) {
        for is_built_in in [true, false] {
            let resources = self.0.resources.iter().map(|resources| &resources.tool);
            let served = self.0.tools.iter().chain(resources);
            let mut preparing = tokio::task::JoinSet::new();
            for ServedTool { tool, .. } in
                served.filter(|served| served.quota.is_built_in == is_built_in)
            {
                if tool.component.needs_compiling() {
                    let component = Arc::clone(&tool.component);
                    preparing.spawn(async move { component.sandbox().await.map(drop) });
                }
            }
            preparing.join_all().await;
        }
    }

    /// Calls a tool in a fresh sandbox.
    ///
    /// Needs a tokio runtime with a timer. Dropping the future stops the call. A future
    /// that is neither polled nor dropped keeps its slot and memory.
    ///
    /// `arguments` is the JSON object from the model.
    /// [`parse_arguments`](crate::parse_arguments) parses the object's text.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Output, CallError> {
        self.call_from(&Caller::default(), tool, arguments).await
    }

    /// Calls a tool like [`Host::call`], and records the caller in the audit log.
    pub async fn call_from(
        &self,
        caller: &Caller,
        tool: &str,
        arguments: Value,
    ) -> Result<Output, CallError> {
        if let Some(tool) = self.program_tool(tool) {
            return self.run_program_tool(caller, tool, Ok(arguments)).await;
        }
        self.call_within(None, caller, tool, arguments).await
    }

    /// Calls a tool like [`Host::call_from`], and stops the call after this time.
    async fn call_within(
        &self,
        time: Option<Duration>,
        caller: &Caller,
        tool: &str,
        arguments: Value,
    ) -> Result<Output, CallError> {
        self.run_recorded(caller, self.tool(tool), tool, Ok(arguments), time)
            .await
    }

    /// Records and returns `reason`, the error of a call whose arguments could not be read.
    ///
    /// Returns another error if the tool is unknown or the call cannot be recorded.
    pub async fn refuse(
        &self,
        caller: &Caller,
        tool: &str,
        reason: CallError,
    ) -> Result<Output, CallError> {
        if let Some(tool) = self.program_tool(tool) {
            return self.run_program_tool(caller, tool, Err(reason)).await;
        }
        self.run_recorded(caller, self.tool(tool), tool, Err(reason), None)
            .await
    }

    /// Calls a tool like [`Host::call_from`], with the text of the arguments from the
    /// model. Records invalid JSON in the audit log as a failed call.
    pub(crate) async fn call_json(
        &self,
        caller: &Caller,
        tool: &str,
        arguments: &str,
    ) -> Result<Output, CallError> {
        let arguments = parse_arguments(arguments);
        self.run_recorded(caller, self.tool(tool), tool, arguments, None)
            .await
    }

    /// Calls the internal tool that reads skills' files.
    pub(crate) async fn call_resources(
        &self,
        caller: &Caller,
        arguments: Value,
    ) -> Result<Output, CallError> {
        let tool = self.resource_reader().map(|reader| &reader.tool);
        let tool = tool.ok_or_else(|| self.unknown_tool(SKILL_RESOURCES));
        self.run_recorded(caller, tool, SKILL_RESOURCES, Ok(arguments), None)
            .await
    }

    /// Returns the maximum size of a file that can be read as a resource, in bytes. Returns `None`
    /// if the caller has no resources.
    pub(crate) fn resource_bytes(&self) -> Option<usize> {
        self.resource_reader().map(|reader| reader.max_bytes)
    }

    /// Returns whether the files of a skill may be read as resources.
    pub(crate) fn resources_allow(&self, skill: &str) -> bool {
        let reader = self.resource_reader();
        reader.is_some_and(|reader| self.may_read(&reader.tool.terms, skill))
    }

    /// Writes a checkpoint to the audit log, if there are records after the last checkpoint. When
    /// the last host that uses a log ends, it writes a checkpoint too.
    pub fn sign_audit_log(&self) {
        if let Some(audit) = &self.0.runtime.audit {
            audit.checkpoint();
        }
    }

    /// Ends the audit log, as the last host that uses it does: writes a checkpoint, and waits for
    /// late readers of checkpoints, at most two seconds for each. Blocks the thread.
    pub fn finish_audit_log(&self) {
        if let Some(audit) = &self.0.runtime.audit {
            audit.finish();
        }
    }

    /// Runs a call, and reports its end to the audit log and the observer. `time` limits the
    /// call in addition to the tool's own limits.
    async fn run_recorded(
        &self,
        caller: &Caller,
        found: Result<&ServedTool, CallError>,
        tool: &str,
        arguments: Result<Value, CallError>,
        time: Option<Duration>,
    ) -> Result<Output, CallError> {
        let audit = self.0.runtime.audit.as_ref();
        let mut entry = audit.map(|audit| audit.begin(caller, tool, arguments.as_ref().ok()));
        let name = found.as_ref().ok();
        let name = name.map(|served| served.tool.definition.name.as_str());
        let observer = self.0.observer.as_ref();
        // Built-in tools send no requests.
        let sends = |served: &&&ServedTool| !served.quota.is_built_in;
        let requests = found.as_ref().ok().filter(sends);
        let requests = requests.map(|_| RequestLog::default());
        if let (Some(entry), Some(requests)) = (&mut entry, &requests) {
            entry.set_requests(requests.clone());
        }
        let observation =
            observer.map(|observer| Observation::begin(observer, name, requests.clone()));
        let mut memory = None;
        let mut result = match found.and_then(|served| Ok((served, arguments?))) {
            Ok((served, arguments)) => {
                let meter = entry.as_ref().map(AuditEntry::cpu);
                let mut run = pin!(self.run(
                    caller,
                    served,
                    arguments,
                    entry.as_mut(),
                    requests,
                    &mut memory
                ));
                let poll = poll_fn(|task| match &meter {
                    Some(meter) => meter.poll(run.as_mut(), task),
                    None => run.as_mut().poll(task),
                });
                match time {
                    None => poll.await,
                    Some(time) => {
                        let late = |_| Err(stop_error(&served.tool, Stop::Time(time)));
                        timeout(time, poll).await.unwrap_or_else(late)
                    }
                }
            }
            Err(error) => Err(error),
        };
        if let Some(Err(stop)) = entry.map(|entry| entry.end(&result)) {
            result = Err(program_tool::stopped(tool, stop));
        }
        if let Some(observation) = observation {
            observation.end(&result, memory);
        }
        result
    }

    /// Creates a tool's sandbox and drops it, for benchmarks.
    #[cfg(skillhost_measure)]
    pub async fn instantiate(&self, tool: &str) -> Result<(), CallError> {
        let ServedTool {
            tool, terms, quota, ..
        } = self.tool(tool)?;
        let sandbox = tool.component.sandbox().await;
        let sandbox = sandbox.map_err(|stop| stop_error(tool, stop))?;
        let done = sandbox.instantiate(quota, &terms.limits).await;
        done.map_err(|stop| stop_error(tool, stop))
    }

    /// Waits until the component of a tool is compiled. Compiles it if nothing else does.
    pub async fn compile_tool(&self, name: &str) {
        if let Ok(served) = self.tool(name) {
            // A call reports the error.
            let _ = served.tool.component.sandbox().await;
        }
    }

    /// Runs a call after checking its arguments, and adds help to its error.
    async fn run(
        &self,
        caller: &Caller,
        served: &ServedTool,
        arguments: Value,
        entry: Option<&mut AuditEntry>,
        requests: Option<RequestLog>,
        peak: &mut Option<usize>,
    ) -> Result<Output, CallError> {
        let tool = &served.tool;
        let schema = tool.schema().map_err(|stop| stop_error(tool, stop))?;
        let arguments = schema.check(arguments)?;
        let run = self.run_checked(caller, served, &arguments, entry, requests, peak);
        let result = run.await;
        result.map_err(|error| {
            if served.gives_help {
                self.with_help(served, arguments, error)
            } else {
                error
            }
        })
    }

    /// Runs a call with arguments that match the tool's schema.
    async fn run_checked(
        &self,
        caller: &Caller,
        served: &ServedTool,
        arguments: &Map<String, Value>,
        mut entry: Option<&mut AuditEntry>,
        requests: Option<RequestLog>,
        peak: &mut Option<usize>,
    ) -> Result<Output, CallError> {
        let ServedTool { tool, terms, .. } = served;
        let subject = subject(tool, arguments);
        if let Some(entry) = &mut entry {
            entry.set_subject(&subject);
        }
        let sandbox = tool.component.sandbox().await;
        let sandbox = sandbox.map_err(|stop| stop_error(tool, stop))?;
        let guest_arguments = sandbox.arguments(&tool.name, arguments)?;
        // Other third-party tools, such as those that run scripts, see all entries of a folder.
        let leaves_names_out =
            served.quota.is_built_in || tool.definition.name.starts_with(script_note::JUDGE_PREFIX);
        // The call's folder is opened only afterwards, so that a waiting call holds no open files.
        let quota = served.quota.for_client(caller.sharing_name());
        let slot = sandbox.enter(&quota).await;
        let cpu = entry.as_ref().map(|entry| entry.cpu()).unwrap_or_default();
        let slot = slot.map_err(|stop| stop_error(tool, stop))?;
        let slot = Arc::new(slot.for_caller(caller, cpu));
        let mut folder = self.open_folder(tool, arguments, terms, &slot).await?;
        if leaves_names_out {
            folder = folder.map(|opened| opened.map(|open| self.0.catalog.for_lists(open)));
        }
        if let (Some(entry), Some(Ok(open))) = (&mut entry, &folder) {
            entry.set_skill(open.skill.as_deref());
        }
        let scripts = scripts::gate(terms, &folder);
        if let (Some(entry), Some(gate)) = (&mut entry, &scripts) {
            entry.set_script(gate.recorder.clone());
        }
        let (opened_skill, unknown_skill) = match &folder {
            Some(Ok(open)) => (open.skill.as_deref(), None),
            Some(Err(FolderError::Unknown)) => (None, subject.skill.map(str::to_owned)),
            _ => (None, None),
        };
        let gate = |log| self.request_gate(caller, tool, opened_skill, terms, log);
        let requests = requests.map(gate);
        let tracer = self.0.observer.as_ref().filter(|it| it.traces());
        let call = SandboxCall {
            tool: &tool.name,
            arguments: guest_arguments,
            folder,
            terms,
            skills: served.skills.within(self.1.as_ref()),
            scripts,
            requests,
            is_traced: tracer.is_some(),
            memory: entry
                .as_ref()
                .map_or_else(Default::default, |entry| entry.memory()),
            slot: &slot,
        };
        let outcome = sandbox.call(call).await;
        if let (Some(tracer), Err(_) | Ok(Err(_))) = (tracer, &outcome.result) {
            tracer.traced(outcome.trace);
        }
        *peak = Some(outcome.memory);
        let model_reads = tool.definition.model_reads;
        match outcome.result.map_err(|stop| stop_error(tool, stop))? {
            Ok(answer) => {
                let (view, deadline) = (outcome.view, outcome.deadline);
                let files = scripts::changed_files(view, &terms.limits, slot, deadline).await;
                let mut output = Output::new(answer.text, answer.details, model_reads);
                output.text_property = tool.definition.text_property.clone();
                output.files = files.map_err(|stop| stop_error(tool, stop))?;
                Ok(output)
            }
            Err(guest_failure) => {
                let mut failure = Failure::new(guest_failure.kind, guest_failure.message);
                failure.details = guest_failure.details;
                failure.met = outcome.met.map(Box::new);
                failure.unknown_skill = unknown_skill;
                failure.model_reads = model_reads;
                Err(CallError::Failed(failure))
            }
        }
    }

    /// Returns the gate for the requests of a call, which records them in `log`.
    fn request_gate(
        &self,
        caller: &Caller,
        tool: &Tool,
        skill: Option<&str>,
        terms: &Terms,
        log: RequestLog,
    ) -> RequestGate {
        let component = tool.component.grant_name();
        let closed = RequestGate::closed(component, log);
        let egress = self.0.egress.as_ref();
        let Some(egress) = egress.filter(|_| !terms.network.is_empty()) else {
            return closed;
        };
        let (name, digest) = (&tool.definition.name, &tool.component.digest);
        let question = Question::new(name, skill, component, digest);
        let consent = ConsentGate {
            rules: Arc::clone(&self.0.consent),
            session: caller.consent_session().cloned(),
            question,
        };
        let open = closed.clone().open(egress, &terms.network, consent);
        open.unwrap_or_else(|error| {
            tracing::error!("the requests of this call are denied: {error}");
            closed
        })
    }

    /// Opens the folder of a call, if the tool reads one. If the skill's name is unknown, scans for
    /// skills again first.
    async fn open_folder(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        terms: &Terms,
        slot: &Arc<CallSlot>,
    ) -> Result<Option<Result<CallFolder, FolderError>>, CallError> {
        let Some(rule) = &tool.definition.folder else {
            return Ok(None);
        };
        let open = || {
            let folder = self.open_granted_folder(tool, rule, arguments, terms);
            folder.map_err(|stop| stop_error(tool, stop))
        };
        let folder = open()?;
        if let Err(FolderError::Unknown | FolderError::Outside) = &folder
            && self.0.catalog.refresh(Arc::clone(slot)).await
        {
            return open().map(Some);
        }
        Ok(Some(folder))
    }

    fn tool(&self, name: &str) -> Result<&ServedTool, CallError> {
        self.served_tools()
            .find(|served| served.tool.definition.name == name)
            .ok_or_else(|| self.unknown_tool(name))
    }

    /// Returns the error for a call of an unknown tool.
    fn unknown_tool(&self, name: &str) -> CallError {
        let names = self.served_tools();
        CallError::UnknownTool {
            name: name.chars().take(64).collect(),
            nearest: suggest::nearest(
                name,
                names.map(|served| served.tool.definition.name.as_str()),
            ),
        }
    }

    /// Opens the folder of a call, if the grant allows it.
    fn open_granted_folder(
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
                let path = rule
                    .path_property
                    .as_deref()
                    .and_then(|property| string(arguments, property))
                    .unwrap_or_default();
                let sees = |skill: &str| self.sees_skill(skill);
                let found = self.0.catalog.folder_of_path(path, terms.hard_links, sees);
                match found.as_ref().map(|open| open.skill.as_deref()) {
                    Ok(None) if !terms.home || !self.sees_home() => Ok(Err(FolderError::NoHome)),
                    Ok(Some(skill)) if !terms.skills.allow(skill) => Err(not_granted(skill)),
                    _ => Ok(found),
                }
            }
            // A caller must not learn that a skill outside of its scope exists.
            (Some(name), _) if Skill::is_name(name) && !self.sees_skill(name) => {
                Ok(Err(FolderError::Unknown))
            }
            // Only for valid names: the tool itself refuses an invalid one.
            (Some(name), _) if Skill::is_name(name) && !terms.skills.allow(name) => {
                Err(not_granted(name))
            }
            (Some(name), _) => Ok(self.0.catalog.skill(name, terms.hard_links)),
            (None, false) => Ok(Err(FolderError::Unknown)),
        }
    }
}

/// Returns the component, the skill and the path of a call, for the audit log.
fn subject<'a>(tool: &'a Tool, arguments: &'a Map<String, Value>) -> CallSubject<'a> {
    let rule = tool.definition.folder.as_ref();
    let path = rule.and_then(|rule| rule.path_property.as_deref());
    CallSubject {
        component: &tool.component.digest,
        skill: rule.and_then(|rule| string(arguments, &rule.skill_property)),
        path: path.and_then(|property| string(arguments, property)),
    }
}

/// Logs that the host stopped a call, and returns the error for its caller.
fn stop_error(tool: &Tool, stop: Stop) -> CallError {
    let name = &tool.definition.name;
    let origin = &tool.component.origin;
    tracing::info!(tool = name, origin, "stopped: {stop:?}");
    CallError::Stopped {
        tool: name.clone(),
        stop,
        help: Help::default(),
    }
}

fn string<'a>(arguments: &'a Map<String, Value>, property: &str) -> Option<&'a str> {
    arguments.get(property).and_then(Value::as_str)
}
