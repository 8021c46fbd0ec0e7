/* returned.c - what a heap has freed of slabs that nobody owns, for its bins         layer 5: stock
 * Contract: returned.h.
 *
 * A class's list may hold the blocks that the class has earned, up to RETURN_SMALL_BYTES. For a
 * medium class the bounds are RETURN_MOST and RETURN_BYTES, or less where many heaps have little
 * each. A list was full; later a block was needed, and it had none: it was too short. A medium
 * class may then double it, if the surplus of all heaps has room. A list that is full again and
 * again and never missed stays as it is: the thread frees more than it allocates. */
#include "returned.h"

#include "stock.h"

static lengthened_t *lengthened(const heap_t *h, unsigned c) {
  return &h->own->lengthened[c - MEDIUM_CLASS];
}

static size_t most_of(unsigned c, size_t bytes) {
  return min_size(RETURN_MOST, bytes / class_size(c));
}

/* The most that a medium class's list may hold now, if the class has earned it. */
static size_t longest(const heap_t *h, unsigned c) {
  size_t part = (surplus_average() << SLICE_SHIFT) / RETURN_PART;
  size_t most = most_of(c, min_size(RETURN_BYTES, max_size(RETURN_SMALL_BYTES, part)));
  return most << lengthened(h, c)->doublings;
}

/* By how many slices at most a list grows with one more doubling, after so many. */
static size_t doubling_slices(unsigned c, unsigned times) {
  return ((most_of(c, RETURN_BYTES) << times) * class_size(c) + SLICE_SIZE - 1) / SLICE_SIZE;
}

size_t returned_surplus(const heap_t *h) {
  size_t slices = 0;
  for (unsigned c = MEDIUM_CLASS; c < CLASS_COUNT; c++)
    for (unsigned times = lengthened(h, c)->doublings; times > 0; times--)
      slices += doubling_slices(c, times - 1);
  return slices;
}

static void lengthen(heap_t *h, unsigned c) {
  lengthened_t *l = lengthened(h, c);
  if (l->doublings == DOUBLED_MOST || !surplus_ask(doubling_slices(c, l->doublings))) return;
  l->doublings++;
}

static void shorten(heap_t *h, unsigned c) {
  lengthened_t *l = lengthened(h, c);
  if (l->doublings == 0) return;
  surplus_add(0u - (uint32_t)doubling_slices(c, --l->doublings));
}

static void set_allowance(heap_t *h, unsigned c, size_t blocks) {
  h->returned_most[c] = h->returned_room[c] = (uint16_t)blocks;
}

size_t returned_count(const heap_t *h, unsigned c) {
  return h->returned_most[c] - (h->returned_room[c] & ~ROOM_CLOSED);
}

/* Notes if the list is full, and not because the class has earned no more. */
static void note_filled(heap_t *h, unsigned c) {
  if (c < MEDIUM_CLASS || h->returned_room[c] != 0 || h->returned_most[c] < longest(h, c)) return;
  if (!lengthened(h, c)->was_full) lengthened(h, c)->was_full = true; /* else it is not written */
}

/* The list keeps no block while the heap owns few slabs of the class: adopting slabs is better. */
static void renew_allowance(heap_t *h, unsigned c) {
  ASSERT(h->aside->returned[c] == 0);
  bool owns_few = h->own->slab_count[c] > 0 && h->own->slab_count[c] < OWNED_MANY;
  if (owns_few || users_are_many()) return set_allowance(h, c, 0);
  size_t earned = heap_binned(h, c) / 2 + RETURN_FIRST;
  size_t most = c >= MEDIUM_CLASS ? longest(h, c) : RETURN_SMALL_BYTES / class_size(c);
  set_allowance(h, c, min_size(most, earned));
}

bool returned_has(const heap_t *h, unsigned c) {
  return h->aside->returned[c] != 0 && (h->returned_room[c] <= h->returned_most[c] / 2 ||
                                        returned_count(h, c) * class_size(c) >= CARVE_BYTES);
}

void returned_missed(heap_t *h, unsigned c) {
  ASSERT(!returned_has(h, c));
  if (c >= MEDIUM_CLASS && lengthened(h, c)->was_full && h->returned_most[c] != 0) { /* was open */
    lengthen(h, c);
    lengthened(h, c)->was_full = false;
  }
  if (h->aside->returned[c] == 0) renew_allowance(h, c);
}

static bool is_mostly_free(const slab_t *s) {
  anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor)); /* relaxed: a hint */
  return a.state == ANCHOR_PARTIAL && a.count > a.carved / 2;
}

/* The list stays whole wherever the thread may end. */
void returned_sift(heap_t *h, unsigned c) {
  uintptr_t before = 0, next;
  for (uintptr_t b = h->aside->returned[c]; b != 0; b = next) { /* Bound: the list */
    slab_t *s = slab_of((void *)b);
    if (!block_is_free(b)) fatal("heap corruption", (void *)b, "free");
    next = block_next(b);
    if (!is_mostly_free(s)) {
      before = b;
      continue;
    }
    h->returned_room[c]++;
    if (before == 0) h->aside->returned[c] = next;
    else block_link(before, next);
    outbox_put(h, s, b);
  }
}

/* `count` blocks of the class's list become the bin. */
static void note_use(heap_t *h, unsigned c, unsigned count) {
  lengthened_t *l = lengthened(h, c);
  unsigned most = h->returned_most[c], little_used = 0;
  if (count < most / 4)
    little_used = l->little_used + (bits_mix(++h->aside->lots) % (LOOK_PART * most) < count);
  if (little_used > LITTLE_USED_MOST || surplus_is_too_much()) {
    shorten(h, c);
    little_used = 0;
  }
  if (l->little_used != little_used) l->little_used = (uint8_t)(little_used & 15);
}

uintptr_t returned_take(heap_t *h, unsigned c, unsigned *count) {
  uintptr_t list = h->aside->returned[c];
  *count = (unsigned)returned_count(h, c);
  if (c >= MEDIUM_CLASS) note_use(h, c, *count);
  note_filled(h, c);
  h->aside->returned[c] = 0;
  renew_allowance(h, c);
  return list;
}

void returned_give_up(heap_t *h, unsigned c) {
  note_filled(h, c);
  set_allowance(h, c, 0);
}

void returned_forget(heap_t *h) {
  for (unsigned c = MEDIUM_CLASS - 1; (c = heap_next_class(h, c)) != 0;) {
    while (lengthened(h, c)->doublings != 0) shorten(h, c);             /* Bound: DOUBLED_MOST */
    if (lengthened(h, c)->was_full) lengthened(h, c)->was_full = false; /* as in returned_move */
  }
}

void returned_move(heap_t *to, heap_t *from) {
  for (unsigned c = MEDIUM_CLASS - 1; (c = heap_next_class(from, c)) != 0;) { /* Bound: classes */
    lengthened_t *l = lengthened(from, c);
    if (l->doublings == 0) continue; /* its page may be untouched */
    lengthened(to, c)->doublings = l->doublings;
    l->doublings = 0;
  }
}
