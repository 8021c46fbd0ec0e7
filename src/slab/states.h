/* states.h - what each block is, kept out of the block's reach: secure grade          layer 4: slab
 * Owns:    a table for each 256 MiB of addresses, mapped when the first block is handed out there.
 *          Called by: slab.c, refill.c, slow.c, quarantine.c, secure, api.
 *          Calls: slab, arena, os.
 * Threads: any. Only a block's holder changes its state; if two threads free it, one succeeds.
 * Sync:    S-states  a table's address (release) -> states_of (acquire): it reads as zero;
 *          S-state   making a block live, or freeing it -> freeing it, or looking at a neighbour:
 *                    what is written behind it. */
#pragma once

#include "slab.h"

/* A state: what the block is, and how often it was LIVE, modulo 64, so that nobody takes one life
 * for another. */
enum {
  STATE_FRESH,   /* never handed out since its slice became a slab; its memory may be anything */
  STATE_LIVE,    /* the program's */
  STATE_RESTED,  /* freed; reads as zero except the link and the key */
  STATE_CHANGES, /* its holder writes what belongs to the next state */
  STATE_IS = 3,
  STATE_LIFE = 4,
  STATE_CLEAN = STATE_FRESH + STATE_LIFE, /* and its memory is zero, except the link and the key */
};
/* Blocks of the secure grade have 32 bytes at least. */
enum { STATES_STEP = 32, STATES_SHIFT = 28 };
#define STATES_OF_SLICE (SLICE_SIZE / STATES_STEP)
#define STATES_SLICES ((size_t)1 << (STATES_SHIFT - SLICE_SHIFT))
typedef struct {
  union {
    atomic8_t of[STATES_SLICES * STATES_OF_SLICE];
    atomic64_t words[STATES_SLICES * STATES_OF_SLICE / 8]; /* eight of them */
  };
  atomic8_t large[STATES_SLICES];        /* of a large block that begins there */
  atomic8_t is_protected[STATES_SLICES]; /* are some of its pages protected? */
} states_t;

/* In other grades nobody asks for one. */
#define STATES_TABLES (SECURE ? (size_t)1 << (ADDRESS_BITS - STATES_SHIFT) : 1)
extern hidden atomic_ptr_t states_tables[STATES_TABLES];
static always_inline atomic_ptr_t *states_table(const void *p) {
  return &states_tables[SECURE ? (uintptr_t)p >> STATES_SHIFT : 0];
}

/* The table for the part in which `p` lies. NULL: no block was handed out there yet. */
static always_inline states_t *states_found(const void *p) {
  return atomic_ptr_load_acquire(states_table(p)); /* S-states */
}
/* Likewise, but makes the table if need be. NULL: no memory. */
hidden states_t *states_of(const void *p);

static inline size_t states_slice(const void *p) {
  return ((uintptr_t)p >> SLICE_SHIFT) % STATES_SLICES;
}
/* For the small block at `p`. Slices begin at different places, so that blocks at the same place in
 * each do not share a few sets of a cache. */
static always_inline atomic8_t *states_at(states_t *states, const void *p) {
  enum { LINE = 64, APART = STATES_OF_SLICE - LINE };
  size_t number = (uintptr_t)p / STATES_STEP % (STATES_SLICES * STATES_OF_SLICE);
  return &states->of[number ^ ((uintptr_t)p / (SLICE_SIZE / LINE) & APART)];
}
static inline atomic8_t *states_at_large(states_t *states, const void *p) {
  return &states->large[states_slice(p)];
}
static inline atomic8_t *states_is_protected(states_t *states, const void *p) {
  return &states->is_protected[states_slice(p)];
}

/* The slice becomes a slab: none of its blocks was handed out yet. */
hidden void states_reset(const void *slice);
/* Likewise, and all of it reads as zero. */
hidden void states_set_clean(const void *slice);
/* The slab goes, with all blocks free: `fatal` if somebody wrote to one after it was freed. */
hidden void states_look(const slab_t *s);
/* A small block becomes the library's own, which may write to it. */
hidden void states_forget(const void *block);
