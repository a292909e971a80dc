//! Lists all files of a skill, with the start of its SKILL.md. Takes the digest of SKILL.md
//! and its start from one read, so that they match even if the file changes.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use sha2::{Digest as _, Sha256};
use skillhost_guest::{Failure, File, Folder, Output, ReadError, SkillPath};

use crate::file;
use crate::reason;
use crate::walk::{LeftOut, MAX_FILES, MAX_SKILL_BYTES, Walk};

/// The choice to read every file and compute its digest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Digests {
    Skip,
    Compute,
}

skillhost_guest::record! {
    struct Manifest {
        files: Vec<ListedFile>,
        /// True if there is a SKILL.md, and it is UTF-8.
        skill_md: bool,
        left_out: Vec<LeftOut>,
        left_out_count: u64,
        /// The limit that the skill exceeds. With digests, `files` then has only SKILL.md;
        /// without, it has the files up to the limit.
        over: Option<&'static str>,
    }
}

skillhost_guest::record! {
    struct ListedFile {
        path: String,
        size: u64,
        sha256: Option<String>,
    }
}

/// The name of a skill's documentation in the skills extension. If no file has this spelling, a
/// file with another spelling is listed under this name.
const SKILL_MD: &str = "SKILL.md";

/// The maximum number of bytes of SKILL.md in the answer. The host reads no more frontmatter.
const MAX_START_BYTES: usize = 65 << 10;

pub(crate) fn answer(folder: &Folder, digests: Digests) -> Result<Output, Failure> {
    let max_files = match digests {
        Digests::Skip => usize::MAX,
        Digests::Compute => MAX_FILES,
    };
    let mut walk = Walk::through(folder, max_files);
    if digests == Digests::Compute && walk.exceeded.is_none() && walk.is_too_large() {
        walk.exceeded = Some("bytes");
    }
    let found = core::mem::take(&mut walk.files).into_iter();
    let mut files: Vec<(String, u64)> = found.map(|file| (file.path, file.size)).collect();
    rename_skill_md(&mut files);
    if walk.exceeded.is_some() {
        if digests == Digests::Compute {
            files.clear();
        }
        if let Err(index) = files.binary_search_by(|(path, _)| path.as_str().cmp(SKILL_MD)) {
            files.insert(index, (SKILL_MD.to_owned(), 0));
        }
    }
    let mut start = None;
    let mut listed: Vec<ListedFile> = Vec::new();
    let mut bytes = 0;
    for (path, size) in files {
        let read = if path == SKILL_MD {
            skill_md(folder, digests).map(|(file, text)| {
                start = text;
                file
            })
        } else if digests == Digests::Compute {
            digest(folder, path.clone())
        } else {
            Ok(ListedFile {
                path: path.clone(),
                size,
                sha256: None,
            })
        };
        match read {
            Ok(file) => {
                // Check again: a file may have grown since the walk.
                bytes += file.size;
                if digests == Digests::Compute && bytes > MAX_SKILL_BYTES {
                    walk.exceeded = Some("bytes");
                    listed.retain(|file| file.path == SKILL_MD);
                    break;
                }
                listed.push(file);
            }
            // The file was removed since the walk, or the skill has no SKILL.md.
            Err(ReadError::NotFound) => {}
            Err(error) => walk.leave_out(path, reason::code(error)),
        }
    }
    let manifest = Manifest {
        files: listed,
        skill_md: start.is_some(),
        left_out: walk.left_out,
        left_out_count: walk.left_out_count,
        over: walk.exceeded,
    };
    Ok(Output::text(start.unwrap_or_default()).with(&manifest))
}

/// Renames the skill's documentation to `SKILL.md`, if it has another spelling. Keeps the
/// names sorted.
pub(crate) fn rename_skill_md<T>(names: &mut Vec<(String, T)>) {
    if names.iter().any(|(name, _)| name == SKILL_MD) {
        return;
    }
    let is_skill_md = |(name, _): &(String, T)| name.eq_ignore_ascii_case(SKILL_MD);
    if let Some(index) = names.iter().position(is_skill_md) {
        let (_, value) = names.remove(index);
        let index = names.partition_point(|(name, _)| name.as_str() < SKILL_MD);
        names.insert(index, (SKILL_MD.to_owned(), value));
    }
}

/// Returns the start of SKILL.md, if the file exists and is UTF-8.
pub(crate) fn start_of_skill_md(folder: &Folder) -> Option<String> {
    skill_md(folder, Digests::Skip)
        .ok()
        .and_then(|(_, start)| start)
}

/// Returns the record of SKILL.md, and the start of its text if it is UTF-8.
fn skill_md(folder: &Folder, digests: Digests) -> Result<(ListedFile, Option<String>), ReadError> {
    let opened = folder.open_skill_md()?;
    let path = SKILL_MD.to_owned();
    if digests == Digests::Skip {
        let size = opened.size()?;
        let (bytes, _) = opened.read_at(0, MAX_START_BYTES as u64)?;
        let sha256 = None;
        return Ok((
            ListedFile { path, size, sha256 },
            decode_start(&bytes, bytes.len() < MAX_START_BYTES),
        ));
    }
    let bytes = file::read(&opened, MAX_SKILL_BYTES)?;
    let start = core::str::from_utf8(&bytes).ok().and_then(|_| {
        let start = &bytes[..bytes.len().min(MAX_START_BYTES)];
        decode_start(start, start.len() == bytes.len())
    });
    let listed = ListedFile {
        path,
        size: bytes.len() as u64,
        sha256: Some(hex(Sha256::digest(&bytes).as_ref())),
    };
    Ok((listed, start))
}

/// Decodes the start of a UTF-8 file. Drops an incomplete character at the end, unless the
/// bytes are the whole file. Returns `None` for invalid bytes.
fn decode_start(bytes: &[u8], is_whole: bool) -> Option<String> {
    match core::str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(error) if !is_whole && error.error_len().is_none() => {
            core::str::from_utf8(&bytes[..error.valid_up_to()])
                .ok()
                .map(str::to_owned)
        }
        Err(_) => None,
    }
}

fn digest(folder: &Folder, path: String) -> Result<ListedFile, ReadError> {
    let opened = open(folder, &path)?;
    opened.size()?;
    let mut hash = Sha256::new();
    let mut size = 0;
    file::for_each_chunk(&opened, |chunk| {
        size += chunk.len() as u64;
        hash.update(chunk);
        // Guards against: a file that grows faster than it is read.
        if size > MAX_SKILL_BYTES {
            return Err(ReadError::TooLarge(MAX_SKILL_BYTES));
        }
        Ok(())
    })?;
    Ok(ListedFile {
        path,
        size,
        sha256: Some(hex(hash.finalize().as_ref())),
    })
}

fn open(folder: &Folder, path: &str) -> Result<File, ReadError> {
    // Cannot fail: the walk made the path.
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
