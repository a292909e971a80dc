//! Reads and checks a SKILL.md.

#![no_main]

#[path = "../bodies/frontmatter.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
