//! Finds the user who runs a FUSE file system. That user can make up the owner, the mode and the
//! content of each file in it, even if it is mounted read-only. Any user can mount one with
//! `fusermount3`. All other file systems are mounted by root, or by the root of a user
//! namespace, so their owners are reliable.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsFd;
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::fs::{FsWord, fstat, fstatfs, major, minor};

/// The type of FUSE file systems in `statfs`, from the kernel's `magic.h`.
const FUSE_SUPER_MAGIC: FsWord = 0x6573_5546;

/// The user who can make up the owners and modes of a FUSE file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FuseUser {
    /// This user runs the file system.
    Number(u32),
    /// The mount table does not say who runs it.
    Unknown,
}

/// The mount table. It is opened once, because a confined process cannot open it. Each read from
/// its start shows the current mounts.
static MOUNT_TABLE: LazyLock<Option<Mutex<File>>> =
    LazyLock::new(|| File::open("/proc/self/mountinfo").ok().map(Mutex::new));

/// Opens the mount table, before this process is confined.
pub(super) fn open_before_confinement() {
    LazyLock::force(&MOUNT_TABLE);
}

/// Returns the user who runs the FUSE file system of an open file. Returns `None` if only root
/// can run the file system.
///
/// The file is open, so that its file system cannot be replaced between the two system calls.
pub(super) fn fuse_user(file: impl AsFd) -> io::Result<Option<FuseUser>> {
    if fstatfs(&file)?.f_type != FUSE_SUPER_MAGIC {
        return Ok(None);
    }
    let device = fstat(file)?.st_dev;
    let table = read_mount_table().unwrap_or_default();
    Ok(user_of(&table, major(device), minor(device)))
}

fn read_mount_table() -> Option<String> {
    let table = MOUNT_TABLE.as_ref()?;
    // One reader at a time: the kernel returns whole lines only to consecutive reads.
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    let mut bytes = Vec::new();
    table.rewind().ok()?;
    table.read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the user who runs the FUSE file system with this device number.
fn user_of(table: &str, major: u32, minor: u32) -> Option<FuseUser> {
    let device = format!("{major}:{minor}");
    // All mounts of a file system show the same user.
    let mut mounts = table.lines().filter_map(|line| mount(line, &device));
    let Some((kind, options)) = mounts.next() else {
        return Some(FuseUser::Unknown);
    };
    let (family, _) = kind.split_once('.').unwrap_or((kind, ""));
    if !matches!(family, "fuse" | "fuseblk") {
        // Only root can mount the other types, such as `virtiofs`.
        return None;
    }
    let mut users = options
        .split(',')
        .filter_map(|option| option.strip_prefix("user_id="));
    match (users.next().map(str::parse), users.next()) {
        (Some(Ok(user)), None) => Some(FuseUser::Number(user)),
        _ => Some(FuseUser::Unknown),
    }
}

/// Returns the type and the options of the file system in a line of the mount table, if it has
/// this device number. The fields are those of `proc_pid_mountinfo(5)`.
fn mount<'a>(line: &'a str, device: &str) -> Option<(&'a str, &'a str)> {
    let mut fields = line.split(' ');
    if fields.nth(2)? != device {
        return None;
    }
    // Skips the root, the mount point and its options, and any number of optional fields.
    let mut fields = fields.skip(3).skip_while(|field| *field != "-").skip(1);
    let kind = fields.next()?;
    let _source = fields.next()?;
    Some((kind, fields.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_table_names_users_of_fuse() {
        let line = |kind: &str, options: &str| {
            format!(
                "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,user_id=7\n\
                 63 24 0:390 / /srv/a rw - fuse.other other rw,user_id=8\n\
                 64 24 0:39 / /srv/- rw,nosuid shared:9 master:1 - {kind} - {options}\n"
            )
        };
        let number = |user| Some(FuseUser::Number(user));
        let unknown = Some(FuseUser::Unknown);
        for (kind, options, expected) in [
            (
                "fuse",
                "rw,user_id=1000,group_id=0,allow_other",
                number(1000),
            ),
            ("fuse.sshfs", "ro,user_id=0,group_id=0", number(0)),
            ("fuseblk", "rw,user_id=54321", number(54_321)),
            ("fuse", "rw,max_user_id=0,user_id=5", number(5)),
            ("fuse", "rw", unknown),
            ("fuse", "rw,user_id=", unknown),
            ("fuse", "rw,user_id=-1", unknown),
            ("fuse", "rw,user_id=0,user_id=1000", unknown),
            ("virtiofs", "rw", None),
        ] {
            let found = user_of(&line(kind, options), 0, 39);
            assert_eq!(found, expected, "{kind} {options}");
        }
        let table = line("fuse", "rw,user_id=0");
        assert_eq!(user_of(&table, 0, 40), unknown);
        assert_eq!(user_of(&table, 0, 390), number(8));
        assert_eq!(user_of("", 0, 39), unknown);
    }

    #[test]
    fn reads_open_mount_table_again() {
        let first = read_mount_table().unwrap();
        assert!(first.contains(" / "), "{first}");
        assert!(first.ends_with('\n'), "{first}");
        assert_eq!(
            read_mount_table().unwrap().lines().next(),
            first.lines().next()
        );
    }
}
