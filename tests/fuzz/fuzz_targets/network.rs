//! Normalises the addresses of requests and compares them with rules.

#![no_main]

#[path = "../bodies/network.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
