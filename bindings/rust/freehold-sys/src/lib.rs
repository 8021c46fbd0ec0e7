//! The C interface of [freehold](https://docs.rs/freehold), a lock-free memory allocator, and the
//! library itself, built from source. Each function is documented in `freehold.h`; the crate
//! `freehold` wraps them.
#![no_std]
#![allow(non_camel_case_types)]

use core::ffi::{c_char, c_int, c_void};

#[cfg(miri)]
mod miri;

/// A first-class heap.
#[repr(C)]
pub struct fh_heap_t {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

/// Size classes that the statistics tell of.
pub const FH_CLASSES: usize = 72;

/// One size class, or in `total` all of them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct fh_class_stats_t {
    pub block_size: usize,
    pub requested: u64,
    pub allocated: u64,
    pub live: u64,
    pub peak: u64,
    pub slabs: u64,
    pub fullness: [u64; 4],
}

/// The statistics of the process.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct fh_stats_t {
    pub struct_size: usize,
    pub mapped: u64,
    pub committed: u64,
    pub resident: u64,
    pub dirty: u64,
    pub purged: u64,
    pub metadata: u64,
    pub live_bytes: u64,
    pub peak_committed: u64,
    pub large_live: u64,
    pub large_allocated: u64,
    pub huge_live: u64,
    pub huge_allocated: u64,
    pub mmaps: u64,
    pub munmaps: u64,
    pub mremaps: u64,
    pub madvises: u64,
    pub failed_calls: u64,
    pub remote_frees: u64,
    pub swaps: u64,
    pub swap_retries: u64,
    pub adoptions: u64,
    pub publications: u64,
    pub threads: u64,
    pub heaps: u64,
    pub nested: u64,
    pub arenas: u64,
    pub total: fh_class_stats_t,
    pub classes: [fh_class_stats_t; FH_CLASSES],
    pub elapsed_ms: u64,
    pub user_ms: u64,
    pub system_ms: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub peak_resident: u64,
    pub shared_frees: u64,
    pub empty_live: u64,
    pub huge_resident: u64,
    pub collapsed: u64,
    pub container_limit: u64,
    pub pressure: u64,
    pub pressure_raises: u64,
    pub reserved: u64,
}

/// Where blocks lie.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fh_area_t {
    pub start: *mut c_void,
    pub size: usize,
    pub block_size: usize,
    pub used: usize,
}

/// What a heap begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fh_heap_options_t {
    pub struct_size: usize,
    pub quota: usize,
    pub name: *const c_char,
}

/// What a heap holds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fh_heap_stats_t {
    pub struct_size: usize,
    pub slab_bytes: u64,
    pub large_bytes: u64,
    pub quota: u64,
    pub name: [c_char; 32],
}

pub const FH_PROFILE_HEAP: c_int = 0;
pub const FH_PROFILE_BLOCKS: c_int = 1;
pub const FH_PROFILE_LIFETIMES: c_int = 2;

/// Of `fh_heap_visit`: false stops the visit.
pub type fh_visitor_t = extern "C" fn(*mut c_void, usize, *mut c_void) -> bool;

extern "C" {
    pub fn fh_version() -> c_int;
    pub fn fh_version_string() -> *const c_char;

    pub fn fh_malloc(size: usize) -> *mut c_void;
    pub fn fh_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn fh_realloc(p: *mut c_void, size: usize) -> *mut c_void;
    pub fn fh_free(p: *mut c_void);
    pub fn fh_free_sized(p: *mut c_void, size: usize);
    pub fn fh_free_aligned_sized(p: *mut c_void, alignment: usize, size: usize);
    pub fn fh_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn fh_calloc_aligned(alignment: usize, count: usize, size: usize) -> *mut c_void;
    pub fn fh_realloc_aligned(p: *mut c_void, alignment: usize, size: usize) -> *mut c_void;
    pub fn fh_usable_size(p: *const c_void) -> usize;
    pub fn fh_good_size(size: usize) -> usize;
    pub fn fh_owns(p: *const c_void) -> bool;
    pub fn fh_malloc_batch(size: usize, count: usize, blocks: *mut *mut c_void) -> usize;
    pub fn fh_free_batch(blocks: *const *mut c_void, count: usize);

    pub fn fh_heap_new() -> *mut fh_heap_t;
    pub fn fh_heap_new_with(options: *const fh_heap_options_t) -> *mut fh_heap_t;
    pub fn fh_heap_set_quota(heap: *mut fh_heap_t, bytes: usize);
    pub fn fh_heap_stats_get(heap: *mut fh_heap_t, stats: *mut fh_heap_stats_t) -> bool;
    pub fn fh_heap_collect(heap: *mut fh_heap_t);
    pub fn fh_heap_of(p: *const c_void) -> *mut fh_heap_t;
    pub fn fh_heap_malloc(heap: *mut fh_heap_t, size: usize) -> *mut c_void;
    pub fn fh_heap_calloc(heap: *mut fh_heap_t, count: usize, size: usize) -> *mut c_void;
    pub fn fh_heap_aligned_alloc(
        heap: *mut fh_heap_t,
        alignment: usize,
        size: usize,
    ) -> *mut c_void;
    pub fn fh_heap_realloc(heap: *mut fh_heap_t, p: *mut c_void, size: usize) -> *mut c_void;
    pub fn fh_heap_delete(heap: *mut fh_heap_t);
    pub fn fh_heap_destroy(heap: *mut fh_heap_t);
    pub fn fh_heap_visit(heap: *mut fh_heap_t, visitor: fh_visitor_t, context: *mut c_void)
        -> bool;

    pub fn fh_collect(force: bool);
    pub fn fh_option_get(name: *const c_char, value: *mut i64) -> bool;
    pub fn fh_option_set(name: *const c_char, value: i64) -> bool;
    pub fn fh_stats_get(stats: *mut fh_stats_t) -> bool;
    pub fn fh_stats_json(buffer: *mut c_char, size: usize) -> usize;
    pub fn fh_thread_allocated() -> u64;
    pub fn fh_thread_freed() -> u64;
    pub fn fh_profile_start(interval: usize) -> bool;
    pub fn fh_profile_write(file: c_int, kind: c_int) -> bool;
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_library_knows_a_struct_of_that_size() {
        let mut stats: super::fh_stats_t = unsafe { core::mem::zeroed() };
        stats.struct_size = core::mem::size_of_val(&stats);
        assert!(unsafe { super::fh_stats_get(&mut stats) });
        assert_eq!(unsafe { super::fh_version() }, 10000);
    }
}
