//! Traces of failed calls for the author of a tool: the guest's output and stack. Source
//! lines are not here, because parsing the debug sections of an untrusted component is left
//! to the author's tools.

/// The trace of a failed call; see
/// [`Observer::traces`](crate::tool::observer::Observer::traces). It contains text from a
/// guest: escape it for a terminal, and do not show it to a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallTrace {
    /// The guest's output, at most [`Limits::log`](crate::tool::limits::Limits::log) bytes.
    pub output: String,
    /// The guest's stack when it trapped, innermost function first.
    pub frames: Vec<TraceFrame>,
}

/// A stack frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceFrame {
    /// The position of the instruction in the component's bytes.
    pub offset: u64,
    /// The function's name, if the component has names.
    pub function: Option<String>,
}
