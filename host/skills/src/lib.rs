//! Finds, reads and checks skills. Also opens files that an operator names, checks that their
//! owners are trusted, and formats text for people. This crate knows nothing about tools.
//!
//! This crate is part of [skillhost](https://crates.io/crates/skillhost), which re-exports
//! its stable interface. The rest may change at any time.

#[cfg(not(target_os = "linux"))]
compile_error!("skillhost runs on Linux: its guard opens files through /proc and O_PATH");

// The layers, lowest first: a module uses only modules above it in this list. `cargo xtask
// layers` checks this.

pub mod text;

pub mod blocking;

pub mod broker;

pub mod own_user;

pub mod descriptors;

pub mod omitted;

pub mod entries;

pub mod guard;
pub mod inotify;

pub mod atomic_file;

mod regular_file;

pub mod trust;

pub mod named_file;

pub mod search_path;

pub mod paragraph;

pub mod frontmatter;

pub mod encoding;

pub mod skill_md;

pub mod neighbours;

pub mod check;

pub mod catalog;

pub mod search;

pub mod prompt;
