//! The wall around `serve` and `call`: which files they keep, and what is opened, bound
//! and started before it. Not here: how the kernel is asked, which is
//! `skillhost-confine`'s.
//!
//! The wall goes up while the process has one thread. In this order there come before it:
//!
//! | what | where |
//! |---|---|
//! | the configuration, tokens and keys are read | the verb |
//! | the program and the socket that get checkpoints of the audit log | `CommonOptions::builder` |
//! | the processes that fetch issuers' keys start | `serve/http.rs` |
//! | the server's sockets are bound; that of a path is removed by the broker | `serve/http.rs` |
//! | descriptors that the process was started with are closed | [`raise`] |
//! | what the machine is asked once: its memory, the page map, `/proc/self/fd` | [`look_at_machine`] |
//! | the cache folders and the audit log are checked, and made if they are missing | [`OwnFiles::open`] |
//! | the broker starts, which opens and starts what this process may not | [`start_broker`] |

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use skillhost::config::{Config, ConfiguredPath, Confinement};
use skillhost::internal::{
    ChildHandle, Delegate, EXPLICIT_CHECKS, is_skill_md, look_at_machine, open_audit_log,
    own_folder, set_delegate,
};
use skillhost::{AuditMode, COMPILE_ARGUMENT, HostBuilder, Trust, TrustError};
use skillhost_confine::broker::{
    Allowed, AllowedFolder, Broker, BrokeredChild, LogPath, OutputFolder, SocketPath,
};
use skillhost_confine::{Profile, Wall, WallReport, close_inherited, link_targets};

use skillhost_program::options::{self, CommonOptions};

/// Files of the machine that are read while serving. All users may read them, and they
/// hold no secrets.
const PUBLIC_FILES: [&str; 5] = [
    // To judge who may change a tools folder.
    "/etc/group",
    "/etc/passwd",
    "/proc/sys/kernel/overflowuid",
    // To watch folders.
    "/proc/sys/fs/inotify/max_user_watches",
    // For the names of sessions.
    "/dev/urandom",
];

/// Options of the wall.
#[derive(Args, Default)]
pub(crate) struct WallArguments {
    /// Confine this process to its skills, tools, cache and audit log, instead of as
    /// configured
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

/// What a verb needs beyond the configuration.
#[derive(Default)]
pub(crate) struct Needs<'a> {
    /// True for a server: it warns of what a wall cannot hold, and reads folders that
    /// come into the place of its own.
    pub(crate) is_server: bool,
    /// The new folder of `--output-dir`.
    pub(crate) output: Option<&'a Path>,
    /// The files that are read again when they change.
    pub(crate) files: Vec<PathBuf>,
    /// The Unix socket on which it listens.
    pub(crate) socket: Option<&'a Path>,
}

/// Confines this process. Returns the builder of its host, which keeps new entries of the
/// cache apart, and the broker, if there is one.
pub(crate) fn raise(
    arguments: &WallArguments,
    options: &CommonOptions,
    config: &Config,
    needs: Needs<'_>,
    builder: HostBuilder,
) -> anyhow::Result<(HostBuilder, Option<Arc<Broker>>)> {
    let confinement = match arguments.confine {
        Some(Extent::Auto) => Confinement::Auto,
        Some(Extent::Required) => Confinement::Required,
        Some(Extent::Off) => Confinement::Off,
        None => config.confinement,
    };
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
    close_inherited();
    look_at_machine();
    let trust = options.trusted();
    let own = OwnFiles::open(
        options::cache_folder(),
        audit_file(config),
        config.audit,
        &trust,
    )?;
    let new_entries = own.new_entries.as_ref().map(|(path, _)| path.clone());
    let folders = folders(config, &trust);
    let broker = start_broker(config, &needs, &folders)?;
    let report = wall(own, folders).raise(Profile::Serving);
    let report = report.context("cannot confine this process; `--confine off` does not")?;
    tell(&report, is_required, is_root && needs.is_server)?;
    if let Some(broker) = &broker {
        set_delegate(Box::new(Outside(Arc::clone(broker))));
    }
    let builder = match new_entries {
        Some(folder) => builder.new_cache_entries(folder),
        None => builder,
    };
    Ok((builder, broker))
}

/// The folders and the file that the process keeps for itself. Each was checked before anything
/// was made in it. The host says why a cache is missing here.
struct OwnFiles {
    cache: Option<OwnedFd>,
    /// The folder for the cache's new entries of confined processes. The others do not read it:
    /// what is in it may come from code that has broken out.
    new_entries: Option<(PathBuf, OwnedFd)>,
    log: Option<OwnedFd>,
}

impl OwnFiles {
    /// Opens them, and makes those that are missing.
    fn open(
        folder: Option<PathBuf>,
        log: Option<&Path>,
        mode: AuditMode,
        trust: &Trust,
    ) -> anyhow::Result<Self> {
        let cache = folder.as_ref().and_then(|it| own_folder(it, trust).ok());
        let new_entries = folder.filter(|_| cache.is_some()).and_then(|folder| {
            let path = folder.join("confined");
            let handle = own_folder(&path, trust).ok()?;
            Some((path, handle))
        });
        let log = match log.map(|log| open_audit_log(log, trust)).transpose() {
            // The host reports it, and calls go without a record.
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

/// Says which parts of the wall are up, and which are missing.
fn tell(report: &WallReport, is_required: bool, warns_of_root: bool) -> anyhow::Result<()> {
    let missing = report.missing.join(", and ");
    match (missing.is_empty(), is_required) {
        (true, _) => {}
        (false, true) => bail!("`confine = \"required\"`: missing is {missing}"),
        (false, false) => {
            tracing::warn!("this process is not confined in full: missing is {missing}")
        }
    }
    if warns_of_root {
        tracing::warn!(
            "running as root weakens the process sandbox; run skillhost as another user"
        );
    }
    tracing::info!("this process is confined by {}", report.in_force.join(", "));
    Ok(())
}

/// Returns the files and folders that the process keeps.
fn wall(own: OwnFiles, folders: Vec<AllowedFolder>) -> Wall {
    let mut wall = Wall::default();
    for file in PUBLIC_FILES {
        wall = wall.read(file);
    }
    for folder in folders {
        if folder.follows_links {
            let targets = link_targets(&folder.path, folder.depth, is_skill_md);
            wall = targets.into_iter().fold(wall, Wall::read);
        }
        wall = wall.read(folder.path);
    }
    wall = own.cache.into_iter().fold(wall, Wall::read_folder);
    let new_entries = own.new_entries.into_iter().map(|(_, folder)| folder);
    wall = new_entries.fold(wall, Wall::keep_files);
    own.log.into_iter().fold(wall, Wall::write_file)
}

/// Returns the file of the audit log, if it is one.
fn audit_file(config: &Config) -> Option<&Path> {
    let file = config.audit_file.as_ref()?.path.as_path();
    (file != Path::new("-")).then_some(file)
}

/// Returns the folders that are read, by the paths that the operator gave. A folder of tools
/// that others can change is left out: they would choose what is read. The host says so.
fn folders(config: &Config, trust: &Trust) -> Vec<AllowedFolder> {
    let is_trusted = |tools: &&ConfiguredPath| {
        !matches!(trust.check(&tools.path), Err(TrustError::Changeable(_)))
    };
    let roots = config.skills.iter().map(|skills| AllowedFolder {
        path: skills.root.path.clone(),
        follows_links: skills.root.follow_links,
        depth: skills.root.depth,
        within: skills.root.within.clone().unwrap_or_else(anywhere),
    });
    let tools = config.tools.iter().filter(is_trusted);
    let others = tools.chain(&config.home);
    let others = others.map(|other| AllowedFolder {
        path: other.path.clone(),
        follows_links: false,
        depth: 1,
        within: anywhere(),
    });
    roots.chain(others).collect()
}

/// The folder that all paths lead into.
fn anywhere() -> PathBuf {
    "/".into()
}

/// Starts the broker, if it may be needed: a call of built-in tools needs none.
fn start_broker(
    config: &Config,
    needs: &Needs<'_>,
    folders: &[AllowedFolder],
) -> anyhow::Result<Option<Arc<Broker>>> {
    if !needs.is_server && needs.output.is_none() && config.tools.is_empty() {
        return Ok(None);
    }
    let allowed = allowed(config, needs, folders);
    let broker = Broker::start(&std::env::current_exe()?, &allowed)?;
    Ok(Some(Arc::new(broker)))
}

/// Returns what the broker does for this process.
fn allowed(config: &Config, needs: &Needs<'_>, folders: &[AllowedFolder]) -> Allowed {
    let files = needs.files.iter().map(|file| AllowedFolder {
        path: file.clone(),
        follows_links: false,
        depth: 1,
        within: anywhere(),
    });
    Allowed {
        folders: folders.iter().cloned().chain(files).collect(),
        output: needs.output.map(|output| OutputFolder(output.to_owned())),
        log: audit_file(config).map(|log| LogPath(log.to_owned())),
        socket: needs.socket.map(|socket| SocketPath(socket.to_owned())),
        task: COMPILE_ARGUMENT.to_owned(),
        variables: vec![EXPLICIT_CHECKS.to_owned()],
        time: config.compile_limits.compile_time,
    }
}

/// The broker, as the host knows it.
struct Outside(Arc<Broker>);

impl Delegate for Outside {
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
        Ok(Box::new(Started(child)))
    }
}

struct Started(BrokeredChild);

impl ChildHandle for Started {
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
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
    use std::time::Duration;

    use super::*;

    #[test]
    fn keeps_no_files_that_others_can_change() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for (name, mode) in [("own", 0o700), ("open", 0o777), ("linked", 0o700)] {
            fs::create_dir_all(at(name).join("tools")).unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(at("victim")).unwrap();
        for link in ["open/confined", "linked/confined", "open/log", "linked/log"] {
            symlink(at("victim"), at(link)).unwrap();
            if rustix::process::geteuid().is_root() {
                lchown(at(link), Some(65_534), None).unwrap();
            }
        }
        let is_root = rustix::process::geteuid().is_root();
        for (name, cache, new_entries, log) in [
            ("own", true, true, true),
            ("new", true, true, true),
            ("open", false, false, false),
            ("open/new", false, false, false),
            // A link of this user leads where this user wants.
            ("linked", true, !is_root, false),
        ] {
            let own =
                OwnFiles::open(Some(at(name)), None, AuditMode::Required, &Trust::new()).unwrap();
            let found = (own.cache.is_some(), own.new_entries.is_some());
            assert_eq!(found, (cache, new_entries), "{name}");
            let open =
                |mode| OwnFiles::open(None, Some(&at(name).join("log")), mode, &Trust::new());
            assert_eq!(open(AuditMode::Required).is_ok(), log, "{name}");
            let own = open(AuditMode::BestEffort).unwrap();
            assert_eq!(own.log.is_some(), log, "{name}");
        }
        assert!(!at("open/new").exists());
        assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 0);
        let text = "tools = [\"own/tools\", \"open/tools\", \"none\"]\n";
        let config = Config::parse(text, "c.toml", folder.path()).unwrap();
        let folders = folders(&config, &Trust::new()).into_iter();
        let folders: Vec<_> = folders.map(|folder| folder.path).collect();
        // What is missing may come, and is checked then.
        assert_eq!(folders, [at("own/tools"), at("none")]);
    }

    #[test]
    fn the_broker_is_asked_for_what_the_configuration_names_and_nothing_else() {
        let read = |text| Config::parse(text, "c.toml", Path::new("/f")).unwrap();
        let text = "skills = [{ path = \"linked\", follow_root_links = true, depth = 3 }, \
                    \"plain\"]\ntools = [\"tools\"]\nhome = \"home\"\naudit_file = \"log\"\n\
                    compile_time = \"7s\"\n";
        let config = read(text);
        let needs = Needs {
            is_server: true,
            output: Some(Path::new("out")),
            files: vec!["token".into()],
            socket: Some(Path::new("socket")),
        };
        let of = |config: &Config, needs: &Needs<'_>| {
            allowed(config, needs, &folders(config, &Trust::new()))
        };
        let allowed = of(&config, &needs);
        let folders = allowed.folders.iter();
        let folders = folders.map(|folder| (&*folder.path, folder.follows_links, folder.depth));
        let expected = [
            (Path::new("/f/linked"), true, 3),
            (Path::new("/f/plain"), false, 1),
            (Path::new("/f/tools"), false, 1),
            (Path::new("/f/home"), false, 1),
            (Path::new("token"), false, 1),
        ];
        assert_eq!(folders.collect::<Vec<_>>(), expected);
        assert_eq!(allowed.output.unwrap().0, Path::new("out"));
        assert_eq!(allowed.log.unwrap().0, Path::new("/f/log"));
        assert_eq!(allowed.socket.unwrap().0, Path::new("socket"));
        assert_eq!(allowed.task, COMPILE_ARGUMENT);
        assert_eq!(allowed.variables, [EXPLICIT_CHECKS]);
        assert_eq!(allowed.time, Duration::from_secs(7));
        // A log on stdout needs nothing opened.
        let allowed = of(&read("audit_file = \"-\"\n"), &Needs::default());
        assert!(allowed.folders.is_empty() && allowed.log.is_none());
    }
}
