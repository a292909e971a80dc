//! Escape tests: the program `skillhost`, but its first call runs native code, like a guest that
//! escaped its wasm sandbox.
//!
//! The escaped code tries each row of a table in the serving process, confined, and likewise in
//! the compiling process, the egress process, and the broker. `harness` starts this
//! program as each of them and checks what the code reached. The program `skillhost` contains none
//! of this code.
//!
//! Each row is harmless where it succeeds: it uses files, processes and sockets of the test, or
//! asks the kernel for something impossible.

#![cfg_attr(
    target_arch = "x86_64",
    allow(unsafe_code, reason = "escaped code makes any system call")
)]

#[cfg(target_arch = "x86_64")]
mod escaped;
#[cfg(target_arch = "x86_64")]
mod fixture;
#[cfg(target_arch = "x86_64")]
mod harness;
#[cfg(target_arch = "x86_64")]
mod servers;
#[cfg(target_arch = "x86_64")]
mod table;
#[cfg(target_arch = "x86_64")]
mod targets;

/// The arguments of the helper processes that contain no escaped code.
#[cfg(target_arch = "x86_64")]
const HELPERS: [&str; 3] = [
    skillhost_confine::broker::ARGUMENT,
    skillhost_egress::SUPERVISOR_ARGUMENT,
    skillhost_egress::SENDER_ARGUMENT,
];

#[cfg(target_arch = "x86_64")]
fn main() -> std::process::ExitCode {
    skillhost_confine::record_inherited_descriptors();
    let first = std::env::args().nth(1);
    match targets::Targets::open() {
        Some(targets) => escaped::run(targets),
        // The helper processes of a tested server get no variables.
        None if first.is_some_and(|first| HELPERS.contains(&&*first)) => skillhost_cli::run(None),
        None => harness::run(),
    }
}

/// Does nothing: the table uses system calls of x86-64.
#[cfg(not(target_arch = "x86_64"))]
fn main() {}
