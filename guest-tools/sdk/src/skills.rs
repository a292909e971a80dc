//! Lists and searches the skills that the call may see.

use alloc::format;
use alloc::vec::Vec;

use crate::Failure;

pub use crate::bindings::skills::{Coverage, SearchHit, SearchResult, Skill, SkillPage};

/// Returns the current skills, sorted by name.
pub fn list() -> Vec<Skill> {
    crate::bindings::skills::list()
}

/// Returns at most `limit` skills, sorted by name. `from` is a name or the `next` of a page. A page
/// with a `next` may be empty. Needs a host with version 0.1.1 of the package `skillhost:tool`.
pub fn page(from: Option<&str>, limit: u32) -> SkillPage {
    crate::bindings::skills::page(from, limit)
}

/// Returns at most `limit` skills that match a request in plain words, best first. Needs a
/// host with version 0.1.1 of the package `skillhost:tool`.
pub fn find(query: &str, limit: u32) -> SearchResult {
    crate::bindings::skills::find(query, limit)
}

/// The maximum number of bytes in a request. Guards against: a model that passes a whole
/// document, which shares a word with every skill.
const MAX_QUERY_BYTES: usize = 2000;

/// Returns a request without the white space around it. Fails if it is too long or has no
/// word.
pub fn check_query(query: &str) -> Result<&str, Failure> {
    let query = query.trim();
    if query.len() > MAX_QUERY_BYTES {
        return Err(Failure::invalid_arguments(format!(
            "The query has {} bytes, and {MAX_QUERY_BYTES} are allowed: say in a sentence what the \
             task needs.",
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
