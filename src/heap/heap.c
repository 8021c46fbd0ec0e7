/* heap.c - the front end of a thread: what the fast paths cannot do                   layer 5: heap
 * Contract: heap.h. */
#include "fast.h"

#include "../base/check.h"
#include "../os/os.h"
#include "../support/options.h"

/* ---- marks ----------------------------------------------------------------------------------- */

/* With the option stats_detail every call takes the slow path, and `busy` alone is the mark. */
static always_inline bool has_fast_paths(const heap_t *h) {
  return h == heap_of_thread() && likely(option_get(OPTION_stats_detail) == 0);
}

static always_inline bool is_marked(const heap_t *h, bool has_fast) {
  return h->busy != 0 || (has_fast && (heap_here.window == 0 || heap_here.limit == 0));
}

/* `h` is the calling thread's own, or one of those that stand in for it. */
bool heap_is_marked(const heap_t *h) { return is_marked(h, has_fast_paths(h)); }

static always_inline void mark(heap_t *h, bool has_fast) {
  h->busy = 1;
  if (!has_fast) return;
  signal_fence();
  heap_here.limit = 0;
  heap_here.window = 0;
  signal_fence();
}

static always_inline void unmark(heap_t *h) {
  ASSERT_VALID(heap_is_valid(h));
  signal_fence();
  if (has_fast_paths(h)) {
    heap_here.window = atomic64_load_relaxed(&h->home);
    heap_here.limit = SMALL_STEPS + 1;
    signal_fence();
  }
  h->busy = 0;
}

/* The heap that stands in for `h` while that is marked. */
static heap_t *nested_of(heap_t *h) {
  heap_t *nested = atomic_ptr_load_relaxed(&h->nested); /* relaxed: this thread's, its handlers' */
  if (nested != NULL) return nested;
  heap_t *fresh = pool_claim();
  void *none = NULL;
  if (fresh == NULL) return NULL;
  if (atomic_ptr_swap_relaxed(&h->nested, &none, fresh)) return fresh;
  pool_put_back(fresh); /* a handler between the two lines above was first */
  return none;
}

/* The heap, or the one that stands in for it. */
static cold __attribute__((noinline)) heap_t *enter_any(heap_t *h) {
  while (h != NULL && heap_is_marked(h)) { /* Bound: handlers that interrupt each other */
    atomic64_add_relaxed(&heap_counts.nested, 1);
    h = nested_of(h);
  }
  if (h != NULL) mark(h, has_fast_paths(h));
  return h;
}

/* `h` is the thread's own. */
static always_inline heap_t *enter(heap_t *h) {
  bool has_fast = likely(option_get(OPTION_stats_detail) == 0);
  if (unlikely(is_marked(h, has_fast))) return enter_any(h);
  mark(h, has_fast);
  return h;
}

heap_t *heap_enter(void) {
  heap_t *h = heap_of_thread();
  return likely(h != NULL) ? enter(h) : enter_any(heap_attach());
}

heap_t *heap_enter_own(void) {
  heap_t *h = heap_of_thread();
  return likely(h != NULL) ? enter(h) : NULL;
}

/* A thread that only waits, and frees its last few things when it ends, needs none; nor would
 * anyone take one back that it gets after that. */
heap_t *heap_enter_to_free(void) {
  if (heap_of_thread() == NULL) {
    if (heap_here.lone_frees == LONE_AT_END || ++heap_here.lone_frees <= LONE_MOST) return NULL;
    heap_here.lone_frees = 0;
  }
  return heap_enter();
}

void heap_look(heap_t *h) {
  uint8_t now = (uint8_t)purge_tick();
  size_t more = now == h->looked_at ? 2u * h->wait : 0;
  h->wait = (uint8_t)min_size(more + TICK_CALLS, TICK_MOST);
  h->looked_at = now;
  h->calls = h->wait - 1;
  if (unlikely(h->trims_seen != atomic32_load_relaxed(&heap_trims))) heap_answer_trim(h);
}

/* True if it is the turn of a heap at rest. */
static cold __attribute__((noinline)) bool exit_slowly(heap_t *h) {
  if (h->trims_due != 0) heap_trim(h);
  bool has_trimmed = h->has_trimmed;
  h->has_trimmed = 0;
  heap_tick(h);
  unmark(h);
  return has_trimmed;
}

void heap_exit(heap_t *h) {
  if (unlikely(h->trims_due != 0 || h->calls == 0)) {
    if (exit_slowly(h)) heap_end_rest();
    return;
  }
  h->calls--;
  unmark(h);
}

/* ---- the slabs that a heap owns -------------------------------------------------------------- */

slab_t *heap_first_slab(const heap_t *h, unsigned c) { return slab_numbered(h->own->slabs[c]); }

/* A class's list: the first slab's `prev` is the last one, the last one's `next` is NULL. */
static void link_slab(heap_t *h, slab_t *s, bool as_first) {
  unsigned c = slab_class(s);
  slab_t *first = heap_first_slab(h, c);
  h->own->owned[c]++;
  s->next = NULL;
  s->prev = s;
  if (first == NULL || as_first) h->own->slabs[c] = slab_number(s);
  if (first == NULL) return;
  s->prev = first->prev;
  first->prev = s;
  if (as_first) s->next = first;
  else s->prev->next = s;
}

void heap_unlink_slab(heap_t *h, slab_t *s) {
  unsigned c = slab_class(s);
  slab_t *first = heap_first_slab(h, c);
  h->own->owned[c]--;
  if (s == first) h->own->slabs[c] = slab_number(s->next);
  else s->prev->next = s->next;
  if (s->next != NULL) s->next->prev = s->prev;
  else if (s != first) first->prev = s->prev;
  s->next = s->prev = NULL;
}

void heap_own(heap_t *h, slab_t *s) { link_slab(h, s, true); }

/* Has the system make the pages that are in use soon, for a burst of slices with one call: of a
 * class of which much was used, and whose fresh blocks are linked. */
static void populate(heap_t *h, char *base, unsigned c) {
  size_t burst = (size_t)option_get(OPTION_populate);
  if (burst == 0 || c >= SHARED_CLASS || heap_taken(h, c) * class_size(c) < burst) return;
  size_t slices = 1 + heap_claim_ahead(h, base + SLICE_SIZE, (burst - 1) >> SLICE_SHIFT);
  os_populate(base, min_size(align_up(burst, os_page_size()), slices << SLICE_SHIFT));
}

static slab_t *fresh_slab(heap_t *h, unsigned c) {
  bool clean;
  void *base = heap_claim_run(h, 1, 1, tail_wish(SLICE_SIZE), &clean);
  if (base == NULL) return NULL;
  if (h->slabs_made < UINT8_MAX) h->slabs_made++;
  if (clean) populate(h, base, c);
  slab_t *s = slab_new(base, c, h, heap_tag(h));
  s->is_clean = clean;
  return s;
}

static bool is_first_and_kept(heap_t *h, slab_t *s) {
  return s == heap_first_slab(h, slab_class(s)) && h->idle < IDLE_MAX;
}

/* All blocks of an owned slab are free: the first of a class may stay, a few of them in all. */
void heap_note_empty(heap_t *h, slab_t *s) {
  if (s->is_idle == SLAB_IDLE) return;
  if (is_first_and_kept(h, s)) {
    s->is_idle = SLAB_IDLE;
    h->idle++;
    return;
  }
  heap_unlink_slab(h, s);
  heap_put_slice(h, s);
}

void heap_end_idleness(heap_t *h, slab_t *s) {
  h->idle -= s->is_idle == SLAB_IDLE;
  s->is_idle = 0;
}

void heap_slab_emptied(slab_t *s) {
  heap_t *h = heap_enter_own();
  if (h == NULL) return; /* it stays on its list, and is used from there */
  if (atomic_ptr_load_relaxed(&s->owner) == h && slab_kind(slab_word(s)) == SLAB_SMALL &&
      slab_used(s) == 0)
    heap_note_empty(h, s); /* a handler may have been here since the fast free looked */
  heap_exit(h);
}

/* ---- refilling a bin ------------------------------------------------------------------------- */

/* How many blocks a bin shall have at least, if need be fresh ones. */
static unsigned carve_count(const heap_t *h, unsigned c) {
  size_t taken = heap_taken(h, c), most = CARVE_BYTES / class_size(c);
  if (taken >= HOT_BLOCKS) most = max_size(most, min_size(HOT_BIN, HOT_BYTES / class_size(c)));
  return (unsigned)max_size(1, min_size(most, taken / 2 + 1));
}

/* Of a class that has few blocks in a slab: all that were freed, as a list, and if these are few,
 * fresh ones; of such the heap has none now. In a slice that was used before they are linked: most
 * of its pages are present. */
static uintptr_t take_lent(heap_t *h, slab_t *s, unsigned *count) {
  unsigned c = slab_class(s), size = (unsigned)class_size(c), fresh;
  unsigned most = (heap_taken(h, c) * size >= MUCH_LENT ? SLICE_SIZE : LEND_BYTES) / size;
  if (!s->is_clean) return slab_take_list(s, most, count);
  uintptr_t list = slab_take_freed(s, count), first = slab_fresh_end(s, &fresh);
  if (*count >= most) return list;
  fresh = (unsigned)min_size(fresh, most - *count);
  fresh_t lent = { first, fresh };
  heap_set_fresh(h, c, lent);
  atomic64_or_relaxed(&s->fresh, fresh_bits(lent, c)); /* relaxed: the next line releases it */
  slab_take_fresh(s, fresh);
  *count += fresh;
  return list;
}

/* A class's first block, and the next few, come out of slabs that are let go at once, so that ten
 * thousand threads which allocate a little share their slabs; and so do all blocks of a class that
 * has few in a slab. */
static uintptr_t borrow(heap_t *h, unsigned c, unsigned *count) {
  unsigned size = (unsigned)class_size(c);
  slab_t *s = slab_find_partial(c, h);
  if (s == NULL) s = fresh_slab(h, c);
  if (s == NULL) return 0;
  uintptr_t list;
  if (heap_taken(h, c) == 0) list = slab_take_some(s, 1, count);
  else if (heap_knows_remote(h, c)) list = slab_take_list(s, carve_count(h, c), count);
  else if (c < SHARED_CLASS) list = slab_take_some(s, EARN_BYTES / size, count);
  else list = take_lent(h, s, count);
  if (slab_let_go(s) == SLAB_IS_EMPTY) heap_put_slice(h, s);
  return list;
}

static void let_go_of(heap_t *h, slab_t *s) {
  heap_end_idleness(h, s);
  heap_unlink_slab(h, s);
  if (slab_let_go(s) == SLAB_IS_EMPTY) heap_put_slice(h, s);
}

bool heap_is_remote(heap_t *h, unsigned c) {
  size_t own = 0, others = 0, few = SLICE_SIZE / class_size(c) / REMOTE_FEW;
  /* Bound: owned slabs, at most OWNED_MAX of a class */
  for (slab_t *s = heap_first_slab(h, c); s != NULL; s = s->next) {
    own += slab_private_count(s);
    others += slab_others_freed(s);
  }
  if (others <= max_size(own / REMOTE_PART, few)) return false;
  h->freed->remote |= (uint64_t)1 << c;
  return true;
}

static void disown(heap_t *h, unsigned c) {
  for (slab_t *s; (s = heap_first_slab(h, c)) != NULL;) let_go_of(h, s); /* Bound: as above */
}

/* The first owned slab that fills a bin. Those that are used up stay for a while, for their blocks
 * may come back soon, and a free into an owned slab is the cheapest. */
static uintptr_t take_from_owned(heap_t *h, unsigned c, unsigned *count) {
  /* Bound: owned slabs, at most OWNED_MAX of a class */
  for (slab_t *s = heap_first_slab(h, c); s != NULL; s = s->next) {
    if (!slab_has(s, BIN_LEAST)) continue;
    bool is_remote = s->head == 0 && slab_others_freed(s) != 0;
    if (is_remote && heap_is_remote(h, c)) {
      disown(h, c);
      return 0;
    }
    heap_end_idleness(h, s);
    heap_unlink_slab(h, s);
    link_slab(h, s, true);
    return slab_take_list(s, carve_count(h, c), count);
  }
  if (h->own->owned[c] > USED_UP_MAX) let_go_of(h, heap_first_slab(h, c)->prev);
  return 0;
}

/* A first-class heap keeps its slabs for itself; it looks at a few of them before it takes a fresh
 * one, and at some of all classes when it does. */
static uintptr_t take_from_kept(heap_t *h, unsigned c, unsigned *count) {
  enum { LOOKS = 8 };
  slab_t *s;
  for (int i = 0; i < LOOKS && (s = heap_first_slab(h, c)) != NULL; i++) {
    heap_end_idleness(h, s);
    uintptr_t list = slab_take_list(s, carve_count(h, c), count);
    if (list != 0) return list;
    heap_unlink_slab(h, s);
    link_slab(h, s, false);
  }
  heap_sweep(h, SWEEP_FRESH);
  return 0;
}

static void note_taken(heap_t *h, unsigned c, unsigned count) {
  uint32_t taken = heap_taken(h, c) + count;
  if (unlikely(heap_since_trial(h, c, taken) < count) && heap_knows_remote(h, c))
    h->freed->remote &= ~((uint64_t)1 << c);
  if (unlikely(taken >= 2u * TAKEN_PART)) {
    pool_note_taken(c, TAKEN_PART);
    taken -= TAKEN_PART;
  }
  atomic16_store_relaxed(&h->taken[c], (uint16_t)taken); /* relaxed: its user alone writes it */
}

static uintptr_t find_list(heap_t *h, unsigned c, unsigned *count) {
  ASSERT(heap_tag(h) == NULL || !heap_knows_remote(h, c));
  if (h->own->owned[c] != 0 && heap_knows_remote(h, c)) disown(h, c);
  if (returned_has(h, c)) return returned_take(h, c, count);
  if (h->freed->returned[c] == 0) returned_renew(h, c);
  bool is_tagged = heap_tag(h) != NULL;
  uintptr_t list = is_tagged ? take_from_kept(h, c, count) : take_from_owned(h, c, count);
  if (list != 0) return list;
  if (!is_tagged && !heap_has_earned(h, c)) return borrow(h, c, count);
  slab_t *s = is_tagged ? NULL : slab_find_partial(c, h);
  if (s != NULL) slab_sort(s);
  else if ((s = fresh_slab(h, c)) == NULL) return 0;
  heap_own(h, s);
  return slab_take_list(s, carve_count(h, c), count);
}

static void refill(heap_t *h, unsigned c) {
  unsigned count = 0;
  heap_note_class(h, c);
  if (h->has_shared) heap_flush_shared(h);
  for (int tries = 0; count == 0 && tries < 2; tries++) {
    if (unlikely(tries != 0)) heap_flush_bins(h); /* no memory: what it keeps may make room */
    h->bin[c] = find_list(h, c, &count);
  }
  note_taken(h, c, count);
}

/* ---- allocating ------------------------------------------------------------------------------ */

static void *take_fresh(heap_t *h, unsigned c) {
  fresh_t fresh = heap_fresh(h, c);
  if (fresh.count == 0) return NULL;
  heap_drop_fresh(h, c, fresh);
  return (void *)fresh.first;
}

void *heap_malloc_class(heap_t *h, unsigned c) {
  if (h->bin[c] == 0 && (returned_has(h, c) || heap_fresh(h, c).count == 0)) refill(h, c);
  uintptr_t block = h->bin[c];
  if (block == 0) return take_fresh(h, c);
  h->bin[c] = block_next(block);
  block_set_live(block);
  ASSERT_VALID(h->own->slabs[c] == 0 || slab_is_valid(heap_first_slab(h, c)));
  return (void *)block;
}

void *heap_malloc_in(heap_t *h, size_t size) {
  if (size > SMALL_MAX_SIZE) return large_malloc(h, size, 1);
  unsigned c = class_of(max_size(size, 1));
  if (unlikely(option_get(OPTION_stats_detail) != 0)) pool_note_requested(c, size);
  return heap_malloc_class(h, c);
}

void *heap_aligned_in(heap_t *h, size_t alignment, size_t size) {
  unsigned c = class_of_aligned(alignment, max_size(size, 1));
  return c != 0 ? heap_malloc_class(h, c) : large_malloc(h, size, alignment);
}

static void *done_or_no_memory(void *block) {
  if (unlikely(block == NULL)) heap_hooks.no_memory();
  return block;
}

static void *aligned_or_plain(size_t alignment, size_t size) {
  void *block = NULL;
  heap_t *h = size <= PTRDIFF_MAX ? heap_enter() : NULL;
  if (h != NULL) {
    block = alignment <= 16 ? heap_malloc_in(h, size) : heap_aligned_in(h, alignment, size);
    heap_exit(h);
    heap_hooks.deferred(false);
  }
  return done_or_no_memory(block);
}

cold void *heap_malloc_slow(size_t size) { return aligned_or_plain(1, size); }
void *heap_aligned_slow(size_t alignment, size_t size) { return aligned_or_plain(alignment, size); }

void *heap_calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return done_or_no_memory(NULL);
  void *block = fast_malloc(bytes);
  return heap_clear(block, bytes);
}
