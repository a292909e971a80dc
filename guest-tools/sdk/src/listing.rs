//! What lies in a folder: names, and telling folders apart. What a name leads
//! to is found out by opening it, which is also how a reader would find out.

use alloc::string::String;

use wasip2::filesystem::types::{DirectoryEntryStream, ErrorCode};

use crate::{File, ReadError};

/// The names in a folder, in no order. See [`File::names`].
#[derive(Debug)]
pub struct Names {
    entries: DirectoryEntryStream,
    ended: bool,
}

/// Which folder or file it is: equal for two ways to the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity(u64, u64);

impl File {
    /// The names in a folder, in no order; an error if it is none. A name that
    /// is not UTF-8 cannot be asked for: in its place is `None`. After an error
    /// there is nothing more.
    pub fn names(&self) -> Result<Names, ReadError> {
        Ok(Names {
            entries: self.descriptor.read_directory()?,
            ended: false,
        })
    }

    /// Which folder or file this is.
    pub fn identity(&self) -> Result<Identity, ReadError> {
        let hash = self.descriptor.metadata_hash()?;
        Ok(Identity(hash.lower, hash.upper))
    }
}

impl Iterator for Names {
    type Item = Result<Option<String>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.entries.read_directory_entry() {
            Ok(Some(entry)) => Some(Ok(Some(entry.name))),
            Err(ErrorCode::IllegalByteSequence) => Some(Ok(None)),
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error.into()))
            }
        }
    }
}
