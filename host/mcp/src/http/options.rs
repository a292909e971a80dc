//! What an operator can say of the server: its token, its names, and its
//! limits, each with the threat that it meets.

use skillhost::config::HttpLimits;

use super::Token;

/// How a server is set up. By default it serves this machine alone, without a
/// token.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// What requests for `/mcp` and `/metrics` must show. A server that others
    /// can reach needs one. Default: none.
    pub token: Option<Token>,
    /// Names that the server is asked by (the `Host` of requests), with a port
    /// or without, besides the address itself, and `localhost` if that is a
    /// loopback address. Default: none.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may ask, such as `https://app.example.com`,
    /// besides pages of the server's own origin. Default: none.
    pub allowed_origins: Vec<String>,
    /// Balancers before the server, by IP address or network (`10.0.0.0/8`).
    /// Each speaks for many peers, so that the share of one address is not
    /// theirs. Default: none.
    pub trusted_proxies: Vec<String>,
    /// What peers may take of the server.
    pub limits: HttpLimits,
}
