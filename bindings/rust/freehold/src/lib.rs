//! [`Freehold`] is a global allocator; [`Heap`] a first-class heap whose blocks end with it;
//! [`stats`] and [`profile`] say who holds the memory.
//!
//! No call here takes a lock or waits for another thread, and each may be made in a signal handler
//! unless it says otherwise.
#![no_std]
#![cfg_attr(feature = "allocator_api", feature(allocator_api))]
#![warn(missing_docs)]

#[cfg(test)]
extern crate std;

mod heap;
pub mod profile;
mod stats;

pub use freehold_sys as sys;
pub use heap::{Heap, HeapBox};
pub use stats::{stats, stats_json_into, ClassStats, Stats};

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_void, CStr};

/// The default heap, as the program's allocator:
///
/// ```
/// #[global_allocator]
/// static GLOBAL: freehold::Freehold = freehold::Freehold;
/// # fn main() { assert!(freehold::owns(Box::new(1).as_ref())); }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freehold;

/// Is a block of that size aligned so by itself?
fn is_plain(layout: &Layout) -> bool {
    layout.align() <= 16 && layout.align() <= layout.size()
}

// SAFETY: blocks are at least as large and aligned as the layout says, and stay until they are
// freed; nothing here unwinds.
unsafe impl GlobalAlloc for Freehold {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_plain(&layout) {
            sys::fh_malloc(layout.size()).cast()
        } else {
            sys::fh_aligned_alloc(layout.align(), layout.size()).cast()
        }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        if is_plain(&layout) {
            sys::fh_free_sized(p.cast(), layout.size());
        } else {
            sys::fh_free_aligned_sized(p.cast(), layout.align(), layout.size());
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_plain(&layout) {
            sys::fh_calloc(1, layout.size()).cast()
        } else {
            sys::fh_calloc_aligned(layout.align(), 1, layout.size()).cast()
        }
    }

    /// Grows where it lies or by moving pages, where that can be: large blocks are not copied.
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= 16 && layout.align() <= new_size {
            sys::fh_realloc(p.cast(), new_size).cast()
        } else {
            sys::fh_realloc_aligned(p.cast(), layout.align(), new_size).cast()
        }
    }
}

/// Memory was short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl core::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("out of memory")
    }
}

/// How many bytes a request of `size` bytes gets.
pub fn good_size(size: usize) -> usize {
    // SAFETY: any number will do
    unsafe { sys::fh_good_size(size) }
}

/// Does it lie in memory from which freehold hands out blocks?
pub fn owns<T: ?Sized>(p: *const T) -> bool {
    // SAFETY: any address will do
    unsafe { sys::fh_owns(p.cast::<c_void>()) }
}

/// Gives back what the calling thread keeps, and with `force` also every page that is free.
pub fn collect(force: bool) {
    // SAFETY: no conditions
    unsafe { sys::fh_collect(force) }
}

/// The value of an option in force; `None` if there is none of that name.
pub fn option(name: &CStr) -> Option<i64> {
    let mut value = 0;
    // SAFETY: both pointers are good for the call
    unsafe { sys::fh_option_get(name.as_ptr(), &mut value) }.then_some(value)
}

/// Sets an option at run time; false, changing nothing, if there is none of that name, the value is
/// out of range, or it can only be set at start.
pub fn set_option(name: &CStr, value: i64) -> bool {
    // SAFETY: the name is good for the call
    unsafe { sys::fh_option_set(name.as_ptr(), value) }
}

/// The version of the library, such as `"1.0.0"`.
pub fn version() -> &'static str {
    // SAFETY: a string of static storage, which is ASCII
    unsafe { CStr::from_ptr(sys::fh_version_string()) }
        .to_str()
        .unwrap_or("")
}

#[cfg(any(feature = "allocator_api", feature = "allocator-api2"))]
mod allocator;
