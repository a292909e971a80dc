//! Tools: their definitions, what may be asked of them, what a call may cost and
//! reach, and how it can end. Nothing here knows how tools are run.

pub(crate) mod arguments;
pub(crate) mod audit;
pub(crate) mod grant;
pub mod limits;
pub mod message;
pub(crate) mod observer;
mod outcome;
pub(crate) mod record;

pub use outcome::{CallError, Definition, Failure, FailureKind, FolderRule, Form, Output, Stop};
