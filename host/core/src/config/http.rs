//! The table `[http]`: how a server over HTTP is set up. The server itself is the
//! crate `skillhost-mcp`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::Located;
use super::quantity::{Answers, Bytes, Count, Time};

/// How a server over HTTP is set up.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Http {
    /// The file that holds the token.
    pub token_file: Option<Located>,
    /// Names that the server is asked by.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may ask.
    pub allowed_origins: Vec<String>,
    /// Balancers before the server.
    pub trusted_proxies: Vec<String>,
    /// What peers may take.
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

/// The table's keys.
pub(super) const KEYS: &[&str] = &[
    "token_file",
    "allowed_hosts",
    "allowed_origins",
    "trusted_proxies",
    "body",
    "connections",
    "requests",
    "answers",
    "streams",
    "header_time",
    "body_time",
    "request_time",
    "write_time",
    "shutdown_time",
];

#[derive(Deserialize, Default)]
#[serde(default, expecting = "expected a table of settings")]
pub(super) struct Raw {
    token_file: Option<Spanned<PathBuf>>,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
    trusted_proxies: Vec<String>,
    body: Option<Bytes>,
    connections: Option<Count>,
    requests: Option<Count>,
    answers: Option<Answers>,
    streams: Option<Count>,
    header_time: Option<Time>,
    body_time: Option<Time>,
    request_time: Option<Time>,
    write_time: Option<Time>,
    shutdown_time: Option<Time>,
}

impl Raw {
    pub(super) fn located(self, located: impl Fn(Spanned<PathBuf>) -> Located) -> Http {
        let default = HttpLimits::default();
        let count = |given: Option<Count>, other: usize| given.map_or(other, |count| count.0);
        let size = |given: Option<Bytes>, other: usize| given.map_or(other, |bytes| bytes.0);
        let time = |given: Option<Time>, other: Duration| given.map_or(other, |time| time.0);
        Http {
            token_file: self.token_file.map(located),
            allowed_hosts: self.allowed_hosts,
            allowed_origins: self.allowed_origins,
            trusted_proxies: self.trusted_proxies,
            limits: HttpLimits {
                body: size(self.body, default.body),
                connections: count(self.connections, default.connections),
                requests: count(self.requests, default.requests),
                answers: self.answers.map_or(default.answers, |answers| answers.0),
                streams: count(self.streams, default.streams),
                header_time: time(self.header_time, default.header_time),
                body_time: time(self.body_time, default.body_time),
                request_time: time(self.request_time, default.request_time),
                write_time: time(self.write_time, default.write_time),
                shutdown_time: time(self.shutdown_time, default.shutdown_time),
            },
        }
    }
}
