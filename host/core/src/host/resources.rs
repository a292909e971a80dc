//! Skills' files as resources: the bytes of a file, the entries of a folder, or all files
//! with sizes and digests. Each request runs in a fresh sandbox, with limits, guard, grant
//! and audit record like a tool call.
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

/// The maximum number of bytes of SKILL.md that [`SkillResources::peek_skill_md`] reads. The
/// guest `skill-resources` has the same maximum.
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
    /// The start of `SKILL.md`, as in [`SkillFiles`]. Only set for the skill's own folder.
    pub skill_md: Option<String>,
    /// The number of omitted names: unreadable entries, and names that cannot be in a path.
    pub left_out: u64,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// The name. Not empty; contains no separator and no control character.
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
    /// If the skill exceeds a limit, [`SkillResources::files`] returns the files up to the limit,
    /// and [`SkillResources::manifest`] returns only SKILL.md.
    pub files: Vec<SkillFile>,
    /// The start of `SKILL.md`, at most 65 KiB. `None` if there is no such file, or if it is
    /// not UTF-8. A file of this name in another case is listed as `SKILL.md`.
    pub skill_md: Option<String>,
    /// The first 32 entries that are not files of the skill.
    pub left_out: Vec<LeftOut>,
    /// The number of all entries that are not files of the skill.
    pub left_out_count: u64,
    /// The limit that the skill exceeds.
    pub over: Option<OverLimit>,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillFile {
    /// The path in the skill's folder, separated by `/`.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// SHA-256 of its bytes, in hex. Set for every file of a manifest.
    pub sha256: Option<String>,
}

/// An entry in a skill's folder that is not one of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The path, or the parent folder if the name is not UTF-8.
    pub path: String,
    /// The reason as a keyword, such as `outside`, `not-regular`, `hard-linked` or
    /// `symlink-loop`.
    pub reason: String,
}

/// A limit that a skill as a whole can exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverLimit {
    /// More than 512 files, the skills extension's limit. Checked for a manifest only.
    #[error("it has more than 512 files")]
    Files,
    /// More than 16 MiB, the skills extension's limit. Checked for a manifest only.
    #[error("its files are larger than 16 MiB together")]
    Bytes,
    /// More than 16,384 names of any kind, or 4 MiB of paths.
    #[error("it has more than 16384 entries, or its paths are too long together")]
    Entries,
    /// More than 32 nested folders.
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
    #[error("it is a directory")]
    IsDirectory,
    /// The path is a file, and the request was for a folder.
    #[error("it is not a directory")]
    NotADirectory,
    /// The path exists but cannot be read: it is neither a file nor a folder, has several
    /// hard links, is on another mount, or is not permitted. The text says which.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// The file is larger than the limit on answers, in bytes.
    #[error("it is larger than {0} bytes")]
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
    /// The first page, with an empty `from`, reads the folders; later pages may be a second old.
    /// Returns `None` if no skill has this cursor.
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

    /// Reads the start of a skill's SKILL.md without a call, to decide which call to make.
    /// Must not be shown to a caller, because nothing records it.
    pub fn peek_skill_md(&self, skill: &str) -> Option<String> {
        let (_, file) = skill_md::open(&self.peek(skill)?).ok()??;
        let mut start = Vec::new();
        file.take(START_BYTES).read_to_end(&mut start).ok()?;
        Some(String::from_utf8_lossy(&start).into_owned())
    }

    /// Checks without a call whether a skill's folder has an entry of this name, to decide
    /// which call to make. Must not be shown to a caller, because nothing records it.
    pub fn peek_entry(&self, skill: &str, name: &str) -> bool {
        let folder = self.peek(skill);
        folder.is_some_and(|folder| folder.status_at(Path::new(name), false).is_ok())
    }

    fn peek(&self, skill: &str) -> Option<Folder> {
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

    /// Returns the bytes of a file, up to the limit on answers.
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

    /// Returns the entries of the skill's folder, or of a folder in it.
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
