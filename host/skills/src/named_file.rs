//! Opens all files that an operator names: configurations, keys, tokens, certificates,
//! checkpoints, audit logs to verify, consent, conformance cases, and the files of a build. Never
//! blocks, opens only regular files, and reads them up to a size.
//!
//! `guard.rs` opens files of skills and component files. `tool/audit` of the crate
//! `skillhost-sandbox` opens the audit log for appending.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use skillhost_helper::{TORN_CONSENT, append_line};

use crate::broker::Opener;
use crate::own_user::{is_own_group, is_own_user};
use crate::regular_file;
use crate::trust::Trust;

pub use crate::guard::UNKNOWN_KIND;
pub use crate::regular_file::check_kind;

/// Opens a regular file for reading.
///
/// # Errors
///
/// If it cannot be opened or is not a regular file.
pub fn open(path: &Path) -> anyhow::Result<File> {
    open_with(path, &Opener::DIRECT)
}

/// Opens a regular file for reading, with an opener.
///
/// # Errors
///
/// Those of [`open`].
pub fn open_with(path: &Path, opener: &Opener) -> anyhow::Result<File> {
    regular_file::open(path, opener)
}

/// Opens a file that holds a secret. It must belong to the user of this process or to root. Nobody
/// else may have the right to read or write it. Only users in `trust` may have the right to change
/// its path.
///
/// One exception: a group of this process may also have the right to read a file of root if the
/// process does not run as root, because it could not read the file otherwise.
///
/// # Errors
///
/// If the file cannot be opened, is not a regular file, or others have access to it or to its
/// path.
pub fn open_private(path: &Path, trust: &Trust, opener: &Opener) -> anyhow::Result<File> {
    let advice = "users other than its owner may read or write it; set its mode to 0600";
    let file = open_own(path, trust, opener, 0o037, advice)?;
    let metadata = file.metadata()?;
    ensure!(
        metadata.mode() & 0o040 == 0 || is_for_own_group(&file, &metadata),
        "its group may read it; set its mode to 0600, or give it to root and to a group of this \
         process, which must not run as root"
    );
    Ok(file)
}

/// Returns whether root lets only a group of this process read an open file.
fn is_for_own_group(file: &File, metadata: &Metadata) -> bool {
    metadata.uid() == 0
        && !rustix::process::geteuid().is_root()
        && is_own_group(metadata.gid())
        && !has_access_list(file)
}

/// Returns whether an access control list may let further users read an open file. The mode does
/// not distinguish them from the group.
pub fn has_access_list(file: &File) -> bool {
    let found = rustix::fs::fgetxattr(file, "system.posix_acl_access", &mut [0; 64][..]);
    !matches!(found, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

/// Opens a public file. It must belong to the user of this process or to root. Nobody else may
/// have the right to write it. Only users in `trust` may have the right to change its path.
///
/// # Errors
///
/// If the file cannot be opened, is not a regular file, or others may write it or change its
/// path.
pub fn open_public(path: &Path, trust: &Trust, opener: &Opener) -> anyhow::Result<File> {
    let advice = "users other than its owner may write it; set its mode to 0644";
    open_own(path, trust, opener, 0o022, advice)
}

/// Opens a file of this user or root, unless its mode has one of the `forbidden` bits.
fn open_own(
    path: &Path,
    trust: &Trust,
    opener: &Opener,
    forbidden: u32,
    advice: &str,
) -> anyhow::Result<File> {
    // The path is checked before the file is opened, so that nobody else can replace the file in
    // between. Errors of the file itself are returned first, because they are clearer.
    let checked = trust.with_opener(opener).check(path);
    let file = regular_file::open(path, opener)?;
    let metadata = file.metadata()?;
    let owner = metadata.uid();
    ensure!(
        owner == 0 || is_own_user(owner),
        "it belongs to another user"
    );
    ensure!(metadata.mode() & forbidden == 0, "{advice}");
    checked?;
    Ok(file)
}

/// Appends a line to the file of consent, through the broker if there is one. Creates the
/// file if it is missing, with rights for its owner alone. Ends a torn last line, so that it allows
/// nothing.
///
/// # Errors
///
/// If the file cannot be opened, is not a regular file, or cannot be written.
pub fn append_consent(path: &Path, opener: &Opener, line: &str) -> io::Result<()> {
    match opener.broker() {
        Some(broker) => broker.append_consent(line),
        None => append(path, TORN_CONSENT, line),
    }
}

/// Appends a line to the file of requests for packages; see [`append_consent`].
///
/// # Errors
///
/// Those of [`append_consent`].
pub fn append_package_request(path: &Path, opener: &Opener, line: &str) -> io::Result<()> {
    match opener.broker() {
        Some(broker) => broker.append_package_request(line),
        None => append(path, "", line),
    }
}

fn append(path: &Path, mark: &str, line: &str) -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    check_kind(&file.metadata()?).map_err(io::Error::other)?;
    append_line(&mut file, mark, line)
}

/// Reads an open file to its end.
///
/// # Errors
///
/// If it has more bytes than `max`, or cannot be read.
pub fn read_all(file: File, max: u64) -> anyhow::Result<Vec<u8>> {
    // Enough for a whole small file, which would otherwise be read in many parts.
    let size = file.metadata()?.len().min(max).min(1 << 20);
    let mut bytes = Vec::with_capacity(size as usize + 1);
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= max, "it is larger than {max} bytes");
    Ok(bytes)
}

/// Reads an open file of text to its end.
///
/// # Errors
///
/// If it has more bytes than `max`, is not UTF-8, or cannot be read.
pub fn read_all_text(file: File, max: u64) -> anyhow::Result<String> {
    String::from_utf8(read_all(file, max)?).context("it is not UTF-8")
}

/// Reads a regular file.
///
/// # Errors
///
/// If it cannot be read, is not a regular file, or has more bytes than `max`.
pub fn read(path: &Path, max: u64) -> anyhow::Result<Vec<u8>> {
    read_all(open(path)?, max)
}

/// Reads a regular file of text.
///
/// # Errors
///
/// If it cannot be read, is not a regular file or not UTF-8, or has more bytes than `max`.
pub fn read_text(path: &Path, max: u64) -> anyhow::Result<String> {
    read_all_text(open(path)?, max)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, FileType, Mode};
    use rustix::io::{Errno, FdFlags, fcntl_getfd};

    use super::*;
    use crate::broker::tests::FixedBroker;
    use crate::trust::Principal;

    type Open = fn(&Path, &Trust, &Opener) -> anyhow::Result<File>;

    #[test]
    fn started_programs_get_no_open_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (path, trust) = (file.path(), Trust::new());
        for opened in [
            open(path),
            open_private(path, &trust, &Opener::DIRECT),
            open_public(path, &trust, &Opener::DIRECT),
        ] {
            let flags = fcntl_getfd(opened.unwrap()).unwrap();
            assert!(flags.contains(FdFlags::CLOEXEC));
        }
    }

    #[test]
    fn opens_the_file_whose_kind_it_checked() {
        use rustix::fs::{RenameFlags, inotify, mknodat, renameat_with};
        let base = tempfile::tempdir().unwrap();
        let (path, other) = (base.path().join("file"), base.path().join("other"));
        fs::write(&path, "text").unwrap();
        mknodat(CWD, &other, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&events, &other, inotify::WatchFlags::OPEN).unwrap();
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    renameat_with(CWD, &path, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            for _ in 0..5_000 {
                let _ = open(&path);
            }
            has_ended.store(true, Ordering::Relaxed);
        });
        // The FIFO was never opened.
        let read = rustix::io::read(&events, &mut [0; 64][..]);
        assert_eq!(read.map(|_| ()), Err(Errno::AGAIN));
    }

    #[test]
    fn checks_files_that_the_broker_opens() {
        // Even root cannot read this file.
        let path = Path::new("/proc/sys/vm/drop_caches");
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "opened").unwrap();
        let opener = Opener::with_broker(FixedBroker::new(file.path()));
        for (mode, private, public) in [
            (0o600, true, true),
            (0o644, false, true),
            (0o666, false, false),
        ] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let trust = Trust::new();
            for (open, is_opened) in [(open_private as Open, private), (open_public, public)] {
                let text = open(path, &trust, &opener).and_then(|file| read_all_text(file, 9));
                let text = text.ok();
                assert_eq!(text.as_deref(), is_opened.then_some("opened"), "{mode:o}");
                assert!(open(path, &trust, &Opener::DIRECT).is_err());
            }
        }
    }

    #[test]
    fn refuses_files_that_others_can_replace() {
        let base = tempfile::tempdir().unwrap();
        let at = |path: &str| base.path().join(path);
        let set_mode = |path: &str, mode| {
            fs::set_permissions(at(path), Permissions::from_mode(mode)).unwrap();
        };
        // As Kubernetes mounts a secret: the file and its folder are symlinks.
        fs::create_dir_all(at("mount/..data-1/deep")).unwrap();
        fs::write(at("mount/..data-1/deep/key"), "secret").unwrap();
        set_mode("mount/..data-1/deep/key", 0o600);
        symlink("..data-1", at("mount/..data")).unwrap();
        symlink("..data/deep/key", at("mount/key")).unwrap();
        for (folder, mode, is_safe) in [
            ("mount", 0o700, true),
            ("mount", 0o755, true),
            // In a sticky folder, others can add files but not replace any.
            ("mount", 0o1777, true),
            ("mount", 0o757, false),
            ("mount/..data-1", 0o757, false),
            ("mount/..data-1/deep", 0o757, false),
        ] {
            set_mode(folder, mode);
            for open in [open_private, open_public] {
                let opened = open(&at("mount/key"), &Trust::new(), &Opener::DIRECT);
                assert_eq!(opened.is_ok(), is_safe, "{folder} {mode:o}: {opened:?}");
                let error = opened.map_err(|error| error.to_string()).err();
                let is_named =
                    error.is_none_or(|error| error.contains(&*at(folder).to_string_lossy()));
                assert!(is_named, "{folder} {mode:o}");
                // Users that the operator trusts may replace the file.
                let everyone = Trust::new().and(Principal::Everyone);
                assert!(open(&at("mount/key"), &everyone, &Opener::DIRECT).is_ok());
            }
            set_mode(folder, 0o755);
        }
        if !rustix::process::geteuid().is_root() {
            return; // Only root can change owners; CI runs as root.
        }
        let key = || open_private(&at("mount/key"), &Trust::new(), &Opener::DIRECT);
        // The owner of a symlink or a sticky folder can replace the file.
        set_mode("mount", 0o1755);
        for path in ["mount", "mount/..data", "mount/key", "mount/..data-1"] {
            std::os::unix::fs::lchown(at(path), Some(54_321), None).unwrap();
            assert!(key().is_err(), "{path}");
            std::os::unix::fs::lchown(at(path), Some(0), None).unwrap();
            assert!(key().is_ok(), "{path}");
        }
    }

    #[test]
    fn reads_regular_files_up_to_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("text"), "12345").unwrap();
        std::fs::write(path("bytes"), b"\xff").unwrap();
        rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let (none, folder, fifo) = (path("none"), path("."), path("fifo"));
        let device = Path::new("/dev/zero");
        for (path, max, expected) in [
            (&*path("text"), 5, Ok("12345")),
            (&path("text"), 4, Err("it is larger than 4 bytes")),
            (&path("bytes"), 5, Err("it is not UTF-8: ")),
            (&none, 5, Err("No such file")),
            (&folder, 5, Err("it is not a regular file but a folder")),
            (&fifo, 5, Err("it is not a regular file but a FIFO")),
            (device, 5, Err("it is not a regular file but a device")),
        ] {
            let read = read_text(path, max).map_err(|error| format!("{error:#}"));
            match expected {
                Ok(text) => assert_eq!(read.as_deref(), Ok(text), "{path:?}"),
                Err(why) => assert!(read.unwrap_err().starts_with(why), "{path:?}"),
            }
        }
    }
}
