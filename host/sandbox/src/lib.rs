//! The sandbox: runs one call of one tool in a fresh store. Also defines tools and the
//! outcomes of calls, and reads, compiles, caches, loads and inspects components.
//!
//! This crate is part of [skillhost](https://crates.io/crates/skillhost), which re-exports
//! its stable interface. The rest may change at any time.

// The layers, lowest first: a module uses only modules above it in this list.
// `cargo xtask layers` checks it.

pub mod tool;

pub mod engine;

mod open_file;

mod versions;

mod view;

pub mod granted_skills;

mod typed;

mod wasi;

pub mod scripts;

pub mod call;

pub mod component;
