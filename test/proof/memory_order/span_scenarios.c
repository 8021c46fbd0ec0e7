/* span_scenarios.c - span.c: pages that are claimed and given back, spans that begin and end
 *
 * Runs are as long as they may be, so that one length of free runs is looked for. What a thread has
 * it writes to. In the end each span is found by way of its hints, and all come back. */
#include "../../../src/arena/purge.h"
#include "../../../src/base/check.h"
#include "../../../src/slab/span.h"
#include "checker.h"
#include "system.h"

enum { LONG = SPAN_MOST, SHORT = 10, HELD = 6 };

static void *held[HELD];
static slab_t *span;

static void write_to(void *p) {
  uint64_t *words = p;
  words[0] = words[1] = 0x5555555555555555;
}

static void release(slab_t *ended) {
  if (ended == NULL) return;
  write_to((void *)slab_base(ended));
  ended->inverse = 0; /* a plain word of the descriptor */
  arena_release_dirty((void *)slab_base(ended), SPAN_SLICES);
}

static void put(void *p) {
  if (p == NULL) return;
  write_to(p);
  release(span_free(span_part(p, span_end_block(p, "a scenario"))));
}

static void claim_and_put(unsigned n) {
  void *p = span_claim(n, 0);
  if (p == NULL) return;
  EXPECT(span_pages(p, "a scenario") == n);
  put(p);
}

static void *begin(unsigned n) {
  bool clean;
  void *base = arena_claim(SPAN_SLICES, SPAN_SLICES, &clean);
  EXPECT(base != NULL);
  write_to((char *)base + SPAN_SIZE / 2); /* by whoever had the slices before */
  span = slab_of(base);
  return span_begin(base, clean, n);
}

static void begin_with(unsigned first, unsigned second) {
  arena_t *a = (arena_t *)((uintptr_t)4096 << WINDOW_SHIFT);
  system_restart();
  checker_keep_together(&a->low_word, sizeof a->low_word);
  checker_keep_together(arena_maps(a), offsetof(arena_maps_t, roomy));
  memset(held, 0, sizeof held);
  held[0] = begin(first);
  if (second != 0) held[1] = span_claim(second, 0);
}

static void settle(void) {
  if (slab_word(span) == SLAB_IS_SPAN) EXPECT(span_is_valid(span));
  for (unsigned i = 0; i < HELD; i++) put(held[i]);
  EXPECT(atomic64_load_relaxed(&span->pages) == 0);
  EXPECT(atomic64_load_relaxed(&arena_counts.committed) == 0);
}

/* Half of the span is free, or none. */
static void one_before(void) { begin_with(LONG, 0); }
static void two_before(void) { begin_with(LONG, LONG); }

static void put_held(unsigned me) {
  void *p = held[me];
  held[me] = NULL;
  put(p);
}

static void claim_thread(unsigned me) {
  (void)me;
  claim_and_put(LONG);
}

static void end_thread(unsigned me) {
  if (me == 2) claim_and_put(LONG);
  else put_held(me);
}

/* A search through hints that lead nowhere, while pages come back below them. */
static void search_thread(unsigned me) {
  if (me == 0) put_held(0);
  else held[2] = span_claim(LONG, 0);
}
static void searched(void) {
  if (held[2] == NULL) held[2] = span_claim(LONG, 0);
  EXPECT(held[2] != NULL);
  settle();
}

/* The longest free run becomes longer and shorter. */
static void levels_before(void) {
  begin_with(LONG, SHORT);
  held[2] = span_claim(SHORT, 0);
}
static void levels_thread(unsigned me) { put_held(me + 1); }

/* It is as long again as before, and the way to it was never quite away. */
static void again_before(void) { begin_with(SPAN_MOST - SHORT, LONG); }
static void again_thread(unsigned me) {
  if (me == 0) put_held(1);
  else held[2] = span_claim(LONG, 0);
}
enum { LITTLE = SPAN_LEAST, GROWS = LONG - LITTLE };
static void grow_again_before(void) {
  begin_with(LITTLE, GROWS);
  held[2] = span_claim(SPAN_MOST - SHORT, 0);
}
static void grow_again_thread(unsigned me) {
  if (me == 0) put_held(1);
  else if (span_resize(held[0], LONG)) write_to((char *)held[0] + LITTLE * SPAN_PAGE);
}

/* A hint for it is left from the last time that its slices were a span. */
static void begin_before(void) {
  begin_with(LONG, LONG);
  put_held(0), put_held(1);
  hint_set(arena_maps(arena_of(span))->roomy[SPAN_LEVELS - 1],
           arena_slice((void *)slab_base(span)) / SPAN_SLICES);
}
static void begin_thread(unsigned me) {
  if (me == 0) held[2] = begin(LONG);
  else claim_and_put(LONG);
}

static void rest_thread(unsigned me) {
  arena_t *a = arena_of(span);
  if (me == 0) claim_and_put(LONG);
  else span_purge(a, arena_slice((void *)slab_base(span)) / 64, true);
}
static void rest_before(void) {
  two_before();
  put_held(1);
}
/* Most of what is free was never written. */
static void rest_little_before(void) {
  begin_with(LITTLE, SHORT);
  put_held(1);
}
static void rest_little_thread(unsigned me) {
  if (me == 0) claim_and_put(SHORT);
  else rest_thread(me);
}

/* One that is freed takes what is free beside it out of memory. */
static void put_to_system(unsigned me) {
  put_held(me);
  span_purge_near(span, 1);
}
static void to_system_thread(unsigned me) {
  if (me == 0) claim_and_put(SHORT);
  else put_to_system(0);
}

/* Its neighbour is half free, too. */
static slab_t *neighbour;
static void near_before(void) {
  one_before();
  neighbour = span;
  held[1] = begin(LONG);
}
static void near_thread(unsigned me) {
  if (me == 0) claim_and_put(LONG);
  else span_purge_near(neighbour, 1);
}

/* What comes free makes a run of eleven out of six that nobody has touched. It goes to the system,
 * and meanwhile the six are claimed: the longest is one of eight, as it was in the beginning. */
static void rest_again_before(void) {
  begin_with(27, 5);
  held[2] = span_claim(8, 0), held[3] = span_claim(5, 0);
  void *six = span_claim(6, 0);
  held[4] = span_claim(5, 0);
  span_forget_block(six);
  span_free(span_part(six, 6));
}
static void rest_again_thread(unsigned me) {
  if (me == 1) return rest_thread(me);
  put_held(3);
  held[5] = span_claim(6, 0);
}
static void to_system_again_thread(unsigned me) {
  if (me == 0) rest_again_thread(me);
  else put_to_system(1);
}

static void grow_before(void) { begin_with(SHORT, LONG); }
static void grow_thread(unsigned me) {
  if (me == 1) put_held(1);
  else if (span_resize(held[0], SHORT + 5)) write_to((char *)held[0] + SHORT * SPAN_PAGE);
}

/* A heap claims what the next blocks will need, from pages that come back or that another wants. */
static void behind_thread(unsigned me) {
  if (me == 1 && held[1] != NULL) return put_held(1);
  if (me == 1) return claim_and_put(LONG);
  unsigned runs = span_claim_behind(held[0], SHORT, 2);
  for (unsigned i = 0; i < runs; i++) {
    held[2 + i] = (char *)held[0] + (size_t)(i + 1) * SHORT * SPAN_PAGE;
    span_renew_block(held[2 + i]);
    write_to(held[2 + i]);
  }
}
static void behind_before(void) { begin_with(SHORT, 0); }

const scenario_t span_scenarios[] = {
  {"span: pages that one gives back another writes to", 2, 0, one_before, claim_thread, settle},
  {"span: three threads claim the same pages", 3, 0, one_before, claim_thread, settle},
  {"span: whoever gives the last pages back has the slices", 2, 0, two_before, end_thread, settle},
  {"span: its end, and a third that claims pages", 3, 0, two_before, end_thread, settle},
  {"span: a search clears hints above pages that come back", 2, 0, two_before, search_thread,
   searched},
  {"span: two change its longest free run", 2, 0, levels_before, levels_thread, settle},
  {"span: a claim makes its longest free run what it was", 2, 0, again_before, again_thread,
   settle},
  {"span: so does a block that grows", 2, 0, grow_again_before, grow_again_thread, settle},
  {"span: one that begins is found", 2, 0, begin_before, begin_thread, settle},
  {"span: its free pages go while another claims some", 2, 0, rest_before, rest_thread, settle},
  {"span: a few of its free pages go", 2, 0, rest_little_before, rest_little_thread, settle},
  {"span: one that is freed takes free pages along while another claims some", 2, 0,
   rest_little_before, to_system_thread, settle},
  {"span: its neighbour's free pages go with its own while another claims some", 2, 0, near_before,
   near_thread, settle},
  {"span: pages go while its longest free run becomes what it was", 2, 0, rest_again_before,
   rest_again_thread, settle},
  {"span: so do pages beside one that is freed", 2, 0, rest_again_before, to_system_again_thread,
   settle},
  {"span: a block grows into pages that come back", 2, 0, grow_before, grow_thread, settle},
  {"span: runs behind a block are claimed as they come back", 2, 0, grow_before, behind_thread,
   settle},
  {"span: runs behind a block are claimed while another claims some", 2, 0, behind_before,
   behind_thread, settle},
  {NULL, 0, 0, NULL, NULL, NULL}};
