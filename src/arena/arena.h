/* arena.h - windows of address space and their slices                                layer 3: arena
 * Owns:    the arenas: which slices are free, which were released since they were mapped or purged,
 *          how much of a window is mapped.
 * Called by: slab, stock, heap, secure, api.   Calls: bitmap, grow, frames, patience, budget, os.
 * Threads: any. Nobody waits for another's mmap: a thread that finds no room claims a range of a
 *          window by one swap and maps it.
 * Sync:    S-bit (bitmap.h) hands slices on; S-arena  slices_publish (release) -> arena_at
 *          (acquire); S-read  a reader counts itself, then checks what the slice is; a thread that
 *          unmaps first makes it something else, then checks the count. Both change one word, so
 *          one sees the other.
 * Holds:   A1 a slice is claimed, so that its free bit is clear, while its dirty bit changes
 *          A2 a free slice is mapped, and lies behind the window's descriptors and maps
 *          A3 a free slice that is not dirty reads as zero
 *          A4 a free slice that is not dirty has no `touched` pages. In other slices the pages
 *             behind these are not in memory, unless pinned or made present by `arena_populate`
 *          A5 what is unmapped is not free
 *          A6 what is free and was purged is not dirty */
#pragma once

#include "../base/sizeclass.h"
#include "hint.h"
#include "map.h"

enum {
  DESCRIPTOR_SHIFT = 7,
  DESCRIPTOR_SIZE = 1 << DESCRIPTOR_SHIFT,
  ARENA_WORDS = WINDOW_SLICES / 64,
  ARENA_GROUPS = ARENA_WORDS,       /* 64 slices, 4 MiB: a word of any bitmap */
  ARENA_FRAMES = WINDOW_SIZE >> 21, /* of 2 MiB: huge pages */
  ARENA_MAP_SLICES = 3,             /* that arena_maps_t takes behind the descriptors */
  ARENA_FIRST_SLICE = WINDOW_SLICES * DESCRIPTOR_SIZE / SLICE_SIZE + ARENA_MAP_SLICES,
  /* The last slice of a window is never mapped, so that a block that overflows does not reach the
   * next arena's head. */
  ARENA_END = WINDOW_SLICES - 1,
  ARENA_MOST = 4096,
  TOUCHED_SHIFT = 12,
  TOUCHED_ALL = SLICE_SIZE >> TOUCHED_SHIFT,
  ARENA_SPANS = WINDOW_SLICES / 4, /* span.h */
  ARENA_SPAN_PAGES = 64,
  SPAN_LEVELS = 28,
};

/* The head of a window. A descriptor of DESCRIPTOR_SIZE bytes stands for each slice of the window.
 * Those for the slices that hold the descriptors are never used, and hold this head. */
typedef struct {
  atomic64_t free[ARENA_WORDS]; /* set: free to be claimed */
  atomic64_t mapped;            /* slices mapped, or being mapped: the window's first */
  atomic32_t low_word;          /* a hint: no free slice in the words below */
  uint32_t number;              /* const: its place in the list of arenas */
  uint16_t first, end;          /* const: it may have slices from `first` up to `end` */
  bool is_added;                /* const: the memory of its slices is never unmapped or moved */
  bool is_pinned;               /* const: nor does it go back to the system */
  /* for the slab layer: which fours of slices are spans; a hint: nonzero words of `roomy`
   */
  atomic64_t spans[ARENA_SPANS / 64], roomy_groups[SPAN_LEVELS];
} arena_t;
_Static_assert(sizeof(arena_t) <= ARENA_FIRST_SLICE * DESCRIPTOR_SIZE,
               "the head fits over the unused descriptors");

/* The first entries, which every program touches, lie on two pages: one behind `dirty`, one behind
 * `partial_groups`. */
typedef struct {
  /* set: released since it was mapped or purged; it stays set while the slice is in use again */
  atomic64_t dirty[ARENA_WORDS];
  /* how many of a slice's first 4 KiB pages may be in memory: A4; written by the slice's holder */
  uint8_t touched[WINDOW_SLICES];
  atomic64_t purged[ARENA_WORDS]; /* set: free, given back since it was last in use */
  /* a hint: groups whose word in `partial` may not be 0 */
  atomic64_t partial_groups[CLASS_COUNT][ARENA_GROUPS / 64] aligned_to(4096);
  atomic64_t dirty_groups[ARENA_GROUPS / 64]; /* a hint: groups with free dirty slices */
  atomic32_t dirty_since[ARENA_WORDS];        /* os_now_ms of the last release in this word */
  /* for the slab layer: slabs that anyone may take, by class */
  atomic64_t partial[ARENA_GROUPS][CLASS_COUNT];
  atomic64_t unmapped[ARENA_WORDS]; /* set: below `mapped`, but given back */
  /* threads that now read what others may free: S-read. One that stops there, or a fork meanwhile,
   * keeps one group from being unmapped */
  atomic32_t readers[ARENA_GROUPS];
  atomic32_t refused_at[ARENA_GROUPS]; /* when the system kept something; 0: it did not */
  atomic64_t huge[ARENA_FRAMES / 64];  /* set: made a huge page, and no part has gone since */
  /* for the slab layer, a hint: spans whose longest free run has 5, 6, ... pages */
  atomic64_t roomy[SPAN_LEVELS][ARENA_SPANS / 64];
} arena_maps_t;
_Static_assert(sizeof(arena_maps_t) <= ARENA_MAP_SLICES * SLICE_SIZE, "the maps fit");
_Static_assert(offsetof(arena_maps_t, partial_groups) % KiB(4) == 0, "a page begins");

typedef struct {
  atomic64_t mapped, committed, peak_committed, dirty; /* slices; relaxed: sums */
  atomic64_t purged, huge_bytes;                       /* bytes */
  atomic64_t collapsed;                                /* frames that were made huge pages */
  atomic64_t reserved;                                 /* bytes of huge pages: added.h */
  atomic64_t spans;
  /* of spans, 4 KiB each: free pages (runs.h); those of them that count as not in memory */
  atomic64_t free_pages, absent_pages;
} aligned_to(64) arena_counts_t; /* lines of their own: all threads write to them */
extern hidden arena_counts_t arena_counts;

/* Slices in use. Spans count as many as their pages in use would fill. */
static inline size_t arena_used(void) {
  int64_t free = (int64_t)atomic64_load_relaxed(&arena_counts.free_pages) / TOUCHED_ALL;
  size_t all = atomic64_load_relaxed(&arena_counts.committed);
  return free > 0 ? all - min_size(all, (size_t)free) : all;
}

/* So little is in use that a look at slabs would take more memory than it saves. It needs libc's
 * code for the time of day, of which the system maps 64 KiB. */
static inline bool arena_is_small(void) {
  enum { SMALL_SLICES = 32 };
  return atomic64_load_relaxed(&arena_counts.committed) < SMALL_SLICES;
}

static inline arena_t *arena_of(const void *p) {
  return (arena_t *)align_down((uintptr_t)p, WINDOW_SIZE);
}
static inline size_t arena_slice(const void *p) {
  return ((uintptr_t)p >> SLICE_SHIFT) % WINDOW_SLICES;
}
static inline void *arena_address(const arena_t *a, size_t slice) {
  return (char *)a + (slice << SLICE_SHIFT);
}
static inline void *arena_descriptor(const void *p) {
  return (char *)arena_of(p) + (arena_slice(p) << DESCRIPTOR_SHIFT);
}
/* The slice that a descriptor stands for. */
static inline void *arena_described(const void *descriptor) {
  size_t slice = ((uintptr_t)descriptor % WINDOW_SIZE) >> DESCRIPTOR_SHIFT;
  return arena_address(arena_of(descriptor), slice);
}
static inline arena_maps_t *arena_maps(const arena_t *a) {
  return (arena_maps_t *)arena_address(a, ARENA_FIRST_SLICE - ARENA_MAP_SLICES);
}

/* The `touched` of the last of `n` slices. */
static inline uint8_t *arena_touched_last(const void *first, size_t n) {
  return &arena_maps(arena_of(first))->touched[arena_slice(first) + n - 1];
}

/* `n` adjacent slices, the first at a multiple of `alignment` slices (a power of two; n + alignment
 * is at most half a window). `*clean`: all of it reads as zero. All but the last count as touched;
 * the last one's `touched` stays as it was. NULL when memory is short or the limit is reached. */
hidden void *arena_claim(size_t n, size_t alignment, bool *clean);
/* Likewise, one slice, whatever the limit is. */
hidden void *arena_claim_beyond(bool *clean);
/* The `n` slices from `at` on, if they happen to be free. `*clean` as above. */
hidden bool arena_claim_at(void *at, size_t n, bool *clean);
/* Likewise, or if they are next to be mapped. */
hidden bool arena_grow_at(void *at, size_t n, bool *clean);
/* Does the first range of the first arena end before this slice? No block grows beyond that. */
hidden bool arena_is_first_end(const arena_t *a, size_t slice);
/* Gives slices back; they may be claimed at once. Purges nothing: arena_release of purge.h checks
 * the budget too. */
hidden void arena_release_dirty(void *first, size_t n);
hidden void arena_release_clean(void *first, size_t n); /* they read as zero */
/* Gives back slices at which nothing is mapped, and which no longer count as committed. They are
 * mapped again, at once if there is memory. */
hidden void arena_release_moved(void *first, size_t n);

/* Unmaps groups of 64 slices of which none is in use, when memory or address space is short. True
 * if any were. */
hidden bool arena_unmap_free(void);
hidden void arena_begin_in_child(void); /* of a fork: other threads' growth is not under way here */
/* Between the two calls the group of `p` is not unmapped. If unmapping began before, the descriptor
 * says that the slice has changed. */
hidden void arena_read_begin(const void *p);
hidden void arena_read_end(const void *p);
/* Does any thread read in the `n` slices, or near them? A later reader sees what they are now. */
hidden bool arena_is_read(const void *first, size_t n);
/* Gives back the bits of a word that were claimed. */
hidden void arena_put_back(arena_t *a, size_t word, uint64_t bits);

/* May the slice of `p`, in an arena's window, hold blocks? */
static inline bool arena_has_slice(const void *p) {
  const arena_t *a = arena_of(p);
  return arena_slice(p) >= a->first && arena_slice(p) < atomic64_load_relaxed(&a->mapped);
}
/* Does the memory at `p` stay, whatever happens to the slice? */
static inline bool arena_is_pinned(const void *p) {
  return map_kind(map_find(p)) == TENANT_ARENA && arena_of(p)->is_pinned;
}
/* os_discard of part of a block; false also if it is pinned. */
hidden bool arena_discard(void *at, size_t size);
/* Likewise of all runs of bits in `units`, each of which is `unit` bytes from `base` on. Returns
 * the bits that went. */
hidden uint64_t arena_discard_runs(void *base, size_t unit, uint64_t units);

/* More is in use than a moment ago. */
hidden void arena_note_peak(void);

hidden size_t arena_count(void);         /* ARENA_MOST at most */
hidden arena_t *arena_at(size_t number); /* below arena_count(); NULL if it is just being made */

hidden bool arena_is_valid(const arena_t *a); /* while nobody claims or frees */
