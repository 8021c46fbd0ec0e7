/* sleepers.c - what the heaps of sleeping threads keep, taken without their help      layer 6: heap
 * Contract: sleepers.h.
 *
 * A thread's fast paths set a mark, and then read words of its heap and its slabs. A thread that
 * closes these words can find out whether a call had passed them already. The fast paths have no
 * fences; two fences for all threads, made by the system, take their place:
 *   1. The taker sets the heap's flag. After a fence it looks at `busy`, and whether the heap is
 *      still that thread's own. From here on the thread's slow calls leave the heap alone and use
 *      its next one, as a handler's do. Nobody else can get the heap.
 *   2. The taker closes the words: no bin has a block, no list has room, the heap owns no slab and
 *      has no chain. After a fence no new fast call gets past them. An earlier one that did has
 *      left its mark, or has ended. If it has ended, a bin or a list is no longer closed.
 * If there is no mark and all is closed, what the heap keeps belongs to the taker. The taker moves
 * it to a heap of its own and ends that one, like a dead thread's.
 *
 * If the heap is in use, the taker opens it again, and what its thread has changed meanwhile stays.
 * A fast free looks at a list's room, and then changes it with one instruction. It may read the
 * room closed, and store it after the room is open again. So after a third fence the taker opens
 * once more what is closed.
 *
 * Sync:    S-taken  the thread leaves its call -> the fence -> the taker looks for its mark.
 *
 * All of it is relaxed. The fences order what a thread reads of others, and within a thread x86-64
 * keeps the order of stores and of loads. On other processors no heap is taken. */
#include "sleepers.h"

#include "../arena/places.h"
#include "../stock/stock.h"
#include "here.h"

enum {
  TOGETHER = 16,        /* heaps that share their fences */
  SLEEPER_LOOKS = 1024, /* places that one look checks */
  SLEEP_MS = 10000,     /* between two looks at a heap */
  IDLE_BITS = 15,       /* what a heap's `idle` holds */
};

typedef struct {
  heap_t *heap; /* NULL: the taker has let go of it */
  heap_t *to;   /* if it is closed: the heap that receives what it keeps */
  size_t number;
  uint64_t word;     /* its place's in users.c, when it was chosen */
  const void *marks; /* likewise */
  held_t held;       /* when moved: what it holds, and what was moved before */
} sleeper_t;

static sleeper_t sleepers[TOGETHER];
/* 1: a thread is taking; of this process if users.c says so, else of a parent's. relaxed: only that
 * thread writes it, or its successor */
static atomic32_t is_taking;

/* ---- one heap -------------------------------------------------------------------------------- */

static unsigned fresh_of(const heap_aside_t *a, unsigned c) {
  return c < MEDIUM_CLASS ? 0
                          : fresh_unpack(atomic64_load_relaxed(&a->fresh[c - MEDIUM_CLASS])).count;
}

/* Anybody may have the heap by now. Its fields are there in any case, if only as zeros. */
static bool keeps_anything(const heap_t *h) {
  const heap_own_t *own = (heap_own_t *)plain_load_relaxed((const uintptr_t *)&h->own);
  const heap_aside_t *aside = (heap_aside_t *)plain_load_relaxed((const uintptr_t *)&h->aside);
  if (own == NULL || aside == NULL) return false;
  if (h->put_off != 0 || h->singles + h->run_slices + h->keeps_pages != 0) return true;
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) { /* Bound: the classes */
    bool has_fresh = fresh_of(aside, c) != 0;
    if (has_fresh || h->bin[c] != 0 || own->slabs[c] != 0 || returned_count(h, c) != 0) return true;
  }
  return false;
}

static bool choose_sleeper(sleeper_t *s, size_t number, uint64_t me) {
  uint64_t word = users_word(number), thread = users_thread(number);
  const void *marks = users_marks(number);
  bool is_claimed;
  heap_t *h = thread != 0 && thread != me && marks != NULL ? pool_at(number, &is_claimed) : NULL;
  if (h == NULL || heap_is_taken(h) || !keeps_anything(h)) return false;
  if (!os_thread_is_asleep(os_thread_half(thread))) return false; /* we would only disturb it */
  *s = (sleeper_t){h, NULL, number, word, marks, {0, 0}};
  signal_fence();
  atomic8_store_relaxed(&h->is_taken, TAKEN_CHOSEN);
  return true;
}

/* If the heap says so, its thread has ended meanwhile, and left the heap to the taker. */
static void let_go_of(sleeper_t *s) {
  heap_t *h = s->heap;
  if (h == NULL) return;
  signal_fence();
  uint8_t taken = atomic8_load_relaxed(&h->is_taken);
  /* Progress: its thread asked for its bytes, or has ended */
  while (taken != TAKEN_LEFT && !atomic8_cas_relaxed(&h->is_taken, &taken, TAKEN_NOT)) continue;
  if (taken == TAKEN_LEFT) {
    users_begin(s->number);
    atomic8_store_relaxed(&h->is_taken, TAKEN_NOT);
  }
  signal_fence();
  s->heap = NULL; /* only now: a child of fork opens the heaps noted here */
  if (taken != TAKEN_LEFT) return;
  owned_recount(h);
  heap_end_another(h);
}

/* Reads what its thread knows of it. False: unknown, or the heap is not the thread's own. The words
 * lie in the thread's own storage, which may be gone. */
static bool read_here(const sleeper_t *s, const heap_t *h, heap_here_t *here) {
  return os_copy(here, s->marks, sizeof *here) && atomic_ptr_load_relaxed(&here->heap) == h &&
         here->is_closed == 0;
}

/* No slow call of its thread is under way, and the thread still has it. */
static bool is_left_alone(const sleeper_t *s, const heap_t *h) {
  heap_here_t here;
  bool is_alone = plain8_load_relaxed(&h->busy) == 0 && users_word(s->number) == s->word &&
                  users_marks(s->number) == s->marks && read_here(s, h, &here);
  signal_fence();
  return is_alone;
}
static bool is_in_fast_call(const sleeper_t *s, const heap_t *h) {
  heap_here_t here;
  bool is_inside = !read_here(s, h, &here) || here.limit == 0 || here.window == 0;
  signal_fence();
  return is_inside;
}

static void set_owners(slab_t *first, void *owner) {
  for (slab_t *s = first; s != NULL; s = s->next) /* Bound: owned slabs */
    atomic_ptr_store_relaxed(&s->owner, owner);
}

/* Closes or opens the words. What its thread has changed since stays. */
static void set_words(heap_t *h, bool is_open) {
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) { /* Bound: the classes */
    uintptr_t first = plain_load_relaxed(&h->bin[c]);
    uint16_t room = plain16_load_relaxed(&h->returned_room[c]);
    uintptr_t bin = is_open ? first & ~BIN_CLOSED : first | BIN_CLOSED;
    unsigned most = is_open ? room & ~ROOM_CLOSED : room | ROOM_CLOSED;
    if (first != 0 && bin != first) plain_cas_relaxed(&h->bin[c], first, bin);
    if (room != 0 && most != room) plain16_cas_relaxed(&h->returned_room[c], room, (uint16_t)most);
    set_owners(owned_first(h, c), is_open ? (void *)h : SLAB_CLOSED);
  }
  outbox_set_closed(h, !is_open);
}

/* Are all words closed? */
static bool are_closed(const heap_t *h) {
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) { /* Bound: the classes */
    if (heap_bin_has_block(plain_load_relaxed(&h->bin[c]))) return false;
    if (heap_list_has_room(plain16_load_relaxed(&h->returned_room[c]))) return false;
  }
  return true;
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* From here on its thread does not read its lists, not even to add up their bytes. False: the
 * thread is about to, or has ended. */
static bool begin_to_move(sleeper_t *s, heap_t *h) {
  uint8_t chosen = TAKEN_CHOSEN, moving = (uint8_t)(TAKEN_MOVING + (s - sleepers));
  s->held = held_in_all(h);
  return atomic8_cas_relaxed(&h->is_taken, &chosen, moving);
}

static void count_idle(heap_t *h, const slab_t *first, int sign) {
  for (const slab_t *s = first; s != NULL; s = s->next) /* Bound: owned slabs */
    if (s->idleness == SLAB_IDLE) h->idle = (unsigned)(h->idle + sign) & IDLE_BITS;
}

/* Clears the old heap before it fills the new one. A child of fork made before all is moved loses
 * what already was. */
static void move_class(heap_t *h, heap_t *to, unsigned c) {
  uintptr_t bin = h->bin[c] & ~BIN_CLOSED, returned = h->aside->returned[c];
  uint16_t most = h->returned_most[c], room = h->returned_room[c] & (uint16_t)~ROOM_CLOSED;
  uint32_t slabs = h->own->slabs[c];
  uint8_t count = h->own->slab_count[c];
  fresh_t fresh = heap_fresh(h, c);
  h->bin[c] = h->aside->returned[c] = h->own->slabs[c] = 0;
  h->returned_most[c] = h->returned_room[c] = h->own->slab_count[c] = 0;
  if (fresh.count != 0) heap_set_fresh(h, c, (fresh_t){0});
  count_idle(h, slab_numbered(slabs), -1);
  set_owners(slab_numbered(slabs), to);
  signal_fence();
  heap_note_class(to, c);
  to->bin[c] = bin;
  to->aside->returned[c] = returned;
  to->returned_most[c] = most;
  to->returned_room[c] = room;
  to->own->slabs[c] = slabs;
  to->own->slab_count[c] = count;
  if (fresh.count != 0) heap_set_fresh(to, c, fresh);
  if (unlikely(sample_was_started())) sample_move_bin(to, h, c);
}

/* The heap that receives it keeps nothing yet. */
static void move_all(sleeper_t *s, heap_t *h) {
  heap_t *to = s->to;
  /* Bound: the classes, here and below */
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) move_class(h, to, c);
  outbox_move(to, h);
  returned_move(to, h);
  magazine_move(to, h);
  held_set_moved(h, s->held);
  let_go_of(s);
  for (unsigned c = 0; (c = heap_next_class(to, c)) != 0;) /* Bound: the classes */
    count_idle(to, owned_first(to, c), 1);
}

/* ---- several heaps --------------------------------------------------------------------------- */

/* An empty heap, marked busy so that others leave it alone if we stop halfway. */
static heap_t *claim_empty(void) {
  heap_t *to = pool_claim();
  if (to == NULL) return NULL;
  to->busy = 1;
  users_begin(heap_number(to));
  held_add(to);
  heap_empty(to); /* it may have rested */
  return to;
}

/* The old heap's thread may go on before all of this has gone back. */
static void end_moved(sleeper_t *s) {
  heap_t *to = s->to;
  if (to == NULL) return;
  s->to = NULL;
  heap_end_another(to);
}

static bool chosen_is_valid(const sleeper_t *s) {
  HOLDS(V2, s->heap == NULL || heap_is_taken(s->heap));
  HOLDS(V3, s->to == NULL || s->to->busy != 0);
  return true;
}

/* Does each step for all of the first `n`, and then a fence. */
static void take_first(size_t n) {
  bool is_any_open = false, is_fenced = os_fence_threads(); /* S-taken */
  for (sleeper_t *s = sleepers; s < sleepers + n; s++) {
    heap_t *h = s->heap;
    if (h != NULL && is_fenced && is_left_alone(s, h)) s->to = claim_empty();
    if (s->to != NULL) set_words(h, false);
    else let_go_of(s);
  }
  is_fenced = is_fenced && os_fence_threads(); /* S-taken */
  for (sleeper_t *s = sleepers; s < sleepers + n; s++) {
    heap_t *h = s->heap;
    ASSERT_VALID(chosen_is_valid(s));
    if (h == NULL) continue;
    if (is_fenced && !is_in_fast_call(s, h) && are_closed(h) && begin_to_move(s, h)) {
      move_all(s, h);
      continue;
    }
    set_words(h, true);
    is_any_open = true;
  }
  if (is_any_open) os_fence_threads(); /* S-taken */
  for (sleeper_t *s = sleepers; s < sleepers + n; s++) {
    heap_t *h = s->heap;
    ASSERT_VALID(chosen_is_valid(s));
    if (h != NULL) set_words(h, true);
    let_go_of(s);
  }
  for (sleeper_t *s = sleepers; s < sleepers + n; s++) end_moved(s);
}

/* ---- in a child of fork ---------------------------------------------------------------------- */

/* The fork interrupted a move: the heap's counts are not what it has. */
static void recount(heap_t *h) {
  h->idle = 0;
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) { /* Bound: the classes, and below */
    size_t returned = 0;
    h->own->slab_count[c] = 0;
    count_idle(h, owned_first(h, c), 1);
    for (const slab_t *s = owned_first(h, c); s != NULL; s = s->next) /* Bound: owned slabs */
      h->own->slab_count[c]++;
    /* Bound: by H5 */
    for (uintptr_t b = h->aside->returned[c]; b != 0; b = block_next(b)) returned++;
    h->returned_room[c] = (uint16_t)(h->returned_most[c] - min_size(returned, h->returned_most[c]));
  }
  magazine_recount(h);
}

/* A heap that was moved whole, or left by its thread, is found like a heap of the parent's, unless
 * it was being ended. If a heap was being moved, the rest stays in it. */
static out_of_line void adopt(sleeper_t *s) {
  heap_t *h = s->heap;
  if (h == NULL && s->to != NULL) {
    recount(s->to);
    s->to->busy = 0;
    users_leave_behind(heap_number(s->to), USERS_PARENTS);
  }
  s->to = NULL;
  if (h == NULL) return;
  uint8_t taken = atomic8_load_relaxed(&h->is_taken);
  set_words(h, true);
  if (taken >= TAKEN_LEFT) recount(h);
  if (taken >= TAKEN_MOVING) held_set_moved(h, held_less(s->held, heap_held(h)));
  if (taken == TAKEN_LEFT) h->busy = 0;
  atomic8_store_relaxed(&h->is_taken, TAKEN_NOT);
  s->heap = NULL;
  if (taken == TAKEN_LEFT)
    users_leave_behind(s->number, USERS_PARENTS); /* last: others find it then */
}

/* ---- one at a time --------------------------------------------------------------------------- */

typedef struct {
  uint64_t me, signals;
} taking_t;

static void let_others_take(void) {
  atomic32_store_relaxed(&is_taking, 0);
  signal_fence();
  users_end_taking();
}

/* Heaps found then are a parent's, whose thread does not exist in this process. */
static bool take_alone(void) {
  if (!users_begin_taking()) return false;
  if (atomic32_load_relaxed(&is_taking) != 0)
    for (sleeper_t *s = sleepers; s < sleepers + TOGETHER; s++) adopt(s);
  atomic32_store_relaxed(&is_taking, 1);
  return true;
}

/* No signal from others can make the taker jump away or fork in the middle. */
static bool begin_taking(taking_t *t) {
  if (!HEAPS_CAN_BE_TAKEN || !users_are_known() || users_are_taking()) return false;
  t->me = os_thread();
  t->signals = os_hold_signals();
  bool is_alone = t->me != 0 && take_alone();
  if (is_alone && os_fence_threads()) return true;
  if (is_alone) let_others_take();
  return os_release_signals(t->signals), false;
}

static void end_taking(taking_t *t) {
  signal_fence();
  let_others_take();
  os_release_signals(t->signals);
}

void sleepers_end_parents(void) {
  bool is_parents = atomic32_load_relaxed(&is_taking) != 0 && !users_are_taking();
  if (!HEAPS_CAN_BE_TAKEN || !is_parents) return;
  uint64_t signals = os_hold_signals();
  if (take_alone()) let_others_take();
  os_release_signals(signals);
}

/* Has the thread of the heap at that place not run since the last look? Only for the background
 * thread, which notes each thread's processor time, with the lowest bit set. */
static out_of_line bool has_not_run(size_t number) {
  static uint32_t *spent_at;
  uint64_t thread = users_thread(number);
  uint64_t spent = thread != 0 ? os_thread_spent_ns(os_thread_half(thread)) : 0;
  if (spent_at == NULL) spent_at = os_map(PLACES_CHUNKS * PLACES_IN_CHUNK * sizeof *spent_at);
  if (spent == 0 || spent_at == NULL) return false;
  uint32_t before = spent_at[number];
  spent_at[number] = (uint32_t)spent | 1;
  return before == spent_at[number];
}

/* Takes from the places from `first` to before `end`. */
static void take_between(size_t first, size_t end, uint64_t me, bool only_if_not_run) {
  size_t n = 0;
  for (size_t number = first; number < end && number < pool_size(); number++) {
    if (!only_if_not_run || has_not_run(number)) n += choose_sleeper(&sleepers[n], number, me);
    if (n < TOGETHER) continue;
    take_first(n);
    n = 0;
  }
  if (n != 0) take_first(n);
}

void sleepers_take_all(void) {
  taking_t t;
  if (!begin_taking(&t)) return;
  take_between(0, SIZE_MAX, t.me, false);
  end_taking(&t);
}

void sleepers_look(void) {
  static size_t next;
  static uint32_t ended; /* the last round */
  taking_t t;
  if (next == 0 && os_ms_between(ended, os_now_ms()) < SLEEP_MS) return;
  if (!begin_taking(&t)) return;
  take_between(next, next + SLEEPER_LOOKS, t.me, true);
  next = next + SLEEPER_LOOKS < pool_size() ? next + SLEEPER_LOOKS : 0;
  if (next == 0) ended = os_now_ms();
  end_taking(&t);
}

/* ---- for the thread whose heap it is --------------------------------------------------------- */

held_t sleepers_held(heap_t *h) {
  uint8_t taken = atomic8_load_relaxed(&h->is_taken);
  for (;;) { /* Progress: another round means that the taker has moved on */
    if (taken == TAKEN_CHOSEN && !atomic8_cas_relaxed(&h->is_taken, &taken, TAKEN_REFUSED))
      continue;
    if (taken < TAKEN_MOVING) return held_in_all(h);
    held_t held = sleepers[taken - TAKEN_MOVING].held;
    signal_fence();
    uint8_t before = taken;
    taken = atomic8_load_relaxed(&h->is_taken);
    if (taken == before) return held;
  }
}

/* The taker ends it: nobody must find it by its word, nor by way of it its stand-in. */
bool sleepers_leave(heap_t *h) {
  if (likely(!heap_is_taken(h))) return false;
  held_t held = sleepers_held(h);
  uint8_t taken = atomic8_load_relaxed(&h->is_taken);
  users_leave(heap_number(h));
  atomic_ptr_store_relaxed(&h->nested, NULL);
  signal_fence();
  while (taken != TAKEN_NOT) { /* Progress: the taker has moved on */
    if (!atomic8_cas_relaxed(&h->is_taken, &taken, TAKEN_LEFT)) continue;
    held_take_off(held);
    return true;
  }
  return false;
}
