//! A tool project: its folder and its language.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use skillhost::named_file;

use super::Fault;
use super::search::SearchPath;
use crate::kit::Language;
use skillhost_program::terminal::{self, format_line};

/// The most bytes of a text of a project. Guards against: a file that is something else.
pub(super) const TEXT_BYTES: u64 = 16 << 20;

/// The most bytes of what a compiler makes, with its debug sections. Guards against: the same.
pub(super) const BUILT_BYTES: u64 = 1 << 30;

/// A folder that can be built.
pub(super) struct Project {
    /// The absolute path: compilers start in it.
    pub(super) folder: PathBuf,
    pub(super) language: Language,
    /// The folders in which its build finds programs.
    pub(super) programs: SearchPath,
}

impl Project {
    /// Opens a folder, and finds out its language unless `lang` names it.
    pub(super) fn open(folder: &Path, lang: Option<Language>) -> Result<Self, Fault> {
        let shown = folder.display();
        let absolute = folder
            .canonicalize()
            .map_err(|error| Fault::usage(format!("cannot use the folder `{shown}`: {error}")))?;
        if !absolute.is_dir() {
            return Err(Fault::usage(format!("`{shown}` is not a folder")));
        }
        let found = languages(&absolute);
        let language = match (lang, found.as_slice()) {
            (Some(language), _) => language,
            (None, [(language, _)]) => *language,
            (None, []) => {
                return Err(
                    Fault::usage(format!("there is no tool project in `{shown}`"))
                        .fix(
                            "a project holds a Cargo.toml (Rust), a package.json (JavaScript), a \
                         tool.py (Python) or .c files in src (C)",
                        )
                        .fix(
                            "create one with `skillhost new NAME --lang rust|python|javascript|c`",
                        ),
                );
            }
            (None, several) => {
                let names: Vec<String> = several
                    .iter()
                    .map(|(language, file)| format!("`{file}` ({})", language.name()))
                    .collect();
                return Err(Fault::usage(format!(
                    "`{shown}` holds {}; choose one with `--lang`",
                    names.join(" and ")
                )));
            }
        };
        // Zig alone takes any path; the other compilers fail in their own words.
        if language != Language::C && absolute.to_str().is_none() {
            return Err(Fault::usage(format!(
                "the path of `{shown}` is not UTF-8, which the compiler for {} needs",
                language.name()
            ))
            .fix("rename the folder, or the one above it that has the name"));
        }
        Ok(Self {
            programs: SearchPath::outside(&absolute),
            folder: absolute,
            language,
        })
    }

    /// Returns the path of a file that the build needs.
    pub(super) fn file(&self, path: &str) -> Result<PathBuf, Fault> {
        let file = self.folder.join(path);
        if file.is_file() {
            return Ok(file);
        }
        Err(Fault::project(format!(
            "`{}` has no `{path}`, which a project in {} needs",
            self.folder.display(),
            self.language.name()
        ))
        .fix("copy the file from a new project of `skillhost new`"))
    }

    /// Reads a file that the build needs.
    pub(super) fn text(&self, path: &str) -> Result<String, Fault> {
        let file = self.file(path)?;
        named_file::read_text(&file, TEXT_BYTES)
            .map_err(|error| Fault::project(format!("cannot read `{}`: {error:#}", file.display())))
    }

    /// Locks the project until the file is dropped. Guards against: two builds, such as
    /// one of `dev`, that write the same intermediate files.
    pub(super) fn lock(&self) -> Result<File, Fault> {
        let folder = self.scratch("")?;
        let locked = || {
            let handle = File::open(&folder)?;
            match handle.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    terminal::say(&format_line!("waiting for another build of this project"));
                    handle.lock()?;
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            Ok(handle)
        };
        locked().map_err(|error: std::io::Error| {
            Fault::missing(format!("cannot lock `{}`: {error}", folder.display()))
        })
    }

    /// Makes a folder for intermediate files of the build.
    pub(super) fn scratch(&self, name: &str) -> Result<PathBuf, Fault> {
        let build = self.own_folder(&self.folder.join("build"))?;
        match name {
            "" => Ok(build),
            name => self.own_folder(&build.join(name)),
        }
    }

    /// Makes a folder of the project that the build writes to. Removes links and special files
    /// in it, and refuses a link in its place. Guards against: a project whose link makes a
    /// build overwrite a file of its user, or whose FIFO makes it wait.
    pub(super) fn own_folder(&self, folder: &Path) -> Result<PathBuf, Fault> {
        let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
        if is_link(folder) {
            return Err(Fault::project(format!(
                "`{}` is a symlink, and a build does not write through one",
                folder.display()
            ))
            .fix("remove it, or replace it by a folder"));
        }
        let made = || {
            fs::create_dir_all(folder)?;
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                let kind = entry.file_type()?;
                if !kind.is_file() && !kind.is_dir() {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(folder.to_owned())
        };
        made().map_err(|error: std::io::Error| {
            Fault::missing(format!(
                "cannot make the folder `{}`: {error}",
                folder.display()
            ))
        })
    }
}

/// Returns the languages of a folder's projects, each with the file that shows it.
fn languages(folder: &Path) -> Vec<(Language, &'static str)> {
    let mut found: Vec<_> = [
        (Language::Rust, "Cargo.toml"),
        (Language::JavaScript, "package.json"),
        (Language::Python, "tool.py"),
    ]
    .into_iter()
    .filter(|(_, file)| folder.join(file).is_file())
    .collect();
    // Projects in other languages may have some C in them.
    if found.is_empty() && !c_files(folder).is_empty() {
        found.push((Language::C, "src"));
    }
    found
}

/// Returns a source that is newer than a component in the `dist` of its project.
pub(crate) fn newer_source(component: &Path) -> Option<PathBuf> {
    let modified = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
    let dist = component.parent()?.canonicalize().ok()?;
    let folder = dist.parent().filter(|_| dist.ends_with("dist"))?;
    let built = modified(component).filter(|_| !languages(folder).is_empty())?;
    let is_source = |path: &Path| {
        let end = path.extension().and_then(|end| end.to_str());
        end.is_some_and(|end| ["rs", "py", "js", "c", "h", "wit"].contains(&end))
    };
    let folders = ["", "src", "wit"].map(|name| folder.join(name));
    let entries = folders.iter().filter_map(|it| fs::read_dir(it).ok());
    let mut paths = entries.flatten().flatten().map(|entry| entry.path());
    let newer = paths.find(|it| is_source(it) && modified(it).is_some_and(|time| time > built))?;
    newer.strip_prefix(folder).map(Path::to_owned).ok()
}

/// Returns the C files of a project, sorted.
pub(super) fn c_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.join("src")) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == "c") && path.is_file())
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn refuses_a_path_that_the_compiler_cannot_take() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join(OsStr::from_bytes(b"a\xffb"));
        fs::create_dir(&folder).unwrap();
        for (file, language, is_taken) in [
            ("tool.py", Language::Python, false),
            ("package.json", Language::JavaScript, false),
            ("Cargo.toml", Language::Rust, false),
            ("src", Language::C, true),
        ] {
            fs::write(folder.join(file), "").unwrap();
            match Project::open(&folder, Some(language)) {
                Ok(_) => assert!(is_taken, "{file}"),
                Err(fault) => {
                    let shown = format!("{fault:?}");
                    assert!(!is_taken && shown.contains("is not UTF-8"), "{shown}");
                }
            }
        }
    }

    #[test]
    fn finds_a_source_that_is_newer_than_the_component() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, seconds| {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), "").unwrap();
            let file = File::options().write(true).open(path(name)).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            file.set_modified(time).unwrap();
        };
        write("dist/a.wasm", 2);
        write("src/lib.rs", 3);
        // It lies in no project.
        assert_eq!(newer_source(&path("dist/a.wasm")), None);
        write("Cargo.toml", 3);
        let newer = newer_source(&path("dist/a.wasm"));
        assert_eq!(newer.as_deref(), Some(Path::new("src/lib.rs")));
        write("src/lib.rs", 1);
        // No build reads these.
        write("cases/a.json", 3);
        write("skillhost.toml", 3);
        assert_eq!(newer_source(&path("dist/a.wasm")), None);
        write("wit/world.wit", 3);
        assert!(newer_source(&path("dist/a.wasm")).is_some());
        write("a.wasm", 1);
        assert_eq!(newer_source(&path("a.wasm")), None);
    }

    #[test]
    fn a_build_writes_through_no_link_in_the_project() {
        let base = tempfile::tempdir().unwrap();
        let (folder, outside) = (base.path().join("project"), base.path().join("outside"));
        fs::create_dir_all(folder.join("build/bindings")).unwrap();
        fs::create_dir(&outside).unwrap();
        let file = outside.join("file");
        fs::write(&file, "mine").unwrap();
        symlink(&file, folder.join("build/bindings/tool.c")).unwrap();
        symlink(&file, folder.join("build/component.wasm")).unwrap();
        symlink(&outside, folder.join("dist")).unwrap();
        let project = Project {
            folder: folder.clone(),
            language: Language::C,
            programs: SearchPath::outside(&folder),
        };
        for (name, written) in [("bindings", "tool.c"), ("", "component.wasm")] {
            let scratch = project.scratch(name).ok().unwrap();
            fs::write(scratch.join(written), "theirs").unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        assert!(project.own_folder(&folder.join("dist")).is_err());
        fs::remove_dir_all(folder.join("build")).unwrap();
        symlink(&outside, folder.join("build")).unwrap();
        assert!(project.scratch("bindings").is_err());
    }
}
