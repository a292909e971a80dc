//! The scripts of the call's skill that the operator allows this component to run.

use alloc::vec::Vec;

pub use crate::bindings::scripts::Refusal;

/// The bytes of a script of the skill, as they are on the host's disk. The audit log
/// says that this call runs it. Needs a host that knows version 0.1.1 of the package.
pub fn start(path: &str) -> Result<Vec<u8>, Refusal> {
    crate::bindings::scripts::start(path)
}

/// The bytes of a module of the script that was started, as they are on the host's disk.
/// Refuses what the call itself has written: as not found if the skill has nothing at
/// that path on the disk, otherwise as not granted.
pub fn load_module(path: &str) -> Result<Vec<u8>, Refusal> {
    crate::bindings::scripts::load_module(path)
}

/// Tells the exit code of the script that was started.
pub fn finished(exit_code: i32) {
    crate::bindings::scripts::finished(exit_code);
}
