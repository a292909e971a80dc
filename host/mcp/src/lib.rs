//! The MCP server of skillhost.
//!
//! A [`Handler`] answers every request from one [`LiveHost`]. A transport
//! ([`stdio`], or the crate `skillhost-server` for HTTP) reads messages and calls the handler.
//!
//! To add a kind of request, add a module beside `tools` with functions that
//! take the [`LiveHost`], the request and its context, call them in `handler`,
//! and name the capability in [`Handler::get_info`](rmcp::ServerHandler::get_info).
//! Whatever runs a guest goes through `LiveHost::run`. To add a transport, add a
//! module that serves handlers: a [`Handler`] is cheap to clone, and all clones
//! answer from one host.

// The order is that of the layers, lowest first: a module uses only those
// above it.

// Bounds on messages, for every transport: numbers of values, ids and
// progress tokens, subscriptions, bytes of answers.
pub mod values;
pub mod labels;
pub mod subscriptions;
pub mod room;
// The party that sent a request, for the audit log.
mod caller;
// Pages of tools and prompts.
mod page;
// Errors for requests that rmcp could not read.
mod methods;
// Faults of skills that were already logged.
mod faults;
// Threads that run guests.
mod calls;
// The current host, its replacement, and notifications of changes.
mod live;
// The client of a request: what it sees, and its turn.
mod client;
// A request's work: its turn, its end when it is cancelled, reports of its progress.
mod progress;
// Many skills for a page, several at a time.
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
// The transport on stdin and stdout. That over HTTP is the crate `skillhost-server`.
pub mod stdio;

pub use handler::Handler;
pub use live::{ChangedLists, Changes, FolderCounts, LiveHost};
pub use watch::FolderWatch;
