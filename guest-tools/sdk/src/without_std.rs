//! What a component without Rust's standard library has in its place.
//!
//! The standard library brings imports with it that most tools have no use for
//! (standard streams, clocks, random numbers), and each costs every call: they
//! are looked up anew in each sandbox. A component without it imports what it
//! calls, and `inspect` shows no more than that.

/// Stands in a component's crate in place of the standard library: an
/// allocator, and an end for a panic, whose message is lost. The crate begins
/// with `#![cfg_attr(target_family = "wasm", no_std)]`.
#[macro_export]
macro_rules! without_std {
    () => {
        #[cfg(target_family = "wasm")]
        mod skillhost_without_std {
            #[global_allocator]
            static ALLOCATOR: $crate::dlmalloc::GlobalDlmalloc = $crate::dlmalloc::GlobalDlmalloc;

            /// Copying and comparing memory.
            #[link(name = "c")]
            unsafe extern "C" {}

            /// By which the host makes room for what it hands over. The standard
            /// library of this target brings one.
            #[unsafe(export_name = "cabi_realloc")]
            unsafe extern "C" fn realloc(
                old: *mut u8,
                old_length: usize,
                align: usize,
                length: usize,
            ) -> *mut u8 {
                // Safety: the caller keeps to the canonical ABI, whose function
                // this is.
                unsafe { $crate::reallocate(old, old_length, align, length) }
            }

            #[panic_handler]
            fn panic(_: &::core::panic::PanicInfo<'_>) -> ! {
                ::core::arch::wasm32::unreachable()
            }
        }
    };
}

/// `cabi_realloc`, as the canonical ABI has it.
///
/// # Safety
///
/// `old` is null, or was given out here for `old_length` bytes of this alignment,
/// which is a power of two.
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub unsafe fn reallocate(old: *mut u8, old_length: usize, align: usize, length: usize) -> *mut u8 {
    use alloc::alloc::{Layout, alloc, realloc};

    if length == 0 {
        return core::ptr::without_provenance_mut(align);
    }
    // Safety: the caller's.
    let new = unsafe {
        let layout = |length| Layout::from_size_align_unchecked(length, align);
        match old_length {
            0 => alloc(layout(length)),
            _ => realloc(old, layout(old_length), length),
        }
    };
    if new.is_null() {
        core::arch::wasm32::unreachable()
    }
    new
}
