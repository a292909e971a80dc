//! The options of a server: its clients, its names and its limits.

use std::sync::Arc;

use skillhost_skills::broker::Opener;

use crate::{Clients, HttpLimits, Tls, Token};

/// The options of a [server](crate::Server). By default it serves only this machine, without a
/// token.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The token of the client without a name, which may use everything. A server that other
    /// machines can reach needs a token or [clients](Self::clients). Default: none.
    pub token: Option<Token>,
    /// The clients with names, each with its credentials, its scope and its budget. Default: none.
    pub clients: Clients,
    /// Further names that requests may send as `Host`, with or without a port. The address that
    /// the server listens on is always allowed, and so is `localhost` on loopback. Default: none.
    pub allowed_hosts: Vec<String>,
    /// Further origins whose web pages may send requests, such as `https://app.example.com`. The
    /// server's own origin is always allowed. Default: none.
    pub allowed_origins: Vec<String>,
    /// The balancers in front of the server, by IP address or network (`10.0.0.0/8`). The limits
    /// of one address do not apply to them, because they connect for many peers. Default: none.
    pub trusted_proxies: Vec<String>,
    /// The TLS that peers must speak. Default: none, so the network can read all traffic.
    pub tls: Option<Arc<Tls>>,
    /// The limits on peers.
    pub limits: HttpLimits,
    /// The opener that the server uses to read TLS files and issuers' keys again. Default: one
    /// without a broker.
    pub opener: Opener,
}
