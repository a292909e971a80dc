//! The skills that this call may know of.

use alloc::format;
use alloc::vec::Vec;

use crate::Failure;

pub use crate::bindings::skills::{Coverage, SearchHit, SearchResult, Skill, SkillPage};

/// The skills, sorted by name, as they are at this moment.
pub fn list() -> Vec<Skill> {
    crate::bindings::skills::list()
}

/// At most `limit` skills in the order of their names, from the first whose name
/// is not before `from`. Needs a host that knows version 0.1.1 of the package.
pub fn page(from: Option<&str>, limit: u32) -> SkillPage {
    crate::bindings::skills::page(from, limit)
}

/// The skills that fit a request in plain words, best first. Needs a host that
/// knows version 0.1.1 of the package.
pub fn find(query: &str, limit: u32) -> SearchResult {
    crate::bindings::skills::find(query, limit)
}

/// The most bytes of a request. Guards against: a model that asks with a whole
/// document, in which every skill has some word.
const MAX_QUERY: usize = 2000;

/// Returns a request without the space around it. The error says what is wrong
/// with one that nothing can be found by.
pub fn check_query(query: &str) -> Result<&str, Failure> {
    let query = query.trim();
    if query.len() > MAX_QUERY {
        return Err(Failure::invalid_arguments(format!(
            "The query has {} bytes, and {MAX_QUERY} are allowed: say in a sentence what the task \
             needs.",
            query.len()
        )));
    }
    if !query.contains(char::is_alphanumeric) {
        return Err(Failure::invalid_arguments(
            "The query has no words: say in a sentence what the task needs.",
        ));
    }
    Ok(query)
}
