/* map.h - who lives in which window of the address space                             layer 3: arena
 * Owns:    window_map: one word a window, zero until claimed.
 *          Called by: arena, slab, stock, heap, secure, api.   Calls: os.
 * Threads: any. Progress: a window is claimed by one swap; a thread that fails goes on to the next.
 *          Its claimer makes it a tenant's, FOREIGN, or NONE again; a tenant's ends as NONE.
 * Sync:    S-window  map_set (release) -> map_find (acquire): the record behind the word is
 *                    complete; S-low  map_free (release) -> lowest_free (acquire): the free word.
 * Holds:   W1 a word is NONE, CLAIMED or FOREIGN, or a tenant's record; an arena's is its window
 *          W2 no window is free between where we began and `low_window` */
#pragma once

#include "../base/atomic.h"

/* A tenant is the address of its record with the kind in the low bits. */
typedef enum { /* clang-format off */
  TENANT_NONE = 0, TENANT_CLAIMED = 1,
  TENANT_FOREIGN = 2, /* something that is not ours was there when we tried */
  TENANT_ARENA = 3, TENANT_HUGE = 4, /* from here on ours, with a record */
  TENANT_EMPTY = 5, TENANT_GUARDED = 6, /* the regions of empty.h and guard.h */
  TENANT_MASK = 7
} tenant_t; /* clang-format on */

extern hidden atomic_ptr_t window_map[WINDOW_COUNT];

/* The tenant of the window in which `p` lies: one load. */
static inline uintptr_t map_find(const void *p) {
  if (unlikely((uint64_t)(uintptr_t)p >> ADDRESS_BITS != 0)) return TENANT_NONE;
  uintptr_t window = (uintptr_t)p >> WINDOW_SHIFT;
  return (uintptr_t)atomic_ptr_load_acquire(&window_map[window]); /* S-window */
}
static inline tenant_t map_kind(uintptr_t tenant) { return (tenant_t)(tenant & TENANT_MASK); }
static inline bool map_is_ours(uintptr_t tenant) { return map_kind(tenant) >= TENANT_ARENA; }
static inline void *map_record(uintptr_t tenant) {
  return (void *)(tenant & ~(uintptr_t)TENANT_MASK);
}

/* Claims `count` adjacent windows and maps the first `size` bytes of them (a multiple of the page
 * size). NULL when memory or address space is short. */
hidden void *map_new(size_t count, size_t size);
/* Likewise, by os_reserve_at. */
hidden void *map_reserve(size_t count, size_t size);
/* Is there that much room anywhere at this moment? */
hidden bool map_try_room(size_t size, bool without_memory);
/* Likewise, but asks only for many windows: for a moment others would find all of them claimed. */
hidden bool map_may_fit(size_t count, size_t size, bool without_memory);
/* Claims this window, unless it is already one of ours; maps nothing. */
hidden bool map_claim(void *window);
/* Claims `more` windows behind the caller's `have`, if they are free; maps nothing. */
hidden bool map_claim_behind(void *window, size_t have, size_t more);
/* Says who lives in windows from map_new. */
hidden void map_set(void *window, size_t count, void *record, tenant_t kind);
/* Takes windows back; the caller has unmapped the memory. */
hidden void map_free(void *window, size_t count);

hidden bool map_is_valid(void);
