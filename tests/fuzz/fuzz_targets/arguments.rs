//! Checks arguments against a tool's schema.

#![no_main]

#[path = "../bodies/arguments.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
