//! What an operator can say of the server: its token, its names, and its
//! limits, each with the threat that it meets.

use std::time::Duration;

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

/// What peers may take of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Bytes of a request's body. Meets: a peer that takes the server's memory.
    /// Default: 2 MiB.
    pub body: usize,
    /// Connections at a time. One more takes the place of one that has not shown
    /// the token, and is told that the server is busy if there is none such.
    /// Meets: peers that take the server's descriptors. Default: 512.
    pub connections: usize,
    /// Requests to `/mcp` at a time, from reading the body until the last byte of
    /// the answer is written. One more is told that the server is busy. Meets:
    /// peers that ask faster than guests answer. Default: 128.
    pub requests: usize,
    /// Bytes of answers, from their making until they are written. One that does
    /// not fit is dropped, and its peer told that the server is busy. Meets: peers
    /// that ask and do not read. Default: 256 MiB.
    pub answers: usize,
    /// Streams that tell of changes at a time, which are no
    /// [`requests`](Self::requests). Meets: listeners that leave no room for
    /// calls. Default: 128.
    pub streams: usize,
    /// Longest wait for the headers of a request, from the connection's start
    /// or the answer before. Meets: a peer that sends them byte by byte, and
    /// connections that nobody uses. Default: 30 seconds.
    pub header_time: Duration,
    /// Longest time that a request's body may take. Meets: a peer that sends
    /// it byte by byte. Default: 30 seconds.
    pub body_time: Duration,
    /// Longest time from the body of a request to its answer. Meets: a call
    /// that waits for ever. Default: 60 seconds.
    pub request_time: Duration,
    /// Longest time in which a peer may take less than 256 KiB of an answer
    /// that waits for it. Meets: a peer that asks and does not read. Default:
    /// 30 seconds.
    pub write_time: Duration,
    /// Longest time that requests in flight are given at the end. Meets: an
    /// end that never comes. Default: 20 seconds.
    pub shutdown_time: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body: 2 << 20,
            connections: 512,
            requests: 128,
            answers: 256 << 20,
            streams: 128,
            header_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            request_time: Duration::from_secs(60),
            write_time: Duration::from_secs(30),
            shutdown_time: Duration::from_secs(20),
        }
    }
}
