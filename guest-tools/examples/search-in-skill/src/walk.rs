//! Visits the text files of a folder in a fixed order. Skips unreadable and binary files, and
//! stops at its limits.

use skillhost_guest::{Failure, File, Folder, Identity, ReadError, SkillPath, text};

/// The maximum number of bytes to search in a file. Guards against: a file that fills the
/// memory.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The maximum number of bytes to search in all files. Guards against: a call that exceeds
/// its time limit.
const MAX_BYTES: usize = 32 << 20;
/// The maximum number of names to read. Guards against: a folder with a million names.
const MAX_ENTRIES: usize = 10_000;
/// The maximum depth of folders. Guards against: a stack overflow.
const MAX_DEPTH: usize = 32;

/// A function that gets a file's path and text. It returns `false` to end the walk.
type Visit<'a> = dyn FnMut(&str, &str) -> bool + 'a;

/// The counts of a walk.
#[derive(Default)]
pub(crate) struct Walk {
    /// The number of visited text files.
    pub(crate) file_count: usize,
    /// True if a limit left something out.
    pub(crate) is_truncated: bool,
    entry_count: usize,
    byte_count: usize,
}

impl Walk {
    /// Visits the files of a folder, or a single file.
    pub(crate) fn from(
        root: &Folder,
        start: &SkillPath<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<Self, Failure> {
        let mut walk = Self::default();
        let opened = root.open(start)?;
        let path = match start.normalized() {
            root if root == "." => String::new(),
            path => path,
        };
        match opened.size() {
            Ok(_) => {
                walk.visit_file(&path, &opened, visit);
            }
            Err(ReadError::IsDirectory) => {
                walk.visit_folder(root, &path, &opened, &mut Vec::new(), visit);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(walk)
    }

    /// Visits the files of one folder. `parents` are the folders that contain it. Returns
    /// `false` to end the walk.
    fn visit_folder(
        &mut self,
        root: &Folder,
        path: &str,
        opened: &File,
        parents: &mut Vec<Identity>,
        visit: &mut Visit<'_>,
    ) -> bool {
        let Ok(identity) = opened.identity() else {
            return true;
        };
        // A symlink can make a folder contain itself.
        if parents.contains(&identity) {
            return true;
        }
        if parents.len() == MAX_DEPTH {
            self.is_truncated = true;
            return true;
        }
        parents.push(identity);
        let should_continue = self.visit_entries(root, path, opened, parents, visit);
        parents.pop();
        should_continue
    }

    fn visit_entries(
        &mut self,
        root: &Folder,
        path: &str,
        opened: &File,
        parents: &mut Vec<Identity>,
        visit: &mut Visit<'_>,
    ) -> bool {
        let Ok(listed) = opened.names() else {
            return true;
        };
        let mut names = Vec::new();
        for name in listed {
            self.entry_count += 1;
            if self.entry_count > MAX_ENTRIES {
                self.is_truncated = true;
                break;
            }
            // Skip a name that is not UTF-8: no call can name it.
            names.extend(name.ok().flatten());
        }
        names.sort_unstable();
        for name in names {
            let entry_path = match path {
                "" => name,
                path => format!("{path}/{name}"),
            };
            // Skip names with a backslash or a control character: other tools refuse them.
            let Some(Ok(opened)) = SkillPath::new(&entry_path)
                .ok()
                .filter(|_| !entry_path.contains('\\'))
                .map(|path| root.open(&path))
            else {
                continue;
            };
            let should_continue = match opened.size() {
                Ok(_) => self.visit_file(&entry_path, &opened, visit),
                Err(ReadError::IsDirectory) => {
                    self.visit_folder(root, &entry_path, &opened, parents, visit)
                }
                Err(_) => true,
            };
            if !should_continue {
                return false;
            }
        }
        true
    }

    fn visit_file(&mut self, path: &str, opened: &File, visit: &mut Visit<'_>) -> bool {
        if self.byte_count > MAX_BYTES {
            self.is_truncated = true;
            return false;
        }
        let Ok((mut bytes, is_at_end)) = opened.read_at(0, MAX_FILE_BYTES) else {
            return true;
        };
        self.byte_count += bytes.len();
        if bytes.contains(&0) && !is_utf16(&bytes) {
            return true;
        }
        if !is_at_end && bytes.len() as u64 >= MAX_FILE_BYTES {
            self.is_truncated = true;
            // Drop the last line, which may be incomplete.
            let line_feed = bytes.iter().rposition(|byte| *byte == b'\n');
            bytes.truncate(line_feed.map_or(0, |index| index + 1));
        }
        match text::decode(bytes) {
            Ok((text, _)) => {
                self.file_count += 1;
                visit(path, &text)
            }
            Err(_) => true,
        }
    }
}

fn is_utf16(bytes: &[u8]) -> bool {
    matches!(bytes, [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..])
}
