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
            static ALLOCATOR: $crate::LibcAllocator = $crate::LibcAllocator;

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

/// The allocator of the C library that comes with the target. It begins with what
/// is left of the memory that a component starts with, so that most calls need
/// not grow it: growing costs the host a change of its mappings.
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub struct LibcAllocator;

#[cfg(target_family = "wasm")]
mod libc {
    use core::ffi::c_void;

    // Copying and comparing memory is in it, too.
    #[link(name = "c")]
    unsafe extern "C" {
        pub(super) fn malloc(length: usize) -> *mut c_void;
        pub(super) fn aligned_alloc(align: usize, length: usize) -> *mut c_void;
        pub(super) fn realloc(old: *mut c_void, length: usize) -> *mut c_void;
        pub(super) fn free(old: *mut c_void);
    }
}

/// The alignment of `malloc` on this target.
#[cfg(target_family = "wasm")]
const MALLOC_ALIGN: usize = 16;

// Safety: memory of `malloc` and `aligned_alloc` is as large and as aligned as was
// asked for, nobody else's, and goes back to the same library.
#[cfg(target_family = "wasm")]
unsafe impl core::alloc::GlobalAlloc for LibcAllocator {
    unsafe fn alloc(&self, layout: core::alloc::Layout) -> *mut u8 {
        // Safety: these take any length; an alignment is a power of two, and the
        // length is rounded up to it.
        let new = unsafe {
            match layout.align() {
                ..=MALLOC_ALIGN => libc::malloc(layout.size()),
                align => libc::aligned_alloc(align, layout.pad_to_align().size()),
            }
        };
        new.cast()
    }

    unsafe fn dealloc(&self, old: *mut u8, _: core::alloc::Layout) {
        // Safety: the caller has it from here.
        unsafe { libc::free(old.cast()) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: core::alloc::Layout, length: usize) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // Safety: the caller has it from `malloc`.
            return unsafe { libc::realloc(old.cast(), length).cast() };
        }
        // Safety: the caller's, who has checked the length.
        unsafe {
            let new = self.alloc(core::alloc::Layout::from_size_align_unchecked(
                length,
                layout.align(),
            ));
            if !new.is_null() {
                core::ptr::copy_nonoverlapping(old, new, layout.size().min(length));
                self.dealloc(old, layout);
            }
            new
        }
    }
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
