/* order.c - the private list of a slab, in the order of addresses                     layer 4: slab
 * Contract: holes.h. */
#include "holes.h"

void slab_note_starts(const slab_t *s, slab_starts_t *starts) {
  unsigned count = 0; /* Bound: the slab's capacity */
  for (uintptr_t b = s->head; b != 0; b = block_next(b)) {
    if (++count > s->capacity || slab_of((void *)b) != s || !block_is_free(b))
      fatal("heap corruption", (void *)b, "malloc");
    size_t start = (uint16_t)b / CLASS_STEP;
    starts->words[start / 64] |= (uint64_t)1 << start % 64;
  }
}

void slab_link_starts(slab_t *s, const slab_starts_t *starts) {
  uintptr_t base = slab_base(s), first = 0;
  for (size_t i = ARRAY_LENGTH(starts->words); i-- > 0;)
    for (uint64_t w = starts->words[i]; w != 0;) { /* Bound: the bits of a word */
      unsigned highest = bits_highest(w);
      w ^= (uint64_t)1 << highest;
      uintptr_t block = base | (i * 64 + highest) * CLASS_STEP;
      block_link(block, first);
      first = block;
    }
  s->head = first;
}

void slab_sort(slab_t *s) {
  slab_starts_t starts = {{0}};
  slab_note_starts(s, &starts);
  slab_link_starts(s, &starts);
}
