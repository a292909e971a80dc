//! The reasons why a file is not trusted, and the settings that make it trusted.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// An untrusted user can change a step of its path.
    #[error("{0}")]
    Changeable(ChangeableStep),
    /// A step of its path cannot be checked.
    #[error("cannot check `{}`: {cause}", path.display())]
    Unreadable {
        /// The step of the path.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
}

/// A step of a path that an untrusted user can change.
#[derive(Debug)]
pub struct ChangeableStep {
    pub(super) path: PathBuf,
    pub(super) mode: u32,
    pub(super) owner: String,
    pub(super) is_unmapped: bool,
    pub(super) writer: UntrustedWriter,
    /// True if no step remains. After a symlink, the steps of its target remain.
    pub(super) is_end: bool,
}

/// The untrusted users who can change a step.
#[derive(Debug)]
pub(super) enum UntrustedWriter {
    Owner,
    /// The members of this group.
    Group(String),
    /// The members of this group, which are unknown for this reason.
    UnknownMembers(String, String),
    /// The members of a group that the user namespace does not map.
    UnmappedGroup,
    /// The user who runs the FUSE file system, if the mount table names one.
    Fuse(Option<String>),
    /// A link of a process, such as `/proc/1/root`. It can lead to a file other than the one that
    /// its text names.
    Process,
    /// Users in an access control list.
    AccessList,
    Everyone,
}

impl TrustError {
    pub(super) fn unreadable(path: &Path, cause: io::Error) -> Self {
        Self::Unreadable {
            path: path.to_owned(),
            cause,
        }
    }
}

impl fmt::Display for ChangeableStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            mode,
            owner,
            is_unmapped,
            writer,
            is_end: _,
        } = self;
        let path = path.display();
        let step = format!("`{path}` (owner {owner}, mode {mode:04o})");
        match writer {
            UntrustedWriter::Owner if *is_unmapped => write!(
                f,
                "{step} belongs to a user that this process cannot name; `--trust everyone` \
                 trusts all users"
            ),
            UntrustedWriter::Owner => write!(
                f,
                "{step} belongs to another user; `--trust user:{owner}` trusts that user's files"
            ),
            UntrustedWriter::Group(group) => write!(
                f,
                "the group {group} can change {step}; `chmod g-w` forbids that, `--trust \
                 group:{group}` trusts the group"
            ),
            UntrustedWriter::UnknownMembers(group, reason) => write!(
                f,
                "the group {group} can change {step}, and its members are unknown: {reason}; \
                 `chmod g-w` forbids that, `--trust group:{group}` trusts the group"
            ),
            UntrustedWriter::UnmappedGroup => write!(
                f,
                "a group that this process cannot name can change {step}; `chmod g-w` forbids \
                 that, `--trust everyone` trusts all users"
            ),
            UntrustedWriter::Fuse(Some(user)) => write!(
                f,
                "{step} is in a FUSE file system of the user {user}, who can make up its owners \
                 and modes; `--trust user:{user}` trusts that user's files"
            ),
            UntrustedWriter::Fuse(None) => write!(
                f,
                "{step} is in a FUSE file system, and the mount table does not say who runs it; \
                 `--trust everyone` trusts all users"
            ),
            UntrustedWriter::Process => write!(
                f,
                "`{path}` is a symlink of a process and can lead to a file other than the one that \
                 its text names; name the file itself; `--trust everyone` trusts all users"
            ),
            UntrustedWriter::AccessList => write!(
                f,
                "users in the access control list of {step} can change it; `setfacl -b` removes \
                 the list, `--trust everyone` trusts all users"
            ),
            UntrustedWriter::Everyone => write!(
                f,
                "every user can change {step}; `chmod o-w` forbids that, `--trust everyone` \
                 trusts all users"
            ),
        }
    }
}
