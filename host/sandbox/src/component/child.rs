//! Child processes that parse third-party components. A component that makes its parser run
//! forever or use up memory only affects the child.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit};
use skillhost_helper::{ChildHandle, HelperProcess};

use skillhost_skills::broker::Opener;

/// The maximum address space of a child. Compiling an ordinary component made from Python
/// needs a quarter of it.
const MEMORY: u64 = 8 << 30;

/// A child process with one task.
pub struct ChildProcess<'a> {
    /// The program to start.
    pub program: &'a Path,
    /// The argument that names the task.
    pub argument: &'a str,
    /// The environment variables.
    pub environment: Vec<(&'a str, &'a OsStr)>,
    /// The name in messages, such as `the compiling process`.
    pub name: &'static str,
    /// The time limit.
    pub time: Duration,
    /// The maximum size of the answer, in bytes.
    pub max_answer: usize,
    /// The opener. Its broker starts the child if this process is confined.
    pub opener: &'a Opener,
}

impl ChildProcess<'_> {
    /// Runs the child with one request, and returns its answer.
    pub fn run(&self, request: &[u8]) -> anyhow::Result<Vec<u8>> {
        let process =
            HelperProcess::start(self.name, |streams| self.start(streams)).with_context(|| {
                format!("cannot start `{}` as {}", self.program.display(), self.name)
            })?;
        process.run(request, self.max_answer, self.time)
    }

    /// Starts the child directly, or through the broker if there is one.
    fn start(&self, streams: [OwnedFd; 3]) -> io::Result<Box<dyn ChildHandle>> {
        let environment = self.environment.iter();
        let Some(broker) = self.opener.broker() else {
            let [input, output, errors] = streams.map(Stdio::from);
            let mut command = skillhost_helper::command(self.program);
            command
                .arg(self.argument)
                .envs(environment.copied())
                .stdin(input)
                .stdout(output)
                .stderr(errors);
            skillhost_helper::name_parent(&mut command);
            return Ok(Box::new(command.spawn()?));
        };
        let environment = environment.map(|(name, value)| {
            let value = value.to_str().ok_or(io::ErrorKind::InvalidInput)?;
            Ok(((*name).to_owned(), value.to_owned()))
        });
        broker.start(
            self.argument,
            environment.collect::<io::Result<_>>()?,
            streams,
        )
    }
}

/// Limits this process before it reads input. `largest_file` is the maximum size in bytes of each
/// file that the process writes.
pub fn limit_this_process(largest_file: u64) -> anyhow::Result<()> {
    skillhost_helper::end_with_parent()?;
    for (resource, limit) in [
        (Resource::As, MEMORY),
        (Resource::Core, 0),
        (Resource::Fsize, largest_file),
    ] {
        // The inherited limit may be lower already.
        let inherited = rustix::process::getrlimit(resource).maximum;
        let limit = Some(inherited.map_or(limit, |inherited| inherited.min(limit)));
        let limit = Rlimit {
            current: limit,
            maximum: limit,
        };
        rustix::process::setrlimit(resource, limit)?;
    }
    Ok(())
}
