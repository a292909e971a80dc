//! The allocator and the panic handler of components without Rust's standard library.
//!
//! The standard library adds imports that most tools do not use, such as standard streams,
//! clocks and random numbers. Each import makes every call slower, because each sandbox
//! links it again. Without the standard library, a component imports only what it calls,
//! and `inspect` shows only that.

/// Replaces the standard library in a component's crate: defines an allocator and a panic
/// handler. The message of a panic is lost. The crate must begin with
/// `#![cfg_attr(target_family = "wasm", no_std)]`.
#[macro_export]
macro_rules! without_std {
    () => {
        #[cfg(target_family = "wasm")]
        mod skillhost_without_std {
            #[global_allocator]
            static ALLOCATOR: $crate::LibcAllocator = $crate::LibcAllocator;

            /// Allocates the memory into which the host writes arguments and results. The
            /// standard library of this target has this function, too.
            #[unsafe(export_name = "cabi_realloc")]
            unsafe extern "C" fn realloc(
                old: *mut u8,
                old_length: usize,
                align: usize,
                length: usize,
            ) -> *mut u8 {
                // Safety: the host calls this function as the canonical ABI requires.
                unsafe { $crate::reallocate(old, old_length, align, length) }
            }

            #[panic_handler]
            fn panic(_: &::core::panic::PanicInfo<'_>) -> ! {
                ::core::arch::wasm32::unreachable()
            }
        }
    };
}

/// The allocator of the target's C library. It first uses the rest of the initial memory,
/// so most calls do not grow the memory. Growing is slow: the host changes its mappings.
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub struct LibcAllocator;

#[cfg(target_family = "wasm")]
mod libc {
    use core::ffi::c_void;

    // The library also has `memcpy` and `memcmp`, which the compiler calls.
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

// Safety: `malloc` and `aligned_alloc` return unshared memory of the requested size and
// alignment, and `free` and `realloc` of the same library take it back.
#[cfg(target_family = "wasm")]
unsafe impl core::alloc::GlobalAlloc for LibcAllocator {
    unsafe fn alloc(&self, layout: core::alloc::Layout) -> *mut u8 {
        // Safety: both functions accept any length. The alignment is a power of two, and
        // `pad_to_align` makes the length a multiple of it.
        let new = unsafe {
            match layout.align() {
                ..=MALLOC_ALIGN => libc::malloc(layout.size()),
                align => libc::aligned_alloc(align, layout.pad_to_align().size()),
            }
        };
        new.cast()
    }

    unsafe fn dealloc(&self, old: *mut u8, _: core::alloc::Layout) {
        // Safety: the caller got `old` from `alloc` or `realloc`.
        unsafe { libc::free(old.cast()) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: core::alloc::Layout, length: usize) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // Safety: the caller got `old` from `malloc`, because its alignment is small.
            return unsafe { libc::realloc(old.cast(), length).cast() };
        }
        // Safety: the caller promises a valid length, and that `old` has `layout`.
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

/// Implements `cabi_realloc` of the canonical ABI.
///
/// # Safety
///
/// `align` is a power of two. `old` is null and `old_length` is 0, or this function
/// returned `old` for `old_length` bytes and `align`.
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub unsafe fn reallocate(old: *mut u8, old_length: usize, align: usize, length: usize) -> *mut u8 {
    use alloc::alloc::{Layout, alloc, realloc};

    if length == 0 {
        return core::ptr::without_provenance_mut(align);
    }
    // Safety: the caller's promise.
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
