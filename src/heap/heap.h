/* heap.h - the front end of a thread                                                  layer 5: heap
 * Owns:    heap_t, the pool of heaps, huge blocks.   Called by: api.   Calls: slab, arena, support,
 *          os.
 * Threads: a heap is used by one thread at a time: by the thread whose it is, or by the holder of a
 *          first-class heap's lane.
 * Sync:    S-pool  a heap given back to the pool (release) -> the next claim of it (acquire).
 *
 * Signals: three marks say that an operation is under way, so that a signal handler which
 *          interrupts it leaves the heap alone and uses the thread's next one: heap_here.limit is 0
 *          while a bin changes, heap_here.window is 0 inside a fast free, and everything else sets
 *          both and the heap's `busy`. A fast malloc touches its bin only, a fast free the slab or
 *          what `freed` has, so one may interrupt the other; and each mark is at the same time what
 *          the fast path tests anyway (the size, the window), so that it costs no test of its own,
 *          and a thread that has no heap yet, whose thread-local words are all 0, is marked too. A
 *          handler that leaves by longjmp leaves the mark behind: the heap is then retired, not
 *          repaired. */
#ifndef HEAP_HEAP_H
#define HEAP_HEAP_H

#include "../../include/freehold/freehold.h"
#include "../slab/slab.h"
#include "fresh.h"

enum {
  PENDING_BLOCKS = 16,           /* frees of others' blocks that are put off together */
  LARGE_HEAP_SLICES = 1024,      /* so much in use, 64 MiB: blocks are taken to be in no cache */
  BATCH_SLOTS = 64,              /* slabs for which frees are gathered: the bits of a word */
  BATCH_BLOCKS = 32,             /* that many are published at once ... */
  BATCH_BYTES = 16384,           /* ... or when they are worth so many bytes */
  HELD_LEAST = 4,                /* ... or when there are more such chains: a thread may call ... */
  HELD_MORE = 92,                /* ... no more; if that happens often, up to so many more */
  HELD_PENDING = 2,              /* what a block counts of which nobody knows yet if it is one */
  /* a heap with fewer slabs of a class adopts what nobody owns, and keeps no blocks of it */
  OWNED_MANY = 8,
  OWNED_MAX = 16,                /* a heap with so many slabs of a class adopts no more */
  USED_UP_MAX = 2,               /* ... and lets go of used-up ones from here on */
  REMOTE_FEW = 8,                /* none is owned if others freed more than this part of one ... */
  REMOTE_PART = 4,               /* ... and than this part of what its thread has freed there */
  BIN_LEAST = 16,                /* a slab with fewer free, and less than an eighth, is not used */
  TICK_CALLS = 4,                /* one slow call of so many looks whether a purge is due; ... */
  TICK_MOST = 32,                /* ... of up to so many, if the clock stands still meanwhile */
  RESTING_PAGES = 4096,          /* of 4 KiB: what heaps at rest in the pool hold at most ... */
  RESTING_PAGES_EACH = 1024,     /* ... and one of them; itself is one of them */
  IDLE_MAX = 2,                  /* empty slabs that a heap keeps as the first of their classes */
  EARN_BYTES = 1024,             /* a class's first blocks come from slabs it does not keep, ... */
  SHARED_CLASS = 40,             /* ... and all blocks from this class on, 1 KiB, ... */
  LEND_BYTES = 32768,            /* ... so much of them at a time, or all that were freed, ... */
  MUCH_LENT = 262144,            /* ... until a class was lent so much; then a slab at a time */
  CARVE_BYTES = 4096,            /* fresh blocks that are linked at a time, ... */
  HOT_BLOCKS = 2048,             /* ... until a class has used so many; then its bin has ... */
  HOT_BIN = 32, HOT_BYTES = 16384,       /* ... so many blocks, but not more than so many bytes */
  RETURN_FIRST = 8,              /* so many blocks of a class `returned` keeps at first, ... */
  RETURN_MOST = 64,              /* ... and at most; ... */
  RETURN_SMALL_BYTES = 16384,    /* they are worth no more than this, ... */
  RETURN_BYTES = 262144,         /* ... of classes from SHARED_CLASS on than this, ... */
  GROWTH_MOST = 6,               /* ... and of lent classes up to 64 times as much: returned.c */
  SWEEP_FRESH = 16,              /* slabs of a lane that are looked at for each fresh one, ... */
  SWEEP_CALLS = 16,              /* ... and one after so many calls, or fewer: 4 */
  RUN_MOST = 12,                 /* of large blocks a heap keeps runs of so many slices at most, */
  RUN_TIMES = 4,                 /* ... all together so many times what it keeps for slabs, ... */
  RUN_EARNED = 4,                /* ... and one slice for so many large blocks that it allocated; */
  RUN_LEAST = 4,                 /* ... more slices than these while what all heaps keep is ... */
  SHARES_TOTAL = 256, SHARES_PART = 8, /* ... not so many, or not this part of what is in use */
};
enum { CLASS_WORDS = (CLASS_COUNT + 63) / 64 };
#define HUGE_MIN_SIZE (WINDOW_SIZE / 2)   /* with its alignment: no arena is asked for so much */

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
  atomic64_t large_live, large_allocated; /* blocks; not yet in heap_counts: large_settle */
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

/* What the fast paths want to know of the calling thread. All 0 before its first call. */
typedef struct {
  uint64_t limit;                /* SMALL_STEPS + 1: from here on malloc is not fast; 0: mark */
  /* the last byte of the window where the fast free expects blocks, or WINDOW_NONE; 0: mark */
  uintptr_t window;
  atomic_ptr_t heap;             /* the thread's own; at first, and at the end, NULL */
  uint32_t lone_frees;           /* of a thread without a heap, or LONE_AT_END */
} heap_here_t;
extern hidden __thread heap_here_t heap_here __attribute__((tls_model("initial-exec")));

enum { WINDOW_NONE = 1 };        /* no address's window */
enum {
  LONE_MOST = 8,                 /* so many blocks a thread frees before it gets a heap for that */
  LONE_AT_END = UINT32_MAX >> 1, /* it has ended, and gets none */
};
static always_inline heap_t *heap_of_thread(void) {
  return atomic_ptr_load_relaxed(&heap_here.heap);
}
/* Not 0 even of NULL. */
static always_inline uintptr_t window_of(uintptr_t p) { return p | (WINDOW_SIZE - 1); }

/* What the layer above wants to know and to decide. */
typedef struct {
  void (*start)(void);                             /* before the first heap is made; and again */
  void (*no_memory)(void);                         /* an allocation is about to return NULL */
  void (*deferred)(bool force);                    /* now and then, while no heap is marked */
  bool (*foreign_free)(void *p, const char *call);             /* false: not libc's either */
  bool (*foreign_size)(const void *p, const char *call, size_t *size);
  bool (*foreign_realloc)(void *p, size_t size, const char *call, void **result);
} heap_hooks_t;
extern hidden heap_hooks_t heap_hooks;

/* ---- for the layer above (all of them find the calling thread's heap themselves) ------------- */

hidden void *heap_malloc_slow(size_t size);        /* what the fast path could not do */
hidden void heap_free_slow(void *p);
/* `p` is the start of a block of `s`, perhaps a free one. What cannot be put off goes to `slow`. */
hidden void heap_free_others(slab_t *s, void *p, void (*slow)(void *p));
hidden void heap_free_sized_slow(void *p);
hidden void heap_free_aligned_sized_slow(void *p);
/* Is the block that large? */
hidden void heap_check_size(const void *p, size_t size, const char *call);
hidden void heap_slab_emptied(slab_t *s);          /* a fast free made `used` zero */

hidden void *heap_calloc(size_t count, size_t size);
hidden void *heap_aligned_slow(size_t alignment, size_t size);    /* alignment: a power of two */
hidden void *heap_realloc(void *p, size_t size, const char *call);
hidden void *heap_resize(void *p, size_t size, const char *call);  /* NULL: only by a copy */
/* What a small block of `usable` bytes had better get that is copied to have `size`: one that grows
 * by a little will grow again, and gets a quarter more. */
static inline size_t heap_with_headroom(size_t usable, size_t size) {
  size_t roomy = usable + usable / 4;
  return size > usable && size < roomy && roomy <= SMALL_MAX_SIZE ? roomy : size;
}
hidden bool heap_expand(void *p, size_t size, const char *call);
hidden size_t heap_usable_size(const void *p, const char *call);
hidden size_t heap_good_size(size_t size);
hidden bool heap_owns(const void *p);
hidden void heap_collect(bool force);
hidden void heap_stats(fh_stats_t *stats);         /* visits every slab */
/* Bytes of live blocks, and free blocks of slabs, without a visit: stats.c. */
hidden void heap_sums(uint64_t *live, uint64_t *free);
hidden void heap_start(void);                      /* at load: what a handler must not do first */

/* ---- inside the layer ------------------------------------------------------------------------ */

/* The heap to use for one operation, marked; NULL if none can be had. heap_exit ends the
 * operation. */
hidden heap_t *heap_enter(void);
hidden heap_t *heap_enter_own(void);               /* likewise; NULL: the thread has none */
hidden heap_t *heap_enter_to_free(void);           /* likewise, unless it frees much */
hidden heap_t *heap_attach(void);                  /* init.c */
hidden void heap_exit(heap_t *h);
hidden bool heap_is_marked(const heap_t *h);       /* of a heap of the calling thread */
hidden bool heap_is_valid(const heap_t *h);        /* its user only, who has it marked: check.c */

/* How often all heaps were asked to give back what they keep. relaxed: a wish. */
extern hidden atomic32_t heap_trims;
hidden void heap_answer_trim(heap_t *h);

hidden void heap_look(heap_t *h);
/* At the end of a slow call: memory goes back also while nothing more is given back. */
static inline void heap_tick(heap_t *h) {
  if (unlikely(h->calls == 0)) heap_look(h);
  else h->calls--;
}

hidden void *heap_malloc_in(heap_t *h, size_t size);
hidden void *heap_malloc_class(heap_t *h, unsigned c);
hidden void *heap_aligned_in(heap_t *h, size_t alignment, size_t size);
hidden void heap_free(void *p, const char *call);

/* A slab that has just become this heap's; one on its list whose blocks are all free: it may stay;
 * one that is used again; one that leaves the list. */
hidden void heap_own(heap_t *h, slab_t *s);
hidden void heap_note_empty(heap_t *h, slab_t *s);
hidden void heap_end_idleness(heap_t *h, slab_t *s);
hidden void heap_unlink_slab(heap_t *h, slab_t *s);
/* Did others free what is free in the owned slabs of the class? Then to own them brings nothing and
 * keeps them from heaps that would use them: it owns none from then on, until it has taken so many
 * blocks more that a trial is worth while. */
hidden bool heap_is_remote(heap_t *h, unsigned c);
hidden slab_t *heap_first_slab(const heap_t *h, unsigned c);
static inline fresh_t heap_fresh(const heap_t *h, unsigned c) {
  if (c < SHARED_CLASS) return (fresh_t){ 0 };
  return fresh_unpack(h->freed->fresh[c - SHARED_CLASS]);
}
static inline void heap_set_fresh(heap_t *h, unsigned c, fresh_t f) {
  h->freed->fresh[c - SHARED_CLASS] = fresh_pack(f);
}
/* The first of these is handed out, or has a key. */
static inline void heap_drop_fresh(heap_t *h, unsigned c, fresh_t f) {
  heap_set_fresh(h, c, fresh_rest(f, c));
  atomic64_and_release(&slab_of((void *)f.first)->fresh, ~fresh_bit(f.first)); /* S-visit */
}

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

/* returned.c. How many blocks the list of the class has; whether that is half of what it may hold,
 * or worth a bin; the list, which is empty afterwards. */
hidden size_t returned_count(const heap_t *h, unsigned c);
hidden bool returned_has(const heap_t *h, unsigned c);
hidden uintptr_t returned_take(heap_t *h, unsigned c, unsigned *count);
/* Settles how many blocks it may hold from now on, while it is empty; none until then; all that was
 * learned of all classes is forgotten. */
hidden void returned_renew(heap_t *h, unsigned c);
hidden void returned_give_up(heap_t *h, unsigned c);
hidden void returned_forget(heap_t *h);

/* magazine.c. The slice of a slab whose blocks are all free, which is on no list, and the slices of
 * a large block that was freed, which ended in the `used`th: they are kept or given back. */
hidden void heap_put_slice(heap_t *h, slab_t *s);
hidden void heap_put_run(heap_t *h, slab_t *s, size_t n, size_t used);
/* `n` slices, the first at a multiple of `alignment`: kept ones, if `wish` is not 0 those of whose
 * last slice as much was touched (tail_wish), or the arena's. `*clean` as there. NULL: no memory,
 * not even if the heap keeps nothing. */
hidden void *heap_claim_run(heap_t *h, size_t n, size_t alignment, size_t wish, bool *clean);
/* Up to `n` slices from `at` on, if they are free, for the next slabs, as far as the magazine has
 * room, which has no single slice now. How many of them read as zero: all or none. */
hidden size_t heap_claim_ahead(heap_t *h, char *at, size_t n);
hidden void heap_empty_magazine(heap_t *h);
/* Slices that the heap may keep beyond what each is due: true if they are counted. Have all heaps
 * together too much? */
hidden bool heap_ask_share(size_t slices);
hidden void heap_return_share(size_t slices);
hidden bool heap_shares_are_many(void);
hidden bool heap_magazine_is_valid(const heap_t *h);     /* its user only */

/* Puts a block of `s` back there, at once or with others if the heap does not own the slab. */
hidden void heap_give_back(heap_t *h, slab_t *s, uintptr_t block);

/* `p` lies in our memory and is no live block: dies saying what it was. */
_Noreturn hidden void heap_bad_pointer(const slab_t *s, const void *p, const char *call);

hidden void heap_flush_shared(heap_t *h);          /* frees that were put off */
hidden void heap_flush_bins(heap_t *h);
hidden void heap_let_go(heap_t *h);                /* of all that it owns */
hidden void heap_end(heap_t *h);                   /* likewise, and back to the pool */
hidden uint32_t heap_prepare_rest(heap_t *h);      /* how many pages it would hold: RESTING_PAGES */
hidden bool heap_end_rest(void);                   /* of one that rests; false: there is none */
hidden void heap_end_dead(void);                   /* of those that threads have left behind */
hidden void heap_recount(heap_t *h);               /* a fast free was cut short */
hidden void heap_drop(heap_t *h);                  /* likewise, and of the blocks in it */
hidden void heap_trim(heap_t *h);                  /* a little: the steps that are due */
/* Of a lane, by who is in it: of the next `looks` slabs those that others have emptied go; all. */
hidden void heap_sweep(heap_t *lane, unsigned looks);
hidden void heap_sweep_all(heap_t *lane);

/* relaxed, as is huge_base: who uses the heap wrote it; statistics take what stands there. */
static inline void *heap_tag(const heap_t *h) { return atomic_ptr_load_relaxed(&h->tag); }

hidden heap_t *pool_claim(void);                   /* perhaps one that rested; NULL: no memory */
hidden heap_t *pool_claim_lane(void);              /* one that did not, if there is one at hand */
hidden void pool_release(heap_t *h);               /* it has let go of everything */
hidden void pool_discard_kept(void);               /* idle ones of which one may be needed soon */
/* It has not, but holds so many; false if that is too much: it stays the caller's. */
hidden bool pool_rest(heap_t *h, uint32_t pages);
/* It was claimed and not used, and has what it had then. */
hidden void pool_put_back(heap_t *h);
hidden heap_t *pool_claim_resting(void);           /* one of those; NULL: there is none */
/* The calling thread's; nobody's, before it goes back. */
hidden void pool_set_user(heap_t *h);
hidden void pool_clear_user(heap_t *h);
/* One whose thread has ended without giving it back, with all that is in it; NULL: none was found.
 * Looks at the next heaps, as far as `*words` goes: it takes off 1 for each, or POOL_ASK_WORDS
 * if the system has to be asked. */
enum { POOL_ASK_WORDS = 8 };
hidden heap_t *pool_claim_dead(size_t *words);
hidden uint32_t pool_resting_pages(void);          /* what these hold; there are no more of them */
hidden size_t pool_size(void);                     /* places, claimed or not */
hidden heap_t *pool_at(size_t number, bool *is_claimed);       /* NULL: never made */
hidden void pool_note_taken(unsigned c, uint64_t blocks);      /* of a heap that is gone */
hidden void pool_note_requested(unsigned c, size_t bytes);     /* option stats_detail */
hidden uint64_t pool_taken(unsigned c);
hidden uint64_t pool_requested(unsigned c);

/* large.c, huge.c. The block's address is a multiple of the slice size; NULL: no memory. */
hidden void *large_malloc(heap_t *h, size_t size, size_t alignment);
hidden void *large_with_headroom(size_t size, size_t roomy);
hidden void large_free(slab_t *s, void *p, const char *call);
hidden bool large_resize(slab_t *s, void *p, size_t size);     /* in place */
hidden void *large_move_to_huge(slab_t *s, void *p, size_t size);
hidden bool large_is_clean(const void *p);         /* reads as zero if nobody wrote to it */
/* The first `size` bytes of a fresh block, large or huge, read as zero afterwards. */
hidden void large_clear(void *p, size_t size);
/* Likewise of any fresh block; NULL stays NULL. */
static inline void *heap_clear(void *p, size_t size) {
  if (p != NULL && size <= SMALL_MAX_SIZE) return memset(p, 0, size);
  if (p != NULL) large_clear(p, size);
  return p;
}
hidden void large_settle(heap_t *h);               /* what it has counted goes to heap_counts */
hidden bool large_is_valid(const slab_t *s);                   /* its holder only */

/* tails.c. A large block, which has its slices and its size; it goes, or is about to change. `h`
 * may be NULL. */
hidden void tail_enter(heap_t *h, slab_t *s, size_t wish);
hidden void tail_leave(heap_t *h, const slab_t *s);
/* 0: tails are not too many; else how far the last slice of a block of that usable size were best
 * touched. */
hidden size_t tail_wish(size_t size);
hidden void tails_settle(heap_t *h);               /* what it has counted goes to heap_counts */
hidden bool tail_is_valid(const slab_t *s);                    /* the block's holder only */

typedef struct {
  atomic_ptr_t base;
  atomic64_t mapped, size;       /* bytes of the mapping; usable bytes */
  size_t windows;
  atomic_ptr_t tag;              /* its cell in a first-class heap's index, or NULL */
  uint32_t number;
} huge_t;
static inline void *huge_base(const huge_t *b) { return atomic_ptr_load_relaxed(&b->base); }
hidden void *huge_malloc(void *tag, size_t size);
hidden void huge_free(huge_t *b, void *p, const char *call);
hidden void *huge_resize(huge_t *b, size_t size);  /* perhaps elsewhere; NULL: not possible */
hidden bool huge_resize_in_place(huge_t *b, size_t size);
/* Moves the pages there, which are counted nowhere. */
hidden void *huge_from_pages(void *tag, void *pages, size_t old_size, size_t size);
hidden bool huge_has_room(void);                   /* few enough have their own mappings */
enum { COPIED_MOST = 64 << 20 };
hidden bool huge_die_soon(void);                   /* of late, those below COPIED_MOST */
hidden huge_t *huge_at(size_t number, bool *is_live);
hidden size_t huge_pool_size(void);
hidden bool huge_is_valid(const huge_t *b);        /* its holder only */

typedef struct {
  atomic64_t large_live, large_allocated, huge_live, huge_allocated, nested, remote_frees, swaps;
  atomic64_t tails, large_pages; /* of 4 KiB: tails.c; below 0 for a moment */
} heap_counts_t;
extern hidden heap_counts_t heap_counts;           /* relaxed: sums */

/* index.c: the large and huge blocks of a lane. A cell for the next one is at hand afterwards;
 * false: no memory. */
hidden bool index_prepare(heap_t *lane);
hidden void *index_cell(const heap_t *h);          /* that cell; NULL: `h` is no lane */
/* A block is complete: its cell, if it has one, leads to its slab_t or huge_t from now on. */
hidden void index_enter(void *cell, void *descriptor, bool is_huge);
hidden void index_give_back(void *cell);
/* A block ends whose tag it is. */
static inline void index_leave(atomic_ptr_t *tag) {
  void *cell = atomic_ptr_load_relaxed(tag);       /* relaxed: the block's holder calls */
  if (cell == NULL) return;
  atomic_ptr_store_relaxed(tag, NULL);
  index_give_back(cell);
}
/* Calls `visitor` with each block, large or huge; false as soon as it says so. Any thread: what
 * others do meanwhile may or may not be seen. */
typedef bool index_visitor_t(slab_t *large, huge_t *huge, void *context);
hidden bool index_each(const heap_t *lane, index_visitor_t *visitor, void *context);
hidden void index_end(heap_t *lane);               /* of its blocks those that live stay */

/* firstclass.c: what fh_heap_* of freehold.h say. */
hidden fh_heap_t *firstclass_new(void);
/* Alignment 1: any. */
hidden void *firstclass_aligned(fh_heap_t *heap, size_t alignment, size_t size);
hidden void *firstclass_calloc(fh_heap_t *heap, size_t count, size_t size);
hidden void *firstclass_realloc(fh_heap_t *heap, void *p, size_t size, const char *call);
hidden void firstclass_delete(fh_heap_t *heap);
hidden void firstclass_destroy(fh_heap_t *heap);
hidden void firstclass_collect(void);              /* what all of them keep and do not use */
hidden bool firstclass_visit(fh_heap_t *heap, fh_visitor_t *visitor, void *context);

/* Visits live small and large blocks and huge ones; heap NULL: all. */
hidden bool heap_visit(fh_heap_t *heap, fh_visitor_t *visitor, void *context);
/* Those of a lane. `is_mine`: the caller is in it. */
hidden bool heap_visit_lane(const heap_t *lane, bool is_mine, fh_visitor_t *visitor, void *context);

#endif
