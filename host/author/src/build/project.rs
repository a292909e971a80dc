//! A tool project: its folder, its language, and the folders that a build writes to.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use skillhost_skills::named_file;

use super::BuildError;
use super::search::SearchPath;
use crate::kit::Language;
use skillhost_program::terminal::{self, format_line};

/// The maximum size of a text file of a project. Guards against: a huge file of another kind.
pub(super) const MAX_TEXT_BYTES: u64 = 16 << 20;

/// The maximum size of a compiler's output, with debug sections. Guards against: a compiler
/// that fills the memory.
pub(super) const MAX_BUILT_BYTES: u64 = 1 << 30;

/// The file that declares the needs of a project, which `needs.rs` reads.
pub(super) const NEEDS_FILE: &str = "needs.toml";

/// A tool project that can be built.
pub(super) struct Project {
    /// The absolute path. Compilers start in it.
    pub(super) folder: PathBuf,
    pub(super) language: Language,
    /// The folders in which its build finds programs.
    pub(super) programs: SearchPath,
}

impl Project {
    /// Opens the project in a folder, and detects its language unless `lang` names it.
    pub(super) fn open(folder: &Path, lang: Option<Language>) -> Result<Self, BuildError> {
        let shown = folder.display();
        let absolute = folder.canonicalize().map_err(|error| {
            BuildError::usage(format!("cannot use the folder `{shown}`: {error}"))
        })?;
        if !absolute.is_dir() {
            return Err(BuildError::usage(format!("`{shown}` is not a folder")));
        }
        let language = match lang {
            Some(language) => language,
            None => detect_language(&absolute, folder)?,
        };
        // Only Zig accepts any path; the errors of the other compilers do not help.
        if language != Language::C && absolute.to_str().is_none() {
            return Err(BuildError::usage(format!(
                "the path of `{shown}` is not UTF-8, which the compiler for {} needs",
                language.name()
            ))
            .fix("rename the folder or parent folder whose name is not UTF-8"));
        }
        Ok(Self {
            programs: SearchPath::outside(&absolute),
            folder: absolute,
            language,
        })
    }

    /// Returns the path of a file that the build needs.
    pub(super) fn file(&self, path: &str) -> Result<PathBuf, BuildError> {
        let file = self.folder.join(path);
        if file.is_file() {
            return Ok(file);
        }
        Err(BuildError::project(format!(
            "`{}` has no `{path}`, which a project in {} needs",
            self.folder.display(),
            self.language.name()
        ))
        .fix("create a project with `skillhost new`, and copy the file from it"))
    }

    /// Reads a file that the build needs.
    pub(super) fn text(&self, path: &str) -> Result<String, BuildError> {
        let file = self.file(path)?;
        named_file::read_text(&file, MAX_TEXT_BYTES).map_err(|error| {
            BuildError::project(format!("cannot read `{}`: {error:#}", file.display()))
        })
    }

    /// Reads a file that a project may have. A missing file is empty.
    pub(super) fn optional_text(&self, path: &str) -> Result<String, BuildError> {
        if !self.folder.join(path).exists() {
            return Ok(String::new());
        }
        self.text(path)
    }

    /// Locks the project until the returned file is dropped. Guards against: another build at the
    /// same time, such as one that `dev` starts, which writes the same intermediate files.
    pub(super) fn lock(&self) -> Result<File, BuildError> {
        let folder = self.build_folder("")?;
        let lock = || {
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
        lock().map_err(|error: std::io::Error| {
            BuildError::setup(format!("cannot lock `{}`: {error}", folder.display()))
        })
    }

    /// Creates a folder for intermediate files: the project's `build`, or `build/NAME` if `name`
    /// is not empty.
    pub(super) fn build_folder(&self, name: &str) -> Result<PathBuf, BuildError> {
        let build = self.output_folder(&self.folder.join("build"))?;
        if name.is_empty() {
            return Ok(build);
        }
        self.output_folder(&build.join(name))
    }

    /// Creates a folder of the project that the build writes to. Removes symlinks and special
    /// files in it, and refuses a symlink in its place.
    ///
    /// Guards against: a symlink in the project through which a build overwrites a file of the
    /// user, and a FIFO that makes the build wait.
    pub(super) fn output_folder(&self, folder: &Path) -> Result<PathBuf, BuildError> {
        let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
        if is_link(folder) {
            return Err(BuildError::project(format!(
                "`{}` is a symlink, and a build does not write through one",
                folder.display()
            ))
            .fix("remove it, or replace it with a folder"));
        }
        let create = || {
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
        create().map_err(|error: std::io::Error| {
            BuildError::setup(format!(
                "cannot create the folder `{}`: {error}",
                folder.display()
            ))
        })
    }
}

/// Returns the language of the project in a folder. `shown` is the folder as the user named it.
fn detect_language(folder: &Path, shown: &Path) -> Result<Language, BuildError> {
    let shown = shown.display();
    match languages(folder).as_slice() {
        [(language, _)] => Ok(*language),
        [] => Err(
            BuildError::usage(format!("there is no tool project in `{shown}`"))
                .fix(
                    "a project has a Cargo.toml (Rust), a package.json (JavaScript), a tool.py \
                     (Python) or .c files in src (C)",
                )
                .fix("create one with `skillhost new NAME --lang rust|python|javascript|c`"),
        ),
        several => {
            let files: Vec<String> = several
                .iter()
                .map(|(language, file)| format!("`{file}` ({})", language.name()))
                .collect();
            Err(BuildError::usage(format!(
                "`{shown}` has {}; choose one with `--lang`",
                files.join(" and ")
            )))
        }
    }
}

/// Returns the languages of a folder's projects, each with the file that identifies it.
fn languages(folder: &Path) -> Vec<(Language, &'static str)> {
    let mut languages: Vec<_> = [
        (Language::Rust, "Cargo.toml"),
        (Language::JavaScript, "package.json"),
        (Language::Python, "tool.py"),
    ]
    .into_iter()
    .filter(|(_, file)| folder.join(file).is_file())
    .collect();
    // Projects in other languages may contain C too.
    if languages.is_empty() && !c_files(folder).is_empty() {
        languages.push((Language::C, "src"));
    }
    languages
}

/// Returns a source file that is newer than a component in the `dist` folder of its project.
pub(crate) fn newer_source(component: &Path) -> Option<PathBuf> {
    let modified = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
    let dist = component.parent()?.canonicalize().ok()?;
    let folder = dist.parent().filter(|_| dist.ends_with("dist"))?;
    let built = modified(component).filter(|_| !languages(folder).is_empty())?;
    let is_source = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|it| ["rs", "py", "js", "c", "h", "wit"].contains(&it))
            || path.ends_with(NEEDS_FILE)
    };
    let folders = ["", "src", "wit"].map(|name| folder.join(name));
    let entries = folders.iter().filter_map(|it| fs::read_dir(it).ok());
    let mut paths = entries.flatten().flatten().map(|entry| entry.path());
    let newer =
        paths.find(|path| is_source(path) && modified(path).is_some_and(|time| time > built))?;
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
        .filter(|path| path.extension().is_some_and(|extension| extension == "c") && path.is_file())
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
    fn refuses_paths_that_compilers_cannot_read() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join(OsStr::from_bytes(b"a\xffb"));
        fs::create_dir(&folder).unwrap();
        for (file, language, is_accepted) in [
            ("tool.py", Language::Python, false),
            ("package.json", Language::JavaScript, false),
            ("Cargo.toml", Language::Rust, false),
            ("src", Language::C, true),
        ] {
            fs::write(folder.join(file), "").unwrap();
            match Project::open(&folder, Some(language)) {
                Ok(_) => assert!(is_accepted, "{file}"),
                Err(error) => {
                    let shown = format!("{error:?}");
                    assert!(!is_accepted && shown.contains("is not UTF-8"), "{shown}");
                }
            }
        }
    }

    #[test]
    fn finds_source_newer_than_component() {
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
        // The folder is not a project yet.
        assert_eq!(newer_source(&path("dist/a.wasm")), None);
        write("Cargo.toml", 3);
        let newer = newer_source(&path("dist/a.wasm"));
        assert_eq!(newer.as_deref(), Some(Path::new("src/lib.rs")));
        write("src/lib.rs", 1);
        // No build reads these files.
        write("cases/a.json", 3);
        write("skillhost.toml", 3);
        assert_eq!(newer_source(&path("dist/a.wasm")), None);
        write("needs.toml", 3);
        let newer = newer_source(&path("dist/a.wasm"));
        assert_eq!(newer.as_deref(), Some(Path::new("needs.toml")));
        write("needs.toml", 1);
        write("wit/world.wit", 3);
        assert!(newer_source(&path("dist/a.wasm")).is_some());
        write("a.wasm", 1);
        assert_eq!(newer_source(&path("a.wasm")), None);
    }

    #[test]
    fn does_not_write_through_symlinks() {
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
            let build = project.build_folder(name).ok().unwrap();
            fs::write(build.join(written), "theirs").unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        assert!(project.output_folder(&folder.join("dist")).is_err());
        fs::remove_dir_all(folder.join("build")).unwrap();
        symlink(&outside, folder.join("build")).unwrap();
        assert!(project.build_folder("bindings").is_err());
    }
}
