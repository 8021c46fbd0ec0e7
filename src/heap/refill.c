/* refill.c - where the blocks of a bin come from                                      layer 6: heap
 * Owns:    nothing: a bin is its heap's.   Called by: slow.c.
 *          Calls: stock, slab, arena, support, os.
 * Threads: the heap's own, with the heap marked.
 *
 * The returned list, the heap's slabs, a slab let go of at once, one of nobody's, a fresh slice:
 * design.md, section 5. A bin is filled whole. When the heap comes to own a slab here, the outbox
 * has no chain for it: it is flushed first, or gives the chain up. */
#include "slow.h"

#include "../arena/frames.h"
#include "../slab/holes.h"
#include "../slab/partial.h"
#include "../slab/states.h"
#include "../stock/stock.h"

enum {
  BIN_LEAST = 16,           /* a slab with fewer free, and under an eighth, is not used */
  HOT_BLOCKS = 2048,        /* a class that has used this many gets longer bins */
  FRAME_PART = 64,          /* a fresh frame is at most this part of what a heap has on average */
  SWEEP_FRESH = 16,         /* slabs of a lane to look at for each fresh one */
  SIFT_CLASS = 8,           /* 128 bytes: a list has many blocks below this */
  SIFT_SMALL_BLOCKS = 2048, /* between two siftings of these; else SIFT_BLOCKS */
};
enum { HOT_BIN = 32, HOT_BYTES = 16384 }; /* its bins: at least so many blocks, up to these bytes */
enum { HOT_USERS = 64 }; /* with more threads no class with few blocks in use has long bins */

/* ---- slabs ----------------------------------------------------------------------------------- */

/* Has the system make pages that will soon be in use: one call for a burst of slices or a frame. */
static out_of_line void populate(heap_t *h, char *base) {
  size_t burst = (size_t)option_get(OPTION_populate);
  if (burst == 0 || budget_is_tight() || option_get(OPTION_arena_populate) || arena_is_pinned(base))
    return;
  bool is_frame = frames_begins(base) && surplus_average() >= FRAME_PART * FRAME_SLICES;
  size_t ahead = FRAME_SLICES - 1 - arena_slice(base) % FRAME_SLICES; /* no further, if at all */
  if (!is_frame)
    ahead = min_size(ahead, min_size((burst - 1) >> SLICE_SHIFT, magazine_singles_most()));
  size_t slices = 1 + magazine_claim_ahead(h, base + SLICE_SIZE, ahead);
  if (is_frame && slices == FRAME_SLICES && frames_fill(base)) return;
  os_populate(base, min_size(align_up(burst, os_page_size()), slices << SLICE_SHIFT));
}

/* For classes whose fresh blocks are linked. */
static bool uses_much(const heap_t *h, unsigned c) {
  return c < MEDIUM_CLASS &&
         heap_binned(h, c) * class_size(c) >= (uint64_t)option_get(OPTION_populate);
}

static slab_t *fresh_slab(heap_t *h, unsigned c) {
  bool clean;
  if (unlikely(!lanes_may_take(h, SLICE_SIZE))) return NULL;
  void *base = magazine_claim(h, 1, 1, tails_wish(SLICE_SIZE), &clean);
  if (base == NULL) return NULL;
  if (h->slabs_made < UINT16_MAX) h->slabs_made++;
  if (clean && uses_much(h, c)) populate(h, base);
  slab_t *s = slab_new(base, c, h, heap_tag(h));
  s->is_clean = clean;
  if (SECURE && clean) states_set_clean(base);
  return s;
}

/* ---- sources --------------------------------------------------------------------------------- */

/* The fewest blocks that a bin should get, fresh ones if need be. */
static unsigned carve_count(const heap_t *h, unsigned c) {
  size_t binned = heap_binned(h, c), most = CARVE_BYTES / class_size(c);
  if (binned >= HOT_BLOCKS) most = max_size(most, min_size(HOT_BIN, HOT_BYTES / class_size(c)));
  return (unsigned)max_size(1, min_size(most, binned / 2 + 1));
}

/* For a class with few blocks in a slab: all freed ones, as a list, and if these are few, fresh
 * ones. The heap has no fresh ones now. In a slice that was used before, fresh ones are linked:
 * most of its pages are present. */
static out_of_line uintptr_t borrow_medium(heap_t *h, slab_t *s, unsigned *count) {
  unsigned c = slab_class(s), size = (unsigned)class_size(c), fresh;
  unsigned most = (heap_binned(h, c) * size >= MUCH_BORROWED ? SLICE_SIZE : BORROW_BYTES) / size;
  if (!s->is_clean) return slab_take_list(s, most, count);
  uintptr_t list = slab_take_freed(s, count), first = slab_fresh_end(s, &fresh);
  if (*count >= most) return list;
  fresh = (unsigned)min_size(fresh, most - *count);
  fresh_t borrowed = {first, fresh};
  heap_set_fresh(h, c, borrowed);
  atomic64_or_relaxed(&s->fresh, fresh_bits(borrowed, c)); /* relaxed: the next line releases */
  slab_take_fresh(s, fresh);
  *count += fresh;
  return list;
}

/* A class's first few blocks come out of slabs that the heap lets go of at once, so that ten
 * thousand threads which allocate a little share their slabs. So do all blocks of a class with few
 * in a slab. */
static uintptr_t borrow(heap_t *h, unsigned c, unsigned *count) {
  unsigned size = (unsigned)class_size(c);
  slab_t *s = slab_find_partial(c, h);
  if (s == NULL) s = fresh_slab(h, c);
  if (s == NULL) return 0;
  ASSERT_VALID(slab_is_valid(s));
  uintptr_t list;
  if (heap_binned(h, c) == 0) list = slab_take_some(s, 1, count);
  else if (users_are_many()) list = slab_take_some(s, max_size(EARN_BYTES / size, 1), count);
  else if (heap_knows_remote(h, c)) list = slab_take_list(s, carve_count(h, c), count);
  else if (c < MEDIUM_CLASS) list = slab_take_some(s, EARN_BYTES / size, count);
  else list = borrow_medium(h, s, count);
  if (slab_let_go(s) == SLAB_IS_EMPTY) magazine_put_slab(h, s);
  return list;
}

/* How many blocks the bin should get from an owned slab. If it is the only one, and many of its
 * blocks are in use, a quarter of these: many threads may use many classes a little. */
static unsigned least_for(const heap_t *h, unsigned c, const slab_t *s) {
  unsigned least = carve_count(h, c), used = slab_used(s);
  bool is_lone = used < BIN_LEAST && users_count() <= HOT_USERS;
  if (h->own->slab_count[c] > 1 || is_lone) return least;
  return (unsigned)min_size(least, max_size(CARVE_BYTES / class_size(c), used / 4));
}

/* Uses the first owned slab that fills a bin. Used-up slabs stay for a while: their blocks may come
 * back soon, and a free into an owned slab is the cheapest. */
static uintptr_t take_from_owned(heap_t *h, unsigned c, unsigned *count) {
  /* Bound: owned slabs, at most OWNED_MOST of a class */
  for (slab_t *s = owned_first(h, c); s != NULL; s = s->next) {
    if (!slab_has(s, BIN_LEAST)) continue;
    unsigned most = least_for(h, c, s);
    owned_move(h, s, true);
    owned_note_freed(h, c, s, most);
    return slab_take_list(s, most, count);
  }
  if (h->own->slab_count[c] > USED_UP_MOST) owned_let_go(h, owned_first(h, c)->prev);
  return 0;
}

/* A first-class heap keeps its slabs for itself. It looks at a few of them before it takes a fresh
 * one, and then at some slabs of all classes. */
static out_of_line uintptr_t take_from_lane(heap_t *h, unsigned c, unsigned *count) {
  enum { LOOKS = 8 };
  slab_t *s;
  for (int i = 0; i < LOOKS && (s = owned_first(h, c)) != NULL; i++) {
    owned_end_idleness(h, s);
    uintptr_t list = slab_take_list(s, carve_count(h, c), count);
    if (list != 0) return list;
    owned_move(h, s, false);
  }
  owned_sweep(h, SWEEP_FRESH);
  return 0;
}

/* ---- a bin ----------------------------------------------------------------------------------- */

/* Now and then. Slabs in which others have freed much go: the heap prefers those that it used last.
 * May forget that others free blocks of the class: then a trial begins, and the heap takes over
 * slabs in which others' frees wait. So trials are rare, and drawn by lot. */
static cold void look_at_class(heap_t *h, unsigned c, bool is_trial_due) {
  for (slab_t *s = owned_first(h, c), *next; s != NULL; s = next) { /* Bound: OWNED_MOST */
    next = s->next;
    if (slab_others_freed(s) >= s->capacity / MUCH_PART) owned_let_go(h, s);
  }
  if (is_trial_due && heap_knows_remote(h, c) && bits_mix(++h->aside->lots) % TRIALS_PART == 0)
    h->aside->remote &= ~((uint64_t)1 << c);
}

static out_of_line void note_binned(heap_t *h, unsigned c, unsigned count) {
  bool is_tagged = heap_tag(h) != NULL;
  if (!is_tagged) slab_thread_count(0, count * class_size(c));
  uint32_t binned = heap_binned(h, c) + count, since = heap_since_trial(h, c, binned);
  uint32_t kept = binned < 2u * TRIAL_BLOCKS ? binned : binned - TRIAL_BLOCKS;
  if (unlikely(kept != binned)) atomic64_add_relaxed(&heap_counts.binned[c], TRIAL_BLOCKS);
  atomic16_store_relaxed(&h->binned[c], (uint16_t)kept); /* relaxed: only its user writes it */
  if (unlikely(since % SIFT_BLOCKS < count) && !is_tagged) look_at_class(h, c, since < count);
}

static uintptr_t find_list(heap_t *h, unsigned c, unsigned *count) {
  ASSERT(heap_tag(h) == NULL || !heap_knows_remote(h, c));
  if (h->own->slab_count[c] != 0 && heap_knows_remote(h, c)) owned_disown(h, c);
  if (returned_has(h, c)) return returned_take(h, c, count);
  returned_missed(h, c);
  bool is_tagged = heap_tag(h) != NULL;
  uintptr_t list = is_tagged ? take_from_lane(h, c, count) : take_from_owned(h, c, count);
  if (list != 0) return list;
  if (!is_tagged && !heap_has_earned(h, c)) return borrow(h, c, count);
  slab_t *s = is_tagged ? NULL : slab_find_partial(c, h);
  if (s != NULL) slab_sort(s);
  else if ((s = fresh_slab(h, c)) == NULL) return 0;
  ASSERT_VALID(slab_is_valid(s));
  owned_add(h, s);
  outbox_reclaim(h, s);
  return slab_take_list(s, carve_count(h, c), count);
}

/* The bin is new. For medium classes `count` may count fresh blocks too. */
static cold void sample_bin(heap_t *h, unsigned c, unsigned count) {
  uintptr_t block = c >= MEDIUM_CLASS ? h->bin[c] : 0;
  if (c >= MEDIUM_CLASS) count = 0;
  for (; block != 0; block = block_next(block)) count++; /* Bound: a list of medium blocks */
  if (count != 0) sample_new_bin(h, c, count);
}

/* Now and then, at a refill. For medium classes it only costs swaps. */
static void sift(heap_t *h, unsigned c) {
  if (c >= MEDIUM_CLASS) return;
  uint32_t n = (uint32_t)returned_count(h, c);
  uint32_t since = heap_since_trial(h, c, heap_binned(h, c) + n);
  if (since % SIFT_BLOCKS >= n || (c < SIFT_CLASS && since % SIFT_SMALL_BLOCKS >= n)) return;
  returned_sift(h, c);
}

static void refill(heap_t *h, unsigned c) {
  unsigned count = 0;
  heap_note_class(h, c);
  if (c < MEDIUM_CLASS && unlikely((h->aside->given_up >> c & 1) != 0))
    h->aside->given_up &= ~((uint64_t)1 << c);
  sift(h, c);
  outbox_note_refill(h);
  h->bin[c] = find_list(h, c, &count);
  note_binned(h, c, count);
  if (unlikely(sample_was_started())) sample_bin(h, c, count);
}

static void *take_fresh(heap_t *h, unsigned c) {
  fresh_t fresh = heap_fresh(h, c);
  if (fresh.count == 0) return NULL;
  heap_drop_fresh(h, c, fresh);
  if (unlikely(sample_was_started())) sample_pass_bytes(h, c, class_size(c));
  return (void *)fresh.first;
}

/* Checks a new bin's first block on behalf of the rest. If anybody wrote to it while it was free,
 * the list may go on where no free block is. */
static void check_first(uintptr_t block) {
  uintptr_t next = block_next(block);
  if (unlikely(!block_is_free(block)) || unlikely(!block_may_be_next(next)) ||
      (next != 0 && unlikely(!block_is_free(next))))
    fatal("heap corruption", (void *)block, "malloc");
}

void *heap_malloc_class(heap_t *h, unsigned c) {
  if (unlikely(sample_was_started()) && sample_of(h)->behind[c] != 0 && h->bin[c] == 0)
    sample_renew_bin(h, c);
  if (h->bin[c] == 0 && (returned_has(h, c) || heap_fresh(h, c).count == 0)) refill(h, c);
  uintptr_t block = h->bin[c];
  if (block == 0) return take_fresh(h, c);
  check_first(block);
  h->bin[c] = block_pop(block);
  block_set_live(block);
  ASSERT_VALID(h->own->slabs[c] == 0 || slab_is_valid(owned_first(h, c)));
  return (void *)block;
}
