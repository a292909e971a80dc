//! The egress process, and the process that starts it again.
//!
//! The host starts the first process before it confines itself, and sends it the grants. The
//! first process reads the files of secrets, and starts a second one, which confines itself and
//! sends the requests. Both have the same control socket: after the second process failed, the
//! next one continues with the requests that wait in it. The first process reads nothing from
//! the network or from the control socket.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use skillhost_helper::{Kind, OWN_PROGRAM, read_message, write_message};
use tokio_rustls::TlsConnector;

use crate::client::EgressClient;
use crate::forward::{SecretValue, Sender};
use crate::policy::{NetworkGrant, SecretUse};
use crate::resolve::SystemResolver;
use crate::serve::serve;

/// The only argument of the first process. It is not a verb for people.
pub const SUPERVISOR_ARGUMENT: &str = "egress";

/// The only argument of the process that sends requests.
pub const SENDER_ARGUMENT: &str = "egress-sender";

/// The maximum bytes of the grants and secrets.
const MAX_SETTINGS_BYTES: usize = 16 << 20;

/// The time between two looks at the files of the resolver.
const RESOLVER_INTERVAL: Duration = Duration::from_secs(2);

/// The wait before a process that failed is started again. Guards against: a process that fails
/// at each start.
const RESTART_DELAY: Duration = Duration::from_millis(200);

/// The files that the C library reads to resolve names. A rule of the process sandbox does not
/// apply to a file that was replaced, so a new process is started.
const RESOLVER_FILES: [&str; 5] = [
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
];

/// The grants of all components, with the files of their secrets.
#[derive(Debug, Clone, Default)]
pub struct EgressSettings {
    components: BTreeMap<String, (NetworkGrant, BTreeMap<String, PathBuf>)>,
    /// A file of further certificate authorities, in PEM.
    authorities: Option<PathBuf>,
}

/// The settings as they are sent to a process.
#[derive(Serialize, Deserialize, Default)]
struct SentSettings {
    components: BTreeMap<String, SentGrant>,
    authorities: Option<PathBuf>,
    /// The certificate authorities, once the first process has read them.
    roots: Vec<Vec<u8>>,
}

#[derive(Serialize, Deserialize, Default)]
struct SentGrant {
    rules: Vec<String>,
    private: Vec<String>,
    secrets: Vec<SentSecret>,
}

#[derive(Serialize, Deserialize)]
struct SentSecret {
    name: String,
    header: String,
    hosts: Vec<String>,
    file: PathBuf,
    /// The value, once the first process has read it.
    value: Option<String>,
}

impl EgressSettings {
    /// Creates settings that allow no request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the grant of a component, with the files of its secrets by name.
    pub fn component(
        mut self,
        file: &str,
        grant: NetworkGrant,
        secrets: BTreeMap<String, PathBuf>,
    ) -> Self {
        self.components.insert(file.to_owned(), (grant, secrets));
        self
    }

    /// Trusts the certificate authorities in a file, besides Mozilla's.
    pub fn authorities(mut self, file: impl Into<PathBuf>) -> Self {
        self.authorities = Some(file.into());
        self
    }

    /// Returns whether no component may send a request.
    pub fn is_empty(&self) -> bool {
        self.components.values().all(|(grant, _)| grant.is_empty())
    }
}
