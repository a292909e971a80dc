//! Checking a skill where it lies: its SKILL.md, and whether the files that
//! the body refers to are there. All of it is looked at through the folder's
//! handle and the guard: the skill may be a stranger's.

use std::io::{self, Read as _};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::{Finding, check, missing_reference, references};
use crate::skill::frontmatter;
use crate::skill::guard::{Folder, HardLinks};
use crate::skill::skill_md;

/// Largest SKILL.md that is checked; the tools' own limit is less.
const MAX_BYTES: u64 = 16 << 20;

/// Checks the skill in a folder. The error says why it cannot be looked at.
pub fn check_folder(path: &Path) -> io::Result<Vec<Finding>> {
    let folder = Dir::open_ambient_dir(path, ambient_authority())?;
    let folder = Folder::new(folder.into_std_file().into(), HardLinks::Allowed)?;
    // `.` has a name too.
    let real = std::fs::canonicalize(path)?;
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    check_open(&name, &folder)
}

/// Checks the skill of this name in an open folder.
pub(crate) fn check_open(name: &str, folder: &Folder) -> io::Result<Vec<Finding>> {
    let Some((file_name, file)) = skill_md::open(folder)? else {
        let message = "there is no `SKILL.md`".to_owned();
        return Ok(vec![Finding::error("file-missing", None, message)]);
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("`{file_name}` is larger than {MAX_BYTES} bytes");
        return Ok(vec![Finding::error("file-size", None, message)]);
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
            let message = format!("`{file_name}` is not valid UTF-8");
            let line = u32::try_from(line).ok();
            return Ok(vec![Finding::error("file-encoding", line, message)]);
        }
    };
    let mut findings = check(name, &file_name, &text);
    let split = frontmatter::split(&text);
    findings.extend(
        references(split.body, split.body_line)
            .filter(|reference| folder.look(Path::new(&*reference.path), true).is_err())
            .map(|reference| missing_reference(reference.line, &reference.path)),
    );
    findings.sort_by_key(|finding| finding.line);
    Ok(findings)
}
