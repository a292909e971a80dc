//! Writes text that people or programs read: numbers with nouns, similar names, JSON, TOML keys,
//! digests, media types, and lines without hidden characters.

pub mod ascii_json;
pub mod count;
pub mod digest;
pub mod hidden;
pub mod json_string;
pub mod line;
pub mod media_type;
pub mod raw_json;
pub mod suggest;
pub mod toml;
