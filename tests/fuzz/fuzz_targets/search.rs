//! Searches a catalog.

#![no_main]

#[path = "../bodies/search.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
