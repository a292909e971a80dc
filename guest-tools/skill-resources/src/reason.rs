//! The reasons why a file or folder cannot be read, as codes for the host.

use alloc::format;

use skillhost_guest::{Failure, FailureKind, PathError, ReadError};

skillhost_guest::record! {
    struct Reason {
        reason: &'static str,
    }
}

/// Returns the code of an error. Only the host reads it.
pub(crate) fn code(error: ReadError) -> &'static str {
    match error {
        ReadError::NotFound => "not-found",
        ReadError::Outside => "outside",
        ReadError::IsDirectory => "is-directory",
        ReadError::NotRegular => "not-regular",
        ReadError::HardLinked => "hard-linked",
        ReadError::OtherMount => "other-mount",
        ReadError::PermissionDenied => "permission-denied",
        ReadError::SymlinkLoop => "symlink-loop",
        ReadError::NameTooLong => "name-too-long",
        ReadError::TooLarge(_) => "too-large",
        ReadError::NotUtf8 | ReadError::Other(_) => "unreadable",
    }
}

/// Returns the failure for an error.
pub(crate) fn failure(error: ReadError) -> Failure {
    Failure::from(error).with(&Reason {
        reason: code(error),
    })
}

/// Returns the failure of a call that lists a file instead of a folder.
pub(crate) fn not_a_directory() -> Failure {
    let failure = Failure::new(FailureKind::InvalidArguments, "is not a directory");
    failure.with(&Reason {
        reason: "not-a-directory",
    })
}

/// Returns the failure for a folder with too many entries.
pub(crate) fn too_many(max: usize) -> Failure {
    let message = format!("has more than {max} entries");
    Failure::unreadable(message).with(&Reason {
        reason: "too-many-entries",
    })
}

/// Returns the failure for an invalid path.
pub(crate) fn refused_path(error: PathError) -> Failure {
    Failure::from(error).with(&Reason { reason: "outside" })
}
