//! Runs the fuzz targets for a moment: each on its committed inputs, and on changed ones that are
//! the same in every run. CONTRIBUTING.md says how to run them for hours.

#[path = "fuzz/bodies/mod.rs"]
pub(crate) mod bodies;

use std::fs;
use std::panic;

use crate::support::repository;

/// Runs a target on each of its inputs and on `count` changed ones.
fn run(target: &str, body: fn(&[u8]), count: usize) {
    let folder = repository().join("tests/fuzz/corpus").join(target);
    let mut inputs: Vec<Vec<u8>> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    // File systems list a folder in different orders.
    inputs.sort();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let changes = (0..count).map(|_| change(&inputs, &mut random));
    for input in inputs.iter().cloned().chain(changes) {
        let done = panic::catch_unwind(|| body(&input));
        assert!(done.is_ok(), "{target}: \"{}\"", input.escape_ascii());
    }
}

/// Returns an input with bytes changed, inserted, removed, or copied from another input.
fn change(inputs: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    /// Bytes that parsers may mishandle.
    const PIECES: [&[u8]; 20] = [
        b"..",
        b"/",
        b"\\",
        b"\0",
        b"\n",
        b"\r\n",
        b":",
        b"\"",
        b"'",
        b"{}",
        b"[",
        b"]",
        b"---\n",
        b"null",
        b"-1",
        b"1e309",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\x1b[",
        b"\xe2\x80\xae",
    ];
    let mut input = inputs[random.below(inputs.len())].clone();
    for _ in 0..=random.below(4) {
        let from = random.below(input.len() + 1);
        let to = (from + random.below(9)).min(input.len());
        let other = &inputs[random.below(inputs.len())];
        let start = random.below(other.len() + 1);
        let end = (start + random.below(17)).min(other.len());
        let byte = [u8::try_from(random.below(256)).unwrap()];
        let new = match random.below(5) {
            0 => &byte[..],
            1 => &[],
            2 => &other[start..end],
            3 => &input[from..to].repeat(2),
            _ => PIECES[random.below(PIECES.len())],
        };
        input.splice(from..to, new.to_vec());
    }
    input
}

/// Xorshift: sufficient for a test, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

#[test]
fn string_checks_agree_with_a_model() {
    run("path", bodies::path::run, 20_000);
}

#[test]
fn no_skill_md_breaks_its_readers() {
    run("frontmatter", bodies::frontmatter::run, 2_000);
}

#[test]
fn no_schema_and_no_arguments_break_the_check() {
    run("arguments", bodies::arguments::run, 1_000);
}

#[test]
fn no_configuration_is_misread() {
    run("config", bodies::config::run, 2_000);
}

#[test]
fn no_address_passes_for_another() {
    run("network", bodies::network::run, 20_000);
}

#[test]
fn no_component_breaks_the_loader() {
    run("component", bodies::component::run, 60);
}

#[test]
fn no_arguments_lead_call_out_of_its_skill() {
    run("call", bodies::call::run, 500);
}

#[test]
fn no_request_and_no_skill_break_a_search() {
    run("search", bodies::search::run, 200);
}

#[test]
fn view_behaves_as_a_folder_on_disk() {
    run("view", bodies::view::run, 30);
}
