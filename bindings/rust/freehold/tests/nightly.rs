//! The trait `Allocator` of the standard library.
#![cfg(feature = "allocator_api")]
#![feature(allocator_api)]

use freehold::{Freehold, Heap};

#[test]
fn boxes_and_vectors_of_the_default_heap_and_of_a_heap() {
    let count = if cfg!(miri) { 1000 } else { 100_000 };
    let heap = Heap::new().unwrap();
    let one = Box::new_in(7_u64, &heap);
    let mut many = Vec::new_in(&heap);
    many.extend(0..count);
    let mut ours = Vec::with_capacity_in(1, Freehold);
    ours.extend(0..count);
    assert_eq!((*one, &many[..]), (7, &ours[..]));
    assert_eq!(heap.live().0, 2);
    drop((one, many));
    assert_eq!(heap.live().0, 0);
}
