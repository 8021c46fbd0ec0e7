//! What the allocator holds.

use crate::sys;

/// One size class, or all of them. `docs/statistics.md` has each figure.
pub type ClassStats = sys::fh_class_stats_t;

/// The statistics of the process. `docs/statistics.md` has each figure.
pub type Stats = sys::fh_stats_t;

/// Reads the statistics. It stops nobody, so figures of running threads may be a moment apart. Time
/// in proportion to slabs, large blocks, heaps and pages.
pub fn stats() -> Stats {
    // SAFETY: all of its fields are numbers, and the size is that of the struct
    unsafe {
        let mut stats: Stats = core::mem::zeroed();
        stats.struct_size = core::mem::size_of::<Stats>();
        let known = sys::fh_stats_get(&mut stats);
        debug_assert!(known);
        stats
    }
}

/// The statistics as a JSON object, cut to `buffer`; how long all of it is.
pub fn stats_json_into(buffer: &mut [u8]) -> usize {
    // SAFETY: no more than the buffer is written
    unsafe { sys::fh_stats_json(buffer.as_mut_ptr().cast(), buffer.len()) }
}
