/* heap.h - what one heap holds                                                       layer 5: stock
 * Owns:    heap_t.   Called by: stock, heap.   Calls: slab.
 * Threads: a heap is used by one thread at a time: by the thread whose it is, or by the holder of a
 *          first-class heap's lane. */
#ifndef STOCK_HEAP_H
#define STOCK_HEAP_H

#include "../slab/slab.h"

enum {
  PENDING_BLOCKS = 16,           /* frees of others' blocks that are put off together */
  BATCH_SLOTS = 64,              /* slabs for which frees are gathered: the bits of a word */
  EARN_BYTES = 1024,             /* a class's first blocks come from slabs it does not keep, ... */
  SHARED_CLASS = 40,             /* ... and all blocks from this class on, 1 KiB */
  CARVE_BYTES = 4096,            /* fresh blocks that are linked at a time */
  RUN_MOST = 12,                 /* of large blocks a heap keeps runs of so many slices at most */
};
enum { WINDOW_NONE = 1 };        /* no address's window */
enum { CLASS_WORDS = (CLASS_COUNT + 63) / 64 };

typedef struct heap heap_t;

/* Of a lane; how its heap has ended is said to the collection that is in it. */
typedef enum {
  LANE_NONE, LANE_BUSY, LANE_FREE, LANE_COLLECTED, LANE_DELETED, LANE_DESTROYED
} lane_state_t;

/* Blocks of one slab of another's, chained, not yet published. The chain is one word, so that a
 * free that is cut short leaves it whole: its first and last block, and how many. */
typedef struct {
  slab_t *slab;                  /* NULL: none */
  uint64_t chain;
} batch_t;
static inline uintptr_t batch_first(const batch_t *b) { return (uint16_t)b->chain; }
static inline uintptr_t batch_last(const batch_t *b) { return (uint16_t)(b->chain >> 16); }
static inline unsigned batch_count(const batch_t *b) { return (unsigned)(b->chain >> 32); }

/* What a heap has freed and not put back into slabs, and what it was lent. Apart from the heap, so
 * that one of which little was used touches no page of it. */
typedef struct {
  uintptr_t returned[CLASS_COUNT];       /* blocks of slabs that nobody owns: the next bins */
  uintptr_t pending[PENDING_BLOCKS];     /* blocks of others' slabs, not yet gathered */
  uint64_t remote;                       /* a bit for each class whose blocks others free */
  uint64_t slots;                        /* a bit for each used since the last flush */
  /* chains in `batch`, and HELD_PENDING for a pending block; how many more than at first may be */
  uint32_t held, held_more;
  batch_t batch[BATCH_SLOTS];
  uint32_t discards_at, discards; /* os_now_ms of a tail's; how many more there may be in that */
  uint64_t fresh[CLASS_COUNT - SHARED_CLASS]; /* never used, of the larger classes: fresh.h */
  uint64_t were_short;           /* a bit for each of these classes: given up when it was full */
} aligned_to(64) heap_freed_t;

/* Likewise apart: what a heap has that uses more than a few blocks. */
typedef struct {
  uint32_t slabs[CLASS_COUNT];   /* slab_number: the slabs that it owns, the one in use first */
  uint32_t sweep_at, sweep_class; /* slab_number: a lane's slab to be looked at next; its class */
  uint8_t owned[CLASS_COUNT];    /* how many these are; a lane's may wrap, and decides nothing */
  uint8_t growth[CLASS_COUNT - SHARED_CLASS]; /* how often `allowance` may be doubled */
} aligned_to(64) heap_own_t;

struct heap {
  uintptr_t bin[CLASS_COUNT];    /* lists of blocks ready to be handed out */
  heap_freed_t *freed;
  heap_own_t *own;
  uint16_t allowance[CLASS_COUNT]; /* how many blocks of a class `returned` may hold ... */
  uint16_t room[CLASS_COUNT];    /* ... and how many more it may now */
  atomic16_t taken[CLASS_COUNT]; /* blocks put into bins; what would not fit is in the pool's sum */
  uint64_t classes[CLASS_WORDS]; /* a bit for each class it has used since the pool gave it out */
  uint8_t idle, trim_class;      /* empty slabs among `own`; the class to be trimmed next */
  uint8_t busy;                  /* mark */
  uint8_t has_trimmed;           /* all classes had their turn */
  uint8_t trims_due;             /* slices given back */
  uint8_t has_shared;            /* something may be pending, or in a batch */
  uint8_t pending_count;
  uint8_t calls, wait, looked_at; /* slow ones until the next look; after it; ms, at the last one */
  uint8_t slabs_made;            /* out of slices; not more than can be counted */
  atomic64_t home;               /* heap_here.window between calls: where a block was last freed */
  uint32_t magazine[RUN_MOST];   /* slab_number: runs of 1, 2, ... slices without blocks */
  uint32_t singles;              /* how many are on the first list */
  uint16_t run_slices, run_share; /* slices on all others; how many these may be */
  atomic64_t large_live, large_allocated; /* blocks; not yet in heap_counts: pool_settle */
  int32_t tails;                 /* likewise, and what they use: tails.c */
  atomic32_t resting_pages;      /* 0: it does not rest in the pool, with things in it */
  uint32_t number;               /* const: its place in the pool */
  atomic32_t lane_state;         /* lane_state_t */
  atomic_ptr_t nested;           /* a signal handler's, while this is marked; a lane: the next */
  atomic_ptr_t tag;              /* the first-class heap whose lane this is, or NULL */
  atomic_ptr_t index;            /* a lane: the first chunk of its index */
  uint32_t trims_seen;           /* heap_trims, when it last answered that */
  atomic64_t remote_frees, swaps; /* its user alone adds to them; 32 bits would last an hour */
} aligned_to(64);

/* relaxed, as is huge_base: who uses the heap wrote it; statistics take what stands there. */
static inline void *heap_tag(const heap_t *h) { return atomic_ptr_load_relaxed(&h->tag); }

static inline void heap_note_class(heap_t *h, unsigned c) {
  h->classes[c / 64] |= (uint64_t)1 << c % 64;
}
/* The next class above `c` of which the heap may have anything; 0: none. */
static inline unsigned heap_next_class(const heap_t *h, unsigned c) {
  for (c++; c < CLASS_COUNT; c = (c | 63) + 1) { /* Bound: CLASS_WORDS */
    uint64_t w = h->classes[c / 64] >> c % 64;
    if (w != 0) return c + bits_lowest(w);
  }
  return 0;
}
static inline uint32_t heap_taken(const heap_t *h, unsigned c) {
  return atomic16_load_relaxed(&h->taken[c]);
}
enum { TAKEN_PART = 1 << 15 };
/* How many blocks the heap has taken since the last of these trials was due; not for all heaps and
 * classes at once. */
static inline uint32_t heap_since_trial(const heap_t *h, unsigned c, uint32_t taken) {
  enum { HEAPS_APART = 25033, CLASSES_APART = 9973 };
  return (h->number * HEAPS_APART + c * CLASSES_APART + taken) % TAKEN_PART;
}
static inline bool heap_knows_remote(const heap_t *h, unsigned c) {
  return c < SHARED_CLASS && (h->freed->remote >> c & 1) != 0;
}
/* Has the heap used so much of this class that slabs of its own are worth while? Never of one that
 * has few blocks in a slab, or whose blocks others free. */
static inline bool heap_has_earned(const heap_t *h, unsigned c) {
  return c < SHARED_CLASS && !heap_knows_remote(h, c) &&
         heap_taken(h, c) * class_size(c) >= EARN_BYTES;
}

hidden bool heap_is_valid(const heap_t *h);        /* its user only, who has it marked: check.c */

#endif
