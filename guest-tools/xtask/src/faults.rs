//! `cargo xtask faults`: breaks each promise of SPECIFICATION.md in turn, in a copy of the
//! checkout, and shows that the test that proves it fails.
//!
//! The faults are in `tests/faults.toml`: a text of a file, and what replaces it. A
//! fault whose text is gone is an error: its promise is proved by nothing then.

mod builds;
mod copy;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::{Outcome, workspace};
pub(crate) use builds::PATIENCE;
use builds::{Builds, Ending};
pub(crate) use copy::Copy;

/// Break each promise of SPECIFICATION.md in turn, and show that its test fails
///
/// Works in a copy of the checkout, in `target/faults`, which shares the dependencies
/// that were built.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The faults to try, by name; all without one
    names: Vec<String>,
    /// Check that each fault still applies and each promise has one; build nothing
    #[arg(long)]
    check: bool,
    /// List the faults with what they break
    #[arg(long, conflicts_with = "check")]
    list: bool,
}

/// The file of faults.
#[derive(Deserialize)]
struct Faults {
    fault: Vec<Fault>,
}

/// A change that breaks a promise, and the tests that must fail then.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    name: String,
    /// What the program does then.
    does: String,
    file: String,
    /// The text that is replaced. It stands in the file once.
    text: String,
    replacement: String,
    /// `suite::…` for the integration tests, else a crate's name and a unit test.
    tests: Vec<String>,
}

impl Fault {
    /// Returns the file with the fault in it.
    fn applied(&self, content: &str) -> Result<String> {
        let found = content.matches(&self.text).count();
        let Self { name, file, .. } = self;
        ensure!(
            found == 1,
            "fault `{name}`: its text stands {found} times in {file}, not once; write it anew for \
             the code as it is, or the promise is proved by nothing"
        );
        ensure!(
            self.text != self.replacement,
            "fault `{name}` changes nothing"
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
        return Ok(Outcome::Fine);
    }
    let chosen = choose(&faults, &arguments.names)?;
    let problems = problems(&root, &faults)?;
    for problem in &problems {
        println!("{problem}");
    }
    if arguments.check || !problems.is_empty() {
        return Ok(match problems.is_empty() {
            true => Outcome::Fine,
            false => Outcome::Different,
        });
    }
    let copy = Copy::of(&root)?;
    let builds = Builds::new(&copy);
    let tried = try_all(&chosen, &copy, &builds);
    copy.restore()?;
    match tried? {
        0 => {
            println!("{} faults, and the tests caught each", chosen.len());
            Ok(Outcome::Fine)
        }
        uncaught => {
            println!("{uncaught} of {} faults were not caught", chosen.len());
            Ok(Outcome::Different)
        }
    }
}

fn read(root: &Path) -> Result<Vec<Fault>> {
    let path = root.join("tests/faults.toml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let faults: Faults = toml::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(faults.fault)
}

fn choose<'a>(faults: &'a [Fault], names: &[String]) -> Result<Vec<&'a Fault>> {
    if names.is_empty() {
        return Ok(faults.iter().collect());
    }
    let find = |name: &String| {
        let found = faults.iter().find(|fault| fault.name == *name);
        found.with_context(|| format!("there is no fault `{name}`: `--list` shows all"))
    };
    names.iter().map(find).collect()
}

/// Returns what is wrong with the faults and the table of promises, without a build.
fn problems(root: &Path, faults: &[Fault]) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut names: BTreeMap<&str, &[String]> = BTreeMap::new();
    for fault in faults {
        if names.insert(&fault.name, &fault.tests).is_some() {
            problems.push(format!("there are two faults `{}`", fault.name));
        }
        let content = fs::read_to_string(root.join(&fault.file));
        let applied = content
            .with_context(|| format!("fault `{}`: {}", fault.name, fault.file))
            .and_then(|content| fault.applied(&content));
        problems.extend(applied.err().map(|error| format!("{error:#}")));
        for test in &fault.tests {
            if builds::split(test).is_none() {
                problems.push(format!("fault `{}`: unknown test `{test}`", fault.name));
            }
        }
        if fault.tests.is_empty() {
            problems.push(format!("fault `{}` names no test", fault.name));
        }
    }
    let page = fs::read_to_string(root.join("SPECIFICATION.md")).context("SPECIFICATION.md")?;
    problems.extend(table::problems(&page, &names)?);
    Ok(problems)
}

/// Tries faults; returns how many the tests did not catch.
fn try_all(faults: &[&Fault], copy: &Copy, builds: &Builds) -> Result<usize> {
    let mut tests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for test in faults.iter().flat_map(|fault| &fault.tests) {
        let (group, name) = builds::split(test).context("a test of no crate")?;
        tests.entry(group).or_default().push(name);
    }
    for (group, names) in &tests {
        builds.build(group)?;
        for name in names.iter().collect::<BTreeSet<_>>() {
            let ending = builds.run(group, name)?;
            ensure!(
                ending == Ending::Passed,
                "`{group}::{name}` {ending} without a fault"
            );
        }
    }
    let mut uncaught = 0;
    for fault in faults {
        let start = Instant::now();
        let caught = try_one(fault, copy, builds);
        copy.restore()?;
        let said = match caught {
            Ok(None) => "caught".to_owned(),
            Ok(Some(fault)) => format!("NOT CAUGHT: {fault}"),
            Err(error) => format!("NOT TRIED: {error:#}"),
        };
        uncaught += usize::from(said != "caught");
        println!(
            "{:<40} {said} ({} s)",
            fault.name,
            start.elapsed().as_secs()
        );
    }
    Ok(uncaught)
}

/// Tries a fault. Returns what the tests did in place of failing.
fn try_one(fault: &Fault, copy: &Copy, builds: &Builds) -> Result<Option<String>> {
    let content = fs::read_to_string(copy.path(&fault.file)).context("cannot read the file")?;
    copy.change(&fault.file, &fault.applied(&content)?)?;
    for test in &fault.tests {
        let Some((group, name)) = builds::split(test) else {
            bail!("unknown test `{test}`");
        };
        builds.build(group)?;
        match builds.run(group, name)? {
            Ending::Failed | Ending::TimedOut => {}
            ending => return Ok(Some(format!("`{test}` {ending}"))),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_applies_and_each_promise_has_one() {
        let root = workspace::root().unwrap();
        let faults = read(&root).unwrap();
        assert_eq!(problems(&root, &faults).unwrap(), [""; 0]);
    }

    #[test]
    fn a_fault_whose_text_is_gone_is_an_error() {
        let fault = |text: &str, replacement: &str| Fault {
            name: "n".into(),
            does: String::new(),
            file: "f.rs".into(),
            text: text.into(),
            replacement: replacement.into(),
            tests: Vec::new(),
        };
        assert_eq!(
            fault("a < b", "true").applied("x(a < b)").unwrap(),
            "x(true)"
        );
        for (text, content) in [("gone", "a"), ("a", "a a"), ("a", "b")] {
            let error = fault(text, "c").applied(content).unwrap_err().to_string();
            assert!(error.contains("not once"), "{error}");
        }
        assert!(fault("a", "a").applied("a").is_err());
    }
}
