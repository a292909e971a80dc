//! The text files of a folder, in a fixed order. What cannot be read, or is no
//! text, is passed over; what is too much ends the walk.

use skillhost_guest::{Failure, File, Folder, Identity, ReadError, SkillPath, text};

/// Bytes of a file that are searched. Meets: a file that fills the memory.
const FILE_BYTES: u64 = 4 << 20;
/// Bytes of all files together. Meets: a call that takes longer than it may.
const BYTES: usize = 32 << 20;
/// Names that are looked at. Meets: a folder with a million of them.
const ENTRIES: usize = 10_000;
/// Folders in folders. Meets: recursion.
const DEPTH: usize = 32;

/// Is given a file's path and text; `false` ends the walk.
type Visit<'a> = dyn FnMut(&str, &str) -> bool + 'a;

/// A walk that is done.
#[derive(Default)]
pub(crate) struct Walk {
    /// Text files that were given.
    pub(crate) files: usize,
    /// Something was left out for its size.
    pub(crate) cut: bool,
    entries: usize,
    bytes: usize,
}

impl Walk {
    /// Walks through a folder, or reads a file alone.
    pub(crate) fn from(
        root: &Folder,
        start: &SkillPath<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<Self, Failure> {
        let mut walk = Self::default();
        let opened = root.open(start)?;
        let path = match start.normalized() {
            here if here == "." => String::new(),
            path => path,
        };
        match opened.size() {
            Ok(_) => {
                walk.file(&path, &opened, visit);
            }
            Err(ReadError::IsDirectory) => {
                walk.folder(root, &path, &opened, &mut Vec::new(), visit);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(walk)
    }

    /// Walks through one folder; `above` are the folders that it lies in.
    /// `false` ends the walk.
    fn folder(
        &mut self,
        root: &Folder,
        path: &str,
        opened: &File,
        above: &mut Vec<Identity>,
        visit: &mut Visit<'_>,
    ) -> bool {
        let Ok(identity) = opened.identity() else {
            return true;
        };
        // A folder in itself, by a symlink, has no end.
        if above.contains(&identity) {
            return true;
        }
        if above.len() == DEPTH {
            self.cut = true;
            return true;
        }
        above.push(identity);
        let goes_on = self.names(root, path, opened, above, visit);
        above.pop();
        goes_on
    }

    fn names(
        &mut self,
        root: &Folder,
        path: &str,
        opened: &File,
        above: &mut Vec<Identity>,
        visit: &mut Visit<'_>,
    ) -> bool {
        let Ok(listed) = opened.names() else {
            return true;
        };
        let mut names = Vec::new();
        for name in listed {
            self.entries += 1;
            if self.entries > ENTRIES {
                self.cut = true;
                break;
            }
            // A name that is not UTF-8 cannot be asked for.
            names.extend(name.ok().flatten());
        }
        names.sort_unstable();
        for name in names {
            let below = match path {
                "" => name,
                path => format!("{path}/{name}"),
            };
            // What others would take for two paths, or could not write.
            let Some(Ok(opened)) = SkillPath::new(&below)
                .ok()
                .filter(|_| !below.contains('\\'))
                .map(|below| root.open(&below))
            else {
                continue;
            };
            let goes_on = match opened.size() {
                Ok(_) => self.file(&below, &opened, visit),
                Err(ReadError::IsDirectory) => self.folder(root, &below, &opened, above, visit),
                Err(_) => true,
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    fn file(&mut self, path: &str, opened: &File, visit: &mut Visit<'_>) -> bool {
        if self.bytes > BYTES {
            self.cut = true;
            return false;
        }
        let Ok((mut bytes, end)) = opened.read_at(0, FILE_BYTES) else {
            return true;
        };
        self.bytes += bytes.len();
        if bytes.contains(&0) && !is_utf16(&bytes) {
            return true;
        }
        if !end && bytes.len() as u64 >= FILE_BYTES {
            self.cut = true;
            // The last line is not whole.
            let whole = bytes.iter().rposition(|byte| *byte == b'\n');
            bytes.truncate(whole.map_or(0, |last| last + 1));
        }
        match text::decode(bytes) {
            Ok((text, _)) => {
                self.files += 1;
                visit(path, &text)
            }
            Err(_) => true,
        }
    }
}

fn is_utf16(bytes: &[u8]) -> bool {
    matches!(bytes, [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..])
}
