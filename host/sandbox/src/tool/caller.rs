//! The caller of a tool, as the record of the call names it.
//!
//! A transport or an embedder sets the details that it knows. Nothing here authenticates or
//! authorizes a caller.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::consent::ConsentSession;

/// The caller of a tool, for the audit log.
///
/// The default is the program that embeds the host, without any details.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    pub(crate) transport: Transport,
    pub(crate) client: Option<Arc<str>>,
    /// True for a client without a name that shares the host's budgets with other clients.
    pub(crate) is_unnamed_client: bool,
    pub(crate) peer: Option<Peer>,
    #[doc(hidden)]
    pub id: Option<String>,
    pub(crate) trace: Option<TraceId>,
    pub(crate) lease: CallerLease,
    consent: CallerConsent,
}

/// The lease of the caller's request, which is held until all work for the request has ended.
#[derive(Clone, Default)]
pub(crate) struct CallerLease(Option<Arc<dyn Any + Send + Sync>>);

/// The session in which a person can be asked for consent.
#[derive(Debug, Clone, Default)]
struct CallerConsent(Option<Arc<ConsentSession>>);

/// The transport of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// A call by the program that embeds the host.
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
    /// A network address. Behind a load balancer it is the balancer's.
    Address(SocketAddr),
    /// A process of this machine that connected to a Unix socket.
    Process {
        /// The id of its user.
        user: u32,
        /// The id of the process when it connected. Another process can get the same id later.
        process: u32,
    },
}

/// The id of the trace that a call belongs to, as in W3C Trace Context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

impl Caller {
    /// Creates a caller on this transport, without other details.
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            ..Self::default()
        }
    }

    /// Sets the name by which the operator knows the client.
    ///
    /// Clients share slots, the queue and memory fairly. Other callers are served in the order
    /// of their calls.
    #[must_use]
    pub fn client(mut self, name: impl Into<Arc<str>>) -> Self {
        self.client = Some(name.into());
        self
    }

    /// Returns the name by which the operator knows the client, or the transport's name.
    pub fn name(&self) -> &str {
        self.client.as_deref().unwrap_or(self.transport.name())
    }

    /// Marks the caller as a client without a name, which shares the host's budgets with clients
    /// that have names.
    #[must_use]
    pub fn unnamed_client(mut self) -> Self {
        self.is_unnamed_client = true;
        self
    }

    /// Returns the name under which the caller shares the host's budgets with other clients. It is
    /// empty for the client without a name. Returns `None` if the host does not tell clients apart.
    pub fn sharing_name(&self) -> Option<Arc<str>> {
        let unnamed = || self.is_unnamed_client.then(|| "".into());
        self.client.clone().or_else(unnamed)
    }

    /// Sets the other end of the connection.
    #[must_use]
    pub fn peer(mut self, peer: Peer) -> Self {
        self.peer = Some(peer);
        self
    }

    /// Sets the caller's own id for the call. The record has its first 1,024 characters.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the trace that the call belongs to.
    #[must_use]
    pub fn trace(mut self, trace: TraceId) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Sets a lease that the call holds until all work for it has ended, even if its future is
    /// dropped earlier. So the lease's budget also bounds the work for callers that have left.
    #[must_use]
    pub fn lease(mut self, lease: Arc<dyn Any + Send + Sync>) -> Self {
        self.lease = CallerLease(Some(lease));
        self
    }

    /// Sets the session in which a person decides about requests of components whose grant has
    /// `network = "ask"`. Default: no session, so that these requests are denied.
    #[must_use]
    pub fn consent(mut self, session: Arc<ConsentSession>) -> Self {
        self.consent = CallerConsent(Some(session));
        self
    }

    /// Returns the session in which a person can be asked for consent.
    pub fn consent_session(&self) -> Option<&Arc<ConsentSession>> {
        self.consent.0.as_ref()
    }
}

impl fmt::Debug for CallerLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerLease").finish_non_exhaustive()
    }
}

impl PartialEq for CallerLease {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(lease), Some(other)) => Arc::ptr_eq(lease, other),
            (lease, other) => lease.is_none() && other.is_none(),
        }
    }
}

impl Eq for CallerLease {}

impl PartialEq for CallerConsent {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(session), Some(other)) => Arc::ptr_eq(session, other),
            (session, other) => session.is_none() && other.is_none(),
        }
    }
}

impl Eq for CallerConsent {}

impl Transport {
    /// Returns the name of the transport in the audit log.
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
    /// Reads the id in the value of a `traceparent`: 32 lower-case hexadecimal digits, not all
    /// of them zero. Returns `None` if the value is invalid.
    pub fn from_traceparent(value: &str) -> Option<Self> {
        let is_hex = |text: &str, length| {
            let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            text.len() == length && text.bytes().all(is_digit)
        };
        let mut parts = value.split('-');
        let (version, trace) = (parts.next()?, parts.next()?);
        let (parent, flags) = (parts.next()?, parts.next()?);
        // A later version can have more parts.
        let ends_here = version != "00" || parts.next().is_none();
        let is_valid = is_hex(version, 2)
            && version != "ff"
            && is_hex(trace, 32)
            && is_hex(parent, 16)
            && is_hex(flags, 2)
            && ends_here;
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
    fn reads_only_valid_traceparents() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let parent = "b7ad6b7169203331";
        for valid in [
            format!("00-{trace}-{parent}-01"),
            format!("cc-{trace}-{parent}-01-more"),
        ] {
            let read = TraceId::from_traceparent(&valid).unwrap();
            assert_eq!(read.to_string(), trace, "{valid}");
        }
        let small = TraceId::from_traceparent(&format!("00-{:032x}-{parent}-00", 7));
        assert_eq!(small.unwrap().to_string(), format!("{:032x}", 7));
        for invalid in [
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
            assert_eq!(TraceId::from_traceparent(&invalid), None, "{invalid}");
        }
    }

    #[test]
    fn displays_peers() {
        let address = Peer::Address("[::1]:80".parse().unwrap());
        assert_eq!(address.to_string(), "[::1]:80");
        let (user, process) = (1000, 42);
        let local = Peer::Process { user, process };
        assert_eq!(local.to_string(), "unix:uid=1000,pid=42");
    }
}
