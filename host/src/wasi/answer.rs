//! `skillhost:tool/answer`: a file of the call's folder as the text of its
//! output. The guest says which; the text stays with the host.

use std::io::Read as _;

use wasmtime::component::{ComponentType, Lower};
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode as Code;

use super::World;
use super::filesystem::{checked, code};
use crate::guard::Found;

/// Why a file cannot be the text, as `wit/` has it.
#[derive(ComponentType, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
pub(crate) enum Unusable {
    #[component(name = "not-found")]
    NotFound,
    #[component(name = "outside")]
    Outside,
    #[component(name = "is-directory")]
    IsDirectory,
    #[component(name = "not-regular")]
    NotRegular,
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
    #[component(name = "not-utf8")]
    NotUtf8,
    #[component(name = "unreadable")]
    Unreadable,
}

const BYTE_ORDER_MARK: &str = "\u{feff}";

impl World {
    /// Holds a file's text for the answer, and tells the file's size.
    pub(crate) fn text_from_file(&mut self, path: &str, limit: u64) -> Result<u64, Unusable> {
        self.text = None;
        let most = limit.min(self.most_text as u64);
        let (text, size) = self.read_text(path, most)?;
        self.text = Some(text);
        Ok(size)
    }

    /// The text that the guest has left to the host, if any.
    pub(crate) fn take_text(&mut self) -> Option<String> {
        self.text.take()
    }

    fn read_text(&mut self, path: &str, most: u64) -> Result<(String, u64), Unusable> {
        let path = checked(path)?;
        let (folder, _) = self.preopen.as_ref().ok_or(Unusable::NotFound)?;
        let found = folder.look(path, true).map_err(code)?;
        let Found::File(seen) = found else {
            return Err(Unusable::IsDirectory);
        };
        let _permit = self.permit()?;
        let file = seen.open().map_err(code)?;
        let length = file.metadata().map_err(code)?.len();
        if length > most {
            return Err(Unusable::TooLarge);
        }
        // The file may grow. One byte more than it had shows its end.
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default() + 1);
        let mut file = file.take(most.saturating_add(1));
        file.read_to_end(&mut bytes).map_err(code)?;
        let size = bytes.len() as u64;
        if size > most {
            return Err(Unusable::TooLarge);
        }
        let mut text = String::from_utf8(bytes).map_err(|_| Unusable::NotUtf8)?;
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len());
        }
        Ok((text, size))
    }
}

impl From<Code> for Unusable {
    fn from(code: Code) -> Self {
        match code {
            // A path through a file names nothing.
            Code::NoEntry | Code::NotDirectory => Self::NotFound,
            Code::NotPermitted => Self::Outside,
            Code::IsDirectory => Self::IsDirectory,
            Code::Unsupported => Self::NotRegular,
            Code::TooManyLinks => Self::HardLinked,
            Code::CrossDevice => Self::OtherMount,
            Code::Access => Self::PermissionDenied,
            Code::Loop => Self::SymlinkLoop,
            Code::NameTooLong => Self::NameTooLong,
            _ => Self::Unreadable,
        }
    }
}
