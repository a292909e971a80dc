//! The user of this process, and the overflow user and group, which represent all users and
//! groups that a user namespace does not map.

use std::sync::LazyLock;

/// The users and groups of this process and its user namespace, as the kernel reports them.
/// They are read once, because a confined process cannot read them.
struct UserNamespace {
    overflow_user: u32,
    overflow_group: u32,
    /// True if all users have the same numbers as in the initial namespace.
    maps_all_users: bool,
    /// True if all groups have the same numbers as in the initial namespace.
    maps_all_groups: bool,
    own_groups: Vec<u32>,
}

static NAMESPACE: LazyLock<UserNamespace> = LazyLock::new(|| {
    let map = |file| std::fs::read_to_string(file).unwrap_or_default();
    UserNamespace {
        overflow_user: overflow_number("/proc/sys/kernel/overflowuid"),
        overflow_group: overflow_number("/proc/sys/kernel/overflowgid"),
        maps_all_users: maps_all_numbers(&map("/proc/self/uid_map")),
        maps_all_groups: maps_all_numbers(&map("/proc/self/gid_map")),
        own_groups: own_groups_now(),
    }
});

/// Reads the files that a confined process cannot read.
pub(crate) fn read_before_confinement() {
    LazyLock::force(&NAMESPACE);
}

/// Returns whether a user id is this process's own. Returns `false` for the overflow user
/// in a user namespace, because every unmapped user has its id.
pub fn is_own_user(user: u32) -> bool {
    let is_shared = user == overflow_user() && !is_in_initial_namespace();
    user == rustix::process::geteuid().as_raw() && !is_shared
}

/// Returns whether all users have the same numbers here as in the initial user namespace.
pub(crate) fn is_in_initial_namespace() -> bool {
    NAMESPACE.maps_all_users
}

/// Returns whether all groups have the same numbers here as in the initial user namespace.
/// Otherwise a group can have another number outside this namespace, and members that the account
/// files here do not list.
pub(crate) fn has_groups_of_initial_namespace() -> bool {
    NAMESPACE.maps_all_groups
}

/// Returns the groups of this process.
pub(crate) fn own_groups() -> &'static [u32] {
    &NAMESPACE.own_groups
}

/// Returns whether this process is in a group. Returns `false` for the overflow group, because it
/// represents every group that a user namespace does not map.
pub(crate) fn is_own_group(group: u32) -> bool {
    group != overflow_group() && own_groups().contains(&group)
}

fn own_groups_now() -> Vec<u32> {
    let mut groups = rustix::process::getgroups().unwrap_or_default();
    groups.push(rustix::process::getegid());
    groups.into_iter().map(|group| group.as_raw()).collect()
}

/// Returns the number of the overflow user.
pub fn overflow_user() -> u32 {
    NAMESPACE.overflow_user
}

/// Returns the number of the overflow group.
pub(crate) fn overflow_group() -> u32 {
    NAMESPACE.overflow_group
}

/// Returns whether the user namespace maps all users or groups to their own numbers, as the
/// initial one does.
fn maps_all_numbers(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn overflow_number(setting: &str) -> u32 {
    let number = std::fs::read_to_string(setting);
    let number = number.ok().and_then(|text| text.trim().parse().ok());
    number.unwrap_or(65_534)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_initial_namespace_maps_all_users() {
        for (map, expected) in [
            ("         0          0 4294967295\n", true),
            ("     65534          0          1\n", false),
            ("         0     100000      65536\n", false),
            ("0 0 1\n1 1 4294967294\n", false),
            ("", false),
        ] {
            assert_eq!(maps_all_numbers(map), expected, "{map}");
        }
    }
}
