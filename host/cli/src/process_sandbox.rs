//! The process sandbox of `serve`, `call` and `warm`: the files that these verbs may use.
//! `skillhost-confine` applies it.
//!
//! The sandbox is applied while the process has one thread. Steps that it would forbid come first,
//! in this order:
//!
//! | step | where |
//! |---|---|
//! | read the configuration, tokens and keys | the verb |
//! | start the program, or connect to the socket, that receives checkpoints of the audit log | `CommonOptions::builder` |
//! | start the egress process | `CommonOptions::start_egress` |
//! | bind the server's sockets | `serve/http.rs` |
//! | close inherited descriptors | [`confine`] |
//! | read the machine's memory and `/proc/self/fd` once, and open the mount table | [`read_before_confinement`] |
//! | check the cache folders and the audit log, and create them if they are missing | [`OwnFiles::open`] |
//! | start the broker | [`start_broker`] |

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use skillhost::config::{Config, ConfiguredPath};
use skillhost::{AuditMode, COMPILE_ARGUMENT, HostBuilder, Trust, TrustError};
use skillhost_confine::broker::{
    AllowedPath, BrokerClient, BrokerPolicy, BrokeredChild, EncodedPath,
};
use skillhost_confine::{
    ProcessSandbox, Profile, SandboxReport, close_inherited_descriptors, link_targets,
};
use skillhost_helper::OWN_PROGRAM;
use skillhost_sandbox::component::compile::EXPLICIT_CHECKS;
use skillhost_sandbox::engine::read_before_confinement;
use skillhost_sandbox::tool::audit::open_audit_log;
use skillhost_skills::broker::{Broker, ChildHandle};
use skillhost_skills::trust::own_folder;

use crate::settings::{Confinement, Settings};
use skillhost_program::options::{self, CommonOptions};

/// Files of the machine that are read while serving. All users may read them, and they contain no
/// secrets.
const PUBLIC_FILES: [&str; 4] = [
    ACCOUNT_FILES[0],
    ACCOUNT_FILES[1],
    // To watch folders.
    "/proc/sys/fs/inotify/max_user_watches",
    // To generate session ids.
    "/dev/urandom",
];

/// The files that are read to check who may change a tools folder. The broker opens them too,
/// because a Landlock rule for a file does not cover a file that replaces it.
const ACCOUNT_FILES: [&str; 2] = ["/etc/group", "/etc/passwd"];

/// Options of the process sandbox.
#[derive(Args, Default)]
pub(crate) struct SandboxArguments {
    /// Extent to which this process is confined to its skills, tools, cache and audit log
    /// [default: `confine` in the configuration's `[process]`]
    #[arg(long, value_enum, value_name = "EXTENT")]
    confine: Option<Extent>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Extent {
    /// As far as the kernel can
    Auto,
    /// In full, or do not start
    Required,
    /// Not at all
    Off,
}

/// The access that a verb needs besides the files of the configuration.
#[derive(Default)]
pub(crate) struct VerbNeeds<'a> {
    /// True for a server. It needs a broker for folders that are replaced while it runs, and it
    /// warns if it runs as root.
    pub(crate) is_server: bool,
    /// The new folder of `--output-dir`.
    pub(crate) output: Option<&'a Path>,
    /// Files that are read again when they change.
    pub(crate) files: Vec<PathBuf>,
    /// The folder of the store's blobs, which are opened by their digests.
    pub(crate) blobs: Option<PathBuf>,
    /// The folder of the store's skills, which are opened by their digests.
    pub(crate) skills: Option<PathBuf>,
    /// The file of requests for packages.
    pub(crate) requests: Option<PathBuf>,
    /// The Unix socket that the server listens on.
    pub(crate) socket: Option<&'a Path>,
}

/// Confines this process, and returns the broker if one is needed.
///
/// The returned builder has the broker, and stores new cache entries in the folder of confined
/// processes.
pub(crate) fn confine(
    arguments: &SandboxArguments,
    options: &CommonOptions,
    settings: &Settings,
    needs: VerbNeeds<'_>,
    builder: HostBuilder,
) -> anyhow::Result<(HostBuilder, Option<Arc<BrokerClient>>)> {
    let confinement = match arguments.confine {
        Some(Extent::Auto) => Confinement::Auto,
        Some(Extent::Required) => Confinement::Required,
        Some(Extent::Off) => Confinement::Off,
        None => settings.process.confine,
    };
    let config = &settings.host;
    if confinement == Confinement::Off {
        return Ok((builder, None));
    }
    let is_required = confinement == Confinement::Required;
    let is_root = rustix::process::geteuid().is_root();
    if is_root && is_required {
        bail!(
            "`confine = \"required\"`: running as root weakens the process sandbox; run skillhost \
             as another user"
        );
    }
    close_inherited_descriptors();
    read_before_confinement();
    let trust = options.trust_settings();
    let own = OwnFiles::open(
        options::cache_folder(),
        audit_file(config),
        config.audit,
        &trust,
    )?;
    let new_entries = own.new_entries.as_ref().map(|(path, _)| path.clone());
    let folders = readable_paths(config, &trust);
    let broker = start_broker(config, &trust, &needs, &folders)?;
    let report = sandbox(own, &folders)
        .apply(Profile::Serving)
        .context("cannot confine this process; `--confine off` runs without the process sandbox")?;
    log_report(&report, is_required, is_root && needs.is_server)?;
    let builder = match &broker {
        Some(broker) => builder.broker(Arc::new(HostBroker(Arc::clone(broker)))),
        None => builder,
    };
    let builder = match new_entries {
        // A less confined process must not run code that an escaped guest may have written.
        Some(folder) if report.is_confined => builder.new_cache_entries(folder),
        _ => builder,
    };
    Ok((builder, broker))
}

/// The cache folders and the audit log, opened and checked. If a cache folder cannot be used, the
/// host reports why.
struct OwnFiles {
    cache: Option<OwnedFd>,
    /// The cache folder that confined processes write. Other processes do not read it, because
    /// escaped code may have written it.
    new_entries: Option<(PathBuf, OwnedFd)>,
    log: Option<OwnedFd>,
}

impl OwnFiles {
    /// Opens the folders and the log, and creates those that are missing.
    fn open(
        folder: Option<PathBuf>,
        log: Option<&Path>,
        mode: AuditMode,
        trust: &Trust,
    ) -> anyhow::Result<Self> {
        let cache = folder
            .as_ref()
            .and_then(|folder| own_folder(folder, trust).ok());
        let new_entries = folder.filter(|_| cache.is_some()).and_then(|folder| {
            let path = folder.join("confined");
            let handle = own_folder(&path, trust).ok()?;
            Some((path, handle))
        });
        let log = match log.map(|log| open_audit_log(log, trust)).transpose() {
            // The host reports the error, and calls run without a record.
            Err(_) if mode == AuditMode::BestEffort => None,
            log => log?,
        };
        Ok(Self {
            cache,
            new_entries,
            log,
        })
    }
}

/// Logs the parts of the process sandbox that are in force. Warns of missing parts, or fails if
/// they are required.
fn log_report(
    report: &SandboxReport,
    is_required: bool,
    warns_of_root: bool,
) -> anyhow::Result<()> {
    let missing = report.missing.join(", and ");
    if !missing.is_empty() && is_required {
        bail!("`confine = \"required\"`: the process sandbox is incomplete: missing {missing}");
    }
    if !missing.is_empty() {
        tracing::warn!("the process sandbox is incomplete: missing {missing}");
    }
    if warns_of_root {
        tracing::warn!(
            "running as root weakens the process sandbox; run skillhost as another user"
        );
    }
    tracing::info!("this process is confined by {}", report.in_force.join(", "));
    Ok(())
}

/// Returns the sandbox that allows these files and folders.
fn sandbox(own: OwnFiles, folders: &[AllowedPath]) -> ProcessSandbox {
    let mut sandbox = ProcessSandbox::default();
    for file in PUBLIC_FILES {
        sandbox = sandbox.allow_read(file);
    }
    for folder in open_folders(folders) {
        sandbox = sandbox.allow_read_folder(folder);
    }
    if let Some(cache) = own.cache {
        sandbox = sandbox.allow_read_folder(cache);
    }
    if let Some((_, folder)) = own.new_entries {
        sandbox = sandbox.allow_manage_files(folder);
    }
    if let Some(log) = own.log {
        sandbox = sandbox.allow_write_file(log);
    }
    sandbox
}

/// Opens and checks the folders, and the targets of symlinks in them if these are followed. Leaves
/// out a folder or target that is outside the folder `within`. The rules refer to the handles,
/// because a path may lead elsewhere a moment later.
fn open_folders(folders: &[AllowedPath]) -> Vec<OwnedFd> {
    let mut opened = Vec::new();
    for folder in folders {
        let Some((handle, real)) = folder.open() else {
            continue;
        };
        opened.push(handle);
        if folder.follows_links {
            let targets = link_targets(&real).into_iter();
            let targets = targets.filter(|target| target.starts_with(&folder.within));
            let targets = targets.map(|target| AllowedPath {
                within: target.clone(),
                ..allowed_path(&target, None)
            });
            opened.extend(targets.filter_map(|target| Some(target.open()?.0)));
        }
    }
    opened
}

/// Returns the path of the audit log, or `None` if it is off or goes to stderr.
fn audit_file(config: &Config) -> Option<&Path> {
    let file = config.audit_file.as_ref()?.path.as_path();
    (file != Path::new("-")).then_some(file)
}

/// Returns the path of the consent file.
fn consent_file(config: &Config) -> Option<&Path> {
    Some(config.consent_file.as_ref()?.path.as_path())
}

/// Returns the configured folders to read and the files of locked components. Does not resolve
/// their paths.
///
/// Leaves out a tools folder that others can change, because they could choose what is read. The
/// host reports such a folder.
fn readable_paths(config: &Config, trust: &Trust) -> Vec<AllowedPath> {
    let is_trusted = |tools: &&ConfiguredPath| match trust.check(&tools.path) {
        Ok(_) => true,
        Err(TrustError::Unreadable { cause, .. }) => cause.kind() == io::ErrorKind::NotFound,
        Err(TrustError::Changeable(_)) => false,
    };
    let roots = config.skills.iter().map(|skills| AllowedPath {
        path: skills.root.path.clone(),
        follows_links: skills.root.follow_links,
        link_owners: None,
        within: skills.root.within.clone().unwrap_or_else(file_system_root),
    });
    let tools = config.tools.iter().filter(is_trusted);
    let tools = tools.map(|folder| allowed_path(&folder.path, trust.users()));
    // Allow only these files, not their folder: the store also has files of other configurations.
    // Each folder is checked once for all of its files.
    let named = config.named_components.values();
    let folders: BTreeSet<&Path> = named.clone().filter_map(|file| file.parent()).collect();
    let trusted = folders.into_iter();
    let trusted: BTreeSet<&Path> = trusted.filter(|it| trust.check(it).is_ok()).collect();
    let named = named.filter(|file| file.parent().is_some_and(|it| trusted.contains(it)));
    let named = named.map(|file| allowed_path(file, None));
    let home = config.home.iter();
    let home = home.map(|folder| allowed_path(&folder.path, None));
    roots.chain(tools).chain(named).chain(home).collect()
}

/// Allows a path, but not the targets of symlinks in it.
fn allowed_path(path: &Path, link_owners: Option<Vec<u32>>) -> AllowedPath {
    AllowedPath {
        path: path.to_owned(),
        follows_links: false,
        link_owners,
        within: file_system_root(),
    }
}

/// Returns the root of the file system.
fn file_system_root() -> PathBuf {
    "/".into()
}

/// Starts the broker if a server, third-party tools, `--output-dir`, an audit log in a file or a
/// consent file needs it.
fn start_broker(
    config: &Config,
    trust: &Trust,
    needs: &VerbNeeds<'_>,
    folders: &[AllowedPath],
) -> anyhow::Result<Option<Arc<BrokerClient>>> {
    let appends_to_file = audit_file(config).is_some() || consent_file(config).is_some();
    if !needs.is_server
        && needs.output.is_none()
        && !config.has_third_party_components()
        && !appends_to_file
    {
        return Ok(None);
    }
    let policy = broker_policy(config, trust, needs, folders);
    let broker = BrokerClient::start(OWN_PROGRAM.as_ref(), &policy)?;
    Ok(Some(Arc::new(broker)))
}

/// Returns the requests that the broker grants this process.
fn broker_policy(
    config: &Config,
    trust: &Trust,
    needs: &VerbNeeds<'_>,
    folders: &[AllowedPath],
) -> BrokerPolicy {
    let files = needs.files.iter();
    let files = files.map(|file| allowed_path(file, trust.users()));
    let accounts = ACCOUNT_FILES.iter();
    let files = files.chain(accounts.map(|file| allowed_path(file.as_ref(), None)));
    let consent = consent_file(config).map(|file| allowed_path(file, trust.users()));
    let files = files.chain(consent);
    let by_digest = |folder: &PathBuf| allowed_path(folder, trust.users());
    BrokerPolicy {
        paths: folders.iter().cloned().chain(files).collect(),
        blobs: needs.blobs.as_ref().map(by_digest),
        skills: needs.skills.as_ref().map(by_digest),
        output: needs.output.map(|output| EncodedPath(output.to_owned())),
        log: audit_file(config).map(|log| EncodedPath(log.to_owned())),
        consent: consent_file(config).map(|file| EncodedPath(file.to_owned())),
        package_request_file: needs.requests.clone().map(EncodedPath),
        socket: needs.socket.map(|socket| EncodedPath(socket.to_owned())),
        child_task: COMPILE_ARGUMENT.to_owned(),
        child_variables: vec![EXPLICIT_CHECKS.to_owned()],
        child_time: config.compile_limits.compile_time,
    }
}

/// The broker process as the host's [`Broker`].
struct HostBroker(Arc<BrokerClient>);

impl Broker for HostBroker {
    fn open(&self, handle: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        self.0.open(handle)
    }

    fn watch(
        &self,
        inotify: BorrowedFd<'_>,
        folder: BorrowedFd<'_>,
        events: u32,
    ) -> io::Result<i32> {
        self.0.watch(inotify, folder, events)
    }

    fn open_log(&self) -> io::Result<OwnedFd> {
        self.0.open_log()
    }

    fn append_consent(&self, line: &str) -> io::Result<()> {
        self.0.append_consent(line)
    }

    fn append_package_request(&self, line: &str) -> io::Result<()> {
        self.0.append_package_request(line)
    }

    fn start(
        &self,
        task: &str,
        environment: Vec<(String, String)>,
        streams: [OwnedFd; 3],
    ) -> io::Result<Box<dyn ChildHandle>> {
        if task != COMPILE_ARGUMENT {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let child = self.0.start_child(environment, streams)?;
        Ok(Box::new(HostChild(child)))
    }
}

/// A child of the broker process as the host's [`ChildHandle`].
struct HostChild(BrokeredChild);

impl ChildHandle for HostChild {
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    fn kill(&mut self) -> io::Result<()> {
        self.0.kill();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
    use std::time::Duration;

    use super::*;

    #[test]
    fn opens_no_files_that_others_can_change() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for (name, mode) in [("own", 0o700), ("shared", 0o777), ("linked", 0o700)] {
            fs::create_dir_all(at(name).join("tools")).unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(at("victim")).unwrap();
        for link in [
            "shared/confined",
            "linked/confined",
            "shared/log",
            "linked/log",
        ] {
            symlink(at("victim"), at(link)).unwrap();
            if rustix::process::geteuid().is_root() {
                lchown(at(link), Some(65_534), None).unwrap();
            }
        }
        let is_root = rustix::process::geteuid().is_root();
        for (name, cache, new_entries, log) in [
            ("own", true, true, true),
            ("new", true, true, true),
            ("shared", false, false, false),
            ("shared/new", false, false, false),
            // This user controls where this user's own symlinks lead.
            ("linked", true, !is_root, false),
        ] {
            let own =
                OwnFiles::open(Some(at(name)), None, AuditMode::Required, &Trust::new()).unwrap();
            let opened = (own.cache.is_some(), own.new_entries.is_some());
            assert_eq!(opened, (cache, new_entries), "{name}");
            let open =
                |mode| OwnFiles::open(None, Some(&at(name).join("log")), mode, &Trust::new());
            assert_eq!(open(AuditMode::Required).is_ok(), log, "{name}");
            let own = open(AuditMode::BestEffort).unwrap();
            assert_eq!(own.log.is_some(), log, "{name}");
        }
        assert!(!at("shared/new").exists());
        assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 0);
        let text = "tools = [\"own/tools\", \"shared/tools\", \"none\"]\n";
        let config = Config::parse(text, "c.toml", folder.path()).unwrap();
        let folders = readable_paths(&config, &Trust::new());
        let paths: Vec<_> = folders.into_iter().map(|folder| folder.path).collect();
        // A missing folder may appear later, and is checked then.
        assert_eq!(paths, [at("own/tools"), at("none")]);
        // In the store, only the files of this configuration are allowed.
        let mut config = Config::default();
        for file in ["own/blob", "shared/blob"] {
            fs::write(at(file), "").unwrap();
            config.named_components.insert(file.to_owned(), at(file));
        }
        let files = readable_paths(&config, &Trust::new()).into_iter();
        let files: Vec<_> = files.map(|file| file.path).collect();
        assert_eq!(files, [at("own/blob")]);
    }

    #[test]
    fn rules_stay_within_the_required_folder() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for path in ["here/skills", "here/linked", "elsewhere/linked"] {
            fs::create_dir_all(base.join(path)).unwrap();
        }
        symlink("../elsewhere", base.join("here/out")).unwrap();
        symlink("skills", base.join("here/in")).unwrap();
        symlink("../../elsewhere/linked", base.join("here/skills/out")).unwrap();
        symlink("../linked", base.join("here/skills/link")).unwrap();
        for (name, follows_links, expected) in [
            ("skills", false, &["here/skills"][..]),
            ("in", false, &["here/skills"]),
            ("out", false, &[]),
            ("none", false, &[]),
            ("skills", true, &["here/skills", "here/linked"]),
        ] {
            let allowed = AllowedPath {
                follows_links,
                within: base.join("here"),
                ..allowed_path(&base.join("here").join(name), None)
            };
            let opened = open_folders(&[allowed]);
            let real = |handle: &OwnedFd| {
                fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())).unwrap()
            };
            let opened: Vec<_> = opened.iter().map(real).collect();
            let expected: Vec<_> = expected.iter().map(|path| base.join(path)).collect();
            assert_eq!(opened, expected, "{name}");
        }
    }

    #[test]
    fn broker_policy_follows_the_configuration() {
        let read = |text| Config::parse(text, "c.toml", Path::new("/f")).unwrap();
        let text = "skills = [{ path = \"linked\", follow_root_links = true, depth = 3 }, \
                    \"plain\"]\ntools = [\"tools\"]\nhome = \"home\"\naudit_file = \"log\"\n\
                    compile_time = \"7s\"\n[network]\nconsent_file = \"consent\"\n";
        let config = read(text);
        let needs = VerbNeeds {
            is_server: true,
            output: Some(Path::new("out")),
            files: vec!["token".into()],
            blobs: Some("sha256".into()),
            skills: Some("skills".into()),
            requests: Some("requests".into()),
            socket: Some(Path::new("socket")),
        };
        let policy_for = |config: &Config, needs: &VerbNeeds<'_>| {
            let trust = Trust::new();
            broker_policy(config, &trust, needs, &readable_paths(config, &trust))
        };
        let policy = policy_for(&config, &needs);
        let folders = policy.paths.iter().map(|folder| {
            (
                &*folder.path,
                folder.follows_links,
                folder.link_owners.is_some(),
            )
        });
        let expected = [
            (Path::new("/f/linked"), true, false),
            (Path::new("/f/plain"), false, false),
            (Path::new("/f/tools"), false, true),
            (Path::new("/f/home"), false, false),
            (Path::new("token"), false, true),
            (Path::new("/etc/group"), false, false),
            (Path::new("/etc/passwd"), false, false),
            (Path::new("/f/consent"), false, true),
        ];
        assert_eq!(folders.collect::<Vec<_>>(), expected);
        assert_eq!(policy.output.unwrap().0, Path::new("out"));
        assert_eq!(policy.log.unwrap().0, Path::new("/f/log"));
        assert_eq!(policy.consent.unwrap().0, Path::new("/f/consent"));
        assert_eq!(policy.socket.unwrap().0, Path::new("socket"));
        assert_eq!(policy.blobs.unwrap().path, Path::new("sha256"));
        assert_eq!(policy.skills.unwrap().path, Path::new("skills"));
        assert_eq!(
            policy.package_request_file.unwrap().0,
            Path::new("requests")
        );
        assert_eq!(policy.child_task, COMPILE_ARGUMENT);
        assert_eq!(policy.child_variables, [EXPLICIT_CHECKS]);
        assert_eq!(policy.child_time, Duration::from_secs(7));
        // An audit log on stderr needs no file.
        let policy = policy_for(&read("audit_file = \"-\"\n"), &VerbNeeds::default());
        assert!(policy.paths.len() == ACCOUNT_FILES.len() && policy.log.is_none());
    }
}
