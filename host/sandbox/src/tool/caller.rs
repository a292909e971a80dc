//! The party that asks for a call, as the record of the call names it. A transport
//! or an embedder says what it knows; nothing here checks who somebody is, and
//! nothing here allows anything.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// The party that asks for a call. It is passed with the call, and the audit log has
/// it. Default: the program that embeds the host, of which nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    pub(crate) transport: Transport,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) peer: Option<Peer>,
    #[doc(hidden)]
    pub id: Option<String>,
    pub(crate) trace: Option<TraceId>,
}

/// The way on which a call arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// The program that embeds the host calls it.
    #[default]
    Embedded,
    /// The command line.
    Cli,
    /// MCP over standard input and output.
    Stdio,
    /// MCP over HTTP.
    Http,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// An address of the network. Behind a balancer it is the balancer's.
    Address(SocketAddr),
    /// A process of this machine, at a Unix socket: its user, and its own number when
    /// it connected.
    Process {
        /// The number of its user.
        user: u32,
        /// The number of the process, which others may have later.
        process: u32,
    },
}

/// The id of a trace, of which a call is a part: W3C Trace Context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

impl Caller {
    /// Returns a caller on this transport, of whom nothing else is known.
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            ..Self::default()
        }
    }

    /// Sets the name by which the operator knows the client.
    #[must_use]
    pub fn client(mut self, name: impl Into<Arc<str>>) -> Self {
        self.client = Some(name.into());
        self
    }

    /// Sets the other end of the connection.
    #[must_use]
    pub fn peer(mut self, peer: Peer) -> Self {
        self.peer = Some(peer);
        self
    }

    /// Sets the caller's own id for the call. The record has the first 1,024
    /// characters.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the trace that the call is a part of.
    #[must_use]
    pub fn trace(mut self, trace: TraceId) -> Self {
        self.trace = Some(trace);
        self
    }
}

impl Transport {
    /// Returns the word for it in the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Cli => "cli",
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Process { user, process } => write!(f, "unix:uid={user},pid={process}"),
        }
    }
}

impl TraceId {
    /// Reads the id in the value of a `traceparent`: 32 hexadecimal digits in lower
    /// case, not all of them zero. None if it is no such value.
    pub fn from_traceparent(value: &str) -> Option<Self> {
        let is_hex = |text: &str, length| {
            let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            text.len() == length && text.bytes().all(is_digit)
        };
        let mut parts = value.split('-');
        let (version, trace) = (parts.next()?, parts.next()?);
        let (parent, flags) = (parts.next()?, parts.next()?);
        // A later version may have more parts.
        let has_parts = version != "00" || parts.next().is_none();
        let is_valid = is_hex(version, 2) && version != "ff" && is_hex(trace, 32);
        let is_valid = is_valid && is_hex(parent, 16) && is_hex(flags, 2) && has_parts;
        let id = u128::from_str_radix(trace, 16).ok();
        id.filter(|id| is_valid && *id != 0).map(Self)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_trace_of_a_traceparent_and_nothing_else() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let parent = "b7ad6b7169203331";
        for right in [
            format!("00-{trace}-{parent}-01"),
            format!("cc-{trace}-{parent}-01-more"),
        ] {
            let read = TraceId::from_traceparent(&right).unwrap();
            assert_eq!(read.to_string(), trace, "{right}");
        }
        let small = TraceId::from_traceparent(&format!("00-{:032x}-{parent}-00", 7));
        assert_eq!(small.unwrap().to_string(), format!("{:032x}", 7));
        for wrong in [
            String::new(),
            trace.to_owned(),
            format!("00-{trace}-{parent}"),
            format!("00-{trace}-{parent}-01-more"),
            format!("ff-{trace}-{parent}-01"),
            format!("0-{trace}-{parent}-01"),
            format!("00-{}-{parent}-01", trace.to_uppercase()),
            format!("00-{}-{parent}-01", &trace[1..]),
            format!("00-+{}-{parent}-01", &trace[1..]),
            format!("00-{:032x}-{parent}-01", 0),
            format!("00-{trace}-{}-01", &parent[1..]),
            format!("00-{trace}-{parent}-1"),
            format!("00-{trace}-{parent}-0g"),
        ] {
            assert_eq!(TraceId::from_traceparent(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn writes_peers_as_people_do() {
        let address = Peer::Address("[::1]:80".parse().unwrap());
        assert_eq!(address.to_string(), "[::1]:80");
        let (user, process) = (1000, 42);
        let local = Peer::Process { user, process };
        assert_eq!(local.to_string(), "unix:uid=1000,pid=42");
    }
}
