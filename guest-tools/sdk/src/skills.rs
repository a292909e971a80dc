//! The skills that this call may know of.

use alloc::vec::Vec;

pub use crate::bindings::skills::Skill;

/// The skills, sorted by name, as they are at this moment.
pub fn list() -> Vec<Skill> {
    crate::bindings::skills::list()
}
