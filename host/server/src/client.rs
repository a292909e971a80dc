//! Names of clients as keys.

use std::sync::Arc;

use axum::http::Extensions;
use skillhost_identity::Client;

/// The key of a client: its name. None is the client without one.
pub(crate) type ClientKey = Option<Arc<str>>;

/// Returns the client of a request, if the gate has identified one.
pub(crate) fn of(extensions: &Extensions) -> Option<&Arc<Client>> {
    extensions.get::<Arc<Client>>()
}

/// Returns the key of a client.
pub(crate) fn key(client: &Client) -> ClientKey {
    client.name().cloned()
}
