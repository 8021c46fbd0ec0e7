/* visit_test.c - tests of heap/visit */
#include "heaps.h"

#include <sys/mman.h>

#include "../../src/arena/places.h"
#include "../../src/heap/visit.h"

enum { MANY = 3000 };
static struct {
  char *p;
  bool is_live;
  int seen;
} block[MANY];
static size_t visited, strange;

static bool note(void *p, size_t size, void *context) {
  (void)context;
  visited++;
  CHECK_GT(size, 0u);
  for (int i = 0; i < MANY; i++)
    if (block[i].p == p) {
      CHECK(block[i].is_live);
      block[i].seen++;
      return true;
    }
  strange++;
  return true;
}

TEST(visit, each_live_block_is_visited_once_and_no_free_one, "") {
  uint64_t state = 3;
  for (int i = 0; i < MANY; i++) {
    size_t size = i % 100 == 0 ? 100000 : i == 77 ? HUGE_LEAST : 10 + core_next(&state) % 3000;
    block[i].p = fast_malloc(size);
    memset(block[i].p, 0xAB, 10);
    block[i].is_live = true;
  }
  for (int i = 0; i < MANY; i++)
    if (core_next(&state) % 2) {
      fast_free(block[i].p);
      block[i].is_live = false;
    }
  CHECK(heap_visit(&(visitor_t){.blocks = note}));
  for (int i = 0; i < MANY; i++) CHECK_EQ(block[i].seen, block[i].is_live);
  CHECK_EQ(strange, 0u);
}

static bool stop_at_five(void *p, size_t size, void *context) {
  (void)p, (void)size;
  return ++*(int *)context < 5;
}
static bool refuse_slabs(slab_t *s, uint32_t word, void *context) {
  CHECK_EQ(word, slab_word(s));
  ++*(int *)context;
  return false;
}

TEST(visit, a_visitor_that_has_seen_enough_ends_the_visit, "") {
  int count = 0, slabs = 0;
  for (int i = 0; i < 100; i++) fast_malloc(100);
  CHECK(!heap_visit(&(visitor_t){.blocks = stop_at_five, .context = &count}));
  CHECK_EQ(count, 5);
  CHECK(!visit_slabs(refuse_slabs, &slabs));
  CHECK_EQ(slabs, 1);
}

static bool count_blocks(void *p, size_t size, void *context) {
  (void)p, (void)size;
  ++*(int *)context;
  return true;
}

/* docs/concurrency.md: the one race that is left. */
TEST(visit, a_live_block_is_shown_whatever_its_holder_writes_there_except_its_own_key, "") {
  uint64_t *p = fast_malloc(64), key = block_key((uintptr_t)p);
  const uint64_t words[] = {0, (uintptr_t)p, BLOCK_KEY, key ^ 1, key << 32, key >> 32 << 32, key};
  for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
    int count = 0;
    p[1] = words[i];
    CHECK(heap_visit(&(visitor_t){.blocks = count_blocks, .context = &count}));
    CHECK_EQ(count, words[i] != key);
  }
}

TEST(visit, the_blocks_of_a_first_class_heap_can_be_visited_alone, "F1") {
  fh_heap_t *heap = firstclass_new();
  int count = 0;
  for (int i = 0; i < 300; i++) fast_malloc(64);
  for (int i = 0; i < 70; i++) firstclass_aligned(heap, 1, i % 10 == 0 ? 90000 : 64);
  firstclass_aligned(heap, 1, HUGE_LEAST);
  CHECK(firstclass_visit(heap, &(visitor_t){.blocks = count_blocks, .context = &count}));
  CHECK_EQ(count, 71);
}

TEST(visit, an_allocator_that_was_never_used_has_nothing_to_visit, "") {
  int count = 0;
  CHECK(heap_visit(&(visitor_t){.blocks = count_blocks, .context = &count}));
  CHECK_EQ(count, 0);
}

/* ---- frees that were put off ----------------------------------------------------------------- */

enum { PUT_OFF = 99 };
static void *freed[PUT_OFF];

static void allocate_to_be_freed(void *context) {
  (void)context;
  for (int i = 0; i < PUT_OFF; i++) freed[i] = fast_malloc(100);
}
static bool is_not_freed(void *p, size_t size, void *context) {
  (void)size, (void)context;
  for (int i = 0; i < PUT_OFF; i++) CHECK(p != freed[i]);
  return true;
}

TEST(visit, no_block_is_shown_that_the_visitor_itself_has_freed, "") {
  in_thread(allocate_to_be_freed, NULL, false);
  for (int i = 0; i < PUT_OFF; i++) fast_free(freed[i]);
  CHECK(heap_visit(&(visitor_t){.blocks = is_not_freed}));
}

static size_t all_blocks;
static bool count_block(void *p, size_t size, void *context) {
  (void)p, (void)size, (void)context;
  all_blocks++;
  return true;
}

TEST(visit, descriptors_of_slices_that_are_all_free_are_not_looked_at, "") {
  enum { SLICES_EACH = 4096, FREED = 3 };
  void *freed_ones[FREED], *small = fast_malloc(100);
  for (int i = 0; i < FREED; i++) freed_ones[i] = fast_malloc(SLICES_EACH * SLICE_SIZE);
  void *last = fast_malloc(100000);
  for (int i = 0; i < FREED; i++) fast_free(freed_ones[i]);
  heap_collect(true);
  /* whole words of slices, and whole pages of descriptors */
  char *from = (char *)arena_of(small) + 4096 * DESCRIPTOR_SIZE;
  size_t size = 2 * SLICES_EACH * DESCRIPTOR_SIZE;
  CHECK_EQ(mprotect(from, size, PROT_NONE), 0);
  CHECK(heap_visit(&(visitor_t){.blocks = count_block}));
  CHECK_EQ(mprotect(from, size, PROT_READ | PROT_WRITE), 0);
  CHECK_EQ(all_blocks, 2u);
  fast_free(small);
  fast_free(last);
}

TEST(visit, no_heap_is_looked_at_for_the_blocks_that_it_borrowed, "") {
  enum { HEAPS = 3 * PLACES_IN_CHUNK };
  size_t number = PLACES_IN_CHUNK, size = PLACES_IN_CHUNK * (sizeof(heap_t) + sizeof(heap_aside_t));
  bool is_claimed;
  int count = 0;
  fast_malloc(4000);
  for (int i = 0; i < HEAPS; i++) CHECK(pool_claim() != NULL);
  CHECK_EQ(mprotect(pool_at(number, &is_claimed), size, PROT_NONE), 0);
  CHECK(heap_visit(&(visitor_t){.blocks = count_blocks, .context = &count}));
  CHECK_EQ(mprotect(pool_at(number, &is_claimed), size, PROT_READ | PROT_WRITE), 0);
  CHECK_EQ(count, 1);
}

/* ---- while a slice is used for one thing after another --------------------------------------- */

enum { SLICES = 4, SMALLER = 256, ENOUGH = 20000000 };
static char *slices[SLICES];
static atomic32_t is_over;

/* A slice as a slab of blocks that are all in use. */
static slab_t *use_for_blocks(char *slice, size_t size) {
  unsigned count;
  slab_t *s = slab_new(slice, class_of(size), NULL, NULL);
  for (uintptr_t b = slab_take_list(s, s->capacity, &count); b != 0; b = block_next(b))
    block_set_live(b);
  return s;
}

static void use_for_this_and_that(void) {
  for (unsigned i = 0; !atomic32_load_relaxed(&is_over); i++) {
    slab_retire(use_for_blocks(slices[i % SLICES], SMALL_MOST));
    slab_t *s = use_for_blocks(slices[i % SLICES], SMALLER);
    slab_retire(s);
    atomic64_store_relaxed(&s->size, SLICE_SIZE);
    atomic32_store_relaxed(&s->kind, SLAB_IS_LARGE);
    atomic32_store_relaxed(&s->kind, 0);
  }
}

static bool lies_in_its_slice(void *p, size_t size, void *context) {
  size_t offset = (uintptr_t)p % SLICE_SIZE;
  ++*(size_t *)context;
  if (size == SLICE_SIZE) CHECK_EQ(offset, 0u);
  else CHECK(size == SMALLER || size == SMALL_MOST);
  CHECK_EQ(offset % size, 0u);
  CHECK_LE(offset + size, SLICE_SIZE);
  return true;
}

static void visit_or_use(unsigned number) {
  size_t seen = 0;
  if (number != 0) return use_for_this_and_that();
  while (seen < ENOUGH)
    CHECK(heap_visit(&(visitor_t){.blocks = lies_in_its_slice, .context = &seen}));
  atomic32_store_relaxed(&is_over, 1);
}

/* A class that is read twice shows here, if two processors are free. */
TEST(visit, of_a_slice_that_becomes_another_slab_meanwhile_only_blocks_inside_it_are_shown, "") {
  bool clean;
  for (int i = 0; i < SLICES; i++) slices[i] = arena_claim(1, 1, &clean);
  core_threads(2, visit_or_use);
}

/* ---- while memory goes ----------------------------------------------------------------------- */

enum { GROUP = 64 };
static char *group; /* of slices, all of which are slabs */
static size_t shown_there;

static void make_group(void) {
  bool clean;
  char *p = arena_claim(2 * GROUP, 1, &clean);
  group = arena_address(arena_of(p), align_up(arena_slice(p), GROUP));
  for (size_t i = 0; i < GROUP; i++) use_for_blocks(group + i * SLICE_SIZE, SMALLER);
}
static void release_group(void) {
  for (size_t i = 0; i < GROUP; i++) slab_release(slab_of(group + i * SLICE_SIZE));
}
static void give_group_back(void *context) {
  release_group();
  CHECK_EQ(arena_unmap_free(), context != NULL);
}
static bool give_back_what_is_shown(void *p, size_t size, void *context) {
  (void)size;
  CHECK((char *)p >= group && (char *)p < group + GROUP * SLICE_SIZE);
  if (shown_there++ == 3) in_thread(give_group_back, context, false);
  return true;
}

TEST(visit, what_another_thread_gives_back_and_unmaps_meanwhile_is_not_read, "S-read") {
  make_group();
  CHECK(heap_visit(&(visitor_t){.blocks = give_back_what_is_shown, .context = group}));
  CHECK_GE(shown_there, 4u);
  CHECK_LE(shown_there, 64u);
  CHECK(!os_fake_is_mapped(group, SLICE_SIZE));
}

TEST(visit, memory_is_not_unmapped_while_somebody_reads_there, "S-read") {
  make_group();
  arena_read_begin(group + 5 * SLICE_SIZE);
  give_group_back(NULL);
  CHECK(os_fake_is_mapped(group, GROUP * SLICE_SIZE));
  arena_read_end(group + 5 * SLICE_SIZE);
  CHECK(arena_unmap_free());
  CHECK(!os_fake_is_mapped(group, SLICE_SIZE));
}

TEST(visit, a_block_where_somebody_reads_is_copied_and_leaves_no_hole, "S-read") {
  char *p = fast_malloc(8 * MiB(1)), *wall = fast_malloc(SLICE_SIZE);
  memset(p, 7, MiB(8));
  arena_read_begin(p + MiB(5));
  char *q = any_realloc(p, MiB(80), "t");
  arena_read_end(p + MiB(5));
  CHECK(q != NULL && q != p && wall != NULL);
  CHECK_BYTES(q, 7, MiB(8));
  CHECK_EQ(os_fake.calls[OS_FAKE_MOVE], 0u);
  char *r = any_realloc(q, MiB(200), "t");
  CHECK(r != NULL && os_fake.calls[OS_FAKE_MOVE] == 1);
}

/* As it looks to a visitor that was held up after it had read the class. */
TEST(visit, of_a_slab_no_more_blocks_are_shown_than_it_has_room_for, "I2") {
  bool clean;
  size_t seen = 0;
  char *slice = arena_claim(1, 1, &clean);
  slab_t *s = use_for_blocks(slice, SMALL_MOST);
  atomic32_store_relaxed(&s->carved, class_info[class_of(SMALLER)].capacity);
  CHECK(heap_visit(&(visitor_t){.blocks = lies_in_its_slice, .context = &seen}));
  CHECK_EQ(seen, (size_t)s->capacity);
}

/* ---- visitors that take their time ----------------------------------------------------------- */

enum { SHOWN_AT_ONCE = 64 };
static heap_t *next_owner;
static size_t shown;

/* Meanwhile another thread frees the slab's blocks. The slice goes back to the system, and is a
 * slab of the same class again, of which one block was used; or it is somebody else's. */
static bool reuse_slice(void *p, size_t size, void *context) {
  unsigned count;
  char *slice = context;
  CHECK(size == SMALLER && (char *)p > slice && (char *)p < slice + SLICE_SIZE);
  if (shown++ != 0) return true;
  slab_retire(slab_of(slice));
  memset(slice, 0, SLICE_SIZE);
  if (next_owner != NULL) {
    atomic_ptr_store_relaxed(&use_for_blocks(slice, SMALLER)->owner, next_owner);
  } else {
    slab_t *s = slab_new(slice, class_of(SMALLER), NULL, NULL);
    block_set_live(slab_take_some(s, 1, &count));
  }
  return true;
}

TEST(visit, a_visitor_that_takes_its_time_is_shown_no_block_that_nobody_has_had_since, "") {
  bool clean;
  char *slice = arena_claim(1, 1, &clean);
  use_for_blocks(slice, SMALLER);
  CHECK(heap_visit(&(visitor_t){.blocks = reuse_slice, .context = slice}));
  CHECK_LE(shown, (size_t)SHOWN_AT_ONCE);
}

TEST(visit, nor_is_the_visitor_of_a_heap_shown_what_has_become_anothers, "F1") {
  bool clean;
  char *slice = arena_claim(1, 1, &clean);
  heap_t *lane = pool_claim();
  next_owner = pool_claim();
  atomic_ptr_store_relaxed(&use_for_blocks(slice, SMALLER)->owner, lane);
  CHECK(heap_visit_lane(lane, false, &(visitor_t){.blocks = reuse_slice, .context = slice}));
  CHECK_LE(shown, (size_t)SHOWN_AT_ONCE);
}
