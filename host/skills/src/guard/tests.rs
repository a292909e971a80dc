//! Tests of the guard: what it opens and refuses, and the status that it reports.

use super::*;
use crate::broker::tests::FixedBroker;
use cap_std::ambient_authority;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

fn folder(path: &Path, hard_links: HardLinks) -> Folder {
    let folder = Dir::open_ambient_dir(path, ambient_authority()).unwrap();
    Folder::new(folder.into_std_file().into(), hard_links, Opener::DIRECT).unwrap()
}

#[test]
fn opens_only_files_and_directories_and_never_blocks() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path();
    std::fs::write(path.join("file"), "x").unwrap();
    std::fs::create_dir(path.join("dir")).unwrap();
    std::os::unix::fs::symlink("file", path.join("link")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", path.join("out")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path.join("fifo"),
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
    std::fs::write(path.join("linked"), "x").unwrap();
    std::fs::hard_link(path.join("linked"), path.join("other")).unwrap();
    let guarded = folder(path, HardLinks::Refused);

    for (name, expected) in [
        ("file", None),
        ("link", None),
        ("dir", Some(Errno::ISDIR)),
        ("fifo", Some(Errno::NOTSUP)),
        ("socket", Some(Errno::NOTSUP)),
        ("out", Some(Errno::PERM)),
        ("../x", Some(Errno::PERM)),
        ("/etc/passwd", Some(Errno::PERM)),
        ("linked", Some(Errno::MLINK)),
        ("none", Some(Errno::NOENT)),
        ("file/x", Some(Errno::NOTDIR)),
    ] {
        let error = guarded
            .open_file(Path::new(name))
            .err()
            .map(|error| Errno::from_io_error(&error));
        // cap-std's own refusals carry no errno; they are "permission denied".
        let error = error.map(|errno| errno.unwrap_or(Errno::PERM));
        assert_eq!(error, expected, "{name}");
    }
    for link in ["link", "out"] {
        let error = guarded.lookup(Path::new(link), false).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::LOOP), "{link}");
    }
}

#[test]
fn reads_hard_links_if_they_are_allowed() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a"), "x").unwrap();
    std::fs::hard_link(root.path().join("a"), root.path().join("b")).unwrap();
    let allowed = folder(root.path(), HardLinks::Allowed);
    assert!(allowed.open_file(Path::new("a")).is_ok());
}

#[test]
fn refuses_a_mount_inside_a_folder() {
    // Every Linux machine has this mount.
    let root = folder(Path::new("/"), HardLinks::Refused);
    for path in ["proc/version", "proc"] {
        let error = root.lookup(Path::new(path), true).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::XDEV), "{path}");
    }
}

/// Makes a folder with `dir/file`, and a hard link and a symlink to this file.
fn sample() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("dir")).unwrap();
    std::fs::write(root.path().join("dir/file"), "text").unwrap();
    std::fs::hard_link(root.path().join("dir/file"), root.path().join("other")).unwrap();
    std::os::unix::fs::symlink("dir/file", root.path().join("link")).unwrap();
    root
}

#[test]
fn reports_the_same_status_as_the_system() {
    let root = sample();
    let guarded = folder(root.path(), HardLinks::Allowed);
    for (path, kind) in [
        ("dir", FileType::Directory),
        ("dir/file", FileType::RegularFile),
        ("link", FileType::Symlink),
    ] {
        let expected = std::fs::symlink_metadata(root.path().join(path)).unwrap();
        let time = |seconds: i64, nanoseconds: i64| (seconds, u32::try_from(nanoseconds).unwrap());
        let seen = guarded.status_at(Path::new(path), false).unwrap();
        let (handle, _) = guarded.handle_at(Path::new(path), false).unwrap();
        let without_statx = FileStatus::from(rustix::fs::fstat(handle).unwrap());
        for seen in [seen, without_statx] {
            assert_eq!(seen.kind, kind, "{path}");
            assert_eq!((seen.links, seen.size), (expected.nlink(), expected.len()));
            assert_eq!(seen.accessed, time(expected.atime(), expected.atime_nsec()));
            assert_eq!(seen.modified, time(expected.mtime(), expected.mtime_nsec()));
            let changed = time(expected.ctime(), expected.ctime_nsec());
            assert_eq!(seen.changed(), changed);
        }
    }
    let followed = guarded.status_at(Path::new("link"), true).unwrap();
    assert_eq!(followed.kind, FileType::RegularFile);
    let root_status = guarded.status().unwrap();
    assert_eq!(root_status.kind, FileType::Directory);
}

#[test]
fn each_file_has_a_unique_id() {
    let root = sample();
    let guarded = folder(root.path(), HardLinks::Allowed);
    let status = |path: &str| guarded.status_at(Path::new(path), false).unwrap();
    let (file, other, link) = (status("dir/file"), status("other"), status("link"));
    assert!(file.is_same_file(&other) && file.unique_id() == other.unique_id());
    std::fs::write(root.path().join("other"), "longer text").unwrap();
    assert!(status("dir/file").is_same_file(&file));
    assert!(!file.is_same_file(&link) && file.unique_id() != link.unique_id());
    // The same inode number on another mount is another file.
    let mut elsewhere = status("other");
    elsewhere.identity.mount = Mount {
        device: (9, 9),
        id: Some(u64::MAX),
    };
    assert!(!file.is_same_file(&elsewhere) && file.unique_id() != elsewhere.unique_id());
}

#[test]
fn distinguishes_mounts_by_id_or_else_by_device() {
    let mount = |device, id| Mount {
        device: (0, device),
        id,
    };
    for (one, other, same) in [
        // A bind mount, and the layers of an overlay.
        (mount(1, Some(1)), mount(1, Some(2)), false),
        (mount(1, Some(1)), mount(2, Some(1)), true),
        (mount(1, None), mount(1, None), true),
        (mount(1, None), mount(2, None), false),
        (mount(1, Some(1)), mount(1, None), true),
        (mount(1, Some(1)), mount(2, None), false),
    ] {
        assert_eq!(one == other, same, "{one:?} {other:?}");
    }
    let (root, proc) = (Path::new("/"), Path::new("/proc"));
    let at = |path| folder(path, HardLinks::Refused);
    assert!(at(root).shares_mount(&at(root)) && !at(root).shares_mount(&at(proc)));
}

#[test]
fn detects_a_changed_or_replaced_folder() {
    let root = sample();
    let parent = folder(root.path(), HardLinks::Refused);
    let opened = || folder(&root.path().join("dir"), HardLinks::Refused);
    let first = opened();
    let is_unchanged = |opened: &Folder, name: &str, follow| {
        opened.is_unchanged(parent.handle().as_fd(), name, follow)
    };
    assert!(is_unchanged(&first, "dir", false));
    std::os::unix::fs::symlink("dir", root.path().join("to-dir")).unwrap();
    for (name, follow, expected) in [
        ("to-dir", true, true),
        ("to-dir", false, false),
        ("other", false, false),
        ("none", false, false),
    ] {
        assert_eq!(
            is_unchanged(&first, name, follow),
            expected,
            "{name} {follow}"
        );
    }
    std::fs::rename(root.path().join("dir"), root.path().join("was")).unwrap();
    std::fs::create_dir(root.path().join("dir")).unwrap();
    assert!(!is_unchanged(&first, "dir", false));
    let second = opened();
    // The clock of the file system may not advance for some milliseconds.
    std::thread::sleep(Duration::from_millis(50));
    std::fs::write(root.path().join("dir/new"), "x").unwrap();
    assert!(!is_unchanged(&second, "dir", false));
}

#[test]
fn started_programs_inherit_no_file_or_folder() {
    let root = sample();
    let guarded = folder(root.path(), HardLinks::Allowed);
    let is_closed_on_exec = |handle: BorrowedFd<'_>| {
        let flags = rustix::io::fcntl_getfd(handle).unwrap();
        flags.contains(rustix::io::FdFlags::CLOEXEC)
    };
    let file = guarded.open_file(Path::new("dir/file")).unwrap();
    assert!(is_closed_on_exec(file.as_fd()));
    for (path, follow) in [
        ("dir", true),
        ("dir", false),
        ("dir/file", false),
        ("other", false),
    ] {
        let handle = guarded.handle_at(Path::new(path), follow).unwrap().0;
        assert!(is_closed_on_exec(handle.as_fd()), "{path} {follow}");
        // Nothing can be read through an `O_PATH` handle.
        let flags = rustix::fs::fcntl_getfl(&handle).unwrap();
        assert!(flags.contains(OFlags::PATH), "{path} {follow}");
    }
    let descriptors = descriptors().unwrap();
    assert!(is_closed_on_exec(descriptors));
    let flags = rustix::fs::fcntl_getfl(descriptors).unwrap();
    assert!(flags.contains(OFlags::PATH));
    // Reading must never block, whatever the file is.
    let flags = rustix::fs::fcntl_getfl(&file).unwrap();
    assert!(flags.contains(OFlags::NONBLOCK));
}

#[test]
fn finds_path_of_open_file_in_folder() {
    let root = sample();
    let guarded = folder(&root.path().join("dir"), HardLinks::Allowed);
    let file = guarded.open_file(Path::new("file")).unwrap();
    assert_eq!(guarded.path_of(&file).unwrap(), Path::new("file"));
    std::fs::rename(root.path().join("dir/file"), root.path().join("moved")).unwrap();
    assert_eq!(guarded.path_of(&file), None);
}

#[test]
fn reads_a_link_without_showing_host_paths() {
    let root = sample();
    std::os::unix::fs::symlink("/etc/passwd", root.path().join("dir/out")).unwrap();
    let guarded = folder(root.path(), HardLinks::Allowed);
    for (path, for_guest, for_host) in [
        ("link", Ok("dir/file"), Ok("dir/file")),
        ("dir/out", Err(Errno::PERM), Ok("/etc/passwd")),
        ("dir/file", Err(Errno::INVAL), Err(Errno::INVAL)),
        ("dir/", Err(Errno::INVAL), Err(Errno::INVAL)),
    ] {
        let shown = |target: io::Result<PathBuf>| {
            let target = target.map(|target| target.to_str().unwrap().to_owned());
            target.map_err(|error| Errno::from_io_error(&error).unwrap())
        };
        let expected = |target: Result<&str, Errno>| target.map(str::to_owned);
        let at = Path::new(path);
        assert_eq!(shown(guarded.read_link(at)), expected(for_guest), "{path}");
        assert_eq!(shown(guarded.link_target(at)), expected(for_host), "{path}");
    }
}

#[test]
fn refuses_a_hard_link_removed_after_its_lookup() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "x").unwrap();
    let link = root.path().join("link");
    for (hard_links, expected) in [
        (HardLinks::Refused, Some(Errno::NOENT)),
        (HardLinks::Allowed, None),
    ] {
        std::fs::hard_link(outside.path().join("secret"), &link).unwrap();
        let guarded = folder(root.path(), hard_links);
        let (handle, _) = guarded.handle_at(Path::new("link"), true).unwrap();
        std::fs::remove_file(&link).unwrap();
        let status = status_of(handle.as_fd()).unwrap();
        assert_eq!(status.links, 1);
        let refused = guarded.admit(handle, status).err();
        let error = refused.map(|error| Errno::from_io_error(&error).unwrap());
        assert_eq!(error, expected, "{hard_links:?}");
    }
}

#[test]
fn asks_the_broker_at_any_depth() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, "opened").unwrap();
    let opener = Opener::with_broker(FixedBroker::new(file.path()));
    for (opener, is_opened) in [(opener, true), (Opener::DIRECT, false)] {
        let root = Dir::open_ambient_dir("/proc/sys", ambient_authority()).unwrap();
        let root = root.into_std_file().into();
        let root = Folder::new(root, HardLinks::Refused, opener).unwrap();
        let found = root.lookup(Path::new("vm"), false);
        let Ok(PathTarget::Folder(folder)) = found else {
            panic!("{found:?}");
        };
        // Even root cannot read `drop_caches`.
        for (folder, path) in [(&root, "vm/drop_caches"), (&folder, "drop_caches")] {
            let text = folder.open_file(Path::new(path)).map(io::read_to_string);
            let text = text.map(Result::unwrap).ok();
            assert_eq!(text.as_deref(), is_opened.then_some("opened"), "{path}");
        }
    }
}
