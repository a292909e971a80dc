//! Text that people or programs read: names that look alike, strings as JSON, and
//! lines without hidden characters.

pub(crate) mod json_string;
pub mod line;
pub(crate) mod suggest;
