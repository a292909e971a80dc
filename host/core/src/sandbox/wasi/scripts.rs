//! `skillhost:tool/scripts`: a script of the call's skill, as it is on disk, for a
//! component whose grant allows its path; and the note of it for the audit log.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use wasmtime::component::{ComponentType, Lower};
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode as Code;

use super::ImportState;
use super::answer::{read, reason_of_code};
use super::filesystem::{error_code, valid_path};
use crate::sandbox::open_file::OpenFile;
use crate::skill::guard::{Folder, PathTarget};
use crate::tool::grant::Scripts;
use crate::tool::limits::SCRIPT_BYTES;
use crate::tool::script::ScriptLog;

/// The scripts of a skill that a call may start, and the place to note the one that
/// it does start.
pub(crate) struct ScriptGate {
    pub(crate) allowed: Scripts,
    pub(crate) log: ScriptLog,
}

/// The reason why a script cannot be started, as `wit/` defines it.
#[derive(ComponentType, Lower, Debug, Clone, Copy, PartialEq, Eq)]
#[component(enum)]
#[repr(u8)]
pub(crate) enum ScriptRefusal {
    #[component(name = "not-granted")]
    NotGranted,
    #[component(name = "already-started")]
    AlreadyStarted,
    #[component(name = "not-found")]
    NotFound,
    #[component(name = "outside")]
    Outside,
    #[component(name = "not-a-file")]
    NotAFile,
    #[component(name = "hard-linked")]
    HardLinked,
    #[component(name = "other-mount")]
    OtherMount,
    #[component(name = "permission-denied")]
    PermissionDenied,
    #[component(name = "symlink-loop")]
    SymlinkLoop,
    #[component(name = "name-too-long")]
    NameTooLong,
    #[component(name = "too-large")]
    TooLarge,
    #[component(name = "unreadable")]
    Unreadable,
}

impl ImportState {
    /// Returns the bytes of a script of the skill, from the disk, and notes that the
    /// call runs it.
    pub(crate) fn start_script(&mut self, path: &str) -> Result<Vec<u8>, ScriptRefusal> {
        // Resolved as text, so that what is judged is what is opened.
        let path = path_inside(path)?;
        let gate = self.scripts.as_ref();
        let gate = gate.filter(|gate| gate.allowed.allow(&path));
        let log = gate.ok_or(ScriptRefusal::NotGranted)?.log.clone();
        if log.is_started() {
            return Err(ScriptRefusal::AlreadyStarted);
        }
        let (folder, _) = self.preopen.as_ref().ok_or(ScriptRefusal::NotFound)?;
        let found = folder.lookup(Path::new(&path), true).map_err(error_code)?;
        let PathTarget::File(seen) = found else {
            return Err(ScriptRefusal::NotAFile);
        };
        let size = seen.size;
        if size > SCRIPT_BYTES {
            return Err(ScriptRefusal::TooLarge);
        }
        let _permit = self.permit()?;
        let file = seen.open().map_err(error_code)?;
        let bytes = read(file, size, SCRIPT_BYTES).map_err(error_code)?;
        if bytes.len() as u64 > SCRIPT_BYTES {
            return Err(ScriptRefusal::TooLarge);
        }
        log.start(&path, &bytes);
        Ok(bytes)
    }

    /// Notes the exit code of the script that was started.
    pub(crate) fn finish_script(&mut self, exit_code: i32) {
        if let Some(gate) = &self.scripts {
            gate.log.finish(exit_code);
        }
    }

    /// Notes a file of the disk that the guest opens, if it may be a module of the script
    /// that runs. One that is larger than a script may be, or one too many, cannot be
    /// opened. `path` finds its path without symlinks.
    pub(super) fn note_module(
        &self,
        asked: &str,
        file: &OpenFile,
        path: impl FnOnce(&Folder) -> Option<PathBuf>,
    ) -> Result<(), Code> {
        let (Some(gate), Some((root, _))) = (&self.scripts, &self.preopen) else {
            return Ok(());
        };
        if !gate.log.is_started() {
            return Ok(());
        }
        let (asked, path) = (Path::new(asked), path(root));
        let path = path.as_deref().unwrap_or(asked);
        // A symlink may have the extension, or the file that it leads to.
        if ![asked, path]
            .iter()
            .any(|path| gate.log.may_be_module(path))
        {
            return Ok(());
        }
        let (bytes, _) = file.read_at(SCRIPT_BYTES + 1, 0)?;
        if bytes.len() as u64 > SCRIPT_BYTES {
            return Err(Code::FileTooLarge);
        }
        match gate.log.add_module(path.as_os_str().as_bytes(), &bytes) {
            true => Ok(()),
            false => Err(Code::InsufficientMemory),
        }
    }
}

/// Returns a path in the skill without its steps `.` and `..`, as text.
fn path_inside(path: &str) -> Result<String, ScriptRefusal> {
    if valid_path(path)?.has_root() {
        return Err(ScriptRefusal::Outside);
    }
    let mut steps = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop().ok_or(ScriptRefusal::Outside)?;
            }
            step => steps.push(step),
        }
    }
    Ok(steps.join("/"))
}

reason_of_code!(ScriptRefusal, directory: NotAFile, not_regular: NotAFile);
