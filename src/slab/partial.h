/* partial.h - the slabs that nobody owns and that have room                           layer 4: slab
 * Owns:    the partial maps of the arenas.   Called by: slab.c, sparse.c; slab_find_partial by
 *          heap.   Calls: holes, tally, arena.
 * Threads: any. A set bit, and with it the slab, belongs to the thread that clears it, in whatever
 *          state the anchor is then.
 * Sync:    S-partial (slab.h): bit and anchor cross over; S-anchor (slab.h): taking a slab over;
 *          S-group (hint.h): a group's word, its bit among the groups', its arena's bit. */
#pragma once

#include "slab.h"

/* A slab of class `c` with room that nobody owned; `heap` owns it now. NULL: none. */
hidden slab_t *slab_find_partial(unsigned c, void *heap);

/* The caller has made the anchor PARTIAL: now anyone may find the slab. True if it became empty
 * meanwhile and is the caller's again, to release. */
hidden bool partial_publish(slab_t *s);

/* The caller has made the anchor EMPTY: true if the slab is now the caller's to release; else
 * another thread has it. `c` was the slab's class before that: by now the slice may be another
 * slab's, or a large block. */
hidden bool partial_unpublish(slab_t *s, unsigned c);

/* If the slab's bit of this word is set, clears it: the caller has the slab, as one with holes. */
hidden bool partial_claim(atomic64_t *word, uint64_t bit, slab_t *s, bool *is_empty);

/* A bit for each class of which a heap took a slab since sparse.c cleared it. relaxed: hints */
extern hidden atomic64_t partial_used[(CLASS_COUNT + 63) / 64];

/* Fills in the owner's fields of a slab that was just taken over. */
hidden void slab_own(slab_t *s, void *heap, uintptr_t list, unsigned count, unsigned carved);

/* While no thread runs, wherever threads have stopped. */
hidden bool partial_is_valid(const arena_t *a);
