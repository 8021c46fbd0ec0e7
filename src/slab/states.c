/* states.c - what each block is, kept out of the block's reach: secure grade          layer 4: slab
 * Contract: states.h. Progress: a thread that finds no table maps one; if another was quicker, it
 * gives its own back. */
#include "states.h"

#include "../arena/arena.h"
#include "../base/bits.h"
#include "../os/os.h"

atomic_ptr_t states_tables[STATES_TABLES];

/* Maps a table between two pages that nobody can touch, at a place of the system's choice. */
static cold states_t *add_table(const void *p) {
  size_t page = os_page_size(), size = align_up(sizeof(states_t), page) + 2 * page;
  char *at = os_map(size);
  void *none = NULL;
  if (at == NULL && arena_unmap_free()) at = os_map(size);
  if (at == NULL) return NULL;
  os_protect(at, page, false);
  os_protect(at + size - page, page, false);
  if (atomic_ptr_cas_acq_rel(states_table(p), &none, at + page)) /* S-states */
    return (states_t *)(at + page);
  os_unmap(at, size);
  return none;
}

states_t *states_of(const void *p) {
  states_t *states = states_found(p);
  return likely(states != NULL) ? states : add_table(p);
}

/* Sets the states of a slice. relaxed: a thread that finds the slice to be a slab sees them
 * (S-state). A look at a neighbour at worst finds that it is not LIVE. */
static void set_states(states_t *states, const void *slice, uint64_t state) {
  enum { WORDS = STATES_OF_SLICE / 8 };
  atomic64_t *words = &states->words[states_slice(slice) * WORDS];
  for (size_t i = 0; i < WORDS; i++) atomic64_store_relaxed(&words[i], state * (UINT64_MAX / 255));
}

void states_reset(const void *slice) {
  states_t *states = states_found(slice);
  if (states == NULL) return;
  set_states(states, slice, STATE_FRESH);
  atomic_fence_release(); /* S-state: before the slice says what it is */
}

void states_set_clean(const void *slice) {
  states_t *states = states_found(slice);
  if (states != NULL) set_states(states, slice, STATE_CLEAN);
}

void states_look(const slab_t *s) {
  uintptr_t base = slab_base(s);
  size_t size = class_size(slab_class(s)), n = atomic32_load_relaxed(&s->carved);
  states_t *states = states_found((void *)base);
  for (size_t i = 0; states != NULL && i < n; i++) { /* Bound: the slab's blocks */
    uintptr_t block = base + (i + 1) * size;
    /* relaxed, both: all blocks are the caller's */
    bool rests =
      atomic8_load_relaxed(states_at(states, (void *)block)) % STATE_LIFE == STATE_RESTED;
    uint64_t key = atomic64_load_relaxed(&block_at(block)->key);
    if (rests &&
        ((key != 0 && key != block_key(block)) ||
         !bits_are_zero((char *)block + sizeof(free_block_t), size - sizeof(free_block_t))))
      fatal("write after free", (void *)block, "free");
  }
}

void states_forget(const void *block) {
  states_t *states = states_found(block);
  if (states == NULL) return;
  atomic8_store_relaxed(states_at(states, block), STATE_FRESH); /* relaxed: its holder's */
}
