//! Reads a configuration file.

#![no_main]

#[path = "../bodies/config.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
