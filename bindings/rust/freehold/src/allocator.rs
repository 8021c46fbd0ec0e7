//! The trait `Allocator`, of the standard library (nightly) and of allocator-api2, for the default
//! heap and for heaps. A block may be freed by either: both end in the same call.

use crate::{sys, Freehold, Heap};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;

/// As many bytes as were asked for: then freeing may compare the size.
fn whole(p: *mut u8, layout: Layout) -> Option<NonNull<[u8]>> {
    NonNull::new(p).map(|p| NonNull::slice_from_raw_parts(p, layout.size()))
}

/// Of no bytes: an address that nobody reads.
fn nothing(layout: Layout) -> NonNull<[u8]> {
    let at = core::ptr::null_mut::<u8>().wrapping_add(layout.align());
    // SAFETY: an alignment is not 0
    NonNull::slice_from_raw_parts(unsafe { NonNull::new_unchecked(at) }, 0)
}

/// Where blocks come from: the default heap, or a first-class one.
trait Source {
    fn get(&self, layout: Layout) -> *mut u8;
    /// Zero.
    fn get_cleared(&self, layout: Layout) -> *mut u8;
    /// Of one of its blocks, or NULL: it stays as it is.
    unsafe fn resize(&self, p: NonNull<u8>, from: Layout, to: Layout) -> *mut u8;
}

impl Source for Freehold {
    fn get(&self, layout: Layout) -> *mut u8 {
        // SAFETY: callers have seen to it that the size is not 0
        unsafe { self.alloc(layout) }
    }
    fn get_cleared(&self, layout: Layout) -> *mut u8 {
        // SAFETY: likewise
        unsafe { self.alloc_zeroed(layout) }
    }
    unsafe fn resize(&self, p: NonNull<u8>, _from: Layout, to: Layout) -> *mut u8 {
        sys::fh_realloc_aligned(p.as_ptr().cast(), to.align(), to.size()).cast()
    }
}

impl Source for &Heap {
    fn get(&self, layout: Layout) -> *mut u8 {
        self.alloc(layout)
            .map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }
    fn get_cleared(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the heap lives; a fresh block is written to
        unsafe {
            if layout.align() <= 16 && layout.align() <= layout.size() {
                return sys::fh_heap_calloc(self.as_ptr(), 1, layout.size()).cast();
            }
            let p = self.get(layout);
            if !p.is_null() {
                p.write_bytes(0, layout.size());
            }
            p
        }
    }
    unsafe fn resize(&self, p: NonNull<u8>, from: Layout, to: Layout) -> *mut u8 {
        if to.align() <= 16 && to.align() <= to.size() {
            return sys::fh_heap_realloc(self.as_ptr(), p.as_ptr().cast(), to.size()).cast();
        }
        let block = self.get(to);
        if !block.is_null() {
            block.copy_from_nonoverlapping(p.as_ptr(), from.size().min(to.size()));
            sys::fh_free(p.as_ptr().cast());
        }
        block
    }
}

fn allocate(from: &impl Source, layout: Layout, is_cleared: bool) -> Option<NonNull<[u8]>> {
    match (layout.size(), is_cleared) {
        (0, _) => Some(nothing(layout)),
        (_, false) => whole(from.get(layout), layout),
        (_, true) => whole(from.get_cleared(layout), layout),
    }
}

unsafe fn deallocate(p: NonNull<u8>, layout: Layout) {
    if layout.size() != 0 {
        Freehold.dealloc(p.as_ptr(), layout);
    }
}

unsafe fn resize(
    of: &impl Source,
    p: NonNull<u8>,
    from: Layout,
    to: Layout,
    is_cleared: bool,
) -> Option<NonNull<[u8]>> {
    if from.size() == 0 {
        return allocate(of, to, is_cleared);
    }
    if to.size() == 0 {
        deallocate(p, from);
        return Some(nothing(to));
    }
    let block = whole(of.resize(p, from, to), to)?;
    if is_cleared {
        let rest = to.size() - from.size();
        block
            .cast::<u8>()
            .as_ptr()
            .add(from.size())
            .write_bytes(0, rest);
    }
    Some(block)
}

macro_rules! allocator {
    ($path:path, $error:path, $kind:ty) => {
        // SAFETY: blocks live until they are freed, or until the heap ends, which the reference
        // outlives; copies of the allocator are the same one.
        unsafe impl $path for $kind {
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, $error> {
                allocate(self, layout, false).ok_or($error)
            }
            fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, $error> {
                allocate(self, layout, true).ok_or($error)
            }
            unsafe fn deallocate(&self, p: NonNull<u8>, layout: Layout) {
                deallocate(p, layout)
            }
            unsafe fn grow(
                &self,
                p: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                resize(self, p, from, to, false).ok_or($error)
            }
            unsafe fn grow_zeroed(
                &self,
                p: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                resize(self, p, from, to, true).ok_or($error)
            }
            unsafe fn shrink(
                &self,
                p: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                resize(self, p, from, to, false).ok_or($error)
            }
        }
    };
}

#[cfg(feature = "allocator_api")]
mod of_core {
    use super::*;
    allocator!(core::alloc::Allocator, core::alloc::AllocError, Freehold);
    allocator!(core::alloc::Allocator, core::alloc::AllocError, &Heap);
}
#[cfg(feature = "allocator-api2")]
mod of_crate {
    use super::*;
    allocator!(
        allocator_api2::alloc::Allocator,
        allocator_api2::alloc::AllocError,
        Freehold
    );
    allocator!(
        allocator_api2::alloc::Allocator,
        allocator_api2::alloc::AllocError,
        &Heap
    );
}
