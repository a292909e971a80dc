//! Builds tests in the copy, and runs one of them with a bound in time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::copy::Copy;
use crate::environment::cargo_program;

/// The longest run of a test. Guards against: a fault by which a program waits forever.
const RUN: Duration = Duration::from_secs(300);

/// The longest wait of the suite for one thing, in milliseconds, below its own: it ends
/// a test that hangs before the run is over.
pub(crate) const PATIENCE: &str = "60000";

/// Where tests are: the first part of their names, cargo's options that choose the
/// targets, and the target's name and kind.
const GROUPS: &[(&str, &str, &str, &str)] = &[
    // Cargo builds the program `skillhost-author`, which the suite runs, for its own tests alone.
    ("suite", "--test=suite --test=author", "suite", "test"),
    ("audit", "--lib", "skillhost_audit", "lib"),
    ("escapes", "--test=escapes", "escapes", "test"),
    ("confine", "--lib", "skillhost_confine", "lib"),
    ("core", "--lib", "skillhost", "lib"),
    ("sandbox", "--lib", "skillhost_sandbox", "lib"),
    ("skills", "--lib", "skillhost_skills", "lib"),
    ("conformance", "--lib", "skillhost_conformance", "lib"),
    ("identity", "--lib", "skillhost_identity", "lib"),
    ("index", "--lib", "skillhost_index", "lib"),
    ("mcp", "--lib", "skillhost_mcp", "lib"),
    ("cli", "--lib", "skillhost_cli", "lib"),
    ("server", "--lib", "skillhost_server", "lib"),
    ("program", "--lib", "skillhost_program", "lib"),
    ("author", "--lib", "skillhost_author", "lib"),
];

/// Splits a test's name after its group.
pub(super) fn split(test: &str) -> Option<(&str, &str)> {
    let (group, name) = test.split_once("::")?;
    GROUPS
        .iter()
        .any(|(known, ..)| *known == group)
        .then_some((group, name))
}

/// How a run of one test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Passed,
    Failed,
    TimedOut,
    /// No test has the name.
    NotRun,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passes",
            Self::Failed => "fails",
            Self::TimedOut => "does not end",
            Self::NotRun => "does not exist",
        })
    }
}

/// The builds of the copy.
pub(super) struct Builds {
    copy: PathBuf,
    target: PathBuf,
    log: PathBuf,
    /// The newest test program of each group, and the folder of its package.
    programs: RefCell<HashMap<String, (PathBuf, PathBuf)>>,
}

impl Builds {
    pub(super) fn new(copy: &Copy) -> Self {
        Self {
            copy: copy.path(""),
            target: copy.target.clone(),
            log: copy.target.with_file_name("run.log"),
            programs: RefCell::default(),
        }
    }

    fn cargo(&self) -> Command {
        let mut cargo = Command::new(cargo_program());
        cargo
            .current_dir(&self.copy)
            .env("CARGO_TARGET_DIR", &self.target);
        // What cargo has set for this program is of the checkout.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST") {
                cargo.env_remove(&*name);
            }
        }
        cargo
    }

    /// Builds the tests of a group. It is an error if they do not compile: the fault
    /// then proves nothing.
    pub(super) fn build(&self, group: &str) -> Result<()> {
        let (_, options, target, kind) = *GROUPS
            .iter()
            .find(|(known, ..)| *known == group)
            .context("unknown group of tests")?;
        // All members, so that dependencies have the features that they have anyway.
        let output = self
            .cargo()
            .args(["test", "--workspace", "--locked", "--no-run"])
            .args(options.split(' '))
            .args(["--message-format=json-render-diagnostics", "--quiet"])
            .stderr(Stdio::piped())
            .output()
            .context("cannot run cargo")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("it does not build: {}", said.trim());
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        let messages = messages
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let built = messages.into_iter().find_map(|message: Value| {
            let kinds = message["target"]["kind"].as_array()?;
            let is_it = message["target"]["name"] == target
                && message["profile"]["test"] == true
                && kinds.iter().any(|of| of == kind);
            let program = is_it.then(|| message["executable"].as_str())??;
            let manifest = Path::new(message["manifest_path"].as_str()?);
            Some((PathBuf::from(program), manifest.parent()?.to_owned()))
        });
        let built = built.with_context(|| format!("cargo built no tests of `{group}`"))?;
        self.programs.borrow_mut().insert(group.to_owned(), built);
        Ok(())
    }

    /// Runs a test of a group that was built.
    pub(super) fn run(&self, group: &str, name: &str) -> Result<Ending> {
        let programs = self.programs.borrow();
        let (program, folder) = programs.get(group).context("it was not built")?;
        let to = File::create(&self.log).context("cannot make the log")?;
        let mut child = Command::new(program)
            .args(["--exact", name])
            .current_dir(folder)
            .env("CARGO_MANIFEST_DIR", folder)
            .env("SKILLHOST_TEST_PATIENCE", PATIENCE)
            .stdin(Stdio::null())
            .stdout(to.try_clone()?)
            .stderr(to)
            // So that what it started can be ended with it.
            .process_group(0)
            .spawn()
            .context("cannot run the tests")?;
        let start = Instant::now();
        while child.try_wait()?.is_none() {
            if start.elapsed() > RUN {
                kill_process_group(Pid::from_child(&child), Signal::KILL)?;
                child.wait()?;
                return Ok(Ending::TimedOut);
            }
            thread::sleep(Duration::from_millis(20));
        }
        let status = child.wait()?;
        let mut said = String::new();
        File::open(&self.log)?.read_to_string(&mut said)?;
        Ok(match (status.success(), said.contains("running 1 test")) {
            (_, false) => Ending::NotRun,
            (true, true) => Ending::Passed,
            (false, true) => Ending::Failed,
        })
    }
}
