//! Builds the tests in the copy, and runs single tests with a time limit.

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

use super::copy::CheckoutCopy;
use crate::environment::cargo_program;

/// The time limit for a test. Guards against: a fault that makes a program wait forever.
const MAX_TEST_TIME: Duration = Duration::from_secs(300);

/// The time limit for each wait in a test, in milliseconds. It is shorter than the tests' default,
/// so that a hanging test fails before `MAX_TEST_TIME`.
pub(crate) const TEST_TIMEOUT: &str = "60000";

/// The groups of tests: the first part of their names, cargo's options that select the target, and
/// the target's name and kind.
const GROUPS: &[(&str, &str, &str, &str)] = &[
    // The suite runs `skillhost-author`. Cargo builds that program only for the test `author`.
    ("suite", "--test=suite --test=author", "suite", "test"),
    ("audit", "--lib", "skillhost_audit", "lib"),
    ("escapes", "--test=escapes", "escapes", "test"),
    ("confine", "--lib", "skillhost_confine", "lib"),
    ("egress", "--lib", "skillhost_egress", "lib"),
    ("helper", "--lib", "skillhost_helper", "lib"),
    ("core", "--lib", "skillhost", "lib"),
    ("sandbox", "--lib", "skillhost_sandbox", "lib"),
    ("skills", "--lib", "skillhost_skills", "lib"),
    ("conformance", "--lib", "skillhost_conformance", "lib"),
    ("identity", "--lib", "skillhost_identity", "lib"),
    ("packages", "--lib", "skillhost_packages", "lib"),
    ("index", "--lib", "skillhost_index", "lib"),
    ("mcp", "--lib", "skillhost_mcp", "lib"),
    ("cli", "--lib", "skillhost_cli", "lib"),
    ("server", "--lib", "skillhost_server", "lib"),
    ("program", "--lib", "skillhost_program", "lib"),
    ("author", "--lib", "skillhost_author", "lib"),
];

/// Splits the name of a test into its group and the rest. Returns `None` for an unknown group.
pub(super) fn split_group(test: &str) -> Option<(&str, &str)> {
    let (group, name) = test.split_once("::")?;
    GROUPS
        .iter()
        .any(|(known, ..)| *known == group)
        .then_some((group, name))
}

/// The result of running a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TestResult {
    Passed,
    Failed,
    TimedOut,
    /// No test has this name.
    NotRun,
}

impl fmt::Display for TestResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passes",
            Self::Failed => "fails",
            Self::TimedOut => "times out",
            Self::NotRun => "does not exist",
        })
    }
}

/// Builds and runs the tests of the copy.
pub(super) struct Builds {
    copy: PathBuf,
    target: PathBuf,
    log: PathBuf,
    /// The latest test program of each group, and the folder of its package.
    programs: RefCell<HashMap<String, (PathBuf, PathBuf)>>,
}

impl Builds {
    pub(super) fn new(copy: &CheckoutCopy) -> Self {
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
        // Cargo has set these variables for this program. They describe the checkout, not the copy.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST") {
                cargo.env_remove(&*name);
            }
        }
        cargo
    }

    /// Builds the tests of a group. A fault that does not compile is an error, because it proves
    /// nothing.
    pub(super) fn build(&self, group: &str) -> Result<()> {
        let (_, options, target, kind) = *GROUPS
            .iter()
            .find(|(known, ..)| *known == group)
            .context("unknown group of tests")?;
        // Select all members of the workspace, so that dependencies have the same features as in
        // the checkout's builds.
        let output = self
            .cargo()
            .args(["test", "--workspace", "--locked", "--no-run"])
            .args(options.split(' '))
            .args(["--message-format=json-render-diagnostics", "--quiet"])
            .stderr(Stdio::piped())
            .output()
            .context("cannot run cargo")?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("cannot build the tests: {}", errors.trim());
        }
        let stdout = String::from_utf8_lossy(&output.stdout);
        let mut messages = stdout
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let built = messages.find_map(|message: Value| {
            let kinds = message["target"]["kind"].as_array()?;
            let is_target = message["target"]["name"] == target
                && message["profile"]["test"] == true
                && kinds.iter().any(|it| it == kind);
            let program = is_target.then(|| message["executable"].as_str())??;
            let manifest = Path::new(message["manifest_path"].as_str()?);
            Some((PathBuf::from(program), manifest.parent()?.to_owned()))
        });
        let built = built.with_context(|| format!("cargo built no tests for `{group}`"))?;
        self.programs.borrow_mut().insert(group.to_owned(), built);
        Ok(())
    }

    /// Runs a test of a group that has been built.
    pub(super) fn run(&self, group: &str, name: &str) -> Result<TestResult> {
        let programs = self.programs.borrow();
        let (program, folder) = programs
            .get(group)
            .context("the tests have not been built")?;
        let log = File::create(&self.log)
            .with_context(|| format!("cannot create `{}`", self.log.display()))?;
        let mut child = Command::new(program)
            .args(["--exact", name])
            .current_dir(folder)
            .env("CARGO_MANIFEST_DIR", folder)
            .env("SKILLHOST_TEST_PATIENCE", TEST_TIMEOUT)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A process group, so that the test's children can be killed with the test.
            .process_group(0)
            .spawn()
            .context("cannot run the tests")?;
        let start = Instant::now();
        while child.try_wait()?.is_none() {
            if start.elapsed() > MAX_TEST_TIME {
                kill_process_group(Pid::from_child(&child), Signal::KILL)?;
                child.wait()?;
                return Ok(TestResult::TimedOut);
            }
            thread::sleep(Duration::from_millis(20));
        }
        let status = child.wait()?;
        let mut output = String::new();
        File::open(&self.log)?.read_to_string(&mut output)?;
        Ok(if !output.contains("running 1 test") {
            TestResult::NotRun
        } else if status.success() {
            TestResult::Passed
        } else {
            TestResult::Failed
        })
    }
}
