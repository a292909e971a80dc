//! Rules for requests, as an operator writes them: `GET https://api.example.org/v1/*`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Method;
use serde::{Deserialize, Serialize};

use crate::target::{
    Host, NormalPath, Target, TargetError, decode_fully, is_label, read_authority, read_port,
};

/// A rule that allows requests: methods, a scheme, a host, a port and a path.
///
/// Without methods, it allows all methods. Without a path, it allows all paths. In the host, `*`
/// matches one whole label. In the path, `*` matches characters other than `/`, `;`, `?` and `#`, and
/// at the end any characters. As a whole segment it matches at least one. Queries are not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NetworkRule {
    text: String,
    /// Empty if all methods are allowed.
    pub(crate) methods: Vec<Method>,
    pub(crate) is_tls: bool,
    pub(crate) host: HostPattern,
    pub(crate) port: u16,
    pub(crate) path: NormalPath,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostPattern {
    Address(IpAddr),
    /// The labels of a name, `None` for any label.
    Labels(Vec<Option<String>>),
}

/// The reason why a text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError(String);

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RuleError {}

impl RuleError {
    pub(crate) fn new(why: String) -> Self {
        Self(why)
    }
}

impl NetworkRule {
    /// Returns whether the rule allows a request.
    pub fn allows(&self, target: &Target) -> bool {
        self.difference(target).is_none()
    }

    /// Returns whether the rule allows only methods that change nothing, such as GET.
    pub(crate) fn has_only_safe_methods(&self) -> bool {
        !self.methods.is_empty() && self.methods.iter().all(Method::is_safe)
    }

    /// Returns the first part of a request that the rule does not allow: its scheme, host, port,
    /// path or method. Returns `None` if it allows the request.
    pub fn difference(&self, target: &Target) -> Option<&'static str> {
        if self.is_tls != target.is_tls {
            Some("scheme")
        } else if !self.host.matches(&target.host) {
            Some("host")
        } else if self.port != target.port {
            Some("port")
        } else if !matches(&self.path, &target.path) {
            Some("path")
        } else if !self.methods.is_empty() && !self.methods.contains(&target.method) {
            Some("method")
        } else {
            None
        }
    }

    /// Returns whether the rule is for requests without TLS.
    pub fn is_plain(&self) -> bool {
        !self.is_tls
    }

    /// Returns whether the host is `localhost`, which may resolve to this machine.
    pub fn is_localhost(&self) -> bool {
        matches!(&self.host, HostPattern::Labels(labels)
            if labels.len() == 1 && labels[0].as_deref() == Some("localhost"))
    }
}

impl fmt::Display for NetworkRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for NetworkRule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

impl From<NetworkRule> for String {
    fn from(rule: NetworkRule) -> Self {
        rule.text
    }
}

impl FromStr for NetworkRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let error = |why: &str| RuleError(format!("`{}`: {why}", text.escape_debug()));
        let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
        let address = words.pop().ok_or_else(|| error("the rule is empty"))?;
        let methods = words
            .iter()
            .flat_map(|word| word.split(','))
            .filter(|word| !word.is_empty());
        let methods = methods.map(|word| read_method(word).ok_or_else(|| error(BAD_METHOD)));
        let methods = methods.collect::<Result<Vec<_>, _>>()?;
        let (scheme, rest) = address.split_once("://").ok_or_else(|| error(NO_SCHEME))?;
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(error(NO_SCHEME)),
        };
        if rest.contains(['?', '#']) {
            return Err(error("a rule has no query: it allows every query"));
        }
        let (authority, path) = match rest.find('/') {
            Some(start) => rest.split_at(start),
            None => (rest, "/*"),
        };
        let (host, port) = read_host_pattern(authority).map_err(|why| error(&why.to_string()))?;
        // A second `*` would say nothing more.
        let mut path = path.to_owned();
        while path.contains("**") {
            path = path.replace("**", "*");
        }
        let path = NormalPath::read(&path).map_err(|why| error(&why.to_string()))?;
        Ok(Self {
            text: text.to_owned(),
            methods,
            is_tls,
            host,
            port: port.unwrap_or(if is_tls { 443 } else { 80 }),
            path,
        })
    }
}

/// The characters at which some servers end a segment or the path.
const ENDS: [char; 4] = ['/', ';', '?', '#'];

const BAD_METHOD: &str = "a method is a word in upper case, other than CONNECT and TRACE";
const NO_SCHEME: &str = "an address begins with `https://` or `http://`";

fn read_method(word: &str) -> Option<Method> {
    let is_upper = word
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    let method = Method::from_bytes(word.as_bytes())
        .ok()
        .filter(|_| is_upper)?;
    (![Method::CONNECT, Method::TRACE].contains(&method)).then_some(method)
}

fn read_host_pattern(authority: &str) -> Result<(HostPattern, Option<u16>), TargetError> {
    if !authority.contains('*') {
        let (host, port) = read_authority(authority)?;
        let host = match host {
            Host::Address(address) => HostPattern::Address(address),
            Host::Name(name) => HostPattern::Labels(
                name.split('.')
                    .map(|label| Some(label.to_owned()))
                    .collect(),
            ),
        };
        return Ok((host, port));
    }
    let (name, port) = match authority.split_once(':') {
        Some((name, port)) => (name, Some(read_port(port).ok_or(TargetError::Port)?)),
        None => (authority, None),
    };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let labels = name.split('.').map(|label| match label {
        "*" => Ok(None),
        label if is_label(label) => Ok(Some(label.to_owned())),
        _ => Err(TargetError::Host),
    });
    let labels: Vec<_> = labels.collect::<Result<_, _>>()?;
    // Refuses rules such as `https://*` and `https://*.com`, which would allow nearly everything.
    let are_named = labels
        .iter()
        .rev()
        .take(2)
        .filter(|label| label.is_some())
        .count()
        == 2;
    if are_named {
        Ok((HostPattern::Labels(labels), port))
    } else {
        Err(TargetError::Host)
    }
}

impl HostPattern {
    fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Address(pattern), Host::Address(address)) => pattern == address,
            (Self::Labels(pattern), Host::Name(name)) => {
                let labels: Vec<&str> = name.split('.').collect();
                labels.len() == pattern.len()
                    && pattern.iter().zip(labels).all(|(pattern, label)| {
                        pattern.as_deref().is_none_or(|pattern| pattern == label)
                    })
            }
            _ => false,
        }
    }

    /// Returns whether all matching hosts are `localhost` or names below it.
    pub(crate) fn is_local(&self) -> bool {
        let Self::Labels(labels) = self else {
            return false;
        };
        matches!(labels.last(), Some(Some(label)) if label == "localhost")
    }
}

/// Returns whether a path matches a pattern, however a server reads the path.
pub(crate) fn matches(pattern: &NormalPath, path: &NormalPath) -> bool {
    matches_path(&pattern.text, &path.text) && matches_path(&pattern.decoded, &path.decoded)
}

/// Returns whether a reading of a path matches that of a pattern.
fn matches_path(pattern: &str, path: &str) -> bool {
    let (pattern, is_prefix) = match pattern.strip_suffix('*') {
        Some(start) => (start, true),
        None => (pattern, false),
    };
    let mut path_segments = path.split('/');
    let mut pattern_segments = pattern.split('/').peekable();
    while let Some(pattern) = pattern_segments.next() {
        let Some(segment) = path_segments.next() else {
            return false;
        };
        let is_last = pattern_segments.peek().is_none();
        if !matches_segment(pattern, segment, is_last && is_prefix) {
            return false;
        }
    }
    is_prefix || path_segments.next().is_none()
}

/// Returns whether a segment matches a pattern. With `is_prefix`, the segment may also be longer.
fn matches_segment(pattern: &str, segment: &str, is_prefix: bool) -> bool {
    // Servers decode more or less. If the skipped text hid such a character, what the rule has after
    // the `*` would not count on some of them.
    let may_skip = |text: &str| decode_fully(text).is_ok_and(|text| !text.contains(ENDS));
    if pattern == "*" && !is_prefix {
        return !segment.trim().is_empty() && may_skip(segment);
    }
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = segment.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return is_prefix || rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() && !is_prefix {
            return rest.strip_suffix(part).is_some_and(may_skip);
        }
        match rest.split_once(part) {
            Some((skipped, after)) if may_skip(skipped) => rest = after,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::vectors;

    fn rule(text: &str) -> Result<NetworkRule, String> {
        text.parse().map_err(|error: RuleError| error.to_string())
    }

    #[test]
    fn allows_what_a_rule_says() {
        for row in vectors("rules") {
            let text = |key: &str| row[key].as_str().unwrap_or_default();
            if row["allowed"].is_null() {
                continue;
            }
            let method = text("method").parse().unwrap();
            let target = Target::new(&method, &text("address").parse().unwrap()).unwrap();
            let rule = rule(text("rule")).unwrap();
            assert_eq!(row["allowed"], rule.allows(&target), "{row}");
        }
    }

    #[test]
    fn refuses_rules_that_allow_too_much_or_nothing() {
        for row in vectors("rules") {
            let Some(expected) = row["refused"].as_str() else {
                continue;
            };
            let error = rule(row["rule"].as_str().unwrap()).unwrap_err();
            assert!(error.contains(expected), "{row}: {error}");
        }
    }
}
