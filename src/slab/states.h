/* states.h - what each block is, kept out of the block's reach: secure grade          layer 4: slab
 * Owns:    a table for each 256 MiB of addresses, mapped when the first block is handed out there.
 *          Called by: slab.c, slow.c, secure.   Calls: slab, os.
 * Threads: any. A block's state is its holder's to change; of two that free it one succeeds.
 * Sync:    S-states  a table's address (release) -> states_of (acquire): it reads as zero;
 *          S-state   making a block live, or freeing it -> freeing it, or looking at a neighbour:
 *                    what is written behind it. */
#ifndef SLAB_STATES_H
#define SLAB_STATES_H

#include "slab.h"

/* A state: what the block is, and how often that was LIVE, modulo 64, so that nobody takes one life
 * for another. */
enum {
  STATE_FRESH,   /* never handed out since its slice became a slab; its memory may be anything */
  STATE_LIVE,    /* the program's */
  STATE_RESTED,  /* freed; reads as zero but for the link and the key of a free block */
  STATE_CHANGES, /* its holder writes what goes with its next state */
  STATE_IS = 3,
  STATE_LIFE = 4,
};
/* Blocks of the secure grade have 32 bytes at least. */
enum { STATES_OF_SLICE = 2048, STATES_APART = 64 };

enum { STATES_SHIFT = 28 };
#define STATES_SLICES ((size_t)1 << (STATES_SHIFT - SLICE_SHIFT))
typedef struct {
  atomic8_t of[STATES_SLICES][STATES_OF_SLICE];
  atomic8_t large[STATES_SLICES]; /* of a large block that begins there */
} states_t;

/* Of the part in which `p` lies; made if need be. NULL: no memory. */
hidden states_t *states_of(const void *p);

static inline size_t states_slice(const void *p) {
  return ((uintptr_t)p >> SLICE_SHIFT) % STATES_SLICES;
}
/* Of block `number` of its slice. Slices begin at different places, so that their first blocks' do
 * not share a few sets of a cache. */
static inline atomic8_t *states_at(states_t *states, const void *p, size_t number) {
  size_t slice = states_slice(p);
  return &states->of[slice][(number + slice * STATES_APART) % STATES_OF_SLICE];
}
static inline atomic8_t *states_at_large(states_t *states, const void *p) {
  return &states->large[states_slice(p)];
}

/* The slice becomes a slab of so many blocks: none of them was handed out yet. */
hidden void states_reset(const void *slice, size_t blocks);
/* Of a slab that goes, with all its blocks free: nobody has written to them since. */
hidden void states_look(const slab_t *s);
/* A small block becomes the library's own, which may write to it. */
hidden void states_forget(const void *block);

#endif
