//! The MCP server of skillhost.
//!
//! A [`Handler`] answers every request from one [`LiveHost`]. A transport ([`stdio`], or the
//! crate `skillhost-server` for HTTP) reads messages and calls the handler.
//!
//! To add a kind of request, add a module beside `tools`. Its functions take a `ClientView`
//! and the request. Call them in `handler`, and name the capability in
//! [`Handler::get_info`](rmcp::ServerHandler::get_info). Everything that runs a guest goes
//! through `LiveHost::run` or `LiveHost::begin`.
//!
//! To add a transport, add a module that serves handlers. A [`Handler`] is cheap to clone,
//! and all clones answer from one host.

// The lowest layer first: a module uses only those above it in this list.

// The number of values in JSON, and their memory.
mod values;
// Subscriptions, which notify a client of changes.
pub mod subscriptions;
// Limits on messages, for every transport.
pub mod message_limits;
// Leases on the memory for answers, for every transport.
pub mod answer_lease;
// The caller of a request, for the audit log.
mod caller;
// Pages of tools and prompts.
mod page;
// Errors for requests that rmcp cannot parse.
mod methods;
// The faults of skills, and the log of them.
mod faults;
// Threads that run guests.
mod calls;
// Files of settings, which are read again when they change.
mod watched_file;
// The current host, its replacement, and notifications of changes.
mod live;
// Questions to the person behind a client.
mod consent;
// The client of a request, and the host as that client sees it.
mod client;
// The work of a request: its turn, its cancellation and its progress reports.
pub mod progress;
// Many skills for a page, read several at a time.
mod batches;
// Folders that are watched for changes.
mod watch;
// The methods of the protocol, a module for each kind.
mod resources;
mod outputs;
mod tools;
mod prompts;
mod skills;
mod handler;
// The transport on stdin and stdout. The HTTP transport is the crate `skillhost-server`.
pub mod stdio;

pub use client::{TRY_LATER, over_budget};
pub use handler::Handler;
pub use live::{
    ChangedLists, Changes, DeniedPackages, FolderCounts, LiveHost, LiveSettings, ReadSettings,
};
pub use watch::FolderWatch;
pub use watched_file::WatchedFile;
