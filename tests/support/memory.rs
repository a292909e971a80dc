//! The memory of processes, from `/proc`.

use std::fs;

/// Returns the resident memory of this process in bytes.
pub(crate) fn resident() -> usize {
    status("self", "VmRSS:")
}

/// Returns the bytes of a line in a process's status: `VmRSS:` is the resident memory, `VmHWM:`
/// its peak.
pub(crate) fn status(process: &str, line: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|found| found.strip_prefix(line));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<usize>().unwrap() << 10
}
