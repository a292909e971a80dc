//! Tests of trust in files: owners, modes, symlinks, groups and access control lists.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::*;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes a temporary folder with `folder/file`. Returns it and both paths.
fn fixture() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let base = tempfile::tempdir().unwrap();
    let folder = fs::canonicalize(base.path()).unwrap().join("folder");
    let file = folder.join("file");
    fs::create_dir(&folder).unwrap();
    fs::write(&file, "").unwrap();
    set_mode(&folder, 0o755);
    set_mode(&file, 0o644);
    (base, folder, file)
}

fn refusal(path: &Path) -> Option<String> {
    Trust::new()
        .check(path)
        .err()
        .map(|error| error.to_string())
}

#[test]
fn reports_path_owner_and_mode_of_writable_file() {
    let (_base, folder, file) = fixture();
    assert_eq!(refusal(&file), None);
    set_mode(&file, 0o646);
    let message = refusal(&file).unwrap();
    for part in [file.to_str().unwrap(), "owner ", "mode 0646", "chmod o-w"] {
        assert!(message.contains(part), "{message}");
    }
    set_mode(&file, 0o644);
    set_mode(&folder, 0o757);
    assert!(refusal(&file).unwrap().contains("mode 0757"));
    // A sticky folder protects its entries, but not itself.
    set_mode(&folder, 0o1777);
    assert_eq!(refusal(&file), None);
    for end in [folder.clone(), folder.join("."), folder.join("sub/..")] {
        fs::create_dir_all(folder.join("sub")).unwrap();
        assert!(refusal(&end).unwrap().contains("mode 1777"), "{end:?}");
        let everyone = Trust::new().and(Principal::Everyone);
        assert!(everyone.check(&end).is_ok());
    }
    assert!(Trust::new().check_parent(&folder.join("new")).is_ok());
}

#[test]
fn checks_each_step_of_a_symlink() {
    let (base, folder, file) = fixture();
    let shared = fs::canonicalize(base.path()).unwrap().join("shared");
    fs::create_dir(&shared).unwrap();
    let link = shared.join("link");
    symlink("../folder", &link).unwrap();
    assert_eq!(refusal(&link.join("file")), None);
    set_mode(&shared, 0o777);
    assert!(refusal(&link.join("file")).is_some());
    set_mode(&shared, 0o755);
    set_mode(&folder, 0o777);
    let message = refusal(&link.join("file")).unwrap();
    assert!(message.contains(folder.to_str().unwrap()), "{message}");
    set_mode(&folder, 0o755);
    let absolute = shared.join("absolute");
    symlink(&file, &absolute).unwrap();
    assert_eq!(refusal(&absolute), None);
    symlink("round", shared.join("round")).unwrap();
    assert!(refusal(&shared.join("round")).is_some());
    assert!(refusal(&shared.join("none")).is_some());
    assert_eq!(refusal(&shared.join("../folder/./file")), None);
}

#[test]
fn only_end_of_path_may_be_changeable() {
    let (_base, folder, file) = fixture();
    let link = folder.join("back");
    symlink(".", &link).unwrap();
    fs::create_dir(folder.join("sub")).unwrap();
    set_mode(&folder, 0o777);
    let check = |path: &Path| Trust::new().check_ancestors(path).is_ok();
    for (path, is_safe) in [
        (&folder, true),
        (&folder.join("."), true),
        (&file, false),
        (&folder.join("sub/.."), false),
        // Others can replace the symlink, even if it now leads back to the folder.
        (&link, false),
        (&link.join("back"), false),
    ] {
        assert_eq!(check(path), is_safe, "{path:?}");
    }
    set_mode(&folder, 0o755);
    assert!(check(&link));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(&link, Some(54_321), None).unwrap();
        assert!(!check(&link), "the symlink belongs to another user");
    }
}

#[test]
fn refuses_paths_through_links_of_processes() {
    let (_base, folder, file) = fixture();
    let open = fs::File::open(&folder).unwrap();
    let relative = file.strip_prefix("/").unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&open);
    for path in [
        Path::new("/proc/self/root").join(relative),
        Path::new("/proc/thread-self/root").join(relative),
        PathBuf::from(format!("/dev/fd/{number}/file")),
        PathBuf::from(format!("/proc/self/fd/{number}")),
        PathBuf::from("/proc/self/cwd/Cargo.toml"),
    ] {
        assert!(path.exists(), "{path:?}");
        let message = refusal(&path).unwrap();
        assert!(message.contains("is a symlink of a process"), "{message}");
        let everyone = Trust::new().and(Principal::Everyone);
        assert!(everyone.check(&path).is_ok(), "{path:?}");
    }
    // These links lead where their text says.
    assert_eq!(refusal(Path::new("/proc/self/status")), None);
    assert_eq!(refusal(Path::new("/proc/mounts")), None);
}

#[test]
fn trusts_other_users_and_groups_only_if_named() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can change owners; CI runs as root.
    }
    const OTHER: u32 = 54_321;
    let (_base, folder, file) = fixture();
    let check = |trust: &Trust| trust.check(&file).map_err(|error| error.to_string());
    let user = Trust::new().and(Principal::User(OTHER));
    let group = Trust::new().and(Principal::Group(OTHER));
    for path in [&file, &folder] {
        chown(path, Some(OTHER), None).unwrap();
        let message = check(&Trust::new()).unwrap_err();
        assert!(message.contains("`--trust user:54321`"), "{message}");
        assert!(check(&group).is_err());
        assert!(check(&user).is_ok());
        chown(path, Some(0), Some(OTHER)).unwrap();
        assert!(check(&Trust::new()).is_ok(), "the group cannot write");
        set_mode(path, 0o775);
        let message = check(&Trust::new()).unwrap_err();
        assert!(message.contains("`--trust group:54321`"), "{message}");
        assert!(check(&user).is_err());
        assert!(check(&group).is_ok());
        // The group of root has no other member.
        chown(path, Some(0), Some(0)).unwrap();
        assert!(check(&Trust::new()).is_ok());
    }
    // The owner of a symlink can replace it, even in a sticky folder.
    set_mode(&folder, 0o1777);
    let link = folder.join("link");
    symlink("file", &link).unwrap();
    assert!(Trust::new().check(&link).is_ok());
    std::os::unix::fs::lchown(&link, Some(OTHER), None).unwrap();
    assert!(Trust::new().check(&link).is_err());
    assert!(user.check(&link).is_ok());
}

#[test]
fn refuses_files_with_an_access_control_list() {
    let (_base, _folder, file) = fixture();
    set_mode(&file, 0o664);
    // A list in version 2 of its format: owner rw, user 54321 rw, group r, mask rw, others r.
    let entry = |tag: u16, bits: u16, id: u32| {
        let mut bytes = tag.to_le_bytes().to_vec();
        bytes.extend(bits.to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes
    };
    let none = u32::MAX;
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, bits, id) in [
        (0x01, 6, none),
        (0x02, 6, 54_321),
        (0x04, 4, none),
        (0x10, 6, none),
        (0x20, 4, none),
    ] {
        list.extend(entry(tag, bits, id));
    }
    let flags = rustix::fs::XattrFlags::empty();
    match rustix::fs::setxattr(&file, "system.posix_acl_access", &list, flags) {
        Ok(()) => {}
        // Not every file system supports such lists.
        Err(Errno::OPNOTSUPP) => return,
        Err(error) => panic!("{error}"),
    }
    let message = refusal(&file).unwrap();
    assert!(message.contains("access control list"), "{message}");
}

#[test]
fn parses_principals_by_name_or_number() {
    for (text, principal) in [
        ("user:root", Principal::User(0)),
        ("group:root", Principal::Group(0)),
        ("user:54321", Principal::User(54_321)),
        ("group:54321", Principal::Group(54_321)),
        ("everyone", Principal::Everyone),
    ] {
        assert_eq!(text.parse(), Ok(principal));
    }
    for text in [
        "",
        "root",
        "user:",
        "user:no such user",
        "all:root",
        "user:-1",
        "user:+0",
        "user:4294967295",
    ] {
        assert!(text.parse::<Principal>().is_err(), "{text}");
    }
}

#[test]
fn trusts_group_writable_file_if_members_are_trusted() {
    const OTHER: u32 = 54_321;
    let (_base, _folder, file) = fixture();
    set_mode(&file, 0o664);
    let group = fs::metadata(&file).unwrap().gid();
    let me = rustix::process::geteuid().as_raw();
    let passwd = format!("me:x:{me}:{group}::/:\nann:x:{OTHER}:{OTHER}::/:\n");
    for (members, trusted_alone) in [("", true), ("me", true), ("ann", false), ("me,ann", false)] {
        let accounts = Accounts::parse(&passwd, &format!("ours:x:{group}:{members}\n"));
        let is_trusted = |trust: Trust| {
            PathWalk::new(&trust)
                .with_accounts(accounts.clone())
                .check_to_end(&file, false)
                .is_ok()
        };
        assert_eq!(is_trusted(Trust::new()), trusted_alone, "{members}");
        assert!(
            is_trusted(Trust::new().and(Principal::User(OTHER))),
            "{members}"
        );
    }
}

#[test]
fn members_of_the_overflow_group_are_unknown() {
    let (_base, _folder, file) = fixture();
    set_mode(&file, 0o664);
    let group = overflow_group();
    if chown(&file, None, Some(group)).is_err() {
        return; // Only root can change owners; CI runs as root.
    }
    let accounts = Accounts::parse("root:x:0:0::/:\n", &format!("nogroup:x:{group}:root\n"));
    let check = |trust: Trust| {
        PathWalk::new(&trust)
            .with_accounts(accounts.clone())
            .check_to_end(&file, false)
    };
    let error = check(Trust::new()).unwrap_err().to_string();
    assert!(
        error.contains("a group that this process cannot name"),
        "{error}"
    );
    assert!(check(Trust::new().and(Principal::Group(group))).is_ok());
    set_mode(&file, 0o644);
    assert!(check(Trust::new()).is_ok(), "the group cannot write");
}
