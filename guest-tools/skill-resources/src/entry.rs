//! What a name in a folder leads to, or the word for the host why it is left
//! out. The SDK finds it out, for this and other tools alike.

use alloc::string::String;

use skillhost_guest::{Entry, Folder, NameError, PathError, SkillPath};

use crate::reason;

/// The reason why a name is left out, in a word for the host.
pub(crate) type Word = &'static str;

/// Opens what a path leads to.
pub(crate) fn open(folder: &Folder, path: &str) -> Result<Entry, Word> {
    let path = SkillPath::new(path).map_err(|error| match error {
        PathError::Empty | PathError::ControlCharacter => "name-control",
        PathError::Outside => "name-outside",
    })?;
    folder.entry(&path).map_err(reason::word)
}

/// The path of a name in the folder of this path, if others can name it.
pub(crate) fn join(folder: &str, name: &str) -> Result<String, Word> {
    skillhost_guest::child_path(folder, name).map_err(|error| match error {
        NameError::Backslash => "name-backslash",
        NameError::ControlCharacter => "name-control",
    })
}
