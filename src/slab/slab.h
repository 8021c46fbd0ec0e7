/* slab.h - a slice of equal blocks, owned by one heap or shared by all                layer 4: slab
 * Owns:    slab_t, the descriptor of a slab, of a block of slices or of a span.
 *          Called by: stock, heap, secure, api.   Calls: tally, partial, holes, arena.
 * Threads: all fields except `anchor` and `fresh`, and a span's `pages`, `runs` and
 *          `touched_pages`, belong to the owner. That is the heap that owns the slab, or the thread
 *          that cleared its partial bit, took it from FULL, or claimed its slices. Any thread calls
 *          slab_push and slab_find_partial.
 * Sync:    S-anchor  a push, letting go (release) -> collecting, taking over (acquire): the next
 *                    owner sees links and keys in the blocks, and the owner's fields.
 *          S-partial becoming EMPTY and then clearing the bit, setting the bit and then reading the
 *                    anchor: both change the bit's word, so one of the two threads sees the other.
 *          S-visit   keys, `carved`, `fresh` and `holes`: by them a visitor finds free blocks.
 * Holds:   I1 used + free + sunk == carved, free being the length of the private list, while one
 *             thread has the slab
 *          I2 carved <= capacity          I3 the chain in the anchor is as long as its count says,
 *             and count <= used
 *          I4 no block lies at the first byte of a slice
 *          I5 the descriptor of a slice that is free, or not the first of a block, has
 *             the kind 0
 *          I6 a bit that is set in the partial map is that of a slab of its class which is PARTIAL
 *             or EMPTY */
#pragma once

#include "../arena/arena.h"
#include "../support/sampled.h"
#include "anchor.h"
#include "block.h"
#include "tally.h"

typedef enum { SLAB_NONE, SLAB_SMALL, SLAB_LARGE, SLAB_SPAN } slab_kind_t;

typedef struct slab slab_t;
struct slab {
  /* ---- the owner's line: a free by the owner touches nothing else. Any other free that is put off
   * reads nothing else, except the anchor when a chain begins (outbox.c) */

  /* the heap that owns the slab; NULL, SLAB_HOLED or SLAB_CLOSED: nobody. relaxed: it equals a
   * heap's own address only if the heap's user wrote it, or a taker that had found the user in no
   * call (sleepers.c) */
  atomic_ptr_t owner;
  union {
    uintptr_t head;            /* the private list: its first block; 0: empty */
    int32_t counted;           /* of a large block, its holder's: tails.c */
    uint32_t next_in_magazine; /* slab_number, of slices that a heap keeps: magazine.c */
  };
  uint64_t inverse; /* of the block size: class_has_block_at; 0: no slab of blocks */
  /* carved blocks not on the private list; the owner writes both counts, statistics read them */
  atomic32_t used;
  atomic32_t carved; /* blocks that went to a heap */
  /* 0: no slab; its class; SLAB_IS_SPAN; or SLAB_IS_LARGE and flags. Set before blocks go out */
  atomic32_t kind;
  /* a bit for each page given back (holes.c); 0 while a heap owns the slab, like `sunk` */
  atomic32_t holes;
  union {
    atomic_ptr_t tag;  /* the first-class heap that the slab belongs to, or NULL */
    atomic_ptr_t cell; /* of a large block: its cell in that heap's index, or NULL */
  };
  atomic64_t size;   /* usable bytes of a large block */
  uint16_t capacity; /* const while the slab lives */
  union {
    uint16_t idleness; /* 0, SLAB_IDLE or SLAB_SEEN_EMPTY */
    uint16_t seen;     /* by the last look, if nobody owns it: sparse.c */
    uint16_t touched;  /* of slices that a heap keeps: the last one's, as in arena_maps_t */
  };
  uint16_t is_clean; /* the part not carved yet reads as zero */
  union {
    uint16_t sunk;     /* free blocks on holes */
    atomic16_t slices; /* of a large block */
  };

  /* ---- the shared line */

  atomic64_t anchor aligned_to(64);
  slab_t *next, *prev; /* the owner's; its line has no room for them: its slabs of this class */
  union {
    sampled_t sampled; /* of a large block with SLAB_IS_SAMPLED: stock/sample.h */
    struct {
      atomic8_t runs[16]; /* of a span: what begins in each four of its pages: span.c */
      union {
        atomic64_t fresh;         /* borrowed and never handed out: stock/fresh.h */
        atomic64_t touched_pages; /* of a span: may be in memory */
      };
    };
  };
  /* Of a span's first slice, its free pages; of the others, what span_word says. Nothing else may
   * use this field, because a hint may lead to a span that has ended. */
  atomic64_t pages;
};
_Static_assert(sizeof(slab_t) == DESCRIPTOR_SIZE, "a slab's descriptor");

/* These are no heaps' addresses. HOLED: each free of its blocks looks for holes. CLOSED: a taker
 * is emptying its sleeping thread's heap; that thread may still believe that it owns the slab. */
#define SLAB_HOLED ((void *)1)
#define SLAB_CLOSED ((void *)2)

enum {
  SLAB_IDLE = 1,       /* empty, but its heap keeps it */
  SLAB_SEEN_EMPTY,     /* a lane's: it goes if it is still empty at the next look */
  SLAB_IS_SPAN = 0xFE, /* span.h */
  SLAB_IS_LARGE = 0xFF,
  SLAB_IS_CLEAN = 1 << 8,     /* a large block that reads as zero where nobody wrote to it */
  SLAB_IS_SAMPLED = 1 << 9,   /* a large block that `sampled` describes */
  SLAB_IS_GONE = 1 << 10,     /* a freed one, whose pages have gone back: secure grade */
  SLAB_IS_UNMAPPED = 1 << 11, /* likewise, and nothing is mapped there */
};

static inline slab_t *slab_of(const void *p) { return arena_descriptor(p); }
/* The heap that owns it, or NULL. relaxed: see `owner` */
static inline void *slab_owner(const slab_t *s) {
  void *owner = atomic_ptr_load_relaxed(&s->owner);
  return (uintptr_t)owner > (uintptr_t)SLAB_CLOSED ? owner : NULL;
}
static inline uintptr_t slab_base(const slab_t *s) { return (uintptr_t)arena_described(s); }
/* relaxed: the program passed the block from the thread that allocated it, which orders the two */
static inline uint32_t slab_word(const slab_t *s) { return atomic32_load_relaxed(&s->kind); }
static inline slab_kind_t slab_kind(uint32_t word) {
  if (word == 0) return SLAB_NONE;
  if ((word & SLAB_IS_LARGE) == SLAB_IS_LARGE) return SLAB_LARGE;
  return word == SLAB_IS_SPAN ? SLAB_SPAN : SLAB_SMALL;
}
/* SLAB_NONE also if `p` lies before the first slice. */
static inline slab_kind_t slab_kind_at(const void *p) {
  return arena_slice(p) >= ARENA_FIRST_SLICE ? slab_kind(slab_word(slab_of(p))) : SLAB_NONE;
}
/* Only for slabs of small blocks. */
static inline unsigned slab_class(const slab_t *s) { return slab_word(s); }

/* Half as long as an address; 0 for NULL. */
static inline uint32_t slab_number(const slab_t *s) {
  if (s == NULL) return 0;
  return (uint32_t)(arena_of(s)->number * WINDOW_SLICES + arena_slice(arena_described(s)));
}
static inline slab_t *slab_numbered(uint32_t number) {
  if (number == 0) return NULL; /* the first slice of a window is no slab's */
  arena_t *a = arena_at(number / WINDOW_SLICES);
  return slab_of(arena_address(a, number % WINDOW_SLICES));
}

/* ---- anyone looks ---------------------------------------------------------------------------- */

/* May a list continue at `next`: is it 0, or in a slice of ours? */
static inline bool block_may_be_next(uintptr_t next) {
  if (next == 0) return true;
  if (!block_may_be_link(next) || map_kind(map_find((void *)next)) != TENANT_ARENA) return false;
  return arena_has_slice((void *)next);
}

/* The first block of the anchor's chain; 0: it has none. */
static inline uintptr_t slab_chain(const slab_t *s, anchor_t a) {
  return a.avail != 0 ? slab_base(s) | a.avail : 0;
}

/* The next block on a list of blocks of one slab; 0: none. `fatal` if anybody wrote to this one: it
 * has no key then, or a link out of the slab. */
static always_inline uintptr_t slab_next(uintptr_t block, const char *call) {
  uintptr_t next = block_next(block);
  bool is_near = next == 0 || ((next ^ block) >> SLICE_SHIFT | next % CLASS_STEP) == 0;
  if (unlikely(!block_is_free(block) || !is_near)) fatal("heap corruption", (void *)block, call);
  return next;
}

/* ---- the owner ------------------------------------------------------------------------------- */

/* Makes the slice at `base` (claimed) a slab of class `c` owned by `heap`. */
hidden slab_t *slab_new(void *base, unsigned c, void *heap, void *tag);

/* Is it worth taking a list: has it blocks that were never used, or are `least` or an eighth of its
 * blocks on the private list, or freed by others? */
hidden bool slab_has(const slab_t *s, unsigned least);

/* How many blocks are on the private list; how many others freed. */
static inline unsigned slab_private_count(const slab_t *s) { /* I1 */
  return atomic32_load_relaxed(&s->carved) - atomic32_load_relaxed(&s->used);
}
static inline unsigned slab_others_freed(const slab_t *s) {
  return anchor_unpack(atomic64_load_relaxed(&s->anchor)).count; /* relaxed: taking reads again */
}

/* Takes blocks out of the slab as a list: the whole private list, or if that is empty what others
 * freed. If they are fewer than `most`, adds blocks that were never used, unless others have freed
 * as many: then these become the private list. The blocks count as used; `*count` says how many. 0
 * if none is left. */
hidden uintptr_t slab_take_list(slab_t *s, unsigned most, unsigned *count);

/* Takes at least one block and at most `most`, even if more are free. */
hidden uintptr_t slab_take_some(slab_t *s, unsigned most, unsigned *count);

/* Takes all free blocks of the slab as a list, but no fresh ones; they count as used. */
hidden uintptr_t slab_take_freed(slab_t *s, unsigned *count);
/* Where the slab's fresh end begins, and how many blocks it has. */
hidden uintptr_t slab_fresh_end(const slab_t *s, unsigned *count);
/* The caller takes the next `n` of these, as they are. */
hidden void slab_take_fresh(slab_t *s, unsigned n);
/* Counts again: the private list was changed, but `used` perhaps not. */
hidden void slab_recount(slab_t *s);

/* What others freed becomes the private list, which was empty; returns how many. */
hidden unsigned slab_collect(slab_t *s);

/* Puts the block on the private list of its slab, which the caller owns. True: all are free now. */
static always_inline bool slab_put_back(slab_t *s, uintptr_t block) {
  block_link(block, s->head);
  s->head = block;
  return atomic32_drop_one(&s->used);
}

static inline uint32_t slab_used(const slab_t *s) { return atomic32_load_relaxed(&s->used); }
/* relaxed: statistics read it */
static inline void slab_note_used(slab_t *s, uint32_t used) {
  atomic32_store_relaxed(&s->used, used);
}

/* Its blocks that the program has, or a thread keeps for its next calls. */
static inline uint32_t slab_live(const slab_t *s) {
  uint32_t freed = anchor_unpack(atomic64_load_relaxed(&s->anchor)).count, used = slab_used(s);
  return used > freed ? used - freed : 0;
}

/* The owner holds no block of it, and others have freed all the rest. */
static inline bool slab_is_all_free(const slab_t *s) {
  return anchor_unpack(atomic64_load_acquire(&s->anchor)).count == slab_used(s); /* S-anchor */
}

/* What became of a slab that was let go, or pushed to. */
typedef enum { SLAB_SHARED, SLAB_OWNED_NOW, SLAB_IS_EMPTY } slab_outcome_t;

/* The owner lets go. SLAB_SHARED: it is anybody's now. SLAB_IS_EMPTY: all blocks are free; it is
 * still the caller's, to retire or release: its list may be gone. */
hidden slab_outcome_t slab_let_go(slab_t *s);

/* The slice of an empty slab is no slab for now; its owner keeps it. Returns `s`. */
hidden slab_t *slab_retire(slab_t *s);

/* The owner gives the slice of an empty or retired slab back to the arena. */
hidden void slab_release(slab_t *s);

/* ---- anyone ---------------------------------------------------------------------------------- */

enum { RUSH_BLOCKS = 32 }; /* if this many blocks come back together, more will follow */
/* Is the slab FULL, and would `n` more free blocks make it worth having? */
hidden bool slab_is_worth(const slab_t *s, unsigned n);

/* Frees a chain of `count` blocks, linked from `first` to `last`, in a slab that the caller does
 * not own. `heap` takes a FULL slab that this makes worth having (SLAB_OWNED_NOW); if it is NULL,
 * anybody may have it. SLAB_IS_EMPTY: the last block came back; the caller releases the slab. */
hidden slab_outcome_t slab_push(slab_t *s, uintptr_t first, uintptr_t last, unsigned count,
                                void *heap);

/* Frees one block by itself; a slab that becomes empty goes back. */
hidden void slab_free_one(slab_t *s, uintptr_t block);

/* `blocks` of the slab's blocks went to the caller's heap; if negative, they came back. */
static inline void slab_note_taken(const slab_t *s, int blocks) {
  unsigned c = slab_class(s);
  if (atomic_ptr_is_relaxed(&s->tag, NULL)) slab_thread_count((uint64_t)blocks * class_size(c), 0);
  slab_count_taken(c, blocks);
}

hidden bool slab_is_valid(const slab_t *s); /* the owner only */
/* Checks I5 for a slab or large block; its holder only. */
hidden bool slab_slices_are_valid(const slab_t *s);
