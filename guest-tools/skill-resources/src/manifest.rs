//! All files of a skill, with the start of its SKILL.md. The digest of SKILL.md
//! and its start are of the same bytes, so that they cannot contradict each
//! other while the file changes.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use sha2::{Digest as _, Sha256};
use skillhost_guest::{Failure, File, Folder, Output, ReadError, SkillPath};

use crate::file;
use crate::reason;
use crate::walk::{LeftOut, MOST_BYTES, MOST_FILES, Walk};

/// The choice to read every file for its digest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Digests {
    Left,
    Taken,
}

skillhost_guest::record! {
    struct Manifest {
        files: Vec<Listed>,
        /// True if there is a SKILL.md, and it is UTF-8.
        skill_md: bool,
        left_out: Vec<LeftOut>,
        left_out_count: u64,
        /// The limit that the skill is over. The files of a manifest are then SKILL.md
    /// alone; without digests, those that were found.
        over: Option<&'static str>,
    }
}

skillhost_guest::record! {
    struct Listed {
        path: String,
        size: u64,
        sha256: Option<String>,
    }
}

/// The file that makes a folder a skill, as the skills extension spells it. Without this
/// file, one with another spelling is served under this name.
const SKILL_MD: &str = "SKILL.md";

/// Bytes of SKILL.md that are handed over: the host reads no more frontmatter.
const START_BYTES: usize = 65 << 10;

pub(crate) fn answer(folder: &Folder, digests: Digests) -> Result<Output, Failure> {
    let most = match digests {
        Digests::Left => usize::MAX,
        Digests::Taken => MOST_FILES,
    };
    let mut walk = Walk::through(folder, most);
    if digests == Digests::Taken && walk.over.is_none() && walk.too_large() {
        walk.over = Some("bytes");
    }
    let found = core::mem::take(&mut walk.files).into_iter();
    let mut files: Vec<(String, u64)> = found.map(|file| (file.path, file.size)).collect();
    spell_skill_md(&mut files);
    if walk.over.is_some() {
        if digests == Digests::Taken {
            files.clear();
        }
        if let Err(place) = files.binary_search_by(|(path, _)| path.as_str().cmp(SKILL_MD)) {
            files.insert(place, (SKILL_MD.to_owned(), 0));
        }
    }
    let mut start = None;
    let mut listed: Vec<Listed> = Vec::new();
    let mut bytes = 0;
    for (path, size) in files {
        let read = if path == SKILL_MD {
            skill_md(folder, digests).map(|(file, text)| {
                start = text;
                file
            })
        } else if digests == Digests::Taken {
            digest(folder, path.clone())
        } else {
            Ok(Listed {
                path: path.clone(),
                size,
                sha256: None,
            })
        };
        match read {
            Ok(file) => {
                // A file that grew since it was looked at.
                bytes += file.size;
                if digests == Digests::Taken && bytes > MOST_BYTES {
                    walk.over = Some("bytes");
                    listed.retain(|file| file.path == SKILL_MD);
                    break;
                }
                listed.push(file);
            }
            // It went, or was never there.
            Err(ReadError::NotFound) => {}
            Err(error) => walk.leave_out(path, reason::word(error)),
        }
    }
    let manifest = Manifest {
        files: listed,
        skill_md: start.is_some(),
        left_out: walk.left_out,
        left_out_count: walk.left_out_count,
        over: walk.over,
    };
    Ok(Output::text(start.unwrap_or_default()).with(&manifest))
}

/// Gives the skill's documentation the extension's name, if it has another spelling. Names
/// are sorted, before and after.
pub(crate) fn spell_skill_md<T>(names: &mut Vec<(String, T)>) {
    if names.iter().any(|(name, _)| name == SKILL_MD) {
        return;
    }
    let other = |(name, _): &(String, T)| name.eq_ignore_ascii_case(SKILL_MD);
    if let Some(place) = names.iter().position(other) {
        let (_, found) = names.remove(place);
        let place = names.partition_point(|(name, _)| name.as_str() < SKILL_MD);
        names.insert(place, (SKILL_MD.to_owned(), found));
    }
}

/// The start of SKILL.md, if there is one and it is text.
pub(crate) fn start_of_skill_md(folder: &Folder) -> Option<String> {
    skill_md(folder, Digests::Left)
        .ok()
        .and_then(|(_, start)| start)
}

/// SKILL.md, and its start if it is text.
fn skill_md(folder: &Folder, digests: Digests) -> Result<(Listed, Option<String>), ReadError> {
    let opened = folder.open_skill_md()?;
    let path = SKILL_MD.to_owned();
    if digests == Digests::Left {
        let size = opened.size()?;
        let (bytes, _) = opened.read_at(0, START_BYTES as u64)?;
        let sha256 = None;
        return Ok((
            Listed { path, size, sha256 },
            start_of(&bytes, bytes.len() < START_BYTES),
        ));
    }
    let bytes = file::read(&opened, MOST_BYTES)?;
    let start = core::str::from_utf8(&bytes).ok().and_then(|_| {
        let start = &bytes[..bytes.len().min(START_BYTES)];
        start_of(start, start.len() == bytes.len())
    });
    let listed = Listed {
        path,
        size: bytes.len() as u64,
        sha256: Some(hex(Sha256::digest(&bytes).as_ref())),
    };
    Ok((listed, start))
}

/// The start of a text. Where it was cut, half a character may be at its end.
fn start_of(bytes: &[u8], whole: bool) -> Option<String> {
    match core::str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(error) if !whole && error.error_len().is_none() => {
            core::str::from_utf8(&bytes[..error.valid_up_to()])
                .ok()
                .map(str::to_owned)
        }
        Err(_) => None,
    }
}

fn digest(folder: &Folder, path: String) -> Result<Listed, ReadError> {
    let opened = open(folder, &path)?;
    opened.size()?;
    let mut hash = Sha256::new();
    let mut size = 0;
    file::chunks(&opened, |chunk| {
        size += chunk.len() as u64;
        hash.update(chunk);
        // Meets: a file that grows faster than it is read.
        if size > MOST_BYTES {
            return Err(ReadError::TooLarge(MOST_BYTES));
        }
        Ok(())
    })?;
    Ok(Listed {
        path,
        size,
        sha256: Some(hex(hash.finalize().as_ref())),
    })
}

fn open(folder: &Folder, path: &str) -> Result<File, ReadError> {
    // The walk has found it, so the path is one.
    let path = SkillPath::new(path).map_err(|_| ReadError::Outside)?;
    folder.open(&path)
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}
