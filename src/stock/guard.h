/* guard.h - blocks between pages that nobody can read                                layer 5: stock
 * Owns:    slots for them, in a region that is protected except their pages, and what is known of
 *          each.   Called by: stock, heap, secure, api.   Calls: slab, sample, pool, arena, bitmap,
 *          map, support, os.
 * Threads: any, also in signal handlers. A guarded block belongs to whoever holds it. Others may
 *          read a slot's record at any time, and see it as of about that moment. A thread that
 *          stops in a call keeps one slot from being used.
 * Sync:    S-stack (sample.h), S-window (map.h): the record; S-bit (bitmap.h): a slot.
 * Holds:   G1 no block lives in a slot that is ready
 *
 * A block on which a point of sample.h falls stands at the end or the start of its pages. The pages
 * before and behind are protected. The rest of its own pages is filled, and checked at free. Then
 * all its pages are protected, at least until GUARD_REST more blocks have been freed. If no slot is
 * free, or its pages cannot be opened, the block is an ordinary one. */
#pragma once

#include "../support/sampled.h"
#include "heap.h"

enum {
  GUARD_SLOTS = 512,        /* each live one splits the region into two more mappings */
  GUARD_STRIDE = 256 << 10, /* bytes of addresses; the first and the last page stay protected */
  GUARD_REST = 64,
  GUARD_FRAMES = 24, /* the innermost frames of a call stack */
};

typedef enum { GUARD_UNUSED, GUARD_LIVE, GUARD_FREED } guard_state_t;
typedef struct {
  atomic32_t count, thread; /* frames; the lower half of os_thread */
  atomic64_t frames[GUARD_FRAMES];
} guard_stack_t;

/* relaxed: see Threads */
typedef struct {
  atomic_ptr_t block;
  atomic64_t size, pages; /* bytes: as asked of the heap; of open pages */
  atomic64_t asked;       /* bytes: as the program asked */
  atomic32_t state;       /* guard_state_t */
  atomic32_t freed;       /* how many blocks were freed before it */
  guard_stack_t allocation, release;
  sampled_t sampled; /* sample.h */
} guard_slot_t;

/* Reports what a block's holder did, before `fatal`. `at`: where. */
typedef void guard_report_t(const char *what, const guard_slot_t *s, const void *at);

/* Stands at the start of the window, and is its tenant. */
typedef struct {
  atomic64_t ready[GUARD_SLOTS / 64];
  atomic32_t turn, releases; /* relaxed: where the next search begins; a count */
  uint64_t seed;             /* const, as is `report` */
  guard_report_t *report;
  guard_slot_t slots[GUARD_SLOTS];
} guard_t;
enum {
  GUARD_FIRST = (sizeof(guard_t) + PAGE_ANYWHERE - 1) / PAGE_ANYWHERE * PAGE_ANYWHERE,
  GUARD_END = GUARD_FIRST + GUARD_SLOTS * GUARD_STRIDE
};
static inline bool guard_owns(const guard_t *record, const void *p) {
  return (uintptr_t)p - (uintptr_t)record - GUARD_FIRST < GUARD_END - GUARD_FIRST;
}
/* The slot among whose addresses `p` is; NULL: none. */
static inline guard_slot_t *guard_slot_of(guard_t *record, const void *p) {
  size_t at = (uintptr_t)p - (uintptr_t)record - GUARD_FIRST;
  return guard_owns(record, p) ? &record->slots[at / GUARD_STRIDE] : NULL;
}

/* Once, at start. False: the system gives no region. */
hidden bool guard_start(guard_report_t *report);

/* `h`: the thread's heap, marked. NULL: an ordinary block will do. */
hidden void *guard_malloc(const heap_t *h, size_t size, size_t alignment);
/* `p` lies in a window whose tenant is `record`; `call` is named in errors. */
hidden void guard_free(guard_t *record, void *p, const char *call);
hidden size_t guard_size(guard_t *record, const void *p, const char *call); /* `fatal`: no block */
/* If the block is guarded, notes how many bytes the program asked for. */
hidden void guard_note_asked(const void *p, size_t size);
/* The next slot from `*number` on with a live block; moves `*number` behind it. NULL: none. */
hidden guard_slot_t *guard_next(size_t *number);
hidden size_t guard_resident(const guard_slot_t *s); /* bytes */
hidden void guard_note_stack(guard_stack_t *stack);  /* the caller's */
hidden void guard_set_stack(guard_stack_t *stack, uint32_t thread, const uintptr_t *frames,
                            size_t count);
hidden size_t guard_metadata(void); /* bytes of the record */
hidden bool guard_is_valid(void);   /* while nobody allocates or frees */
