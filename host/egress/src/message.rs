//! The headers by which the host and the egress process speak of a request, besides the
//! request and its response themselves.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

/// The component file whose grant covers the request.
pub(crate) const GRANT: HeaderName = HeaderName::from_static("skillhost-grant");

/// The address of an issuer's keys. A request with it has no body, and gets the keys.
pub(crate) const ISSUER: HeaderName = HeaderName::from_static("skillhost-issuer");

/// The name of a secret and its placeholder in this call, with `=` between them.
pub(crate) const PLACEHOLDER: HeaderName = HeaderName::from_static("skillhost-placeholder");

/// An [`Outcome`], in JSON.
pub(crate) const OUTCOME: HeaderName = HeaderName::from_static("skillhost-outcome");

/// The result of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The failure, if there is no response of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The address that the request was sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The rule that allowed the request, or the kind of consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The names of the secrets that were sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

/// The reason why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind, which the guest learns.
    pub kind: FailureKind,
    /// The explanation, for the operator.
    pub why: String,
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The grant does not allow the request.
    Denied,
    /// The host name has no address.
    Name,
    /// The server cannot be reached.
    Connection,
    /// The server was not reached in time.
    Timeout,
    /// The server's certificate is not valid.
    Certificate,
    /// The server does not speak HTTP as it should.
    Protocol,
    /// The response contains a secret.
    Secret,
}

/// The maximum length of an explanation. Guards against: servers that fill the operator's log, for
/// example by the names in their certificates.
const MAX_WHY: usize = 500;

impl FailureKind {
    /// Returns the name in the audit log and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Name => "name",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Certificate => "certificate",
            Self::Protocol => "protocol",
            Self::Secret => "secret",
        }
    }
}

impl Failure {
    /// Creates a failure. The explanation is shortened, and keeps only printable ASCII.
    pub fn new(kind: FailureKind, why: impl ToString) -> Self {
        let why = why.to_string();
        // A line of a log has no control characters, and a header only those of ASCII.
        let shown = why.chars().filter(|c| (' '..='~').contains(c));
        Self {
            kind,
            why: shown.take(MAX_WHY).collect(),
        }
    }
}

impl Outcome {
    /// Takes the outcome out of the headers of a response.
    pub fn take(headers: &mut HeaderMap) -> Option<Self> {
        serde_json::from_slice(headers.remove(&OUTCOME)?.as_bytes()).ok()
    }

    pub(crate) fn header(&self) -> HeaderValue {
        let mut json = serde_json::to_string(self).unwrap_or_default();
        // A header has no other characters.
        json.retain(|c| (' '..='~').contains(&c));
        HeaderValue::try_from(json).unwrap_or(HeaderValue::from_static("{}"))
    }
}
