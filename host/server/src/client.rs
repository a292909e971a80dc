//! The client of a request, and its key in tables.

use std::sync::Arc;

use axum::http::Extensions;
use skillhost_identity::Client;

/// The key of a client: its name, or `None` for the client without a name.
pub(crate) type ClientKey = Option<Arc<str>>;

/// Returns the client of a request, if the gate has identified one.
pub(crate) fn from_extensions(extensions: &Extensions) -> Option<&Arc<Client>> {
    extensions.get::<Arc<Client>>()
}

/// Returns the key of a client.
pub(crate) fn key(client: &Client) -> ClientKey {
    client.name().cloned()
}
