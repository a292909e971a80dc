//! The scripts of the call's skill that the operator allows this component to run.

use alloc::vec::Vec;

pub use crate::bindings::scripts::Refusal;

/// Returns the bytes of a script of the skill, as they are on the host's disk. The host
/// records in the audit log that this call runs the script. Needs a host with version
/// 0.1.1 of the package `skillhost:tool`.
pub fn start(path: &str) -> Result<Vec<u8>, Refusal> {
    crate::bindings::scripts::start(path)
}

/// Returns the bytes of a module of the started script, as they are on the host's disk.
/// Refuses a file that the call itself has written: as not found if the skill has no file
/// at that path on the disk, otherwise as not granted.
pub fn load_module(path: &str) -> Result<Vec<u8>, Refusal> {
    crate::bindings::scripts::load_module(path)
}

/// Reports the exit code of the started script to the host.
pub fn finished(exit_code: i32) {
    crate::bindings::scripts::finished(exit_code);
}
