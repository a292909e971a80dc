//! `cargo xtask mutants`: changes the code of a module in every way that cargo-mutants
//! knows, one at a time, and lists the changes that no test notices.
//!
//! Works in the copy of `cargo xtask faults`. The modules are in `tests/mutants.toml`,
//! and changes that nobody could tell from the program are in `.cargo/mutants.toml`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::environment::cargo_program;
use crate::faults::{Copy, PATIENCE};
use crate::{Outcome, workspace};

/// List the changes of a module's code that no test notices
///
/// Needs cargo-mutants. The unit tests try every change; the module's part of the
/// integration tests tries those that they do not catch.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The modules; without one, lists them
    modules: Vec<String>,
    /// Only one in so many changes: the K-th of N
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
}

#[derive(Deserialize)]
struct Modules {
    module: Vec<Module>,
}

/// A module that promises rest on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Module {
    name: String,
    /// The folder of its workspace, if that is not the program's. The program's tests judge
    /// it all the same.
    #[serde(default)]
    workspace: String,
    /// Its files, as the workspace names them.
    files: Vec<String>,
    /// The unit tests of it, by parts of their names.
    unit: Vec<String>,
    /// The integration tests of it, by parts of their names.
    suite: Vec<String>,
    /// The programs that have them.
    #[serde(default = "suite")]
    programs: Vec<String>,
}

fn suite() -> Vec<String> {
    vec!["suite".to_owned()]
}

/// The longest run of the tests of one change, in seconds. Guards against: a change by
/// which a test waits forever.
const RUN: &str = "300";

pub(super) fn execute(arguments: &Arguments) -> Result<Outcome> {
    let root = workspace::root()?;
    let modules = read(&root)?;
    if arguments.modules.is_empty() {
        for Module { name, files, .. } in &modules {
            println!("{name}: {}", files.join(", "));
        }
        return Ok(Outcome::Fine);
    }
    let find = |name: &String| {
        let found = modules.iter().find(|module| module.name == *name);
        found.with_context(|| format!("there is no module `{name}`"))
    };
    let chosen = arguments.modules.iter().map(find);
    let chosen = chosen.collect::<Result<Vec<_>>>()?;
    let copy = Copy::of(&root)?;
    let mut missed = 0;
    for module in chosen {
        missed += try_module(&root, &copy, module, arguments.shard.as_deref())?;
    }
    Ok(match missed {
        0 => Outcome::Fine,
        _ => Outcome::Different,
    })
}

fn read(root: &Path) -> Result<Vec<Module>> {
    let path = root.join("tests/mutants.toml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let modules: Modules = toml::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(modules.module)
}

/// Tries all changes of a module. Returns how many no test notices.
fn try_module(root: &Path, copy: &Copy, module: &Module, shard: Option<&str>) -> Result<usize> {
    let start = Instant::now();
    let output = root.join("target/mutants").join(&module.name);
    if output.exists() {
        fs::remove_dir_all(&output)?;
    }
    fs::create_dir_all(&output)?;
    let manifest = (!module.workspace.is_empty())
        .then(|| format!("--manifest-path={}", copy.path("Cargo.toml").display()));
    let run = |tests: &str, targets: &[String], filters: &[String]| -> Result<()> {
        let mut cargo = Command::new(cargo_program());
        cargo
            .current_dir(copy.path(&module.workspace))
            .env("CARGO_TARGET_DIR", &copy.target)
            .env("SKILLHOST_TEST_PATIENCE", PATIENCE)
            .args(["mutants", "--in-place", "--baseline=skip", "--no-shuffle"])
            .args([tests, "--iterate", "--timeout", RUN, "--output"])
            .arg(&output)
            // For the build too, which would make the examples otherwise.
            .args(
                targets
                    .iter()
                    .chain(&manifest)
                    .map(|argument| format!("--cargo-arg={argument}")),
            )
            .args(shard.into_iter().flat_map(|shard| ["--shard", shard]))
            .args(module.files.iter().flat_map(|file| ["--file", file]))
            .args(["--", "--"])
            .args(filters);
        let status = cargo.status().context("cannot run cargo-mutants")?;
        // 2 and 3 say that changes were missed or took too long.
        let is_done = matches!(status.code(), Some(0 | 2 | 3));
        ensure!(is_done, "cargo-mutants ended with {status}");
        Ok(())
    };
    let lists = output.join("mutants.out");
    // What takes too long is noticed. The second run tries it again, so these are sets.
    let noticed = || lines(&lists, &["caught.txt", "timeout.txt"]);
    let missed = || lines(&lists, &["missed.txt"]);
    let (mut of_unit, mut of_suite) = (BTreeSet::new(), BTreeSet::new());
    if !module.unit.is_empty() {
        // The changed package alone, which is built in a third of the time of all.
        run(
            "--test-workspace=false",
            &["--lib".to_owned()],
            &module.unit,
        )?;
        of_unit = noticed()?;
    }
    if !module.suite.is_empty() && (module.unit.is_empty() || !missed()?.is_empty()) {
        let programs = module.programs.iter();
        let targets: Vec<_> = programs.map(|name| format!("--test={name}")).collect();
        run("--test-workspace=true", &targets, &module.suite)?;
        of_suite = &noticed()? - &of_unit;
    }
    let missed = &missed()? - &of_unit;
    for mutant in &missed {
        println!("missed: {mutant}");
    }
    println!(
        "{}: {} changes, {} caught by unit tests, {} by the suite, {} missed, in {} min",
        module.name,
        of_unit.len() + of_suite.len() + missed.len(),
        of_unit.len(),
        of_suite.len(),
        missed.len(),
        start.elapsed().as_secs() / 60
    );
    Ok(missed.len())
}

/// Returns the lines of files of cargo-mutants.
fn lines(folder: &Path, names: &[&str]) -> Result<BTreeSet<String>> {
    let mut lines = BTreeSet::new();
    for name in names {
        let text = fs::read_to_string(folder.join(name)).with_context(|| (*name).to_owned())?;
        lines.extend(text.lines().map(str::to_owned));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_a_module_exists() {
        let root = workspace::root().unwrap();
        for module in read(&root).unwrap() {
            for file in &module.files {
                let folder = file.trim_end_matches("/**");
                let folder = root.join(&module.workspace).join(folder);
                assert!(folder.exists(), "{}: {file}", module.name);
            }
        }
    }
}
