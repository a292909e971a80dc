//! The client that sent a request, and the host as that client sees it.
//!
//! A transport that tells clients apart puts the client into the request's extensions. A
//! request without a client sees everything.

use std::ops::Deref;
use std::sync::Arc;

use http::request::Parts;
use rmcp::service::{RequestContext, RoleServer};
use skillhost::{Host, SKILL_RESOURCES};
use skillhost_identity::{Client, RequestLease};

use crate::live::LiveHost;

/// Returns the client of a request, if it has one.
pub(crate) fn from_context(context: &RequestContext<RoleServer>) -> Option<&Arc<Client>> {
    let parts = context.extensions.get::<Parts>();
    parts.and_then(|parts| parts.extensions.get::<Arc<Client>>())
}

/// Returns whether the scope of a request's client includes skills' files as resources.
pub(crate) fn may_read_resources(context: &RequestContext<RoleServer>) -> bool {
    let scope = from_context(context).and_then(|client| client.scope());
    scope.is_none_or(|scope| scope.allows_tool(SKILL_RESOURCES))
}

/// Waits until a request of this client may run. Returns its lease.
pub(crate) async fn wait_for_turn(client: Option<&Arc<Client>>) -> Option<RequestLease> {
    Some(client?.acquire().await)
}

/// The current host, as the client of a request sees it.
pub(crate) struct ClientView<'a> {
    live: &'a LiveHost,
    client: Option<&'a Arc<Client>>,
}

impl<'a> ClientView<'a> {
    pub(crate) fn new(live: &'a LiveHost, context: &'a RequestContext<RoleServer>) -> Self {
        Self {
            live,
            client: from_context(context),
        }
    }

    /// Returns the host, once it is loaded.
    pub(crate) async fn host(&self) -> Host {
        self.in_scope(self.live.host().await)
    }

    /// Returns the host, once it has this tool or all components.
    pub(crate) async fn host_with(&self, tool: &str) -> Host {
        self.in_scope(self.live.host_with(tool).await)
    }

    /// Returns the host, once its offer is known.
    pub(crate) async fn host_to_list(&self) -> Host {
        self.in_scope(self.live.host_to_list().await)
    }

    fn in_scope(&self, host: Host) -> Host {
        match self.client.and_then(|client| client.scope()) {
            Some(scope) => host.in_scope(scope),
            None => host,
        }
    }
}

impl Deref for ClientView<'_> {
    type Target = LiveHost;

    fn deref(&self) -> &LiveHost {
        self.live
    }
}
