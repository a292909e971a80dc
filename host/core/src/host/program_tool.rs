//! Tools that the program answers itself, without a component. As for other tools, the host checks
//! the arguments of their calls, limits the calls by slots, and records them.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Host;
use skillhost_sandbox::tool::arguments::check_arguments;
use skillhost_sandbox::tool::observer::Observation;
use skillhost_sandbox::tool::{
    CallError, Caller, Definition, Failure, FailureKind, Form, Help, Output, Stop,
};
use skillhost_skills::blocking;

/// A tool that the program answers itself. A component's tool of the same name is not served.
pub trait ProgramTool: Send + Sync {
    /// Returns the definition.
    fn definition(&self) -> &Definition;

    /// Answers a call, on a thread that may block.
    ///
    /// # Errors
    ///
    /// Returns a failure with the message for the model.
    fn call(&self, caller: &Caller, arguments: &Map<String, Value>) -> Result<String, Failure>;
}

impl Host {
    /// Returns the program's tools in the caller's scope.
    pub(super) fn program_tools(&self) -> impl Iterator<Item = &Arc<dyn ProgramTool>> {
        let scope = self.1.as_ref();
        let tools = self.0.program_tools.iter();
        tools.filter(move |tool| {
            scope.is_none_or(|scope| scope.allows_tool(&tool.definition().name))
        })
    }

    /// Returns the program's tool with this name.
    pub(super) fn program_tool(&self, name: &str) -> Option<&Arc<dyn ProgramTool>> {
        self.program_tools()
            .find(|tool| tool.definition().name == name)
    }

    /// Returns whether the program answers this tool itself.
    pub(super) fn is_program_tool(&self, name: &str) -> bool {
        self.program_tool(name).is_some()
    }

    /// Calls a tool of the program, and reports its end to the audit log and the observer.
    pub(super) async fn run_program_tool(
        &self,
        caller: &Caller,
        tool: &Arc<dyn ProgramTool>,
        arguments: Result<Value, CallError>,
    ) -> Result<Output, CallError> {
        let name = tool.definition().name.as_str();
        let audit = self.0.runtime.audit.as_ref();
        let entry = audit.map(|audit| audit.begin(caller, name, arguments.as_ref().ok()));
        let observer = self.0.observer.as_ref();
        let observation = observer.map(|observer| Observation::begin(observer, Some(name), None));
        let mut result = match arguments.and_then(|arguments| check_call(tool, arguments)) {
            Ok(arguments) => self.answer(caller, tool, arguments).await,
            Err(error) => Err(error),
        };
        if let Some(Err(stop)) = entry.map(|entry| entry.end(&result)) {
            result = Err(stopped(name, stop));
        }
        if let Some(observation) = observation {
            observation.end(&result, None);
        }
        result
    }

    /// Waits for a slot of the tool, and calls the tool.
    async fn answer(
        &self,
        caller: &Caller,
        tool: &Arc<dyn ProgramTool>,
        arguments: Map<String, Value>,
    ) -> Result<Output, CallError> {
        let (name, engine) = (&tool.definition().name, &self.0.runtime.engine);
        let quota = engine.quota(name, true, 0);
        let quota = quota.for_client(caller.sharing_name());
        let slot = engine.enter(&quota, 1).await;
        let slot = slot.ok_or_else(|| stopped(name, Stop::Busy))?;
        let (tool, caller) = (Arc::clone(tool), caller.clone());
        let called = blocking::run(slot, move || tool.call(&caller, &arguments)).await;
        let aborted = || Err(Failure::new(FailureKind::Failed, "the call aborted"));
        let called = called.unwrap_or_else(|_| aborted());
        let called = called.map(|text| Output::new(text, None, Form::Text));
        called.map_err(CallError::Failed)
    }
}

/// Returns the error of a call that the host stopped.
pub(super) fn stopped(tool: &str, stop: Stop) -> CallError {
    CallError::Stopped {
        tool: tool.to_owned(),
        stop,
        help: Help::default(),
    }
}

fn check_call(
    tool: &Arc<dyn ProgramTool>,
    arguments: Value,
) -> Result<Map<String, Value>, CallError> {
    let checked = check_arguments(&tool.definition().input_schema, arguments);
    checked.unwrap_or_else(|error| Err(CallError::Arguments(format!("{error:#}"))))
}
