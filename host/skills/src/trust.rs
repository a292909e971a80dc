//! Trust in the files that hold code and rules: configurations, tools folders, components and
//! audit logs. The host trusts them if only root, the user who runs the host, and users that the
//! operator names can change them. Skills are data, and may belong to anyone.
//!
//! This file has the trusted users and groups. In `trust/`, `walk.rs` checks each step of a path,
//! `fuse.rs` finds the user who runs a FUSE file system and can make up its owners, `error.rs`
//! describes a step that fails, `accounts.rs` reads users and groups, and `own_folder.rs` opens
//! folders that no other user can write.

mod accounts;
mod error;
mod fuse;
mod own_folder;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::str::FromStr;

use crate::broker::Opener;
use crate::own_user::{self, is_in_initial_namespace, is_own_user, overflow_group};
use accounts::Accounts;
use fuse::{FuseUser, fuse_user};
use walk::PathWalk;

pub use error::TrustError;
pub use own_folder::is_ours_alone;
pub use own_folder::own_folder;

/// Reads and opens the system's files that a confined process needs for checks of trust.
pub fn read_before_confinement() {
    own_user::read_before_confinement();
    fuse::open_before_confinement();
}

/// The users and groups who are allowed to change the files that the host trusts, besides root
/// and the user who runs it.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    principals: Vec<Principal>,
    /// The opener of `/etc/passwd` and `/etc/group`, and of files that are read with this trust.
    opener: Opener,
}

/// A user or a group whose files are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Principal {
    /// Every user, for a file system that has no owners and modes.
    Everyone,
    /// A user, by number.
    User(u32),
    /// Every member of a group, by number.
    Group(u32),
}

impl Trust {
    /// Trusts nobody but root and the user who runs the host.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the further users and groups whose files are trusted.
    pub fn principals(&self) -> &[Principal] {
        &self.principals
    }

    /// Trusts files of this user or group as well.
    #[must_use]
    pub fn and(mut self, principal: Principal) -> Self {
        self.principals.push(principal);
        self
    }

    /// Returns the same trust with an opener for `/etc/passwd`, `/etc/group` and configurations.
    /// The process sandbox refuses these files if they were replaced after the start.
    #[must_use]
    pub fn with_opener(&self, opener: &Opener) -> Self {
        Self {
            opener: opener.clone(),
            ..self.clone()
        }
    }

    /// Returns the opener of files that are read with this trust.
    pub fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Checks a file or folder, which must exist. Returns its owner.
    ///
    /// # Errors
    ///
    /// If an untrusted user can change a step of its path, or a step cannot be read.
    pub fn check(&self, path: &Path) -> Result<u32, TrustError> {
        PathWalk::new(self).check_to_end(path, false)
    }

    /// Checks every step of a path except the file or folder at its end.
    ///
    /// # Errors
    ///
    /// If an untrusted user can replace the file or folder.
    pub fn check_ancestors(&self, path: &Path) -> Result<(), TrustError> {
        match self.check(path) {
            Err(TrustError::Changeable(step)) if !step.is_end => Err(TrustError::Changeable(step)),
            _ => Ok(()),
        }
    }

    /// Checks the folder of a file. The file itself can be missing.
    pub fn check_parent(&self, path: &Path) -> Result<(), TrustError> {
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        self.check_parent_of_new(parent)
    }

    /// Checks a folder in which a file or folder will be created. Accepts a sticky folder such as
    /// `/tmp`, because others cannot replace a file in it.
    fn check_parent_of_new(&self, folder: &Path) -> Result<(), TrustError> {
        PathWalk::new(self).check_to_end(folder, true).map(drop)
    }

    /// Returns whether a user's files are trusted.
    pub fn has_user(&self, user: u32) -> bool {
        user == 0 || is_own_user(user) || self.names_user(user)
    }

    /// Returns the users whose files are trusted, or `None` if all users are trusted.
    pub fn users(&self) -> Option<Vec<u32>> {
        let own = Some(rustix::process::geteuid().as_raw()).filter(|user| is_own_user(*user));
        let named = self
            .principals
            .iter()
            .filter_map(|principal| match principal {
                Principal::User(user) => Some(*user),
                Principal::Group(_) | Principal::Everyone => None,
            });
        (!self.has_everyone()).then(|| named.chain(own).chain([0]).collect())
    }

    /// Returns whether the owner and mode of an open file are reliable. Returns `false` if an
    /// untrusted user can make them up.
    ///
    /// # Errors
    ///
    /// If the file's file system is unknown.
    pub fn believes_owner_of(&self, file: impl AsFd) -> io::Result<bool> {
        Ok(self.untrusted_fuse_user(file)?.is_none())
    }

    /// Returns the user who runs the FUSE file system of an open file, unless that user is
    /// trusted.
    fn untrusted_fuse_user(&self, file: impl AsFd) -> io::Result<Option<FuseUser>> {
        if self.has_everyone() {
            return Ok(None);
        }
        let is_trusted = |user: &FuseUser| match user {
            FuseUser::Number(user) => self.has_fuse_user(*user),
            FuseUser::Unknown => false,
        };
        Ok(fuse_user(file)?.filter(|user| !is_trusted(user)))
    }

    /// Returns whether to believe the owners that this user's FUSE file system reports.
    ///
    /// The mount table has the user's number in the namespace of the mount. If this process is
    /// in another namespace, its own number may mean another user there.
    fn has_fuse_user(&self, user: u32) -> bool {
        let is_own = is_own_user(user) && is_in_initial_namespace();
        user == 0 || is_own || self.names_user(user)
    }

    fn names_user(&self, user: u32) -> bool {
        self.has_everyone() || self.principals.contains(&Principal::User(user))
    }

    fn has_everyone(&self) -> bool {
        self.principals.contains(&Principal::Everyone)
    }

    /// Returns whether the members of a group are trusted. The members of the overflow group are
    /// unknown, because it represents every unmapped group.
    fn has_group(&self, group: u32, accounts: &Accounts) -> bool {
        let members = || {
            accounts
                .members(group)
                .filter(|_| group != overflow_group())
        };
        self.principals.contains(&Principal::Group(group))
            || members().is_some_and(|members| members.iter().all(|user| self.has_user(*user)))
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everyone => f.write_str("everyone"),
            Self::User(user) => write!(f, "user:{user}"),
            Self::Group(group) => write!(f, "group:{group}"),
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
            .ok_or("expected `user:NAME` or `group:NAME`, with a name or number, or `everyone`")?;
        let accounts = Accounts::read(&Opener::DIRECT);
        let unknown = || format!("unknown {kind} `{name}`; a number is always accepted");
        match kind {
            "user" => accounts.user_id(name).map(Self::User).ok_or_else(unknown),
            "group" => accounts.group_id(name).map(Self::Group).ok_or_else(unknown),
            _ => Err(format!("expected user:… or group:…, not `{kind}:…`")),
        }
    }
}
