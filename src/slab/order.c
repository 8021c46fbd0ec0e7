/* order.c - the private list of a slab, in the order of addresses                     layer 4: slab
 * Contract: order.h. */
#include "order.h"

void slab_note_places(const slab_t *s, slab_places_t *places) {
  unsigned count = 0; /* Bound: the slab's capacity */
  for (uintptr_t b = s->head; b != 0; b = block_next(b)) {
    if (++count > s->capacity || slab_of((void *)b) != s || !block_is_free(b))
      fatal("heap corruption", (void *)b, "malloc");
    size_t place = (uint16_t)b / CLASS_STEP;
    places->words[place / 64] |= (uint64_t)1 << place % 64;
  }
}

void slab_link_places(slab_t *s, const slab_places_t *places) {
  uintptr_t base = slab_base(s), first = 0;
  for (size_t i = sizeof places->words / sizeof places->words[0]; i-- > 0;)
    for (uint64_t w = places->words[i]; w != 0;) { /* Bound: the bits of a word */
      unsigned highest = bits_highest(w);
      w ^= (uint64_t)1 << highest;
      uintptr_t block = base | (i * 64 + highest) * CLASS_STEP;
      block_link(block, first);
      first = block;
    }
  s->head = first;
}

void slab_sort(slab_t *s) {
  slab_places_t places = {{0}};
  slab_note_places(s, &places);
  slab_link_places(s, &places);
}
