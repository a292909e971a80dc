//! The HTTP requests of tools: which of them an operator allows, and the process that sends
//! them. It also fetches the keys of issuers of access tokens.
//!
//! - `address`: addresses that are not public.
//! - `target`: the method and address of a request, normalised.
//! - `rule`: the operator's rules.
//! - `policy`: the grant of a component.
//! - `coverage`: compares what a component asks for with its grant.
//! - `message`: what the host and the process tell each other besides HTTP.
//! - `resolve`: host names.
//! - `driven`: connections that the readers of responses drive.
//! - `connect`: connections to servers.
//! - `issuer`: the requests for issuers' keys.
//! - `secrets`: the secrets, and the search for them in responses.
//! - `forward`: sends one request.
//! - `serve`: the process.
//! - `client`: the host's end.
//! - `process`: starts the process, and starts it again.
//!
//! This crate is part of [skillhost](https://crates.io/crates/skillhost). It may change at any
//! time.

mod address;

mod target;

mod rule;

mod policy;

mod coverage;

mod message;

mod resolve;

mod driven;

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
pub use client::{EgressClient, Origin};
pub use coverage::Coverage;
pub use driven::DrivenBody;
pub use message::{Failure, FailureKind, Outcome};
pub use policy::{ASK, Denial, NetworkGrant, Permission, PrivateAddress, SecretUse};
pub use process::{
    EgressSettings, SENDER_ARGUMENT, SUPERVISOR_ARGUMENT, StartingEgress, forbid_core_dumps,
    send_requests, supervise,
};
pub use rule::{NetworkRule, RuleError};
pub use target::{Target, TargetError};
