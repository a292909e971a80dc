//! The allocator of a server over HTTP: it returns large blocks to the system, and what many
//! peers have left. A server on stdin and stdout keeps the C library's defaults: its one client reads
//! what it asks for, and kept blocks are faster.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

/// The size from which a freed block returns to the system at once. Guards against:
/// peers that once make a server hold many large answers. glibc raises its own
/// bound to the largest block ever freed, up to 32 MiB, and keeps later ones of
/// that size in its arenas. Smaller blocks are kept for reuse: to get those of an
/// answer of 1 MiB anew takes as long as to fill them.
#[cfg(target_env = "gnu")]
const LARGE: std::ffi::c_int = 4 << 20;

/// The pause before memory is given back, in which the last peers' is freed, and the pause
/// after it. Guards against: peers that come and go, so that the server allocates the same
/// memory again and again.
const SETTLING: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_secs(5);

/// Gives back the free memory of the process each time that most peers have gone. Parts
/// of requests are smaller than what is [large](LARGE), so the allocator keeps them: 200 MB
/// of 90 bodies that were never whole.
pub(super) async fn give_back_when_quiet(quiet: Arc<Notify>) {
    loop {
        quiet.notified().await;
        tokio::time::sleep(SETTLING).await;
        if tokio::task::spawn_blocking(give_back_free_blocks)
            .await
            .is_err()
        {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the free pages of all arenas to the system.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "the C library has no other call for it")]
fn give_back_free_blocks() {
    unsafe extern "C" {
        fn malloc_trim(keep: usize) -> std::ffi::c_int;
    }
    // SAFETY: this is the C library's own function. It takes the allocator's locks.
    unsafe {
        malloc_trim(0);
    }
}

/// Does nothing: other C libraries keep little.
#[cfg(not(target_env = "gnu"))]
fn give_back_free_blocks() {}

/// Makes the allocator return large blocks when they are freed.
#[cfg(target_env = "gnu")]
#[allow(
    unsafe_code,
    reason = "only this function configures the C library in a running program"
)]
pub(super) fn give_back_large_blocks() {
    use std::ffi::c_int;

    // From malloc.h.
    const M_TRIM_THRESHOLD: c_int = -1;
    const M_MMAP_THRESHOLD: c_int = -3;
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    // SAFETY: this is the C library's own function, with its own parameters. It
    // changes numbers of the allocator, under the allocator's lock.
    unsafe {
        mallopt(M_MMAP_THRESHOLD, LARGE);
        // The end of an arena may keep twice that, the ratio of glibc itself.
        mallopt(M_TRIM_THRESHOLD, 2 * LARGE);
    }
}

/// Does nothing: other C libraries return large blocks by themselves.
#[cfg(not(target_env = "gnu"))]
pub(super) fn give_back_large_blocks() {}
