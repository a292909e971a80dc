//! The two egress processes: the sender of requests, and the supervisor that restarts it.
//!
//! The host starts the supervisor before it confines itself, and sends it the grants. The supervisor
//! reads the files of secrets, and starts the sender, which confines itself and sends the requests.
//! Each sender gets the supervisor's control socket, so if a sender fails, the next one continues
//! with the requests that wait in the socket. The supervisor reads nothing from the network or the
//! control socket.

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
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use http::HeaderValue;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, getppid, pidfd_open, set_dumpable_behavior,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use skillhost_helper::{Kind, OWN_PROGRAM, read_message, write_message};
use skillhost_skills::broker::Opener;
use skillhost_skills::named_file;
use skillhost_skills::trust::Trust;
use tokio_rustls::TlsConnector;

use crate::client::{EgressClient, MAX_COMPONENT_REQUESTS};
use crate::forward::Sender;
use crate::issuer::Issuers;
use crate::policy::NetworkGrant;
use crate::resolve::SystemResolver;
use crate::secrets::{SecretValue, Secrets};
use crate::serve::{MAX_REQUESTS, serve};

/// The only argument of the supervisor. It is not a verb for users.
pub const SUPERVISOR_ARGUMENT: &str = "egress";

/// The only argument of the sender.
pub const SENDER_ARGUMENT: &str = "egress-sender";

/// The maximum size of the settings, with all grants and secrets, in bytes.
const MAX_SETTINGS_BYTES: usize = 16 << 20;

/// The time between two checks of the resolver's files.
const RESOLVER_INTERVAL: Duration = Duration::from_secs(2);

/// The first and the longest delay before a failed sender is restarted. Guards against: a sender that
/// fails at each start.
const RESTART_DELAYS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(30)];

/// The maximum number of names that are resolved for a component at the same time: one for each of
/// its requests.
const MAX_RESOLVING: usize = MAX_COMPONENT_REQUESTS;

/// The maximum size of a message about the start of the process, in bytes.
const MAX_START_BYTES: usize = 4 << 10;

/// The maximum sizes of the file of a secret, and of a file of certificate authorities, in bytes.
const MAX_SECRET_BYTES: u64 = 8 << 10;
const MAX_AUTHORITIES_BYTES: u64 = 4 << 20;

/// The grants of all components, the files of their secrets, and the addresses of issuers' keys.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct EgressSettings {
    components: BTreeMap<String, ComponentSettings>,
    /// A file of additional certificate authorities, in PEM.
    authorities: Option<PathBuf>,
    /// The users and groups who may change the files, besides root and this user.
    trusted: Vec<String>,
    /// The addresses of issuers' keys.
    issuers: Vec<String>,
}

/// The grant of one component, and the files of its secrets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct ComponentSettings {
    grant: NetworkGrant,
    /// The files of secrets, by name.
    files: BTreeMap<String, PathBuf>,
}

/// The settings of the sender.
#[derive(Serialize, Deserialize)]
struct SenderSettings {
    grants: BTreeMap<String, NetworkGrant>,
    /// The values of secrets, by component file and name.
    secrets: BTreeMap<String, BTreeMap<String, String>>,
    /// Additional certificate authorities for the requests of components, in PEM.
    authorities: String,
    /// The addresses of issuers' keys.
    issuers: Vec<String>,
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

    /// Adds an issuer by the address of its keys. The address may be private.
    pub fn issuer(mut self, address: impl Into<String>) -> Self {
        self.issuers.push(address.into());
        self
    }

    /// Trusts the certificate authorities in a file, besides Mozilla's, for requests of components.
    pub fn authorities(mut self, file: impl Into<PathBuf>) -> Self {
        self.authorities = Some(file.into());
        self
    }

    /// Returns whether no component may send a request, and there is no issuer.
    pub fn is_empty(&self) -> bool {
        let mut components = self.components.values();
        components.all(|component| component.grant.is_empty()) && self.issuers.is_empty()
    }

    /// Trusts these users and groups to change the files.
    pub fn trust(mut self, trust: &Trust) -> Self {
        let principals = trust.principals().iter();
        self.trusted = principals.map(ToString::to_string).collect();
        self
    }

    /// Starts the supervisor.
    ///
    /// `program` must run [`supervise`] if its only argument is [`SUPERVISOR_ARGUMENT`], and
    /// [`send_requests`] if it is [`SENDER_ARGUMENT`].
    ///
    /// # Errors
    ///
    /// If the process cannot start.
    pub fn start(&self, program: &Path) -> anyhow::Result<StartingEgress> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut supervisor = skillhost_helper::command(program)
            .arg(SUPERVISOR_ARGUMENT)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            // Ctrl-C must end only the server, which may still have to finish calls.
            .process_group(0)
            .spawn()
            .context("cannot start the egress process")?;
        let stdin = supervisor
            .stdin
            .take()
            .context("the process has no stdin")?;
        write_message(&stdin, Kind::Request, &serde_json::to_vec(self)?)?;
        // The supervisor exits when this end of its stdin is closed.
        let lifetime = stdin.into();
        Ok(StartingEgress {
            control: ours,
            lifetime,
        })
    }
}

/// An egress process that is starting.
#[derive(Debug)]
pub struct StartingEgress {
    control: UnixStream,
    lifetime: OwnedFd,
}

impl StartingEgress {
    /// Waits until the process has read its files.
    ///
    /// # Errors
    ///
    /// If the process could not read them, or has ended.
    pub fn wait(self) -> anyhow::Result<EgressClient> {
        let answer = read_message(&self.control, MAX_START_BYTES)?;
        let answer = answer.context("the egress process ended at its start")?;
        match answer.kind {
            Kind::Answer => Ok(EgressClient::new(
                self.control.into(),
                self.lifetime,
                MAX_REQUESTS as usize,
            )),
            _ => bail!("{}", String::from_utf8_lossy(&answer.bytes)),
        }
    }
}

/// Runs the supervisor until the host that started it ends.
///
/// Starts a new sender when one of `resolver_files` is replaced, because the old sender's process
/// sandbox has no rule for the new file.
///
/// # Errors
///
/// If the settings cannot be read, or a sender cannot start.
pub fn supervise(resolver_files: &[&str]) -> anyhow::Result<()> {
    forbid_core_dumps()?;
    let Some(host) = getppid() else {
        return Ok(());
    };
    let host = pidfd_open(host, PidfdFlags::empty())?;
    let stdin = io::stdin();
    let Some(message) = read_message(stdin.lock(), MAX_SETTINGS_BYTES)? else {
        return Ok(());
    };
    let settings: EgressSettings = serde_json::from_slice(&message.bytes)?;
    let control = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let settings = match settings.read_files() {
        Ok(settings) => serde_json::to_vec(&settings)?,
        Err(error) => {
            let mut why = format!("{error:#}");
            why.truncate(why.floor_char_boundary(MAX_START_BYTES));
            return Ok(write_message(&control, Kind::Failure, why.as_bytes())?);
        }
    };
    write_message(&control, Kind::Answer, b"")?;
    let [first_delay, longest_delay] = RESTART_DELAYS;
    let mut delay = first_delay;
    let mut replaced: Vec<Child> = Vec::new();
    loop {
        replaced.retain_mut(|sender| matches!(sender.try_wait(), Ok(None)));
        let start = Instant::now();
        let files = identities(resolver_files);
        let mut sender = start_sender(&settings)?;
        match wait_for_event(&host, &sender, resolver_files, &files)? {
            // Nobody waits for the requests any more, and escaped code can make some that never end.
            Event::HostGone => {
                for sender in replaced.iter_mut().chain([&mut sender]) {
                    sender.kill()?;
                    sender.wait()?;
                }
                return Ok(());
            }
            // The old sender ends after its current requests.
            Event::FilesReplaced => {
                drop(sender.stdin.take());
                replaced.push(sender);
            }
            Event::SenderGone => {
                let status = sender.wait()?;
                if status.success() {
                    // A sender ends without an error only after the host has ended.
                    return Ok(());
                }
                eprintln!("skillhost: the egress process failed and is started again: {status}");
                if start.elapsed() > longest_delay {
                    delay = first_delay;
                }
                thread::sleep(delay);
                delay = longest_delay.min(2 * delay);
            }
        }
    }
}

/// Runs the sender. The caller has confined the process, and called [`forbid_core_dumps`].
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
    // Each resolver needs a thread for each of its names.
    let max_resolving = MAX_RESOLVING * settings.grants.len() + settings.issuers.len();
    let sender = settings.sender()?;
    let control = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(max_resolving.max(1))
        .build()?;
    let (announce_exit, supervisor_exit) = tokio::sync::oneshot::channel();
    thread::spawn(move || {
        // The supervisor sends nothing more, so this returns when it closes its end.
        let _ = read_message(io::stdin().lock(), 0);
        let _ = announce_exit.send(());
    });
    runtime.block_on(serve(control, sender, supervisor_exit))?;
    Ok(())
}

/// An event that the supervisor waits for.
enum Event {
    HostGone,
    SenderGone,
    FilesReplaced,
}

/// Waits until the host or the sender has ended, or a file of the resolver was replaced.
///
/// The host closes its end of stdin when it drops its client. Escaped code can keep that end open by
/// sending the descriptor into a socket and never receiving it. So this also watches the host's
/// process.
fn wait_for_event(
    host: &OwnedFd,
    sender: &Child,
    resolver_files: &[&str],
    known: &[Option<(u64, u64)>],
) -> anyhow::Result<Event> {
    let id = i32::try_from(sender.id()).ok().and_then(Pid::from_raw);
    let id = id.context("the process has no id")?;
    let process = pidfd_open(id, PidfdFlags::empty())?;
    let stdin = io::stdin();
    loop {
        let mut polled = [
            PollFd::new(&stdin, PollFlags::empty()),
            PollFd::new(host, PollFlags::IN),
            PollFd::new(&process, PollFlags::IN),
        ];
        let interval = Timespec::try_from(RESOLVER_INTERVAL)?;
        rustix::io::retry_on_intr(|| poll(&mut polled, Some(&interval)))?;
        let [is_stdin_closed, host_ended, sender_ended] =
            polled.map(|polled| !polled.revents().is_empty());
        if is_stdin_closed || host_ended {
            return Ok(Event::HostGone);
        }
        if sender_ended {
            return Ok(Event::SenderGone);
        }
        if identities(resolver_files) != known {
            return Ok(Event::FilesReplaced);
        }
    }
}

/// Excludes this process, which has secrets, from core dumps and debuggers.
///
/// # Errors
///
/// If the kernel refuses it.
pub fn forbid_core_dumps() -> anyhow::Result<()> {
    let forbidden = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    forbidden.context("cannot forbid core dumps")
}

/// Returns the device and inode of each file, or `None` if it is missing.
fn identities(files: &[&str]) -> Vec<Option<(u64, u64)>> {
    let identity = |path: &&str| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    files.iter().map(identity).collect()
}

fn start_sender(settings: &[u8]) -> anyhow::Result<Child> {
    let control = io::stdout().as_fd().try_clone_to_owned()?;
    let mut command = skillhost_helper::command(Path::new(OWN_PROGRAM));
    command
        .arg(SENDER_ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::from(control));
    skillhost_helper::name_parent(&mut command);
    let sender = command.spawn().context("cannot start the egress process")?;
    if let Some(stdin) = &sender.stdin {
        // If the sender has ended already, its exit status shows that later.
        let _ = write_message(stdin, Kind::Request, settings);
    }
    Ok(sender)
}

impl EgressSettings {
    fn read_files(self) -> anyhow::Result<SenderSettings> {
        let principals = self.trusted.iter().map(|text| text.parse());
        let principals = principals.collect::<Result<Vec<_>, String>>();
        let principals = principals.map_err(anyhow::Error::msg)?;
        let trust = principals.into_iter().fold(Trust::new(), Trust::and);
        let mut settings = SenderSettings {
            grants: BTreeMap::new(),
            secrets: BTreeMap::new(),
            authorities: String::new(),
            issuers: self.issuers,
        };
        if let Some(file) = &self.authorities {
            let text = read_authorities(file, &trust);
            settings.authorities =
                text.with_context(|| format!("cannot use the `ca_file` `{}`", file.display()))?;
        }
        for (component, ComponentSettings { grant, files }) in self.components {
            let mut values = BTreeMap::new();
            for (name, file) in files {
                let value = read_secret(&file, &trust).with_context(|| {
                    format!(
                        "cannot use the file `{}` of the secret `{name}`",
                        file.display()
                    )
                })?;
                values.insert(name, value);
            }
            settings.secrets.insert(component.clone(), values);
            settings.grants.insert(component, grant);
        }
        Ok(settings)
    }
}

/// Reads a secret, without white space at its end.
fn read_secret(file: &Path, trust: &Trust) -> anyhow::Result<String> {
    let file = named_file::open_private(file, trust, &Opener::DIRECT)?;
    let value = named_file::read_all_text(file, MAX_SECRET_BYTES)?;
    let value = value.trim_end();
    ensure!(!value.is_empty(), "it is empty");
    let is_header = HeaderValue::try_from(value).is_ok();
    ensure!(is_header, "it has characters that a header cannot have");
    Ok(value.to_owned())
}

/// Reads and checks certificate authorities.
fn read_authorities(file: &Path, trust: &Trust) -> anyhow::Result<String> {
    let file = named_file::open_public(file, trust, &Opener::DIRECT)?;
    let text = named_file::read_all_text(file, MAX_AUTHORITIES_BYTES)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
        roots.add(certificate?)?;
    }
    ensure!(!roots.is_empty(), "it has no certificate");
    Ok(text)
}

impl SenderSettings {
    fn sender(self) -> anyhow::Result<Sender<SystemResolver>> {
        let mut secrets = BTreeMap::new();
        for (component, values) in self.secrets {
            for (name, value) in values {
                let value = SecretValue(Arc::from(value.into_bytes()));
                secrets.insert((component.clone(), name), value);
            }
        }
        let components = self.grants.keys().cloned();
        let resolvers = components.map(|name| (name, SystemResolver::new(MAX_RESOLVING)));
        let issuers = self.issuers.into_iter();
        let issuers = issuers.map(|address| (address, SystemResolver::new(1)));
        Ok(Sender {
            secrets: Arc::new(Secrets::new(secrets, &self.grants)),
            resolvers: resolvers.collect(),
            grants: self.grants,
            tls: connector(&self.authorities)?,
            issuers: Issuers {
                resolvers: issuers.collect(),
                tls: connector("")?,
            },
        })
    }
}

/// Creates a connector that trusts Mozilla's certificate authorities, and additional ones in PEM.
fn connector(authorities: &str) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.into(),
    };
    for certificate in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(certificate?)?;
    }
    let client = ClientConfig::builder().with_root_certificates(roots);
    Ok(TlsConnector::from(Arc::new(client.with_no_client_auth())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_do_not_wait_for_each_others_names() {
        let grants = ["a.wasm", "b.wasm"].map(|name| (name.to_owned(), NetworkGrant::new()));
        let settings = SenderSettings {
            grants: grants.into(),
            secrets: BTreeMap::new(),
            authorities: String::new(),
            issuers: Vec::new(),
        };
        let resolvers = settings.sender().unwrap().resolvers;
        let slots = |name: &str| Arc::clone(&resolvers[name].slots);
        let all = slots("a.wasm").try_acquire_many_owned(64).unwrap();
        assert_eq!(slots("a.wasm").available_permits(), 0);
        assert_eq!(slots("b.wasm").available_permits(), 64);
        drop(all);
    }
}
