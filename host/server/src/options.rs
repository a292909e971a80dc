//! The settings of a server: its clients, its names and its limits.

use std::sync::Arc;

use skillhost::config::HttpLimits;

use crate::{Clients, Tls, Token};

/// The settings of a [server](crate::Server). By default it serves only this
/// machine, without a token.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The token of the client without a name, who may use everything. A server that
    /// other machines can reach needs one, or [clients](Self::clients). Default: none.
    pub token: Option<Token>,
    /// The clients with names, each with its tokens, its scope and its share. Default:
    /// none.
    pub clients: Clients,
    /// The names that requests may have as `Host`, with a port or without, besides
    /// the address itself, and `localhost` if that is loopback. Default: none.
    pub allowed_hosts: Vec<String>,
    /// The origins of web pages that may send requests, such as
    /// `https://app.example.com`, besides the server's own. Default: none.
    pub allowed_origins: Vec<String>,
    /// The balancers in front of the server, by IP address or network
    /// (`10.0.0.0/8`). The share of one address does not apply to them, because
    /// they connect for many peers. Default: none.
    pub trusted_proxies: Vec<String>,
    /// The TLS that peers speak. Default: none, what travels can be read on the way.
    pub tls: Option<Arc<Tls>>,
    /// The limits on peers.
    pub limits: HttpLimits,
}
