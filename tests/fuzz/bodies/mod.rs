//! What each fuzz target does with its input: plain functions, which panic
//! when something does not hold. `fuzz_targets/` gives them to libFuzzer,
//! `tests/fuzzing.rs` runs each of them for a moment.

pub(crate) mod arguments;
pub(crate) mod call;
pub(crate) mod component;
pub(crate) mod config;
pub(crate) mod frontmatter;
pub(crate) mod path;
pub(crate) mod search;
pub(crate) mod view;
