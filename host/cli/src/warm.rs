//! `skillhost warm`: compiles components before a call or client has to wait for them.
//!
//! This file also has the successor process, which finishes compiling when a client ends its stdio
//! server early.

use std::env;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::process::{ChildStdin, Stdio};

use anyhow::{Context as _, bail};
use clap::Args;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;
use skillhost::{HostBuilder, Trust};
use skillhost_helper::OWN_PROGRAM;
use skillhost_skills::trust::own_folder;

use crate::packages;
use crate::process_sandbox::{self, SandboxArguments, VerbNeeds};
use skillhost_program::exit::Exit;
use skillhost_program::options::{self, CommonOptions, Starter, report_problems};
use skillhost_program::terminal::{self, format_line};

/// The first argument of a process that starts a [`Successor`] and ends. The successor is then not
/// a child that the server must wait for.
pub(crate) const START_SUCCESSOR: &str = "--start-successor";

/// The first argument of a [`Successor`].
pub(crate) const SUCCESSOR: &str = "--successor";

/// The byte that tells the successor on stdin that nothing is left to compile.
const DONE: u8 = b'.';

/// Compile all components now, so that no call and no client waits for that
#[derive(Args, Default)]
pub(crate) struct WarmCommand {
    #[command(flatten)]
    pub(crate) sandbox: SandboxArguments,
    #[command(flatten)]
    pub(crate) options: CommonOptions,
    /// The party that starts the program: a client, if this is a successor.
    #[arg(skip)]
    pub(crate) starter: Starter,
}

/// A `warm` command that is ready to run, in a confined process.
pub(crate) struct ReadyWarm {
    builder: HostBuilder,
}

impl WarmCommand {
    /// Opens what the host needs, then confines the process. `warm` needs the sandbox of a
    /// server because it runs components to ask for their tools.
    pub(crate) fn prepare(mut self, global_options: CommonOptions) -> anyhow::Result<ReadyWarm> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let options = options.started_by(self.starter);
        let mut settings = packages::load(&options)?;
        if options::cache_folder().is_none() {
            bail!(
                "cannot store compiled components: there is no cache folder; set `SKILLHOST_CACHE` \
                 to one"
            );
        }
        // No call runs, so nothing is recorded or reserved.
        options::forbid_calls(&mut settings.host);
        let builder = options.builder(&settings.host)?;
        let (builder, _) = process_sandbox::confine(
            &self.sandbox,
            &options,
            &settings,
            VerbNeeds::default(),
            builder,
        )?;
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

/// A process that finishes compiling if a stdio server ends before it has loaded all components.
///
/// Clients give up after a few seconds and kill a server that keeps running, so the server itself
/// cannot finish.
pub(crate) struct Successor(ChildStdin);

impl Successor {
    /// Starts the process, if the server's client is a program and there is a cache.
    pub(crate) fn start_for_client() -> Option<Self> {
        if io::stdin().is_terminal() || options::cache_folder().is_none() {
            return None;
        }
        // Without a successor, the next server compiles again.
        Self::start()
            .inspect_err(|error| tracing::debug!("cannot start the successor: {error}"))
            .ok()
    }

    /// Starts the process with the arguments of this one.
    fn start() -> io::Result<Self> {
        let mut starter = skillhost_helper::command(OWN_PROGRAM.as_ref())
            .envs(env::vars_os())
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

    /// Ends the process, because nothing is left to compile.
    pub(crate) fn dismiss(mut self) {
        // An error means that the process has ended already.
        let _ = self.0.write_all(&[DONE]);
    }
}

/// Starts the successor with the stdin of this process.
pub(crate) fn start_successor() -> anyhow::Result<()> {
    skillhost_confine::close_inherited_descriptors();
    // Signals to the client's terminal or session must not reach the successor.
    rustix::process::setsid()?;
    skillhost_helper::command(OWN_PROGRAM.as_ref())
        .envs(env::vars_os())
        .arg(SUCCESSOR)
        .args(env::args_os().skip(2))
        .spawn()
        .context("cannot start the process that finishes compiling")?;
    Ok(())
}

/// Waits until the server has loaded all components or has ended.
///
/// Returns `true` if components may still need compiling, and no other successor compiles them.
pub(crate) fn has_work_left() -> bool {
    let mut done = [0];
    !matches!(io::stdin().read(&mut done), Ok(1)) && is_only_successor().unwrap_or(true)
}

/// Checks that no other successor runs for the same folder and arguments, and keeps others from
/// starting until this process ends. Clients may start and end a server many times while one
/// successor compiles.
fn is_only_successor() -> anyhow::Result<bool> {
    let cache = options::cache_folder().context("there is no cache folder")?;
    let folder = own_folder(&cache, &Trust::new())?;
    let mut hasher = DefaultHasher::new();
    (env::current_dir()?, env::args_os().collect::<Vec<_>>()).hash(&mut hasher);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = format!("successor-{:016x}.lock", hasher.finish());
    let file = openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?;
    let is_only = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => false,
        locked => locked.map(|()| true)?,
    };
    // Hold the lock until the process ends.
    std::mem::forget(file);
    Ok(is_only)
}
