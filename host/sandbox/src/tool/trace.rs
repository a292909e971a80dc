//! What a failed call leaves for the author of its tool: the guest's output, and the
//! functions that it was in. Not here: the lines of those functions' sources, because
//! the sections that have them are a stranger's.

/// The trace of a failed call; see [`Observer::traces`](crate::tool::observer::Observer::traces). It
/// holds what a guest wrote: escape it for a terminal, and do not show it to a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallTrace {
    /// The guest's output, at most [`Limits::log`](crate::tool::limits::Limits::log) bytes.
    pub output: String,
    /// The functions that the guest was in when it trapped, innermost first.
    pub frames: Vec<TraceFrame>,
}

/// A function of a component that was running.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceFrame {
    /// The position of its instruction in the component's bytes.
    pub offset: u64,
    /// Its name, if the component has names.
    pub function: Option<String>,
}
