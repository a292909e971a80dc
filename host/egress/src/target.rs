//! The method and address of a request, in one normal form to compare with rules and to send.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{Method, Uri};
use skillhost_skills::text::hidden::is_hidden;
use unicode_normalization::char::decompose_compatible;

/// The maximum length of a path and query, in bytes. With the origin, hyper accepts 65,534. Guards
/// against: endless normalising.
const MAX_PATH_BYTES: usize = 64_000;

/// The maximum number of times that escapes are decoded. Guards against: a path of escaped escapes.
/// Each decoding removes only one level of them.
const MAX_DECODINGS: usize = 8;

/// The maximum lengths of a host name, and of one of its labels, in bytes.
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// The method and normalised address of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub(crate) method: Method,
    pub(crate) is_tls: bool,
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) path: NormalPath,
    query: Option<String>,
}

/// A normalised path, or a pattern of such paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NormalPath {
    /// The path to send, without dot segments. Only the necessary escapes remain, in upper case.
    pub(crate) text: String,
    /// The path with all escapes decoded, as a careless server can read it.
    pub(crate) decoded: String,
}

/// A host: a name in lower case, or an IP address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    Name(String),
    Address(IpAddr),
}

/// The reason why a request has no valid target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetError {
    /// The method is `CONNECT` or `TRACE`.
    Method,
    /// The scheme is neither `http` nor `https`.
    Scheme,
    /// The authority has a user name or password.
    UserInfo,
    /// The host is neither a name in ASCII nor an IP address in its usual form.
    Host,
    /// The port is not between 1 and 65535.
    Port,
    /// The path is too long, or has an invalid escape, a disguised `..`, a control character, or
    /// text that is not UTF-8.
    Path,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Method => "the methods CONNECT and TRACE are not allowed",
            Self::Scheme => "the scheme is neither `http` nor `https`",
            Self::UserInfo => "the address has a user name or password",
            Self::Host => "the host is neither a name in ASCII nor an IP address in its usual form",
            Self::Port => "the port is not between 1 and 65535",
            Self::Path => {
                "the path is too long, or has an invalid escape, a disguised `..`, a control \
                 character or text that is not UTF-8"
            }
        })
    }
}

impl std::error::Error for TargetError {}

impl Target {
    /// Normalises the target of a request.
    ///
    /// # Errors
    ///
    /// If the target cannot be compared with rules safely.
    pub fn new(method: &Method, uri: &Uri) -> Result<Self, TargetError> {
        // Some servers ignore the case of methods.
        let is_refused = |refused: &Method| method.as_str().eq_ignore_ascii_case(refused.as_str());
        if [Method::CONNECT, Method::TRACE].iter().any(is_refused) {
            return Err(TargetError::Method);
        }
        let authority = uri.authority().ok_or(TargetError::Host)?.as_str();
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(TargetError::Scheme),
        };
        let (host, port) = read_authority(authority)?;
        let path = uri.path();
        if path.len() + uri.query().map_or(0, str::len) > MAX_PATH_BYTES {
            return Err(TargetError::Path);
        }
        let path = NormalPath::read(path)?;
        Ok(Self {
            method: method.clone(),
            is_tls,
            host,
            port: port.unwrap_or(if is_tls { 443 } else { 80 }),
            path,
            query: uri.query().map(str::to_owned),
        })
    }

    /// Returns whether the request uses TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the host as it is sent and shown, with brackets around an IPv6 address.
    pub fn host(&self) -> String {
        self.host.to_string()
    }

    /// Returns the IP address, if the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self.host {
            Host::Address(address) => Some(address),
            Host::Name(_) => None,
        }
    }

    /// Returns the scheme, the host and the port, without the scheme's default port.
    pub fn origin(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Returns the host and the port, without the scheme's default port.
    pub fn authority(&self) -> String {
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => self.host(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }

    /// Returns the path and query to send.
    pub fn path_and_query(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path.text),
            None => self.path.text.clone(),
        }
    }
}

impl Host {
    /// Returns whether the host is `localhost` or a name below it. Such names mean this machine.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Name(name) if name.rsplit('.').next() == Some("localhost"))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Returns the host and the port of an authority.
pub(crate) fn read_authority(authority: &str) -> Result<(Host, Option<u16>), TargetError> {
    if authority.contains('@') {
        return Err(TargetError::UserInfo);
    }
    let after_host = authority.find(']').map_or(0, |end| end + 1);
    let (host, port) = match authority[after_host..].split_once(':') {
        Some((rest, port)) => (&authority[..after_host + rest.len()], Some(port)),
        None => (authority, None),
    };
    let port = match port {
        None | Some("") => None,
        Some(digits) => Some(read_port(digits).ok_or(TargetError::Port)?),
    };
    Ok((read_host(host).ok_or(TargetError::Host)?, port))
}

/// Parses a port number. Returns `None` unless it has only digits and is between 1 and 65535.
pub(crate) fn read_port(digits: &str) -> Option<u16> {
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.parse().ok().filter(|_| are_digits);
    port.filter(|port| *port != 0)
}

fn read_host(host: &str) -> Option<Host> {
    if let Some(rest) = host.strip_prefix('[') {
        let address: Ipv6Addr = rest.strip_suffix(']')?.parse().ok()?;
        return Some(Host::Address(IpAddr::V6(address).to_canonical()));
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let last = name.rsplit('.').next()?;
    // The C library reads `127.1`, `0x7f000001` and `017700000001` as addresses.
    if last.starts_with(|c: char| c.is_ascii_digit()) {
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
        if is_number {
            let address: Ipv4Addr = name.parse().ok()?;
            return Some(Host::Address(address.into()));
        }
    }
    is_name(&name).then_some(Host::Name(name))
}

/// Returns whether a text is a host name in lower case.
fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && name.split('.').all(is_label)
}

/// Returns whether a text is a label of a host name in lower case.
pub(crate) fn is_label(label: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(is_allowed)
}

impl NormalPath {
    /// Normalises a path.
    ///
    /// # Errors
    ///
    /// If servers may read the path in ways that cannot be compared with rules.
    pub(crate) fn read(path: &str) -> Result<Self, TargetError> {
        let path = if path.is_empty() { "/" } else { path };
        if !path.starts_with('/') {
            return Err(TargetError::Path);
        }
        let text = remove_dot_segments(&normalize_escapes(path)?);
        let segments = text.split('/').map(decode_fully);
        let segments = segments.collect::<Result<Vec<_>, _>>()?;
        let decoded = segments.join("/");
        // A careless server ends a path at a zero byte, or a header at a line break.
        if decoded.contains(|c: char| c.is_ascii_control()) {
            return Err(TargetError::Path);
        }
        // Some servers decode `%u002f`.
        if decoded.split('%').skip(1).any(is_unicode_escape) {
            return Err(TargetError::Path);
        }
        // A `.` or `..` that is still here was hidden, such as by an escape or a `;`.
        if decoded.split('/').any(is_dots) {
            return Err(TargetError::Path);
        }
        Ok(Self { text, decoded })
    }
}

/// Decodes the escapes of a segment, and look-alikes, as often as possible. Some servers decode more
/// than once.
pub(crate) fn decode_fully(segment: &str) -> Result<String, TargetError> {
    let mut decoded = read_look_alikes(segment);
    for decodings in 0.. {
        let Some(next) = decode(decoded.as_bytes()) else {
            break;
        };
        if decodings == MAX_DECODINGS {
            return Err(TargetError::Path);
        }
        // Some servers read bytes that are not UTF-8, such as `%c0%af`, as a `/`.
        let next = String::from_utf8(next).map_err(|_| TargetError::Path)?;
        decoded = read_look_alikes(&next);
    }
    Ok(decoded)
}

/// Returns whether a server can read a segment as `.` or `..`. Some ignore text after a `;`, end the
/// path at a decoded `?` or `#`, remove white space, or decode a `+` as a blank.
fn is_dots(segment: &str) -> bool {
    let is_end = |c: char| ";?#+".contains(c) || c.is_whitespace() || c.is_control();
    let start = segment.trim_start_matches(is_end).split(is_end).next();
    [".", ".."].contains(&start.unwrap_or_default())
}

/// Returns the path as a lenient server can read it. Such a server accepts `\` as `/`, normalises
/// Unicode or converts it to a code page, or removes invisible characters.
fn read_look_alikes(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    let is_kept = |c: &char| !is_hidden(*c) || c.is_control() || c.is_whitespace();
    for c in path.chars().filter(is_kept) {
        decompose_compatible(c, |c| {
            text.push(match c {
                // Code pages of Japan and Korea have `¥` and `₩` in the place of `\`.
                '\\' | '¥' | '₩' | '÷' | '\u{2044}' | '\u{20e5}' | '\u{2215}' | '\u{2216}'
                | '\u{2571}' | '\u{2572}' | '\u{27cb}' | '\u{27cd}' | '\u{29f5}' | '\u{29f8}'
                | '\u{29f9}' => '/',
                '\u{29e3}' | '\u{29e5}' => '#',
                '\u{b7}' => '.',
                '\u{066a}' => '%',
                c => c,
            });
        });
    }
    text
}

/// Returns whether the text after a `%` starts with `u` and four hexadecimal digits.
fn is_unicode_escape(text: &str) -> bool {
    let digits = text.strip_prefix(['u', 'U']).map(str::as_bytes);
    let digits = digits.and_then(<[u8]>::first_chunk::<4>);
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Decodes the escapes of characters that never need one, writes other escapes in upper case, and
/// escapes the characters that a request must not have.
fn normalize_escapes(path: &str) -> Result<String, TargetError> {
    let mut text = String::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let mut byte = *first;
        rest = after;
        let is_escape = byte == b'%';
        if is_escape {
            let digits = after.split_first_chunk().ok_or(TargetError::Path)?;
            byte = hex_byte(digits.0).ok_or(TargetError::Path)?;
            rest = digits.1;
        }
        let is_kept = if is_escape {
            byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
        } else {
            byte.is_ascii_graphic() && !b"\"<>^`{|}".contains(&byte)
        };
        if is_kept {
            text.push(byte.into());
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    Ok(text)
}

/// Decodes the valid escapes. Returns `None` if there are none.
fn decode(path: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        let byte = after.first_chunk().and_then(hex_byte);
        match byte.filter(|_| *first == b'%') {
            Some(byte) => (decoded.push(byte), rest = &after[2..]).0,
            None => (decoded.push(*first), rest = after).0,
        }
    }
    (decoded.len() < path.len()).then_some(decoded)
}

fn hex_byte(digits: &[u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(high? * 16 + low?).ok()
}

/// Removes `.` and `..` from a path that starts with `/`.
fn remove_dot_segments(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (number, segment) in segments.iter().enumerate() {
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                // A path that ends in a dot segment names a folder.
                if number + 1 == segments.len() {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::tests::vectors;

    /// Returns the target of a GET request.
    pub(crate) fn target(uri: &str) -> Result<Target, TargetError> {
        match uri.parse() {
            Ok(uri) => Target::new(&Method::GET, &uri),
            Err(_) => Err(TargetError::Host),
        }
    }

    fn sent(target: &Target) -> String {
        target.origin() + &target.path_and_query()
    }

    #[test]
    fn normalises_addresses() {
        for row in vectors("targets") {
            let target = target(row["address"].as_str().unwrap());
            let Some(expected) = row["sent"].as_str() else {
                continue;
            };
            assert_eq!(target.as_ref().map(sent).as_deref(), Ok(expected), "{row}");
            let again = self::target(expected);
            assert_eq!(again.as_ref().map(sent).as_deref(), Ok(expected), "{row}");
        }
    }

    #[test]
    fn refuses_addresses_that_are_read_in_several_ways() {
        for row in vectors("targets") {
            let Some(expected) = row["refused"].as_str() else {
                continue;
            };
            let expected = match expected {
                "host" => TargetError::Host,
                "path" => TargetError::Path,
                "port" => TargetError::Port,
                "scheme" => TargetError::Scheme,
                "user-info" => TargetError::UserInfo,
                other => panic!("{other}"),
            };
            let target = target(row["address"].as_str().unwrap());
            assert_eq!(target, Err(expected), "{row}");
        }
    }

    #[test]
    fn bounds_names_paths_and_decoding() {
        for (length, is_ok) in [(63_999, true), (64_000, false)] {
            let long = format!("https://e.org/{}", "a".repeat(length));
            assert_eq!(target(&long).is_ok(), is_ok, "{length}");
        }
        for uri in [
            format!("https://{}.org/", "a".repeat(64)),
            format!("https://{}org/", "a.".repeat(126)),
        ] {
            assert_eq!(target(&uri), Err(TargetError::Host), "{uri}");
        }
        // Each decoding removes one of 30,000 levels.
        let deep = format!("https://e.org/%{}", "25".repeat(30_000));
        assert_eq!(target(&deep), Err(TargetError::Path));
    }

    #[test]
    fn refuses_connect_and_trace_in_any_case() {
        for method in ["CONNECT", "TRACE", "connect", "Trace"] {
            let uri = "https://example.org/".parse().unwrap();
            let method = method.parse().unwrap();
            assert_eq!(Target::new(&method, &uri), Err(TargetError::Method));
        }
    }
}
