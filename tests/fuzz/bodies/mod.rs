//! The bodies of the fuzz targets: functions that panic if a property does not hold.
//! `fuzz_targets/` passes them to libFuzzer; `tests/fuzzing.rs` runs each for a moment.

pub(crate) mod arguments;
pub(crate) mod call;
pub(crate) mod component;
pub(crate) mod config;
pub(crate) mod frontmatter;
pub(crate) mod network;
pub(crate) mod path;
pub(crate) mod search;
pub(crate) mod view;
