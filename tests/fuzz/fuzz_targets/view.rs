//! Compares file operations in a copy-on-write view with those on disk.

#![no_main]

#[path = "../bodies/view.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
