//! The HTTP requests of tools: which requests an operator allows, and the process that sends them.
//! The process also fetches the keys of issuers of access tokens.
//!
//! - `address`: distinguishes public IP addresses from all others.
//! - `target`: the method and address of a request, normalised.
//! - `rule`: the operator's rules.
//! - `policy`: the grant of a component.
//! - `coverage`: compares what a component asks for with its grant.
//! - `message`: the headers that the host and the process exchange.
//! - `placeholders`: what a guest has in place of its secrets.
//! - `resolve`: resolves host names.
//! - `driven`: connections that the readers of responses drive.
//! - `head`: the limit on what a server sends before its response.
//! - `connect`: connections to servers.
//! - `issuer`: the requests for issuers' keys.
//! - `secrets`: secrets, and the search for them in responses.
//! - `forward`: sends one request.
//! - `serve`: receives requests in the process.
//! - `client`: the host's handle to the process.
//! - `process`: starts and restarts the process.
//!
//! This crate is part of [skillhost](https://crates.io/crates/skillhost). It may change at any
//! time.

mod address;

mod target;

mod rule;

mod policy;

mod coverage;

mod message;

mod placeholders;

mod resolve;

mod driven;

mod head;

mod connect;

mod issuer;

mod secrets;

mod forward;

mod serve;

mod client;

mod process;

#[cfg(test)]
mod tests;

pub use address::is_public;
pub use client::{EgressClient, Requester};
pub use coverage::Coverage;
pub use driven::DrivenBody;
pub use message::{Failure, FailureKind, Outcome};
pub use placeholders::{placeholder, secrets_in};
pub use policy::{ASK, Denial, NetworkGrant, Permission, PrivateAddress, SecretUse};
pub use process::{
    EgressSettings, SENDER_ARGUMENT, SUPERVISOR_ARGUMENT, StartingEgress, forbid_core_dumps,
    send_requests, supervise,
};
pub use rule::{NetworkRule, RuleError};
pub use target::{Target, TargetError};
