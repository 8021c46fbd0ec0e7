/* attacks.c - the attacks in C: attack.h says how a case ends */
#include "attack.h"

/* ---- overflow and underflow ------------------------------------------------------------------ */

static void go_on(int after, size_t n, char *neighbour) {
  if (after == FREE) free(victim);
  if (after == NEIGHBOUR) free(neighbour);
  if (after == CALLS) work_on(n, 64);
}
static void overflow(const attack_t *a, size_t n) {
  set_up(n);
  write_bad(victim + n, a->by, a->how);
  go_on(a->after, n, NEXT);
}
static void underflow(const attack_t *a, size_t n) {
  set_up(n);
  write_bad_before(victim, a->by, a->how);
  go_on(a->after, n, PREVIOUS);
}
/* Behind all that the block says it has. */
static void overflow_usable(const attack_t *a, size_t n) {
  set_up(n);
  write_bad(victim + malloc_usable_size(victim), a->by, LOOP);
  go_on(a->after, n, NEXT);
}

static char text[MiB_(1) + 64];
/* The end of `text`, so long that with its zero byte it is `by` bytes too long. */
static const char *long_text(size_t n, size_t by) {
  memset(text, BAD, sizeof text - 1);
  return text + sizeof text - (n + by);
}
static void string_strcpy(const attack_t *a, size_t n) {
  set_up(n);
  strcpy((char *)launder(victim), (const char *)launder(long_text(n, a->by)));
  go_on(a->after, n, NEXT);
}
static void string_strcat(const attack_t *a, size_t n) {
  set_up(n);
  victim[n / 2] = '\0';
  memset(victim, BAD, n / 2);
  strcat((char *)launder(victim), (const char *)launder(long_text(n - n / 2, a->by)));
  go_on(a->after, n, NEXT);
}
static void string_sprintf(const attack_t *a, size_t n) {
  set_up(n);
  sprintf((char *)launder(victim), "%s", (const char *)launder(long_text(n, a->by)));
  go_on(a->after, n, NEXT);
}
/* A read behind the end: does it show what a neighbour holds? */
static void overread(const attack_t *a, size_t n) {
  set_up(n);
  const volatile char *at = (const volatile char *)launder(victim + n);
  bool seen = false;
  for (size_t i = 0; i < a->by; i++) seen |= at[i] == LIVE;
  end_if_gained(seen);
}

/* ---- use after free -------------------------------------------------------------------------- */

enum { START, MIDDLE, REUSE = 1 };

static void write_after_free(const attack_t *a, size_t n) {
  set_up(n);
  free(victim);
  write_bad(victim + (a->how == MIDDLE ? n / 2 / 8 * 8 : 0), a->by, LOOP);
  if (a->after == CALLS) work_on(n, TRIES);
  if (a->after == NEIGHBOUR) {
    for (int i = 0; i < BLOCKS; i++) {
      if (i != VICTIM) free(blocks[i]);
    }
  }
}
static void read_after_free(const attack_t *a, size_t n) {
  set_up(n);
  memset(victim, SECRET, n);
  free(victim);
  if (a->after == NEIGHBOUR) {
    free(PREVIOUS);
    free(NEXT);
  }
  if (a->after == CALLS) work_on(a->by, 64);
  end_if_gained(has_run_of(victim, n, SECRET));
}
/* Asks for blocks until one of them covers the freed one. */
static char *take_again(size_t n) {
  for (size_t i = 0; i < 100000 && i < MiB_(1024) / n; i++) {
    char *p = got(malloc(n));
    if (p <= victim && victim < p + n) return p;
  }
  return NULL;
}
static void read_of_the_next_owners(const attack_t *a, size_t n) {
  set_up(n);
  free(victim);
  if (a->after == CALLS) work_on(n, TRIES);
  char *p = take_again(n);
  if (p != NULL) memset(p, NEW, n);
  end_if_gained(p != NULL && has_run_of(victim, n, NEW));
}
static void write_to_the_next_owners(const attack_t *a, size_t n) {
  set_up(n);
  free(victim);
  if (a->after == CALLS) work_on(n, TRIES);
  char *p = take_again(n);
  if (p == NULL) prevented();
  memset(p, NEW, n);
  write_bad(victim + n / 2, 8, LOOP);
  end_if_gained(p[victim + n / 2 - p] == BAD);
}

/* ---- double free ----------------------------------------------------------------------------- */

static void double_free(const attack_t *a, size_t n) {
  set_up(n);
  free(victim);
  if (a->after == NEIGHBOUR) free(NEXT);
  if (a->after == CALLS) work_on(n, TRIES);
  if (a->how == REUSE) take_again(n);
  free(launder(victim));
}
static void double_free_in_batch(const attack_t *a, size_t n) {
  if (fh_free_batch == NULL) absent();
  set_up(n);
  void *twice[] = {victim, a->after == NEIGHBOUR ? NEXT : NULL, victim};
  fh_free_batch(twice, 3);
}
static void double_free_after_batch(const attack_t *a, size_t n) {
  (void)a;
  if (fh_free_batch == NULL) absent();
  set_up(n);
  void *both[] = {PREVIOUS, victim};
  fh_free_batch(both, 2);
  free(launder(victim));
}
static void double_free_after_1000(const attack_t *a, size_t n) {
  (void)a;
  static char *more[TRIES];
  for (int i = 0; i < TRIES; i++) more[i] = got(malloc(n));
  set_up(n);
  free(victim);
  for (int i = 0; i < TRIES; i++) free(more[i]);
  free(launder(victim));
}
static void *body_free(void *p) {
  free(p);
  return NULL;
}
static void free_elsewhere(void *p) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body_free, p) != 0) _exit(3);
  pthread_join(thread, NULL);
}
static void double_free_elsewhere(const attack_t *a, size_t n) {
  set_up(n);
  if (a->by == 1) free_elsewhere(victim);
  else free(victim);
  if (a->by == 2) free_elsewhere(victim);
  else free(launder(victim));
}
static void double_free_by_realloc(const attack_t *a, size_t n) {
  set_up(n);
  if (a->by == 0) {
    free(victim);
    got(realloc(launder(victim), n + n / 2));
  } else { /* it has moved, and the old pointer is freed */
    char *p = got(realloc(victim, n * 4 + 5000));
    if (p == victim) prevented();
    free(launder(victim));
  }
}

/* ---- pointers that are no block -------------------------------------------------------------- */

static char in_bss[256] __attribute__((aligned(64)));
static size_t fake[128] __attribute__((aligned(64)));

/* Memory that looks like a chunk of libc's: a small one, behind it the next one's header. */
static char *fake_chunk(size_t *at) {
  for (int i = 0; i < 128; i++) at[i] = 0;
  at[1] = 0x41; /* 64 bytes, and the one before it is in use */
  at[9] = 0x41;
  return (char *)&at[2];
}
static char *unmapped(void) {
  char *p = (char *)mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || munmap(p, 65536) != 0) _exit(3);
  return p + 16;
}
static char *mapped(void) {
  char *p = (char *)mmap(NULL, MiB_(4), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) _exit(3);
  return p + MiB_(1) + 16;
}
enum {
  INTERIOR,
  HALF,
  BLOCK_END,
  BEHIND_LAST,
  BEFORE_FIRST,
  IN_BSS,
  IN_TEXT,
  UNMAPPED,
  MAPPED,
  FAR,
  WILD,
  FAKE_IN_DATA
};

static char *no_block(int which, size_t by, size_t n) {
  size_t stride = (size_t)(NEXT - victim);
  switch (which) {
    case INTERIOR: return victim + by;
    case HALF: return victim + n / 2 / 16 * 16;
    case BLOCK_END: return victim + n;
    case BEHIND_LAST: return blocks[BLOCKS - 1] + stride;
    case BEFORE_FIRST: return blocks[0] - stride;
    case IN_BSS: return in_bss + 16;
    case IN_TEXT: return (char *)(uintptr_t)&body_free;
    case UNMAPPED: return unmapped();
    case MAPPED: return mapped();
    case FAR: return (char *)((uintptr_t)victim ^ ((uintptr_t)1 << 29)); /* half a GiB away */
    case WILD: return (char *)(uintptr_t)0x41414141410u;
    default: return fake_chunk(fake);
  }
}
static void invalid_free(const attack_t *a, size_t n) {
  set_up(n);
  char *p = no_block(a->how, a->by, n);
  free(launder(p));
}
static void invalid_realloc(const attack_t *a, size_t n) {
  set_up(n);
  char *p = no_block(a->how, a->by, n);
  got(realloc(launder(p), n * 2 + 64));
}
static void invalid_usable(const attack_t *a, size_t n) {
  set_up(n);
  char *p = no_block(a->how, a->by, n);
  (void)launder_size(malloc_usable_size(launder(p)));
}
static void usable_after_free(const attack_t *a, size_t n) {
  (void)a;
  set_up(n);
  free(victim);
  (void)launder_size(malloc_usable_size(launder(victim)));
}
/* What lies on the stack: plain bytes, or what looks like a chunk. */
enum { BY_FREE, BY_REALLOC, BY_USABLE };
static void stack_pointer(const attack_t *a, size_t n) {
  size_t here[128] __attribute__((aligned(64)));
  set_up(n);
  memset(here, LIVE, sizeof here);
  char *p = a->by == 0 ? (char *)&here[2] : fake_chunk(here);
  if (a->how == BY_FREE) free(launder(p));
  if (a->how == BY_REALLOC) got(realloc(launder(p), n));
  if (a->how == BY_USABLE) (void)launder_size(malloc_usable_size(launder(p)));
}

static void batch_interior(const attack_t *a, size_t n) {
  if (fh_free_batch == NULL) absent();
  set_up(n);
  void *inside[] = {NEXT, victim + a->by};
  fh_free_batch(inside, 2);
}

/* ---- the wrong size -------------------------------------------------------------------------- */

enum { SAME_CLASS, SMALLER, LARGER };
static size_t wrong(size_t n, int how) {
  switch (how) {
    case SAME_CLASS: return n - 1;
    case SMALLER: return n / 2;
    default: return n * 2;
  }
}
static void sized_free(const attack_t *a, size_t n) {
  if (free_sized == NULL) absent();
  set_up(n);
  free_sized(victim, wrong(n, a->how));
}
static void jemallocs_sized_free(const attack_t *a, size_t n) {
  if (sdallocx == NULL) absent();
  set_up(n);
  sdallocx(victim, wrong(n, a->how), 0);
}
static void zeroed_beyond(const attack_t *a, size_t n) {
  if (fh_realloc_zeroed == NULL) absent();
  set_up(n);
  size_t beyond = malloc_usable_size(victim) + a->by;
  got(fh_realloc_zeroed(victim, beyond, beyond * 2));
}
static void aligned_sized_free(const attack_t *a, size_t n) {
  if (free_aligned_sized == NULL) absent();
  set_up(n);
  char *p = got(aligned_alloc(64, (n + 63) / 64 * 64));
  if (a->by == 0) free_aligned_sized(p, 64, wrong((n + 63) / 64 * 64, a->how));
  else free_aligned_sized(p, a->by, (n + 63) / 64 * 64);
}

/* ---- blocks of no bytes ---------------------------------------------------------------------- */

enum { ZERO_MALLOC, ZERO_CALLOC, ZERO_REALLOC, ZERO_ALIGNED };
static char *of_no_bytes(int how) {
  size_t none = launder_size(0);
  switch (how) {
    case ZERO_MALLOC: return (char *)malloc(none);
    case ZERO_CALLOC: return (char *)calloc(none, 8);
    case ZERO_REALLOC: return (char *)realloc(launder(NULL), none);
    default: return (char *)aligned_alloc(64, none);
  }
}
static void zero_read(const attack_t *a, size_t n) {
  (void)n;
  (void)*(volatile char *)launder(of_no_bytes(a->how));
}
static void zero_write(const attack_t *a, size_t n) {
  (void)n;
  char *p = of_no_bytes(a->how);
  *(volatile char *)launder(p) = BAD;
  free(p);
}
static void zero_same(const attack_t *a, size_t n) {
  (void)n;
  char *p = of_no_bytes(a->how), *q = of_no_bytes(a->how);
  end_if_gained(p == q && p != NULL);
}

/* ---- what is in a block ---------------------------------------------------------------------- */

static void execute(const attack_t *a, size_t n) {
#if defined(__x86_64__)
  static const unsigned char code[] = {0xC3};
#elif defined(__aarch64__)
  static const unsigned char code[] = {0xC0, 0x03, 0x5F, 0xD6};
#else
  static const unsigned char code[] = {0};
  absent();
#endif
  (void)a;
  set_up(n);
  memcpy(victim, code, sizeof code);
  __builtin___clear_cache(victim, victim + sizeof code);
  ((void (*)(void))(uintptr_t)launder(victim))();
}
static void stale(const attack_t *a, size_t n) {
  size_t old = a->by > 0 ? a->by : n;
  set_up(n);
  char *p = got(malloc(old));
  memset(p, SECRET, old);
  free(p);
  if (a->after == CALLS) work_on(n, TRIES);
  size_t most = 2 * old / n;
  int count = most > (size_t)tries(n) ? (int)most : tries(n);
  for (int i = 0; i < count; i++) {
    if (has_run_of(got(a->how == 1 ? calloc(1, n) : malloc(n)), n, SECRET)) survived();
  }
  prevented();
}
/* realloc makes a block longer: does the new part show what another held? */
static void stale_growth(const attack_t *a, size_t n) {
  (void)a;
  set_up(n);
  memset(victim, SECRET, n);
  free(victim);
  for (int i = 0; i < tries(n); i++) {
    char *p = got(malloc(n / 2));
    memset(p, LIVE, n / 2);
    p = got(realloc(p, n));
    if (has_run_of(p + n / 2 - LINKS, n - n / 2 + LINKS, SECRET)) survived();
  }
  prevented();
}

/* ---- requests that no memory can hold -------------------------------------------------------- */

enum { OF_MALLOC, OF_CALLOC, OF_CALLOC_PRODUCT, OF_REALLOC, OF_REALLOCARRAY, OF_ALIGNED, OF_POSIX };
static void too_large(const attack_t *a, size_t n) {
  set_up(100);
  size_t size = launder_size(a->by == 0 ? (size_t)PTRDIFF_MAX + n : SIZE_MAX - n + 1);
  size_t count = launder_size(SIZE_MAX / n + 2); /* the product is small again */
  void *p = NULL;
  switch (a->how) {
    case OF_MALLOC: p = malloc(size); break;
    case OF_CALLOC: p = calloc(1, size); break;
    case OF_CALLOC_PRODUCT: p = calloc(count, n); break;
    case OF_REALLOC: p = realloc(victim, size); break;
    case OF_REALLOCARRAY: p = reallocarray(victim, count, n); break;
    case OF_ALIGNED: p = aligned_alloc(64, size / 64 * 64); break;
    default:
      if (posix_memalign(&p, 64, size) != 0) p = NULL;
  }
  end_if_gained(p != NULL);
}

/* ---- what stands beside blocks --------------------------------------------------------------- */

static void *page_aligned(size_t n) { return memalign(4096, n); }
static void beside_page_aligned(const attack_t *a, size_t n) {
  set_up_by(page_aligned, n);
  if (a->how == 0) write_bad(victim - a->by, a->by, LOOP);
  else write_bad(victim + malloc_usable_size(victim), a->by, LOOP);
  free(victim);
}
/* Of many blocks that which ends nearest to a multiple of 64 KiB: over that end, and behind it. */
static void over_the_end(const attack_t *a, size_t n) {
  enum { SLAB = 65536 };
  char *best = NULL;
  size_t gap = SLAB;
  for (size_t i = 0; i < 4 * SLAB / n; i++) {
    char *p = got(malloc(n));
    size_t left = (SLAB - (uintptr_t)(p + n) % SLAB) % SLAB;
    if (left < gap) gap = left, best = p;
  }
  write_bad(best + n, gap + a->by, LOOP);
  free(best);
  work_on(n, TRIES);
}
static void beside_huge(const attack_t *a, size_t n) {
  victim = got(malloc(n));
  if (a->how == 0) write_bad(victim - a->by, a->by, LOOP);
  else write_bad(victim + malloc_usable_size(victim), a->by, LOOP);
  free(victim);
}
/* Where a GiB begins that holds blocks: an allocator may keep its own words there. */
static void write_to_window(const attack_t *a, size_t n) {
  set_up(n);
  char *window = (char *)((uintptr_t)victim & ~(((uintptr_t)1 << 30) - 1));
  write_bad(window, a->by, LOOP);
  go_on(FREE, n, NULL);
  work_on(n, 64);
}
/* A freed block's first word is taken for a link: does malloc hand out what it is made to mean? */
static void forged_link(const attack_t *a, size_t n) {
  set_up(n);
  char *target = fake_chunk(fake);
  free(NEXT);
  free(victim);
  volatile uintptr_t *link = (volatile uintptr_t *)launder(victim);
  /* by the address, or by what makes NEXT's address into it, however the link is coded */
  *link = a->how == 0 ? (uintptr_t)target : *link ^ (uintptr_t)NEXT ^ (uintptr_t)target;
  for (int round = 0; round < 3; round++) {
    static char *more[TRIES];
    for (int i = 0; i < TRIES; i++) {
      more[i] = got(malloc(n));
      if (more[i] == target) survived();
    }
    for (int i = 0; i < TRIES; i++) free(more[i]);
  }
  prevented();
}

/* ---- the cases ------------------------------------------------------------------------------- */

/* clang-format off */
#define WAYS(name, run, by)                                                                        \
  {name "-loop-free", run, by, LOOP, FREE}, {name "-loop-neighbour", run, by, LOOP, NEIGHBOUR},    \
  {name "-loop-calls", run, by, LOOP, CALLS}, {name "-memcpy-free", run, by, MEMCPY, FREE},        \
  {name "-memcpy-neighbour", run, by, MEMCPY, NEIGHBOUR},                                          \
  {name "-memcpy-calls", run, by, MEMCPY, CALLS}
#define WRITES(by)                                                                                 \
  {"write-" #by "-start-exit", write_after_free, by, START, NOTHING},                              \
  {"write-" #by "-start-calls", write_after_free, by, START, CALLS},                               \
  {"write-" #by "-start-frees", write_after_free, by, START, NEIGHBOUR},                           \
  {"write-" #by "-middle-exit", write_after_free, by, MIDDLE, NOTHING},                            \
  {"write-" #by "-middle-calls", write_after_free, by, MIDDLE, CALLS},                             \
  {"write-" #by "-middle-frees", write_after_free, by, MIDDLE, NEIGHBOUR}
/* clang-format on */

static const attack_t attacks[] = {
  WAYS("overflow-1", overflow, 1),
  WAYS("overflow-8", overflow, 8),
  WAYS("overflow-32", overflow, 32),
  WAYS("overflow-1M", overflow, MiB_(1)),
  {"overflow-usable-1-free", overflow_usable, 1, ANY, FREE},
  {"overflow-usable-1-neighbour", overflow_usable, 1, ANY, NEIGHBOUR},
  {"overflow-usable-8-free", overflow_usable, 8, ANY, FREE},
  {"overflow-usable-8-neighbour", overflow_usable, 8, ANY, NEIGHBOUR},
  {"string-strcpy-1", string_strcpy, 1, ANY, FREE},
  {"string-strcpy-16", string_strcpy, 16, ANY, FREE},
  {"string-strcpy-16-neighbour", string_strcpy, 16, ANY, NEIGHBOUR},
  {"string-strcat-16", string_strcat, 16, ANY, FREE},
  {"string-sprintf-1", string_sprintf, 1, ANY, FREE},
  {"string-sprintf-16", string_sprintf, 16, ANY, FREE},
  {"string-sprintf-16-neighbour", string_sprintf, 16, ANY, NEIGHBOUR},
  {"overread-64", overread, 64, ANY, NOTHING},
  {"overread-64K", overread, 65536, ANY, NOTHING},

  WAYS("underflow-1", underflow, 1),
  WAYS("underflow-8", underflow, 8),
  WAYS("underflow-32", underflow, 32),
  WAYS("underflow-1M", underflow, MiB_(1)),

  WRITES(1),
  WRITES(8),
  {"write-to-the-next-owners", write_to_the_next_owners, 0, ANY, NOTHING},
  {"write-to-the-next-owners-after-calls", write_to_the_next_owners, 0, ANY, CALLS},
  {"read-at-once", read_after_free, 0, ANY, NOTHING},
  {"read-after-frees", read_after_free, 0, ANY, NEIGHBOUR},
  {"read-after-other-calls", read_after_free, 200, ANY, CALLS},
  {"read-of-the-next-owners", read_of_the_next_owners, 0, ANY, NOTHING},
  {"read-of-the-next-owners-after-calls", read_of_the_next_owners, 0, ANY, CALLS},

  {"double-at-once", double_free, 0, ANY, NOTHING},
  {"double-another-between", double_free, 0, ANY, NEIGHBOUR},
  {"double-after-reuse", double_free, 0, REUSE, NOTHING},
  {"double-after-calls-and-reuse", double_free, 0, REUSE, CALLS},
  {"double-in-batch", double_free_in_batch, 0, ANY, NOTHING},
  {"double-in-batch-another-between", double_free_in_batch, 0, ANY, NEIGHBOUR},
  {"double-after-batch", double_free_after_batch, 0, ANY, NOTHING},
  {"double-after-1000-frees", double_free_after_1000, 0, ANY, NOTHING},
  {"double-elsewhere-first", double_free_elsewhere, 1, ANY, NOTHING},
  {"double-elsewhere-second", double_free_elsewhere, 2, ANY, NOTHING},
  {"double-realloc-after-free", double_free_by_realloc, 0, ANY, NOTHING},
  {"double-free-after-realloc", double_free_by_realloc, 1, ANY, NOTHING},

  {"free-batch-interior-1", batch_interior, 1, 0, 0},
  {"free-batch-interior-16", batch_interior, 16, 0, 0},
  {"free-interior-1", invalid_free, 1, INTERIOR, 0},
  {"free-interior-8", invalid_free, 8, INTERIOR, 0},
  {"free-interior-16", invalid_free, 16, INTERIOR, 0},
  {"free-middle", invalid_free, 0, HALF, 0},
  {"free-end", invalid_free, 0, BLOCK_END, 0},
  {"free-behind-the-last", invalid_free, 0, BEHIND_LAST, 0},
  {"free-before-the-first", invalid_free, 0, BEFORE_FIRST, 0},
  {"free-stack", stack_pointer, 0, BY_FREE, 0},
  {"free-global", invalid_free, 0, IN_BSS, 0},
  {"free-code", invalid_free, 0, IN_TEXT, 0},
  {"free-unmapped", invalid_free, 0, UNMAPPED, 0},
  {"free-mapped", invalid_free, 0, MAPPED, 0},
  {"free-half-a-GiB-away", invalid_free, 0, FAR, 0},
  {"free-wild", invalid_free, 0, WILD, 0},
  {"free-fake-chunk-on-stack", stack_pointer, 1, BY_FREE, 0},
  {"free-fake-chunk-in-data", invalid_free, 0, FAKE_IN_DATA, 0},

  {"realloc-stack", stack_pointer, 0, BY_REALLOC, 0},
  {"realloc-fake-chunk-on-stack", stack_pointer, 1, BY_REALLOC, 0},
  {"realloc-global", invalid_realloc, 0, IN_BSS, 0},
  {"realloc-interior-16", invalid_realloc, 16, INTERIOR, 0},
  {"realloc-mapped", invalid_realloc, 0, MAPPED, 0},
  {"realloc-behind-the-last", invalid_realloc, 0, BEHIND_LAST, 0},
  {"usable-freed", usable_after_free, 0, ANY, NOTHING},
  {"usable-stack", stack_pointer, 0, BY_USABLE, 0},
  {"usable-global", invalid_usable, 0, IN_BSS, 0},
  {"usable-interior-16", invalid_usable, 16, INTERIOR, 0},
  {"usable-mapped", invalid_usable, 0, MAPPED, 0},

  {"sized-same-class", sized_free, 0, SAME_CLASS, 0},
  {"sized-smaller", sized_free, 0, SMALLER, 0},
  {"sized-larger", sized_free, 0, LARGER, 0},
  {"sized-jemalloc-same-class", jemallocs_sized_free, 0, SAME_CLASS, 0},
  {"sized-jemalloc-smaller", jemallocs_sized_free, 0, SMALLER, 0},
  {"sized-jemalloc-larger", jemallocs_sized_free, 0, LARGER, 0},
  {"sized-zeroed-beyond", zeroed_beyond, 1, 0, 0},
  {"sized-aligned-smaller", aligned_sized_free, 0, SMALLER, 0},
  {"sized-aligned-larger", aligned_sized_free, 0, LARGER, 0},
  {"sized-aligned-alignment", aligned_sized_free, 4096, 0, 0},

  {"zero-malloc-read", zero_read, 0, ZERO_MALLOC, 0},
  {"zero-malloc-write", zero_write, 0, ZERO_MALLOC, 0},
  {"zero-malloc-same", zero_same, 0, ZERO_MALLOC, 0},
  {"zero-calloc-read", zero_read, 0, ZERO_CALLOC, 0},
  {"zero-calloc-write", zero_write, 0, ZERO_CALLOC, 0},
  {"zero-calloc-same", zero_same, 0, ZERO_CALLOC, 0},
  {"zero-realloc-read", zero_read, 0, ZERO_REALLOC, 0},
  {"zero-realloc-write", zero_write, 0, ZERO_REALLOC, 0},
  {"zero-realloc-same", zero_same, 0, ZERO_REALLOC, 0},
  {"zero-aligned-read", zero_read, 0, ZERO_ALIGNED, 0},
  {"zero-aligned-write", zero_write, 0, ZERO_ALIGNED, 0},
  {"zero-aligned-same", zero_same, 0, ZERO_ALIGNED, 0},

  {"execute", execute, 0, ANY, NOTHING},
  {"stale-malloc", stale, 0, 0, NOTHING},
  {"stale-malloc-after-calls", stale, 0, 0, CALLS},
  {"stale-calloc", stale, 0, 1, 0},
  {"stale-of-a-larger-block", stale, 120000, 0, 0},
  {"stale-growth", stale_growth, 0, 0, 0},

  {"too-large-malloc", too_large, 0, OF_MALLOC, 0},
  {"too-large-malloc-wraps", too_large, 1, OF_MALLOC, 0},
  {"too-large-calloc", too_large, 0, OF_CALLOC, 0},
  {"too-large-calloc-product", too_large, 0, OF_CALLOC_PRODUCT, 0},
  {"too-large-realloc", too_large, 0, OF_REALLOC, 0},
  {"too-large-realloc-wraps", too_large, 1, OF_REALLOC, 0},
  {"too-large-reallocarray", too_large, 0, OF_REALLOCARRAY, 0},
  {"too-large-aligned", too_large, 0, OF_ALIGNED, 0},
  {"too-large-aligned-wraps", too_large, 1, OF_ALIGNED, 0},
  {"too-large-posix_memalign", too_large, 1, OF_POSIX, 0},

  {"before-page-aligned", beside_page_aligned, 8, 0, 0},
  {"behind-page-aligned", beside_page_aligned, 8, 1, 0},
  {"over-the-end-of-a-slab", over_the_end, 64, ANY, NOTHING},
  {"over-the-end-of-a-slab-by-1M", over_the_end, MiB_(1), ANY, NOTHING},
  {"write-to-the-window", write_to_window, 65536, ANY, NOTHING},
  {"forged-link", forged_link, 0, 0, 0},
  {"forged-link-coded", forged_link, 0, 1, 0},
  {"before-huge", beside_huge, 8, 0, 0},
  {"behind-huge", beside_huge, 8, 1, 0},
};

int main(int argc, char **argv) {
  return attack_main(argc, argv, attacks, sizeof attacks / sizeof attacks[0]);
}
