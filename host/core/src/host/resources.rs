//! Skills' files as resources: the bytes of a file, the entries of a folder, or all files
//! with sizes and digests. Each request runs in a fresh sandbox like a tool call: with the same
//! limits, guard, grant and audit record.
//!
//! This file has the API. `resources/answer.rs` parses the guest's answers. URIs, pages and
//! protocols are in the crates `skillhost-mcp` and `skillhost-server`.

mod answer;

use std::io::Read as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::host::Host;
use skillhost_sandbox::granted_skills::opaque_cursor;
use skillhost_sandbox::tool::{CallError, Caller, Failure, Output, Stop};
use skillhost_skills::catalog::Freshness;
use skillhost_skills::guard::Folder;
use skillhost_skills::skill_md;

/// The maximum number of bytes that [`SkillResources::peek_skill_md`] reads. The guest
/// `skill-resources` has the same maximum.
const START_BYTES: u64 = 65 << 10;

/// A reader of skills' files; see [`Host::skill_resources`]. Clones are cheap.
#[derive(Clone)]
pub struct SkillResources {
    host: Host,
    max_bytes: usize,
    caller: Caller,
}

/// The contents of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// UTF-8 text, unchanged, including a byte order mark.
    Text(String),
    /// Bytes that are not UTF-8.
    Binary(Vec<u8>),
}

/// A folder of a skill, without its subfolders' entries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Directory {
    /// The readable entries, sorted by name.
    pub entries: Vec<DirectoryEntry>,
    /// The beginning of `SKILL.md`, as in [`SkillFiles`]. `None` for subfolders.
    pub skill_md: Option<String>,
    /// The number of entries that are not in `entries`: they cannot be read, or have a name that is
    /// not UTF-8 or has a separator or control character.
    pub left_out: u64,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// The name. It is not empty, and has no separator and no control character.
    pub name: String,
    /// The kind of the entry, or of a symlink's target.
    pub kind: EntryKind,
}

/// The kind of a folder's entry. A symlink has the kind of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File {
        /// Its size in bytes.
        size: u64,
    },
    /// A folder.
    Directory,
}

/// All files of a skill, including those in subfolders.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillFiles {
    /// The files, sorted by the bytes of their paths.
    ///
    /// If the skill exceeds a limit, [`SkillResources::files`] returns only the files that were
    /// found before the limit, and [`SkillResources::manifest`] returns only SKILL.md.
    pub files: Vec<SkillFile>,
    /// The beginning of `SKILL.md`, at most 65 KiB. `None` if there is no such file, or if the file
    /// is not UTF-8. If the file's name is in another case, such as `skill.md`, `files` has it as
    /// `SKILL.md`.
    pub skill_md: Option<String>,
    /// The first 32 entries that are not files of the skill, for example because they cannot be
    /// read.
    pub left_out: Vec<LeftOut>,
    /// The number of all entries that are not files of the skill.
    pub left_out_count: u64,
    /// The limit that the skill exceeds. `None` if it exceeds none.
    pub over: Option<OverLimit>,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillFile {
    /// The path in the skill's folder, separated by `/`.
    pub path: String,
    /// The file's size in bytes.
    pub size: u64,
    /// The SHA-256 of the file's bytes, in hex. `None` in the result of [`SkillResources::files`].
    pub sha256: Option<String>,
}

/// An entry in a skill's folder that is not one of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The path of the entry, or of its parent folder if the entry's name is not UTF-8.
    pub path: String,
    /// The reason as a keyword, such as `outside`, `not-regular`, `hard-linked` or
    /// `symlink-loop`.
    pub reason: String,
}

/// A limit that a skill as a whole can exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverLimit {
    /// More than 512 files, the limit of MCP's skills extension. Only a manifest is checked.
    #[error("it has more than 512 files")]
    Files,
    /// More than 16 MiB in all files, the limit of MCP's skills extension. Only a manifest is
    /// checked.
    #[error("its files have more than 16 MiB in total")]
    Bytes,
    /// More than 16,384 files, folders and other entries, or more than 4 MiB in all their paths.
    #[error("it has more than 16384 entries, or their paths have more than 4 MiB in total")]
    Entries,
    /// Folders that are nested more than 32 deep.
    #[error("its folders are nested more than 32 deep")]
    Depth,
}

/// The error of a request for resources.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// There is no skill of this name.
    #[error("there is no such skill")]
    UnknownSkill,
    /// The grant of [`SKILL_RESOURCES`](crate::SKILL_RESOURCES) does not include the skill,
    /// whether it exists or not.
    #[error("the skill may not be read")]
    NotGranted,
    /// The path does not exist.
    #[error("there is no such file")]
    NotFound,
    /// The path leads out of the skill's folder, or is invalid.
    #[error("the path leads outside the skill")]
    Outside,
    /// The path is a folder, and the request was for a file.
    #[error("the path is a directory")]
    IsDirectory,
    /// The path is a file, and the request was for a folder.
    #[error("the path is not a directory")]
    NotADirectory,
    /// The path exists but cannot be read: it is neither a file nor a folder, has several hard
    /// links, or is on another mount, or the host has no permission to read it. The text says
    /// which.
    #[error("the file or folder cannot be read: {0}")]
    Unreadable(String),
    /// The file is larger than the limit on answers. The number is this limit, in bytes.
    #[error("the file is larger than {0} bytes")]
    TooLarge(usize),
    /// The host stopped the call, or did not start it.
    #[error("reading was stopped: {0}")]
    Stopped(Stop),
}

impl Host {
    /// Returns the reader of skills' files. Returns `None` if the operator disabled
    /// [`SKILL_RESOURCES`](crate::SKILL_RESOURCES).
    pub fn skill_resources(&self) -> Option<SkillResources> {
        Some(SkillResources {
            max_bytes: self.resource_bytes()?,
            host: self.clone(),
            caller: Caller::default(),
        })
    }
}

impl SkillResources {
    /// Sets the caller for the audit log.
    #[must_use]
    pub fn with_caller(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    /// Returns the names of the skills that may be read, sorted.
    pub fn skills(&self) -> Vec<String> {
        let mut names = self.host.catalog().names();
        names.retain(|name| self.host.resources_allow(name));
        names
    }

    /// Returns a page of [`Self::skills`]: at most `max` names, starting at `from`, which is a name
    /// or an [`opaque_cursor`].
    ///
    /// The first page, with an empty `from`, reads the folders of skills again. Later pages may use
    /// names that are up to a second old. Returns `None` if `from` is a cursor that belongs to no
    /// skill.
    pub fn skills_from(&self, from: &str, max: usize) -> Option<Vec<String>> {
        let freshness = match from {
            "" => Freshness::Now,
            _ => Freshness::Recent,
        };
        let names = self.host.catalog().shared_names(freshness);
        let is_granted = |name: &&String| self.host.resources_allow(name);
        let start = if from.starts_with('.') {
            let mut names = names.iter();
            names.position(|name| opaque_cursor(name) == from && is_granted(&name))?
        } else {
            names.partition_point(|name| name.as_str() < from)
        };
        let granted = names[start..].iter().filter(is_granted);
        Some(granted.take(max).cloned().collect())
    }

    /// Reads the beginning of a skill's SKILL.md without a call, to decide which call to make.
    ///
    /// Callers must not see the text, because no audit record says that it was read.
    pub fn peek_skill_md(&self, skill: &str) -> Option<String> {
        let (_, file) = skill_md::open(&self.open_unrecorded(skill)?).ok()??;
        let mut start = Vec::new();
        file.take(START_BYTES).read_to_end(&mut start).ok()?;
        Some(String::from_utf8_lossy(&start).into_owned())
    }

    /// Checks without a call whether a skill's folder has an entry of this name, to decide which
    /// call to make.
    ///
    /// Callers must not see the result, because no audit record says that the folder was read.
    pub fn peek_entry(&self, skill: &str, name: &str) -> bool {
        let folder = self.open_unrecorded(skill);
        folder.is_some_and(|folder| folder.status_at(Path::new(name), false).is_ok())
    }

    /// Opens a skill's folder without a call, if the grant allows the skill.
    fn open_unrecorded(&self, skill: &str) -> Option<Folder> {
        let reader = self.host.resource_reader();
        let reader = reader.filter(|_| self.host.resources_allow(skill))?;
        let catalog = self.host.catalog();
        let open = catalog.skill(skill, reader.tool.terms.hard_links);
        open.ok().map(|open| open.folder)
    }

    /// Returns the maximum number of requests that run at a time.
    pub fn slots(&self) -> usize {
        self.host.calls_per_tool()
    }

    /// Returns the contents of a file. Fails if the file is larger than the limit on answers.
    pub async fn read(&self, skill: &str, path: &str) -> Result<Contents, ResourceError> {
        let arguments = json!({
            "skill_name": skill, "operation": "file", "path": path, "max_bytes": self.max_bytes,
        });
        let contents = answer::contents(self.call(arguments).await?)?;
        if contents.len() > self.max_bytes {
            return Err(ResourceError::TooLarge(self.max_bytes));
        }
        Ok(contents)
    }

    /// Returns the entries of the skill's folder, or of the folder at `path` in it.
    pub async fn directory(
        &self,
        skill: &str,
        path: Option<&str>,
    ) -> Result<Directory, ResourceError> {
        let mut arguments = json!({"skill_name": skill, "operation": "directory"});
        if let Some(path) = path {
            arguments["path"] = path.into();
        }
        answer::directory(self.call(arguments).await?)
    }

    /// Returns all files of a skill without digests. Reads only SKILL.md.
    pub async fn files(&self, skill: &str) -> Result<SkillFiles, ResourceError> {
        let arguments = json!({"skill_name": skill, "operation": "files"});
        answer::files(self.call(arguments).await?, answer::Digests::Omitted)
    }

    /// Returns all files of a skill with digests. Reads every file.
    pub async fn manifest(&self, skill: &str) -> Result<SkillFiles, ResourceError> {
        let arguments = json!({"skill_name": skill, "operation": "manifest"});
        answer::files(self.call(arguments).await?, answer::Digests::Computed)
    }

    async fn call(&self, arguments: Value) -> Result<Output, ResourceError> {
        let called = self.host.call_resources(&self.caller, arguments);
        called.await.map_err(|error| self.error(error))
    }

    fn error(&self, error: CallError) -> ResourceError {
        match error {
            CallError::Failed(failure) if failure.unknown_skill.is_some() => {
                ResourceError::UnknownSkill
            }
            CallError::Failed(failure) => self.failure(&failure),
            CallError::Stopped {
                stop: Stop::NotGranted { .. },
                ..
            } => ResourceError::NotGranted,
            CallError::Stopped { stop, .. } => ResourceError::Stopped(stop),
            // The arguments come from the host, so they match the schema.
            error => ResourceError::Stopped(Stop::Trap(error.to_string())),
        }
    }

    fn failure(&self, failure: &Failure) -> ResourceError {
        match answer::reason(failure).as_deref() {
            Some("not-found") => ResourceError::NotFound,
            Some("outside") => ResourceError::Outside,
            Some("is-directory") => ResourceError::IsDirectory,
            Some("not-a-directory") => ResourceError::NotADirectory,
            Some("too-large") => ResourceError::TooLarge(self.max_bytes),
            _ => ResourceError::Unreadable(failure.message.clone()),
        }
    }
}

impl Contents {
    /// Returns the number of bytes of the file.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
        }
    }

    /// Returns whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the file's bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}
