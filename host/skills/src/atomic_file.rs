//! Replaces a file as a whole: a reader finds the old file or the new one, also after a crash.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;

/// The beginning of the names of unfinished files and folders. A crash may leave one.
pub const UNFINISHED: &str = ".unfinished-";

/// Returns a random name for an unfinished file or folder. A process id would not be unique:
/// processes in several containers can have the same id and write to the same store.
pub fn unfinished_name(name: &str) -> String {
    let random = RandomState::new().hash_one(name);
    format!("{UNFINISHED}{random:016x}-{name}")
}

/// Writes or replaces a file.
///
/// A new file gets `mode`, without the bits of the umask; a replaced file keeps its mode and
/// group. A symlink itself is replaced, not its target.
///
/// # Errors
///
/// If the folder or the file cannot be written. The old file then stays, unless only the folder cannot
/// be synced.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace_with(path, mode, |file| file.write_all(bytes))
}

/// Writes or replaces a file like [`replace`], with the bytes that `write` writes.
///
/// # Errors
///
/// Those of [`replace`] and of `write`.
pub fn replace_with<E: From<io::Error>>(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let replaced = fs::symlink_metadata(path).ok().filter(Metadata::is_file);
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = folder.join(unfinished_name(&name));
    let written = (|| {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(if replaced.is_some() { 0o600 } else { mode })
            .open(&unfinished)?;
        if let Some(old) = replaced {
            keep_owner_and_mode(&file, &old)?;
        }
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()?;
        file.get_ref().sync_all()?;
        fs::rename(&unfinished, path)?;
        Ok(File::open(folder)?.sync_all()?)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Gives a file the owner, the group and the mode of another. Only root can change the owner. If
/// the file cannot have the group, its own group gets the rights of all others.
fn keep_owner_and_mode(file: &File, old: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    let mut mode = old.mode() & 0o777;
    if new.gid() != old.gid() && fchown(file, None, Some(old.gid())).is_err() {
        mode = mode & 0o707 | (mode & 0o007) << 3;
    }
    file.set_permissions(Permissions::from_mode(mode))?;
    // Last, because only the owner may set the mode.
    if new.uid() != old.uid() {
        let _ = fchown(file, Some(old.uid()), None);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keeps_mode_of_replaced_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace(&path, b"old", 0o600).unwrap();
        for mode in [0o600, 0o666, 0o755, 0o444] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            replace(&path, b"new", 0o640).unwrap();
            let found = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode, "{found:o}");
        }
    }

    #[test]
    fn keeps_owner_and_group_of_replaced_file() {
        if !rustix::process::geteuid().is_root() {
            return; // Only root can change owners; CI runs as root.
        }
        const OWNER: u32 = 54_321;
        const GROUP: u32 = 54_322;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace(&path, b"old", 0o600).unwrap();
        std::os::unix::fs::chown(&path, Some(OWNER), Some(GROUP)).unwrap();
        replace(&path, b"new", 0o644).unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid()), (OWNER, GROUP));
        assert_eq!(found.mode() & 0o777, 0o600);
    }

    #[test]
    fn unfinished_names_differ() {
        let names: BTreeSet<String> = (0..100).map(|_| unfinished_name("csv")).collect();
        assert_eq!(names.len(), 100);
        for name in names {
            assert!(
                name.starts_with(UNFINISHED) && name.ends_with("-csv"),
                "{name}"
            );
        }
    }
}
