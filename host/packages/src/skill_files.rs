//! The files of a skill. Every source of skills adds them to a [`SkillFilesBuilder`], which checks
//! each name before it reads the file.
//!
//! A file is a relative path and bytes. Sources refuse links and devices, and drop owners and
//! modes.

use std::collections::BTreeMap;
use std::io::Read;

use anyhow::{Context as _, bail, ensure};
use skillhost_skills::frontmatter;
use skillhost_skills::skill_md::is_skill_md;
use skillhost_skills::text::hidden::is_hidden;
use unicode_normalization::UnicodeNormalization as _;

use crate::digest::Digest;

/// The maximum number of files of a skill.
pub(crate) const MAX_FILES: usize = 4096;

/// The maximum size of all files of a skill together, in bytes.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// The maximum number of parts of a path.
const MAX_DEPTH: usize = 16;

/// The maximum length of a path, in bytes.
pub(crate) const MAX_PATH: usize = 1024;

/// The maximum length of the name of a file or folder in Linux, in bytes.
const MAX_NAME: usize = 255;

/// The characters that names on Windows cannot have. The rest of a name after `:` is a stream.
const NOT_ON_WINDOWS: [char; 7] = [':', '<', '>', '"', '|', '?', '*'];

/// The names of devices on Windows, with any extension. The names in [`PORTS`] have a number.
const DEVICES: [&str; 6] = ["aux", "con", "conin$", "conout$", "nul", "prn"];
const PORTS: [&str; 2] = ["com", "lpt"];
const PORT_NUMBERS: &str = "123456789¹²³";

/// The maximum lengths of a short name that Windows gives to a file, and of its extension, in
/// bytes.
const MAX_SHORT_NAME: usize = 8;
const MAX_SHORT_EXTENSION: usize = 3;

/// The extensions of scripts.
const SCRIPTS: [&str; 14] = [
    "bash", "bat", "cjs", "js", "lua", "mjs", "php", "pl", "ps1", "py", "r", "rb", "sh", "ts",
];

/// The checked files of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFiles(BTreeMap<String, Vec<u8>>);

impl SkillFiles {
    /// Returns the relative path and the bytes of each file, in the order of the paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.0.iter();
        files.map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// Returns the bytes of a file.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.0.get(path).map(Vec::as_slice)
    }

    /// Returns the path and the bytes of SKILL.md, in upper or lower case.
    pub fn skill_md(&self) -> (&str, &[u8]) {
        let mut files = self.iter();
        files
            .find(|(path, _)| is_skill_md(path.as_ref()))
            .unwrap_or_default()
    }

    /// Returns the paths of files that look like scripts, by folder, extension or first bytes.
    pub fn scripts(&self) -> impl Iterator<Item = &str> {
        let scripts = self.iter().filter(|(path, bytes)| {
            let mut parts = path.rsplit('/');
            let name = parts.next().unwrap_or_default();
            let extension = name.rsplit_once('.').map(|(_, extension)| extension);
            parts.any(|folder| folder == "scripts")
                || extension.is_some_and(|it| SCRIPTS.contains(&it.to_ascii_lowercase().as_str()))
                || bytes.starts_with(b"#!")
        });
        scripts.map(|(path, _)| path)
    }

    /// Returns the digest of each file by its path, as in a lock file.
    pub fn digests(&self) -> BTreeMap<String, Digest> {
        let files = self.0.iter();
        files
            .map(|(path, bytes)| (path.clone(), Digest::of(bytes)))
            .collect()
    }
}

/// The metadata in a SKILL.md. Values are not checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillMetadata {
    /// `name`.
    pub name: Option<String>,
    /// `description`.
    pub description: Option<String>,
    /// `version`, in `metadata` or beside it.
    pub version: Option<String>,
    /// `license`.
    pub license: Option<String>,
    /// The parts of `allowed-tools`.
    pub allowed_tools: Vec<String>,
}

impl SkillMetadata {
    /// Reads the frontmatter of a skill's SKILL.md. Leaves out what it cannot read.
    pub fn of(files: &SkillFiles) -> Self {
        let text = String::from_utf8_lossy(files.skill_md().1);
        let found = frontmatter::read(&text).frontmatter;
        let metadata = found.metadata.map(|it| it.value).unwrap_or_default();
        let mut pairs = metadata.into_iter().chain(found.unknown);
        let version = pairs.find(|pair| pair.key == "version");
        let tools = found.allowed_tools.map(|it| it.value).unwrap_or_default();
        let tools = tools.split([' ', ',']).filter(|tool| !tool.is_empty());
        Self {
            name: found.name.map(|it| it.value),
            description: found.description.map(|it| it.value),
            version: version.map(|pair| pair.value),
            license: found.license.map(|it| it.value),
            allowed_tools: tools.map(str::to_owned).collect(),
        }
    }
}

/// Collects the files of a skill from an untrusted source.
#[derive(Debug, Default)]
pub struct SkillFilesBuilder {
    files: BTreeMap<String, Vec<u8>>,
    paths: SkillPaths,
    bytes: u64,
}

impl SkillFilesBuilder {
    /// Adds a file of `size` bytes. Reads none of it if the name or the size is refused.
    ///
    /// # Errors
    ///
    /// If the path is not relative, or has a part that is empty, `.`, `..` or not printable, starts
    /// with a blank, ends in `.` or a blank, has a blank outside ASCII or a character that names on
    /// Windows cannot have, or can name a device or another file on Windows; if another path is the
    /// same, or differs only by case or Unicode form; if a parent of the path is a file; if the
    /// skill gets too many files, levels or bytes; or if the file does not have `size` bytes.
    pub fn add(&mut self, path: &[u8], size: u64, content: impl Read) -> anyhow::Result<()> {
        let path = self.paths.add(path)?;
        let bytes = self.bytes.checked_add(size);
        let bytes = bytes.filter(|bytes| *bytes <= MAX_BYTES);
        self.bytes = bytes.with_context(|| {
            format!("the files of the skill have more than {MAX_BYTES} bytes, with `{path}`")
        })?;
        let mut read = Vec::new();
        let content = content.take(size.saturating_add(1)).read_to_end(&mut read);
        content.with_context(|| format!("cannot read `{path}`"))?;
        ensure!(
            read.len() as u64 == size,
            "`{path}` does not have the {size} bytes that it should have"
        );
        self.files.insert(path, read);
        Ok(())
    }

    /// Checks the path of a folder. A folder without files is dropped.
    ///
    /// # Errors
    ///
    /// As for a file.
    pub fn add_folder(&mut self, path: &[u8]) -> anyhow::Result<()> {
        self.paths.add_folder(path)
    }

    /// Returns the files.
    ///
    /// # Errors
    ///
    /// If none of them is the SKILL.md of the skill.
    pub fn build(self) -> anyhow::Result<SkillFiles> {
        ensure!(
            self.files.keys().any(|path| is_skill_md(path.as_ref())),
            "it has no SKILL.md, so it is not a skill"
        );
        Ok(SkillFiles(self.files))
    }
}

/// The checked paths of a skill's files. Each new path is compared with the others.
#[derive(Debug, Default)]
pub(crate) struct SkillPaths {
    /// The path and kind of each file and folder. The key is the [`folded`] path.
    known: BTreeMap<String, (String, EntryKind)>,
    files: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    File,
    Folder,
}

impl SkillPaths {
    /// Checks the path of a file, and returns it.
    pub(crate) fn add(&mut self, path: &[u8]) -> anyhow::Result<String> {
        let path = self.check(path, EntryKind::File)?;
        self.files += 1;
        ensure!(
            self.files <= MAX_FILES,
            "the skill has more than {MAX_FILES} files"
        );
        Ok(path)
    }

    /// Checks the path of a folder.
    fn add_folder(&mut self, path: &[u8]) -> anyhow::Result<()> {
        self.check(path, EntryKind::Folder)?;
        // Limits folders without files too, which `files` does not count.
        ensure!(
            self.known.len() <= MAX_FILES * MAX_DEPTH,
            "the skill has too many folders"
        );
        Ok(())
    }

    fn check(&mut self, path: &[u8], kind: EntryKind) -> anyhow::Result<String> {
        let path = check_path(path)?;
        // Folds each part once, because a path has many parents.
        let (mut folded_path, mut end) = (String::new(), 0);
        for part in path.split('/') {
            if end > 0 {
                folded_path.push('/');
                end += 1;
            }
            folded_path += &folded(part);
            end += part.len();
            let is_parent = end < path.len();
            let kind = if is_parent { EntryKind::Folder } else { kind };
            self.insert(&folded_path, &path[..end], kind)?;
        }
        Ok(path.to_owned())
    }

    fn insert(&mut self, folded_path: &str, path: &str, kind: EntryKind) -> anyhow::Result<()> {
        let Some((known, known_kind)) = self.known.get(folded_path) else {
            let entry = (path.to_owned(), kind);
            self.known.insert(folded_path.to_owned(), entry);
            return Ok(());
        };
        ensure!(
            known == path,
            "the names `{known}` and `{path}` differ only by case or Unicode form"
        );
        ensure!(
            (*known_kind, kind) == (EntryKind::Folder, EntryKind::Folder),
            "the name `{path}` occurs twice"
        );
        Ok(())
    }
}

/// Returns a part of a path without differences of case and Unicode form, which some file systems
/// ignore.
fn folded(part: &str) -> String {
    // Lower case first, so that `ẞ` is the same name as `ß`. Then upper case, so that `ß` is the
    // same name as `SS`, and `ſ` as `S`.
    let lower = part.nfd().flat_map(char::to_lowercase);
    let upper = lower.flat_map(char::to_uppercase);
    let folded: String = upper.flat_map(char::to_lowercase).collect();
    folded.nfc().collect()
}

/// Returns whether a part of a path names a device on Windows, such as `con.txt`.
fn names_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default();
    let stem = stem.trim_end_matches(' ').to_ascii_lowercase();
    let number = PORTS.iter().find_map(|port| stem.strip_prefix(port));
    DEVICES.contains(&&*stem)
        || number.is_some_and(|it| it.chars().count() == 1 && PORT_NUMBERS.contains(it))
}

/// Returns whether a part of a path can be the short name that Windows gives to another file, such
/// as `SCRIPT~1.PY`.
fn is_short_name(part: &str) -> bool {
    let (stem, extension) = part.rsplit_once('.').unwrap_or((part, ""));
    let number = stem.rsplit_once('~').map(|(_, number)| number);
    stem.len() <= MAX_SHORT_NAME
        && extension.len() <= MAX_SHORT_EXTENSION
        && number.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether a part of a path ends in a version, as names on VMS do. Info-ZIP removes it,
/// which can give the name of another file.
fn has_version(part: &str) -> bool {
    let version = part.rsplit_once(';').map(|(_, version)| version);
    version.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Checks a path, without comparing it with others.
fn check_path(bytes: &[u8]) -> anyhow::Result<&str> {
    let shown = || {
        let shown = &bytes[..bytes.len().min(MAX_NAME)];
        String::from_utf8_lossy(shown).escape_debug().to_string()
    };
    let Ok(path) = str::from_utf8(bytes) else {
        bail!("the name `{}` is not UTF-8", shown());
    };
    ensure!(
        path.len() <= MAX_PATH,
        "the name `{}…` has more than {MAX_PATH} bytes",
        shown()
    );
    let is_other_blank = |c: char| c.is_whitespace() && c != ' ';
    ensure!(
        !path
            .chars()
            .any(|c| is_hidden(c) || is_other_blank(c) || c == '\\'),
        "the name `{}` has a backslash or a character that is not visible",
        shown()
    );
    ensure!(
        !path.starts_with('/'),
        "the name `{}` is not relative",
        shown()
    );
    let mut depth = 0;
    for part in path.split('/') {
        depth += 1;
        ensure!(
            !matches!(part, "" | "." | ".."),
            "the name `{}` has a part that is empty, `.` or `..`",
            shown()
        );
        // Nobody sees a blank at the start. Windows drops dots and blanks at the end.
        ensure!(
            !part.starts_with(' ') && !part.ends_with(['.', ' ']),
            "the name `{}` has a part that starts with a blank, or ends in `.` or a blank",
            shown()
        );
        // Some programs replace these characters with `_`, which can give the name of another file.
        ensure!(
            !part.contains(NOT_ON_WINDOWS),
            "the name `{}` has one of the characters `:<>\"|?*`",
            shown()
        );
        ensure!(
            !has_version(part),
            "the name `{}` has a part that ends in a version, such as `;1`, which some programs \
             remove",
            shown()
        );
        ensure!(
            !names_device(part) && !is_short_name(part),
            "the name `{}` has a part that can name a device or another file on Windows",
            shown()
        );
        ensure!(
            part.len() <= MAX_NAME,
            "the name `{}…` has a part with more than {MAX_NAME} bytes",
            shown()
        );
    }
    ensure!(
        depth <= MAX_DEPTH,
        "the name `{}` has more than {MAX_DEPTH} parts",
        shown()
    );
    Ok(path)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns files from their paths and texts.
    pub(crate) fn skill_files(files: &[(&str, &str)]) -> anyhow::Result<SkillFiles> {
        let mut builder = SkillFilesBuilder::default();
        for (path, text) in files {
            builder.add(path.as_bytes(), text.len() as u64, text.as_bytes())?;
        }
        builder.build()
    }

    #[test]
    fn keeps_files_in_order() {
        let files = skill_files(&[
            ("scripts/b.py", "b"),
            ("SKILL.md", "# One"),
            ("scripts/größe.py", "x"),
            ("scripts/lib/a.py", ""),
        ]);
        let files = files.unwrap();
        let paths: Vec<&str> = files.iter().map(|(path, _)| path).collect();
        let sorted = [
            "SKILL.md",
            "scripts/b.py",
            "scripts/größe.py",
            "scripts/lib/a.py",
        ];
        assert_eq!(paths, sorted);
        assert_eq!(files.skill_md(), ("SKILL.md", &b"# One"[..]));
        assert_eq!(files.digests()["scripts/b.py"], Digest::of(b"b"));
        let scripts: Vec<&str> = files.scripts().collect();
        assert_eq!(scripts, sorted[1..]);
        let files = skill_files(&[
            ("run", "#!/bin/sh"),
            ("a.PY", ""),
            ("b", ""),
            ("SKILL.md", ""),
        ]);
        let files = files.unwrap();
        assert_eq!(files.scripts().collect::<Vec<_>>(), ["a.PY", "run"]);
        let files = skill_files(&[("a", ""), ("skill.md", "x")]).unwrap();
        assert_eq!(files.skill_md(), ("skill.md", &b"x"[..]));
    }

    #[test]
    fn reads_metadata_of_skill() {
        let text = "---\nname: report\ndescription: Writes reports\nlicense: MIT\n\
                    allowed-tools: Read Bash(ls)\nmetadata:\n  version: \"1.2\"\n---\n";
        let metadata = SkillMetadata::of(&skill_files(&[("SKILL.md", text)]).unwrap());
        let expected = SkillMetadata {
            name: Some("report".to_owned()),
            description: Some("Writes reports".to_owned()),
            version: Some("1.2".to_owned()),
            license: Some("MIT".to_owned()),
            allowed_tools: vec!["Read".to_owned(), "Bash(ls)".to_owned()],
        };
        assert_eq!(metadata, expected);
        let files = skill_files(&[("SKILL.md", "# Title\n")]).unwrap();
        assert_eq!(SkillMetadata::of(&files), SkillMetadata::default());
    }

    #[test]
    fn refuses_names_that_some_systems_cannot_have() {
        let long = format!("{}/x", "n".repeat(256));
        let deep = "d/".repeat(16) + "x";
        let longer = "n/".repeat(600);
        for (path, why) in [
            (&b""[..], "is empty, `.` or `..`"),
            (b"/etc/passwd", "is not relative"),
            (b"..", "`..`"),
            (b"a/../../b", "`..`"),
            (b"./a", "`.`"),
            (b"a//b", "is empty"),
            (b"a/", "is empty"),
            (b"a\\b", "a backslash"),
            (b"a\0b", "not visible"),
            (b"\x1b[2Ja", "not visible"),
            ("a\u{202e}b".as_bytes(), "not visible"),
            ("a\u{200b}".as_bytes(), "not visible"),
            (b"a\nb", "not visible"),
            ("a\u{a0}".as_bytes(), "not visible"),
            ("a\u{3000}".as_bytes(), "not visible"),
            ("a\u{2003}b".as_bytes(), "not visible"),
            (b"\xff", "is not UTF-8"),
            (b"run.py.", "ends in `.` or a blank"),
            (b"run.py ", "ends in `.` or a blank"),
            (b" run.py", "starts with a blank"),
            (b"lib/ run.py", "starts with a blank"),
            (b"lib. /run.py", "ends in `.` or a blank"),
            (b"run.py::$DATA", "has one of the characters"),
            (b"lib<1>/run.py", "has one of the characters"),
            (b"a>b", "has one of the characters"),
            (b"a\"b", "has one of the characters"),
            (b"a|b", "has one of the characters"),
            (b"run?.py", "has one of the characters"),
            (b"*.py", "has one of the characters"),
            (b"...", "ends in `.`"),
            (b"run.sh;1", "ends in a version"),
            (b"lib;/x", "ends in a version"),
            (b"con", "name a device"),
            (b"AUX/x", "name a device"),
            (b"lib/Nul .tar.gz", "name a device"),
            (b"prn.md", "name a device"),
            (b"lpt1", "name a device"),
            ("COM\u{b2}.py".as_bytes(), "name a device"),
            (b"SCRIPT~1.PY", "another file on Windows"),
            (b"d~12/x", "another file on Windows"),
            (long.as_bytes(), "more than 255 bytes"),
            (deep.as_bytes(), "more than 16 parts"),
            (longer.as_bytes(), "more than 1024 bytes"),
        ] {
            let mut builder = SkillFilesBuilder::default();
            let unread = std::io::repeat(0).chain(std::io::empty());
            let error = builder.add(path, 3, unread).unwrap_err().to_string();
            assert!(error.contains(why), "{path:?}: {error}");
            assert!(!error.chars().any(is_hidden), "{error:?}");
        }
    }

    #[test]
    fn refuses_names_that_some_systems_confuse() {
        for (one, two, why) in [
            ("a", "a", "occurs twice"),
            ("a", "a/b", "occurs twice"),
            ("a/b", "a", "occurs twice"),
            ("readme.md", "README.md", "differ only by case"),
            ("A/x", "a/y", "differ only by case"),
            ("a/x", "A", "differ only by case"),
            ("a/b/\u{e9}/x", "a/b/E\u{301}/y", "differ only by case"),
            ("\u{e9}", "e\u{301}", "Unicode form"),
            ("\u{c9}", "e\u{301}", "Unicode form"),
            ("stra\u{df}e", "STRASSE", "differ only by case"),
            ("\u{df}.py", "\u{1e9e}.py", "differ only by case"),
            ("ss.py", "\u{1e9e}.py", "differ only by case"),
            ("\u{212a}", "k", "differ only by case"),
        ] {
            let error = skill_files(&[("SKILL.md", ""), (one, ""), (two, "")]).unwrap_err();
            assert!(error.to_string().contains(why), "{one} {two}: {error}");
        }
        let paths = [
            "SKILL.md",
            "a/b",
            "a/c",
            "ab",
            "a b",
            "console.py",
            "a.con",
            "com.py",
            "lpt12",
            "scripts~1.py",
            "a~1.json",
            "a~b",
            "a~",
        ];
        skill_files(&paths.map(|path| (path, ""))).unwrap();
    }

    #[test]
    fn refuses_too_many_files_and_bytes() {
        let mut builder = SkillFilesBuilder::default();
        for at in 0..MAX_FILES {
            builder
                .add(format!("{at}").as_bytes(), 0, &b""[..])
                .unwrap();
        }
        let error = builder.add(b"more", 0, &b""[..]).unwrap_err();
        assert!(
            error.to_string().contains("more than 4096 files"),
            "{error}"
        );

        // The size is refused before anything is read.
        struct Unread;
        impl Read for Unread {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                panic!("the file was read")
            }
        }
        let mut builder = SkillFilesBuilder::default();
        builder.add(b"a", 1, &b"x"[..]).unwrap();
        for size in [MAX_BYTES, u64::MAX] {
            let error = builder.add(format!("{size}").as_bytes(), size, Unread);
            let error = error.unwrap_err().to_string();
            assert!(error.contains("more than 67108864 bytes"), "{error}");
        }
        for content in [&b"short"[..], b"too long"] {
            let mut builder = SkillFilesBuilder::default();
            let error = builder.add(b"a", 6, content).unwrap_err().to_string();
            assert!(error.contains("does not have the 6 bytes"), "{error}");
        }
        let error = skill_files(&[("a", ""), ("b/SKILL.md", "")]).unwrap_err();
        assert!(error.to_string().contains("has no SKILL.md"), "{error}");
    }
}
