//! Skills' files as resources: one file's bytes, one folder's entries, or all
//! files with sizes and digests. Each is a call in a sandbox of its own, with
//! the limits, the guard, the grant and the record that a tool's call has.
//!
//! Lives here: the API. `resources/answer.rs` reads what the guest answers. Not
//! here: addresses, pages and protocols, which are `server`'s.

mod answer;

use serde_json::{Value, json};

use crate::host::Host;
use skillhost_sandbox::tool::{CallError, Caller, Failure, Output, Stop};
use skillhost_skills::catalog::Freshness;

/// A reader of skills' files; see [`Host::skill_resources`]. It is cheap to clone.
#[derive(Clone)]
pub struct SkillResources {
    host: Host,
    max_bytes: usize,
    caller: Caller,
}

/// The contents of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// UTF-8, with every byte in its place: a byte order mark too.
    Text(String),
    /// Anything else.
    Binary(Vec<u8>),
}

/// A folder of a skill, and not what is below it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Directory {
    /// The entries that can be read, sorted by name.
    pub entries: Vec<DirectoryEntry>,
    /// Of the skill's own folder, the start of its `SKILL.md`, as in
    /// [`SkillFiles`].
    pub skill_md: Option<String>,
    /// The number of names that are left out: they lead to what cannot be read, or
    /// nobody can ask for the name.
    pub left_out: u64,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// Its name: not empty, no separator, no control character.
    pub name: String,
    /// The kind of what it leads to.
    pub kind: EntryKind,
}

/// The kind of what an entry of a folder leads to. A symlink counts as that.
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

/// All files of a skill, wherever in its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillFiles {
    /// The files, sorted by path, byte by byte. If the skill is over a limit, those
    /// that were found, and of a manifest its SKILL.md alone.
    pub files: Vec<SkillFile>,
    /// The start of `SKILL.md`, 65 KiB of it at most; none where there is no
    /// file of this very name, or where it is not UTF-8.
    pub skill_md: Option<String>,
    /// What else lies in the folder. The first 32.
    pub left_out: Vec<LeftOut>,
    /// The number of things that were left out, named or not.
    pub left_out_count: u64,
    /// The limit that the skill is over.
    pub over: Option<OverLimit>,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillFile {
    /// Its path in the skill's folder, with `/` between the names.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// SHA-256 of its bytes, in hex. In a manifest, every file has it.
    pub sha256: Option<String>,
}

/// Something that lies in a skill's folder and is no file of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The path. For a name that is not UTF-8, the folder that it is in.
    pub path: String,
    /// The reason, in a word: `outside`, `not-regular`, `hard-linked`, `symlink-loop` …
    pub reason: String,
}

/// A limit that a whole skill can be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverLimit {
    /// More than 512 files, the skills extension's limit. Checked for a manifest only.
    #[error("it has more than 512 files")]
    Files,
    /// More than 16 MiB, the skills extension's limit. Checked for a manifest only.
    #[error("its files are larger than 16 MiB together")]
    Bytes,
    /// More than 16,384 names, whatever they lead to, or 4 MiB of paths.
    #[error("it has more than 16384 files, folders and other things, or too long paths")]
    Entries,
    /// More than 32 folders in each other.
    #[error("it has more than 32 folders in each other")]
    Depth,
}

/// The reasons why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// No skill has this name.
    #[error("there is no such skill")]
    UnknownSkill,
    /// The grant of [`SKILL_RESOURCES`](crate::SKILL_RESOURCES) does not name
    /// the skill, if there is one.
    #[error("the skill may not be read")]
    NotGranted,
    /// Nothing has this path.
    #[error("there is no such file")]
    NotFound,
    /// The path leads out of the skill's folder, or no file of a skill can have it.
    #[error("the path leads outside the skill")]
    Outside,
    /// It is a folder, and a file was asked for.
    #[error("it is a directory")]
    IsDirectory,
    /// It is a file, and a folder was asked for.
    #[error("it is not a directory")]
    NotADirectory,
    /// It is there and cannot be read: neither file nor folder, several hard
    /// links, another mount, not permitted. The text says which.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It is larger than the limit on answers, in bytes.
    #[error("it is larger than {0} bytes")]
    TooLarge(usize),
    /// The host ended the call, or did not start it.
    #[error("reading was stopped: {0}")]
    Stopped(Stop),
}

impl Host {
    /// Returns the reader of skills' files; none if the operator switched it off,
    /// under the name [`SKILL_RESOURCES`](crate::SKILL_RESOURCES).
    pub fn skill_resources(&self) -> Option<SkillResources> {
        Some(SkillResources {
            max_bytes: self.resource_bytes()?,
            host: self.clone(),
            caller: Caller::default(),
        })
    }
}

impl SkillResources {
    /// Sets the caller, whom the audit log names for what is read.
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

    /// Returns some of [`Self::skills`]: at most this many, from the first that is not
    /// before `from`. The first part of a listing has the names as they are now, and a
    /// further one those of at most a second ago.
    pub fn skills_from(&self, from: &str, most: usize) -> Vec<String> {
        let freshness = match from {
            "" => Freshness::Now,
            _ => Freshness::Recent,
        };
        let names = self.host.catalog().shared_names(freshness);
        let start = names.partition_point(|name| name.as_str() < from);
        let granted = names[start..].iter();
        let granted = granted.filter(|name| self.host.resources_allow(name));
        granted.take(most).cloned().collect()
    }

    /// Returns the number of files or skills that can be read at a time.
    pub fn places(&self) -> usize {
        self.host.calls_per_tool()
    }

    /// Returns the bytes of a file. Their limit is that on answers.
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

    /// Returns the entries of a folder: the skill's own, or one in it.
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

    /// Returns all files of a skill without digests. Reads no file but SKILL.md.
    pub async fn files(&self, skill: &str) -> Result<SkillFiles, ResourceError> {
        let arguments = json!({"skill_name": skill, "operation": "files"});
        answer::files(self.call(arguments).await?, answer::Digests::Left)
    }

    /// Returns all files of a skill with digests. Reads every file as it is now.
    pub async fn manifest(&self, skill: &str) -> Result<SkillFiles, ResourceError> {
        let arguments = json!({"skill_name": skill, "operation": "manifest"});
        answer::files(self.call(arguments).await?, answer::Digests::Taken)
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
            // The host's own arguments, to a tool of its own.
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

    /// Checks that the file is empty.
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
