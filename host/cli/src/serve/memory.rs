//! How the allocator of a server over HTTP deals with large blocks. A server on
//! stdin and stdout keeps the C library's way: its one client reads what it asks
//! for, and large blocks that are kept are the faster ones.

/// Blocks of this size go back to the system as soon as they are freed. Meets:
/// peers that make a server hold many large answers once. glibc raises its own
/// bound to the largest block that was ever freed, up to 32 MiB, and keeps later
/// ones of that size in its arenas. Smaller blocks are kept for reuse: to get
/// those of an answer of 1 MiB anew takes as long as to fill them.
#[cfg(target_env = "gnu")]
const LARGE: std::ffi::c_int = 4 << 20;

/// Has the allocator give large blocks back when they are freed.
#[cfg(target_env = "gnu")]
#[allow(
    unsafe_code,
    reason = "a program that runs can tell its C library by this function alone"
)]
pub(super) fn give_back_large_blocks() {
    use std::ffi::c_int;

    // From malloc.h.
    const M_TRIM_THRESHOLD: c_int = -1;
    const M_MMAP_THRESHOLD: c_int = -3;
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    // SAFETY: the C library's own function, with its own parameters. It changes
    // numbers of the allocator, under the allocator's lock.
    unsafe {
        mallopt(M_MMAP_THRESHOLD, LARGE);
        // What the end of an arena may keep: twice that, as glibc itself has it.
        mallopt(M_TRIM_THRESHOLD, 2 * LARGE);
    }
}

/// Other C libraries give large blocks back by themselves.
#[cfg(not(target_env = "gnu"))]
pub(super) fn give_back_large_blocks() {}
