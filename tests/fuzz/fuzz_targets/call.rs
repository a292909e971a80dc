//! Calls an arbitrary tool with arbitrary arguments.

#![no_main]

#[path = "../bodies/call.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
