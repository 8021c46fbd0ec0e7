/* api_test.c - everything that freehold.h declares; linked with the library */
#include "entry.h"

#include <freehold/freehold.h>
#include <setjmp.h>
#include <sys/time.h>

static const size_t sizes[] = {0,    1,     16,    24,    100,    512,    513,
                               5000, 16384, 16385, 65536, 200000, 3000000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

TEST(version, number_and_text_agree_with_the_header, "") {
  CHECK_EQ(fh_version(), FH_VERSION_MAJOR * 10000 + FH_VERSION_MINOR * 100 + FH_VERSION_PATCH);
  char text[64];
  snprintf(text, sizeof text, "%d.%d.%d", FH_VERSION_MAJOR, FH_VERSION_MINOR, FH_VERSION_PATCH);
  const char *version = fh_version_string();
  CHECK(strncmp(version, text, strlen(text)) == 0);
  const char *grade = version + strlen(text);
  CHECK(grade[0] == '\0' || strcmp(grade, "-debug") == 0 || strcmp(grade, "-secure") == 0);
}

/* Each of its blocks has a trailer of 8 bytes, and each thread holds back some that it freed. */
static bool is_secure(void) { return strstr(fh_version_string(), "-secure") != NULL; }

/* ---- the family ------------------------------------------------------------------------------ */

TEST(family, prefixed_names_mix_with_the_standard_ones, "") {
  for (int i = 0; i < SIZES; i++) {
    size_t n = launder_size(sizes[i]);
    free(fh_malloc(n));
    fh_free(malloc(n));
    free(fh_calloc(1, n));
    void *p = fh_realloc(malloc(n), n + 1);
    CHECK(p != NULL);
    p = realloc(p, n + 100);
    p = fh_reallocarray(p, 2, n + 100);
    CHECK_GE(fh_usable_size(p), 2 * (n + 100));
    CHECK_EQ(fh_usable_size(p), malloc_usable_size(p));
    fh_free(p);
    fh_free_sized(fh_malloc(n), n);
    fh_free_aligned_sized(fh_aligned_alloc(64, n), 64, n);
    CHECK_EQ(fh_posix_memalign(&p, 4096, n), 0);
    CHECK_EQ((uintptr_t)p % 4096, 0u);
    fh_free(p);
  }
  fh_free(NULL);
  CHECK_EQ(fh_usable_size(NULL), 0u);
}

TEST(family, failures_are_the_standard_ones, "") {
  size_t n = launder_size((size_t)PTRDIFF_MAX + 1);
  errno = 0;
  CHECK_NULL(fh_malloc(n));
  CHECK_EQ(errno, ENOMEM);
  errno = 0;
  CHECK_NULL(fh_calloc(n, 2));
  CHECK_EQ(errno, ENOMEM);
  errno = 0;
  CHECK_NULL(fh_malloc_at_least(n, NULL));
  CHECK_EQ(errno, ENOMEM);
  errno = 0;
  CHECK_NULL(fh_aligned_alloc(launder_size(24), 100));
  CHECK_EQ(errno, EINVAL);
  void *p = &p;
  errno = 7;
  CHECK_EQ(fh_posix_memalign(&p, launder_size(3), 10), EINVAL);
  CHECK(p == &p && errno == 7);
}

TEST(size, at_least_tells_what_is_really_there, "") {
  for (size_t n = 0; n < 300000; n = n < 2000 ? n + 1 : n + 997) {
    size_t actual = 12345;
    char *p = (char *)fh_malloc_at_least(n, &actual);
    CHECK(p != NULL);
    CHECK_GE(actual, n);
    CHECK_EQ(actual, fh_usable_size(p));
    CHECK_EQ(actual, fh_good_size(n));
    memset(p, 1, actual);
    if (n % 2 == 0) fh_free_sized(p, actual);
    else fh_free(p);
  }
  fh_free(fh_malloc_at_least(100, NULL));
}

TEST(size, good_size_says_what_a_request_would_get, "") {
  for (int i = 0; i < SIZES; i++) {
    void *p = fh_malloc(launder_size(sizes[i]));
    CHECK_EQ(fh_good_size(sizes[i]), fh_usable_size(p));
    fh_free(p);
  }
  CHECK_EQ(fh_good_size(SIZE_MAX), SIZE_MAX);
  CHECK_EQ(fh_good_size((size_t)PTRDIFF_MAX + 1), (size_t)PTRDIFF_MAX + 1);
  for (size_t n = 1, last = 0; n < MiB_(3); n += n / 7 + 1) {
    CHECK_GE(fh_good_size(n), last); /* grows with the request, and is its own good size */
    CHECK_EQ(fh_good_size(fh_good_size(n)), last = fh_good_size(n));
  }
}

TEST(size, a_block_expands_to_less_than_it_has, "") {
  for (size_t size = 100; size < MiB_(200); size *= 10)
    for (size_t less = 0; less < 2; less++) {
      char *p = (char *)fh_malloc(size);
      CHECK(fh_expand(p, less));
      fh_free(p);
    }
}

TEST(size, expand_keeps_the_block_where_it_lies, "") {
  unsigned grown = 0;
  for (int i = 0; i < SIZES; i++) {
    char *p = (char *)fh_malloc(launder_size(sizes[i]));
    size_t usable = fh_usable_size(p);
    memset(p, 0x42, usable);
    CHECK(fh_expand(p, usable));
    CHECK(fh_expand(p, sizes[i]));
    CHECK_GE(fh_usable_size(p), sizes[i]);
    CHECK(!fh_expand(p, launder_size((size_t)PTRDIFF_MAX + 1)));
    CHECK(!fh_expand(p, launder_size(SIZE_MAX)));
    CHECK_BYTES(p, 0x42, sizes[i]);
    usable = fh_usable_size(p);
    if (fh_expand(p, usable + 1)) {
      grown++;
      CHECK_GE(fh_usable_size(p), usable + 1);
      memset(p, 0x43, fh_usable_size(p));
    } else {
      CHECK_EQ(fh_usable_size(p), usable);
    }
    fh_free(p);
  }
  char *p = (char *)fh_malloc(launder_size(MiB_(20)));
  CHECK(fh_expand(p, launder_size(100000)));
  memset(p, 1, 100000);
  fh_free(p);
}

TEST(owns, only_our_own_memory, "") {
  int on_stack = 0;
  static int in_data = 1;
  CHECK(!fh_owns(NULL));
  CHECK(!fh_owns(&on_stack));
  CHECK(!fh_owns(&in_data));
  CHECK(!fh_owns((void *)(uintptr_t)&fh_version));
  CHECK(!fh_owns((void *)0xFFFFFFFFFFFFF000u));
  CHECK(!fh_owns((void *)((uintptr_t)1 << 63)));
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(!fh_owns(page));
  for (int i = 0; i < SIZES; i++) {
    void *p = fh_malloc(launder_size(sizes[i]));
    CHECK(fh_owns(p));
    fh_free(p);
  }
}

/* ---- heaps ----------------------------------------------------------------------------------- */

static void *fill_heap(fh_heap_t *heap, size_t k) {
  size_t n = sizes[k % SIZES];
  switch (k % 4) {
    case 0: return fh_heap_malloc(heap, n);
    case 1: return fh_heap_calloc(heap, 1, n);
    case 2: return fh_heap_aligned_alloc(heap, 128, n);
    default: return fh_heap_realloc(heap, fh_heap_malloc(heap, 10), n + 1);
  }
}

TEST(heap, blocks_outlive_a_deleted_heap, "") {
  for (int round = 0; round < 20; round++) {
    enum { N = 200 };
    void *p[N];
    fh_heap_t *heap = fh_heap_new();
    CHECK(heap != NULL);
    for (size_t i = 0; i < N; i++) {
      CHECK((p[i] = fill_heap(heap, i)) != NULL);
      stamp(p[i], sizes[i % SIZES], i);
    }
    for (size_t i = 0; i < N; i += 3) fh_free(p[i]);
    fh_heap_delete(heap);
    for (size_t i = 0; i < N; i++) {
      if (i % 3 == 0) continue;
      CHECK(fh_owns(p[i]) && is_stamped(p[i], sizes[i % SIZES], i));
      if (i % 3 == 1) p[i] = fh_realloc(p[i], sizes[i % SIZES] + 500);
      fh_free(p[i]);
    }
  }
}

/* ---- the default heap of a thread ---- */

static void *others_block;
static void *body_plain(void *argument) {
  (void)argument;
  others_block = malloc(launder_size(100));
  return NULL;
}

TEST(heap, a_thread_may_choose_one_from_which_all_its_calls_take, "") {
  fh_heap_t *heap = fh_heap_new(), *second = fh_heap_new();
  void *before = malloc(launder_size(100)), *p[8];
  CHECK_NULL(fh_heap_set_default(heap));
  p[0] = malloc(launder_size(100));
  p[1] = calloc(1, launder_size(1000));
  p[2] = aligned_alloc(64, launder_size(128));
  p[3] = realloc(NULL, launder_size(300000));
  p[4] = realloc(before, launder_size(5000)); /* it leaves the thread's own */
  p[5] = strdup("a text");
  CHECK_EQ(fh_malloc_batch(launder_size(48), 2, p + 6), 2u);
  for (int i = 0; i < 8; i++) CHECK_EQ((void *)fh_heap_of(p[i]), (void *)heap);
  CHECK_BYTES(p[1], 0, 1000);
  run_threads(1, body_plain);
  CHECK(fh_heap_of(others_block) == NULL);
  CHECK_EQ((void *)fh_heap_set_default(second), (void *)heap);
  for (int i = 0; i < 8; i++) free(p[i]);
  p[0] = malloc(launder_size(100));
  CHECK_EQ((void *)fh_heap_of(p[0]), (void *)second);
  CHECK_EQ((void *)fh_heap_set_default(NULL), (void *)second);
  CHECK_NULL(fh_heap_of(p[1] = malloc(launder_size(100))));
  free(p[1]);
  free(others_block);
  fh_heap_destroy(heap);
  fh_heap_destroy(second);
}

/* ---- areas ---- */

typedef struct {
  size_t areas, used, bytes, large;
  const char *block; /* lies in one of them */
  bool is_found;
} areas_t;

static bool add_area(const fh_area_t *area, void *context) {
  areas_t *sums = (areas_t *)context;
  const char *start = (const char *)area->start;
  CHECK(area->used * area->block_size <= area->size && area->block_size != 0);
  sums->areas++;
  sums->used += area->used;
  sums->bytes += area->used * area->block_size;
  sums->large += area->used == 1 && area->size >= 100000;
  sums->is_found |= sums->block >= start && sums->block < start + area->size;
  return sums->areas < 1000;
}

TEST(heap, its_areas_are_shown_and_where_each_block_lies, "") {
  fh_heap_t *heap = fh_heap_new();
  areas_t sums = {0, 0, 0, 0, NULL, false}, all = sums;
  for (int i = 0; i < 2000; i++) sums.block = (const char *)fh_heap_malloc(heap, launder_size(100));
  CHECK(fh_heap_malloc(heap, launder_size(100000)) != NULL);
  CHECK(fh_heap_malloc(heap, launder_size(MiB_(600))) != NULL);
  CHECK(fh_heap_visit_areas(heap, add_area, &sums));
  CHECK(sums.is_found);
  CHECK_EQ(sums.large, 2u);
  CHECK_GE(sums.areas, 4u);
  CHECK_LE(sums.areas, 10u);
  CHECK_GE(sums.used, 2002u);
  CHECK_GE(sums.bytes, 2000 * 100 + 100000 + MiB_(600));
  all.block = sums.block;
  CHECK(fh_heap_visit_areas(NULL, add_area, &all));
  CHECK(all.is_found && all.used >= sums.used);
  fh_heap_destroy(heap);
}

/* ---- memory that the program brings ---- */

static char *map_aligned(size_t size) {
  size_t all = size + ((size_t)1 << 30);
  char *p = (char *)mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(p != MAP_FAILED);
  char *at = (char *)(((uintptr_t)p + all - size) & ~(((uintptr_t)1 << 30) - 1));
  CHECK_EQ(mprotect(at, size, PROT_READ | PROT_WRITE), 0);
  return at;
}

TEST(arena, memory_that_the_program_brings_is_used_and_is_found_to_be_ours, "") {
  enum { SIZE = 64 << 20, N = 600 };
  char *at = map_aligned(SIZE), *p[N];
  fh_stats_t before = {0}, after = {0};
  before.struct_size = after.struct_size = sizeof before;
  CHECK(!fh_owns(at + SIZE / 2));
  CHECK(fh_stats_get(&before));
  size_t added = fh_arena_add(at, SIZE, FH_ARENA_ZERO);
  CHECK(added > SIZE - (3 << 20) && added < SIZE);
  CHECK(fh_owns(at + SIZE / 2) && !fh_owns(at + SIZE));
  int inside = 0;
  for (int i = 0; i < N; i++) {
    p[i] = (char *)malloc(launder_size(100000));
    stamp(p[i], 100000, (size_t)i);
    inside += p[i] >= at && p[i] < at + SIZE;
  }
  CHECK_GE(inside, 400);
  char *one = NULL; /* of those inside: its pages are to stay */
  for (int i = 0; i < N && one == NULL; i++)
    if (p[i] >= at && p[i] < at + SIZE) one = p[i];
  CHECK(fh_stats_get(&after));
  CHECK_GT(after.arenas, before.arenas);
  for (int i = 0; i < N; i++) CHECK(is_stamped(p[i], 100000, (size_t)i));
  for (int i = 0; i < N; i++) free(p[i]);
  fh_collect(true);
  unsigned char pages[16];
  CHECK_EQ(mincore(one, sizeof pages * 4096, pages), 0); /* it is there: it was not unmapped */
  for (size_t i = 0; i < sizeof pages; i++) CHECK_EQ(pages[i] & 1, 1);
}

TEST(arena, with_the_flag_its_free_pages_go_back, "") {
  enum { SIZE = 64 << 20, N = 500 };
  char *at = map_aligned(SIZE), *p[N];
  unsigned char pages[SIZE / 4096];
  size_t resident = 0;
  memset(at, 1, SIZE);
  CHECK_GT(fh_arena_add(at, SIZE, FH_ARENA_PURGE), 0u);
  for (int i = 0; i < N; i++) p[i] = (char *)memset(malloc(launder_size(100000)), 1, 100000);
  for (int i = 0; i < N; i++) free(p[i]);
  fh_collect(true);
  CHECK_EQ(mincore(at, SIZE, pages), 0);
  for (size_t i = 0; i < sizeof pages; i++) resident += pages[i] & 1;
  CHECK_LE(resident * 4096, 8u << 20);
}

TEST(arena, what_cannot_be_used_is_refused_and_says_why, "") {
  char *at = map_aligned(8 << 20);
  errno = 0;
  CHECK_EQ(fh_arena_add(at, 8 << 20, 4), 0u);
  CHECK_EQ(errno, EINVAL);
  errno = 0;
  CHECK_EQ(fh_arena_add(NULL, 8 << 20, 0), 0u);
  CHECK_EQ(errno, EINVAL);
  errno = 0;
  CHECK_EQ(fh_arena_add(at, SIZE_MAX - 100, 0), 0u);
  CHECK_EQ(errno, EINVAL);
  errno = 0;
  CHECK_EQ(fh_arena_add(at, 1 << 20, 0), 0u); /* all of it would be records */
  CHECK_EQ(errno, ENOMEM);
  CHECK(!fh_owns(at));
  errno = 0;
  CHECK_GT(fh_arena_add(at, 8 << 20, 0), 0u);
  CHECK_EQ(fh_arena_add(at, 8 << 20, 0), 0u); /* a second time */
  CHECK_EQ(errno, ENOMEM);
}

TEST(arena, the_programs_own_memory_beside_it_is_in_no_figure, "") {
  enum { OURS = 96 << 20, SIZE = 128 << 20 };
  char *at = map_aligned(SIZE);
  fh_stats_t before = {0}, after = {0};
  before.struct_size = after.struct_size = sizeof before;
  CHECK_EQ(munmap(at, 8 << 20), 0); /* where its records are to be */
  memset(at + (8 << 20), 1, OURS - (8 << 20));
  CHECK(fh_stats_get(&before));
  CHECK_GT(fh_arena_add(at + OURS, SIZE - OURS, FH_ARENA_ZERO), 0u);
  void *p = memset(malloc(launder_size(MiB_(4))), 1, MiB_(4));
  CHECK(fh_stats_get(&after));
  CHECK_GE(after.resident, before.resident + MiB_(4));
  CHECK_LE(after.resident, before.resident + MiB_(6));
  free(p);
  EXPECT_ABORT(free(at + MiB_(5) + 64), "invalid pointer"); /* where nothing is */
}

TEST(heap, destroy_frees_all_blocks_at_once, "") {
  size_t early = 0;
  for (int round = 0; round < 300; round++) {
    fh_heap_t *heap = fh_heap_new();
    CHECK(heap != NULL);
    for (size_t i = 0; i < 3000; i++) {
      void *p = fh_heap_malloc(heap, 16 + i % 700);
      CHECK(p != NULL);
      memset(p, 1, 16 + i % 700);
    }
    void *large = fh_heap_malloc(heap, 300000), *huge = fh_heap_malloc(heap, MiB_(600));
    CHECK(large != NULL && huge != NULL);
    memset(large, 1, 300000);
    fh_heap_destroy(heap);
    if (round == 20) early = resident_bytes();
  }
  CHECK_LE(resident_bytes(), early + MiB_(4)); /* 1.4 MB each round */
}

static fh_heap_t *common_heap;
static void *common_blocks[8][400];
static void *body_common_heap(void *argument) {
  void **mine = common_blocks[(uintptr_t)argument];
  for (size_t round = 0; round < 20; round++) {
    for (size_t i = 0; i < 400; i++) {
      fh_free(mine[i]);
      mine[i] = fh_heap_malloc(common_heap, 8 + (i * 7 + round) % 900);
      CHECK(mine[i] != NULL);
      stamp(mine[i], 8 + (i * 7 + round) % 900, i);
    }
    for (size_t i = 0; i < 400; i++) CHECK(is_stamped(mine[i], 8 + (i * 7 + round) % 900, i));
  }
  return NULL;
}
static void *body_free_common(void *argument) {
  uintptr_t other = ((uintptr_t)argument + 1) % 8;
  for (size_t i = 0; i < 400; i++) {
    CHECK(is_stamped(common_blocks[other][i], 8 + (i * 7 + 19) % 900, i));
    fh_free(common_blocks[other][i]);
    common_blocks[other][i] = NULL;
  }
  return NULL;
}

TEST(heap, any_thread_may_allocate_from_it_and_free_into_it, "") {
  for (int round = 0; round < 10; round++) {
    CHECK((common_heap = fh_heap_new()) != NULL);
    run_threads(8, body_common_heap);
    if (round % 2 == 0) run_threads(8, body_free_common);
    if (round % 3 == 0) {
      fh_heap_delete(common_heap);
      if (round % 2 != 0) run_threads(8, body_free_common);
    } else {
      fh_heap_destroy(common_heap);
      memset(common_blocks, 0, sizeof common_blocks);
    }
  }
}

TEST(heap, thousands_may_live_at_once, "") {
  enum { N = 2000 };
  static fh_heap_t *heaps[N];
  static void *p[N];
  for (size_t i = 0; i < N; i++) {
    CHECK((heaps[i] = fh_heap_new()) != NULL);
    CHECK((p[i] = fh_heap_malloc(heaps[i], 50)) != NULL);
    stamp(p[i], 50, i);
  }
  for (size_t i = 0; i < N; i++) {
    CHECK(is_stamped(p[i], 50, i));
    if (i % 2 == 0) fh_heap_destroy(heaps[i]);
    else fh_heap_delete(heaps[i]), fh_free(p[i]);
  }
}

TEST(heap, failures_of_its_family_are_the_standard_ones, "") {
  fh_heap_t *heap = fh_heap_new();
  size_t n = launder_size((size_t)PTRDIFF_MAX + 1);
  errno = 0;
  CHECK_NULL(fh_heap_malloc(heap, n));
  CHECK_EQ(errno, ENOMEM);
  errno = 0;
  CHECK_NULL(fh_heap_calloc(heap, n, 2));
  CHECK_EQ(errno, ENOMEM);
  void *p = fh_heap_malloc(heap, 100);
  stamp(p, 100, 4);
  errno = 0;
  CHECK_NULL(fh_heap_realloc(heap, p, n));
  CHECK_EQ(errno, ENOMEM);
  CHECK(is_stamped(p, 100, 4));
  CHECK_NULL(fh_heap_aligned_alloc(heap, launder_size(24), 100));
  void *moved = fh_heap_realloc(heap, malloc(50), 5000); /* a block from elsewhere moves in */
  CHECK(moved != NULL);
  fh_heap_destroy(heap);
}

/* Of sizes that are small, large, and such that realloc would rather move the pages. */
TEST(heaps, a_heap_has_a_name_a_quota_figures_and_its_blocks_lead_to_it, "") {
  fh_heap_options_t options = {.struct_size = sizeof options, .quota = MiB_(8), .name = "cache"};
  fh_heap_stats_t stats = {.struct_size = sizeof stats};
  fh_heap_t *heap = fh_heap_new_with(&options);
  CHECK(heap != NULL && fh_heap_stats_get(heap, &stats));
  CHECK_SAME_TEXT(stats.name, "cache");
  CHECK_EQ(stats.quota, (uint64_t)MiB_(8));
  void *p = fh_heap_malloc(heap, launder_size(MiB_(3)));
  errno = 0;
  CHECK_NULL(fh_heap_malloc(heap, launder_size(MiB_(6))));
  CHECK_EQ(errno, ENOMEM);
  CHECK_EQ((void *)fh_heap_of(p), (void *)heap);
  CHECK_NULL((void *)fh_heap_of(&p));
  CHECK_NULL((void *)fh_heap_of(NULL));
  fh_heap_set_quota(heap, 0);
  CHECK(fh_heap_malloc(heap, launder_size(MiB_(6))) != NULL);
  fh_heap_collect(heap);
  options.struct_size--;
  stats.struct_size++;
  CHECK(fh_heap_new_with(&options) == NULL && errno == EINVAL);
  CHECK(!fh_heap_stats_get(heap, &stats));
  fh_heap_destroy(heap);
}

/* The blocks of each thread are a list. */
enum { TAKERS = 8, HEAPS = 2 };
static fh_heap_t *quota_heaps[HEAPS];
static void *taken[TAKERS];
static void *body_take_all(void *number) {
  size_t i = (size_t)number;
  void **p;
  while ((p = fh_heap_malloc(quota_heaps[i % HEAPS], i % 3 == 0 ? 40000 : 700)) != NULL) {
    *p = taken[i];
    taken[i] = p;
  }
  CHECK_EQ(errno, ENOMEM);
  return NULL;
}

TEST(heaps, a_quota_holds_for_all_threads_together_and_for_that_heap_alone, "") {
  const size_t quota[HEAPS] = {MiB_(4), MiB_(8)};
  fh_heap_stats_t stats = {.struct_size = sizeof stats};
  for (size_t i = 0; i < HEAPS; i++) {
    fh_heap_options_t options = {.struct_size = sizeof options, .quota = quota[i]};
    CHECK((quota_heaps[i] = fh_heap_new_with(&options)) != NULL);
  }
  run_threads(TAKERS, body_take_all);
  for (size_t i = 0; i < HEAPS; i++) {
    CHECK(fh_heap_stats_get(quota_heaps[i], &stats));
    CHECK_GE(stats.slab_bytes + stats.large_bytes, (uint64_t)(quota[i] - MiB_(1)));
    CHECK_LE(stats.slab_bytes + stats.large_bytes, (uint64_t)(quota[i] + TAKERS * 65536));
  }
  for (size_t i = 0; i < TAKERS; i++)
    for (void *p = taken[i], *next; p != NULL; p = next) {
      next = *(void **)p;
      fh_free(p);
    }
  for (size_t i = 0; i < HEAPS; i++) {
    fh_heap_collect(quota_heaps[i]);
    CHECK(fh_heap_stats_get(quota_heaps[i], &stats));
    CHECK_EQ(stats.large_bytes, (uint64_t)0);
    CHECK_LE(stats.slab_bytes, (uint64_t)(TAKERS * 2 * 65536));
    CHECK(fh_heap_malloc(quota_heaps[i], launder_size(quota[i] / 2)) != NULL);
    fh_heap_destroy(quota_heaps[i]);
  }
}

TEST(heaps, a_block_that_moves_from_heap_to_heap_is_the_new_ones, "") {
  static const size_t sizes[] = {100, 5000, 100000, (size_t)1 << 20, (size_t)3 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    fh_heap_t *from = fh_heap_new(), *to = fh_heap_new();
    char *p = (char *)fh_heap_malloc(from, sizes[i]),
         *wall = (char *)fh_heap_malloc(from, sizes[i]);
    CHECK(p != NULL && wall != NULL);
    stamp(p, sizes[i], 5);
    char *q = (char *)fh_heap_realloc(to, p, 40 * sizes[i]);
    CHECK(q != NULL);
    if (q != p) fh_heap_destroy(from);
    CHECK(is_stamped(q, sizes[i], 5));
    fh_heap_destroy(to);
    if (q == p) fh_heap_destroy(from);
  }
}

/* ---- visiting -------------------------------------------------------------------------------- */

typedef struct {
  void **p;
  size_t *n;
  size_t count, seen, bytes, stop_at;
  bool twice;
} visit_t;
static bool visitor(void *block, size_t usable, void *context) {
  visit_t *v = (visit_t *)context;
  if (v->stop_at != 0 && v->seen + 1 >= v->stop_at) return v->seen++, false;
  for (size_t i = 0; i < v->count; i++) {
    if (v->p[i] != block) continue;
    if (v->n[i] == SIZE_MAX) v->twice = true;
    else if (usable >= v->n[i]) v->seen++;
    v->n[i] = SIZE_MAX;
    return true;
  }
  v->bytes += usable;
  return true;
}

TEST(visit, sees_each_live_block_of_a_heap_once_and_no_other, "") {
  enum { N = 700 };
  static void *p[N];
  static size_t n[N];
  fh_heap_t *heap = fh_heap_new();
  for (size_t i = 0; i < N; i++) {
    n[i] = i % 100 == 7 ? 200000 + i : i % 100 == 9 ? MiB_(33) : i * 9 % 3000;
    CHECK((p[i] = fh_heap_malloc(heap, n[i])) != NULL);
  }
  size_t live = 0;
  for (size_t i = 0; i < N; i++) {
    if (i % 3 == 0) fh_free(p[i]), p[i] = NULL;
    else live++;
  }
  visit_t v = {p, n, N, 0, 0, 0, false};
  CHECK(fh_heap_visit(heap, visitor, &v));
  CHECK_EQ(v.seen, live);
  CHECK_EQ(v.bytes, 0u); /* no block that is not one of ours */
  CHECK(!v.twice);
  visit_t stops = {p, n, 0, 0, 0, 1, false};
  CHECK(!fh_heap_visit(heap, visitor, &stops));
  CHECK_EQ(stops.seen, 1u);
  fh_heap_destroy(heap);
}

TEST(visit, of_the_whole_process_sees_blocks_of_every_thread, "") {
  enum { N = 300 };
  static void *p[N];
  static size_t n[N];
  for (size_t i = 0; i < N; i++) p[i] = malloc(n[i] = 500 + i);
  visit_t v = {p, n, N, 0, 0, 0, false};
  CHECK(fh_heap_visit(NULL, visitor, &v));
  CHECK_EQ(v.seen, (size_t)N);
  CHECK(!v.twice);
}

static int visiting_ends;
static void *body_churn(void *argument) {
  uint64_t state = (uintptr_t)argument + 5;
  void *p[100] = {NULL};
  while (!__atomic_load_n(&visiting_ends, __ATOMIC_ACQUIRE)) {
    size_t k = random_next(&state) % 100;
    free(p[k]);
    p[k] = malloc(random_size(&state));
  }
  for (int k = 0; k < 100; k++) free(p[k]);
  return NULL;
}
static bool counting_visitor(void *block, size_t usable, void *context) {
  *(size_t *)context += usable > 0 && block != NULL;
  return true;
}
TEST(visit, goes_on_while_other_threads_allocate, "") {
  pthread_t threads[3];
  for (uintptr_t i = 0; i < 3; i++) threads[i] = start_thread(body_churn, (void *)i, 0);
  size_t seen = 0;
  for (int i = 0; i < 100 || seen == 0; i++) /* until one of them has begun */
    CHECK(fh_heap_visit(NULL, counting_visitor, &seen));
  __atomic_store_n(&visiting_ends, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 3; i++) join_thread(threads[i]);
  CHECK_GT(seen, 0u);
}

/* ---- upkeep ---------------------------------------------------------------------------------- */

TEST(collect, with_force_gives_everything_idle_back, "") {
  enum { N = 40000 };
  static void *p[N];
  fh_collect(true);
  size_t early = resident_bytes();
  CHECK(fh_option_set("purge_delay_ms", -1));
  for (int i = 0; i < N; i++) memset(p[i] = malloc(launder_size(1500)), 1, 1500);
  for (int i = 0; i < N; i++) free(p[i]);
  fh_collect(false);
  fh_collect(true);
  /* code that ran for the first time counts too */
  CHECK_LE(resident_bytes(), early + MiB_(3) + (256 << 10));
}

TEST(collect, with_force_gives_pages_between_blocks_in_use_back, "") {
  enum { N = 500000, STEP = 1000 }; /* 32 MB */
  static char *p[N];
  fh_collect(true);
  size_t early = resident_bytes() + sizeof p;
  for (int i = 0; i < N; i++) memset(p[i] = malloc(launder_size(64)), i, 64);
  for (int i = 0; i < N; i++)
    if (i % STEP != 0) free(p[i]);
  fh_collect(true);
  CHECK_LE(resident_bytes(), early + MiB_(6));
  for (int i = 0; i < N; i += STEP) {
    CHECK_BYTES((unsigned char *)p[i], (unsigned char)i, 64);
    free(p[i]);
  }
}

/* Threads that have freed a few blocks of others and sleep. */
enum { SLEEPERS = 100, FREED = 48 };
static void *freed_by[SLEEPERS][FREED];
static pthread_barrier_t sleepers;
static void *free_and_sleep(void *number) {
  for (int i = 0; i < FREED; i++) free(freed_by[(size_t)number][i]);
  pthread_barrier_wait(&sleepers);
  pthread_barrier_wait(&sleepers);
  return NULL;
}
TEST(collect, what_sleeping_threads_have_freed_is_not_theirs, "threads") {
  pthread_t thread[SLEEPERS];
  pthread_barrier_init(&sleepers, NULL, SLEEPERS + 1);
  for (int i = 0; i < FREED; i++)
    for (int t = 0; t < SLEEPERS; t++) memset(freed_by[t][i] = malloc(launder_size(4000)), 1, 4000);
  size_t full = resident_bytes(); /* 19 MB */
  for (size_t t = 0; t < SLEEPERS; t++)
    CHECK_EQ(pthread_create(&thread[t], NULL, free_and_sleep, (void *)t), 0);
  pthread_barrier_wait(&sleepers);
  fh_collect(true);
  CHECK_LE(resident_bytes(), full - (is_secure() ? MiB_(4) : MiB_(10)));
  pthread_barrier_wait(&sleepers);
  for (int t = 0; t < SLEEPERS; t++) pthread_join(thread[t], NULL);
}

/* In a child of fork that replaces blocks: chains that went back by a compare-and-swap. */
static uint64_t swaps_of_child(void) {
  int ends[2];
  uint64_t swaps = 0;
  CHECK_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    static void *p[500];
    fh_stats_t before = {.struct_size = sizeof before}, after = before;
    fh_stats_get(&before);
    for (int round = 0; round < 20; round++) {
      for (int i = 0; i < 500; i++) p[i] = malloc(launder_size(100));
      for (int i = 0; i < 500; i++) free(p[i]);
    }
    fh_stats_get(&after);
    swaps = after.swaps - before.swaps;
    _exit(write(ends[1], &swaps, sizeof swaps) != sizeof swaps);
  }
  CHECK_EQ(read(ends[0], &swaps, sizeof swaps), (ssize_t)sizeof swaps);
  CHECK_EQ(waitpid(child, NULL, 0), child);
  return swaps;
}
static void *allocate_and_sleep(void *unused) {
  free(malloc(launder_size(100)));
  pthread_barrier_wait(&sleepers);
  pause();
  return unused;
}
TEST(fork, a_childs_threads_are_counted_anew_so_it_keeps_blocks_for_its_next_calls, "") {
  enum { THREADS = 16 };
  CHECK(fh_option_set("caching_threads", THREADS / 2));
  uint64_t alone = swaps_of_child();
  pthread_barrier_init(&sleepers, NULL, 2);
  for (int i = 0; i < THREADS; i++) {
    start_thread(allocate_and_sleep, NULL, 0);
    pthread_barrier_wait(&sleepers);
  }
  CHECK_LE(swaps_of_child(), 2 * alone + 100);
}

static struct {
  uint64_t calls, last, forced;
  bool broken;
} heart;
static void deferred(bool force, uint64_t heartbeat, void *context) {
  CHECK(context == &heart);
  if (heart.calls > 0 && heartbeat != heart.last + 1) heart.broken = true;
  heart.last = heartbeat;
  heart.calls++;
  heart.forced += force;
  free(malloc(launder_size(100))); /* it may allocate */
}
TEST(deferred, the_heartbeat_grows_by_one_and_comes_now_and_then, "") {
  fh_on_deferred_free(deferred, &heart);
  enum { N = 200000 };
  static void *p[N];
  for (int i = 0; i < N; i++) p[i] = malloc(launder_size(64));
  CHECK_GT(heart.calls, 0u);
  CHECK_LT(heart.calls, N / 4u); /* not on the fast path */
  uint64_t forced = heart.forced;
  fh_collect(true);
  CHECK_GT(heart.forced, forced);
  CHECK(!heart.broken);
  fh_on_deferred_free(NULL, NULL);
  uint64_t calls = heart.calls;
  for (int i = 0; i < N; i++) free(p[i]);
  for (int i = 0; i < N; i++) p[i] = malloc(launder_size(64));
  CHECK_EQ(heart.calls, calls);
}

TEST(deferred, a_loop_over_one_block_of_some_pages_gets_it_too, "") {
  fh_on_deferred_free(deferred, &heart);
  for (int i = 0; i < 10000; i++) free(malloc(launder_size(64 << 10)));
  CHECK_GT(heart.calls, 10u);
  fh_on_deferred_free(NULL, NULL);
}

/* One that has put off what would make room, and frees it in portions. */
enum { PUT_OFF = 8 };
static struct {
  void *blocks[PUT_OFF];
  int count;
} put_off;
static void free_one_of(bool force, uint64_t heartbeat, void *context) {
  (void)force, (void)heartbeat, (void)context;
  if (put_off.count > 0) free(put_off.blocks[--put_off.count]);
}
TEST(deferred, it_comes_too_when_memory_is_short, "") {
  CHECK(fh_option_set("memory_limit", MiB_(10)));
  while (put_off.count < PUT_OFF) put_off.blocks[put_off.count++] = malloc(launder_size(MiB_(1)));
  fh_on_deferred_free(free_one_of, NULL);
  void *p = NULL;
  for (int i = 0; i < 2 * PUT_OFF && p == NULL; i++) p = malloc(launder_size(MiB_(5)));
  CHECK(p != NULL);
}

TEST(deferred, it_comes_too_when_a_heap_of_the_programs_has_no_memory, "") {
  fh_heap_t *heap = fh_heap_new();
  fh_heap_set_quota(heap, MiB_(10));
  while (put_off.count < PUT_OFF)
    put_off.blocks[put_off.count++] = fh_heap_malloc(heap, launder_size(MiB_(1)));
  fh_on_deferred_free(free_one_of, NULL);
  void *p = NULL;
  for (int i = 0; i < 2 * PUT_OFF && p == NULL; i++)
    p = fh_heap_malloc(heap, launder_size(MiB_(5)));
  CHECK(p != NULL);
}

static int told;
static void be_told(fh_pressure_t level, uint64_t over, void *context) {
  (void)context;
  told += level == FH_PRESSURE_OVER && over != 0;
}
TEST(pressure, a_program_that_takes_its_blocks_from_heaps_alone_is_told, "") {
  CHECK(fh_option_set("memory_soft", MiB_(4)));
  fh_heap_t *heap = fh_heap_new();
  fh_pressure_set(be_told, NULL);
  for (int i = 0; i < 2000; i++) CHECK(fh_heap_malloc(heap, launder_size(5000)) != NULL);
  CHECK_GT(told, 0);
  fh_heap_destroy(heap);
}
TEST(pressure, a_program_that_reallocates_in_a_heap_of_its_choice_is_told, "") {
  CHECK(fh_option_set("memory_soft", MiB_(4)));
  fh_heap_t *heap = fh_heap_new();
  static void *p[2000];
  for (int i = 0; i < 2000; i++) p[i] = fh_heap_malloc(heap, launder_size(100));
  fh_pressure_set(be_told, NULL);
  fh_heap_set_default(heap);
  for (int i = 0; i < 2000; i++) p[i] = realloc(p[i], launder_size(5000));
  CHECK_GT(told, 0);
  fh_heap_set_default(NULL);
  fh_heap_destroy(heap);
}

static jmp_buf away;
static void jump_away(bool force, uint64_t heartbeat, void *context) {
  (void)force, (void)heartbeat, (void)context;
  longjmp(away, 1);
}
TEST(deferred, a_block_is_as_it_was_if_the_callback_jumps_out_of_realloc, "") {
  char *p = (char *)memset(malloc(launder_size(100000)), 7, 100000);
  void *wall = malloc(launder_size(100000));
  if (setjmp(away) == 0) {
    fh_on_deferred_free(jump_away, NULL);
    free(realloc(p, launder_size(MiB_(3))));
    FAIL("no callback");
  }
  fh_on_deferred_free(NULL, NULL);
  CHECK_BYTES((unsigned char *)p, 7, 100000);
  free(p);
  free(wall);
}

static char output[200000];
static size_t output_length;
static void keep_output(const char *text, size_t length, void *context) {
  CHECK(context == &output_length);
  CHECK_LT(output_length + length, sizeof output);
  memcpy(output + output_length, text, length);
  output_length += length;
}
TEST(output, statistics_go_through_the_callback, "") {
  test_child_t child;
  if (test_fork(&child, 20)) {
    fh_on_output(keep_output, &output_length);
    fh_stats_print(false);
    CHECK_GT(output_length, 100u);
    CHECK_EQ(output[output_length - 1], '\n');
    output_length = 0;
    fh_stats_print(true);
    CHECK(output_length > 100 && output[0] == '{' && memchr(output, '}', output_length) != NULL);
    _exit(0);
  }
  test_reap(&child);
  if (!WIFEXITED(child.status) || WEXITSTATUS(child.status) != 0 || child.length > 0)
    FAIL("%s", child.text);
  if (test_fork(&child, 20)) {
    fh_on_output(keep_output, &output_length);
    fh_on_output(NULL, NULL);
    fh_stats_print(false);
    _exit(0);
  }
  test_reap(&child);
  CHECK_GT(child.length, 100u);
}

static int errors[200], error_calls;
static void keep_error(int error, void *context) {
  CHECK(context == errors);
  if (error_calls < 200) errors[error_calls] = error;
  error_calls++;
}
static void say_error(int error, void *context) {
  (void)context;
  test_say("error %d; ", error);
}
TEST(error, the_callback_hears_of_failures_and_corruption, "") {
  fh_on_error(keep_error, errors);
  CHECK_NULL(malloc(launder_size(SIZE_MAX)));
  CHECK_EQ(error_calls, 1);
  CHECK_EQ(errors[0], ENOMEM);
  fh_on_error(say_error, NULL);
  void *p = malloc(launder_size(100));
  free(p);
  char pattern[128];
  snprintf(pattern, sizeof pattern, "^freehold: double free: 0x[0-9a-f]+ in free..%s\nerror %d; $",
           TEST_BLOCK, EFAULT);
  EXPECT_ABORT(free(launder(p)), pattern);
  fh_on_error(NULL, NULL);
  CHECK_NULL(malloc(launder_size(SIZE_MAX)));
}

TEST(error, a_callback_for_which_there_is_no_memory_is_one_too, "") {
  fh_on_error(keep_error, errors);
  CHECK(fh_option_set("memory_limit", 1));
  while (malloc(launder_size(24)) != NULL) continue;
  int before = error_calls, asked = 0;
  for (errno = 0; errno == 0 && asked < 100; asked++) fh_on_output(keep_output, &errors[asked]);
  CHECK_EQ(errno, ENOMEM);
  CHECK_EQ(error_calls, before + 1);
}

/* ---- options --------------------------------------------------------------------------------- */

TEST(options, are_got_and_set_by_name, "") {
  int64_t value = 12345, other = 0;
  CHECK(fh_option_get("purge_delay_ms", &value));
  CHECK(fh_option_set("purge_delay_ms", value + 7));
  CHECK(fh_option_get("purge_delay_ms", &other));
  CHECK_EQ(other, value + 7);
  CHECK(!fh_option_set("purge_delay_ms", -2));
  CHECK(!fh_option_set("purge_delay_ms", INT64_MAX));
  CHECK(!fh_option_set("purge_delay_ms", INT64_MIN));
  CHECK(fh_option_get("purge_delay_ms", &other));
  CHECK_EQ(other, value + 7);
}

TEST(options, that_do_not_exist_or_count_only_at_start_change_nothing, "") {
  int64_t value = 12345;
  CHECK(!fh_option_get("no_such_option", &value));
  CHECK(!fh_option_get("", &value));
  CHECK(!fh_option_get("purge_delay_m", &value));
  CHECK(!fh_option_get("purge_delay_ms:5", &value));
  CHECK_EQ(value, 12345);
  CHECK(!fh_option_set("no_such_option", 1));
  CHECK(fh_option_get("arena_step", &value));
  CHECK(!fh_option_set("arena_step", value / 2));
  int64_t after = 0;
  CHECK(fh_option_get("arena_step", &after));
  CHECK_EQ(after, value);
}

/* ---- statistics ------------------------------------------------------------------------------ */

static fh_stats_t stats_now(void) {
  static fh_stats_t s;
  s.struct_size = sizeof s;
  CHECK(fh_stats_get(&s));
  return s;
}
static void *body_churn_a_little(void *argument) {
  uint64_t state = (uintptr_t)argument + 5;
  for (int i = 0; i < 2000; i++) free(malloc(random_size(&state)));
  return NULL;
}

TEST(stats, an_unknown_struct_size_is_refused, "") {
  static fh_stats_t s;
  s.struct_size = 3;
  CHECK(!fh_stats_get(&s));
  s.struct_size = 0;
  CHECK(!fh_stats_get(&s));
}

TEST(stats, figures_follow_what_the_program_does, "") {
  enum { N = 30000 };
  static void *p[N];
  static fh_stats_t before, held, after;
  before = stats_now();
  for (int i = 0; i < N; i++) memset(p[i] = malloc(launder_size(1000)), 1, 1000);
  void *large = malloc(launder_size(500000)), *huge = malloc(launder_size(MiB_(600)));
  memset(large, 1, 500000);
  held = stats_now();
  CHECK_GE(held.total.live, before.total.live + N);
  CHECK_GE(held.total.allocated, before.total.allocated + N);
  CHECK_GE(held.total.peak, held.total.live);
  CHECK_GE(held.live_bytes, before.live_bytes + N * (uint64_t)1000 + 500000 + MiB_(600));
  CHECK_EQ(held.large_live, before.large_live + 1);
  CHECK_EQ(held.huge_live, before.huge_live + 1);
  CHECK_GE(held.mapped, held.committed);
  CHECK_GE(held.committed, held.live_bytes / 2);
  CHECK_GE(held.peak_committed, held.committed);
  CHECK_LE(held.resident, held.mapped);
  CHECK_GE(held.resident, N * (uint64_t)1000);
  CHECK_GT(held.mmaps, 0u);
  CHECK_GE(held.arenas, 1u);
  CHECK_GE(held.threads, 1u);
  CHECK_GE(held.heaps, held.threads);
  uint64_t live = 0, slabs = 0, allocated = 0;
  for (int c = 0; c < FH_CLASSES; c++) {
    const fh_class_stats_t *s = &held.classes[c];
    CHECK_EQ(s->fullness[0] + s->fullness[1] + s->fullness[2] + s->fullness[3], s->slabs);
    CHECK_LE(s->live, s->allocated);
    if (c > 0 && s->block_size != 0) CHECK_GT(s->block_size, held.classes[c - 1].block_size);
    live += s->live, slabs += s->slabs, allocated += s->allocated;
  }
  CHECK_EQ(live, held.total.live);
  CHECK_EQ(slabs, held.total.slabs);
  CHECK_EQ(allocated, held.total.allocated);
  CHECK_EQ(held.total.block_size, 0u);
  for (int i = 0; i < N; i++) free(p[i]);
  free(large);
  free(huge);
  fh_collect(true);
  after = stats_now();
  CHECK_LE(after.total.live, held.total.live - N + 4096);
  CHECK_EQ(after.large_live, before.large_live);
  CHECK_EQ(after.huge_live, before.huge_live);
  CHECK_GT(after.purged, before.purged);
  CHECK_LE(after.dirty, MiB_(1));
}

static void *body_free_all(void *argument) {
  void **p = (void **)argument;
  for (int i = 0; i < 10000; i++) free(p[i]);
  return NULL;
}
TEST(stats, remote_frees_and_threads_are_counted, "") {
  static void *p[10000];
  static fh_stats_t before, after;
  for (int i = 0; i < 10000; i++) p[i] = malloc(launder_size(80));
  before = stats_now();
  join_thread(start_thread(body_free_all, p, 0));
  after = stats_now();
  CHECK_GT(after.remote_frees, before.remote_frees);
  CHECK_GE(after.remote_frees + after.shared_frees, /* full slabs are nobody's */
           before.remote_frees + before.shared_frees + 9000);
  CHECK_GE(after.swaps, before.swaps + 1);
  CHECK_GE(after.heaps, before.heaps);
  run_threads(4, body_churn_a_little);
  CHECK_LE(stats_now().threads, before.threads + 1); /* those that ended are gone */
}

/* Our mappings are those in which the sum of resident pages can be told: compare with what the
 * kernel says of the process. */
TEST(stats, resident_agrees_with_the_kernel, "") {
  enum { N = 60000 };
  static void *p[N];
  static fh_stats_t before, after;
  before = stats_now();
  size_t kernel_before = resident_bytes();
  for (int i = 0; i < N; i++) memset(p[i] = malloc(launder_size(1400)), 1, 1400);
  after = stats_now();
  size_t kernel = resident_bytes() - kernel_before,
         ours = (size_t)(after.resident - before.resident);
  size_t gap = kernel > ours ? kernel - ours : ours - kernel;
  CHECK_LE(gap, kernel / 20);
  for (int i = 0; i < N; i++) free(p[i]);
}

TEST(stats, json_is_cut_like_snprintf_cuts, "") {
  static char all[300000], some[100];
  size_t n = fh_stats_json(all, sizeof all);
  CHECK(n > 100 && n < sizeof all);
  CHECK_EQ(strlen(all), n);
  CHECK_GE(fh_stats_json(NULL, 0), 100u);
  memset(some, 'z', sizeof some);
  CHECK_GE(fh_stats_json(some, 50), 100u);
  CHECK_EQ(strlen(some), 49u);
  CHECK_EQ(some[50], 'z');
  CHECK(strncmp(some, all, 10) == 0);
}

TEST(stats, program_that_prints_json, "program") {
  static char text[300000];
  run_threads(3, body_churn_a_little);
  void *keep = malloc(launder_size(100000));
  size_t n = fh_stats_json(text, sizeof text);
  CHECK(keep != NULL && write(1, text, n) == (ssize_t)n);
}

/* ---- profiles -------------------------------------------------------------------------------- */

static void check_profile_fails(int file, fh_profile_t kind, int error) {
  errno = 0;
  CHECK(!fh_profile_write(file, kind));
  CHECK_EQ(errno, error);
}

TEST(profile, before_the_start_there_is_nothing_to_write, "") {
  check_profile_fails(1, FH_PROFILE_HEAP, ENODATA);
  CHECK(fh_profile_start(0)); /* stops what never was */
  check_profile_fails(1, FH_PROFILE_HEAP, ENODATA);
}

TEST(profile, a_wrong_kind_and_a_file_that_takes_nothing_are_errors, "") {
  int full = open("/dev/full", O_WRONLY), null = open("/dev/null", O_WRONLY);
  CHECK(full >= 0 && null >= 0 && fh_profile_start(1));
  void *p = malloc(launder_size(100));
  check_profile_fails(null, FH_PROFILE_LIFETIMES + 1, EINVAL);
  for (fh_profile_t kind = FH_PROFILE_HEAP; kind <= FH_PROFILE_LIFETIMES; kind++) {
    CHECK(fh_profile_write(null, kind));
    check_profile_fails(full, kind, EIO);
    check_profile_fails(-1, kind, EIO);
  }
  free(p);
}

static void write_in_handler(int number) {
  (void)number;
  int null = open("/dev/null", O_WRONLY);
  CHECK(fh_profile_write(null, FH_PROFILE_HEAP) && fh_profile_write(null, FH_PROFILE_BLOCKS));
  close(null);
}

TEST(profile, one_may_be_written_in_a_handler_that_interrupts_malloc, "") {
  enum { HANDLED = 200 };
  CHECK(fh_profile_start(4096));
  signal(SIGALRM, write_in_handler);
  struct itimerval soon = {{0, 0}, {0, 300}};
  for (int i = 0; i < HANDLED; i++) {
    CHECK_EQ(setitimer(ITIMER_REAL, &soon, NULL), 0);
    for (int k = 0; k < 1000; k++) free(malloc(launder_size(50 + (size_t)k * 10)));
  }
}

/* ---- hooks of a profiler ---- */

static struct {
  int allocated, freed;
  uint64_t bytes, freed_bytes;
} heard;
enum { INSIDE = 100 };
static void *allocated_inside[INSIDE];

static void hear_allocated(void *block, size_t size, uint64_t bytes, void *context) {
  CHECK_EQ(context, (void *)&heard);
  CHECK(fh_usable_size(block) >= size && bytes >= size);
  if (heard.allocated < INSIDE) /* of which nothing is heard */
    allocated_inside[heard.allocated] = malloc(launder_size(1000));
  heard.allocated++;
  heard.bytes += bytes;
}
static void hear_freed(void *block, size_t size, uint64_t bytes, void *context) {
  (void)block, (void)size, (void)context;
  heard.freed++;
  heard.freed_bytes += bytes;
}

TEST(profile, a_hook_hears_of_each_sampled_block_and_of_its_end_and_may_allocate, "") {
  enum { BLOCKS = 300 };
  static const size_t sizes[] = {1, 100, 5000, 70000, 3 << 20, 600 << 20};
  void *p[BLOCKS];
  CHECK(fh_profile_start(1));
  for (int i = 0; i < 100; i++) free(malloc(launder_size(100))); /* nothing in a bin any more */
  fh_profile_hooks(hear_allocated, hear_freed, &heard);
  for (int i = 0; i < BLOCKS; i++)
    p[i] = malloc(launder_size(sizes[i % 6 == 5 && i > 6 ? 0 : i % 6]));
  CHECK_EQ(heard.allocated, BLOCKS);
  CHECK_GE(heard.bytes, (uint64_t)(600 << 20) + BLOCKS / 6 * 3 * (1 << 20));
  for (int i = 0; i < BLOCKS; i++) free(p[i]);
  CHECK_EQ(heard.freed, BLOCKS);
  CHECK_EQ(heard.freed_bytes, heard.bytes);
  fh_profile_hooks(NULL, NULL, NULL);
  free(malloc(launder_size(100)));
  CHECK_EQ(heard.allocated, BLOCKS);
  for (int i = 0; i < INSIDE; i++) free(allocated_inside[i]);
}

TEST(profile, a_hook_hears_what_all_blocks_together_come_to, "") {
  enum { BLOCKS = 200000, SIZE = 96 };
  void **p = malloc(BLOCKS * sizeof *p);
  CHECK(fh_profile_start(4096));
  fh_profile_hooks(hear_allocated, hear_freed, &heard);
  for (int i = 0; i < BLOCKS; i++) p[i] = malloc(launder_size(SIZE));
  for (int i = 0; i < BLOCKS; i++) free(p[i]);
  fh_profile_hooks(NULL, NULL, NULL);
  CHECK_EQ(heard.allocated, heard.freed);
  /* 4,700 samples: six deviations are nine percent */
  double all = (double)BLOCKS * (is_secure() ? SIZE + 16 : SIZE); /* the class's */
  CHECK(heard.bytes > all * 0.91 && heard.bytes < all * 1.09);
  free(p);
}

static void *volatile born, *volatile died; /* realloc calls nothing, as a compiler sees it */
static void note_born(void *block, size_t size, uint64_t bytes, void *context) {
  (void)size, (void)bytes, (void)context;
  born = block;
}
static void note_died(void *block, size_t size, uint64_t bytes, void *context) {
  (void)size, (void)bytes, (void)context;
  CHECK_EQ(*(volatile char *)block, 7); /* it can still be read */
  died = block;
}

TEST(profile, a_hook_hears_of_the_end_of_a_block_whose_pages_move_while_they_are_there, "") {
  static const size_t sizes[][2] = {{2 << 20, 90 << 20}, {(size_t)600 << 20, (size_t)1500 << 20}};
  CHECK(fh_profile_start(1));
  fh_profile_hooks(note_born, note_died, NULL);
  for (int i = 0; i < 2; i++) {
    char *p = malloc(launder_size(sizes[i][0]));
    uintptr_t before = (uintptr_t)p;
    CHECK_EQ(born, (void *)p);
    p[0] = 7;
    char *moved = realloc(p, launder_size(sizes[i][1]));
    CHECK(moved != NULL);
    CHECK_EQ((uintptr_t)died, before);
    CHECK_EQ(born, (void *)moved);
    free(moved);
  }
  fh_profile_hooks(NULL, NULL, NULL);
}
