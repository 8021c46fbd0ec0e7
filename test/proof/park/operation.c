/* operation.c - what the subject is stopped in: operations that every allocator has
 *
 * An operation calls the allocator and does nothing else: what it gets it leaves in `got`, and what
 * it frees is no longer held. `prepare` makes the situation; `finish` holds what was got. */
#include "park.h"

#include <string.h>
#include <sys/resource.h>

enum { GIVEN_SMALL = 60, GIVEN_MIDDLE = 24, GIVEN_BIG = 5 };

void *got[8];

/* Blocks of the subject's slabs, all of which the others free. */
void operation_give_blocks(void) {
  for (int i = 0; i < GIVEN_SMALL; i++) give(get(48));
  for (int i = 0; i < GIVEN_MIDDLE; i++) give(get(1700));
  for (int i = 0; i < GIVEN_BIG; i++) give(get(14000));
}

static bool is_memory_spent;
void spend_memory(bool is_spent) {
  is_memory_spent = is_spent;
  if (!api.option_set("memory_limit", is_spent ? 1 : 0)) park_fail("no limit");
}
void limit_memory(bool is_limited) {
  struct rlimit limit = {is_limited ? 0 : RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) park_fail("setrlimit");
  if (is_memory_spent && !is_limited) spend_memory(false);
}

/* Blocks that the operation gets: `size` bytes each. */
static size_t got_size;
static void hold_got(void) {
  for (size_t i = 0; i < COUNT_OF(got) && got[i] != NULL; i++) hold(got[i], got_size);
}

/* ---- malloc ---------------------------------------------------------------------------------- */

/* So many that the allocator has got used to the size; half of them are free again. */
static void warm(size_t size) {
  void *p[40];
  got_size = size;
  for (size_t i = 0; i < COUNT_OF(p); i++) p[i] = get(size);
  for (size_t i = 0; i < COUNT_OF(p); i += 2) put(p[i]);
}

static void warm_small(void) { warm(100); }
static void malloc_small(void) { got[0] = api.malloc(100); }
static void warm_medium(void) { warm(1000); }
static void malloc_medium(void) { got[0] = api.malloc(1000); }

static void first_of_class(void) { got_size = 720; }
static void malloc_first(void) { got[0] = api.malloc(720); }

static void warm_burst(void) { warm(3000); }
static void malloc_burst(void) {
  for (size_t i = 0; i < COUNT_OF(got); i++) got[i] = api.malloc(3000);
}

static void large(void) { got_size = KIB(100); }
static void malloc_large(void) { got[0] = api.malloc(KIB(100)); }
static void many_slices(void) { got_size = MIB(5); }
static void malloc_many_slices(void) { got[0] = api.malloc(MIB(5)); }
static void huge(void) { got_size = huge_size(); }
static void malloc_huge(void) { got[0] = api.malloc(huge_size()); }
static void malloc_nothing(void) { got[0] = api.malloc(0); }
static void nothing(void) { got_size = 0; }
static void small(void) { got_size = 100; }
static void malloc_too_much(void) { got[0] = api.malloc(PTRDIFF_MAX); }

static void calloc_small(void) { got[0] = api.calloc(10, 10); }
static void calloc_large(void) { got[0] = api.calloc(KIB(10), 10); }

static void aligned(void) { got_size = 256; }
static void aligned_small(void) { got[0] = api.aligned_alloc(256, 256); }
static void aligned_nothing(void) { api.free(api.aligned_alloc(256, 0)); }
static void aligned_far(void) { got_size = KIB(256); }
static void aligned_large(void) { got[0] = api.aligned_alloc(KIB(256), KIB(256)); }

/* ---- free ------------------------------------------------------------------------------------ */

/* got[0] is the subject's to free, no longer held. */
static void make_own(size_t size) {
  void *p = get(size);
  got[0] = get(size);
  give(p);
  release(got[0]);
}
static void own_small(void) {
  warm(100);
  make_own(100);
}
static void own_medium(void) {
  warm(3000);
  make_own(3000);
}
static void own_large(void) { make_own(KIB(100)); }
static void own_huge(void) { make_own(huge_size()); }
static void free_it(void) {
  api.free(got[0]);
  got[0] = NULL;
}
static void free_null(void) { api.free(NULL); }

static struct {
  void **volatile blocks;
  volatile size_t next, end;
} turn;

void free_in_turn(void **blocks, size_t n) {
  turn.blocks = blocks;
  turn.end = n;
  for (turn.next = 0; turn.next < n;) api.free(blocks[turn.next++]);
}

void free_rest_of_turn(void) {
  while (turn.next < turn.end) api.free(turn.blocks[turn.next++]);
}

enum { OTHERS = 64 };
static void *of_others[OTHERS];
static size_t others_size;
static void allocate_others(void) {
  for (size_t i = 0; i < OTHERS; i++) of_others[i] = get(others_size);
}
static void make_others(size_t size, size_t to_free) {
  others_size = size;
  in_helper(allocate_others);
  for (size_t i = 0; i < to_free; i++) release(of_others[i]);
  warm(size);
}
static void other_small(void) { make_others(200, 1); }
static void others_small(void) { make_others(200, 16); }
static void others_medium(void) { make_others(2048, 16); }
static void free_of_other(void) { api.free(of_others[0]); }
static void free_of_others(void) { free_in_turn(of_others, 16); }

/* ---- realloc --------------------------------------------------------------------------------- */

static unsigned char before[64];
static size_t moved_from, moved_to;

static void make_resized(size_t from, size_t to) {
  got[0] = get(from);
  moved_from = from;
  moved_to = to;
  memcpy(before, got[0], from < sizeof before ? from : sizeof before);
  release(got[0]);
}
static void resize_it(void) { got[0] = api.realloc(got[0], moved_to); }
static void hold_resized(void) {
  size_t kept = moved_from < moved_to ? moved_from : moved_to;
  if (memcmp(got[0], before, kept < sizeof before ? kept : sizeof before) != 0)
    park_fail("realloc from %zu to %zu bytes lost the contents", moved_from, moved_to);
  hold(got[0], moved_to);
}
static void small_in_place(void) { make_resized(100, 110); }
/* A free tells the thread where its blocks lie. */
static void small_in_place_at_once(void) {
  put(get(100));
  small_in_place();
}
static void small_to_small(void) { make_resized(100, 800); }
static void small_to_large(void) { make_resized(2000, KIB(80)); }
static void large_to_small(void) { make_resized(KIB(80), 2000); }
static void large_up(void) { make_resized(KIB(80), KIB(200)); }
static void large_down(void) { make_resized(KIB(300), KIB(80)); }
static void large_blocked(void) {
  make_resized(KIB(100), KIB(300));
  give(get(KIB(100)));
}
static void huge_up(void) { make_resized(huge_size(), huge_size() + MIB(4)); }
static void huge_down(void) { make_resized(huge_size() + MIB(8), huge_size() - MIB(4)); }
static void huge_far(void) { make_resized(huge_size(), MIB(1400)); }
static void realloc_null(void) { got[0] = api.realloc(NULL, 100); }
static void realloc_to_nothing(void) { got[0] = api.realloc(got[0], 0); }
/* Some give a block of no bytes. */
static void hold_nothing(void) {
  if (got[0] == NULL) return;
  if (library_is_freehold()) park_fail("realloc to no bytes returns a block");
  hold(got[0], 0);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Everything that a thread can leave behind: slabs full, half full and empty, frees
 * of others' blocks. */
static void use_much(void) {
  void *p[40];
  make_others(200, 10);
  for (size_t i = 0; i < 10; i++) api.free(of_others[i]);
  for (size_t i = 0; i < COUNT_OF(p); i++) p[i] = get(500 + 50 * (i % 4));
  for (size_t i = 0; i < COUNT_OF(p); i++)
    if (i % 4 != 0) put(p[i]);
  for (size_t i = 0; i < 8; i++) p[i] = get(12000);
  for (size_t i = 0; i < 8; i++) put(p[i]);
}

const operation_t portable_operations[] = {
  {"malloc-hit", malloc_small, warm_small, hold_got, NULL, QUICK},
  {"malloc-medium-hit", malloc_medium, warm_medium, hold_got, NULL, 0},
  {"malloc-first", malloc_first, first_of_class, hold_got, NULL, QUICK},
  {"malloc-burst", malloc_burst, warm_burst, hold_got, NULL, 0},
  {"malloc-large", malloc_large, large, hold_got, NULL, QUICK},
  {"malloc-many-slices", malloc_many_slices, many_slices, hold_got, NULL, 0},
  {"malloc-huge", malloc_huge, huge, hold_got, NULL, 0},
  {"malloc-nothing", malloc_nothing, nothing, hold_got, NULL, 0},
  {"malloc-too-much", malloc_too_much, nothing, NULL, NULL, 0},
  {"calloc", calloc_small, warm_small, hold_got, NULL, CALLOCS},
  {"calloc-large", calloc_large, large, hold_got, NULL, CALLOCS},
  {"aligned", aligned_small, aligned, hold_got, NULL, ALIGNS},
  {"aligned-empty", aligned_nothing, NULL, NULL, NULL, ALIGNS},
  {"aligned-large", aligned_large, aligned_far, hold_got, NULL, ALIGNS},
  {"free-hit", free_it, own_small, NULL, NULL, QUICK},
  {"free-medium", free_it, own_medium, NULL, NULL, 0},
  {"free-large", free_it, own_large, NULL, NULL, 0},
  {"free-huge", free_it, own_huge, NULL, NULL, 0},
  {"free-null", free_null, NULL, NULL, NULL, 0},
  {"free-of-other", free_of_other, other_small, NULL, NULL, QUICK},
  {"free-of-others", free_of_others, others_small, NULL, NULL, 0},
  {"free-of-others-medium", free_of_others, others_medium, NULL, NULL, 0},
  {"realloc-in-place", resize_it, small_in_place, hold_resized, NULL, MOVES | REALLOCS},
  {"realloc-in-place-at-once", resize_it, small_in_place_at_once, hold_resized, NULL,
   MOVES | QUICK | REALLOCS},
  {"realloc-small", resize_it, small_to_small, hold_resized, NULL, MOVES | REALLOCS},
  {"realloc-small-to-large", resize_it, small_to_large, hold_resized, NULL, MOVES | REALLOCS},
  {"realloc-large-to-small", resize_it, large_to_small, hold_resized, NULL, MOVES | REALLOCS},
  {"realloc-large-up", resize_it, large_up, hold_resized, NULL, MOVES | REALLOCS},
  {"realloc-large-down", resize_it, large_down, hold_resized, NULL, MOVES | REALLOCS},
  {"realloc-large-blocked", resize_it, large_blocked, hold_resized, NULL, MOVES | REALLOCS},
  {"realloc-huge-up", resize_it, huge_up, hold_resized, NULL, MOVES | REALLOCS},
  {"realloc-huge-down", resize_it, huge_down, hold_resized, NULL, MOVES | REALLOCS},
  {"realloc-huge-far", resize_it, huge_far, hold_resized, NULL, MOVES | REALLOCS},
  {"realloc-null", realloc_null, warm_small, hold_got, NULL, MOVES | REALLOCS},
  {"realloc-to-nothing", realloc_to_nothing, own_small, hold_nothing, NULL,
   MOVES | QUICK | REALLOCS},
  {"first-use-in-thread", malloc_small, small, hold_got, NULL, IS_BARE},
  {"thread-exit", NULL, use_much, NULL, NULL, 0},
};
const size_t portable_operation_count = COUNT_OF(portable_operations);
