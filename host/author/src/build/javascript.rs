//! JavaScript, compiled by componentize-js. `componentize.mjs` runs it in Node.js, and
//! bundles the packages that the project imports.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Fault;
use super::environment::{Environment, Recipe};
use super::npm_lock;
use super::project::Project;
use super::search::SearchPath;
use super::step::{self, Step};

/// The oldest Node.js that the compiler runs on.
const OLDEST: u32 = 20;
/// The compiler's place in an environment.
const COMPILER: &str = "node_modules/@bytecodealliance/componentize-js/src/cli.js";
const SOURCE: &str = "src/tool.js";
/// The script that bundles and compiles.
const SCRIPT: &str = include_str!("componentize.mjs");
const SCRIPT_NAME: &str = "componentize.mjs";

pub(super) fn build(project: &Project) -> Result<PathBuf, Fault> {
    project.file(SOURCE)?;
    project.file("wit/world.wit")?;
    let node = node(&project.programs)?;
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
    // The sources import from `node_modules`, so they must lie beside it.
    environment.copy(project, "src")?;
    let step = |name, arguments: &[&OsStr]| {
        let mut command = project.programs.command(&node);
        command.args(arguments).current_dir(&environment.folder);
        let mut step = Step::new(name, command);
        step.alias = Some(format!("{}/", environment.folder.display()));
        step
    };
    for file in modules(&environment.folder) {
        let mut step = step(
            "reading the project's JavaScript files",
            &["--check".as_ref(), file.as_os_str()],
        );
        step.is_noise = is_trace;
        step.run()?;
    }
    let component = project.scratch("")?.join("component.wasm");
    let script = environment.folder.join(SCRIPT_NAME);
    fs::write(&script, SCRIPT)
        .map_err(|error| Fault::missing(format!("cannot write `{}`: {error}", script.display())))?;
    let mut step = step("`componentize-js`", &[SCRIPT_NAME.as_ref()]);
    step.command.arg(project.folder.join("wit")).arg(&component);
    step.is_noise = is_noise;
    step.run().map_err(|fault| {
        fault
            .fix("the compiler runs `src/tool.js` once; an error thrown there is shown above")
            .fix(
                "`src/tool.js` must export `tools`; it may import modules of `src`, and packages \
                 that `skillhost add-library` pins and that need no Node.js",
            )
    })?;
    Ok(component)
}

/// Options by which npm says within seconds that it reaches no registry: it would wait for
/// a minute, and print nothing.
const SHORT_RETRIES: [&str; 2] = [
    "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=5000",
];

/// Installs the packages of the lock file.
fn install(programs: &SearchPath, environment: &Path) -> Result<(), Fault> {
    npm_lock::admit(environment)?;
    let command = npm(programs, "ci", environment)?;
    let mut step = Step::new("`npm ci`", command);
    step.is_noise = is_npm_noise;
    step.run().map_err(|fault| {
        fault
            .fix(
                "it needs the npm registry; after a change of `package.json`, update \
                 `package-lock.json` with `npm install --package-lock-only --ignore-scripts`",
            )
            .fix(
                "if it says EINTEGRITY, the registry has other bytes than those that were pinned: \
                 find out why before you pin them with `skillhost add-library`",
            )
    })?;
    match link(&environment.join("node_modules")) {
        Ok(Some(link)) => Err(Fault::project(format!(
            "`package-lock.json` makes `{}` a link to a folder",
            link.strip_prefix(environment).unwrap_or(&link).display()
        ))
        .fix("use packages of the npm registry; put your own modules into `src`")),
        Ok(None) if environment.join(COMPILER).is_file() => Ok(()),
        _ => Err(
            Fault::project("`package-lock.json` does not name componentize-js")
                .fix("copy the lock file from a new project of `skillhost new`"),
        ),
    }
}

/// Makes a command of npm for a folder that has been admitted.
pub(super) fn npm(programs: &SearchPath, verb: &str, folder: &Path) -> Result<Command, Fault> {
    let npm = programs.find("npm").map_err(|fault| fault.fix(HOW))?;
    let mut command = programs.command(npm);
    command
        .arg(verb)
        // Otherwise npm would take a folder above for the project, and its settings.
        .arg("--prefix")
        .arg(folder)
        .args(["--workspaces=false", "--ignore-scripts"])
        .args(["--no-audit", "--no-fund", "--loglevel=error"])
        .args(SHORT_RETRIES)
        .current_dir(folder);
    Ok(command)
}

/// Finds a package that is a link. Guards against: a lock file that replaces one of
/// the compiler's own packages by a folder of the project's sources.
fn link(folder: &Path) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            return Ok(Some(entry.path()));
        }
        // `.bin` holds links to programs; none of them runs.
        if kind.is_dir()
            && entry.file_name() != ".bin"
            && let Some(found) = link(&entry.path())?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

const HOW: &str = "get Node.js with npm from https://nodejs.org, or as your system's packages \
                   `nodejs` and `npm`";

fn node(programs: &SearchPath) -> Result<PathBuf, Fault> {
    let needed = format!("Node.js {OLDEST} or newer is needed");
    let node = programs.find("node");
    let node = node.map_err(|fault| fault.fix(&needed).fix(HOW))?;
    let mut command = programs.command(&node);
    // A version manager reads settings from the folder that it starts in.
    command.arg("--version").current_dir("/");
    let version = step::ask(&mut command);
    let version = version.as_deref().unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next();
    match major.and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if major >= OLDEST => Ok(node),
        _ => Err(Fault::missing(format!(
            "`{}` is Node.js {version}; {needed}",
            node.display()
        ))
        .fix(HOW)),
    }
}

/// Returns the project's own modules, those in `src`.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.join("src")) else {
        return Vec::new();
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let is_module = |path: &PathBuf| path.extension().is_some_and(|found| found == "js");
    let mut found: Vec<PathBuf> = paths.filter(is_module).collect();
    found.sort();
    found
}

/// Checks whether a line is about npm's own code: a trace, or the parts of an error.
pub(super) fn is_npm_noise(line: &str) -> bool {
    let Some(text) = line.strip_prefix("npm error") else {
        return false;
    };
    // What npm says itself has one space before it.
    text.starts_with("   ")
        || ["", "}"].contains(&text.trim())
        || text.contains("A complete log of this run")
}

/// Checks whether a line is about the compiler's own code or Node's.
fn is_noise(line: &str) -> bool {
    const OWN: [&str; 5] = [
        "throw new Error(err);",
        "^",
        "Stack:",
        "Additionally, some promises were rejected, but the rejection never handled:",
        "",
    ];
    let line = line.trim();
    OWN.contains(&line)
        || line.starts_with("at ")
        || line.starts_with('@')
        || line.starts_with("Node.js v")
        || line.starts_with("Promise rejected but never handled:")
        || (line.starts_with("file:///") && line.contains("/node_modules/"))
}

/// Does the same for a file that does not parse: there a line marks the place.
fn is_trace(line: &str) -> bool {
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
            assert!(!is_noise(line) && !is_trace(line), "{line}");
        }
        for line in [
            "    at wrapSafe (node:internal/modules/cjs/loader:1464:18)",
            "Node.js v20.20.2",
            "",
        ] {
            assert!(is_noise(line) && is_trace(line), "{line}");
        }
        assert!(is_noise("          ^") && !is_trace("          ^"));
    }

    #[test]
    fn keeps_only_what_npm_says_itself() {
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
