//! The program `skillhost` as it is, and one thing more: its first call runs native code, as
//! a guest could that has broken out of its sandbox. That code tries all of the table from
//! inside the serving process, behind its wall; and so from the compiling process and the
//! broker. `judge` starts this program as that one, and judges what it reached. Nothing of
//! this is in the program `skillhost`.
//!
//! Each attempt is harmless where it succeeds: it touches files, processes and sockets that
//! the judge made, or asks the kernel for what cannot be.

#![cfg_attr(
    target_arch = "x86_64",
    allow(
        unsafe_code,
        reason = "code that has broken out asks the kernel for what it likes"
    )
)]

#[cfg(target_arch = "x86_64")]
mod field;
#[cfg(target_arch = "x86_64")]
mod ground;
#[cfg(target_arch = "x86_64")]
mod judge;
#[cfg(target_arch = "x86_64")]
mod program;
#[cfg(target_arch = "x86_64")]
mod table;

#[cfg(target_arch = "x86_64")]
fn main() -> std::process::ExitCode {
    skillhost_confine::note_inherited();
    match ground::Ground::prepare() {
        Some(ground) => program::run(ground),
        // Its broker, and its compiling process.
        None if std::env::args()
            .nth(1)
            .is_some_and(|first| first == "--broker") =>
        {
            skillhost_cli::run(None)
        }
        None => judge::run(),
    }
}

/// The table has the system calls of one processor.
#[cfg(not(target_arch = "x86_64"))]
fn main() {}
