//! First-class heaps.

use crate::{sys, OutOfMemory};
use core::alloc::Layout;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// A heap of its own: its blocks end with it at the latest, all at once. Any number of threads may
/// allocate from it at the same time. What a block holds is not dropped by the end of the heap.
#[derive(Debug)]
pub struct Heap {
    of: NonNull<sys::fh_heap_t>,
}

// SAFETY: any thread may use it and end it, as freehold.h says
unsafe impl Send for Heap {}
// SAFETY: likewise
unsafe impl Sync for Heap {}

impl Heap {
    /// A heap without blocks.
    pub fn new() -> Result<Heap, OutOfMemory> {
        // SAFETY: no conditions
        NonNull::new(unsafe { sys::fh_heap_new() })
            .map(|of| Heap { of })
            .ok_or(OutOfMemory)
    }

    /// For the functions of [`crate::sys`]. Still owned by this.
    pub fn as_ptr(&self) -> *mut sys::fh_heap_t {
        self.of.as_ptr()
    }

    /// Bytes of that layout, which may be anything.
    pub fn alloc(&self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        // SAFETY: the heap lives
        let p = unsafe { sys::fh_heap_aligned_alloc(self.as_ptr(), layout.align(), layout.size()) };
        NonNull::new(p.cast()).ok_or(OutOfMemory)
    }

    /// A value in a block of this heap.
    pub fn boxed<T>(&self, value: T) -> Result<HeapBox<'_, T>, OutOfMemory> {
        let at = self.alloc(Layout::new::<T>())?.cast::<T>();
        // SAFETY: the block is new, large enough and aligned
        unsafe { at.as_ptr().write(value) };
        Ok(HeapBox {
            at,
            owns: PhantomData,
        })
    }

    /// A copy of the text in a block of this heap.
    pub fn text(&self, text: &str) -> Result<&str, OutOfMemory> {
        let bytes = self.alloc(Layout::for_value(text))?;
        // SAFETY: the block has room for the text, which is good UTF-8, and lives as long as `self`
        unsafe {
            let to = core::slice::from_raw_parts_mut(bytes.as_ptr(), text.len());
            to.copy_from_slice(text.as_bytes());
            Ok(core::str::from_utf8_unchecked(to))
        }
    }

    /// Live blocks, and their bytes; what other threads do meanwhile may be seen or not.
    pub fn live(&self) -> (usize, usize) {
        extern "C" fn count(_block: *mut c_void, usable: usize, context: *mut c_void) -> bool {
            // SAFETY: `context` is the pair below, which nothing else uses meanwhile
            let sums = unsafe { &mut *context.cast::<(usize, usize)>() };
            sums.0 += 1;
            sums.1 += usable;
            true
        }
        let mut sums = (0usize, 0usize);
        // SAFETY: the heap lives, and the visitor neither allocates nor frees
        unsafe { sys::fh_heap_visit(self.as_ptr(), count, core::ptr::addr_of_mut!(sums).cast()) };
        sums
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: nobody else uses it, and no reference to a block of it is left
        unsafe { sys::fh_heap_destroy(self.of.as_ptr()) }
    }
}

/// A value in a block of a [`Heap`], which lives longer. Dropping it drops the value and frees the
/// block; forgetting it leaves the block to the heap's end.
pub struct HeapBox<'heap, T> {
    at: NonNull<T>,
    owns: PhantomData<(&'heap Heap, T)>,
}

// SAFETY: it owns the value, and any thread may free the block
unsafe impl<T: Send> Send for HeapBox<'_, T> {}
// SAFETY: it gives references to the value alone
unsafe impl<T: Sync> Sync for HeapBox<'_, T> {}

impl<'heap, T> HeapBox<'heap, T> {
    /// The value for the rest of the heap's life. It is never dropped.
    pub fn leak(self) -> &'heap mut T {
        let at = self.at.as_ptr();
        core::mem::forget(self);
        // SAFETY: nobody else has it, and the block lives as long as the heap
        unsafe { &mut *at }
    }

    /// The value itself; the block is freed.
    pub fn into_inner(self) -> T {
        // SAFETY: it is read once, and then only the block is freed
        unsafe {
            let value = self.at.as_ptr().read();
            sys::fh_free(self.at.as_ptr().cast());
            core::mem::forget(self);
            value
        }
    }
}

impl<T> Deref for HeapBox<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: it owns the value
        unsafe { self.at.as_ref() }
    }
}

impl<T> DerefMut for HeapBox<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: likewise
        unsafe { self.at.as_mut() }
    }
}

impl<T: core::fmt::Debug> core::fmt::Debug for HeapBox<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for HeapBox<'_, T> {
    fn drop(&mut self) {
        /// Frees the block also if the value's own drop unwinds.
        struct Block(*mut c_void);
        impl Drop for Block {
            fn drop(&mut self) {
                // SAFETY: the block is this one's alone
                unsafe { sys::fh_free(self.0) }
            }
        }
        let _block = Block(self.at.as_ptr().cast());
        // SAFETY: the value is dropped once
        unsafe { self.at.as_ptr().drop_in_place() };
    }
}
