//! The skills that a run is made on. They are the run's own, so that nothing
//! that a component does or that goes wrong here touches anyone's files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

/// The skill that most calls name.
pub(super) const SKILL: &str = "conformance";
/// One whose SKILL.md has no byte.
pub(super) const EMPTY: &str = "conformance-empty";
/// One whose SKILL.md is no text.
pub(super) const BINARY: &str = "conformance-binary";
/// One whose SKILL.md is a text of [`HUGE_BYTES`].
pub(super) const HUGE: &str = "conformance-huge";
/// A name that no skill has.
pub(super) const NO_SKILL: &str = "conformance-none";
/// What a skill's own folder always has.
pub(super) const FILE: &str = "SKILL.md";

/// Larger than the host's default limit on answers, and small enough that a
/// call can hold it under the default limit on memory.
const HUGE_BYTES: usize = 24 << 20;

/// Largest number of random bytes that name what must not be seen.
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

/// The folder of the skills, and what lies beside it. It goes when this does.
pub(super) struct Scratch {
    base: TempDir,
    /// What stands in every file that no call may see.
    canary: String,
}

impl Scratch {
    pub(super) fn new() -> anyhow::Result<Self> {
        Self::made().context("cannot make skills to test on in the folder for temporary files")
    }

    fn made() -> io::Result<Self> {
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
        scratch.huge()?;
        let skill = scratch.skills().join(SKILL);
        symlink(scratch.secret(), skill.join("link-out"))?;
        symlink("../../outside/secret.txt", skill.join("relative-link-out"))?;
        symlink("../../outside", skill.join("folder-out"))?;
        symlink("loop", skill.join("loop"))?;
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, skill.join("fifo"), FileType::Fifo, mode, 0)?;
        Ok(scratch)
    }

    /// The folder of the skills.
    pub(super) fn skills(&self) -> PathBuf {
        self.base.path().join("skills")
    }

    /// A file that no call may see.
    pub(super) fn secret(&self) -> PathBuf {
        self.base.path().join("outside/secret.txt")
    }

    /// Whether a text holds what no call may see.
    pub(super) fn is_seen_in(&self, text: &str) -> bool {
        text.contains(&self.canary)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> io::Result<()> {
        let path = self.base.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        fs::write(path, content)
    }

    fn huge(&self) -> io::Result<()> {
        let folder = self.skills().join(HUGE);
        fs::create_dir(&folder)?;
        let line = b"This line stands here again and again, until the file is huge.\n";
        let mut file = BufWriter::new(File::create(folder.join(FILE))?);
        for _ in 0..HUGE_BYTES / line.len() {
            file.write_all(line)?;
        }
        file.flush()
    }
}
