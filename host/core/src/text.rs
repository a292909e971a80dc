//! Text that people or programs read: similar names, JSON strings, TOML keys, digests,
//! media types, and lines without hidden characters.

pub(crate) mod digest;
pub(crate) mod hidden;
pub(crate) mod json_string;
pub mod line;
pub mod media_type;
pub(crate) mod suggest;
pub(crate) mod toml;
