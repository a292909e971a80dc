//! `skillhost add-library`: pins a Python or npm library and its dependencies, with hashes, in
//! the project's lock file. pip and npm resolve it in a temporary folder: no code of a library
//! runs, and nothing is installed.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use skillhost_skills::{atomic_file, named_file};
use tempfile::TempDir;

use super::project::{MAX_TEXT_BYTES, Project};
use super::requirements::{self, Requirement};
use super::step::Step;
use super::venv::{self, LOCK, Venv};
use super::{BUILD_WARNING, BuildError, javascript, npm_lock};
use crate::kit::Language;
use skillhost_program::exit::Exit;
use skillhost_program::terminal::{self, format_line};

/// Pin a Python or npm library and its dependencies in a project's lock file
#[derive(Args)]
#[command(after_help = BUILD_WARNING)]
pub(crate) struct AddLibraryCommand {
    /// Name of the library, and its version [default: the newest that fits]
    #[arg(value_name = "NAME[==VERSION]")]
    library: String,
    /// Folder of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Language of the project, needed if the folder has projects in several languages
    #[arg(long, value_enum)]
    lang: Option<Language>,
    /// Also pin packages with native code, which a tool cannot run: only their parts
    /// in Python work
    #[arg(long)]
    native: bool,
}

/// Packages with native code that work without it.
const WORKING_WITHOUT_NATIVE_CODE: [&str; 12] = [
    "charset-normalizer",
    "coverage",
    "frozenlist",
    "markupsafe",
    "msgpack",
    "multidict",
    "mypy-extensions",
    "propcache",
    "pyyaml",
    "simplejson",
    "sqlalchemy",
    "wrapt",
];

/// Alternatives to packages that need native code.
const ALTERNATIVES: [(&str, &str); 14] = [
    ("bcrypt", "`hashlib.scrypt`"),
    ("cryptography", "`hashlib` and `hmac`"),
    ("lxml", "`xml.etree.ElementTree`, or `html5lib`"),
    ("matplotlib", "a chart as SVG text"),
    ("numpy", "`statistics`, `math`, `array` and lists"),
    ("orjson", "`json`"),
    ("pandas", "`csv`, `json` and `statistics`"),
    ("pillow", "`pypng` for PNG files"),
    ("pydantic", "`dataclasses`, or `fastjsonschema`"),
    ("rapidfuzz", "`difflib`"),
    ("regex", "`re`"),
    ("scipy", "`statistics` and `math`, or `mpmath`"),
    ("ujson", "`json`"),
    ("xxhash", "`hashlib.blake2b` or `zlib.crc32`"),
];

/// A package that was pinned.
struct PinnedPackage {
    name: String,
    version: String,
    /// A warning to show with it.
    warning: Option<&'static str>,
}

impl AddLibraryCommand {
    pub(crate) fn execute(self) -> Exit {
        let library = &self.library;
        match self.add() {
            Ok((lock, pinned)) => {
                for package in &pinned {
                    terminal::say(&format_line!(
                        "pinned `{}` {} in `{lock}`",
                        package.name,
                        package.version
                    ));
                    if let Some(warning) = package.warning {
                        terminal::say(&format_line!("  {warning}"));
                    }
                }
                if pinned.is_empty() {
                    terminal::say(&format_line!("`{lock}` has `{library}` already"));
                }
                Exit::Ok
            }
            Err(error) => error.report(),
        }
    }

    /// Pins the library. Returns the name of the lock file, and the packages that were pinned.
    fn add(&self) -> Result<(&'static str, Vec<PinnedPackage>), BuildError> {
        let (name, version) = parse_library(&self.library)?;
        let project = Project::open(&self.dir, self.lang)?;
        let _lock = project.lock()?;
        match project.language {
            Language::Python => Ok((LOCK, add_python(&project, name, version, self.native)?)),
            Language::JavaScript => Ok(("package-lock.json", add_npm(&project, name, version)?)),
            Language::Rust => Err(BuildError::usage(
                "`add-library` does not manage the crates of a Rust project",
            )
            .fix(format!("use `cargo add {name}`"))),
            Language::C => Err(BuildError::usage(
                "`add-library` does not manage the libraries of a C project",
            )
            .fix("put the library's `.c` and `.h` files into `src`")),
        }
    }
}

/// Splits a library's name from its version.
///
/// Guards against: options, paths and addresses for pip or npm.
fn parse_library(library: &str) -> Result<(&str, Option<&str>), BuildError> {
    let (name, version) = match library.split_once("==") {
        Some((name, version)) => (name.trim(), Some(version.trim())),
        None => (library.trim(), None),
    };
    let is_version = |version: &str| {
        version.starts_with(|c: char| c.is_ascii_digit())
            && version
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".+!-".contains(c))
    };
    if npm_lock::is_name(name) && version.is_none_or(is_version) {
        return Ok((name, version));
    }
    // npm writes `NAME@VERSION`.
    let corrected = library
        .rsplit_once('@')
        .map(|(name, version)| format!("{name}=={version}"))
        .filter(|corrected| parse_library(corrected).is_ok());
    let advice = match corrected {
        Some(corrected) => format!("`{corrected}`"),
        None => {
            "its name, such as `marked`, or its name and version, such as `fastjsonschema==2.22.3`"
                .to_owned()
        }
    };
    Err(BuildError::usage(format!(
        "`{library}` is not the name of a library; write {advice}"
    )))
}

pub(super) fn temporary_folder() -> Result<TempDir, BuildError> {
    tempfile::tempdir()
        .map_err(|error| BuildError::setup(format!("cannot create a temporary folder: {error}")))
}

pub(super) fn read(file: &Path) -> Result<String, BuildError> {
    named_file::read_text(file, MAX_TEXT_BYTES)
        .map_err(|error| BuildError::setup(format!("cannot read `{}`: {error:#}", file.display())))
}

pub(super) fn write(file: &Path, text: &str) -> Result<(), BuildError> {
    fs::write(file, text)
        .map_err(|error| BuildError::setup(format!("cannot write `{}`: {error}", file.display())))
}

/// Replaces a file of the project atomically. Replaces a symlink itself, not its target.
pub(super) fn replace(file: &Path, text: &str) -> Result<(), BuildError> {
    atomic_file::replace(file, text.as_bytes(), 0o644)
        .map_err(|error| BuildError::setup(format!("cannot write `{}`: {error}", file.display())))
}

fn add_python(
    project: &Project,
    name: &str,
    version: Option<&str>,
    allows_native: bool,
) -> Result<Vec<PinnedPackage>, BuildError> {
    let lock = project.text(LOCK)?;
    let requirements = venv::parse_lock(&lock)?;
    let venv = Venv::open(project)?;
    let folder = temporary_folder()?;
    let name = requirements::normalize_name(name);
    // Pinned packages keep their versions.
    let pins: String = requirements
        .iter()
        .filter(|requirement| requirement.name != name)
        .map(|requirement| format!("{}=={}\n", requirement.name, requirement.version))
        .collect();
    write(&folder.path().join("pins.txt"), &pins)?;
    let mut command = venv.python();
    command
        .args(["-m", "pip", "install", "--dry-run", "--ignore-installed"])
        .args(["--quiet", "--disable-pip-version-check"])
        .args(["--only-binary", ":all:", "-c", "pins.txt"])
        .args(["--report", "report.json"])
        .arg(match version {
            Some(version) => format!("{name}=={version}"),
            None => name.clone(),
        })
        .current_dir(folder.path());
    let mut step = Step::new("`pip install --dry-run`", command);
    step.is_noise = venv::is_retry;
    step.run().map_err(|error| {
        error
            .fix(
                "pip needs the Python registry; `from versions: none` means that the registry has no \
                 library of this name, or none with a wheel. The name can differ from that in \
                 `import`: `import yaml` needs `pyyaml`",
            )
            .fix(
                "only libraries with wheels can be pinned: others run a script when they are \
                 installed, which builds native code or downloads more",
            )
            .fix(format!(
                "name another version with `{name}==VERSION`, or choose another library"
            ))
    })?;
    let report: Value =
        serde_json::from_str(&read(&folder.path().join("report.json"))?).unwrap_or_default();
    if !allows_native {
        refuse_native_code(&name, &report)?;
    }
    let (text, pinned) = pin(lock.clone(), &requirements, &report)?;
    replace(&project.folder.join(LOCK), &text)?;
    Ok(pinned)
}

/// Returns an error if a package of a pip report has a wheel with native code and is not known to
/// work without it. `library` is the library that the author named.
fn refuse_native_code(library: &str, report: &Value) -> Result<(), BuildError> {
    for package in report["install"].as_array().into_iter().flatten() {
        let field = |pointer| package.pointer(pointer).and_then(Value::as_str);
        let (Some(name), Some(url)) = (field("/metadata/name"), field("/download_info/url")) else {
            continue;
        };
        let name = requirements::normalize_name(name);
        if !is_native(url) || WORKING_WITHOUT_NATIVE_CODE.contains(&&*name) {
            continue;
        }
        let subject = if name == library {
            format!("`{name}` has")
        } else {
            format!("`{library}` needs `{name}`, which has")
        };
        let error = BuildError::project(format!(
            "{subject} native code, which a tool cannot run; nothing was pinned"
        ));
        let alternative = ALTERNATIVES.iter().find(|(package, _)| *package == name);
        let error = match alternative {
            Some((_, alternative)) => error.fix(format!("use {alternative} instead")),
            None => error.fix("choose a library of pure Python: its wheel ends in `-none-any.whl`"),
        };
        return Err(error.fix(format!(
            "if `{name}` also works without its native code, pin it with `skillhost add-library \
             {library} --native`"
        )));
    }
    Ok(())
}

/// Checks whether a wheel has code for one kind of machine.
fn is_native(url: &str) -> bool {
    !url.ends_with("-none-any.whl")
}

/// Adds the packages of a pip report to the text of a requirements file.
fn pin(
    mut text: String,
    requirements: &[Requirement<'_>],
    report: &Value,
) -> Result<(String, Vec<PinnedPackage>), BuildError> {
    let mut pinned = Vec::new();
    let mut added = String::new();
    for package in report["install"].as_array().into_iter().flatten() {
        let field = |pointer| package.pointer(pointer).and_then(Value::as_str);
        let (Some(name), Some(version), Some(url), Some(hash)) = (
            field("/metadata/name"),
            field("/metadata/version"),
            field("/download_info/url"),
            field("/download_info/archive_info/hashes/sha256"),
        ) else {
            return Err(
                BuildError::project("the Python registry gives no hash for a package")
                    .fix("use a registry that does, such as https://pypi.org"),
            );
        };
        let name = requirements::normalize_name(name);
        let option = format!("--hash=sha256:{hash}");
        let known = requirements
            .iter()
            .find(|requirement| requirement.name == name);
        match known {
            Some(known) if known.version == version && known.source.contains(&option) => continue,
            Some(known) if known.version == version => {
                let extended = format!("{} \\\n    {option}\n", known.source.trim_end());
                text = text.replacen(known.source, &extended, 1);
            }
            _ => {
                if let Some(known) = known {
                    text = text.replacen(known.source, "", 1);
                }
                added += &format!("{name}=={version} \\\n    {option}\n");
            }
        }
        pinned.push(PinnedPackage {
            name,
            version: version.to_owned(),
            warning: is_native(url).then_some(
                "its wheel has native code for this kind of machine, which a tool does not run; on \
                 another kind of machine, run this command again",
            ),
        });
    }
    if !added.is_empty() && !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Ok((text + &added, pinned))
}

fn add_npm(
    project: &Project,
    name: &str,
    version: Option<&str>,
) -> Result<Vec<PinnedPackage>, BuildError> {
    const FILES: [&str; 2] = ["package-lock.json", "package.json"];
    let folder = temporary_folder()?;
    let copy = |name: &str| folder.path().join(name);
    for file in FILES {
        write(&copy(file), &project.text(file)?)?;
    }
    npm_lock::restrict_to_registry(folder.path())?;
    let before = read(&copy("package-lock.json"))?;
    let mut command = javascript::npm(&project.programs, "install", folder.path())?;
    command
        .args(["--package-lock-only", "--save-prod", "--save-exact"])
        .arg("--omit-lockfile-registry-resolved")
        .arg(format!("{name}@{}", version.unwrap_or("latest")));
    let mut step = Step::new("`npm install --package-lock-only`", command);
    step.is_noise = javascript::is_npm_noise;
    step.run().map_err(|error| {
        error.fix(format!(
            "npm needs its registry: check that it has `{name}`, or name another version with \
             `{name}==VERSION`"
        ))
    })?;
    npm_lock::restrict_to_registry(folder.path())?;
    let pinned = newly_locked(&before, &read(&copy("package-lock.json"))?);
    for file in FILES {
        replace(&project.folder.join(file), &read(&copy(file))?)?;
    }
    Ok(pinned)
}

/// Returns the packages of the npm lock file `after` that are new or differ from those in `before`.
fn newly_locked(before: &str, after: &str) -> Vec<PinnedPackage> {
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let (before, after) = (parse(before), parse(after));
    let packages = after["packages"].as_object().into_iter().flatten();
    packages
        .filter(|(location, package)| {
            let old = &before["packages"][location];
            let is_same = old["version"] == package["version"] && old["dev"] == package["dev"];
            // The empty location is the project itself.
            !location.is_empty() && !is_same
        })
        .map(|(location, package)| PinnedPackage {
            name: location
                .rsplit("node_modules/")
                .next()
                .unwrap_or(location)
                .to_owned(),
            version: package["version"].as_str().unwrap_or_default().to_owned(),
            warning: if package["hasInstallScript"] == true {
                Some(
                    "it has an install script, which does not run: it may lack what the script \
                     downloads or builds",
                )
            } else if package.get("cpu").is_some() {
                Some("it is native code for one kind of machine, which a tool cannot run")
            } else {
                None
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accepts_only_registry_names() {
        for (library, expected) in [
            ("marked", ("marked", None)),
            ("PyYAML==6.0.3", ("PyYAML", Some("6.0.3"))),
            (
                "@scope/part==1.0.0-rc.1",
                ("@scope/part", Some("1.0.0-rc.1")),
            ),
        ] {
            assert_eq!(parse_library(library).ok(), Some(expected));
        }
        for library in [
            "",
            "-r",
            "--index-url=x",
            "../part",
            "a/b",
            "@a",
            "@a/b/c",
            "git+https://x/y",
            "x @ https://y",
            "x==",
            "x==-1",
            "x==1 --no-binary",
            "x>=1",
            "x;y",
        ] {
            assert!(parse_library(library).is_err(), "{library}");
        }
    }

    fn report(packages: &[(&str, &str, &str)]) -> Value {
        let install: Vec<Value> = packages
            .iter()
            .map(|(name, version, tag)| {
                json!({
                    "metadata": {"name": name, "version": version},
                    "download_info": {
                        "url": format!("https://registry.example/{name}-{version}-{tag}.whl"),
                        "archive_info": {"hashes": {"sha256": format!("{name}{}", &tag[..3])}},
                    },
                })
            })
            .collect();
        json!({ "install": install })
    }

    #[test]
    fn pins_missing_packages() {
        let compiler = "componentize-py==0.25.1 \\\n    --hash=sha256:00\n";
        let any = "py3-none-any";
        let one = "one==1.0 \\\n    --hash=sha256:onepy3\n";
        for (before, packages, after, count) in [
            (
                "",
                vec![("One", "1.0", any)],
                one.replace(":one", ":One"),
                1,
            ),
            (one, vec![("one", "1.0", any)], one.to_owned(), 0),
            // A wheel for another machine.
            (
                one,
                vec![("one", "1.0", "linux")],
                one.trim_end().to_owned() + " \\\n    --hash=sha256:onelin\n",
                1,
            ),
            // Another version.
            (one, vec![("one", "2.0", any)], one.replace("1.0", "2.0"), 1),
        ] {
            let before = format!("{compiler}{before}");
            let requirements = requirements::parse(&before).unwrap();
            let (text, pinned) = pin(before.clone(), &requirements, &report(&packages))
                .ok()
                .unwrap();
            assert_eq!(text, format!("{compiler}{after}"));
            assert_eq!(pinned.len(), count);
            assert!(requirements::parse(&text).is_ok());
        }
        assert!(pin(String::new(), &[], &json!({"install": [{}]})).is_err());
    }

    #[test]
    fn refuses_native_code_and_says_what_works() {
        let advice = |library: &str, packages: &[(&str, &str, &str)]| {
            let refused = refuse_native_code(library, &report(packages));
            refused.err().map(|error| format!("{error:?}"))
        };
        let any = "py3-none-any";
        assert_eq!(advice("one", &[("one", "1.0", any)]), None);
        // PyYAML works without its native code.
        assert_eq!(advice("pyyaml", &[("PyYAML", "6.0", "linux")]), None);
        let refused = advice("numpy", &[("numpy", "2.0", "linux")]).unwrap();
        for words in [
            "`numpy` has native code",
            "nothing was pinned",
            "use `statistics`",
            "`skillhost add-library numpy --native`",
        ] {
            assert!(refused.contains(words), "{words}: {refused}");
        }
        let refused = advice("two", &[("two", "1.0", any), ("one", "1.0", "linux")]).unwrap();
        assert!(
            refused.contains("`two` needs `one`, which has native code")
                && refused.contains("pure Python"),
            "{refused}"
        );
    }

    #[test]
    fn lists_newly_locked_packages() {
        let lock = |packages: Value| json!({ "packages": packages }).to_string();
        let before = lock(json!({"": {}, "node_modules/one": {"version": "1.0.0"}}));
        let after = lock(json!({
            "": {},
            "node_modules/one": {"version": "1.0.0"},
            "node_modules/two": {"version": "2.0.0", "integrity": "sha512-0"},
            "node_modules/two/node_modules/@a/b": {
                "version": "3.0.0", "integrity": "sha512-0", "hasInstallScript": true
            },
        }));
        let pinned = newly_locked(&before, &after);
        let names: Vec<_> = pinned.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["two", "@a/b"]);
        assert!(pinned[0].warning.is_none() && pinned[1].warning.is_some());
    }
}
