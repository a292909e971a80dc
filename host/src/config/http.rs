//! The table `[http]`: how a server over HTTP is set up. What each key means
//! stands in `server/http/options.rs`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::Located;
use super::quantity::{Answers, Bytes, Count, Time};
use crate::server::http::HttpLimits;

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
