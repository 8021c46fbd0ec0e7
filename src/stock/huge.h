/* huge.h - blocks with a mapping of their own                                        layer 5: stock
 * Owns:    the places of huge_t.   Called by: large.c, heap, api.
 *          Calls: slab, index, pool, places, map, arena, support, os.
 * Threads: any; a huge block belongs to whoever holds it.
 * Holds:   U1 a huge block starts its first window, and no two blocks share a window */
#pragma once

#include "../arena/arena.h"
#include "../support/sampled.h"

#define HUGE_LEAST (WINDOW_SIZE / 2) /* alignment included: no arena is asked for so much */

typedef struct {
  atomic_ptr_t base;
  atomic64_t mapped, size; /* bytes of the mapping; usable bytes */
  size_t windows;
  atomic_ptr_t cell; /* its cell in a first-class heap's index, or NULL */
  uint32_t number;
  sampled_t sampled; /* sample.h */
} huge_t;
/* relaxed: the block's holder wrote it; visitors and statistics take whatever they find. */
static inline void *huge_base(const huge_t *b) { return atomic_ptr_load_relaxed(&b->base); }
/* `cell` is the block's cell in a first-class heap's index, or NULL. NULL: no memory. */
hidden void *huge_malloc(void *cell, size_t size);
hidden void huge_free(huge_t *b, void *p, const char *call); /* `call` is named in errors */
hidden void *huge_resize(huge_t *b, size_t size); /* perhaps elsewhere; NULL: not possible */
hidden bool huge_resize_in_place(huge_t *b, size_t size);
/* A new block to which the pages at `pages` move; until then they count nowhere. */
hidden void *huge_from_pages(void *cell, void *pages, size_t old_size, size_t size);
hidden bool huge_has_room(void); /* for one more block made by realloc */
enum { HUGE_COPIED_MOST = 64 << 20 };
hidden bool huge_are_short_lived(void); /* recent ones below HUGE_COPIED_MOST */
/* `*is_live`: a block is there now. NULL: its place was never made. */
hidden huge_t *huge_at(size_t number, bool *is_live);
hidden size_t huge_pool_size(void);
/* The next live one from place `*number` on; moves `*number` behind it. NULL: none. */
hidden huge_t *huge_next(size_t *number);
hidden bool huge_is_valid(const huge_t *b); /* its holder only */
