//! Which files the host trusts with code and with rules: those that nobody but
//! root, the user who runs the host, and whom the operator names can change.
//! A configuration, a tools folder, a component and an audit log are such
//! files. Skills are not: they are data, and may be anyone's.
//!
//! A path is walked from the root of the file system, symlinks included. Once
//! every step of it is trusted, nobody else can put another file in its place,
//! so it may be opened by its path.

mod accounts;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;

use accounts::Accounts;

/// Most symlinks on the way to a file, as in the kernel.
const MAX_LINKS: usize = 40;

/// Who may change the files that the host trusts, besides root and the user who
/// runs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    principals: Vec<Principal>,
}

/// A user or a group whose files are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Principal {
    /// Every user: for a file system that has no owners and modes of its own.
    Everyone,
    /// A user, by number.
    User(u32),
    /// Every member of a group, by number.
    Group(u32),
}

/// Why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// Somebody else can change it.
    #[error("{0}")]
    Others(Others),
    /// It cannot be looked at.
    #[error("cannot look at `{}`: {cause}", path.display())]
    Unreadable {
        /// The step of the path.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// A step of a path that others than the trusted users can change.
#[derive(Debug)]
pub struct Others {
    path: PathBuf,
    mode: u32,
    owner: String,
    is_unmapped: bool,
    by: By,
}

/// Who can change it.
#[derive(Debug)]
enum By {
    /// Its owner.
    Owner,
    /// The members of this group.
    Group(String),
    /// Whom an access control list names.
    List,
    /// Every user.
    Everyone,
}

impl Trust {
    /// Nobody but root and the user who runs the host.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts files of this user or group as well.
    #[must_use]
    pub fn and(mut self, principal: Principal) -> Self {
        self.principals.push(principal);
        self
    }

    /// Looks at a file or folder that must be there. Returns its owner.
    pub(crate) fn check(&self, path: &Path) -> Result<u32, Untrusted> {
        let accounts = Accounts::read();
        Walk::new(self, &accounts).to(path, false)
    }

    /// Looks at the folder that holds a file, which may not be there yet.
    pub(crate) fn check_parent(&self, path: &Path) -> Result<(), Untrusted> {
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let accounts = Accounts::read();
        // A sticky folder such as `/tmp` keeps others from replacing the file.
        Walk::new(self, &accounts).to(parent, true).map(drop)
    }

    /// Whether a user's files are trusted.
    pub(crate) fn has_user(&self, user: u32) -> bool {
        user == 0
            || self.has_everyone()
            || user == rustix::process::geteuid().as_raw()
            || self.principals.contains(&Principal::User(user))
    }

    fn has_everyone(&self) -> bool {
        self.principals.contains(&Principal::Everyone)
    }

    fn has_group(&self, group: u32, accounts: &Accounts) -> bool {
        self.principals.contains(&Principal::Group(group))
            || accounts
                .members(group)
                .is_some_and(|members| members.iter().all(|user| self.has_user(*user)))
    }
}

/// A walk along a path.
struct Walk<'a> {
    trust: &'a Trust,
    accounts: &'a Accounts,
    /// Where it is: a folder without symlinks in its path.
    at: PathBuf,
    links: usize,
}

impl<'a> Walk<'a> {
    fn new(trust: &'a Trust, accounts: &'a Accounts) -> Self {
        Self {
            trust,
            accounts,
            at: PathBuf::from("/"),
            links: 0,
        }
    }

    /// Goes to the end of a path, and returns its owner. `sticky_end` says that
    /// the sticky bit protects what lies there, as it does on the way.
    fn to(mut self, path: &Path, sticky_end: bool) -> Result<u32, Untrusted> {
        let path = std::path::absolute(path).map_err(|cause| unreadable(path, cause))?;
        let mut ahead = VecDeque::new();
        push_steps(&mut ahead, &path);
        self.look(Path::new("/"), true)?;
        while let Some(step) = ahead.pop_front() {
            if step == ".." {
                self.at.pop();
                continue;
            }
            let next = self.at.join(&step);
            let found = self.look(&next, true)?;
            if !found.is_symlink() {
                self.at = next;
                continue;
            }
            self.links += 1;
            if self.links > MAX_LINKS {
                return Err(unreadable(&next, Errno::LOOP.into()));
            }
            let target = std::fs::read_link(&next).map_err(|cause| unreadable(&next, cause))?;
            if target.is_absolute() {
                self.at = PathBuf::from("/");
            }
            push_steps(&mut ahead, &target);
        }
        // Wherever `..` has led.
        Ok(self.look(&self.at, sticky_end)?.uid())
    }

    /// Looks at one step. `sticky` says whether the sticky bit protects it.
    fn look(&self, path: &Path, sticky: bool) -> Result<Metadata, Untrusted> {
        let found = std::fs::symlink_metadata(path).map_err(|cause| unreadable(path, cause))?;
        match self.changed_by(path, &found, sticky) {
            Some(by) if !is_read_only(path, &found) => Err(Untrusted::Others(Others {
                path: path.to_owned(),
                mode: found.mode() & 0o7777,
                // One that a user namespace does not know looks like any other
                // such one.
                is_unmapped: found.uid() == overflow_user(),
                owner: self.accounts.user(found.uid()),
                by,
            })),
            _ => Ok(found),
        }
    }

    /// Who else can change what lies here.
    fn changed_by(&self, path: &Path, found: &Metadata, sticky: bool) -> Option<By> {
        if !self.trust.has_user(found.uid()) {
            return Some(By::Owner);
        }
        let mode = found.mode();
        // In a sticky folder, others add entries but replace none of ours.
        let sticky = found.is_dir() && mode & 0o1000 != 0 && sticky;
        if found.is_symlink() || sticky || self.trust.has_everyone() {
            return None;
        }
        if mode & 0o002 != 0 {
            return Some(By::Everyone);
        }
        if mode & 0o020 == 0 {
            return None;
        }
        if has_access_list(path) {
            return Some(By::List);
        }
        let group = found.gid();
        (!self.trust.has_group(group, self.accounts)).then(|| By::Group(self.accounts.group(group)))
    }
}

/// The number of every user that this process's namespace does not know.
fn overflow_user() -> u32 {
    let number = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    let number = number.ok().and_then(|text| text.trim().parse().ok());
    number.unwrap_or(65_534)
}

/// Puts the steps of a path in front of what is ahead.
fn push_steps(ahead: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => ahead.push_front(name.to_owned()),
            Component::ParentDir => ahead.push_front(OsStr::new("..").to_owned()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

fn unreadable(path: &Path, cause: io::Error) -> Untrusted {
    Untrusted::Unreadable {
        path: path.to_owned(),
        cause,
    }
}

/// Whether the mount is read-only. A symlink is asked for by its folder, so that
/// the answer is not about its target.
fn is_read_only(path: &Path, found: &Metadata) -> bool {
    let asked = match (found.is_symlink(), path.parent()) {
        (true, Some(parent)) => parent,
        _ => path,
    };
    rustix::fs::statvfs(asked).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Whether an access control list names further users. The group's bits are then
/// the most that any of them may do.
fn has_access_list(path: &Path) -> bool {
    let mut start = [0; 64];
    let found = rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut start[..]);
    matches!(found, Ok(1..) | Err(Errno::RANGE))
}

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            mode,
            owner,
            is_unmapped,
            by,
        } = self;
        let path = path.display();
        let whose = format!("`{path}` (owner {owner}, mode {mode:04o})");
        match by {
            By::Owner if *is_unmapped => write!(
                f,
                "{whose} belongs to a user that this process cannot name; `--trust everyone` \
                 trusts all users"
            ),
            By::Owner => write!(
                f,
                "{whose} belongs to another user; `--trust user:{owner}` trusts that user's files"
            ),
            By::Group(group) => write!(
                f,
                "{whose} can be changed by the group {group}; `chmod g-w` takes that away, \
                 `--trust group:{group}` trusts the group"
            ),
            By::List => write!(
                f,
                "{whose} can be changed by whom its access control list names; `setfacl -b` \
                 removes the list, `--trust everyone` trusts all users"
            ),
            By::Everyone => write!(
                f,
                "{whose} can be changed by every user; `chmod o-w` takes that away, `--trust \
                 everyone` trusts them"
            ),
        }
    }
}

impl FromStr for Principal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "everyone" {
            return Ok(Self::Everyone);
        }
        let (kind, name) = text
            .split_once(':')
            .ok_or("expected user:NAME or group:NAME, with a name or a number, or everyone")?;
        let accounts = Accounts::read();
        let unknown = || format!("there is no {kind} `{name}`; a number needs no entry");
        match kind {
            "user" => accounts.user_id(name).map(Self::User).ok_or_else(unknown),
            "group" => accounts.group_id(name).map(Self::Group).ok_or_else(unknown),
            _ => Err(format!("expected user:… or group:…, not `{kind}:…`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A folder with a folder in it and a file in that.
    fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let base = tempfile::tempdir().unwrap();
        let folder = fs::canonicalize(base.path()).unwrap().join("folder");
        let file = folder.join("file");
        fs::create_dir(&folder).unwrap();
        fs::write(&file, "").unwrap();
        mode(&folder, 0o755);
        mode(&file, 0o644);
        (base, folder, file)
    }

    fn refusal(path: &Path) -> Option<String> {
        Trust::new()
            .check(path)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn files_that_every_user_can_change_are_refused_with_path_owner_and_mode() {
        let (_base, folder, file) = place();
        assert_eq!(refusal(&file), None);
        mode(&file, 0o646);
        let said = refusal(&file).unwrap();
        for part in [file.to_str().unwrap(), "owner ", "mode 0646", "chmod o-w"] {
            assert!(said.contains(part), "{said}");
        }
        mode(&file, 0o644);
        mode(&folder, 0o757);
        assert!(refusal(&file).unwrap().contains("mode 0757"));
        // A sticky folder protects what is in it, and does not vouch for itself.
        mode(&folder, 0o1777);
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
    fn each_step_of_a_link_counts() {
        let (base, folder, file) = place();
        let shared = fs::canonicalize(base.path()).unwrap().join("shared");
        fs::create_dir(&shared).unwrap();
        let link = shared.join("link");
        symlink("../folder", &link).unwrap();
        assert_eq!(refusal(&link.join("file")), None);
        mode(&shared, 0o777);
        assert!(refusal(&link.join("file")).is_some());
        mode(&shared, 0o755);
        mode(&folder, 0o777);
        let said = refusal(&link.join("file")).unwrap();
        assert!(said.contains(folder.to_str().unwrap()), "{said}");
        mode(&folder, 0o755);
        let absolute = shared.join("absolute");
        symlink(&file, &absolute).unwrap();
        assert_eq!(refusal(&absolute), None);
        symlink("round", shared.join("round")).unwrap();
        assert!(refusal(&shared.join("round")).is_some());
        assert!(refusal(&shared.join("none")).is_some());
        assert_eq!(refusal(&shared.join("../folder/./file")), None);
    }

    #[test]
    fn files_of_another_user_or_group_are_trusted_only_when_they_are_named() {
        if !rustix::process::geteuid().is_root() {
            return; // Only root gives files away; CI is root.
        }
        const OTHER: u32 = 54_321;
        let (_base, folder, file) = place();
        let check = |trust: &Trust| trust.check(&file).map_err(|error| error.to_string());
        let user = Trust::new().and(Principal::User(OTHER));
        let group = Trust::new().and(Principal::Group(OTHER));
        for path in [&file, &folder] {
            chown(path, Some(OTHER), None).unwrap();
            let said = check(&Trust::new()).unwrap_err();
            assert!(said.contains("`--trust user:54321`"), "{said}");
            assert!(check(&group).is_err());
            assert!(check(&user).is_ok());
            chown(path, Some(0), Some(OTHER)).unwrap();
            assert!(check(&Trust::new()).is_ok(), "the group may not write");
            mode(path, 0o775);
            let said = check(&Trust::new()).unwrap_err();
            assert!(said.contains("`--trust group:54321`"), "{said}");
            assert!(check(&user).is_err());
            assert!(check(&group).is_ok());
            // The group of root has root alone in it.
            chown(path, Some(0), Some(0)).unwrap();
            assert!(check(&Trust::new()).is_ok());
        }
        // A link is its owner's to replace, even where a sticky folder holds it.
        mode(&folder, 0o1777);
        let link = folder.join("link");
        symlink("file", &link).unwrap();
        assert!(Trust::new().check(&link).is_ok());
        std::os::unix::fs::lchown(&link, Some(OTHER), None).unwrap();
        assert!(Trust::new().check(&link).is_err());
        assert!(user.check(&link).is_ok());
    }

    #[test]
    fn an_access_control_list_is_no_private_group() {
        let (_base, _folder, file) = place();
        mode(&file, 0o664);
        // Version 2: owner rw, user 54321 rw, group r, mask rw, others r.
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
            // Not every file system has such lists.
            Err(Errno::OPNOTSUPP) => return,
            Err(error) => panic!("{error}"),
        }
        let said = refusal(&file).unwrap();
        assert!(said.contains("access control list"), "{said}");
    }

    #[test]
    fn principals_are_named_by_name_or_number() {
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
}
