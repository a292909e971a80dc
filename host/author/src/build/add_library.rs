//! `skillhost add-library`: pins a library of Python or npm, and all that it needs, with
//! their hashes in the project's lock. The registry's own client resolves, in a folder
//! of its own: no code of a library runs, and nothing is installed.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use skillhost::named_file;
use tempfile::NamedTempFile;

use super::project::{Project, TEXT_BYTES};
use super::requirements::{self, Requirement};
use super::step::Step;
use super::venv::{self, LOCK, Venv};
use super::{Fault, RIGHTS, javascript, npm_lock};
use crate::kit::Language;
use skillhost_program::exit::Exit;
use skillhost_program::terminal::{self, format_line};

/// Pin a library of Python or npm in a project's lock, with all that it needs
#[derive(Args)]
#[command(after_help = RIGHTS)]
pub(crate) struct AddLibraryCommand {
    /// Name of the library, and its version [default: the newest that fits]
    #[arg(value_name = "NAME[==VERSION]")]
    library: String,
    /// Folder of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Language of the project, needed if the folder holds several
    #[arg(long, value_enum)]
    lang: Option<Language>,
}

/// A package that was pinned.
struct PinnedPackage {
    name: String,
    version: String,
    /// A caution about it.
    caution: Option<&'static str>,
}

impl AddLibraryCommand {
    pub(crate) fn execute(self) -> Exit {
        match self.add() {
            Ok((lock, pinned)) => {
                for package in &pinned {
                    terminal::say(&format_line!(
                        "pinned `{}` {} in `{lock}`",
                        package.name,
                        package.version
                    ));
                    if let Some(caution) = package.caution {
                        terminal::say(&format_line!("  {caution}"));
                    }
                }
                if pinned.is_empty() {
                    terminal::say(&format_line!("`{lock}` has it already"));
                }
                Exit::Ok
            }
            Err(fault) => fault.report(),
        }
    }

    fn add(&self) -> Result<(&'static str, Vec<PinnedPackage>), Fault> {
        let (name, version) = wanted(&self.library)?;
        let project = Project::open(&self.dir, self.lang)?;
        let _lock = project.lock()?;
        match project.language {
            Language::Python => Ok((LOCK, add_python(&project, name, version)?)),
            Language::JavaScript => Ok(("package-lock.json", add_npm(&project, name, version)?)),
            Language::Rust => Err(Fault::usage("a project in Rust takes crates")
                .fix(format!("use `cargo add {name}`"))),
            Language::C => Err(Fault::usage("a project in C takes sources")
                .fix("put the library's `.c` and `.h` files into `src`")),
        }
    }
}

/// Splits a library's name from its version. Guards against: options and addresses for
/// the registry's client.
fn wanted(library: &str) -> Result<(&str, Option<&str>), Fault> {
    let (name, version) = match library.split_once("==") {
        Some((name, version)) => (name.trim(), Some(version.trim())),
        None => (library.trim(), None),
    };
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let scoped = name.strip_prefix('@').unwrap_or(name);
    let parts: Vec<&str> = scoped.split('/').collect();
    let is_name = parts.len() == if scoped == name { 1 } else { 2 }
        && parts.iter().all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(is_of_name)
        });
    let is_of_version = |c: char| c.is_ascii_alphanumeric() || ".+!-".contains(c);
    let is_version = version.is_none_or(|version| {
        version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_of_version)
    });
    if is_name && is_version {
        return Ok((name, version));
    }
    // As npm writes it.
    let other = library
        .rsplit_once('@')
        .map(|(name, version)| format!("{name}=={version}"));
    let instead = match other {
        Some(other) if wanted(&other).is_ok() => format!("`{other}`"),
        _ => {
            "its name, such as `marked`, or its name and version, such as `fastjsonschema==2.22.3`"
                .to_owned()
        }
    };
    Err(Fault::usage(format!(
        "`{library}` is not a library of a registry; write {instead}"
    )))
}

fn scratch() -> Result<tempfile::TempDir, Fault> {
    tempfile::tempdir()
        .map_err(|error| Fault::missing(format!("cannot make a folder for the lock: {error}")))
}

fn write(file: &Path, text: &str) -> Result<(), Fault> {
    fs::write(file, text).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &io::Error) -> Fault {
    Fault::missing(format!("cannot write `{}`: {error}", file.display()))
}

/// A file of the project, as it was read.
struct ReadFile {
    path: PathBuf,
    text: String,
}

impl ReadFile {
    fn of(project: &Project, name: &str) -> Result<Self, Fault> {
        Ok(Self {
            text: project.text(name)?,
            path: project.folder.join(name),
        })
    }

    /// Replaces it at once. A link in its place is replaced, and not what it leads to.
    fn replace(&self, text: &str) -> Result<(), Fault> {
        let replaced = || {
            let folder = self.path.parent().unwrap_or(Path::new(""));
            let mut whole = NamedTempFile::new_in(folder)?;
            whole.write_all(text.as_bytes())?;
            fs::set_permissions(whole.path(), fs::metadata(&self.path)?.permissions())?;
            whole.persist(&self.path)?;
            Ok(())
        };
        replaced().map_err(|error| unwritable(&self.path, &error))
    }

    /// Refuses a file that somebody has edited meanwhile.
    fn check_unchanged(&self) -> Result<(), Fault> {
        match read(&self.path)? == self.text {
            true => Ok(()),
            false => Err(Fault::project(format!(
                "`{}` has changed meanwhile",
                self.path.display()
            ))
            .fix("run the command again")),
        }
    }
}

fn read(file: &Path) -> Result<String, Fault> {
    named_file::read_text(file, TEXT_BYTES)
        .map_err(|error| Fault::missing(format!("cannot read `{}`: {error:#}", file.display())))
}

fn add_python(
    project: &Project,
    name: &str,
    version: Option<&str>,
) -> Result<Vec<PinnedPackage>, Fault> {
    let lock = ReadFile::of(project, LOCK)?;
    let venv = Venv::open(project)?;
    let requirements = requirements::read(&lock.text).unwrap_or_default();
    let folder = scratch()?;
    let name = requirements::normal_name(name);
    // What is pinned stays as it is.
    let pins: String = requirements
        .iter()
        .filter(|it| it.name != name)
        .map(|it| format!("{}=={}\n", it.name, it.version))
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
    step.run().map_err(|fault| {
        fault
            .fix(
                "it needs the Python registry; `from versions: none` means that it has no library \
                 of this name, or none with a wheel. Its name there may not be that of its import: \
                 `import yaml` is `pyyaml`",
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
    let (text, pinned) = pin(lock.text.clone(), &requirements, &report)?;
    lock.check_unchanged()?;
    lock.replace(&text)?;
    Ok(pinned)
}

/// Adds the packages of a report of pip to a requirements file.
fn pin(
    mut text: String,
    requirements: &[Requirement<'_>],
    report: &Value,
) -> Result<(String, Vec<PinnedPackage>), Fault> {
    let mut pinned = Vec::new();
    let mut added = String::new();
    for package in report["install"].as_array().into_iter().flatten() {
        let part = |pointer| package.pointer(pointer).and_then(Value::as_str);
        let (Some(name), Some(version), Some(url), Some(hash)) = (
            part("/metadata/name"),
            part("/metadata/version"),
            part("/download_info/url"),
            part("/download_info/archive_info/hashes/sha256"),
        ) else {
            return Err(
                Fault::project("the Python registry names no hash of a package")
                    .fix("use a registry that does, such as https://pypi.org"),
            );
        };
        let name = requirements::normal_name(name);
        let line = format!("--hash=sha256:{hash}");
        let known = requirements.iter().find(|it| it.name == name);
        match known {
            Some(known) if known.version == version && known.text.contains(&line) => continue,
            Some(known) if known.version == version => {
                let more = format!("{} \\\n    {line}\n", known.text.trim_end());
                text = text.replacen(known.text, &more, 1);
            }
            _ => {
                if let Some(known) = known {
                    text = text.replacen(known.text, "", 1);
                }
                added += &format!("{name}=={version} \\\n    {line}\n");
            }
        }
        pinned.push(PinnedPackage {
            name,
            version: version.to_owned(),
            caution: (!url.ends_with("-none-any.whl")).then_some(
                "its wheel is for this kind of machine, and has native code: a tool runs the rest, \
                 in Python; on another kind of machine, run this command once more",
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
) -> Result<Vec<PinnedPackage>, Fault> {
    let lock = ReadFile::of(project, "package-lock.json")?;
    let manifest = ReadFile::of(project, "package.json")?;
    let folder = scratch()?;
    let copy = |file: &ReadFile| {
        folder
            .path()
            .join(file.path.file_name().unwrap_or_default())
    };
    for file in [&lock, &manifest] {
        write(&copy(file), &file.text)?;
    }
    npm_lock::admit(folder.path())?;
    let mut command = javascript::npm(&project.programs, "install", folder.path())?;
    command
        .args(["--package-lock-only", "--save-prod", "--save-exact"])
        .arg("--omit-lockfile-registry-resolved")
        .arg(format!("{name}@{}", version.unwrap_or("latest")));
    let mut step = Step::new("`npm install --package-lock-only`", command);
    step.is_noise = javascript::is_npm_noise;
    step.run().map_err(|fault| {
        fault.fix(format!(
            "it needs the npm registry: look whether that has `{name}`, or name another version \
             with `{name}==VERSION`"
        ))
    })?;
    npm_lock::admit(folder.path())?;
    let pinned = newly_locked(&lock.text, &read(&copy(&lock))?)?;
    for file in [&lock, &manifest] {
        file.check_unchanged()?;
    }
    for file in [&lock, &manifest] {
        file.replace(&read(&copy(file))?)?;
    }
    Ok(pinned)
}

/// Lists the packages of a lock of npm that another lock lacks.
fn newly_locked(before: &str, after: &str) -> Result<Vec<PinnedPackage>, Fault> {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let (before, after) = (read(before), read(after));
    let mut pinned = Vec::new();
    for (place, package) in after["packages"].as_object().into_iter().flatten() {
        let old = &before["packages"][place];
        let is_same = old["version"] == package["version"] && old["dev"] == package["dev"];
        if place.is_empty() || is_same {
            continue;
        }
        let name = place.rsplit("node_modules/").next().unwrap_or(place);
        if package["integrity"].as_str().is_none() {
            return Err(
                Fault::project(format!("the npm registry names no hash of `{name}`"))
                    .fix("use a registry that does, such as https://registry.npmjs.org"),
            );
        }
        pinned.push(PinnedPackage {
            name: name.to_owned(),
            version: package["version"].as_str().unwrap_or_default().to_owned(),
            caution: if package["hasInstallScript"] == true {
                Some(
                    "it has a script for its installation, which does not run: it may lack what \
                     the script downloads or builds",
                )
            } else if package.get("cpu").is_some() {
                Some("it is native code for one kind of machine, which a tool cannot run")
            } else {
                None
            },
        });
    }
    Ok(pinned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn takes_names_of_registries_only() {
        for (library, expected) in [
            ("marked", ("marked", None)),
            ("PyYAML==6.0.3", ("PyYAML", Some("6.0.3"))),
            (
                "@scope/part==1.0.0-rc.1",
                ("@scope/part", Some("1.0.0-rc.1")),
            ),
        ] {
            assert_eq!(wanted(library).ok(), Some(expected));
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
            assert!(wanted(library).is_err(), "{library}");
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
    fn pins_what_the_lock_lacks() {
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
            let requirements = requirements::read(&before).unwrap();
            let (text, pinned) = pin(before.clone(), &requirements, &report(&packages))
                .ok()
                .unwrap();
            assert_eq!(text, format!("{compiler}{after}"));
            assert_eq!(pinned.len(), count);
            assert!(requirements::read(&text).is_ok());
        }
        assert!(pin(String::new(), &[], &json!({"install": [{}]})).is_err());
    }

    #[test]
    fn lists_packages_that_are_new_in_a_lock() {
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
        let pinned = newly_locked(&before, &after).ok().unwrap();
        let names: Vec<_> = pinned.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["two", "@a/b"]);
        assert!(pinned[0].caution.is_none() && pinned[1].caution.is_some());
        let without = lock(json!({"node_modules/two": {"version": "2.0.0"}}));
        assert!(newly_locked(&before, &without).is_err());
    }
}
