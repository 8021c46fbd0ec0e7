//! As a program's global allocator, heaps, statistics and profiles.

use freehold::{Freehold, Heap};
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static GLOBAL: Freehold = Freehold;

/// Miri takes a million times as long for a byte as a processor does.
const SIZES: &[usize] = if cfg!(miri) {
    &[1, 8, 16, 24, 100, 513]
} else {
    &[
        1, 8, 16, 24, 100, 513, 5000, 16384, 16385, 200_000, 700_000, 3_000_000,
    ]
};
const BLOCKS: usize = if cfg!(miri) { 10 } else { 1000 };

#[test]
fn what_the_program_allocates_is_ours() {
    let text = String::from("a text that is long enough for a block of its own");
    assert!(freehold::owns(text.as_ptr()));
    assert!(!freehold::owns(&text));
}

#[test]
fn blocks_have_their_layout_and_keep_their_bytes() {
    for &size in SIZES {
        for align in [1, 8, 16, 64, 4096, 1 << 16] {
            let layout = Layout::from_size_align(size, align).unwrap();
            unsafe {
                let p = GLOBAL.alloc_zeroed(layout);
                assert_eq!(p as usize % align, 0);
                assert!(std::slice::from_raw_parts(p, size).iter().all(|b| *b == 0));
                p.write_bytes(7, size);
                let q = GLOBAL.realloc(p, layout, size * 2 + 1);
                assert_eq!(q as usize % align, 0);
                assert!(std::slice::from_raw_parts(q, size).iter().all(|b| *b == 7));
                let larger = Layout::from_size_align(size * 2 + 1, align).unwrap();
                let q = GLOBAL.realloc(q, larger, size);
                assert!(std::slice::from_raw_parts(q, size).iter().all(|b| *b == 7));
                GLOBAL.dealloc(q, layout);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "of the library itself")]
fn a_vector_that_grows_to_a_gibibyte_is_not_copied() {
    let mut moves = 0;
    let mut bytes: Vec<u8> = Vec::with_capacity(1 << 20);
    let mut last = bytes.as_ptr();
    while bytes.capacity() < 1 << 30 {
        bytes.reserve_exact(bytes.capacity() + (4 << 20));
        moves += usize::from(bytes.as_ptr() != last);
        last = bytes.as_ptr();
    }
    assert!(moves < 10, "moved {moves} times");
    assert!(resident() < 200 << 20);
}

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn threads_share_a_heap_whose_blocks_end_with_it() {
    let heap = Heap::new().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..BLOCKS {
                    let value = heap.boxed([i; 20]).unwrap();
                    assert_eq!(value[19], i);
                    if i % 2 == 0 {
                        value.leak()[0] = 1;
                    }
                }
            });
        }
    });
    let (blocks, bytes) = heap.live();
    assert_eq!(blocks, 2 * BLOCKS);
    assert!(bytes >= 2 * BLOCKS * 160);
    assert_eq!(heap.text("text").unwrap(), "text");
}

#[test]
fn a_quota_bounds_a_heap() {
    let heap = Heap::with(c"bounded", 1 << 20).unwrap();
    let kept: Vec<_> = (0..1000)
        .map_while(|_| heap.boxed([1_u8; 100_000]).ok())
        .collect();
    assert!(kept.len() < 11 && kept.len() > 5);
    assert!(heap.held().1 >= kept.len() as u64 * 100_000);
}

static DROPPED: AtomicUsize = AtomicUsize::new(0);
struct Counted;
impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_box_drops_its_value_once() {
    let heap = Heap::new().unwrap();
    drop(heap.boxed((Counted, 1)).unwrap());
    assert_eq!(DROPPED.load(Ordering::Relaxed), 1);
    let (counted, one) = heap.boxed((Counted, 1)).unwrap().into_inner();
    assert_eq!((DROPPED.load(Ordering::Relaxed), one), (1, 1));
    drop(counted);
    heap.boxed((Counted, 1)).unwrap().leak();
    assert_eq!(DROPPED.load(Ordering::Relaxed), 2);
    assert_eq!(heap.live().0, 1);
    let nothing = heap.boxed(()).unwrap();
    *nothing
}

#[test]
#[cfg_attr(miri, ignore = "of the library itself")]
fn statistics_count_what_lives() {
    let before = freehold::stats();
    let blocks: Vec<Box<[u8; 100_000]>> = (0..50).map(|_| Box::new([1; 100_000])).collect();
    let now = freehold::stats();
    assert!(now.large_allocated >= before.large_allocated + 50);
    assert!(now.live_bytes > 5_000_000 && now.mapped > now.live_bytes);
    assert!(now.classes.iter().any(|class| class.live > 0));
    drop(blocks);
    let mut text = [0u8; 1 << 16];
    let length = freehold::stats_json_into(&mut text);
    assert!(length > 1000 && text.starts_with(b"{"));
}

#[test]
#[cfg_attr(miri, ignore = "of the library itself")]
fn options_are_read_and_set() {
    assert!(freehold::version().starts_with("1."));
    assert_eq!(freehold::option(c"no_such_option"), None);
    assert!(freehold::set_option(c"purge_delay_ms", 20));
    assert_eq!(freehold::option(c"purge_delay_ms"), Some(20));
    assert!(!freehold::set_option(c"purge_delay_ms", -77));
    freehold::collect(true);
    assert!(freehold::good_size(100) >= 100);
}

#[test]
#[cfg_attr(miri, ignore = "of the library itself")]
fn a_profile_is_written_in_the_format_of_pprof() {
    use std::os::fd::AsRawFd;
    let path = std::env::temp_dir().join(format!("freehold-{}.pb", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    freehold::profile::start(4096).unwrap();
    let kept: Vec<Vec<u8>> = (0..1000).map(|i| vec![1; 100 + i]).collect();
    for kind in [
        freehold::profile::Kind::Heap,
        freehold::profile::Kind::Blocks,
        freehold::profile::Kind::Lifetimes,
    ] {
        // SAFETY: the test's own file
        assert!(unsafe { freehold::profile::write(file.as_raw_fd(), kind) });
    }
    freehold::profile::stop();
    // SAFETY: not open
    assert!(!unsafe { freehold::profile::write(-1, freehold::profile::Kind::Heap) });
    assert!(std::fs::metadata(&path).unwrap().len() > 500);
    std::fs::remove_file(&path).unwrap();
    drop(kept);
}

#[cfg(feature = "allocator-api2")]
mod api2 {
    use super::*;
    use allocator_api2::alloc::Allocator;
    use allocator_api2::vec::Vec;

    fn fill<A: Allocator>(mut v: Vec<u32, A>) {
        for i in 0..100 * BLOCKS as u32 {
            v.push(i);
        }
        v.truncate(100);
        v.shrink_to_fit();
        assert_eq!(v[99], 99);
        assert!(freehold::owns(v.as_ptr()));
    }

    #[test]
    fn vectors_of_the_default_heap_and_of_a_heap() {
        fill(Vec::new_in(Freehold));
        let heap = Heap::new().unwrap();
        fill(Vec::new_in(&heap));
        assert_eq!(heap.live().0, 0);
    }

    #[test]
    fn what_is_grown_is_zero_where_that_was_asked_for() {
        let heap = Heap::new().unwrap();
        zeroed(&Freehold);
        zeroed(&&heap);
        assert_eq!(heap.live().0, 0);
    }

    fn zeroed(of: &impl Allocator) {
        for align in [1, 16, 256] {
            for size in [0, 10, 5000, if cfg!(miri) { 0 } else { 300_000 }] {
                let layout = |n| Layout::from_size_align(n, align).unwrap();
                unsafe {
                    let p = of.allocate_zeroed(layout(size)).unwrap();
                    p.cast::<u8>().as_ptr().write_bytes(9, size);
                    let q = of
                        .grow_zeroed(p.cast(), layout(size), layout(size * 3))
                        .unwrap();
                    assert_eq!(q.cast::<u8>().as_ptr() as usize % align, 0);
                    let bytes = std::slice::from_raw_parts(q.cast::<u8>().as_ptr(), size * 3);
                    assert!(bytes[..size].iter().all(|b| *b == 9));
                    assert!(bytes[size..].iter().all(|b| *b == 0));
                    let r = of
                        .shrink(q.cast(), layout(size * 3), layout(size / 2))
                        .unwrap();
                    of.deallocate(r.cast(), layout(size / 2));
                }
            }
        }
    }
}
