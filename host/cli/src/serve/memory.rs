//! The allocator settings of an HTTP server: it returns large blocks to the system, and all free
//! memory when many peers have left.
//!
//! A stdio server uses the C library's defaults: it has one client, and reusing blocks is faster.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

/// The minimum size of a block that returns to the system when it is freed. Guards against: a
/// server that keeps the memory of many large answers forever.
///
/// glibc would raise its own threshold to the largest block ever freed, up to 32 MiB, and keep
/// later blocks of that size in its arenas. Smaller blocks are kept for reuse, because allocating
/// the blocks of a 1 MiB answer again takes as long as filling them.
#[cfg(target_env = "gnu")]
const LARGE_BLOCK: std::ffi::c_int = 4 << 20;

/// The delay before memory is returned, so that the memory of the last peers is freed first.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// The delay before memory is returned again, because a busy machine can free that of the last
/// peers late. Guards against: peers that come and go and make the server allocate the same memory
/// again and again.
const PAUSE: Duration = Duration::from_secs(5);

/// Returns free memory to the system twice each time most peers have left.
///
/// Parts of requests are smaller than a [large block](LARGE_BLOCK), so the allocator keeps them:
/// 200 MB for 90 incomplete bodies.
pub(super) async fn release_when_quiet(quiet: Arc<Notify>) {
    loop {
        quiet.notified().await;
        for delay in [SETTLE_TIME, PAUSE] {
            tokio::time::sleep(delay).await;
            if tokio::task::spawn_blocking(release_free_blocks)
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

/// Returns the free pages of all arenas to the system.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "the C library has no other call for it")]
fn release_free_blocks() {
    unsafe extern "C" {
        fn malloc_trim(keep: usize) -> std::ffi::c_int;
    }
    // SAFETY: this is a function of the C library, which takes the allocator's locks.
    unsafe {
        malloc_trim(0);
    }
}

/// Does nothing: other C libraries keep little free memory.
#[cfg(not(target_env = "gnu"))]
fn release_free_blocks() {}

/// Makes the allocator return large blocks when they are freed.
#[cfg(target_env = "gnu")]
#[allow(
    unsafe_code,
    reason = "only this function configures the C library in a running program"
)]
pub(super) fn release_large_blocks() {
    use std::ffi::c_int;

    // From malloc.h.
    const M_TRIM_THRESHOLD: c_int = -1;
    const M_MMAP_THRESHOLD: c_int = -3;
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    // SAFETY: this is a function of the C library, called with constants of its header. It changes
    // settings of the allocator, under the allocator's lock.
    unsafe {
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
        // The end of an arena may keep twice that size, as with glibc's own thresholds.
        mallopt(M_TRIM_THRESHOLD, 2 * LARGE_BLOCK);
    }
}

/// Does nothing: other C libraries return large blocks by themselves.
#[cfg(not(target_env = "gnu"))]
pub(super) fn release_large_blocks() {}
