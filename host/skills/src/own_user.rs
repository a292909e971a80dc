//! The user of this process, and the overflow user, which represents all users that a user
//! namespace does not map.

use std::sync::LazyLock;

/// Returns whether a user id is this process's own. Returns `false` for the overflow user
/// in a user namespace, because every unmapped user has its id.
pub fn is_own_user(user: u32) -> bool {
    /// Read once, because a confined process cannot read it.
    static IS_SHARED: LazyLock<bool> = LazyLock::new(|| {
        let own = rustix::process::geteuid().as_raw();
        let map = || std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        own == overflow_user() && !maps_all_users(&map())
    });
    let is_shared = *IS_SHARED;
    user == rustix::process::geteuid().as_raw() && !is_shared
}

/// Returns whether the user namespace maps all users to their own numbers, as the initial
/// one does.
fn maps_all_users(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Returns the number of the overflow user.
pub fn overflow_user() -> u32 {
    let number = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    let number = number.ok().and_then(|text| text.trim().parse().ok());
    number.unwrap_or(65_534)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_namespace_has_all_users() {
        for (map, expected) in [
            ("         0          0 4294967295\n", true),
            ("     65534          0          1\n", false),
            ("         0     100000      65536\n", false),
            ("0 0 1\n1 1 4294967294\n", false),
            ("", false),
        ] {
            assert_eq!(maps_all_users(map), expected, "{map}");
        }
    }
}
