//! The reason why something is not read, in a word for the host.

use alloc::format;

use skillhost_guest::{Failure, FailureKind, PathError, ReadError};

skillhost_guest::record! {
    struct Reason {
        reason: &'static str,
    }
}

/// The word for an error. The host reads it; it is no text for people.
pub(crate) fn word(error: ReadError) -> &'static str {
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

/// The failure for an error.
pub(crate) fn failure(error: ReadError) -> Failure {
    Failure::from(error).with(&Reason {
        reason: word(error),
    })
}

/// The failure of a call that asks for the entries of a file.
pub(crate) fn not_a_directory() -> Failure {
    let failure = Failure::new(FailureKind::InvalidArguments, "is not a directory");
    failure.with(&Reason {
        reason: "not-a-directory",
    })
}

/// The failure of a listing that is longer than it may be.
pub(crate) fn too_many(most: usize) -> Failure {
    let message = format!("has more than {most} entries");
    Failure::unreadable(message).with(&Reason {
        reason: "too-many-entries",
    })
}

/// The failure for a path that no file of a skill can have.
pub(crate) fn refused_path(error: PathError) -> Failure {
    Failure::from(error).with(&Reason { reason: "outside" })
}
