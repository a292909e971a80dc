//! The memory of processes, from `/proc`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;

/// Returns the resident memory of this process in bytes.
pub(crate) fn resident() -> usize {
    status("self", "VmRSS:")
}

/// Returns the value of a line in a process's status, in bytes: `VmRSS:` is the resident memory,
/// `VmHWM:` its peak.
pub(crate) fn status(process: &str, line: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|found| found.strip_prefix(line));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<usize>().unwrap() << 10
}

/// Counts how often a text occurs in the readable memory of a process. A running process changes
/// its memory meanwhile.
///
/// # Errors
///
/// Fails if this process cannot read the memory, or if the other process has ended.
pub(crate) fn count(process: u32, text: &str) -> io::Result<usize> {
    let text = text.as_bytes();
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let memory = File::open(format!("/proc/{process}/mem"))?;
    let mut found = 0;
    for map in maps.lines() {
        let mut words = map.split_ascii_whitespace();
        let (range, rights) = (words.next().unwrap(), words.next().unwrap());
        // Pages of the kernel in a process, such as `[vvar]`, cannot be read.
        if !rights.starts_with('r') || map.contains("[v") {
            continue;
        }
        let (start, end) = range.split_once('-').unwrap();
        let [mut start, end] = [start, end].map(|bound| u64::from_str_radix(bound, 16).unwrap());
        let mut piece = vec![0; PIECE];
        while start < end {
            let length = PIECE.min(usize::try_from(end - start).unwrap());
            // The mapping may be gone by now, or its pages may lie beyond the end of its file.
            let Ok(read) = memory.read_at(&mut piece[..length], start) else {
                break;
            };
            let bytes = &piece[..read];
            found += memchr::memmem::find_iter(bytes, text).count();
            if read < length || start + length as u64 == end {
                break;
            }
            // The next piece repeats the last bytes, because the text may start in them.
            start += (length - (text.len() - 1)) as u64;
        }
    }
    Ok(found)
}

/// The size of the pieces in which a process's memory is searched, in bytes.
const PIECE: usize = 1 << 20;
