/* secure.h - blocks that are checked                                                layer 7: secure
 * Owns:    nothing.   Called by: api, in that grade alone.
 *          Calls: heap, stock, slab, arena, os, base.
 * Threads: any. Nobody waits: a block's holder checks it, checks of a neighbour look twice, and
 *          each thread has its own quarantine.
 * Sync:    S-state (states.h).
 *
 * A block of this layer is one of the heap's with a trailer (trailer.h). Its state is kept
 * elsewhere (slab/states.h). It is zero when it is handed out. When it is freed it is zeroed, and
 * rests in the quarantine (stock/quarantine.h). The next thread that gets it checks that nobody
 * wrote to it. Any error found ends the program. */
#pragma once

#include "../heap/fits.h"
#include "trailer.h"

struct fh_heap;

hidden void secure_start(void);
/* Frees what the thread has freed and the quarantine still holds. */
hidden void secure_end_quarantine(void);
/* The fast ones, for small blocks, as in fast.h. NULL, or `slow`'s answer: not that simple. */
hidden void *secure_malloc(size_t size, origin_t origin, void *(*slow)(size_t size));
hidden void *secure_aligned(size_t alignment, size_t size, origin_t origin);
#define SECURE_ANY_SIZE SIZE_MAX
/* A block of that slab. `fatal` also if `size` is not what was asked for. */
hidden void secure_free_small(slab_t *s, void *p, size_t size, origin_t origin, const char *call);
/* By `free`, whatever its size. */
hidden void secure_free_plain(slab_t *s, void *p);
/* The block reads as zero. `heap`: a first-class one, or NULL. NULL: no memory. */
hidden void *secure_allocate(struct fh_heap *heap, size_t alignment, size_t size, origin_t origin);
/* At exit: looks in a million blocks at most for writes where nobody may write. */
hidden void secure_end(void);
/* `p` is not NULL, and not foreign. */
hidden void secure_free(void *p, origin_t origin, const char *call);
/* How many bytes were asked for. `fatal` if it is no live block, or something wrote behind it. */
hidden size_t secure_size(const void *p, const char *call);
/* `fatal` also if that is not `size`. */
hidden void secure_check_size(const void *p, size_t size, const char *call);
/* realloc of a small block to a small one, the short way. NULL: nothing has changed. */
hidden void *secure_resize_small(void *p, size_t size, const char *call);
/* realloc: the block, which may have moved. NULL: no memory. */
hidden void *secure_resize(struct fh_heap *heap, void *p, size_t size, const char *call);
/* Resizes in place; false: the block has not changed. */
hidden bool secure_expand(void *p, size_t size, const char *call);
/* For a visitor: false if it is no live block; else `*size` is how many bytes were asked for. */
hidden bool secure_visited(const void *p, size_t *size);
/* All blocks of a first-class heap are about to end at once. */
hidden void secure_heap_ends(struct fh_heap *heap);
