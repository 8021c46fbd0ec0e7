/* contract_test.c - the C, POSIX and glibc contracts of every entry point, to the letter
 *
 * Runs with the library preloaded and, as a second program, with freehold.o linked in. */
#include "entry.h"

#include "../unit/faults.h"

static const size_t TOO_LARGE[] = {(size_t)PTRDIFF_MAX + 1, SIZE_MAX, SIZE_MAX - 4095,
                                   SIZE_MAX - 65535, SIZE_MAX / 2 + 2};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
/* Sizes at the borders of classes, pages and slices, and of what others map by itself. */
static const size_t BORDERS[] = {
  0,      1,       7,       8,       15,      16,      17,          24,       32,
  33,     100,     512,     513,     1000,    1024,    4095,        4096,     4097,
  16383,  16384,   16385,   65535,   65536,   65537,   100000,      131072,   262144,
  524288, 1048575, 1048576, 1048577, 3000000, MiB_(4), MiB_(4) + 1, MiB_(32), MiB_(33) + 5};

TEST(setup, these_tests_run_on_freehold, "") {
  if (fh_version == NULL) FAIL("the allocator under test is another one");
  void *p = malloc(launder_size(10));
  CHECK(fh_owns != NULL && fh_owns(p));
}

/* ---- malloc and free ------------------------------------------------------------------------- */

TEST(malloc, blocks_of_16_bytes_and_more_are_aligned_to_16, "") {
  for (size_t n = 0; n <= 20000; n++) {
    char *p = (char *)malloc(launder_size(n));
    CHECK(p != NULL);
    size_t need = n >= 16 ? 16 : n >= 8 ? 8 : 1;
    if ((uintptr_t)p % need != 0) FAIL("malloc(%zu) is %p", n, (void *)p);
    if (n % 3 != 0) free(p);
  }
}

TEST(malloc, twenty_four_bytes_are_aligned_to_16, "lrmalloc-defect") {
  for (int i = 0; i < 5000; i++) CHECK_EQ((uintptr_t)malloc(launder_size(24)) % 16, 0u);
}

TEST(malloc, no_bytes_give_a_unique_pointer, "") {
  enum { N = 1000 };
  void *seen[N];
  for (int i = 0; i < N; i++) {
    seen[i] = i % 2 == 0 ? malloc(launder_size(0)) : calloc(launder_size(0), 10);
    CHECK(seen[i] != NULL);
    for (int k = 0; k < i; k++) CHECK_NE(seen[i], seen[k]);
  }
  for (int i = 0; i < N; i++) free(seen[i]);
}

TEST(malloc, no_bytes_of_a_block_of_none_can_be_read_or_written, "ours") {
  for (int kind = 0; kind < 4; kind++) {
    void *p = kind == 0   ? malloc(launder_size(0))
              : kind == 1 ? calloc(launder_size(0), 10)
              : kind == 2 ? aligned_alloc(16, launder_size(0))
                          : realloc(launder(NULL), launder_size(0));
    CHECK_EQ(malloc_usable_size(p), 0u);
    CHECK(faults(p, false) && faults(p, true));
    CHECK(faults((char *)p + 15, false) && faults((char *)p - 1, true));
    char *q = (char *)realloc(p, launder_size(100));
    memset(q, 1, 100);
    free(q);
  }
}

TEST(malloc, sizes_above_PTRDIFF_MAX_fail_at_once_with_ENOMEM, "") {
  for (size_t i = 0; i < COUNT(TOO_LARGE); i++) {
    size_t n = launder_size(TOO_LARGE[i]);
    errno = 0;
    CHECK_NULL(malloc(n));
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK_NULL(calloc(1, n));
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK_NULL(realloc(launder(NULL), n));
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK_NULL(valloc(n));
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK_NULL(pvalloc(n));
    CHECK_EQ(errno, ENOMEM);
    for (size_t a = 8; a <= ((size_t)1 << 30); a *= 2) {
      errno = 0;
      CHECK_NULL(aligned_alloc(a, n));
      CHECK_EQ(errno, ENOMEM);
      errno = 0;
      CHECK_NULL(memalign(a, n));
      CHECK_EQ(errno, ENOMEM);
      void *p = &p;
      CHECK_EQ(posix_memalign(&p, a, n), ENOMEM);
      CHECK_EQ(p, (void *)&p);
    }
  }
}

TEST(malloc, a_size_that_no_address_space_holds_fails_with_ENOMEM, "") {
  size_t n = launder_size((size_t)PTRDIFF_MAX);
  for (int shift = 0; shift < 16; shift++) { /* 2^63 - 1 down to 128 TiB */
    errno = 0;
    CHECK_NULL(malloc(n >> shift));
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK_NULL(aligned_alloc(1 << 30, n >> shift));
    CHECK_EQ(errno, ENOMEM);
  }
}

TEST(malloc, a_limit_on_the_address_space_gives_NULL_and_ENOMEM_and_the_process_goes_on, "") {
  void *before = malloc(1000);
  struct rlimit limit = {MiB_(300), MiB_(300)};
  CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  errno = 0;
  CHECK_NULL(malloc(launder_size(MiB_(400))));
  CHECK_EQ(errno, ENOMEM);
  errno = 0;
  CHECK_NULL(realloc(before, launder_size(MiB_(400))));
  CHECK_EQ(errno, ENOMEM);
  size_t small = 0;
  void *chain = NULL;
  errno = 0;
  for (void **p; (p = (void **)malloc(1000)) != NULL; small++) {
    *p = chain;
    chain = p;
  }
  CHECK_EQ(errno, ENOMEM);
  CHECK_GE(small * 1000, MiB_(150));
  for (void *next; chain != NULL; chain = next) {
    next = *(void **)chain;
    free(chain);
  }
  void *p = malloc(launder_size(MiB_(1)));
  CHECK(p != NULL);
  memset(p, 1, MiB_(1));
  free(p);
  free(before);
}

TEST(malloc, blocks_never_overlap_and_keep_their_contents, "") {
  enum { N = 4000, STEPS = 60000 };
  static struct {
    void *p;
    size_t n;
  } slot[N];
  uint64_t state = 88172645463325252u;
  for (int i = 0; i < STEPS; i++) {
    size_t k = random_next(&state) % N;
    if (slot[k].p != NULL) {
      if (!is_stamped(slot[k].p, slot[k].n, k))
        FAIL("block %p of %zu bytes has changed", slot[k].p, slot[k].n);
      free(slot[k].p);
    }
    slot[k].n = random_size(&state);
    slot[k].p = malloc(slot[k].n);
    CHECK(slot[k].p != NULL);
    stamp(slot[k].p, slot[k].n, k);
  }
  for (size_t k = 0; k < N; k++)
    if (slot[k].p != NULL) CHECK(is_stamped(slot[k].p, slot[k].n, k));
}

TEST(malloc, blocks_beyond_4_GiB_are_whole, "lrmalloc-defect") {
  static const size_t sizes[] = {((size_t)4 << 30) - 1, (size_t)4 << 30, ((size_t)4 << 30) + 1,
                                 ((size_t)5 << 30) + 12345, (size_t)9 << 30};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    size_t n = sizes[i];
    char *p = (char *)malloc(launder_size(n));
    if (p == NULL) SKIP("the system does not lend %zu bytes", n);
    CHECK_GE(malloc_usable_size(p), n);
    p[0] = 1, p[n / 2] = 2, p[n - 1] = 3;
    char *zero = (char *)calloc(launder_size(2), n / 2);
    if (zero == NULL) SKIP("the system does not lend twice %zu bytes", n);
    CHECK(zero[0] == 0 && zero[n / 3] == 0 && zero[n / 2 * 2 - 1] == 0);
    zero[n / 2 * 2 - 1] = 5;
    CHECK(p[0] == 1 && p[n - 1] == 3);
    free(zero);
    char *q = (char *)realloc(p, n + n / 4);
    if (q == NULL) SKIP("the system does not lend %zu bytes", n + n / 4);
    CHECK(q[0] == 1 && q[n / 2] == 2 && q[n - 1] == 3);
    q[n + n / 4 - 1] = 6;
    q = (char *)realloc(q, 100);
    CHECK(q != NULL && q[0] == 1);
    free(q);
  }
}

TEST(free, keeps_errno, "") {
  for (size_t i = 0; i < COUNT(BORDERS); i++) {
    void *p = malloc(launder_size(BORDERS[i]));
    CHECK(p != NULL);
    memset(p, 1, BORDERS[i]);
    errno = 12345;
    free(p);
    CHECK_EQ(errno, 12345);
  }
  free(launder(NULL));
  CHECK_EQ(errno, 12345);
}

TEST(free, takes_the_size_that_was_asked_for, "c23") {
  CHECK(free_sized != NULL);
  for (size_t n = 0; n <= 2000; n++) free_sized(malloc(launder_size(n)), n);
  for (size_t i = 0; i < COUNT(BORDERS); i++) {
    free_sized(malloc(launder_size(BORDERS[i])), BORDERS[i]);
    free_sized(calloc(1, launder_size(BORDERS[i])), BORDERS[i]);
    free_sized(realloc(malloc(10), launder_size(BORDERS[i] + 1)), BORDERS[i] + 1);
  }
  errno = 12345;
  free_sized(launder(NULL), 0);
  free_sized(launder(NULL), 100);
  CHECK_EQ(errno, 12345);
}

TEST(free, takes_alignment_and_size_that_were_asked_for, "c23") {
  CHECK(free_aligned_sized != NULL);
  for (size_t a = 8; a <= ((size_t)1 << 30); a *= 2) {
    for (size_t i = 0; i < COUNT(BORDERS); i++) {
      void *p = aligned_alloc(a, launder_size(BORDERS[i]));
      CHECK(p != NULL);
      free_aligned_sized(p, a, BORDERS[i]);
    }
  }
  free_aligned_sized(launder(NULL), 64, 100);
}

/* ---- calloc ---------------------------------------------------------------------------------- */

TEST(calloc, gives_zeros_after_any_recycling, "") {
  for (int round = 0; round < 4; round++) {
    for (size_t i = 0; i < COUNT(BORDERS); i++) {
      size_t n = BORDERS[i];
      int count = n > MiB_(2) ? 2 : 8;
      void *dirty[8];
      for (int k = 0; k < count; k++) {
        dirty[k] = round == 1 ? calloc(launder_size(1), n) : malloc(launder_size(n));
        CHECK(dirty[k] != NULL);
        memset(dirty[k], 0xAA, malloc_usable_size(dirty[k]));
      }
      for (int k = 0; k < count; k++) free(dirty[round == 2 ? count - 1 - k : k]);
      if (round == 3) malloc_trim(0);
      for (int k = 0; k < count; k++) {
        dirty[k] = calloc(launder_size(n), 1);
        CHECK(dirty[k] != NULL);
        CHECK_BYTES(dirty[k], 0, n);
        memset(dirty[k], 0xBB, n);
      }
      for (int k = 0; k < count; k++) free(dirty[k]);
    }
  }
}

TEST(calloc, gives_zeros_after_a_block_of_another_size_was_there, "") {
  uint64_t state = 4101842887655102017u;
  for (int i = 0; i < 20000; i++) {
    size_t n = random_size(&state), m = random_size(&state);
    void *p = malloc(n);
    CHECK(p != NULL);
    memset(p, 0xCC, malloc_usable_size(p));
    if (i % 3 == 0) p = realloc(p, m + 1);
    free(p);
    void *q = calloc(1, m);
    CHECK(q != NULL);
    CHECK_BYTES(q, 0, m);
    memset(q, 0xDD, m);
    free(q);
  }
}

TEST(calloc, refuses_products_that_overflow, "") {
  static const size_t pairs[][2] = {
    {SIZE_MAX, 2},         {2, SIZE_MAX},           {(size_t)1 << 32, (size_t)1 << 32},
    {SIZE_MAX / 2 + 1, 2}, {SIZE_MAX / 16 + 1, 16}, {SIZE_MAX, SIZE_MAX},
    {3, SIZE_MAX / 3 + 1}};
  for (size_t i = 0; i < COUNT(pairs); i++) {
    size_t a = launder_size(pairs[i][0]), b = launder_size(pairs[i][1]);
    errno = 0;
    CHECK_NULL(calloc(a, b));
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK_NULL(reallocarray(launder(NULL), a, b));
    CHECK_EQ(errno, ENOMEM);
    char *p = (char *)malloc(100);
    CHECK(p != NULL);
    stamp(p, 100, i);
    errno = 0;
    CHECK_NULL(reallocarray(p, a, b));
    CHECK_EQ(errno, ENOMEM);
    CHECK(is_stamped(p, 100, i));
    free(p);
  }
}

/* ---- realloc --------------------------------------------------------------------------------- */

TEST(realloc, keeps_the_common_prefix_between_any_two_sizes, "") {
  for (size_t i = 0; i < COUNT(BORDERS); i++) {
    for (size_t k = 0; k < COUNT(BORDERS); k++) {
      size_t from = BORDERS[i], to = BORDERS[k] == 0 ? 1 : BORDERS[k], kept = from < to ? from : to;
      void *p = malloc(launder_size(from));
      CHECK(p != NULL);
      stamp(p, from, i * 64 + k);
      p = realloc(p, to);
      CHECK(p != NULL);
      if (!is_prefix_stamped(p, kept, from, i * 64 + k))
        FAIL("realloc of %zu to %zu bytes lost contents", from, to);
      CHECK_GE(malloc_usable_size(p), to);
      stamp(p, malloc_usable_size(p), k);
      free(p);
    }
  }
}

TEST(realloc, copies_all_usable_bytes_of_the_old_block, "") {
  for (size_t i = 0; i < COUNT(BORDERS); i++) {
    char *p = (char *)malloc(launder_size(BORDERS[i]));
    size_t usable = malloc_usable_size(p);
    memset(p, 0x77, usable);
    p = (char *)realloc(p, usable * 2 + 100);
    CHECK(p != NULL);
    CHECK_BYTES(p, 0x77, usable);
    free(p);
  }
}

TEST(realloc, keeps_contents_while_it_grows_and_shrinks_in_small_steps, "") {
  for (size_t step = 1; step <= 100000; step = step * 7 + 3) {
    size_t n = 1, most = step * 200;
    char *p = (char *)malloc(1), *other = NULL;
    p[0] = 'x';
    while (n < most) {
      p = (char *)realloc(p, n + step);
      CHECK(p != NULL);
      memset(p + n, 'x', step);
      n += step;
      free(other);
      other = (char *)malloc(n % 5000); /* sometimes in the way */
    }
    CHECK_BYTES(p, 'x', n);
    while (n > step) {
      n -= step;
      p = (char *)realloc(p, n);
      CHECK(p != NULL);
      CHECK(p[0] == 'x' && p[n / 2] == 'x' && p[n - 1] == 'x');
    }
    CHECK_BYTES(p, 'x', n);
    free(p);
    free(other);
  }
}

TEST(realloc, leaves_the_block_intact_when_it_fails, "") {
  for (size_t i = 0; i < COUNT(BORDERS); i++) {
    size_t n = BORDERS[i];
    void *p = malloc(launder_size(n));
    stamp(p, n, 9);
    for (size_t k = 0; k < COUNT(TOO_LARGE); k++) {
      errno = 0;
      CHECK_NULL(realloc(p, launder_size(TOO_LARGE[k])));
      CHECK_EQ(errno, ENOMEM);
    }
    errno = 0;
    CHECK_NULL(realloc(p, launder_size((size_t)PTRDIFF_MAX)));
    CHECK_EQ(errno, ENOMEM);
    CHECK(is_stamped(p, n, 9));
    free(p);
  }
}

TEST(realloc, to_nothing_frees_and_of_nothing_allocates, "") {
  size_t before = resident_bytes();
  for (int i = 0; i < 3000; i++) {
    char *p = (char *)realloc(launder(NULL), launder_size(100000));
    CHECK(p != NULL);
    memset(p, 1, 100000);
    CHECK_NULL(realloc(p, launder_size(0)));
  }
  CHECK_LE(resident_bytes(), before + MiB_(40));
  void *p = realloc(launder(NULL), launder_size(0));
  CHECK(p != NULL);
  free(p);
}

TEST(realloc, keeps_the_contents_of_aligned_blocks, "") {
  for (size_t a = 8; a <= ((size_t)1 << 22); a *= 2) {
    for (size_t n = 1; n < 300000; n = n * 3 + 1) {
      void *p = aligned_alloc(a, launder_size(n));
      CHECK(p != NULL);
      stamp(p, n, a);
      void *q = realloc(p, n * 2);
      CHECK(q != NULL);
      if (!is_prefix_stamped(q, n, n, a)) FAIL("%zu bytes aligned to %zu lost contents", n, a);
      free(q);
    }
  }
}

TEST(realloc, array_form_multiplies, "") {
  int *p = NULL;
  for (size_t n = 1; n < 100000; n = n * 2 + 1) {
    p = (int *)reallocarray(p, n, sizeof *p);
    CHECK(p != NULL);
    CHECK_GE(malloc_usable_size(p), n * sizeof *p);
    p[n - 1] = (int)n;
    if (n > 1) CHECK_EQ(p[(n - 1) / 2 - 1], (int)((n - 1) / 2));
  }
  CHECK_NULL(reallocarray(p, launder_size(0), 10));
}

/* ---- alignment ------------------------------------------------------------------------------- */

static void check_aligned(void *p, size_t a, size_t n, const char *call) {
  if (p == NULL) FAIL("%s(%zu, %zu) failed with errno %d", call, a, n, errno);
  if ((uintptr_t)p % a != 0) FAIL("%s(%zu, %zu) is %p", call, a, n, p);
  size_t usable = malloc_usable_size(p);
  if (usable < n) FAIL("%s(%zu, %zu) has %zu usable bytes", call, a, n, usable);
  if (usable > 0) ((char *)p)[0] = ((char *)p)[usable / 2] = ((char *)p)[usable - 1] = 1;
  if (n >= 16) CHECK_EQ((uintptr_t)p % 16, 0u);
}

TEST(aligned, every_alignment_from_8_to_1_GiB_with_every_size, "lrmalloc-defect timeout=120") {
  static const size_t more[] = {MiB_(100) + 3, (size_t)1 << 30, ((size_t)1 << 30) + 1};
  for (size_t a = 8; a <= ((size_t)1 << 30); a *= 2) {
    for (size_t i = 0; i < COUNT(BORDERS) + COUNT(more); i++) {
      size_t n = launder_size(i < COUNT(BORDERS) ? BORDERS[i] : more[i - COUNT(BORDERS)]);
      void *p[3] = {aligned_alloc(a, n), memalign(a, n), NULL};
      check_aligned(p[0], a, n, "aligned_alloc");
      check_aligned(p[1], a, n, "memalign");
      CHECK_EQ(posix_memalign(&p[2], a, n), 0);
      check_aligned(p[2], a, n, "posix_memalign");
      CHECK(p[0] != p[1] && p[1] != p[2] && p[0] != p[2]);
      free(p[i % 3]);
      p[i % 3] = aligned_alloc(a, n);
      check_aligned(p[i % 3], a, n, "aligned_alloc");
      for (int k = 0; k < 3; k++) free(p[k]);
    }
  }
}

TEST(aligned, many_aligned_blocks_at_once_do_not_overlap, "") {
  enum { N = 3000 };
  static struct {
    void *p;
    size_t n;
  } slot[N];
  uint64_t state = 2685821657736338717u;
  for (size_t i = 0; i < N; i++) {
    size_t a = (size_t)8 << random_next(&state) % 14;
    slot[i].n = random_size(&state) % 50000;
    slot[i].p = aligned_alloc(a, slot[i].n);
    check_aligned(slot[i].p, a, slot[i].n, "aligned_alloc");
    stamp(slot[i].p, slot[i].n, i);
  }
  for (size_t i = 0; i < N; i++) {
    CHECK(is_stamped(slot[i].p, slot[i].n, i));
    free(slot[i].p);
  }
}

TEST(aligned, aligned_alloc_refuses_what_is_no_power_of_two_with_EINVAL, "") {
  static const size_t bad[] = {
    0, 3, 5, 6, 7, 9, 12, 24, 48, 100, 4095, 4097, SIZE_MAX, SIZE_MAX - 1, ((size_t)1 << 30) + 1};
  for (size_t i = 0; i < COUNT(bad); i++) {
    errno = 0;
    CHECK_NULL(aligned_alloc(launder_size(bad[i]), 100));
    CHECK_EQ(errno, EINVAL);
  }
  for (size_t a = 1; a <= 4; a *= 2) free(aligned_alloc(launder_size(a), 100));
}

TEST(aligned, alignments_above_1_GiB_are_refused, "") {
  for (int shift = 31; shift < 64; shift++) {
    void *p = &p;
    errno = 0;
    CHECK_NULL(aligned_alloc(launder_size((size_t)1 << shift), 100));
    CHECK(errno == EINVAL || errno == ENOMEM);
    errno = 0;
    CHECK_NULL(memalign(launder_size((size_t)1 << shift), 100));
    CHECK(errno == EINVAL || errno == ENOMEM);
    int error = posix_memalign(&p, launder_size((size_t)1 << shift), 100);
    CHECK(error == EINVAL || error == ENOMEM);
    CHECK_EQ(p, (void *)&p);
  }
}

TEST(aligned, posix_memalign_tells_by_its_result_and_touches_nothing_else_on_failure, "") {
  static const size_t bad[] = {0, 1, 2, 3, 4, 6, 7, 9, 12, 24, 40, 4097, SIZE_MAX, SIZE_MAX - 7};
  for (size_t i = 0; i < COUNT(bad); i++) {
    void *p = &p;
    errno = 12345;
    CHECK_EQ(posix_memalign(&p, launder_size(bad[i]), 100), EINVAL);
    CHECK_EQ(p, (void *)&p);
    CHECK_EQ(errno, 12345);
  }
  for (size_t i = 0; i < COUNT(TOO_LARGE); i++) {
    void *p = &p;
    errno = 12345;
    CHECK_EQ(posix_memalign(&p, 64, launder_size(TOO_LARGE[i])), ENOMEM);
    CHECK_EQ(p, (void *)&p);
    CHECK_EQ(errno, 12345);
  }
  void *p = NULL;
  errno = 12345;
  CHECK_EQ(posix_memalign(&p, 64, launder_size(0)), 0);
  CHECK(p != NULL); /* ours: a unique pointer, as malloc(0) */
  CHECK_EQ(errno, 12345);
  free(p);
}

TEST(aligned, memalign_rounds_or_refuses_what_is_no_power_of_two, "") {
  /* glibc rounds up, its manual says EINVAL: both are a contract */
  static const size_t odd[] = {3, 24, 100, 5000};
  for (size_t i = 0; i < COUNT(odd); i++) {
    errno = 0;
    void *p = memalign(launder_size(odd[i]), 100);
    size_t power = 1;
    while (power < odd[i]) power *= 2;
    if (p == NULL) CHECK_EQ(errno, EINVAL);
    else CHECK_EQ((uintptr_t)p % power, 0u);
    free(p);
  }
}

TEST(aligned, memalign_of_an_alignment_that_can_be_rounded_fails_only_for_lack_of_memory, "") {
  for (int shift = 29; shift < 63; shift++) {
    errno = 0;
    void *p = memalign(launder_size(((size_t)1 << shift) + 1), 100);
    if (p == NULL) CHECK_EQ(errno, ENOMEM);
    else CHECK_EQ((uintptr_t)p % ((size_t)2 << shift), 0u);
    free(p);
  }
  errno = 0;
  CHECK_NULL(memalign(launder_size(((size_t)1 << 63) + 1), 100));
  CHECK_EQ(errno, EINVAL);
}

TEST(aligned, valloc_and_pvalloc_give_whole_pages, "") {
  size_t page = page_size();
  for (size_t i = 0; i < COUNT(BORDERS); i++) {
    void *p = valloc(launder_size(BORDERS[i])), *q = pvalloc(launder_size(BORDERS[i]));
    check_aligned(p, page, BORDERS[i], "valloc");
    check_aligned(q, page, (BORDERS[i] + page - 1) / page * page, "pvalloc");
    memset(q, 1, (BORDERS[i] + page - 1) / page * page);
    free(p);
    free(q);
  }
}

/* ---- usable size ----------------------------------------------------------------------------- */

TEST(usable, all_of_it_may_be_written_and_neighbours_stay_as_they_are, "") {
  for (size_t n = 0; n < 3000; n = n < 600 ? n + 1 : n + 37) {
    enum { N = 12 };
    void *p[N];
    size_t usable[N];
    for (int i = 0; i < N; i++) {
      p[i] = i % 4 == 3 ? aligned_alloc(64, launder_size(n)) : malloc(launder_size(n));
      usable[i] = malloc_usable_size(p[i]);
      CHECK_GE(usable[i], n);
      memset(p[i], i + 1, usable[i]);
    }
    for (int i = 0; i < N; i++) CHECK_BYTES(p[i], i + 1, usable[i]);
    for (int i = 0; i < N; i++) free(p[i]);
  }
  for (size_t i = 0; i < COUNT(BORDERS); i++) {
    void *p = malloc(launder_size(BORDERS[i])), *q = malloc(launder_size(BORDERS[i]));
    memset(p, 1, malloc_usable_size(p));
    memset(q, 2, malloc_usable_size(q));
    CHECK_BYTES(p, 1, malloc_usable_size(p));
    free(p);
    free(q);
  }
}

TEST(usable, it_is_constant_for_the_life_of_a_block_and_zero_for_NULL, "") {
  enum { N = 500 };
  static void *p[N];
  static size_t usable[N];
  uint64_t state = 77;
  CHECK_EQ(malloc_usable_size(launder(NULL)), 0u);
  for (int i = 0; i < N; i++) {
    p[i] = malloc(random_size(&state));
    usable[i] = malloc_usable_size(p[i]);
  }
  for (int round = 0; round < 20000; round++) {
    void *q = malloc(random_size(&state));
    if (round % 100 == 0) malloc_trim(0);
    size_t i = (size_t)round % N;
    CHECK_EQ(malloc_usable_size(p[i]), usable[i]);
    free(q);
  }
}

TEST(usable, rounding_wastes_at_most_an_eighth_from_128_bytes_on, "Z2") {
  for (size_t n = 128; n <= 16384; n++) {
    void *p = malloc(launder_size(n));
    CHECK_LE(malloc_usable_size(p), n + n / 8);
    free(p);
  }
}

/* ---- the rest of glibc's names --------------------------------------------------------------- */

#if defined(__GLIBC__)
TEST(glibc, the_inner_names_answer_like_the_outer_ones, "") {
  CHECK(__libc_malloc != NULL && __libc_free != NULL && __libc_calloc != NULL &&
        __libc_realloc != NULL);
  CHECK(__libc_memalign != NULL && __libc_valloc != NULL && __libc_pvalloc != NULL);
  char *p = (char *)__libc_malloc(launder_size(100));
  CHECK(fh_owns != NULL && fh_owns(p));
  stamp(p, 100, 1);
  p = (char *)__libc_realloc(p, 10000);
  CHECK(p != NULL && fh_owns(p) && is_stamped(p, 100, 1));
  __libc_free(p);
  p = (char *)__libc_calloc(launder_size(10), 100);
  CHECK(fh_owns(p));
  CHECK_BYTES(p, 0, 1000);
  free(p);
  p = (char *)__libc_memalign(launder_size(1024), 100);
  CHECK(fh_owns(p) && (uintptr_t)p % 1024 == 0);
  free(p);
  p = (char *)__libc_valloc(launder_size(100));
  CHECK(fh_owns(p) && (uintptr_t)p % page_size() == 0);
  __libc_free(p);
  p = (char *)__libc_pvalloc(launder_size(100));
  CHECK(fh_owns(p) && (uintptr_t)p % page_size() == 0 && malloc_usable_size(p) >= page_size());
  free(p);
}

TEST(glibc, cfree_frees, "") {
  if (cfree == NULL) FAIL("cfree is missing");
  size_t before = resident_bytes();
  for (int i = 0; i < 3000; i++) {
    void *p = malloc(launder_size(100000));
    memset(p, 1, 100000);
    cfree(p);
  }
  CHECK_LE(resident_bytes(), before + MiB_(40));
}

TEST(glibc, every_pointer_that_libc_hands_out_is_ours, "") {
  CHECK(fh_owns != NULL);
  char *text = strdup("a line of text"), *line = NULL, *printed = NULL, *stream = NULL;
  size_t length = 0;
  CHECK(fh_owns(text));
  FILE *file = fmemopen(text, strlen(text), "r");
  CHECK(file != NULL && getline(&line, &length, file) > 0);
  fclose(file);
  CHECK(fh_owns(line));
  CHECK(asprintf(&printed, "%1000d", 5) == 1000 && fh_owns(printed));
  file = open_memstream(&stream, &length);
  for (int i = 0; i < 10000; i++) fprintf(file, "%d,", i);
  fclose(file);
  CHECK(fh_owns(stream) && length > 10000);
  char *path = realpath("/proc/self/..", NULL);
  CHECK(fh_owns(path));
  free(text), free(line), free(printed), free(stream), free(path);
}

TEST(glibc, mallinfo2_counts_the_blocks_of_freehold, "") {
  enum { N = 60000 };
  static void *p[N];
  struct mallinfo2 before = mallinfo2();
  for (int i = 0; i < N; i++) p[i] = malloc(launder_size(1000));
  void *huge = malloc(launder_size(MiB_(600)));
  struct mallinfo2 held = mallinfo2();
  CHECK_GE(held.uordblks + held.hblkhd,
           before.uordblks + before.hblkhd + (size_t)N * 1000 + MiB_(600));
  CHECK_EQ(held.hblks, before.hblks + 1);
  CHECK_GE(held.arena + held.hblkhd, (size_t)N * 1000 + MiB_(600));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo old = mallinfo();
#pragma GCC diagnostic pop
  CHECK_GE((size_t)(unsigned)old.uordblks + (size_t)(unsigned)old.hblkhd, (size_t)N * 1000);
  for (int i = 0; i < N; i++) free(p[i]);
  free(huge);
  struct mallinfo2 after = mallinfo2();
  CHECK_LE(after.uordblks + after.hblkhd, held.uordblks + held.hblkhd - (size_t)N * 900 - MiB_(64));
}

static char *write_info(void) {
  char *text = NULL;
  size_t length = 0;
  FILE *file = open_memstream(&text, &length);
  CHECK_EQ(malloc_info(0, file), 0);
  fclose(file);
  CHECK_GT(length, 0u);
  return text;
}

TEST(glibc, malloc_info_never_says_that_more_is_there_than_ever_was, "") {
  enum { BLOCKS = 200 };
  void *p[BLOCKS];
  unsigned long long current = 0, most = 0;
  for (int i = 0; i < BLOCKS; i++) p[i] = memset(malloc(64 << 10), 1, 64 << 10);
  for (int i = 0; i < BLOCKS; i += 2) free(p[i]);
  void *large = memset(malloc(8 << 20), 1, 8 << 20);
  for (int i = 1; i < BLOCKS; i += 2) free(p[i]);
  char *text = write_info();
  sscanf(strstr(text, "<system type=\"current\""), "<system type=\"current\" size=\"%llu",
         &current);
  sscanf(strstr(text, "<system type=\"max\""), "<system type=\"max\" size=\"%llu", &most);
  CHECK(current >= 8 << 20 && most >= current);
  free(text);
  free(large);
}

TEST(glibc, malloc_info_writes_well_formed_XML, "") {
  char *text = write_info();
  CHECK(test_matches("<malloc", text) && test_matches("</malloc>", text));
  long depth = 0; /* each tag closes, none closes twice */
  for (const char *c = text; (c = strchr(c, '<')) != NULL; c++) {
    const char *end = strchr(c, '>');
    CHECK(end != NULL);
    if (c[1] == '?' || c[1] == '!' || end[-1] == '/') continue;
    depth += c[1] == '/' ? -1 : 1;
    CHECK_GE(depth, 0);
  }
  CHECK_EQ(depth, 0);
  free(text);
  errno = 0;
  CHECK_NE(malloc_info(1, stderr), 0); /* no option is defined */
}

TEST(glibc, malloc_stats_writes_to_standard_error, "") {
  test_child_t child;
  if (test_fork(&child, 20)) {
    malloc_stats();
    _exit(0);
  }
  test_reap(&child);
  CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
  CHECK_GE(child.length, 20u);
}

TEST(glibc, malloc_trim_gives_memory_back, "") {
  enum { N = 1500 };
  static void *p[N];
  for (int i = 0; i < N; i++) memset(p[i] = malloc(launder_size(40000)), 1, 40000);
  size_t full = resident_bytes();
  for (int i = 0; i < N; i++) free(p[i]);
  int result = malloc_trim(0);
  CHECK(result == 0 || result == 1);
  CHECK_LE(resident_bytes(), full - (size_t)N * 40000 + MiB_(4));
}

/* The kernel does not take pages that are locked. */
TEST(glibc, malloc_trim_answers_whether_memory_went_back, "") {
  enum { LARGE = 300000 };
  char *p = (char *)malloc(launder_size(LARGE));
  memset(p, 1, LARGE);
  char *page = (char *)((uintptr_t)(p + LARGE / 2) & ~(uintptr_t)(page_size() - 1));
  if (mlock(page, page_size()) != 0) SKIP("no page may be locked here");
  malloc_trim(0);
  free(p);
  if (fh_owns == NULL || !fh_owns(p)) SKIP("another allocator may have unmapped it");
  CHECK_EQ(malloc_trim(0), 0);
  munlock(page, page_size());
  CHECK_EQ(malloc_trim(0), 1);
  CHECK_EQ(malloc_trim(0), 0);
}

TEST(glibc, malloc_trim_over_a_locked_page_leaves_all_free_blocks_usable, "") {
  enum { N = 4000, SIZE = 64 };
  static char *p[N];
  for (int i = 0; i < N; i++) p[i] = memset(malloc(launder_size(SIZE)), i, SIZE);
  char *slice = (char *)((uintptr_t)p[2500] & ~(uintptr_t)65535);
  if (mlock(slice + 7 * 4096 + 64, 32) != 0) return; /* a mapping of its own, in the middle */
  for (int i = 0; i < N; i++)
    if (i % 1000 != 7) free(p[i]);
  for (int i = 0; i < 3; i++) malloc_trim(0);
  for (int i = 0; i < N; i++)
    if (i % 1000 != 7) p[i] = memset(malloc(launder_size(SIZE)), i, SIZE);
  for (int i = 0; i < N; i++) CHECK_BYTES(p[i], i, SIZE);
  for (int i = 0; i < N; i++) free(p[i]);
  malloc_trim(0);
  munlock(slice, 65536);
}

/* What is mapped ahead is in memory at once then. */
TEST(glibc, a_program_that_locks_all_that_it_will_map_has_little_more_than_it_uses, "") {
  enum { N = 66 << 10, SIZE = 1000 };
  static char *p[N];
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) SKIP("memory may not be locked here");
  size_t before = resident_bytes();
  for (int i = 0; i < N; i++) CHECK((p[i] = (char *)malloc(launder_size(SIZE))) != NULL);
  CHECK_LE(resident_bytes() - before, (size_t)N * SIZE / 4 * 5 + MiB_(4));
  for (int i = 0; i < N; i++) free(p[i]);
  munlockall();
}

TEST(glibc, mallopt_takes_every_parameter_and_changes_no_contract, "") {
  static const int parameters[] = {
    M_MXFAST,       M_TRIM_THRESHOLD, M_TOP_PAD,    M_MMAP_THRESHOLD, M_MMAP_MAX,
    M_CHECK_ACTION, M_PERTURB,        M_ARENA_TEST, M_ARENA_MAX,      12345,
    -12345};
  static const int values[] = {0, 1, -1, 64, 1 << 20, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < COUNT(parameters); i++) {
    for (size_t k = 0; k < COUNT(values); k++) {
      int result = mallopt(parameters[i], values[k]);
      CHECK(result == 0 || result == 1);
      tour_everything();
    }
  }
}

/* A static program of glibc moves the break for its thread-local variables before
 * main; nothing moves it later. */
TEST(glibc, nothing_starts_the_heap_of_libc, "") {
  void *before = sbrk(0);
  tour_everything();
  mallinfo2();
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  malloc_trim(0);
  FILE *null = fopen("/dev/null", "w");
  malloc_info(0, null);
  fclose(null);
  CHECK_EQ(sbrk(0), before);
#ifndef LINKED_STATICALLY
  static char maps[1 << 20];
  read_file("/proc/self/maps", maps, sizeof maps);
  CHECK(strstr(maps, "[heap]") == NULL);
#endif
}
#endif
