/* heap.h - what one heap holds                                                       layer 5: stock
 * Owns:    heap_t.   Called by: stock, heap, api.
 *          Calls: outbox.c, owned.c, returned.c, magazine.c, sample.c, slab.
 * Threads: one thread at a time uses a heap: the thread to which it belongs, or for a first-class
 *          heap's lane the thread in it. A taker moves what a sleeper's heap keeps (sleepers.h).
 * Holds:   H1 `slab_count` is the length of a class's list of slabs, whose first leads to the last
 *             and each other to the one before
 *          H2 a listed slab is small, of that class, and owned by the heap, in its anchor too
 *          H3 `idle` counts the slabs marked as idle, and none of their blocks is in use
 *          H4 a class of which the heap has anything, even behind a cut, has its bit in `classes`
 *          H5 a returned list has as many blocks as `returned_most` and `returned_room` say, and
 *             one more for each fast free that was cut short
 *          H6 a chain of the outbox stands where its slab's slice belongs. One in `batch` has its
 *             bit in `slots`. `put_off` counts these, or more; it is 1 if the outbox is wide
 *          H7 a block in a bin or a returned list is free, of that class, and begins where one may
 *          H8 a chain of the outbox has as many free blocks of its slab, from first to last, as it
 *             says
 *          H9 never-used blocks that are at hand have their bits in `fresh` of their slab */
#pragma once

#include "../slab/slab.h"
#include "users.h"

enum {
  BATCH_SLOTS = 64,    /* slabs for which frees are gathered: the bits of a word */
  FETCHES = 8,         /* freed blocks whose lines are on their way */
  EARN_BYTES = 1024,   /* a class's first blocks, so many bytes, are borrowed */
  MEDIUM_CLASS = 40,   /* 1 KiB: from here on classes are medium, and blocks borrowed */
  CARVE_BYTES = 4096,  /* a bin's worth: if fewer were freed, fresh ones are added */
  RUN_MOST = 12,       /* slices in the longest run that a heap keeps */
  PAGE_RUNS_KEPT = 32, /* runs of pages that it keeps */
};
enum { WINDOW_NONE = 1 }; /* no address's window */

/* Another thread can take what a sleeper's heap keeps. Words with these bits are closed to the fast
 * paths: a bin counts as empty, a returned list as full, a chain as another slab's. This costs no
 * extra test: the fast paths already test for what is not above 0. */
enum { HEAPS_CAN_BE_TAKEN = HAS_STRONG_ORDER && ADDRESS_BITS > 32 && !SECURE };
#define BIN_CLOSED ((uintptr_t)HEAPS_CAN_BE_TAKEN << (8 * sizeof(uintptr_t) - 1))
#define ROOM_CLOSED (1u << 15)
#define CHAIN_CLOSED ((uintptr_t)1)
/* `is_taken` of a heap. From TAKEN_MOVING on its contents move; the taker knows what it held. */
typedef enum { TAKEN_NOT, TAKEN_CHOSEN, TAKEN_REFUSED, TAKEN_LEFT, TAKEN_MOVING } taken_t;
static always_inline bool heap_bin_has_block(uintptr_t bin) {
  return HEAPS_CAN_BE_TAKEN ? (intptr_t)bin > 0 : bin != 0;
}
static always_inline bool heap_list_has_room(uint16_t room) {
  return HEAPS_CAN_BE_TAKEN ? (int16_t)room > 0 : room != 0;
}
enum { CLASS_WORDS = (CLASS_COUNT + 63) / 64 };

typedef struct heap heap_t;

/* A lane's state. A visited lane is as its last user left it: the visitor may have jumped out. The
 * last two tell a collection in the lane how its first-class heap ended. */
typedef enum { /* clang-format off */
  LANE_NONE, LANE_BUSY, LANE_FREE, LANE_VISITED, LANE_COLLECTED, LANE_DELETED, LANE_DESTROYED
} lane_state_t; /* clang-format on */

/* The one slice that a heap may have beyond the hard limit. A call that the limit refuses opens the
 * reserve. It opens again once there is memory below the limit. */
typedef enum { RESERVE_DENIED, RESERVE_GRANTED, RESERVE_USED } reserve_t;

/* Blocks of one slab that the heap does not own, chained and not yet published. The chain is one
 * word, so that a free that is cut short leaves it whole. It has the first and last block, how many
 * there are, and how many more until it is due. */
typedef struct {
  slab_t *slab;    /* NULL: none */
  atomic64_t word; /* relaxed: the heap's user alone; 64 bits on any processor */
} batch_t;
static inline uint64_t batch_word(const batch_t *b) { return atomic64_load_relaxed(&b->word); }
static inline uintptr_t batch_first(const batch_t *b) { return (uint16_t)batch_word(b); }
static inline uintptr_t batch_last(const batch_t *b) { return (uint16_t)(batch_word(b) >> 16); }
static inline unsigned batch_count(const batch_t *b) { return (uint16_t)(batch_word(b) >> 32); }
/* More may have come than were due, where a handler kept the heap from publishing. */
static inline bool batch_is_due(const batch_t *b) { return (int64_t)batch_word(b) >> 48 <= 0; }
/* What one more block changes in the word: the count, and how many are left until it is due. */
static const uint64_t batch_one = ((uint64_t)1 << 32) - ((uint64_t)1 << 48);

/* What a heap has set aside: blocks freed and not put back, or borrowed and not used. It lies
 * apart, so that a little-used heap touches no page of it. */
typedef struct {
  uintptr_t returned[CLASS_COUNT]; /* blocks of slabs that nobody owns: the next bins */
  uint64_t remote;                 /* a bit for each class whose blocks others free */
  uint64_t given_up; /* a bit for each class given up and not refilled since: no slab is adopted */
  uint64_t slots;    /* a bit for each slot of `batch` that was used */
  union {
    batch_t batch[BATCH_SLOTS];
    uintptr_t fetched[FETCHES]; /* of a wide outbox: blocks to be chained some frees later */
  };
  uintptr_t wide;              /* the slots of a wide outbox, or 0; with BIN_CLOSED: outbox.h */
  uint16_t wide_last, wide_at; /* number of the last slot; the slot to look at next */
  uint32_t wide_found;         /* chains found since slot 0 was looked at */
  uint32_t lots;               /* drawn for a trial of `remote`, or a look at a long list */
  uint16_t crowded;            /* frees that called for more slots: slot_for in outbox.c */
  uint8_t fetches;             /* modulo FETCHES: the place of the next block */
  uint8_t is_closing : 1;      /* the wide outbox takes no new chains */
  uint8_t put_off_more : 7;    /* how many more chains may wait */
  atomic64_t fresh[CLASS_COUNT - MEDIUM_CLASS]; /* borrowed and never used: fresh.h */
  struct quarantine *quarantine[SECURE];        /* const */
} aligned_to(64) heap_aside_t;

/* For a medium class: how often its `returned` list was doubled, and whether it was full since. And
 * how many looks in a row found that little of it was used. */
typedef struct {
  uint8_t doublings : 3, was_full : 1, little_used : 4;
} lengthened_t;

/* What a heap needs once it uses more than a few blocks. It lies apart for the same reason. */
typedef struct {
  uint32_t slabs[CLASS_COUNT];       /* slab_number: its own slabs, the one in use first */
  uint32_t sweep_at, sweep_class;    /* slab_number: a lane's slab to look at next; its class */
  uint8_t slab_count[CLASS_COUNT];   /* their number; a lane's may wrap, and decides nothing */
  int16_t others_lead[MEDIUM_CLASS]; /* whose frees lead in these classes: owned.c */
  lengthened_t lengthened[CLASS_COUNT - MEDIUM_CLASS];
  uint16_t more_singles;   /* slices that the magazine's first list may have beyond its due */
  uint16_t missed_singles; /* slices given back that the heap has not claimed again */
  /* Runs of pages without blocks: runs.h. A bit for each slot in use: of each length, of all
   * lengths. A bit for each length in use. The number of their pages. */
  uintptr_t page_runs[PAGE_RUNS_KEPT];
  uint32_t runs_of[SPAN_LEVELS], kept_runs, kept_lengths;
  uint16_t kept_pages;
  /* the most pages that it may keep, as last settled; how many of these may exceed its due; pages
   * that it had no room for and has not claimed again */
  uint16_t pages_most, more_pages, missed_pages;
  uint8_t next_run_slot;    /* the slot that makes room next */
  uint8_t missed_doublings; /* how often the limit on missed pages was doubled: runs.c */
  int16_t free_pages;       /* of spans, more or fewer than in arena_counts: runs.h */
  /* a free gives a span's idle pages back from so many on, 0: never; frees until the next look */
  uint8_t least_to_go, looks_left;
  /* bytes in blocks taken while its thread slept: held.h. A taker writes them */
  atomic64_t moved_ready, moved_freed;
  atomic32_t lane_slabs; /* of a lane: its slabs; written by its user */
  atomic64_t lane_bytes; /* in its large and huge blocks, and a mark: any thread adds (index.c) */
} aligned_to(64) heap_own_t;

struct heap {
  uintptr_t bin[CLASS_COUNT]; /* lists of blocks ready to be handed out */
  heap_aside_t *aside;
  heap_own_t *own;
  uint16_t returned_most[CLASS_COUNT]; /* how many blocks of a class `returned` may hold */
  uint16_t returned_room[CLASS_COUNT]; /* how many more blocks it may take now */
  atomic16_t binned[CLASS_COUNT];      /* blocks put into bins; the overflow is in heap_counts */
  atomic16_t empty_steps;              /* where its next search begins: empty.c */
  uint64_t classes[CLASS_WORDS]; /* a bit for each class used since the pool gave the heap out */
  uint8_t idle : 4, reserve : 3; /* empty slabs among `own`; reserve_t */
  uint8_t counts_pages : 1;      /* `own->free_pages` is not 0, perhaps */
  uint8_t trim_class;            /* the class to be trimmed next */
  uint8_t busy;                  /* mark */
  uint8_t trims_due;             /* steps of heap_trim: one for each slice given back, or all */
  uint16_t put_off;              /* chains in `aside->batch`; 1 if the outbox is wide */
  /* slow calls until the next heap_do_due; slow calls between looks; os_now_ms at the last look */
  uint8_t calls, wait, looked_at;
  atomic8_t is_taken;            /* taken_t: is another thread taking what it keeps? */
  uint16_t slabs_made;           /* out of slices; counted up to UINT16_MAX */
  uint16_t trims_seen;           /* heap_trims when it last answered */
  uint16_t watched_binned;       /* `binned` of the watched class when the watch began */
  atomic64_t home;               /* heap_here.window between calls: where a block was last freed */
  uint32_t magazine[RUN_MOST];   /* slab_number: runs of 1, 2, ... slices without blocks */
  uint16_t singles;              /* slices on the first list */
  uint8_t keeps_pages : 1;       /* `own->kept_pages` is not 0 */
  uint8_t watched : 7;           /* a class, or 0: heap_watch_class */
  uint8_t watched_at;            /* os_now_ms */
  uint16_t run_slices, run_most; /* slices on all other lists; their limit */
  atomic64_t large_live, large_allocated; /* blocks; not yet in heap_counts: pool_settle */
  int32_t tails;                          /* tails and pages, not yet in heap_counts: tails.c */
  atomic32_t resting_pages;               /* what it holds at rest in the pool; 0: not at rest */
  atomic32_t number;     /* its place in the pool, relaxed: 0 after its pages were discarded */
  atomic32_t lane_state; /* lane_state_t */
  union {
    atomic_ptr_t nested;    /* a handler's heap, while this heap is marked */
    atomic_ptr_t next_lane; /* of a lane */
  };
  atomic_ptr_t tag;   /* the first-class heap whose lane this is, or NULL */
  atomic_ptr_t index; /* a lane: the first chunk of its index */
  /* only its user adds to these; 32 bits would last an hour */
  atomic64_t remote_frees, shared_frees, swaps;
} aligned_to(64);

/* relaxed, as in huge_base: the heap's user wrote it; statistics take whatever they find. */
static inline void *heap_tag(const heap_t *h) { return atomic_ptr_load_relaxed(&h->tag); }

static always_inline bool heap_is_taken(const heap_t *h) {
  return HEAPS_CAN_BE_TAKEN && atomic8_load_relaxed(&h->is_taken) != TAKEN_NOT;
}

static inline uint32_t heap_number(const heap_t *h) { return atomic32_load_relaxed(&h->number); }
/* Its place has been given out before. */
static inline bool heap_was_used(const heap_t *h) { return atomic64_load_relaxed(&h->home) != 0; }

static inline void heap_note_class(heap_t *h, unsigned c) {
  h->classes[c / 64] |= (uint64_t)1 << c % 64;
}
/* The next class above `c` of which the heap may have something; 0: none. */
static inline unsigned heap_next_class(const heap_t *h, unsigned c) {
  for (c++; c < CLASS_COUNT; c = (c | 63) + 1) { /* Bound: CLASS_WORDS */
    uint64_t w = h->classes[c / 64] >> c % 64;
    if (w != 0) return c + bits_lowest(w);
  }
  return 0;
}
static inline uint32_t heap_binned(const heap_t *h, unsigned c) {
  return atomic16_load_relaxed(&h->binned[c]);
}
/* After so many blocks a class may be tried again; one time in TRIALS_PART it is: owned.c. */
enum { TRIAL_BLOCKS = 1 << 15, TRIALS_PART = 16 };
/* Blocks binned since a trial of the class was last due. Trials of different heaps and classes are
 * due at different times. */
static inline uint32_t heap_since_trial(const heap_t *h, unsigned c, uint32_t binned) {
  enum { HEAPS_APART = 25033, CLASSES_APART = 9973 };
  return (heap_number(h) * HEAPS_APART + c * CLASSES_APART + binned) % TRIAL_BLOCKS;
}
/* Others free the blocks of this class, as far as the last trial showed. */
static inline bool heap_knows_remote(const heap_t *h, unsigned c) {
  return c < MEDIUM_CLASS && (h->aside->remote >> c & 1) != 0;
}
/* Has the heap used enough of this class to make slabs of its own worthwhile? Never if a slab has
 * few of these blocks, or others free them. */
static inline bool heap_has_earned(const heap_t *h, unsigned c) {
  return c < MEDIUM_CLASS && !heap_knows_remote(h, c) && !users_are_many() &&
         heap_binned(h, c) * class_size(c) >= EARN_BYTES;
}

hidden bool heap_is_valid(const heap_t *h); /* only for its user, with the heap marked */
