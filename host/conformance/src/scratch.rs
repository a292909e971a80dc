//! The temporary skills of a run, so that its calls do not touch anybody's own files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

/// The skill that most calls use.
pub(super) const SKILL: &str = "conformance";
/// A skill with an empty SKILL.md.
pub(super) const EMPTY: &str = "conformance-empty";
/// A skill with binary data in its SKILL.md.
pub(super) const BINARY: &str = "conformance-binary";
/// A skill whose SKILL.md has [`HUGE_BYTES`] of text.
pub(super) const HUGE: &str = "conformance-huge";
/// The name of a skill that does not exist.
pub(super) const NO_SKILL: &str = "conformance-none";
/// The file that every scratch skill has.
pub(super) const FILE: &str = "SKILL.md";

/// The size of the huge file, in bytes: above the default limit on answers, and small enough to be
/// read within the default limit on memory.
const HUGE_BYTES: usize = 24 << 20;

/// The beginning of the canary, the text in files that no call may read.
const CANARY: &str = "canary";

const SKILL_MD: &str = "\
---
name: conformance
description: Made by a conformance run, and gone when it ends.
---

# Conformance

Reads [notes](docs/notes.md) and [rows](data/rows.csv).

## First part

One line.

## Second part

- an item
- another item
";

const ROWS: &str = "key,value\nfirst,1\nsecond,2\n";

/// A temporary folder of skills, and files outside it. Dropping it removes both.
pub(super) struct Scratch {
    base: TempDir,
    /// The text in every file that no call may read. An answer that contains it reveals such a
    /// file.
    canary: String,
}

impl Scratch {
    pub(super) fn new() -> anyhow::Result<Self> {
        Self::create().context("cannot create the test skills in the folder for temporary files")
    }

    fn create() -> io::Result<Self> {
        let base = tempfile::Builder::new()
            .prefix("skillhost-test-")
            .tempdir()?;
        let name = base.path().file_name().unwrap_or_default();
        let scratch = Self {
            canary: format!("{CANARY}-{}", name.to_string_lossy()),
            base,
        };
        scratch.write("outside/secret.txt", &scratch.canary)?;
        let beside = format!(
            "---\nname: beside\ndescription: Beside.\n---\n{}\n",
            scratch.canary
        );
        scratch.write("skills/conformance-beside/SKILL.md", &beside)?;
        scratch.write(&format!("skills/{SKILL}/{FILE}"), SKILL_MD)?;
        scratch.write(
            &format!("skills/{SKILL}/docs/notes.md"),
            "# Notes\n\nNothing.\n",
        )?;
        scratch.write(&format!("skills/{SKILL}/data/rows.csv"), ROWS)?;
        scratch.write(&format!("skills/{EMPTY}/{FILE}"), "")?;
        let binary: Vec<u8> = (0..=u8::MAX).cycle().take(64 << 10).collect();
        scratch.write(&format!("skills/{BINARY}/{FILE}"), binary)?;
        scratch.write_huge()?;
        let skill = scratch.skills().join(SKILL);
        symlink(scratch.secret(), skill.join("link-out"))?;
        symlink("../../outside/secret.txt", skill.join("relative-link-out"))?;
        symlink("../../outside", skill.join("folder-out"))?;
        symlink("loop", skill.join("loop"))?;
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, skill.join("fifo"), FileType::Fifo, mode, 0)?;
        Ok(scratch)
    }

    /// Returns the folder of the skills.
    pub(super) fn skills(&self) -> PathBuf {
        self.base.path().join("skills")
    }

    /// Returns the path of a file that no call may read.
    pub(super) fn secret(&self) -> PathBuf {
        self.base.path().join("outside/secret.txt")
    }

    /// Returns whether a text contains the canary.
    pub(super) fn is_canary_in(&self, text: &str) -> bool {
        text.contains(&self.canary)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> io::Result<()> {
        let path = self.base.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        fs::write(path, content)
    }

    fn write_huge(&self) -> io::Result<()> {
        let folder = self.skills().join(HUGE);
        fs::create_dir(&folder)?;
        let line = b"This line is repeated until the file is huge.\n";
        let mut file = BufWriter::new(File::create(folder.join(FILE))?);
        for _ in 0..HUGE_BYTES / line.len() {
            file.write_all(line)?;
        }
        file.flush()
    }
}
