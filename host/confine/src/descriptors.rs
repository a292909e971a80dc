//! Descriptors that the process was started with, beyond its three streams. Nobody here
//! knows what they lead to: behind the wall they would keep all their rights.

use std::fs;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::sync::Mutex;

/// The descriptors that nobody has closed yet, once they were looked for.
static INHERITED: Mutex<Option<Vec<RawFd>>> = Mutex::new(None);

/// Notes which descriptors there are. Call it first of all: what is opened later belongs
/// to whoever opens it. The first time counts.
pub fn note_inherited() {
    let Ok(mut inherited) = INHERITED.lock() else {
        return;
    };
    if inherited.is_some() {
        return;
    }
    let names = fs::read_dir("/proc/self/fd").into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut found: Vec<RawFd> = names.filter_map(|name| name.parse().ok()).collect();
    // The one by which they are listed is the first that was free, and is closed by now.
    let is_open = |number: &RawFd| fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
    found.retain(|number| *number > 2 && is_open(number));
    *inherited = Some(found);
}

/// Closes them.
pub fn close_inherited() {
    let Ok(mut inherited) = INHERITED.lock() else {
        return;
    };
    for number in inherited.replace(Vec::new()).into_iter().flatten() {
        #[allow(
            unsafe_code,
            reason = "the process was started with it, nothing here has taken it, and it is \
                      taken off the list before it is closed"
        )]
        // SAFETY: as above.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}
