/* returned.c - what a heap has freed of slabs that nobody owns, for its bins         layer 5: stock
 * Contract: returned.h.
 *
 * How many blocks of a class the list may hold: what the class has earned, as far as RETURN_MOST
 * goes, and RETURN_SMALL_BYTES. For a medium class it is RETURN_BYTES instead, or less where many
 * heaps have little each. If it was full and its blocks are needed again, it was too short. A class
 * that has few blocks in a slab may then have twice as many, as far as the surplus of all heaps
 * goes. It may have half as many if less than a quarter is used. */
#include "returned.h"

#include "stock.h"

static size_t medium_number(unsigned c) { return c - MEDIUM_CLASS; }

static size_t most_of(unsigned c, size_t bytes) {
  return min_size(RETURN_MOST, bytes / class_size(c));
}

/* The most that the list of a medium class may hold now, if the class has earned it. */
static size_t longest(const heap_t *h, unsigned c) {
  size_t part = (surplus_average() << SLICE_SHIFT) / RETURN_PART;
  size_t most = most_of(c, min_size(RETURN_BYTES, max_size(RETURN_SMALL_BYTES, part)));
  return most << h->own->growth[medium_number(c)];
}

/* How much more the list of the class may hold, in slices at most, once it has grown once more than
 * so many times. */
static size_t growth_slices(unsigned c, unsigned times) {
  return ((most_of(c, RETURN_BYTES) << times) * class_size(c) + SLICE_SIZE - 1) / SLICE_SIZE;
}

size_t returned_surplus(const heap_t *h) {
  size_t slices = 0;
  for (unsigned c = MEDIUM_CLASS; c < CLASS_COUNT; c++)
    for (unsigned times = h->own->growth[medium_number(c)]; times > 0; times--)
      slices += growth_slices(c, times - 1);
  return slices;
}

static void lengthen(heap_t *h, unsigned c) {
  uint8_t *growth = &h->own->growth[medium_number(c)];
  if (*growth < GROWTH_MOST && surplus_ask(growth_slices(c, *growth))) ++*growth;
}

static void shorten(heap_t *h, unsigned c) {
  uint8_t *growth = &h->own->growth[medium_number(c)];
  if (*growth == 0) return;
  --*growth;
  surplus_add(0u - (uint32_t)growth_slices(c, *growth));
}

static void set_allowance(heap_t *h, unsigned c, size_t blocks) {
  h->allowance[c] = h->room[c] = (uint16_t)blocks;
}

size_t returned_count(const heap_t *h, unsigned c) { return h->allowance[c] - h->room[c]; }

/* The list is full, and not because the class has earned no more. */
static bool is_too_short(const heap_t *h, unsigned c) {
  return h->room[c] == 0 && h->allowance[c] >= longest(h, c);
}

/* No block is kept while the heap owns few slabs of the class: to adopt others is better then. */
void returned_renew(heap_t *h, unsigned c) {
  ASSERT(h->freed->returned[c] == 0);
  bool are_few = h->own->owned[c] > 0 && h->own->owned[c] < OWNED_MANY;
  if (are_few || users_are_many()) {
    set_allowance(h, c, 0);
    return;
  }
  size_t earned = heap_taken(h, c) / 2 + RETURN_FIRST, most;
  if (c >= MEDIUM_CLASS) {
    uint64_t bit = (uint64_t)1 << medium_number(c);
    if (is_too_short(h, c) || (h->freed->were_short & bit) != 0) lengthen(h, c);
    h->freed->were_short &= ~bit;
    most = longest(h, c);
  } else {
    most = most_of(c, RETURN_SMALL_BYTES);
  }
  set_allowance(h, c, min_size(most, earned));
}

bool returned_has(const heap_t *h, unsigned c) {
  return h->freed->returned[c] != 0 &&
         (h->room[c] <= h->allowance[c] / 2 || returned_count(h, c) * class_size(c) >= CARVE_BYTES);
}

static bool is_mostly_free(const slab_t *s) {
  anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor)); /* relaxed: a hint */
  return a.state == ANCHOR_PARTIAL && a.count > a.carved / 2;
}

/* The list is whole wherever the thread may end. */
void returned_sift(heap_t *h, unsigned c) {
  uintptr_t before = 0, next;
  for (uintptr_t b = h->freed->returned[c]; b != 0; b = next) { /* Bound: the list */
    slab_t *s = slab_of((void *)b);
    if (!block_is_free(b)) fatal("heap corruption", (void *)b, "free");
    next = block_next(b);
    if (!is_mostly_free(s)) {
      before = b;
      continue;
    }
    h->room[c]++;
    if (before == 0) h->freed->returned[c] = next;
    else block_link(before, next);
    outbox_put(h, s, b);
  }
}

uintptr_t returned_take(heap_t *h, unsigned c, unsigned *count) {
  uintptr_t list = h->freed->returned[c];
  *count = (unsigned)returned_count(h, c);
  if (c >= MEDIUM_CLASS && (*count < h->allowance[c] / 4u || surplus_is_too_much())) shorten(h, c);
  h->freed->returned[c] = 0;
  returned_renew(h, c);
  return list;
}

void returned_give_up(heap_t *h, unsigned c) {
  if (c >= MEDIUM_CLASS && is_too_short(h, c))
    h->freed->were_short |= (uint64_t)1 << medium_number(c);
  set_allowance(h, c, 0);
}

void returned_forget(heap_t *h) {
  for (unsigned c = MEDIUM_CLASS - 1; (c = heap_next_class(h, c)) != 0;)
    while (h->own->growth[medium_number(c)] != 0) shorten(h, c); /* Bound: GROWTH_MOST */
  if (h->freed->were_short != 0) h->freed->were_short = 0;       /* its page may be untouched */
}
