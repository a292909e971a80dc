//! Folders of skills for tests: written file by file, or described in JSON as in
//! `vectors/built_skills.json`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use base64::Engine as _;
use serde_json::Value;
use tempfile::TempDir;

use super::repository;

/// The text outside all skills, which no call may reveal.
pub(crate) const CANARY: &str = "CANARY-7f3a";

/// A root of skills, with a canary beside it.
pub(crate) struct Folders {
    /// Deletes the folders on drop.
    _base: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) outside: PathBuf,
}

impl Folders {
    /// Makes an empty root, which every user may read.
    pub(crate) fn new() -> Self {
        super::watchdog::watch();
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let real = fs::canonicalize(base.path()).unwrap();
        let folders = Self {
            root: real.join("skills"),
            outside: real.join("outside"),
            _base: base,
        };
        fs::create_dir(&folders.root).unwrap();
        fs::create_dir(&folders.outside).unwrap();
        fs::write(folders.outside.join("canary.txt"), CANARY).unwrap();
        folders
    }

    /// Returns a root with the skills of `built_skills.json`, which the cases in `vectors/` read.
    pub(crate) fn built() -> &'static Self {
        static BUILT: OnceLock<Folders> = OnceLock::new();
        BUILT.get_or_init(|| {
            let json = fs::read(repository().join("tests/vectors/built_skills.json")).unwrap();
            let json: Value = serde_json::from_slice(&json).unwrap();
            Self::from_skills(&json["skills"])
        })
    }

    /// Makes a root with skills that are described as in `built_skills.json`.
    pub(crate) fn from_skills(skills: &Value) -> Self {
        let folders = Self::new();
        for (skill, files) in skills.as_object().unwrap() {
            fs::create_dir_all(folders.root.join(skill)).unwrap();
            for (path, content) in files.as_object().unwrap() {
                folders.write_entry(&folders.root.join(skill).join(path), content);
            }
        }
        folders
    }

    /// Writes a file at a path below the root.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Returns the text with placeholders replaced by this root's paths.
    pub(crate) fn fill_in(&self, text: &str) -> String {
        text.replace("{ROOT}", self.root.to_str().unwrap())
            .replace("{OUTSIDE}", self.outside.to_str().unwrap())
    }

    /// Writes the file, folder or symlink that `content` describes.
    fn write_entry(&self, path: &Path, content: &Value) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content = content.as_object().unwrap();
        let (kind, value) = content.iter().find(|(kind, _)| *kind != "mode").unwrap();
        match kind.as_str() {
            "dir" => fs::create_dir_all(path).unwrap(),
            "symlink" => symlink(self.fill_in(value.as_str().unwrap()), path).unwrap(),
            kind => fs::write(path, bytes(kind, value)).unwrap(),
        }
        if let Some(mode) = content.get("mode") {
            let mode = u32::from_str_radix(mode.as_str().unwrap(), 8).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// Returns the bytes of a file whose content is described in this way.
fn bytes(kind: &str, value: &Value) -> Vec<u8> {
    let text = || value.as_str().unwrap();
    match kind {
        "text" => text().into(),
        "base64" => base64::prelude::BASE64_STANDARD.decode(text()).unwrap(),
        "hex" => {
            let digits: Vec<u8> = text().bytes().filter(u8::is_ascii_hexdigit).collect();
            digits
                .chunks(2)
                .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect()
        }
        "repeat" => {
            let length = usize::try_from(value["bytes"].as_u64().unwrap()).unwrap();
            value["text"]
                .as_str()
                .unwrap()
                .bytes()
                .cycle()
                .take(length)
                .collect()
        }
        "lines" => {
            let lines: Vec<String> = (1..=value.as_u64().unwrap())
                .map(|n| format!("line {n}"))
                .collect();
            lines.join("\n").into_bytes()
        }
        other => panic!("unknown content `{other}`"),
    }
}
