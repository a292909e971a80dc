//! The users and groups of `/etc/passwd` and `/etc/group`. Those that a name
//! service knows beside these files are known by their numbers alone, and their
//! groups are no one's private ones.

use std::collections::BTreeSet;

/// Users and groups.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    users: Vec<User>,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct User {
    name: String,
    id: u32,
    group: u32,
}

#[derive(Debug)]
struct Group {
    name: String,
    id: u32,
    members: Vec<String>,
}

impl Accounts {
    /// Reads both files. A file that cannot be read names nobody.
    pub(super) fn read() -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self::parse(&text("/etc/passwd"), &text("/etc/group"))
    }

    fn parse(passwd: &str, group: &str) -> Self {
        let users = passwd.lines().filter_map(|line| {
            let mut fields = line.split(':');
            Some(User {
                name: fields.next()?.to_owned(),
                id: fields.nth(1)?.parse().ok()?,
                group: fields.next()?.parse().ok()?,
            })
        });
        let groups = group.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?.to_owned();
            let id = fields.nth(1)?.parse().ok()?;
            let members = fields.next()?.split(',').filter(|name| !name.is_empty());
            Some(Group {
                name,
                id,
                members: members.map(str::to_owned).collect(),
            })
        });
        Self {
            users: users.collect(),
            groups: groups.collect(),
        }
    }

    /// The members of a group: those that it lists, and the users whose own
    /// group it is. None where they are not all known, or where there is none.
    pub(super) fn members(&self, id: u32) -> Option<BTreeSet<u32>> {
        let own = self.users.iter().filter(|user| user.group == id);
        let mut members: BTreeSet<u32> = own.map(|user| user.id).collect();
        for group in self.groups.iter().filter(|group| group.id == id) {
            for name in &group.members {
                members.insert(self.user_id(name)?);
            }
        }
        (!members.is_empty()).then_some(members)
    }

    /// A user's name, or the number where it has none.
    pub(super) fn user(&self, id: u32) -> String {
        let user = self.users.iter().find(|user| user.id == id);
        user.map_or_else(|| id.to_string(), |user| user.name.clone())
    }

    /// A group's name, or the number where it has none.
    pub(super) fn group(&self, id: u32) -> String {
        let group = self.groups.iter().find(|group| group.id == id);
        group.map_or_else(|| id.to_string(), |group| group.name.clone())
    }

    /// The number of a user, by name or by the number itself.
    pub(super) fn user_id(&self, name: &str) -> Option<u32> {
        let user = self.users.iter().find(|user| user.name == name);
        user.map(|user| user.id).or_else(|| name.parse().ok())
    }

    /// The number of a group, by name or by the number itself.
    pub(super) fn group_id(&self, name: &str) -> Option<u32> {
        let group = self.groups.iter().find(|group| group.name == name);
        group.map(|group| group.id).or_else(|| name.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_those_listed_and_those_whose_own_group_it_is() {
        let accounts = Accounts::parse(
            "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\nbob:x:1001:100::/:\nbroken\n",
            "root:x:0:\nann:x:1000:\nusers:x:100:ann\nmail:x:8:\nodd:x:9:nobody\n+\n",
        );
        let members = |id| accounts.members(id).map(Vec::from_iter);
        assert_eq!(members(0), Some(vec![0]));
        assert_eq!(members(1000), Some(vec![1000]));
        assert_eq!(members(100), Some(vec![1000, 1001]));
        for nobody_knows in [8, 9, 77] {
            assert_eq!(members(nobody_knows), None, "{nobody_knows}");
        }
        assert_eq!(
            (accounts.user(1001), accounts.user(7)),
            ("bob".into(), "7".into())
        );
        assert_eq!(
            (accounts.group(100), accounts.group(7)),
            ("users".into(), "7".into())
        );
    }
}
