//! Scripts of file operations in a copy-on-write view, and the same on the disk.

#![no_main]

#[path = "../bodies/view.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
