/* sleepers.c - what the heaps of sleeping threads keep, taken without their help      layer 6: heap
 * Contract: sleepers.h.
 *
 * The fast paths of a thread set a mark, and then read words of its heap and of its slabs. Nobody
 * else can set a mark for them, but whoever closes these words can find out whether one was past
 * them already. Three fences for all threads, which the system makes, take the place of those that
 * the fast paths do not have:
 *   1. The heap's flag is set, and after a fence its `busy` and the word of its thread are looked
 *      at. From here on the thread's slow calls leave the heap alone and use its next one, as a
 *      handler's do. So do its end and whoever finds it dead.
 *   2. The words are closed: no bin has a block, no list has room, no slab is the heap's, and no
 *      chain is there. After a fence no fast call begins that gets past them. One that did before
 *      has left its mark, or ended.
 *   3. After a fence what that one wrote is seen. A bin or a list that is open has been used
 *      meanwhile: the thread runs. Else all that the heap keeps is the taker's, who moves it to a
 *      heap of its own and ends that, like a dead thread's.
 * A heap that is in use is opened again; what its thread has changed meanwhile stays as it is.
 * All of it is relaxed. The fences order what is read of other threads, and the processor keeps the
 * order of stores and of loads: there is one kind for which heaps can be taken. */
#include "sleepers.h"

#include "../arena/places.h"
#include "../stock/stock.h"
#include "here.h"

enum {
  TOGETHER = 16,        /* heaps that share their fences */
  SLEEPER_LOOKS = 1024, /* places that one look goes through */
  SLEEP_MS = 10000,     /* from one look at a heap to the next */
};

typedef struct {
  heap_t *heap;                 /* NULL: given up */
  uint64_t word;                /* users_word of its place, as it was chosen */
  uint16_t room[CLASS_COUNT];   /* of its returned lists */
  slab_t *chained[BATCH_SLOTS]; /* of its batches */
} sleeper_t;

static atomic64_t taker; /* os_thread, 0: nobody */
static large_table sleeper_t sleepers[TOGETHER];

/* ---- one at a time --------------------------------------------------------------------------- */

/* One that has died in the middle, or is not in this child of fork, is the taker no more. */
static bool begin_taking(uint64_t me) {
  uint64_t who = atomic64_load_relaxed(&taker);
  bool is_here = who >> OS_THREAD_BITS / 2 == me >> OS_THREAD_BITS / 2;
  if (me == 0 || (who != 0 && is_here && !os_thread_has_ended(who, me))) return false;
  return atomic64_cas_relaxed(&taker, &who, me);
}

static void end_taking(void) {
  signal_fence();
  atomic64_store_relaxed(&taker, 0);
}

/* ---- one heap -------------------------------------------------------------------------------- */

static bool keeps_anything(const heap_t *h) {
  if (h->put_off != 0 || h->singles + h->run_slices != 0) return true;
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) { /* Bound: the classes */
    if (h->bin[c] != 0 || h->own->slabs[c] != 0 || h->aside->returned[c] != 0) return true;
    if (heap_fresh(h, c).count != 0 || sample_is_cut(h, c)) return true;
  }
  return false;
}

static bool choose_sleeper(sleeper_t *s, size_t number, uint64_t me) {
  uint64_t word = users_word(number), thread = users_thread(number);
  bool is_claimed;
  heap_t *h = thread != 0 && thread != me ? pool_at(number, &is_claimed) : NULL;
  if (h == NULL || heap_is_taken(h) || heap_tag(h) != NULL || !keeps_anything(h)) return false;
  s->heap = h;
  s->word = word;
  atomic8_store_relaxed(&h->is_taken, 1); /* relaxed: the fence follows */
  return true;
}

static void open_heap(sleeper_t *s) {
  signal_fence();
  atomic8_store_relaxed(&s->heap->is_taken, 0);
  s->heap = NULL;
}

/* No slow call of its thread is under way, and it is that thread's. */
static bool is_left_alone(const sleeper_t *s) {
  const heap_t *h = s->heap;
  return plain8_load_relaxed(&h->busy) == 0 && heap_tag(h) == NULL &&
         users_word(heap_number(h)) == s->word;
}

static void close_chains(sleeper_t *s) {
  memset(s->chained, 0, sizeof s->chained);
  if (s->heap->put_off == 0) return;
  for (uint64_t w = s->heap->aside->slots; w != 0; w &= w - 1) { /* Bound: the bits of a word */
    size_t i = bits_lowest(w);
    s->chained[i] = s->heap->aside->batch[i].slab;
    s->heap->aside->batch[i].slab = NULL;
  }
}

static void set_owners(const heap_t *h, unsigned c, void *owner) {
  for (slab_t *s = owned_first(h, c); s != NULL; s = s->next) /* Bound: owned slabs */
    atomic_ptr_store_relaxed(&s->owner, owner);
}

static void close_words(sleeper_t *s) {
  heap_t *h = s->heap;
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) { /* Bound: the classes */
    uintptr_t first = plain_load_relaxed(&h->bin[c]);
    if (first != 0) plain_cas_relaxed(&h->bin[c], first, first | BIN_CLOSED);
    s->room[c] = plain16_exchange_relaxed(&h->returned_room[c], 0);
    set_owners(h, c, SLAB_CLOSED);
  }
  close_chains(s);
}

/* What its thread has changed since stays. */
static void open_words(const sleeper_t *s) {
  heap_t *h = s->heap;
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) { /* Bound: the classes */
    uintptr_t first = plain_load_relaxed(&h->bin[c]);
    if ((first & BIN_CLOSED) != 0) plain_cas_relaxed(&h->bin[c], first, first & ~BIN_CLOSED);
    plain16_cas_relaxed(&h->returned_room[c], 0, s->room[c]);
    set_owners(h, c, h);
  }
  for (size_t i = 0; i < BATCH_SLOTS; i++)
    if (s->chained[i] != NULL) h->aside->batch[i].slab = s->chained[i];
}

/* Are they as they were closed? */
static bool are_closed(const heap_t *h) {
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) { /* Bound: the classes */
    uintptr_t first = plain_load_relaxed(&h->bin[c]);
    if (heap_bin_has_block(first) || plain16_load_relaxed(&h->returned_room[c]) != 0) return false;
  }
  return true;
}

/* Is its thread in a fast call, or is that not known? The words lie where the thread keeps its own,
 * which may be gone. */
static bool may_be_in_fast_call(const heap_t *h) {
  heap_here_t here;
  if (!os_copy(&here, users_marks(heap_number(h)), sizeof here)) return true;
  return atomic_ptr_load_relaxed(&here.heap) != h || here.is_closed != 0 || here.limit == 0 ||
         here.window == 0;
}

/* ---- moving ---------------------------------------------------------------------------------- */

static void move_class(sleeper_t *s, heap_t *to, unsigned c) {
  heap_t *h = s->heap;
  heap_note_class(to, c);
  uintptr_t bin = h->bin[c] & ~BIN_CLOSED, returned = h->aside->returned[c];
  uint32_t slabs = h->own->slabs[c];
  set_owners(h, c, to);
  h->bin[c] = h->aside->returned[c] = h->own->slabs[c] = 0;
  to->bin[c] = bin;
  to->aside->returned[c] = returned;
  to->own->slabs[c] = slabs;
  to->returned_most[c] = h->returned_most[c];
  to->returned_room[c] = s->room[c];
  to->own->slab_count[c] = h->own->slab_count[c];
  h->returned_most[c] = h->own->slab_count[c] = 0;
  if (c >= MEDIUM_CLASS) {
    lengthened_t *l = &h->own->lengthened[c - MEDIUM_CLASS];
    fresh_t fresh = heap_fresh(h, c);
    heap_set_fresh(h, c, (fresh_t){0});
    heap_set_fresh(to, c, fresh);
    to->own->lengthened[c - MEDIUM_CLASS].doublings = l->doublings;
    l->doublings = 0;
  }
  if (unlikely(sample_was_started())) sample_move_bin(to, h, c);
}

static void move_chains(sleeper_t *s, heap_t *to) {
  for (size_t i = 0; i < BATCH_SLOTS; i++) {
    if (s->chained[i] == NULL) continue;
    uint64_t word = batch_word(&s->heap->aside->batch[i]);
    atomic64_store_relaxed(&to->aside->batch[i].word, word);
    to->aside->batch[i].slab = s->chained[i];
    to->aside->slots |= (uint64_t)1 << i;
    to->put_off++;
  }
  s->heap->aside->slots = 0;
  s->heap->put_off = 0;
}

/* `to` keeps nothing. */
static void move_all(sleeper_t *s, heap_t *to) {
  heap_t *h = s->heap;
  /* Bound: the classes */
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) move_class(s, to, c);
  if (h->put_off != 0) move_chains(s, to);
  to->idle = h->idle;
  h->idle = 0;
  magazine_move(to, h);
  held_move(h, to);
}

/* ---- several heaps --------------------------------------------------------------------------- */

/* Of the first `n`. Each step is done for all of them, and then a fence. */
static void take_chosen(size_t n, heap_t *to) {
  bool is_fenced = os_fence_threads();
  for (sleeper_t *s = sleepers; s < sleepers + n; s++) {
    if (to != NULL && is_fenced && is_left_alone(s)) close_words(s);
    else open_heap(s);
  }
  is_fenced = is_fenced && os_fence_threads();
  for (sleeper_t *s = sleepers; s < sleepers + n; s++) {
    if (s->heap == NULL || (is_fenced && !may_be_in_fast_call(s->heap))) continue;
    open_words(s);
    open_heap(s);
  }
  is_fenced = is_fenced && os_fence_threads();
  for (sleeper_t *s = sleepers; s < sleepers + n; s++) {
    if (s->heap == NULL) continue;
    bool is_moved = is_fenced && are_closed(s->heap);
    if (is_moved) move_all(s, to);
    else open_words(s);
    open_heap(s);
    if (!is_moved) continue;
    held_add(to);
    heap_empty(to);
  }
}

static void take_first(size_t n) {
  heap_t *to = pool_claim();
  if (to != NULL) {
    users_begin(heap_number(to));
    held_add(to);
    heap_empty(to); /* it may have rested */
  }
  take_chosen(n, to);
  if (to != NULL) pool_release(to);
}

void sleepers_take_all(void) {
  uint64_t me = os_thread();
  if (!HEAPS_CAN_BE_TAKEN || !begin_taking(me)) return;
  size_t n = 0;
  for (size_t number = 0; number < pool_size(); number++) { /* Bound: the places */
    n += choose_sleeper(&sleepers[n], number, me);
    if (n < TOGETHER) continue;
    take_first(n);
    n = 0;
  }
  if (n != 0) take_first(n);
  end_taking();
}

/* ---- in the background ----------------------------------------------------------------------- */

/* The processor time of its thread, at the last look; its lowest bit is set. */
static large_table uint32_t spent_at[PLACES_CHUNKS * PLACES_IN_CHUNK];

/* Has the thread of the heap at that place not run since the last look? */
static bool sleeps(size_t number) {
  uint64_t thread = users_thread(number);
  uint64_t spent = thread != 0 ? os_thread_spent_ns(os_thread_half(thread)) : 0;
  if (spent == 0) return false;
  uint32_t before = spent_at[number];
  spent_at[number] = (uint32_t)spent | 1;
  return before == spent_at[number];
}

void sleepers_look(void) {
  static size_t next;
  static uint32_t began;
  uint64_t me = os_thread();
  size_t n = 0;
  if (next == 0 && os_ms_between(began, os_now_ms()) < SLEEP_MS) return;
  if (!HEAPS_CAN_BE_TAKEN || !begin_taking(me)) return;
  if (next == 0) began = os_now_ms();
  for (size_t i = 0; i < SLEEPER_LOOKS && next < pool_size() && n < TOGETHER; i++, next++)
    if (sleeps(next)) n += choose_sleeper(&sleepers[n], next, me);
  if (next >= pool_size()) next = 0;
  if (n != 0) take_first(n);
  end_taking();
}
