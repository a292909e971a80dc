//! Walks along a path, from the root of the file system, through symlinks. If every step is
//! trusted, nobody else can replace the file at the end, so the host can safely open the path.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    CWD, Mode, OFlags, PROC_SUPER_MAGIC, StatVfsMountFlags, fstatfs, fstatvfs, openat, readlinkat,
};
use rustix::io::Errno;

use super::Trust;
use super::accounts::Accounts;
use super::error::{ChangeableStep, TrustError, UntrustedWriter};
use super::fuse::FuseUser;
use crate::own_user::{overflow_group, overflow_user};

/// The maximum number of symlinks in a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// A walk along a path.
pub(super) struct PathWalk<'a> {
    trust: &'a Trust,
    /// The accounts, read at the first step that a group may change or that is not trusted.
    accounts: OnceCell<Accounts>,
    /// The folder that the walk has reached, without symlinks in its path.
    reached: PathBuf,
    links: usize,
}

impl<'a> PathWalk<'a> {
    pub(super) fn new(trust: &'a Trust) -> Self {
        Self {
            trust,
            accounts: OnceCell::new(),
            reached: PathBuf::from("/"),
            links: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn with_accounts(self, accounts: Accounts) -> Self {
        let accounts = OnceCell::from(accounts);
        Self { accounts, ..self }
    }

    fn accounts(&self) -> &Accounts {
        let read = || Accounts::read(&self.trust.opener);
        self.accounts.get_or_init(read)
    }

    /// Checks each step of a path, and returns the owner of its end. A sticky bit protects every
    /// step before the end, and with `sticky_end` also the end.
    pub(super) fn check_to_end(mut self, path: &Path, sticky_end: bool) -> Result<u32, TrustError> {
        let path =
            std::path::absolute(path).map_err(|cause| TrustError::unreadable(path, cause))?;
        let mut remaining = VecDeque::new();
        push_steps(&mut remaining, &path);
        self.check_step(Path::new("/"), true, remaining.is_empty())?;
        while let Some(step) = remaining.pop_front() {
            if step == ".." {
                self.reached.pop();
                continue;
            }
            let next = self.reached.join(&step);
            let found = self.check_step(&next, true, remaining.is_empty())?;
            if !found.metadata.is_symlink() {
                self.reached = next;
                continue;
            }
            self.links += 1;
            if self.links > MAX_LINKS {
                return Err(TrustError::unreadable(&next, Errno::LOOP.into()));
            }
            let target = found
                .target()
                .map_err(|cause| TrustError::unreadable(&next, cause))?;
            if target.is_absolute() {
                self.reached = PathBuf::from("/");
            }
            push_steps(&mut remaining, &target);
        }
        // The loop accepts a sticky bit at every step, so the end is checked again.
        let end = self.check_step(&self.reached, sticky_end, true)?;
        Ok(end.metadata.uid())
    }

    /// Checks one step. With `accepts_sticky`, a sticky bit protects the step. `is_last` means that
    /// no step remains after it, unless it is a symlink.
    fn check_step(
        &self,
        path: &Path,
        accepts_sticky: bool,
        is_last: bool,
    ) -> Result<Step, TrustError> {
        let unreadable = |cause| TrustError::unreadable(path, cause);
        let found = Step::open(path).map_err(unreadable)?;
        let fuse_user = self.trust.untrusted_fuse_user(&found.handle);
        let writer = match fuse_user.map_err(unreadable)? {
            // The user can make up the files of a read-only mount too.
            Some(FuseUser::Number(user)) => {
                Some(UntrustedWriter::Fuse(Some(self.accounts().user_name(user))))
            }
            Some(FuseUser::Unknown) => Some(UntrustedWriter::Fuse(None)),
            None if !self.trust.has_everyone() && found.is_link_of_process() => {
                Some(UntrustedWriter::Process)
            }
            None => self
                .untrusted_writer(path, &found.metadata, accepts_sticky)
                .filter(|_| !found.is_read_only()),
        };
        let Some(writer) = writer else {
            return Ok(found);
        };
        let owner = found.metadata.uid();
        Err(TrustError::Changeable(ChangeableStep {
            path: path.to_owned(),
            mode: found.metadata.mode() & 0o7777,
            // All users outside the user namespace share this number.
            is_unmapped: owner == overflow_user(),
            owner: self.accounts().user_name(owner),
            writer,
            is_end: is_last && !found.metadata.is_symlink(),
        }))
    }

    /// Returns the untrusted users who can change a step, if there are any.
    fn untrusted_writer(
        &self,
        path: &Path,
        found: &Metadata,
        accepts_sticky: bool,
    ) -> Option<UntrustedWriter> {
        if !self.trust.has_user(found.uid()) {
            return Some(UntrustedWriter::Owner);
        }
        let mode = found.mode();
        // In a sticky folder, others can add entries but not replace ours.
        let is_protected = found.is_dir() && mode & 0o1000 != 0 && accepts_sticky;
        if found.is_symlink() || is_protected || self.trust.has_everyone() {
            return None;
        }
        if mode & 0o002 != 0 {
            return Some(UntrustedWriter::Everyone);
        }
        if mode & 0o020 == 0 {
            return None;
        }
        if has_access_list(path) {
            return Some(UntrustedWriter::AccessList);
        }
        let group = found.gid();
        if self.trust.has_group(group, self.accounts()) {
            return None;
        }
        if group == overflow_group() {
            return Some(UntrustedWriter::UnmappedGroup);
        }
        let name = self.accounts().group_name(group);
        Some(match self.accounts().unreadable() {
            Some(reason) => UntrustedWriter::UnknownMembers(name, reason.to_owned()),
            None => UntrustedWriter::Group(name),
        })
    }
}

/// Puts the steps of a path before the remaining steps.
fn push_steps(remaining: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => remaining.push_front(name.to_owned()),
            Component::ParentDir => remaining.push_front(OsStr::new("..").to_owned()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

/// A step of a path, opened without following a symlink. The checks use this open file, even if
/// the path now leads to another one. Only an access control list is read by path.
struct Step {
    handle: OwnedFd,
    metadata: Metadata,
}

impl Step {
    /// Opens a step. A confined process has all rights that this needs.
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(CWD, path, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        let handle = file.into();
        Ok(Self { handle, metadata })
    }

    /// Returns the target of a symlink.
    fn target(&self) -> io::Result<PathBuf> {
        let target = readlinkat(&self.handle, "", Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Returns whether this is a link such as `/proc/1/root`. The kernel follows such a link
    /// without using its text, for example into another mount namespace.
    fn is_link_of_process(&self) -> bool {
        self.metadata.is_symlink()
            && fstatfs(&self.handle).is_ok_and(|system| system.f_type == PROC_SUPER_MAGIC)
            && self.target().is_ok_and(|target| target.is_absolute())
    }

    /// Returns whether the mount is read-only.
    fn is_read_only(&self) -> bool {
        fstatvfs(&self.handle).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY))
    }
}

/// Returns whether an access control list names further users. The group bits of the mode are then
/// the maximum rights of these users.
fn has_access_list(path: &Path) -> bool {
    let mut start = [0; 64];
    let found = rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut start[..]);
    matches!(found, Ok(1..) | Err(Errno::RANGE))
}
