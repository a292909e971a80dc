//! Properties of the machine: the memory available to this process (the machine's, or the
//! limit of its control group), and processors.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

/// The memory to assume if the real amount is unknown, in bytes.
const ASSUMED_MEMORY: usize = 1 << 30;

/// Returns the memory available to this process, in bytes. Caches the first result.
pub(super) fn memory() -> usize {
    static MEMORY: OnceLock<usize> = OnceLock::new();
    *MEMORY.get_or_init(|| read_memory(Path::new("/")))
}

/// Reads the available memory. `root` has the folders `/proc` and `/sys`.
fn read_memory(root: &Path) -> usize {
    let machine = read_number(&root.join("proc/meminfo"), |text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib: usize = line?.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
        kib.checked_mul(1 << 10)
    });
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        lowest_limit(&root.join(mount), Path::new(group), file)
    });
    limits.chain(machine).min().unwrap_or(ASSUMED_MEMORY)
}

/// Returns the lowest limit of a group and its ancestors. In a container, the group's name can
/// be one that is valid only outside the container. Then only the root of the mount exists.
fn lowest_limit(mount: &Path, group: &Path, file: &str) -> Option<usize> {
    let below = group.components().filter_map(|part| match part {
        Component::Normal(name) => Some(Path::new(name)),
        _ => None,
    });
    let group = mount.join(below.collect::<PathBuf>());
    let groups = group
        .ancestors()
        .take_while(|group| group.starts_with(mount));
    groups
        // "max" is not a number, and means no limit.
        .filter_map(|group| read_number(&group.join(file), |text| text.trim().parse().ok()))
        .min()
}

/// Returns the number of processors available to this process. Caches the first result.
pub fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

fn read_number(path: &Path, parse: impl FnOnce(&str) -> Option<usize>) -> Option<usize> {
    parse(&fs::read_to_string(path).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_lowest_limit_of_machine_and_groups() {
        const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:    8000 kB\nMemFree: 1 kB\n");
        const GROUPS: &str = "proc/self/cgroup";
        let cases: [(&[(&str, &str)], usize); 9] = [
            (&[], ASSUMED_MEMORY),
            (&[MACHINE], 8000 << 10),
            (
                &[
                    MACHINE,
                    (GROUPS, "0::/a/b\n"),
                    ("sys/fs/cgroup/a/b/memory.max", "5000\n"),
                ],
                5000,
            ),
            // The parent group allows less.
            (
                &[
                    MACHINE,
                    (GROUPS, "0::/a/b\n"),
                    ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                    ("sys/fs/cgroup/a/memory.max", "4000\n"),
                ],
                4000,
            ),
            // In a container.
            (
                &[
                    MACHINE,
                    (GROUPS, "0::/\n"),
                    ("sys/fs/cgroup/memory.max", "3000\n"),
                ],
                3000,
            ),
            (
                &[
                    MACHINE,
                    (GROUPS, "0::/../x\n"),
                    ("sys/fs/cgroup/memory.max", "3000\n"),
                ],
                3000,
            ),
            (
                &[
                    MACHINE,
                    (GROUPS, "9:name=systemd:/\n4:cpu,memory:/a\n0::/\n"),
                    ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000\n"),
                    (
                        "sys/fs/cgroup/memory/memory.limit_in_bytes",
                        "9223372036854771712\n",
                    ),
                ],
                2000,
            ),
            // The process is not in the group `/b` of the memory controller.
            (
                &[
                    (GROUPS, "4:memory:/a\n2:cpu:/b\n"),
                    ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000\n"),
                    ("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "1000\n"),
                ],
                2000,
            ),
            (&[MACHINE, (GROUPS, "no group\n\n0::\n:::")], 8000 << 10),
        ];
        for (files, expected) in cases {
            let root = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            assert_eq!(read_memory(root.path()), expected, "{files:?}");
        }
    }

    #[test]
    fn finds_memory_and_processors_of_this_machine() {
        assert!((1 << 20..1 << 50).contains(&memory()));
        let available = thread::available_parallelism().unwrap();
        assert_eq!(processors(), available.get());
    }
}
