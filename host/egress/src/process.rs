//! The egress process, and the process that starts it again.
//!
//! The host starts the first process before it confines itself, and sends it the grants. The
//! first process reads the files of secrets, and starts a second one, which confines itself and
//! sends the requests. Both have the same control socket: after the second process failed, the
//! next one continues with the requests that wait in it. The first process reads nothing from
//! the network or from the control socket.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use http::HeaderValue;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use skillhost_helper::{Kind, OWN_PROGRAM, read_message, write_message};
use tokio_rustls::TlsConnector;

use crate::client::EgressClient;
use crate::forward::{SecretValue, Sender};
use crate::policy::NetworkGrant;
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

/// The maximum number of names that are resolved at the same time.
const MAX_RESOLVING: usize = 64;

/// The files that the C library reads to resolve names. A rule of the process sandbox does not
/// apply to a file that was replaced, so a new process is started.
const RESOLVER_FILES: [&str; 5] = [
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
];

/// The grants of all components, and the files of their secrets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct EgressSettings {
    components: BTreeMap<String, ComponentSettings>,
    /// A file of further certificate authorities, in PEM.
    authorities: Option<PathBuf>,
}

/// What one component may send.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct ComponentSettings {
    grant: NetworkGrant,
    /// The files of secrets, by name.
    files: BTreeMap<String, PathBuf>,
}

/// What the process that sends requests gets.
#[derive(Serialize, Deserialize)]
struct SenderSettings {
    grants: BTreeMap<String, NetworkGrant>,
    /// The values of secrets, by component file and name.
    secrets: BTreeMap<String, BTreeMap<String, String>>,
    /// Further certificate authorities, in PEM.
    authorities: String,
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
        files: BTreeMap<String, PathBuf>,
    ) -> Self {
        let component = ComponentSettings { grant, files };
        self.components.insert(file.to_owned(), component);
        self
    }

    /// Trusts the certificate authorities in a file, besides Mozilla's.
    pub fn authorities(mut self, file: impl Into<PathBuf>) -> Self {
        self.authorities = Some(file.into());
        self
    }

    /// Returns whether no component may send a request.
    pub fn is_empty(&self) -> bool {
        let mut components = self.components.values();
        components.all(|component| component.grant.is_empty())
    }

    /// Starts the processes.
    ///
    /// # Errors
    ///
    /// If a file of a secret cannot be read, or a process cannot start.
    pub fn start(&self, program: &Path) -> anyhow::Result<EgressClient> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut first = skillhost_helper::command(program)
            .arg(SUPERVISOR_ARGUMENT)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            // Ctrl-C must end only the server, which may have calls to finish.
            .process_group(0)
            .spawn()
            .context("cannot start the egress process")?;
        let stdin = first.stdin.take().context("the process has no stdin")?;
        write_message(&stdin, Kind::Request, &serde_json::to_vec(self)?)?;
        // The first process ends when this end of its stdin is closed.
        Ok(EgressClient::new(ours.into(), stdin.into()))
    }
}

/// Runs the first process, until the host that started it ends. `read_secret` reads and checks
/// the file of a secret.
///
/// # Errors
///
/// If the settings or the files of secrets cannot be read.
pub fn supervise(read_secret: impl Fn(&Path) -> anyhow::Result<String>) -> anyhow::Result<()> {
    let stdin = io::stdin();
    let Some(message) = read_message(stdin.lock(), MAX_SETTINGS_BYTES)? else {
        return Ok(());
    };
    let settings: EgressSettings = serde_json::from_slice(&message.bytes)?;
    let settings = serde_json::to_vec(&settings.read_files(read_secret)?)?;
    loop {
        let files = resolver_files();
        let mut sender = start_sender(&settings)?;
        match wait(&sender, &files)? {
            Event::HostGone => {
                drop(sender.stdin.take());
                sender.wait()?;
                return Ok(());
            }
            // It ends after the requests that it has.
            Event::FilesReplaced => drop(sender.stdin.take()),
            Event::SenderGone => {
                let status = sender.wait()?;
                eprintln!("skillhost: the egress process failed and is started again: {status}");
                thread::sleep(RESTART_DELAY);
            }
        }
    }
}

/// Runs the process that sends requests. The caller has confined it.
///
/// # Errors
///
/// If the settings or the control socket cannot be read.
pub fn send_requests() -> anyhow::Result<()> {
    let stdin = io::stdin();
    let Some(message) = read_message(stdin.lock(), MAX_SETTINGS_BYTES)? else {
        return Ok(());
    };
    let settings: SenderSettings = serde_json::from_slice(&message.bytes)?;
    let sender = settings.sender()?;
    let control = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_RESOLVING)
        .build()?;
    let (gone, is_gone) = tokio::sync::oneshot::channel();
    thread::spawn(move || {
        // Nothing more is sent, so this returns when the other end is closed.
        let _ = read_message(io::stdin().lock(), 0);
        let _ = gone.send(());
    });
    runtime.block_on(serve(control, sender, is_gone))?;
    Ok(())
}

/// What ends the wait for a process.
enum Event {
    HostGone,
    SenderGone,
    FilesReplaced,
}

/// Waits until the host or the process that sends requests is gone, or a file of the resolver was
/// replaced.
fn wait(sender: &Child, files: &[Option<(u64, u64)>]) -> anyhow::Result<Event> {
    let id = i32::try_from(sender.id()).ok().and_then(Pid::from_raw);
    let id = id.context("the process has no id")?;
    let process = pidfd_open(id, PidfdFlags::empty())?;
    let stdin = io::stdin();
    loop {
        let mut polled = [
            PollFd::new(&stdin, PollFlags::empty()),
            PollFd::new(&process, PollFlags::IN),
        ];
        let interval = Timespec::try_from(RESOLVER_INTERVAL)?;
        rustix::io::retry_on_intr(|| poll(&mut polled, Some(&interval)))?;
        let [host, sender] = polled.map(|polled| !polled.revents().is_empty());
        if host {
            return Ok(Event::HostGone);
        }
        if sender {
            return Ok(Event::SenderGone);
        }
        if resolver_files() != files {
            return Ok(Event::FilesReplaced);
        }
    }
}

/// Identifies the present files of the resolver. A file that is missing has no identity.
fn resolver_files() -> Vec<Option<(u64, u64)>> {
    let identity = |path: &&str| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    RESOLVER_FILES.iter().map(identity).collect()
}

fn start_sender(settings: &[u8]) -> anyhow::Result<Child> {
    let control = io::stdout().as_fd().try_clone_to_owned()?;
    let sender = skillhost_helper::command(Path::new(OWN_PROGRAM))
        .arg(SENDER_ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::from(control))
        .spawn()
        .context("cannot start the egress process")?;
    if let Some(stdin) = &sender.stdin {
        // If the process has ended, its status says so.
        let _ = write_message(stdin, Kind::Request, settings);
    }
    Ok(sender)
}

impl EgressSettings {
    fn read_files(
        self,
        read_secret: impl Fn(&Path) -> anyhow::Result<String>,
    ) -> anyhow::Result<SenderSettings> {
        let mut settings = SenderSettings {
            grants: BTreeMap::new(),
            secrets: BTreeMap::new(),
            authorities: String::new(),
        };
        if let Some(file) = &self.authorities {
            let text = fs::read_to_string(file);
            settings.authorities = text.with_context(|| format!("{}", file.display()))?;
        }
        for (component, ComponentSettings { grant, files }) in self.components {
            let mut values = BTreeMap::new();
            for (name, file) in files {
                let value = read_secret(&file);
                let value = value.with_context(|| format!("cannot read the secret `{name}`"))?;
                let value = value.trim_end_matches(['\r', '\n']).to_owned();
                if value.is_empty() || HeaderValue::try_from(&value).is_err() {
                    bail!("the secret `{name}` is empty, or has characters that a header cannot");
                }
                values.insert(name, value);
            }
            settings.secrets.insert(component.clone(), values);
            settings.grants.insert(component, grant);
        }
        Ok(settings)
    }
}

impl SenderSettings {
    fn sender(self) -> anyhow::Result<Sender<SystemResolver>> {
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.into(),
        };
        for certificate in CertificateDer::pem_slice_iter(self.authorities.as_bytes()) {
            roots.add(certificate.context("bad certificate authority")?)?;
        }
        let client = ClientConfig::builder().with_root_certificates(roots);
        let mut secrets = BTreeMap::new();
        for (component, values) in self.secrets {
            for (name, value) in values {
                let value = SecretValue(Arc::from(value.into_bytes()));
                secrets.insert((component.clone(), name), value);
            }
        }
        Ok(Sender {
            grants: self.grants,
            secrets,
            resolver: SystemResolver,
            tls: TlsConnector::from(Arc::new(client.with_no_client_auth())),
        })
    }
}
