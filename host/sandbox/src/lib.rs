//! The sandbox: one call of one tool in one fresh store. Also here: what a tool is and how a
//! call can end, and components, which are read, compiled, cached, loaded and inspected.
//!
//! This crate belongs to [skillhost](https://crates.io/crates/skillhost), which shows what of
//! it an embedder uses. The rest may change at any time.

// The layers, lowest first: a module uses those above it in this list, and no
// other. `cargo xtask layers` checks it.

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
