/* secure.h - blocks that are checked                                                layer 7: secure
 * Owns:    nothing.   Called by: api, in that grade alone.
 *          Calls: heap, stock, slab, arena, os, base.
 * Threads: any. Nobody waits: the checks of a block are its holder's, those of a neighbour look
 *          twice, and the quarantine is each thread's own.
 * Sync:    S-state (states.h).
 *
 * A block of this layer is one of the heap's with a trailer (trailer.h). Its state is kept
 * elsewhere (slab/states.h). It is zero when it is handed out. When it is freed it is made zero, it
 * rests in the quarantine (stock/quarantine.h), and whoever gets it next makes sure that nobody
 * wrote to it. What is found wrong ends the program. */
#pragma once

#include "../heap/fits.h"
#include "trailer.h"

struct fh_heap;

hidden void secure_start(void);
/* What the thread has freed, and what is held back of it, is free. */
hidden void secure_end_quarantine(void);
/* The fast ones: small blocks, as fast.h does them. NULL, or `slow`'s answer: not that simple. */
hidden void *secure_malloc(size_t size, origin_t origin, void *(*slow)(size_t size));
hidden void *secure_aligned(size_t alignment, size_t size, origin_t origin);
#define SECURE_ANY_SIZE SIZE_MAX
/* Of that slab. `fatal` also if `size` was not asked for. */
hidden void secure_free_small(slab_t *s, void *p, size_t size, origin_t origin, const char *call);
/* By `free`, of any size. */
hidden void secure_free_plain(slab_t *s, void *p);
/* Reads as zero. `heap`: a first-class one, or NULL. NULL: no memory. */
hidden void *secure_allocate(struct fh_heap *heap, size_t alignment, size_t size, origin_t origin);
/* At exit: looks for what was written where nothing may be, in a million blocks at most. */
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
/* To that size where it lies; false: it has not changed. */
hidden bool secure_expand(void *p, size_t size, const char *call);
/* What a visitor finds: false if it is no live block, or else how many bytes were asked for. */
hidden bool secure_visited(const void *p, size_t *size);
/* All blocks of a first-class heap are about to end at once. */
hidden void secure_heap_ends(struct fh_heap *heap);
