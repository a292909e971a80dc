//! The languages of tool projects, and the files of a new project in each. The files are in
//! `guest-tools/kits/`, where the project is named [`NAME`]. They are compiled into the program.

use clap::ValueEnum;

/// The placeholder for the project's name in kit files.
pub(crate) const NAME: &str = "look-up-term";
/// The placeholder for the tool's name.
pub(crate) const TOOL: &str = "look_up_term";
/// The placeholder for the tool's name in camel case.
pub(crate) const CAMEL: &str = "lookUpTerm";

/// A language with a kit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    #[value(alias = "rs")]
    Rust,
    #[value(alias = "py")]
    Python,
    #[value(name = "javascript", alias = "js")]
    JavaScript,
    C,
}

/// A file of a project.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KitFile {
    pub(crate) path: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! files {
    ($folder:literal: $($path:literal),+ $(,)?) => {
        &[$(KitFile {
            path: $path,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $folder, "/", $path)),
        }),+]
    };
}

mod typed;

const COMMON: &[KitFile] = files!("guest-tools/kits/common":
    "cases/paths.json",
    "cases/terms.json",
    "dist/.gitkeep",
    "skillhost.toml",
    "skills/sailing-terms/SKILL.md",
    "skills/sailing-terms/glossary.txt",
);

const RUST: &[KitFile] = files!("guest-tools/kits/rust":
    ".gitignore",
    "Cargo.toml",
    "README.md",
    "sdk/Cargo.toml",
    "src/lib.rs",
);

/// The sources of the crate `skillhost-guest`, for Rust projects.
const SDK: &[KitFile] = files!("guest-tools/sdk":
    "src/arguments.rs",
    "src/arguments/fields.rs",
    "src/bindings.rs",
    "src/environment.rs",
    "src/export.rs",
    "src/failure.rs",
    "src/files.rs",
    "src/folder.rs",
    "src/http.rs",
    "src/lib.rs",
    "src/listing.rs",
    "src/log.rs",
    "src/output.rs",
    "src/path.rs",
    "src/scripts.rs",
    "src/skill_md.rs",
    "src/skills.rs",
    "src/text.rs",
    "src/tool.rs",
    "src/without_std.rs",
);

/// The folder of `skillhost-guest` in a project.
pub(crate) const SDK_FOLDER: &str = "sdk/";

const PYTHON: &[KitFile] = files!("guest-tools/kits/python":
    ".gitignore",
    "README.md",
    "pyproject.toml",
    "requirements.txt",
    "skillhost_http.py",
    "skillhost_imports.py",
    "skillhost_kit.py",
    "tool.py",
);

/// The Python module that sends requests, for projects without the file.
pub(crate) const PYTHON_HTTP: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../guest-tools/kits/python/skillhost_http.py"
));

/// The Python module that runs the imports in functions at build time.
pub(crate) const PYTHON_IMPORTS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../guest-tools/kits/python/skillhost_imports.py"
));

const JAVASCRIPT: &[KitFile] = files!("guest-tools/kits/javascript":
    ".gitignore",
    ".npmrc",
    "README.md",
    "package-lock.json",
    "package.json",
    "src/skillhost-folder.js",
    "src/skillhost-http.js",
    "src/skillhost-kit.js",
    "src/tool.js",
    "wit/deps/wasi-cli/environment.wit",
    "wit/deps/wasi-filesystem/filesystem.wit",
    "wit/world.wit",
);

const C: &[KitFile] = files!("guest-tools/kits/c":
    ".gitignore",
    "README.md",
    "requirements.txt",
    "src/skillhost_http.c",
    "src/skillhost_http.h",
    "src/skillhost_kit.c",
    "src/skillhost_kit.h",
    "src/tool.c",
    "wit/world.wit",
);

/// The parts of WASI that projects need to send requests.
pub(crate) const WASI_HTTP: &[KitFile] = files!("guest-tools/kits/wasi":
    "wasi-clocks/clocks.wit",
    "wasi-http/http.wit",
    "wasi-io/io.wit",
);

/// The WIT package `skillhost:tool`.
const WIT: &[KitFile] =
    files!("wit": "answer.wit", "scripts.wit", "skills.wit", "tools.wit", "world.wit");

impl Language {
    /// Returns the display name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
            Self::C => "C",
        }
    }

    /// Returns the file that defines a new project's tool.
    pub(crate) fn source(self) -> &'static str {
        match self {
            Self::Rust => "src/lib.rs",
            Self::Python => "tool.py",
            Self::JavaScript => "src/tool.js",
            Self::C => "src/tool.c",
        }
    }

    /// Returns the files that only projects in this language have.
    fn own_files(self) -> &'static [KitFile] {
        match self {
            Self::Rust => RUST,
            Self::Python => PYTHON,
            Self::JavaScript => JAVASCRIPT,
            Self::C => C,
        }
    }

    /// Returns the folder of the package `skillhost:tool` in a project.
    fn wit_folder(self) -> &'static str {
        match self {
            // The kit has its own world, which imports more than the package's world.
            Self::JavaScript | Self::C => "wit/deps/skillhost-tool",
            _ => "wit",
        }
    }

    /// Returns the WIT files of `wasi:http` in a project. Rust projects get them from the crate
    /// `wasip2`, and Python projects from the compiler.
    fn wasi_http(self) -> &'static [KitFile] {
        match self {
            Self::JavaScript | Self::C => WASI_HTTP,
            Self::Rust | Self::Python => &[],
        }
    }

    /// Returns the path and the text of each file of a project.
    pub(crate) fn files(self) -> impl Iterator<Item = (String, &'static str)> {
        let plain = |file: &KitFile| (file.path.to_owned(), file.text);
        let own = COMMON.iter().chain(self.own_files()).map(plain);
        let in_folder =
            |folder: &str, file: &KitFile| (format!("{folder}{}", file.path), file.text);
        let wit = move |file: &KitFile| in_folder(&format!("{}/", self.wit_folder()), file);
        let wasi_http = self.wasi_http().iter();
        let wasi_http = wasi_http.map(move |file| in_folder("wit/deps/", file));
        let (sdk, sdk_wit) = match self {
            Self::Rust => (SDK, WIT),
            _ => (&[][..], &[][..]),
        };
        let sdk = sdk.iter().map(move |file| in_folder(SDK_FOLDER, file));
        let sdk_wit = sdk_wit.iter().map(move |file| in_folder("sdk/wit/", file));
        let wit = WIT.iter().map(wit).chain(wasi_http);
        own.chain(wit).chain(sdk).chain(sdk_wit)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    use super::*;

    /// Adds the files in a folder, relative to `root`.
    fn list(folder: &Path, root: &Path, files: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                list(&path, root, files);
            } else {
                let path = path.strip_prefix(root).unwrap();
                files.insert(path.to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn program_has_every_kit_file() {
        let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-tools");
        for (folder, files) in [
            ("kits/common", COMMON),
            ("kits/rust", RUST),
            ("kits/python", PYTHON),
            ("kits/javascript", JAVASCRIPT),
            ("kits/c", C),
            ("kits/wasi", WASI_HTTP),
            ("kits/typed/common", typed::COMMON),
            ("kits/typed/rust", typed::RUST),
            ("kits/typed/python", typed::PYTHON),
            ("kits/typed/javascript", typed::JAVASCRIPT),
            ("kits/typed/c", typed::C),
            ("sdk/src", SDK),
        ] {
            let folder = guests.join(folder);
            let mut on_disk = BTreeSet::new();
            list(&folder, &folder, &mut on_disk);
            let without_src = |path: &str| path.trim_start_matches("src/").to_owned();
            let on_disk: BTreeSet<_> = on_disk.iter().map(|path| without_src(path)).collect();
            let embedded: BTreeSet<_> = files.iter().map(|file| without_src(file.path)).collect();
            assert_eq!(on_disk, embedded, "{}", folder.display());
        }
    }

    /// Compares the manifests of the SDK in the kit and in its workspace. The kit's manifest must
    /// spell out inherited fields.
    #[test]
    fn sdk_in_kit_has_same_dependencies() {
        let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-tools");
        let read = |path: &str| -> toml::Table {
            let text = std::fs::read_to_string(guests.join(path)).unwrap();
            text.parse().unwrap()
        };
        let workspace = &read("Cargo.toml")["workspace"];
        let mut inherited = read("sdk/Cargo.toml");
        inherited.remove("lints");
        for (section, from) in [("package", "package"), ("dependencies", "dependencies")] {
            for (key, value) in inherited[section].as_table_mut().unwrap() {
                if value.get("workspace").is_none() {
                    continue;
                }
                let mut resolved = workspace[from][key].clone();
                if let (Some(optional), Some(table)) =
                    (value.get("optional"), resolved.as_table_mut())
                {
                    table.insert("optional".to_owned(), optional.clone());
                }
                *value = resolved;
            }
        }
        assert_eq!(read("kits/rust/sdk/Cargo.toml"), inherited);
    }

    /// Returns the examples that are made from a kit. Rust examples are part of the guests'
    /// workspace instead.
    fn examples() -> Vec<(Language, PathBuf)> {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-tools/examples");
        let folders = std::fs::read_dir(examples).unwrap();
        let folders = folders.map(|entry| entry.unwrap().path());
        let projects = folders.filter(|folder| folder.join("skillhost.toml").is_file());
        let examples: Vec<_> = projects
            .map(|folder| {
                let language = match folder {
                    _ if folder.join("tool.py").is_file() => Language::Python,
                    _ if folder.join("src/tool.js").is_file() => Language::JavaScript,
                    _ if folder.join("src/tool.c").is_file() => Language::C,
                    _ => panic!("`{}` has no source file of a tool", folder.display()),
                };
                (language, folder)
            })
            .collect();
        assert!(!examples.is_empty());
        examples
    }

    /// An example is copied over a new project, which has the kit's files.
    #[test]
    fn examples_have_no_kit_files() {
        // Tool authors rewrite these.
        const REWRITTEN: [&str; 8] = [
            "README.md",
            "cases/",
            "package",
            "pyproject.toml",
            "skillhost.toml",
            "skills/",
            "src/tool.",
            "tool.py",
        ];
        for (language, folder) in examples() {
            for (path, _) in language.files() {
                let rewritten = REWRITTEN.iter().any(|start| path.starts_with(start));
                let file = folder.join(path);
                assert!(
                    rewritten || !file.exists(),
                    "`{}` comes from the kit",
                    file.display()
                );
            }
        }
    }

    /// An example with its own packages replaces the kit's lock file.
    #[test]
    fn examples_lock_packages_of_their_kit() {
        let mut compared = 0;
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        for (language, folder) in examples() {
            let Ok(text) = std::fs::read_to_string(folder.join("package-lock.json")) else {
                continue;
            };
            let mut files = language.files();
            let (_, kit) = files.find(|(path, _)| path == "package-lock.json").unwrap();
            let (example, kit) = (parse(&text), parse(kit));
            for (location, package) in kit["packages"].as_object().unwrap() {
                // The empty location is the project itself.
                if !location.is_empty() {
                    assert_eq!(example["packages"][location], *package, "{location}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 0);
    }

    #[test]
    fn program_has_every_file_of_wit_package() {
        let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
        let entries = std::fs::read_dir(wit).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let on_disk: BTreeSet<String> = names.filter(|name| name.ends_with(".wit")).collect();
        let embedded = WIT.iter().map(|file| file.path.to_owned()).collect();
        assert_eq!(on_disk, embedded);
    }

    /// Returns the letters and digits of a name in lower case. They are the same in all languages.
    fn normalized(name: &str) -> String {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        letters.collect::<String>().to_lowercase()
    }

    /// Returns the text between `start` and `end`.
    fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
        let (_, rest) = text.split_once(start).unwrap();
        rest.split_once(end).unwrap().0
    }

    /// Returns the kind of each error code in the arms of a `match` or `switch`. In the text, each
    /// code and each kind follows its prefix.
    fn arms(text: &str, code_prefix: &str, kind_prefix: &str) -> BTreeMap<String, String> {
        let name = |rest: &str| {
            let is_end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
            normalized(rest.split(is_end).next().unwrap())
        };
        let mut kinds = BTreeMap::new();
        let mut codes = Vec::new();
        let starts = text.char_indices().map(|(index, _)| &text[index..]);
        for rest in starts {
            if let Some(rest) = rest.strip_prefix(code_prefix) {
                codes.push(name(rest));
            } else if let Some(rest) = rest.strip_prefix(kind_prefix) {
                kinds.extend(codes.drain(..).map(|code| (code, name(rest))));
            }
        }
        kinds
    }

    #[test]
    fn languages_agree_on_kinds_of_http_errors() {
        let text = |files: &'static [KitFile], path: &str| {
            let mut files = files.iter();
            files.find(|file| file.path == path).unwrap().text
        };
        let rust = text(SDK, "src/http.rs");
        let rust = between(rust, "match code {", "\n        }\n");
        let rust = arms(rust, "ErrorCode::", "Self::");
        let c = text(C, "src/skillhost_http.c");
        let c = between(c, "switch (code->tag) {", "default:");
        let c = arms(c, "WASI_HTTP_TYPES_ERROR_CODE_", "return SH_HTTP_");
        let javascript = text(JAVASCRIPT, "src/skillhost-http.js");
        let javascript = between(javascript, "const KINDS = {", "\n};");
        let javascript: BTreeMap<String, String> = javascript
            .lines()
            .filter_map(|line| line.trim().trim_end_matches(',').split_once(": "))
            .map(|(code, kind)| (normalized(code), normalized(kind)))
            .collect();
        let python = text(PYTHON, "skillhost_http.py");
        let class_kinds: BTreeMap<&str, &str> = python
            .split("\nclass ")
            .skip(1)
            .filter_map(|class| {
                let (name, rest) = class.split_once("(HttpError):")?;
                Some((name, between(rest, "kind = \"", "\"")))
            })
            .collect();
        let python: BTreeMap<String, String> = between(python, "\nERRORS = {", "\n}")
            .lines()
            .filter_map(|line| line.trim().trim_end_matches(',').split_once(": "))
            .map(|(code, class)| (normalized(code), class_kinds.get(class).unwrap_or(&"other")))
            .map(|(code, kind)| (code, (*kind).to_owned()))
            .collect();
        let http = text(WASI_HTTP, "wasi-http/http.wit");
        let codes = between(http, "variant error-code {", "}").split(',');
        let codes = codes.map(|code| normalized(code.split('(').next().unwrap()));
        let codes: Vec<_> = codes.filter(|code| !code.is_empty()).collect();
        assert_eq!(rust.len(), codes.len());
        for code in codes {
            let kind = &rust[&code];
            assert_eq!(c.get(&code).map_or("protocol", |kind| kind), kind, "{code}");
            let default_kind = if code.ends_with("size") {
                "limit"
            } else {
                "protocol"
            };
            let in_javascript = javascript.get(&code).map_or(default_kind, |kind| kind);
            assert_eq!(in_javascript, kind, "{code}");
            let in_python = python.get(&code).map_or(default_kind, |kind| kind);
            assert_eq!(in_python, kind, "{code}");
        }
    }

    #[test]
    fn kit_files_do_not_mention_repository() {
        for language in Language::value_variants() {
            for (path, text) in language.files().chain(language.typed_files()) {
                for word in ["../", "guest-tools", "CONTRIBUTING", "ARCHITECTURE"] {
                    // Cases try to escape the skill's folder.
                    let is_attack = word == "../" && path.starts_with("cases/");
                    assert!(is_attack || !text.contains(word), "{path}: {word}");
                }
            }
        }
    }
}
