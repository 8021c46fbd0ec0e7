//! What stands for the library under Miri, which runs no C: `malloc`, `free` and first-class heaps
//! as `freehold.h` describes them, and no more. So the code of the crate `freehold` is checked, not
//! the allocator. A size, an alignment or an address that the library would abort for panics here.

extern crate std;

use crate::{fh_heap_options_t, fh_heap_stats_t, fh_heap_t, fh_visitor_t};
use core::ffi::c_void;
use core::ptr::null_mut;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;

/// Of each live block; all form a list, newest first.
struct Record {
    heap: *mut fh_heap_t,
    next: *mut Record,
    block: *mut c_void,
    layout: Layout,
}

/// A first-class heap. Its address is what the caller has.
struct Heap {
    quota: usize,
    held: usize,
}

struct List(*mut Record);
// SAFETY: the list is read and written under its lock alone
unsafe impl Send for List {}
static LIVE: Mutex<List> = Mutex::new(List(null_mut()));

impl List {
    /// The link to the first block that satisfies `is`, or to NULL.
    unsafe fn find(&mut self, is: impl Fn(&Record) -> bool) -> *mut *mut Record {
        let mut link: *mut *mut Record = &mut self.0;
        while !(*link).is_null() && !is(&**link) {
            link = &mut (**link).next;
        }
        link
    }

    /// Frees the block at `link`, by the pointer that its owner gives back.
    unsafe fn remove(link: *mut *mut Record, p: *mut c_void) {
        assert!(!(*link).is_null(), "a free of no live block");
        let Record {
            heap, next, layout, ..
        } = (*link).read();
        System.dealloc((*link).cast(), Layout::new::<Record>());
        *link = next;
        if let Some(of) = heap.cast::<Heap>().as_mut() {
            of.held -= layout.size();
        }
        System.dealloc(p.cast(), layout);
    }
}

unsafe fn get(heap: *mut fh_heap_t, align: usize, size: usize, is_zero: bool) -> *mut c_void {
    let layout = Layout::from_size_align(size.max(1), align.max(16)).expect("a layout");
    let mut live = LIVE.lock().unwrap();
    if let Some(of) = heap.cast::<Heap>().as_mut() {
        if of.quota != 0 && of.held + layout.size() > of.quota {
            return null_mut();
        }
        of.held += layout.size();
    }
    let block = match is_zero {
        true => System.alloc_zeroed(layout),
        false => System.alloc(layout),
    };
    let block = block.cast();
    let record = System.alloc(Layout::new::<Record>()).cast::<Record>();
    record.write(Record {
        heap,
        next: live.0,
        block,
        layout,
    });
    live.0 = record;
    block
}

/// The heap and the size of a live block.
unsafe fn known(p: *const c_void) -> (*mut fh_heap_t, usize) {
    let mut live = LIVE.lock().unwrap();
    let record = *live.find(|of| core::ptr::eq(of.block, p));
    assert!(!record.is_null(), "no live block");
    ((*record).heap, (*record).layout.size())
}

unsafe fn resized(p: *mut c_void, heap: *mut fh_heap_t, align: usize, size: usize) -> *mut c_void {
    let block = get(heap, align, size, false);
    if !p.is_null() && !block.is_null() {
        let kept = size.min(known(p).1);
        block.cast::<u8>().copy_from_nonoverlapping(p.cast(), kept);
        fh_free(p);
    }
    block
}

#[no_mangle]
unsafe extern "C" fn fh_malloc(size: usize) -> *mut c_void {
    get(null_mut(), 1, size, false)
}
#[no_mangle]
unsafe extern "C" fn fh_calloc(count: usize, size: usize) -> *mut c_void {
    get(null_mut(), 1, count * size, true)
}
#[no_mangle]
unsafe extern "C" fn fh_aligned_alloc(align: usize, size: usize) -> *mut c_void {
    get(null_mut(), align, size, false)
}
#[no_mangle]
unsafe extern "C" fn fh_calloc_aligned(align: usize, count: usize, size: usize) -> *mut c_void {
    get(null_mut(), align, count * size, true)
}
#[no_mangle]
unsafe extern "C" fn fh_realloc(p: *mut c_void, size: usize) -> *mut c_void {
    fh_realloc_aligned(p, 1, size)
}
#[no_mangle]
unsafe extern "C" fn fh_realloc_aligned(p: *mut c_void, align: usize, size: usize) -> *mut c_void {
    let heap = if p.is_null() { null_mut() } else { known(p).0 };
    resized(p, heap, align, size)
}
#[no_mangle]
unsafe extern "C" fn fh_free(p: *mut c_void) {
    if !p.is_null() {
        let mut live = LIVE.lock().unwrap();
        List::remove(live.find(|of| core::ptr::eq(of.block, p)), p);
    }
}
#[no_mangle]
unsafe extern "C" fn fh_free_sized(p: *mut c_void, size: usize) {
    assert_eq!(known(p).1, size);
    fh_free(p);
}
#[no_mangle]
unsafe extern "C" fn fh_free_aligned_sized(p: *mut c_void, align: usize, size: usize) {
    assert_eq!(p as usize % align, 0);
    fh_free_sized(p, size);
}
#[no_mangle]
unsafe extern "C" fn fh_owns(p: *const c_void) -> bool {
    let within = |of: &Record| (p as usize).wrapping_sub(of.block as usize) < of.layout.size();
    !(*LIVE.lock().unwrap().find(within)).is_null()
}

#[no_mangle]
unsafe extern "C" fn fh_heap_new() -> *mut fh_heap_t {
    let heap = System.alloc(Layout::new::<Heap>()).cast::<Heap>();
    heap.write(Heap { quota: 0, held: 0 });
    heap.cast()
}
#[no_mangle]
unsafe extern "C" fn fh_heap_new_with(options: *const fh_heap_options_t) -> *mut fh_heap_t {
    let heap = fh_heap_new();
    (*heap.cast::<Heap>()).quota = (*options).quota;
    heap
}
#[no_mangle]
unsafe extern "C" fn fh_heap_stats_get(heap: *mut fh_heap_t, stats: *mut fh_heap_stats_t) -> bool {
    let _live = LIVE.lock().unwrap();
    (*stats).large_bytes = (*heap.cast::<Heap>()).held as u64;
    true
}
#[no_mangle]
unsafe extern "C" fn fh_heap_calloc(
    heap: *mut fh_heap_t,
    count: usize,
    size: usize,
) -> *mut c_void {
    get(heap, 1, count * size, true)
}
#[no_mangle]
unsafe extern "C" fn fh_heap_aligned_alloc(
    heap: *mut fh_heap_t,
    align: usize,
    size: usize,
) -> *mut c_void {
    get(heap, align, size, false)
}
#[no_mangle]
unsafe extern "C" fn fh_heap_realloc(
    heap: *mut fh_heap_t,
    p: *mut c_void,
    size: usize,
) -> *mut c_void {
    resized(p, heap, 1, size)
}
#[no_mangle]
unsafe extern "C" fn fh_heap_visit(
    heap: *mut fh_heap_t,
    visitor: fh_visitor_t,
    context: *mut c_void,
) -> bool {
    let live = LIVE.lock().unwrap();
    let mut at = live.0;
    while !at.is_null() {
        let of = &*at;
        if of.heap == heap && !visitor(of.block, of.layout.size(), context) {
            return false;
        }
        at = of.next;
    }
    true
}
#[no_mangle]
unsafe extern "C" fn fh_heap_destroy(heap: *mut fh_heap_t) {
    let mut live = LIVE.lock().unwrap();
    let mut link = live.find(|of| of.heap == heap);
    while !(*link).is_null() {
        List::remove(link, (**link).block);
        link = live.find(|of| of.heap == heap);
    }
    System.dealloc(heap.cast(), Layout::new::<Heap>());
}
