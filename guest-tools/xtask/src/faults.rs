//! `cargo xtask faults`: breaks each promise of SPECIFICATION.md in turn, in a copy of the
//! checkout, and checks that its test fails.
//!
//! `tests/faults.toml` lists the faults: each replaces a text in a file. A fault whose text no
//! longer exists is an error, because it proves nothing.

mod builds;
mod copy;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::{Outcome, workspace};
pub(crate) use builds::TEST_TIMEOUT;
use builds::{Builds, TestResult};
pub(crate) use copy::CheckoutCopy;

/// Break each promise of SPECIFICATION.md in turn, and check that its test fails
///
/// Works in a copy of the checkout, in `target/faults`, which shares the built dependencies.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Names of faults to try [default: all]
    names: Vec<String>,
    /// Only check that each fault applies and each promise has a fault; build nothing
    #[arg(long)]
    check: bool,
    /// List the faults and their effects
    #[arg(long, conflicts_with = "check")]
    list: bool,
}

/// The content of `tests/faults.toml`.
#[derive(Deserialize)]
struct Faults {
    fault: Vec<Fault>,
}

/// A change that breaks a promise, and the tests that must fail with it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    name: String,
    /// The effect on the program.
    does: String,
    file: String,
    /// The text to replace. The file must contain it once.
    text: String,
    replacement: String,
    /// The path of each test after its group, such as `suite::` for integration tests, or `core::`
    /// for unit tests of that crate.
    tests: Vec<String>,
}

impl Fault {
    /// Returns the content of the file with the fault.
    fn apply(&self, content: &str) -> Result<String> {
        let count = content.matches(&self.text).count();
        let Self { name, file, .. } = self;
        ensure!(
            count == 1,
            "fault `{name}`: `{file}` contains its text {count} times, not once; adapt the fault to \
             the current code, because it proves nothing now"
        );
        ensure!(
            self.text != self.replacement,
            "fault `{name}`: its text and replacement are equal"
        );
        Ok(content.replacen(&self.text, &self.replacement, 1))
    }
}

pub(super) fn execute(arguments: &Arguments) -> Result<Outcome> {
    let root = workspace::root()?;
    let faults = read(&root)?;
    if arguments.list {
        for Fault { name, does, .. } in &faults {
            println!("{name}: {does}");
        }
        return Ok(Outcome::Clean);
    }
    let chosen = choose(&faults, &arguments.names)?;
    let problems = problems(&root, &faults)?;
    for problem in &problems {
        println!("{problem}");
    }
    if arguments.check || !problems.is_empty() {
        return Ok(if problems.is_empty() {
            Outcome::Clean
        } else {
            Outcome::Findings
        });
    }
    let copy = CheckoutCopy::create(&root)?;
    let builds = Builds::new(&copy);
    let result = try_all(&chosen, &copy, &builds);
    copy.restore()?;
    match result? {
        0 => {
            println!("the tests caught all {} faults", chosen.len());
            Ok(Outcome::Clean)
        }
        uncaught => {
            println!("{uncaught} of {} faults were not caught", chosen.len());
            Ok(Outcome::Findings)
        }
    }
}

fn read(root: &Path) -> Result<Vec<Fault>> {
    let path = root.join("tests/faults.toml");
    let context = || format!("cannot read `{}`", path.display());
    let text = fs::read_to_string(&path).with_context(context)?;
    let faults: Faults = toml::from_str(&text).with_context(context)?;
    Ok(faults.fault)
}

fn choose<'a>(faults: &'a [Fault], names: &[String]) -> Result<Vec<&'a Fault>> {
    if names.is_empty() {
        return Ok(faults.iter().collect());
    }
    let find = |name: &String| {
        let fault = faults.iter().find(|fault| fault.name == *name);
        fault.with_context(|| format!("there is no fault `{name}`: `--list` shows all"))
    };
    names.iter().map(find).collect()
}

/// Checks the faults and the table of promises without a build. Returns the problems.
fn problems(root: &Path, faults: &[Fault]) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut tests_by_fault: BTreeMap<&str, &[String]> = BTreeMap::new();
    let functions = function_names(root)?;
    for fault in faults {
        if tests_by_fault.insert(&fault.name, &fault.tests).is_some() {
            problems.push(format!("there are two faults `{}`", fault.name));
        }
        let content = fs::read_to_string(root.join(&fault.file));
        let result = content
            .with_context(|| format!("fault `{}`: cannot read `{}`", fault.name, fault.file))
            .and_then(|content| fault.apply(&content));
        problems.extend(result.err().map(|error| format!("{error:#}")));
        for test in &fault.tests {
            let function = test.rsplit("::").next().unwrap_or_default();
            if builds::split_group(test).is_none() || !functions.contains(function) {
                problems.push(format!("fault `{}`: unknown test `{test}`", fault.name));
            }
        }
        if fault.tests.is_empty() {
            problems.push(format!("fault `{}` names no test", fault.name));
        }
    }
    let page = fs::read_to_string(root.join("SPECIFICATION.md"))
        .context("cannot read `SPECIFICATION.md`")?;
    problems.extend(table::problems(&page, &tests_by_fault)?);
    Ok(problems)
}

/// Returns the names of all functions, and of the tests that `tests/escapes` runs by name.
fn function_names(root: &Path) -> Result<BTreeSet<String>> {
    let mut git = Command::new("git");
    git.current_dir(root)
        .args(["grep", "--untracked", "-hoE"])
        .args(["fn [a-z0-9_]+|::[a-z0-9_]+\"", "--", "*.rs"]);
    let output = git.output().context("cannot run `git grep`")?;
    ensure!(output.status.success(), "`git grep` failed");
    let found = String::from_utf8(output.stdout).context("`git grep` printed invalid UTF-8")?;
    let names = found.lines().map(|line| {
        line.trim_start_matches("fn ")
            .trim_matches([':', '"'])
            .to_owned()
    });
    Ok(names.collect())
}

/// Tries faults, after it has checked that their tests pass without them. Returns the number of
/// faults that were not caught.
fn try_all(faults: &[&Fault], copy: &CheckoutCopy, builds: &Builds) -> Result<usize> {
    let mut tests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for test in faults.iter().flat_map(|fault| &fault.tests) {
        let (group, name) = builds::split_group(test).context("unknown group of tests")?;
        tests.entry(group).or_default().push(name);
    }
    for (group, names) in &tests {
        builds.build(group)?;
        for name in names.iter().collect::<BTreeSet<_>>() {
            let result = builds.run(group, name)?;
            ensure!(
                result == TestResult::Passed,
                "`{group}::{name}` {result} without a fault"
            );
        }
    }
    let mut uncaught = 0;
    for fault in faults {
        let start = Instant::now();
        let result = try_one(fault, copy, builds);
        copy.restore()?;
        let verdict = match result {
            Ok(None) => "caught".to_owned(),
            Ok(Some(survivor)) => format!("NOT CAUGHT: {survivor}"),
            Err(error) => format!("NOT TRIED: {error:#}"),
        };
        uncaught += usize::from(verdict != "caught");
        println!(
            "{:<40} {verdict} ({} s)",
            fault.name,
            start.elapsed().as_secs()
        );
    }
    Ok(uncaught)
}

/// Tries a fault. Returns the test that did not fail and its result, or `None` if all failed.
fn try_one(fault: &Fault, copy: &CheckoutCopy, builds: &Builds) -> Result<Option<String>> {
    let content = fs::read_to_string(copy.path(&fault.file))
        .with_context(|| format!("cannot read `{}`", fault.file))?;
    copy.change(&fault.file, &fault.apply(&content)?)?;
    for test in &fault.tests {
        let Some((group, name)) = builds::split_group(test) else {
            bail!("unknown test `{test}`");
        };
        builds.build(group)?;
        match builds.run(group, name)? {
            TestResult::Failed | TestResult::TimedOut => {}
            result => return Ok(Some(format!("`{test}` {result}"))),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_apply_and_prove_every_promise() {
        let root = workspace::root().unwrap();
        let faults = read(&root).unwrap();
        assert_eq!(problems(&root, &faults).unwrap(), [""; 0]);
    }

    #[test]
    fn refuses_fault_that_does_not_apply() {
        let fault = |text: &str, replacement: &str| Fault {
            name: "n".into(),
            does: String::new(),
            file: "f.rs".into(),
            text: text.into(),
            replacement: replacement.into(),
            tests: Vec::new(),
        };
        assert_eq!(fault("a < b", "true").apply("x(a < b)").unwrap(), "x(true)");
        for (text, content) in [("gone", "a"), ("a", "a a"), ("a", "b")] {
            let error = fault(text, "c").apply(content).unwrap_err().to_string();
            assert!(error.contains("not once"), "{error}");
        }
        assert!(fault("a", "a").apply("a").is_err());
    }
}
