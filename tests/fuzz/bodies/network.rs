//! Normalises the address of a request and compares it with a rule. The lines of the input are the
//! rule, the method and the address. A simple model of addresses and rules checks the results.

use std::net::IpAddr;

use http::{Method, Uri};
use skillhost_egress::{NetworkRule, Target};

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (rule, method, address) = (line(), line(), line());
    let rule: Option<NetworkRule> = rule.parse().ok();
    let Ok(method) = Method::from_bytes(method.as_bytes()) else {
        return;
    };
    let Some(target) = target(&method, address) else {
        return;
    };
    let sent = target.origin() + &target.path_and_query();
    assert_eq!(
        self::target(&method, &sent).as_ref(),
        Some(&target),
        "{address:?}"
    );
    let asked = Parts::new(address);
    let sent = Parts::new(&sent);
    assert_eq!(
        asked.scheme.to_ascii_lowercase(),
        sent.scheme,
        "{address:?}"
    );
    assert_eq!(asked.host(), sent.host(), "{address:?}");
    check_host(sent.authority);
    let decoded = decode_all(sent.path);
    let mut segments = decoded.split(['/', '\\']);
    assert!(sent.path.starts_with('/'), "{address:?}");
    let is_end = |c: char| ";?#".contains(c) || c.is_whitespace();
    let is_dots = |segment: &str| [".", ".."].contains(&segment.split(is_end).next().unwrap());
    assert!(!segments.any(is_dots), "{address:?}");
    assert!(
        !decoded.contains(|c: char| c.is_ascii_control()),
        "{address:?}"
    );
    if let Some(rule) = rule {
        let again: NetworkRule = rule.to_string().parse().unwrap();
        assert_eq!(rule.allows(&target), again.allows(&target), "{rule}");
        if rule.allows(&target) {
            check_allowed(&rule, &method, &sent, &decoded);
        }
    }
}

fn target(method: &Method, address: &str) -> Option<Target> {
    let uri: Uri = address.parse().ok()?;
    Target::new(method, &uri).ok()
}

/// The parts of an address, split at the first separators.
struct Parts<'a> {
    scheme: &'a str,
    authority: &'a str,
    path: &'a str,
}

impl<'a> Parts<'a> {
    fn new(address: &'a str) -> Self {
        let (scheme, rest) = address.split_once("://").expect("there is a scheme");
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let path = rest.split(['?', '#']).next().unwrap_or_default();
        Self {
            scheme,
            authority,
            path,
        }
    }

    /// Returns the host, without its port.
    fn host(&self) -> String {
        let colon = self.authority.rfind(':');
        let end = colon.filter(|colon| !self.authority[*colon..].contains(']'));
        let host = &self.authority[..end.unwrap_or(self.authority.len())];
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        match address.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().to_string(),
            Err(_) => host,
        }
    }
}

/// Checks that the host and port of a sent request have only characters that every parser reads
/// alike.
fn check_host(authority: &str) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    assert!(authority.chars().all(is_plain), "{authority:?}");
}

/// Decodes a path until it has no escapes.
fn decode_all(path: &str) -> String {
    let mut bytes = path.as_bytes().to_vec();
    while let Some(at) = (0..bytes.len()).find(|at| escaped(&bytes[*at..]).is_some()) {
        let byte = escaped(&bytes[at..]).unwrap_or_default();
        bytes.splice(at..at + 3, [byte]);
    }
    String::from_utf8(bytes).expect("the decoded path is UTF-8")
}

/// Decodes an escape such as `%2e` at the start.
fn escaped(bytes: &[u8]) -> Option<u8> {
    let (b'%', [high, low, ..]) = bytes.split_first()? else {
        return None;
    };
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// Checks that an allowed request has the method, host and path of its rule.
fn check_allowed(rule: &NetworkRule, method: &Method, sent: &Parts<'_>, decoded: &str) {
    let text = rule.to_string();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (address, methods) = words.split_last().expect("a rule has an address");
    let mut methods = methods
        .iter()
        .flat_map(|word| word.split(','))
        .filter(|word| !word.is_empty())
        .peekable();
    let is_any = methods.peek().is_none();
    assert!(is_any || methods.any(|it| it == method.as_str()), "{rule}");
    let allowed = Parts::new(address);
    assert_eq!(allowed.scheme.to_ascii_lowercase(), sent.scheme, "{rule}");
    let (host, sent_host) = (allowed.host(), sent.host());
    match host.rsplit_once('*') {
        None => assert_eq!(host, sent_host, "{rule}"),
        Some((_, end)) => {
            assert!(sent_host.ends_with(end), "{rule}: {sent_host}");
            let labels = |host: &str| host.split('.').count();
            assert_eq!(labels(&host), labels(&sent_host), "{rule}");
        }
    }
    let is_plain = |segment: &str| ![".", ".."].contains(&segment);
    if allowed.path.contains(['%', '\\']) || !allowed.path.split('/').all(is_plain) {
        return;
    }
    match allowed.path.split_once('*') {
        None if allowed.path.is_empty() => {}
        None => assert_eq!(decoded, allowed.path, "{rule}"),
        Some((start, _)) => assert!(decoded.starts_with(start), "{rule}: {decoded:?}"),
    }
}
