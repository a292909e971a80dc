//! Opens a folder that only the user of this process can write, such as the cache folder. Checks an
//! existing folder before creating another in it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use anyhow::{Context as _, ensure};
use rustix::fs::{Mode, OFlags, Stat, fstat, mkdirat, openat};
use rustix::io::Errno;

use super::Trust;
use crate::own_user::is_own_user;

/// The flags for a step whose owner is not known yet. A confined process is allowed to open a
/// folder with `O_PATH`.
const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a folder that no other user can write or replace. Creates missing folders of the
/// path, with rights for this user alone.
///
/// # Errors
///
/// If another user can change a step of the path. Creates nothing in a folder that others can
/// write, unless its sticky bit prevents them from replacing the new folder.
pub fn own_folder(path: &Path, trust: &Trust) -> anyhow::Result<OwnedFd> {
    let path = std::path::absolute(path)?;
    let existing = path.ancestors().find(|step| !is_missing(step));
    let existing = existing.unwrap_or(Path::new("/"));
    let missing = path.strip_prefix(existing)?;
    if missing != Path::new("") {
        trust.check_parent_of_new(existing)?;
    }
    let opened = rustix::fs::open(existing, STEP, Mode::empty()).map_err(io::Error::from);
    let mut folder = opened.with_context(|| format!("cannot open `{}`", existing.display()))?;
    for step in missing.components() {
        let Component::Normal(name) = step else {
            continue;
        };
        match mkdirat(&folder, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(io::Error::from(error)).context("cannot create it"),
        }
        folder = openat(&folder, name, STEP | OFlags::NOFOLLOW, Mode::empty())?;
        check(&fstat(&folder)?)?;
    }
    check(&fstat(&folder)?)?;
    ensure!(
        trust.believes_owner_of(&folder)?,
        "it is in a FUSE file system of another user, who can make up its owner and mode"
    );
    trust.check(&path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(&folder, ".", flags, Mode::empty())?)
}

/// Returns whether a file or folder belongs to this user and its mode lets nobody else write it.
pub fn is_ours_alone(found: &Stat) -> bool {
    is_own_user(found.st_uid) && found.st_mode & 0o022 == 0
}

fn check(found: &Stat) -> anyhow::Result<()> {
    ensure!(
        is_ours_alone(found),
        "it must belong to the user who runs skillhost, and no other user may write in it (mode \
         0700)"
    );
    Ok(())
}

fn is_missing(path: &Path) -> bool {
    let found = path.symlink_metadata();
    found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn creates_nothing_in_folders_others_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let set_mode = |path: &str, mode| {
            fs::set_permissions(at(path), Permissions::from_mode(mode)).unwrap();
        };
        for (name, mode, is_allowed) in [
            ("own", 0o700, true),
            ("seen", 0o755, true),
            ("sticky", 0o1777, true),
            ("open", 0o777, false),
        ] {
            fs::create_dir(at(name)).unwrap();
            set_mode(name, mode);
            for path in ["deep/er", "direct"] {
                let path = at(name).join(path);
                let created = own_folder(&path, &Trust::new());
                assert_eq!(created.is_ok(), is_allowed, "{path:?}: {created:?}");
                assert_eq!(path.exists(), is_allowed, "{path:?}");
                // A second call has the same result.
                assert_eq!(own_folder(&path, &Trust::new()).is_ok(), is_allowed);
            }
            assert_eq!(
                fs::read_dir(at(name)).unwrap().count() > 0,
                is_allowed,
                "{name}"
            );
        }
        // Others can replace this folder.
        fs::create_dir(at("open/there")).unwrap();
        set_mode("open/there", 0o700);
        assert!(own_folder(&at("open/there"), &Trust::new()).is_err());
        // A symlink is followed only to a folder that nobody else can write.
        symlink(at("own"), at("sticky/link")).unwrap();
        set_mode("own", 0o777);
        assert!(own_folder(&at("sticky/link"), &Trust::new()).is_err());
        assert!(own_folder(&at("sticky/link/new"), &Trust::new()).is_err());
        assert!(!at("own/new").exists());
        set_mode("own", 0o700);
        assert!(own_folder(&at("sticky/link/new"), &Trust::new()).is_ok());
    }
}
