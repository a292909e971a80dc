//! Tools and calls, without running them: definitions, arguments, limits, grants, consent,
//! outcomes, and the audit log.

pub mod arguments;
pub mod audit;
mod caller;
mod changes;
pub mod consent;
mod definition;
pub mod grant;
mod help;
pub mod limits;
pub mod message;
pub mod observer;
pub mod offer;
mod outcome;
mod output_files;
pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod script;
mod stop;
mod trace;

pub(crate) use caller::CallerLease;
pub use caller::{Caller, Peer, TraceId, Transport};
pub(crate) use changes::ViewChanges;
pub use definition::{Definition, Effects, FolderRule, Form};
pub use help::Help;
pub use outcome::{CallError, CallOutcome, Failure, FailureKind, Output, RefusalKind};
pub use output_files::{OutputFile, OutputFiles};
pub use request::{RequestLog, RequestRecord};
pub use stop::{Stop, StopKind};
pub use trace::{CallTrace, TraceFrame};
