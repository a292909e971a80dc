//! The kit files for typed tools (`skillhost new --typed`), whose functions have WIT types. All
//! other files come from the kit of the language.

use super::{KitFile, Language};

pub(super) const COMMON: &[KitFile] = files!("guest-tools/kits/typed/common":
    "cases/terms.json",
    "wit/terms.wit",
    "wit/world.wit",
);

pub(super) const RUST: &[KitFile] = files!("guest-tools/kits/typed/rust":
    "Cargo.toml",
    "README.md",
    "src/lib.rs",
);

pub(super) const PYTHON: &[KitFile] =
    files!("guest-tools/kits/typed/python": "README.md", "tool.py");

pub(super) const JAVASCRIPT: &[KitFile] = files!("guest-tools/kits/typed/javascript":
    "README.md",
    "src/tool.js",
    "wit/world.wit",
);

pub(super) const C: &[KitFile] = files!("guest-tools/kits/typed/c": "README.md", "src/tool.c");

/// Checks whether a file of the language's untyped kit belongs to a typed project too.
fn is_shared(path: &str) -> bool {
    const SHARED: [&str; 9] = [
        ".gitignore",
        ".npmrc",
        "package-lock.json",
        "package.json",
        "pyproject.toml",
        "requirements.txt",
        "src/skillhost-folder.js",
        "src/skillhost-http.js",
        "wit/deps/wasi-filesystem/filesystem.wit",
    ];
    SHARED.contains(&path)
}

impl Language {
    /// Returns the path and the text of each file of a typed project.
    pub(crate) fn typed_files(self) -> impl Iterator<Item = (String, &'static str)> {
        let own = match self {
            Self::Rust => RUST,
            Self::Python => PYTHON,
            Self::JavaScript => JAVASCRIPT,
            Self::C => C,
        };
        let shared = self.own_files().iter().filter(|file| is_shared(file.path));
        let skill = super::COMMON.iter();
        let skill = skill.filter(|file| !file.path.starts_with("cases/"));
        // JavaScript has its own world, which imports more than the common one.
        let common = COMMON.iter();
        let common = common.filter(move |file| own.iter().all(|other| other.path != file.path));
        let all = own.iter().chain(common).chain(shared).chain(skill);
        let all = all.map(|file| (file.path.to_owned(), file.text));
        // With these files, the world of a C project would always import `wasi:http`.
        let wasi_http = match self {
            Self::JavaScript => super::WASI_HTTP,
            _ => &[],
        };
        let wasi_http = wasi_http.iter();
        all.chain(wasi_http.map(|file| (format!("wit/deps/{}", file.path), file.text)))
    }
}
