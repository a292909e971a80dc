//! The headers that the host and the egress process add to a request and its response.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use skillhost_skills::text::ascii_json;

/// The component file whose grant covers the request.
pub(crate) const GRANT: HeaderName = HeaderName::from_static("skillhost-grant");

/// The address of an issuer's keys. A request with this header has no body. The body of its
/// response has the keys.
pub(crate) const ISSUER: HeaderName = HeaderName::from_static("skillhost-issuer");

/// The name of a secret and its placeholder in this call, with `=` between them.
pub(crate) const PLACEHOLDER: HeaderName = HeaderName::from_static("skillhost-placeholder");

/// An [`Outcome`], in JSON.
pub(crate) const OUTCOME: HeaderName = HeaderName::from_static("skillhost-outcome");

/// The result of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The failure, if the server's response is missing or withheld.
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
    /// The kind, which is shown to the guest.
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
    /// The host name cannot be resolved, or has no address or too many.
    Name,
    /// The server cannot be reached.
    Connection,
    /// The server was not reached in time.
    Timeout,
    /// The server's certificate is not valid.
    Certificate,
    /// The server does not follow HTTP.
    Protocol,
    /// The response contains a secret, or is partial and may contain a piece of one.
    Secret,
    /// The guest sent a body that is too large or incomplete.
    Body,
}

/// The maximum length of an explanation. Guards against: servers that fill the operator's log, such
/// as with the names in their certificates.
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
            Self::Body => "body",
        }
    }
}

impl Failure {
    /// Creates a failure. Shortens the explanation, and keeps only its printable ASCII.
    pub fn new(kind: FailureKind, why: impl ToString) -> Self {
        let why = why.to_string();
        // Lines of a log must have no control characters, and headers only ASCII.
        let shown = why.chars().filter(|c| (' '..='~').contains(c));
        Self {
            kind,
            why: shown.take(MAX_WHY).collect(),
        }
    }
}

impl Outcome {
    /// Removes the outcome from the headers of a response.
    pub fn take(headers: &mut HeaderMap) -> Option<Self> {
        serde_json::from_slice(headers.remove(&OUTCOME)?.as_bytes()).ok()
    }

    pub(crate) fn header(&self) -> HeaderValue {
        let json = ascii_json::to_string(self).unwrap_or_default();
        HeaderValue::try_from(json).unwrap_or(HeaderValue::from_static("{}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_has_the_whole_outcome() {
        let outcome = Outcome {
            rule: Some("GET https://e.org/\u{e9}/😀*".to_owned()),
            ..Outcome::default()
        };
        let mut headers = HeaderMap::from_iter([(OUTCOME, outcome.header())]);
        assert_eq!(Outcome::take(&mut headers), Some(outcome));
    }
}
