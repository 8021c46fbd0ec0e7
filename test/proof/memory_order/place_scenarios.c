/* place_scenarios.c - places.c, pool.c and callstack.c: numbered places, heaps that one thread
 * after another uses, and call stacks that threads enter at once */
#include "../../../src/arena/places.h"
#include "../../../src/stock/pool.h"
#include "../../../src/stock/users.h"
#include "../../../src/support/callstack.h"
#include "checker.h"
#include "system.h"

static places_t places;
typedef struct {
  uint64_t number, uses;
} record_t;

static void before(void) { system_restart(); }

/* The first chunk of heaps is there; of their words only places.c's own decide anything. */
static void heaps_before(void) {
  system_restart();
  heap_t *h = pool_claim();
  checker_keep_together(h, PLACES_IN_CHUNK * sizeof *h);
  pool_release(h);
}

static void claim_place(unsigned me) {
  static const places_shape_t shape = {sizeof(record_t), PLACES_IN_CHUNK * sizeof(record_t), NULL};
  (void)me;
  uint32_t number;
  record_t *r = places_claim(&places, &shape, &number);
  EXPECT(r != NULL);
  EXPECT(r->uses == 0 || r->number == number);
  r->number = number;
  r->uses++;
  places_release(&places, number);
}
static void claim_place_twice(unsigned me) {
  claim_place(me);
  if (me == 0) claim_place(me);
}
static void every_place_is_free(void) {
  for (size_t i = 0; i < places_size(&places) / PLACES_IN_CHUNK; i++)
    EXPECT(atomic64_load_relaxed(&places.free[i]) == ~(uint64_t)0);
}

static void use_heap(unsigned me) {
  heap_t *h = me == 0 ? pool_claim() : pool_claim_lane();
  EXPECT(h != NULL);
  EXPECT(heap_tag(h) == NULL);
  atomic_ptr_store_relaxed(&h->tag, h);
  h->trim_class = (uint8_t)me;
  heap_note_class(h, 1);
  atomic16_store_relaxed(&h->binned[1], (uint16_t)(heap_binned(h, 1) + 1));
  pool_release(h);
}
static void heaps_after(void) {
  bool is_claimed;
  EXPECT(atomic64_load_relaxed(&heap_counts.binned[1]) == 3);
  for (size_t i = 0; i < pool_size(); i++) {
    heap_t *h = pool_at(i, &is_claimed);
    EXPECT(h == NULL || !is_claimed);
  }
}
static void look_at_places(unsigned me) {
  static const places_shape_t shape = {sizeof(record_t), PLACES_IN_CHUNK * sizeof(record_t), NULL};
  bool is_claimed;
  if (me != 2) return claim_place(me);
  for (size_t i = 0; i < places_size(&places); i += PLACES_IN_CHUNK) {
    /* nobody uses this one */
    record_t *r = places_at(&places, &shape, i + PLACES_IN_CHUNK - 1, &is_claimed);
    if (r != NULL) EXPECT(r->uses == 0);
  }
}

/* The stacks of the first two threads are the same. */
enum { CODE = 0x400000 };
static void enter_stack(unsigned me) {
  uintptr_t stack[] = {CODE, CODE + me / 2};
  const uintptr_t *frames;
  EXPECT(callstack_start());
  uint32_t n = callstack_intern(stack, 2);
  EXPECT(n != CALLSTACK_UNKNOWN && callstack_at(n, &frames) != NULL);
  EXPECT(frames[0] == stack[0] && frames[1] == stack[1]);
}
static void look_at_stacks(unsigned me) {
  if (me != 2) return enter_stack(me);
  for (uint32_t n = CALLSTACK_UNKNOWN + 1; n < callstack_count(); n++) {
    const uintptr_t *frames;
    const callstack_t *s = callstack_at(n, &frames);
    EXPECT(s == NULL || (callstack_length(s) == 2 && frames[0] == CODE));
  }
}
static void start_sampling(unsigned me) {
  const uintptr_t *frames;
  if (me == 0) EXPECT(sample_start(1));
  else if (sample_was_started()) EXPECT(callstack_at(CALLSTACK_UNKNOWN, &frames) != NULL);
}
static void sampling_was_started(void) { EXPECT(sample_was_started()); }
static void stacks_are_whole(void) {
  look_at_stacks(2);
  EXPECT(callstack_unknown() == 0);
}
static void users_before(void) {
  system_restart();
  system_has_users = true;
}
static void make_words_of_users(unsigned me) {
  if (me != 2) users_make();
  EXPECT(!users_have_strays()); /* nobody has forked */
}
static void users_are_found(void) { EXPECT(users_are_known()); }

const scenario_t place_scenarios[] = {
  {"places: threads add the first chunk at once", 3, 0, before, claim_place, every_place_is_free},
  {"places: a place is used again", 2, 0, before, claim_place_twice, every_place_is_free},
  {"places: a heap is given back and claimed again", 3, 0, heaps_before, use_heap, heaps_after},
  {"places: places are looked at while they are made", 3, 0, before, look_at_places,
   every_place_is_free},
  {"places: threads enter call stacks at once", 3, 0, before, enter_stack, stacks_are_whole},
  {"places: call stacks are looked at while they are entered", 3, 0, before, look_at_stacks,
   stacks_are_whole},
  {"places: sampling is started while another thread asks", 2, 0, before, start_sampling,
   sampling_was_started},
  {"places: words for users are made while another thread asks", 3, 0, users_before,
   make_words_of_users, users_are_found},
  {NULL, 0, 0, NULL, NULL, NULL}};
