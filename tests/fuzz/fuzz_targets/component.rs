//! Loads a third-party component.

#![no_main]

#[path = "../bodies/component.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
