/* slabs.h - slabs made by hand for the tests of slab.c and partial.c */
#ifndef SLABS_H
#define SLABS_H

#include "counts.h"

#include "../../src/slab/holes.h"
#include "../../src/slab/partial.h"

/* Two heaps and a third, as far as a slab knows: addresses that differ. */
unused static int heap_a, heap_b, heap_c;

enum { SLAB_MOST = 4096 };
static uintptr_t blocks[SLAB_MOST]; /* what take_all got */

static slab_t *new_slab(unsigned c, void *heap) {
  bool clean;
  void *base = arena_claim(1, 1, &clean);
  CHECK(base != NULL);
  return slab_new(base, c, heap, NULL);
}

/* Takes every block of an owned slab into `blocks`. */
static unsigned take_all(slab_t *s) {
  unsigned total = 0, count;
  for (uintptr_t list; (list = slab_take_list(s, 7, &count)) != 0;) {
    CHECK_GT(count, 0u);
    for (; list != 0; list = block_next(list), count--) {
      block_set_live(list);
      blocks[total++] = list;
    }
    CHECK_EQ(count, 0u);
    CHECK(slab_is_valid(s));
  }
  return total;
}

/* The owner frees a block, as heap/fast.h does. */
unused static void put_back(slab_t *s, uintptr_t block) {
  block_link(block, s->head);
  s->head = block;
  atomic32_store_relaxed(&s->used, slab_used(s) - 1);
}

unused static slab_outcome_t push_one(slab_t *s, uintptr_t block, void *adopter) {
  return slab_push(s, block, block, 1, adopter);
}

/* A slab of class `c` all of whose blocks are out and that nobody owns. */
unused static slab_t *full_slab(unsigned c) {
  slab_t *s = new_slab(c, &heap_a);
  CHECK_EQ(take_all(s), class_info[c].capacity);
  CHECK(slab_let_go(s) == SLAB_SHARED);
  CHECK(anchor(s).state == ANCHOR_FULL);
  return s;
}

/* As many free blocks as make a slab of class `c` worth having. */
unused static unsigned worth_having(unsigned c) { return class_info[c].capacity / 8 + 1; }

unused static bool bit_is_set(const slab_t *s) {
  size_t slice = arena_slice((void *)slab_base(s));
  atomic64_t *word = &arena_maps(arena_of(s))->partial[slice / 64][slab_class(s)];
  return atomic64_load_relaxed(word) >> slice % 64 & 1;
}

#endif
