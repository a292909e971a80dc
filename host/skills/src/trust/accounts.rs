//! The users and groups of `/etc/passwd` and `/etc/group`.
//!
//! Users and groups of a name service have only numbers here, and the members of such groups
//! are unknown. If a line of these files is unreadable, the members of every group are unknown,
//! because the line could name another member. They are also unknown in a user namespace, because
//! a group can have members outside of it.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;

use crate::broker::Opener;
use crate::own_user::{has_groups_of_initial_namespace, own_groups};
use crate::regular_file;

/// The file with the users.
const PASSWD: &str = "/etc/passwd";

/// The file with the groups.
const GROUP: &str = "/etc/group";

/// Users and groups.
#[derive(Debug, Default, Clone)]
pub(super) struct Accounts {
    users: Vec<UserEntry>,
    groups: Vec<GroupEntry>,
    /// True if every line could be read, and no group has members outside of this namespace.
    complete: bool,
    /// The reason why a file could not be read.
    unreadable: Option<String>,
    /// The user and the groups of this process.
    own: Option<(u32, Vec<u32>)>,
}

#[derive(Debug, Clone)]
struct UserEntry {
    name: String,
    id: u32,
    group: u32,
}

#[derive(Debug, Clone)]
struct GroupEntry {
    name: String,
    id: u32,
    members: Vec<String>,
}

impl Accounts {
    /// Reads both files.
    pub(super) fn read(opener: &Opener) -> Self {
        let mut unreadable = None;
        let [passwd, group] = [PASSWD, GROUP].map(|path| {
            // A file that cannot be read is treated as one unreadable line.
            read_file(path, opener).unwrap_or_else(|error| {
                unreadable.get_or_insert(format!("{error:#}"));
                b"?".to_vec()
            })
        });
        let accounts = Self::parse(
            &String::from_utf8_lossy(&passwd),
            &String::from_utf8_lossy(&group),
        );
        Self {
            unreadable,
            complete: accounts.complete && has_groups_of_initial_namespace(),
            own: Some((rustix::process::geteuid().as_raw(), own_groups().to_vec())),
            ..accounts
        }
    }

    pub(super) fn parse(passwd: &str, group: &str) -> Self {
        let mut accounts = Self {
            complete: true,
            ..Self::default()
        };
        for line in lines(passwd) {
            let user = || {
                let mut fields = line.split(':');
                Some(UserEntry {
                    name: fields.next()?.to_owned(),
                    id: fields.nth(1)?.parse().ok()?,
                    group: fields.next()?.parse().ok()?,
                })
            };
            match user() {
                Some(user) => accounts.users.push(user),
                None => accounts.complete = false,
            }
        }
        for line in lines(group) {
            let group = || {
                let mut fields = line.split(':');
                let name = fields.next()?.to_owned();
                let id = fields.nth(1)?.parse().ok()?;
                let members = fields.next()?.split(',').filter(|name| !name.is_empty());
                let members = members.map(str::to_owned).collect();
                Some(GroupEntry { name, id, members })
            };
            match group() {
                Some(group) => accounts.groups.push(group),
                None => accounts.complete = false,
            }
        }
        accounts
    }

    /// Returns the members of a group: the users that it lists, and the users with it as their
    /// primary group.
    ///
    /// Returns `None` if some members are unknown or there are no members. Some are unknown if
    /// this process is in the group but its user is not listed.
    pub(super) fn members(&self, id: u32) -> Option<BTreeSet<u32>> {
        let is_listed = self.groups.iter().any(|group| group.id == id);
        if !self.complete || !is_listed {
            return None;
        }
        let primary = self.users.iter().filter(|user| user.group == id);
        let mut members: BTreeSet<u32> = primary.map(|user| user.id).collect();
        for group in self.groups.iter().filter(|group| group.id == id) {
            for name in &group.members {
                // A number in this list is a login name.
                members.insert(self.id_by_name(name)?);
            }
        }
        let is_unlisted =
            |(user, groups): &(u32, Vec<u32>)| groups.contains(&id) && !members.contains(user);
        if members.is_empty() || self.own.as_ref().is_some_and(is_unlisted) {
            return None;
        }
        Some(members)
    }

    /// Returns the reason why a file could not be read, or `None` if both were read. With a reason,
    /// the members of all groups are unknown.
    pub(super) fn unreadable(&self) -> Option<&str> {
        self.unreadable.as_deref()
    }

    /// Returns a user's name, or the number as text if the user has no name.
    pub(super) fn user_name(&self, id: u32) -> String {
        let user = self.users.iter().find(|user| user.id == id);
        user.map_or_else(|| id.to_string(), |user| user.name.clone())
    }

    /// Returns a group's name, or the number as text if the group has no name.
    pub(super) fn group_name(&self, id: u32) -> String {
        let group = self.groups.iter().find(|group| group.id == id);
        group.map_or_else(|| id.to_string(), |group| group.name.clone())
    }

    /// Returns the number of a user, from a name or the number itself.
    pub(super) fn user_id(&self, name: &str) -> Option<u32> {
        number(name).or_else(|| self.id_by_name(name))
    }

    fn id_by_name(&self, name: &str) -> Option<u32> {
        let user = self.users.iter().find(|user| user.name == name);
        user.map(|user| user.id)
    }

    /// Returns the number of a group, from a name or the number itself.
    pub(super) fn group_id(&self, name: &str) -> Option<u32> {
        let group = self.groups.iter().find(|group| group.name == name);
        number(name).or_else(|| group.map(|group| group.id))
    }
}

/// Reads a file that lists users or groups.
fn read_file(path: &str, opener: &Opener) -> anyhow::Result<Vec<u8>> {
    let read = || -> anyhow::Result<_> {
        let mut bytes = Vec::new();
        regular_file::open(Path::new(path), opener)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().with_context(|| format!("cannot read `{path}`"))
}

/// Parses the number of a user or group. The highest number is not valid.
fn number(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| *number != u32::MAX);
    number.filter(|_| is_number)
}

/// Returns the lines that are neither blank nor comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_include_users_by_primary_group() {
        let accounts = Accounts::parse(
            "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\nbob:x:1001:100::/:\n\n",
            "root:x:0:\nann:x:1000:\nusers:x:100:ann\nmail:x:8:\nodd:x:9:nobody\n# text\n",
        );
        let members = |id| accounts.members(id).map(Vec::from_iter);
        assert_eq!(members(0), Some(vec![0]));
        assert_eq!(members(1000), Some(vec![1000]));
        assert_eq!(members(100), Some(vec![1000, 1001]));
        for unknown in [8, 9, 77] {
            assert_eq!(members(unknown), None, "{unknown}");
        }
        assert_eq!(
            (accounts.user_name(1001), accounts.user_name(7)),
            ("bob".into(), "7".into())
        );
        assert_eq!(
            (accounts.group_name(100), accounts.group_name(7)),
            ("users".into(), "7".into())
        );
    }

    #[test]
    fn members_are_login_names_even_if_numeric() {
        let accounts = Accounts::parse(
            "root:x:0:0::/:\n0:x:35000:35000::/:\n",
            "proj:x:5500:0\nodd:x:5501:7\n",
        );
        assert_eq!(
            accounts.members(5500).map(Vec::from_iter),
            Some(vec![35_000])
        );
        // No user has the login name `7`.
        assert_eq!(accounts.members(5501), None);
    }

    #[test]
    fn groups_of_this_process_must_list_its_user() {
        let mut accounts = Accounts::parse(
            "root:x:0:0::/:\nann:x:1000:1000::/:\n",
            "root:x:0:\nann:x:1000:\nours:x:50:root,ann\n",
        );
        for (user, groups, known) in [
            (0, vec![0], [true, true, true]),
            (1000, vec![1000, 50], [true, true, true]),
            // As container platforms start programs: any user, group 0.
            (2001, vec![0], [false, true, true]),
            (2001, vec![7, 50], [true, true, false]),
        ] {
            accounts.own = Some((user, groups));
            let members = [0, 1000, 50].map(|id| accounts.members(id).is_some());
            assert_eq!(members, known, "{user}");
        }
    }

    #[test]
    fn names_the_unreadable_file_if_members_are_unknown() {
        use std::os::unix::fs::PermissionsExt as _;

        use crate::trust::Trust;
        use crate::trust::walk::PathWalk;

        let folder = tempfile::tempdir().unwrap();
        let mode = std::fs::Permissions::from_mode(0o775);
        std::fs::set_permissions(folder.path(), mode).unwrap();
        let reason = "cannot read `/etc/passwd`: Permission denied";
        for unreadable in [None, Some(reason.to_owned())] {
            let is_named = unreadable.is_some();
            let accounts = Accounts {
                unreadable,
                ..Accounts::default()
            };
            let trust = Trust::new();
            let checked = PathWalk::new(&trust)
                .with_accounts(accounts)
                .check_to_end(folder.path(), false);
            let error = checked.unwrap_err().to_string();
            assert!(error.contains("the group "), "{error}");
            assert_eq!(error.contains(reason), is_named, "{error}");
        }
    }

    #[test]
    fn unreadable_line_makes_all_members_unknown() {
        let (ann, group) = ("ann:x:1000:1000::/:\n", "ann:x:1000:\n");
        let members = |passwd: &str, group: &str| Accounts::parse(passwd, group).members(1000);
        assert!(members(ann, group).is_some());
        for more in [
            "broken\n",
            "+\n",
            "+::::::\n",
            "bob:x:one:1000\n",
            "bob:x:1\n",
        ] {
            assert!(members(&format!("{ann}{more}"), group).is_none(), "{more}");
            assert!(members(ann, &format!("{group}{more}")).is_none(), "{more}");
        }
        assert!(members(ann, "").is_none(), "unknown group");
    }
}
