//! `skillhost warm`: compiles components before somebody waits for them. Here too: the
//! process that compiles what a server over stdio leaves when its client ends it early.

use std::env;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::process::{ChildStdin, Command, Stdio};

use anyhow::{Context as _, bail};
use clap::Args;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;
use skillhost::internal::own_folder;
use skillhost::{HostBuilder, Trust};

use crate::wall::{self, Needs, WallArguments};
use skillhost_program::exit::Exit;
use skillhost_program::options::{self, CommonOptions, Starter, report_problems};
use skillhost_program::terminal::{self, format_line};

/// The first argument of a process that starts a [`Successor`] and ends. So the server has
/// no child that it would have to wait for.
pub(crate) const START_SUCCESSOR: &str = "--start-successor";

/// The first argument of a [`Successor`].
pub(crate) const SUCCESSOR: &str = "--successor";

/// Written to the successor's stdin when nothing is left for it.
const DONE: u8 = b'.';

/// Compile all components now, so that no first call and no client waits for it
#[derive(Args, Default)]
pub(crate) struct WarmCommand {
    #[command(flatten)]
    pub(crate) wall: WallArguments,
    #[command(flatten)]
    pub(crate) options: CommonOptions,
    /// A server's client has chosen the current folder.
    #[arg(skip)]
    pub(crate) starter: Starter,
}

/// A process that compiles, and is confined.
pub(crate) struct ReadyWarm {
    builder: HostBuilder,
}

impl WarmCommand {
    /// Reads what the host needs, and confines the process as that of a server: it runs
    /// components to ask for their tools.
    pub(crate) fn prepare(mut self, before: CommonOptions) -> anyhow::Result<ReadyWarm> {
        let options = before.and(std::mem::take(&mut self.options));
        let options = options.started_by(self.starter);
        let mut config = options.configured()?;
        if options::cache_folder().is_none() {
            bail!(
                "cannot keep what is compiled: there is no cache folder; set `SKILLHOST_CACHE` \
                 to one"
            );
        }
        options::forbid_calls(&mut config);
        let builder = options.builder(&config)?;
        let (builder, _) = wall::raise(&self.wall, &options, &config, Needs::default(), builder)?;
        Ok(ReadyWarm { builder })
    }
}

impl ReadyWarm {
    pub(crate) async fn execute(self) -> anyhow::Result<Exit> {
        let host = self.builder.build().await?;
        host.prepare().await;
        report_problems(&host);
        if !host.problems().is_empty() {
            return Ok(Exit::Failure);
        }
        terminal::print(&[format_line!("all components are compiled")])?;
        Ok(Exit::Ok)
    }
}

/// A process that waits for a server over stdio to load all components, and compiles them
/// in its place if the server ends before. Clients give up after a few seconds and kill a
/// server that lives on, so its own process cannot finish.
pub(crate) struct Successor(ChildStdin);

impl Successor {
    /// Starts the process for a server whose client is a program, and which has a cache.
    pub(crate) fn of_client_server() -> Option<Self> {
        if io::stdin().is_terminal() || options::cache_folder().is_none() {
            return None;
        }
        let started = Self::start();
        // Without it the next server compiles again.
        started
            .inspect_err(|error| tracing::debug!("cannot start the successor: {error}"))
            .ok()
    }

    /// Starts the process with the arguments of this one.
    fn start() -> io::Result<Self> {
        let mut starter = Command::new(options::program()?)
            .arg(START_SUCCESSOR)
            .args(env::args_os().skip(1))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let stdin = starter.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        starter.wait()?;
        Ok(Self(stdin))
    }

    /// Ends the process: nothing is left to compile.
    pub(crate) fn dismiss(mut self) {
        // If it fails, the process has ended already.
        let _ = self.0.write_all(&[DONE]);
    }
}

/// Starts the successor, on the stdin of this process.
pub(crate) fn start_successor() -> anyhow::Result<()> {
    skillhost_confine::close_inherited();
    // The signals of the client's terminal or session are not for it.
    rustix::process::setsid()?;
    Command::new(options::program()?)
        .arg(SUCCESSOR)
        .args(env::args_os().skip(2))
        .spawn()
        .context("cannot start the process that finishes compiling")?;
    Ok(())
}

/// Waits until the server has loaded all components or has ended. Returns whether
/// something may be left to compile that no other successor compiles.
pub(crate) fn has_work_left() -> bool {
    let mut done = [0];
    !matches!(io::stdin().read(&mut done), Ok(1)) && is_only_successor().unwrap_or(true)
}

/// Returns whether no other successor does the work of this one, until this process ends.
/// Clients may start and end a server many times while one compiles.
fn is_only_successor() -> anyhow::Result<bool> {
    let cache = options::cache_folder().context("there is no cache folder")?;
    let folder = own_folder(&cache, &Trust::new())?;
    let mut of = DefaultHasher::new();
    (env::current_dir()?, env::args_os().collect::<Vec<_>>()).hash(&mut of);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = format!("successor-{:016x}.lock", of.finish());
    let file = openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?;
    let is_only = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => false,
        locked => locked.map(|()| true)?,
    };
    // Until the end of the process.
    std::mem::forget(file);
    Ok(is_only)
}
