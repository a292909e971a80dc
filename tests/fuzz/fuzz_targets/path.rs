//! Runs the SDK's string checks.

#![no_main]

#[path = "../bodies/path.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
