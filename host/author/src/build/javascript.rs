//! Builds JavaScript with componentize-js. The script `componentize.mjs` bundles the packages that
//! the project imports, and runs the compiler in Node.js.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost::Needs;

use super::BuildError;
use super::environment::{Environment, Recipe};
use super::npm_lock;
use super::project::Project;
use super::search::SearchPath;
use super::step::{self, Step};
use super::wit::ProjectWit;

/// The oldest Node.js that the compiler runs on.
const MIN_NODE_VERSION: u32 = 20;
/// The path of the compiler in an environment.
const COMPILER: &str = "node_modules/@bytecodealliance/componentize-js/src/cli.js";
const SOURCE: &str = "src/tool.js";
/// The script that bundles packages and compiles.
const SCRIPT: &str = include_str!("componentize.mjs");
const SCRIPT_NAME: &str = "componentize.mjs";

pub(super) fn build(project: &Project, needs: &Needs) -> Result<PathBuf, BuildError> {
    project.file(SOURCE)?;
    project.file("wit/world.wit")?;
    let node = find_node(&project.programs)?;
    let recipe = Recipe {
        kind: "javascript",
        locks: &[
            ("package.json", project.text("package.json")?),
            ("package-lock.json", project.text("package-lock.json")?),
        ],
        marker: COMPILER,
        is_shared: false,
    };
    let environment = Environment::open(project, &recipe, |folder| {
        install(&project.programs, folder)
    })?;
    // The sources import from `node_modules`, so they must be beside it.
    environment.copy(project, "src")?;
    let node_step = |name, arguments: &[&OsStr]| {
        let mut command = project.programs.command(&node);
        command.args(arguments).current_dir(&environment.folder);
        let mut step = Step::new(name, command);
        step.hidden_prefix = Some(format!("{}/", environment.folder.display()));
        step
    };
    for file in source_modules(&environment.folder) {
        let mut step = node_step(
            "reading the project's JavaScript files",
            &["--check".as_ref(), file.as_os_str()],
        );
        step.is_noise = is_stack_trace;
        step.run()?;
    }
    let component = project.build_folder("")?.join("component.wasm");
    let script = environment.folder.join(SCRIPT_NAME);
    fs::write(&script, SCRIPT).map_err(|error| {
        BuildError::setup(format!("cannot write `{}`: {error}", script.display()))
    })?;
    let mut step = node_step("`componentize-js`", &[SCRIPT_NAME.as_ref()]);
    step.command.arg(project.folder.join("wit")).arg(&component);
    if needs.asks_for_network() {
        step.command.arg(ProjectWit::read(project)?.world_name()?);
    }
    step.is_noise = is_noise;
    step.run().map_err(|error| {
        error
            .fix("the compiler runs `src/tool.js` once; an error thrown there is shown above")
            .fix(
                "`src/tool.js` must export `tools`; it may import modules of `src`, and packages \
                 that `skillhost add-library` pins and that need no Node.js",
            )
    })?;
    Ok(component)
}

/// Options that let npm report within seconds that it cannot reach its registry. By default it
/// retries for a minute, and prints nothing.
const SHORT_RETRIES: [&str; 2] = [
    "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=5000",
];

/// Installs the packages of the lock file into an environment.
fn install(programs: &SearchPath, environment: &Path) -> Result<(), BuildError> {
    npm_lock::restrict_to_registry(environment)?;
    let command = npm(programs, "ci", environment)?;
    let mut step = Step::new("`npm ci`", command);
    step.is_noise = is_npm_noise;
    step.run().map_err(|error| {
        error
            .fix(
                "it needs the npm registry; after a change of `package.json`, update \
                 `package-lock.json` with `npm install --package-lock-only --ignore-scripts`",
            )
            .fix(
                "EINTEGRITY means that the registry has other bytes than those that were pinned: \
                 find out why before you pin them with `skillhost add-library`",
            )
    })?;
    if !environment.join(COMPILER).is_file() {
        return Err(
            BuildError::project("`package-lock.json` does not name componentize-js")
                .fix("copy the lock file from a new project of `skillhost new`"),
        );
    }
    Ok(())
}

/// Returns an npm command that runs in a folder, which [`npm_lock`] must have checked.
pub(super) fn npm(programs: &SearchPath, verb: &str, folder: &Path) -> Result<Command, BuildError> {
    let npm = programs
        .find("npm")
        .map_err(|error| error.fix(NODE_ADVICE))?;
    let mut command = programs.command(npm);
    command
        .arg(verb)
        // Otherwise npm could use a project in a parent folder, with that project's settings.
        .arg("--prefix")
        .arg(folder)
        .args(["--workspaces=false", "--ignore-scripts"])
        .args(["--no-audit", "--no-fund", "--loglevel=error"])
        .args(SHORT_RETRIES)
        .current_dir(folder);
    Ok(command)
}

const NODE_ADVICE: &str = "get Node.js with npm from https://nodejs.org, or as your system's packages \
                   `nodejs` and `npm`";

/// Returns the machine's Node.js if it is new enough.
fn find_node(programs: &SearchPath) -> Result<PathBuf, BuildError> {
    let needed = format!("Node.js {MIN_NODE_VERSION} or newer is needed");
    let node = programs
        .find("node")
        .map_err(|error| error.fix(&needed).fix(NODE_ADVICE))?;
    let mut command = programs.command(&node);
    // A version manager reads settings from the current folder.
    command.arg("--version").current_dir("/");
    let version = step::output(&mut command).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next();
    match major.and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if major >= MIN_NODE_VERSION => Ok(node),
        _ => Err(BuildError::setup(format!(
            "`{}` is Node.js {version}; {needed}",
            node.display()
        ))
        .fix(NODE_ADVICE)),
    }
}

/// Returns the project's own modules in `src`, sorted.
fn source_modules(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.join("src")) else {
        return Vec::new();
    };
    let mut modules: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "js"))
        .collect();
    modules.sort();
    modules
}

/// Checks whether a line shows internals of npm: a stack trace, the members of an error, or the
/// path of its log.
pub(super) fn is_npm_noise(line: &str) -> bool {
    let Some(text) = line.strip_prefix("npm error") else {
        return false;
    };
    // A message for people has one space before it.
    text.starts_with("   ")
        || ["", "}"].contains(&text.trim())
        || text.contains("A complete log of this run")
}

/// Checks whether a line is about the compiler's own code or Node's.
fn is_noise(line: &str) -> bool {
    const COMPILER_LINES: [&str; 5] = [
        "throw new Error(err);",
        "^",
        "Stack:",
        "Additionally, some promises were rejected, but the rejection never handled:",
        "",
    ];
    let line = line.trim();
    COMPILER_LINES.contains(&line)
        || line.starts_with("at ")
        || line.starts_with('@')
        || line.starts_with("Node.js v")
        || line.starts_with("Promise rejected but never handled:")
        || (line.starts_with("file:///") && line.contains("/node_modules/"))
}

/// Checks whether a line is a stack trace of Node. Unlike [`is_noise`], keeps the line that
/// marks the column of a syntax error.
fn is_stack_trace(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with("at ") || line.starts_with("Node.js v")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_only_lines_about_the_project() {
        for line in [
            "src/tool.js:5:16 ReferenceError: FIFTY is not defined",
            "Exception while evaluating top-level script",
        ] {
            assert!(!is_noise(line) && !is_stack_trace(line), "{line}");
        }
        for line in [
            "    at wrapSafe (node:internal/modules/cjs/loader:1464:18)",
            "Node.js v20.20.2",
            "",
        ] {
            assert!(is_noise(line) && is_stack_trace(line), "{line}");
        }
        assert!(is_noise("          ^") && !is_stack_trace("          ^"));
    }

    #[test]
    fn keeps_only_npms_messages() {
        for line in [
            "npm error code ECONNREFUSED",
            "npm error FetchError: request to http://127.0.0.1:9/yallist failed",
            "npm warn deprecated one@1.0.0",
        ] {
            assert!(!is_npm_noise(line), "{line}");
        }
        for line in [
            "npm error     at ClientRequest.emit (node:events:524:28)",
            "npm error   code: 'ECONNREFUSED',",
            "npm error }",
            "npm error",
            "npm error A complete log of this run can be found in: /home/a/.npm/_logs/x",
        ] {
            assert!(is_npm_noise(line), "{line}");
        }
    }
}
