//! Descriptors that this process inherited when it started, besides stdin, stdout and stderr.
//! They are closed because the process sandbox does not restrict open descriptors.

use std::fs;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::sync::Mutex;

/// The recorded descriptors that are still open, or `None` if none were recorded yet.
static INHERITED: Mutex<Option<Vec<RawFd>>> = Mutex::new(None);

/// Records which descriptors are open. Must be called before the program opens anything. Later
/// calls do nothing.
pub fn record_inherited_descriptors() {
    let Ok(mut inherited) = INHERITED.lock() else {
        return;
    };
    if inherited.is_some() {
        return;
    }
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut open: Vec<RawFd> = names.filter_map(|name| name.parse().ok()).collect();
    // `names` includes the descriptor of the listed folder itself, which is closed by now.
    let is_open = |number: &RawFd| fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
    open.retain(|number| *number > 2 && is_open(number));
    *inherited = Some(open);
}

/// Closes the recorded descriptors.
pub fn close_inherited_descriptors() {
    let Ok(mut inherited) = INHERITED.lock() else {
        return;
    };
    for number in inherited.replace(Vec::new()).into_iter().flatten() {
        #[allow(
            unsafe_code,
            reason = "the process inherited this descriptor, nothing here owns it, and it leaves \
                      the list before it is closed"
        )]
        // SAFETY: nothing else owns or closes the descriptor, as the reason above says.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}
