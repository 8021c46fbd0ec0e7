/* family_test.c - what freehold.h adds to the family of malloc for bindings of other languages,
 * and the names that programs look for; linked with the library */
#include "entry.h"

#include <dlfcn.h>
#include <freehold/freehold.h>

static const size_t sizes[] = {0,    1,     16,    24,    100,    512,    513,
                               5000, 16384, 16385, 65536, 200000, 700000, 3000000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };
static const size_t alignments[] = {1, 8, 16, 32, 64, 256, 4096, 65536, 1 << 20};
enum { ALIGNMENTS = sizeof alignments / sizeof alignments[0] };

size_t nallocx(size_t size, int flags);
void sdallocx(void *p, size_t size, int flags);
size_t malloc_size(void *p);

static bool is_secure(void) { return strstr(fh_version_string(), "-secure") != NULL; }

static char pattern_text[256];
static const char *line(const char *what, const volatile void *p, const char *call) {
  snprintf(pattern_text, sizeof pattern_text,
           "^freehold: (%s): 0x0*%llx in %s\\(\\)" TEST_BLOCK "$", what,
           (unsigned long long)(uintptr_t)p, call);
  return pattern_text;
}

/* Leaves blocks of about that size behind that are free and not zero. */
static void leave_dirt(size_t size) {
  enum { N = 8 };
  void *p[N];
  for (int i = 0; i < N; i++) {
    p[i] = fh_malloc(size + (size_t)i);
    memset(p[i], 0xA5, fh_usable_size(p[i]));
  }
  for (int i = 0; i < N; i++) fh_free(p[i]);
}

static bool is_aligned(const void *p, size_t alignment) { return (uintptr_t)p % alignment == 0; }

static bool is_zero(const void *p, size_t from, size_t to) {
  const char *bytes = (const char *)p;
  for (size_t i = from; i < to; i++)
    if (bytes[i] != 0) return false;
  return true;
}

/* ---- zero ------------------------------------------------------------------------------------ */

TEST(zero, calloc_aligned_is_aligned_and_zero_also_where_others_have_written, "") {
  for (int i = 0; i < SIZES; i++) {
    for (int k = 0; k < ALIGNMENTS; k++) {
      leave_dirt(sizes[i]);
      char *p = (char *)fh_calloc_aligned(alignments[k], 1, launder_size(sizes[i]));
      CHECK(p != NULL && is_aligned(p, alignments[k]));
      CHECK(is_zero(p, 0, sizes[i]));
      memset(p, 0xA5, fh_usable_size(p));
      fh_free_aligned_sized(p, alignments[k], sizes[i]);
    }
  }
}

TEST(zero, what_calloc_at_least_tells_of_is_zero_to_its_end, "") {
  for (int i = 0; i < SIZES; i++) {
    size_t actual = 7;
    leave_dirt(sizes[i]);
    char *p = (char *)fh_calloc_at_least(launder_size(sizes[i]), 1, &actual);
    CHECK(p != NULL && actual == fh_usable_size(p) && actual >= sizes[i]);
    CHECK(is_zero(p, 0, actual));
    memset(p, 0xA5, actual);
    fh_free_sized(p, actual);
    p = (char *)fh_calloc_aligned_at_least(128, 1, launder_size(sizes[i]), &actual);
    CHECK(p != NULL && is_aligned(p, 128) && actual == fh_usable_size(p) && actual >= sizes[i]);
    CHECK(is_zero(p, 0, actual));
    memset(p, 0xA5, actual);
    fh_free_aligned_sized(p, 128, actual);
  }
}

/* Whatever was written behind `old_size`, and wherever the block comes from. */
TEST(zero, realloc_zeroed_clears_all_that_is_behind_the_old_size, "") {
  for (int i = 0; i < SIZES; i++) {
    for (int k = 0; k < SIZES; k++) {
      for (int way = 0; way < 3; way++) {
        size_t old_size = sizes[i] / (way == 2 ? 2 : 1), size = sizes[k], actual = size;
        size_t kept = old_size < size ? old_size : size;
        leave_dirt(size);
        char *p = (char *)(way == 0 ? fh_malloc(sizes[i]) : fh_calloc(1, sizes[i]));
        memset(p, 0xA5, fh_usable_size(p));
        stamp(p, old_size, 9);
        p = (char *)(way == 0 ? fh_realloc_zeroed(p, old_size, size)
                              : fh_realloc_zeroed_at_least(p, old_size, size, &actual));
        if (size == 0) {
          CHECK_NULL(p);
          CHECK_EQ(way == 0 ? 0 : actual, 0u);
          continue;
        }
        CHECK(p != NULL && actual >= size && (way == 0 || actual == fh_usable_size(p)));
        CHECK(is_prefix_stamped(p, kept, old_size, 9));
        CHECK(is_zero(p, old_size, actual));
        fh_free(p);
      }
    }
  }
}

TEST(zero, realloc_zeroed_of_nothing_is_calloc, "") {
  for (int i = 0; i < SIZES; i++) {
    size_t actual = 0;
    leave_dirt(sizes[i]);
    char *p = (char *)fh_realloc_zeroed_at_least(NULL, 0, launder_size(sizes[i]), &actual);
    CHECK(p != NULL && is_zero(p, 0, actual));
    fh_free(p);
  }
}

/* A GiB that nobody touches takes no memory, however it came to be. */
TEST(memory, pages_that_nobody_wrote_stay_untouched, "") {
  size_t before = resident_bytes();
  char *p = (char *)fh_calloc_aligned(4096, 1, MiB_(600));
  p[0] = 1;
  p = (char *)fh_realloc_zeroed(p, 1, MiB_(1000));
  CHECK(p != NULL && p[0] == 1 && p[MiB_(999)] == 0);
  CHECK_LE(resident_bytes(), before + MiB_(8));
  fh_free(p);
}

TEST(zero, an_old_size_that_the_block_does_not_have_is_reported, "") {
  for (int i = 0; i < SIZES; i++) {
    void *p = fh_malloc(launder_size(sizes[i]));
    size_t beyond = fh_usable_size(p) + 1;
    EXPECT_ABORT(launder(fh_realloc_zeroed(p, beyond, beyond + 1)),
                 line("wrong size", p, "fh_realloc_zeroed"));
    EXPECT_ABORT(launder(fh_realloc_zeroed_at_least(p, launder_size(SIZE_MAX), 1, NULL)),
                 line("wrong size", p, "fh_realloc_zeroed_at_least"));
    fh_free(p);
  }
}

/* ---- aligned --------------------------------------------------------------------------------- */

TEST(aligned, realloc_aligned_keeps_bytes_and_alignment_whatever_it_is_given, "") {
  for (int i = 0; i < SIZES; i++) {
    for (int k = 0; k < SIZES; k++) {
      for (int a = 0; a < ALIGNMENTS; a++) {
        size_t old_size = sizes[i], size = sizes[k], actual = 0;
        char *p = (char *)(a % 2 == 0 ? fh_malloc(old_size)
                                      : fh_aligned_alloc(alignments[a], launder_size(old_size)));
        stamp(p, old_size, (uint64_t)a);
        p = (char *)(k % 2 == 0 ? fh_realloc_aligned_at_least(p, alignments[a], size, &actual)
                                : fh_realloc_aligned(p, alignments[a], size));
        if (size == 0) {
          CHECK_NULL(p);
          continue;
        }
        CHECK(p != NULL && is_aligned(p, alignments[a]) && fh_usable_size(p) >= size);
        CHECK(k % 2 != 0 || actual == fh_usable_size(p));
        CHECK(is_prefix_stamped(p, size < old_size ? size : old_size, old_size, (uint64_t)a));
        stamp(p, size, 1);
        fh_free(p);
      }
    }
  }
}

TEST(aligned, realloc_aligned_stays_where_there_is_room, "") {
  char *p = (char *)fh_aligned_alloc(64, launder_size(1000));
  CHECK(fh_realloc_aligned(p, 64, 990) == p);
  CHECK(fh_realloc_aligned(p, 256, 990) != p || is_aligned(p, 256));
  p = (char *)fh_aligned_alloc(4096, launder_size(100000));
  for (size_t n = 100000; n < 101000; n += 100) CHECK(fh_realloc_aligned(p, 4096, n) == p);
  fh_free(p);
}

/* 60 MiB that grow by a few pages a thousand times are not copied a thousand times. */
TEST(memory, a_large_block_that_grows_is_not_copied, "") {
  size_t moves = 0, size = MiB_(60);
  char *p = (char *)fh_aligned_alloc(4096, launder_size(size));
  for (int i = 0; i < 1000; i++) {
    char *q = (char *)fh_realloc_aligned(p, 4096, size += 10000);
    CHECK(q != NULL && is_aligned(q, 4096));
    moves += q != p;
    p = q;
  }
  CHECK_LE(moves, 3u);
  CHECK_LE(resident_bytes(), MiB_(30));
  fh_free(p);
}

TEST(aligned, failures_leave_the_block_alone, "") {
  char *p = (char *)fh_malloc(launder_size(100));
  stamp(p, 100, 3);
  errno = 0;
  CHECK_NULL(fh_realloc_aligned(p, launder_size(48), 200));
  CHECK_EQ(errno, EINVAL);
  static const size_t too_much[] = {SIZE_MAX, (size_t)PTRDIFF_MAX + 1, (size_t)1 << 47};
  for (int i = 0; i < 3; i++) {
    size_t actual = 5;
    errno = 0;
    CHECK_NULL(fh_realloc_aligned_at_least(p, 64, launder_size(too_much[i]), &actual));
    CHECK(errno == ENOMEM && actual == 0);
    errno = 0;
    CHECK_NULL(fh_realloc_zeroed_at_least(p, 100, launder_size(too_much[i]), &actual));
    CHECK(errno == ENOMEM && actual == 0);
    CHECK_NULL(fh_realloc_at_least(p, launder_size(too_much[i]), &actual));
    CHECK_NULL(fh_calloc_aligned(64, launder_size(too_much[i]), 1));
    CHECK_NULL(fh_calloc_at_least(1, launder_size(too_much[i]), &actual));
  }
  errno = 0;
  CHECK_NULL(fh_calloc_aligned(64, launder_size(SIZE_MAX / 2), 4));
  CHECK_EQ(errno, ENOMEM);
  CHECK_NULL(fh_calloc_at_least(launder_size(SIZE_MAX / 2), 4, NULL));
  CHECK_NULL(fh_calloc_aligned(launder_size(3), 10, 1));
  CHECK(is_stamped(p, 100, 3));
  fh_free(p);
}

TEST(at_least, each_tells_what_is_really_there, "") {
  for (int i = 0; i < SIZES; i++) {
    size_t n = launder_size(sizes[i]), actual = 0;
    void *p = fh_aligned_alloc_at_least(256, n, &actual);
    CHECK(is_aligned(p, 256) && actual == fh_usable_size(p) && actual >= n);
    memset(p, 1, actual);
    p = fh_realloc_at_least(p, n + 10, &actual);
    CHECK(p != NULL && actual == fh_usable_size(p) && actual >= n + 10);
    memset(p, 1, actual);
    fh_free_sized(p, actual);
    fh_free(fh_realloc_at_least(NULL, n, NULL));
  }
}

/* ---- strings --------------------------------------------------------------------------------- */

TEST(strings, copies_are_equal_and_ended, "") {
  fh_heap_t *heap = fh_heap_new();
  char text[3000];
  memset(text, 'x', sizeof text);
  for (size_t n = 0; n < sizeof text; n += n / 5 + 1) {
    text[n] = '\0';
    char *copies[] = {fh_strdup(text), fh_strndup(text, n), fh_strndup(text, SIZE_MAX),
                      fh_heap_strdup(heap, text), fh_heap_strndup(heap, text, n + 1)};
    for (int i = 0; i < 5; i++) {
      CHECK(copies[i] != NULL && strcmp(copies[i], text) == 0);
      fh_free(copies[i]);
    }
    char *cut = fh_strndup(text, n / 2), *cut_of_heap = fh_heap_strndup(heap, text, n / 2);
    CHECK(strlen(cut) == n / 2 && strcmp(cut, cut_of_heap) == 0);
    CHECK(strncmp(cut, text, n / 2) == 0);
    fh_free(cut);
    text[n] = 'x';
  }
  fh_heap_destroy(heap);
}

/* The text need not be ended if it is long enough. */
TEST(strings, strndup_reads_no_further_than_it_is_told, "") {
  size_t page = page_size();
  char *pages =
    (char *)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK_EQ(mprotect(pages + page, page, PROT_NONE), 0);
  memset(pages, 'y', page);
  char *copy = fh_strndup(pages + page - 10, 10);
  CHECK(strlen(copy) == 10);
  fh_free(copy);
}

/* ---- batches --------------------------------------------------------------------------------- */

enum { MANY = 3000 };
static void *blocks[MANY];

TEST(batch, gives_as_many_different_blocks_as_were_asked_for, "") {
  for (int i = 0; i < SIZES - 2; i++) {
    size_t count = sizes[i] <= 16384 ? MANY : 20;
    CHECK_EQ(fh_malloc_batch(sizes[i], count, blocks), count);
    for (size_t k = 0; k < count; k++) {
      CHECK_GE(fh_usable_size(blocks[k]), sizes[i]);
      stamp(blocks[k], sizes[i], k);
    }
    for (size_t k = 0; k < count; k++) CHECK(is_stamped(blocks[k], sizes[i], k));
    for (size_t k = 0; k < count; k += 7) {
      fh_free(blocks[k]);
      blocks[k] = NULL;
    }
    fh_free_batch(blocks, count);
  }
  CHECK_EQ(fh_malloc_batch(10, 0, NULL), 0u);
  fh_free_batch(NULL, 0);
}

TEST(batch, a_free_batch_takes_blocks_of_any_size_and_origin_and_keeps_errno, "") {
  fh_heap_t *heap = fh_heap_new();
  uint64_t random = 5;
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < MANY; i++) {
      size_t n = random_size(&random);
      switch (random_next(&random) % 6) {
        case 0: blocks[i] = fh_heap_malloc(heap, n); break;
        case 1: blocks[i] = fh_aligned_alloc(256, n); break;
        case 2: blocks[i] = fh_calloc(1, n); break;
        case 3: blocks[i] = NULL; break;
        default: blocks[i] = fh_malloc(n);
      }
    }
    errno = 77;
    fh_free_batch(blocks, MANY);
    CHECK_EQ(errno, 77);
  }
  fh_stats_t stats = {.struct_size = sizeof stats};
  CHECK(fh_stats_get(&stats));
  CHECK_LE(stats.large_live + stats.huge_live, is_secure() ? 600u : 4u);
  fh_heap_delete(heap);
}

static void *free_all(void *unused) {
  (void)unused;
  fh_free_batch(blocks, MANY);
  return NULL;
}
static void end_twice(void (*end)(fh_heap_t *heap)) {
  fh_heap_t *heap = fh_heap_new();
  end(heap);
  end((fh_heap_t *)launder(heap));
}
TEST(heap, one_that_has_ended_does_not_end_again, "") {
  EXPECT_ABORT(end_twice(fh_heap_delete), "^freehold: double free: .* in fh_heap_delete\\(\\)");
  EXPECT_ABORT(end_twice(fh_heap_destroy), "^freehold: double free: .* in fh_heap_destroy\\(\\)");
}

TEST(batch, blocks_of_another_thread_are_freed, "") {
  for (int round = 0; round < 50; round++) {
    CHECK_EQ(fh_malloc_batch(64, MANY, blocks), (size_t)MANY);
    join_thread(start_thread(free_all, NULL, 0));
  }
  fh_collect(true);
  fh_stats_t stats = {.struct_size = sizeof stats};
  CHECK(fh_stats_get(&stats));
  CHECK_LE(stats.live_bytes, MiB_(2));
}

/* Of the whole address space there are some of these blocks, and not all. */
TEST(batch, it_says_how_many_there_are_when_memory_is_short, "") {
  struct rlimit limit = {MiB_(1500), MiB_(1500)};
  CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  for (int i = 0; i < MANY; i++) blocks[i] = &limit;
  errno = 0;
  size_t n = fh_malloc_batch(MiB_(50), MANY, blocks);
  CHECK(n > 0 && n < MANY && errno == ENOMEM);
  CHECK(blocks[n - 1] != &limit && blocks[n] == &limit);
  fh_free_batch(blocks, n);
  errno = 0;
  CHECK_EQ(fh_malloc_batch(SIZE_MAX, 3, blocks), 0u);
  CHECK_EQ(errno, ENOMEM);
}

TEST(batch, what_is_no_live_block_is_reported_when_its_turn_comes, "") {
  for (int i = 2; i < SIZES - 2; i++) {
    CHECK_EQ(fh_malloc_batch(sizes[i], 4, blocks), 4u);
    void *twice[] = {blocks[0], blocks[1], blocks[0], blocks[2]};
    EXPECT_ABORT(fh_free_batch(twice, 4),
                 line(sizes[i] <= 16384 ? "double free" : "double free|invalid pointer", blocks[0],
                      "fh_free_batch"));
    void *inside[] = {blocks[0], (char *)blocks[1] + 8};
    EXPECT_ABORT(fh_free_batch(inside, 2), line("invalid pointer", inside[1], "fh_free_batch"));
    void *wild[] = {blocks[0], &wild};
    EXPECT_ABORT(fh_free_batch(wild, 2), line("invalid pointer", wild[1], "fh_free_batch"));
    fh_free_batch(blocks, 4);
  }
}

#if !defined(_WIN32)
/* A handler that interrupts a batch allocates and frees, in batches too. At its end it asks for the
 * next signal: however long it took, what it interrupts goes on. */
static volatile sig_atomic_t handled;
static timer_t soon;
static void set_soon(void) {
  CHECK_EQ(timer_settime(soon, 0, &(struct itimerspec){.it_value.tv_nsec = 50000}, NULL), 0);
}
static void on_alarm(int number) {
  (void)number;
  void *mine[40];
  CHECK_EQ(fh_malloc_batch(64, 40, mine), 40u);
  for (int i = 0; i < 40; i++) memset(mine[i], 7, 64);
  fh_free_batch(mine, 40);
  handled = handled + 1;
  set_soon();
}
TEST(batch, a_signal_handler_may_be_inside_at_the_same_time, "timeout=120") {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  signal(SIGALRM, on_alarm);
  CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &soon), 0);
  set_soon();
  while (handled < 2000) {
    CHECK_EQ(fh_malloc_batch(64, MANY, blocks), (size_t)MANY);
    for (size_t k = 0; k < MANY; k++) stamp(blocks[k], 64, k);
    for (size_t k = 0; k < MANY; k++) CHECK(is_stamped(blocks[k], 64, k));
    fh_free_batch(blocks, MANY);
  }
  signal(SIGALRM, SIG_IGN); /* the handler wants the timer */
  timer_delete(soon);
}
#endif

/* ---- names that programs look for ------------------------------------------------------------ */

TEST(probed, nallocx_says_what_a_request_would_get, "") {
  for (int i = 0; i < SIZES; i++) {
    CHECK_EQ(nallocx(sizes[i], 0), fh_good_size(sizes[i]));
    for (int lg = 0; lg <= 20; lg++) {
      void *p = fh_aligned_alloc((size_t)1 << lg, launder_size(sizes[i] + 1));
      CHECK_EQ(nallocx(sizes[i] + 1, lg), fh_usable_size(p));
      fh_free(p);
    }
  }
  CHECK_EQ(nallocx(launder_size(SIZE_MAX), 0), 0u);
  CHECK_EQ(nallocx(launder_size(PTRDIFF_MAX), 0), 0u);
  CHECK_EQ(nallocx(launder_size(PTRDIFF_MAX), 12), 0u);
  CHECK_EQ(nallocx(1, 63), 0u);
}

TEST(probed, sdallocx_frees_and_looks_at_the_size, "") {
  for (int i = 0; i < SIZES; i++) {
    sdallocx(fh_malloc(launder_size(sizes[i])), sizes[i], 0);
    sdallocx(fh_malloc(launder_size(sizes[i])), nallocx(sizes[i], 0), 0);
    sdallocx(fh_aligned_alloc(256, launder_size(sizes[i])), sizes[i], 8);
    void *p = fh_malloc(launder_size(sizes[i]));
    EXPECT_ABORT(sdallocx(p, launder_size(SIZE_MAX), 0), line("wrong size", p, "sdallocx"));
    CHECK_EQ(malloc_size(p), fh_usable_size(p));
    fh_free(p);
    if (sizes[i] >= 16)
      EXPECT_ABORT(sdallocx(launder(p), sizes[i], 0),
                   line("double free|invalid pointer", p, "sdallocx"));
  }
  sdallocx(NULL, 0, 0);
  char *p = (char *)fh_malloc(100), *q = (char *)fh_malloc(100);
  void *odd = (uintptr_t)p % 4096 != 0 ? p : q;
  EXPECT_ABORT(sdallocx(odd, 100, 12), line("wrong alignment", odd, "sdallocx"));
  fh_free(p), fh_free(q);
}

/* Sampled and guarded ones too. */
TEST(sized, what_was_made_smaller_in_place_keeps_its_bytes_and_has_its_new_size, "") {
  for (size_t n = 40; n < 300000; n += n / 9)
    for (size_t less = n - 1; less > n / 2; less -= n / 5) {
      char *p = (char *)fh_malloc(launder_size(n));
      stamp(p, less, n);
      CHECK(fh_expand(p, less) && is_stamped(p, less, n));
      fh_free_sized(p, less);
      p = (char *)fh_aligned_alloc(64, launder_size(n));
      stamp(p, less, n);
      p = (char *)fh_realloc_aligned(p, 64, less);
      CHECK(is_stamped(p, less, n));
      fh_free_aligned_sized(p, 64, less);
    }
}

/* They would go on to use an interface that is not there. */
TEST(probed, no_program_takes_it_for_jemalloc_or_tcmalloc, "") {
  static const char *const names[] = {
    "mallctl",   "mallocx",  "rallocx",          "xallocx",
    "sallocx",   "dallocx",  "mallctlnametomib", "MallocExtension_Internal_GetNumericProperty",
    "tc_malloc", "mi_malloc"};
  for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
    CHECK_NULL(dlsym(RTLD_DEFAULT, names[i]));
  CHECK(dlsym(RTLD_DEFAULT, "nallocx") != NULL && dlsym(RTLD_DEFAULT, "sdallocx") != NULL);
}
