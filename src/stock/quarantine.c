/* quarantine.c - freed blocks that are not used again for a while: secure grade      layer 5: stock
 * Contract: quarantine.h. */
#include "quarantine.h"

#include "../os/os.h"

enum {
  KEPT_SIZE = 1 << 20, /* bytes; larger ones give their memory back at once */
  CLOSED_MOST = 16384, /* ranges that nobody can touch; each may cost two mappings */
  LARGE_FROM = QUARANTINE_SMALL + QUARANTINE_MEDIUM,
};

/* Blocks with such a range, or that would have one, of all heaps. relaxed: a bound that may be
 * passed by few */
static atomic32_t closed;

cold uint64_t quarantine_seed(void) { return os_random(); }

static size_t size_of_large(void *block) {
  return (size_t)atomic32_load_relaxed(&slab_of(block)->slices) << SLICE_SHIFT;
}

void quarantine_close(void *at, size_t size) {
  if (atomic32_add_relaxed(&closed, 1) < CLOSED_MOST) os_protect(at, size, false);
}

bool quarantine_open(void *at, size_t size) {
  if (!os_protect(at, size, true)) return false;
  atomic32_add_relaxed(&closed, (uint32_t)-1);
  return true;
}

static bool closes(void *block) {
  return quarantine_closes(atomic64_load_relaxed(&slab_of(block)->size));
}

/* It may be used again. One that the system does not open stays where it is, for ever. */
static void *open_again(void *block) {
  if (block == NULL || !closes(block)) return block;
  return quarantine_open(block, size_of_large(block)) ? block : NULL;
}

/* A part of what is closed was so before. */
void *quarantine_put_large(quarantine_t *q, void *block) {
  size_t place = LARGE_FROM + quarantine_draw(q) % QUARANTINE_LARGE, size = size_of_large(block);
  if (size > KEPT_SIZE) os_discard(block, size);
  if (closes(block) && atomic32_load_relaxed(&closed) < CLOSED_MOST) os_protect(block, size, false);
  return open_again(atomic_ptr_exchange_own(&q->places[place], block));
}

void *quarantine_take(quarantine_t *q, size_t *place) {
  void *block = NULL;
  for (; block == NULL && *place < QUARANTINE_PLACES; ++*place) {
    block = atomic_ptr_exchange_own(&q->places[*place], NULL);
    if (*place >= LARGE_FROM) block = open_again(block);
  }
  return block;
}
