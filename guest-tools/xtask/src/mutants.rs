//! `cargo xtask mutants`: runs cargo-mutants on modules, and lists the mutants that no test
//! catches.
//!
//! Works in the same copy of the checkout as `cargo xtask faults`. `tests/mutants.toml` lists the
//! modules, and `.cargo/mutants.toml` the mutants that behave like the original.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::environment::cargo_program;
use crate::faults::{CheckoutCopy, TEST_TIMEOUT};
use crate::{Outcome, workspace};

/// List the changes of a module's code that no test catches
///
/// Needs cargo-mutants. The unit tests run for every change, and the module's integration tests for
/// those that the unit tests miss.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Modules to change; without any, list all modules
    modules: Vec<String>,
    /// Try only one of N parts of the changes: K is its number, from 0
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
}

#[derive(Deserialize)]
struct Modules {
    module: Vec<Module>,
}

/// A module on which promises of SPECIFICATION.md depend.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Module {
    name: String,
    /// The folder of its workspace, or empty for the root. The tests of all modules are in the root
    /// workspace.
    #[serde(default)]
    workspace: String,
    /// Its files, relative to the workspace.
    files: Vec<String>,
    /// Filters that select its unit tests.
    unit: Vec<String>,
    /// Filters that select its integration tests.
    suite: Vec<String>,
    /// The test programs that contain the integration tests.
    #[serde(default = "default_programs")]
    programs: Vec<String>,
}

fn default_programs() -> Vec<String> {
    vec!["suite".to_owned()]
}

/// The time limit for the tests of one change, in seconds. Guards against: a change that makes a
/// test wait forever.
const MAX_TEST_SECONDS: &str = "300";

pub(super) fn execute(arguments: &Arguments) -> Result<Outcome> {
    let root = workspace::root()?;
    let modules = read(&root)?;
    if arguments.modules.is_empty() {
        for Module { name, files, .. } in &modules {
            println!("{name}: {}", files.join(", "));
        }
        return Ok(Outcome::Clean);
    }
    let find = |name: &String| {
        let module = modules.iter().find(|module| module.name == *name);
        module.with_context(|| format!("there is no module `{name}`"))
    };
    let chosen: Vec<_> = arguments.modules.iter().map(find).collect::<Result<_>>()?;
    let copy = CheckoutCopy::create(&root)?;
    let mut missed = 0;
    for module in chosen {
        missed += try_module(&root, &copy, module, arguments.shard.as_deref())?;
    }
    Ok(if missed == 0 {
        Outcome::Clean
    } else {
        Outcome::Findings
    })
}

fn read(root: &Path) -> Result<Vec<Module>> {
    let path = root.join("tests/mutants.toml");
    let context = || format!("cannot read `{}`", path.display());
    let text = fs::read_to_string(&path).with_context(context)?;
    let modules: Modules = toml::from_str(&text).with_context(context)?;
    Ok(modules.module)
}

/// Tries all changes of a module. Returns the number of changes that no test catches.
fn try_module(
    root: &Path,
    copy: &CheckoutCopy,
    module: &Module,
    shard: Option<&str>,
) -> Result<usize> {
    let start = Instant::now();
    let output = root.join("target/mutants").join(&module.name);
    if output.exists() {
        fs::remove_dir_all(&output)?;
    }
    fs::create_dir_all(&output)?;
    let run = |scope: &str, targets: &[String], filters: &[String]| {
        let mut command = mutants_command(copy, module, scope, targets, shard);
        let status = command
            .arg("--output")
            .arg(&output)
            .args(["--", "--"])
            .args(filters)
            .status()
            .context("cannot run cargo-mutants")?;
        // The exit code 2 means that changes were missed, 3 that some timed out.
        let is_done = matches!(status.code(), Some(0 | 2 | 3));
        ensure!(is_done, "cargo-mutants ended with {status}");
        Ok(())
    };
    let lists = output.join("mutants.out");
    // A change that times out is caught. The second run tries such changes again, so the results of
    // the first are subtracted below.
    let caught = || lines(&lists, &["caught.txt", "timeout.txt"]);
    let missed = || lines(&lists, &["missed.txt"]);
    let (mut unit_caught, mut suite_caught) = (BTreeSet::new(), BTreeSet::new());
    if !module.unit.is_empty() {
        // Building only the changed package takes a third of the time.
        let targets = ["--lib".to_owned()];
        run("--test-workspace=false", &targets, &module.unit)?;
        unit_caught = caught()?;
    }
    if !module.suite.is_empty() && (module.unit.is_empty() || !missed()?.is_empty()) {
        let programs = module.programs.iter();
        let targets: Vec<_> = programs.map(|name| format!("--test={name}")).collect();
        run("--test-workspace=true", &targets, &module.suite)?;
        suite_caught = &caught()? - &unit_caught;
    }
    let missed = &missed()? - &unit_caught;
    for mutant in &missed {
        println!("missed: {mutant}");
    }
    println!(
        "{}: {} changes, {} caught by unit tests, {} by the suite, {} missed, in {} min",
        module.name,
        unit_caught.len() + suite_caught.len() + missed.len(),
        unit_caught.len(),
        suite_caught.len(),
        missed.len(),
        start.elapsed().as_secs() / 60
    );
    Ok(missed.len())
}

/// Returns a command that tries the changes of a module. `scope` chooses the packages whose tests
/// run, and `targets` the targets that are built.
fn mutants_command(
    copy: &CheckoutCopy,
    module: &Module,
    scope: &str,
    targets: &[String],
    shard: Option<&str>,
) -> Command {
    let manifest = (!module.workspace.is_empty())
        .then(|| format!("--manifest-path={}", copy.path("Cargo.toml").display()));
    let mut cargo = Command::new(cargo_program());
    cargo
        .current_dir(copy.path(&module.workspace))
        .env("CARGO_TARGET_DIR", &copy.target)
        .env("SKILLHOST_TEST_PATIENCE", TEST_TIMEOUT)
        .args(["mutants", "--in-place", "--baseline=skip", "--no-shuffle"])
        .args([scope, "--iterate", "--timeout", MAX_TEST_SECONDS])
        // Pass the targets to the build too, which would otherwise build the examples.
        .args(
            targets
                .iter()
                .chain(&manifest)
                .map(|argument| format!("--cargo-arg={argument}")),
        )
        .args(shard.into_iter().flat_map(|shard| ["--shard", shard]))
        .args(module.files.iter().flat_map(|file| ["--file", file]));
    cargo
}

/// Returns the lines of several output files of cargo-mutants.
fn lines(folder: &Path, names: &[&str]) -> Result<BTreeSet<String>> {
    let mut lines = BTreeSet::new();
    for name in names {
        let text = fs::read_to_string(folder.join(name))
            .with_context(|| format!("cannot read `{name}` of cargo-mutants"))?;
        lines.extend(text.lines().map(str::to_owned));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_files_exist() {
        let root = workspace::root().unwrap();
        for module in read(&root).unwrap() {
            for file in &module.files {
                let folder = file.trim_end_matches("/**");
                let folder = root.join(&module.workspace).join(folder);
                assert!(folder.exists(), "{}: {file}", module.name);
            }
        }
    }

    #[test]
    fn each_filter_selects_a_test() {
        let root = workspace::root().unwrap();
        let functions = functions(&root);
        let mut useless = Vec::new();
        for module in read(&root).unwrap() {
            let sources = module
                .files
                .iter()
                .map(|file| match file.split_once("/src/") {
                    Some((folder, _)) => format!("{folder}/src/"),
                    None => file.clone(),
                });
            let sources: Vec<String> = sources.collect();
            let selects = |folders: &[String], filter: &str| {
                let filter = filter.trim_start_matches("--skip=");
                functions.iter().any(|(file, path)| {
                    path.contains(filter) && folders.iter().any(|folder| file.starts_with(folder))
                })
            };
            let useless_unit = module.unit.iter().filter(|it| !selects(&sources, it));
            let tests = ["tests/".to_owned()];
            let useless_suite = module.suite.iter().filter(|it| !selects(&tests, it));
            let filters = useless_unit.chain(useless_suite);
            useless.extend(filters.map(|filter| format!("{}: {filter}", module.name)));
        }
        assert_eq!(useless, [""; 0]);
    }

    /// Returns the files and paths of all functions, and of the tests that `tests/escapes` runs by
    /// name.
    ///
    /// A function may be in the file's module or in the module `tests` in it, so it has two paths.
    fn functions(root: &Path) -> Vec<(String, String)> {
        let pattern = "fn [a-z0-9_]+|\"[a-z_]+::[a-z0-9_]+\"";
        let mut git = Command::new("git");
        git.current_dir(root);
        let output = git.args(["grep", "--untracked", "-oE", pattern, "--", "*.rs"]);
        let found = String::from_utf8(output.output().unwrap().stdout).unwrap();
        let paths = found.lines().flat_map(|line| {
            let (file, found) = line.split_once(':').unwrap();
            let Some(name) = found.strip_prefix("fn ") else {
                return vec![(file.to_owned(), found.trim_matches('"').to_owned())];
            };
            let module = file.trim_end_matches(".rs").replace('/', "::");
            let paths = [
                format!("{module}::{name}"),
                format!("{module}::tests::{name}"),
            ];
            paths.map(|path| (file.to_owned(), path)).into()
        });
        paths.collect()
    }
}
