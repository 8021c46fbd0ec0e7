/* limits_probe.c - a program that the limits tests start under limits, failing system
 * calls and other C libraries
 *
 * limits_probe small | mixed | threads | first | maps | grow | filled | crowd | hoard | others |
 *              most | mapped | together | again | shrink
 *     Exit code 0: every call either worked or gave NULL with ENOMEM, and no block lost its
 *     contents. It does not need test.h: it is also built static, static-pie and with musl. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static unsigned refused; /* calls that gave NULL and ENOMEM */

static void say(const char *text) {
  if (write(2, text, strlen(text)) < 0) _exit(3);
}
static void *must_be_honest(void *p, const char *call) {
  if (p != NULL) return p;
  if (errno != ENOMEM) {
    say(call);
    say(" gave NULL without ENOMEM\n");
    _exit(1);
  }
  __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
  return NULL;
}

enum { SLOTS = 300 };
typedef struct {
  unsigned char *p[SLOTS];
  size_t n[SLOTS];
} table_t;
static void check(const table_t *t, size_t k) {
  if (t->p[k] == NULL || t->n[k] == 0) return;
  if (t->p[k][0] == (unsigned char)k && t->p[k][t->n[k] - 1] == (unsigned char)k &&
      t->p[k][t->n[k] / 2] == (unsigned char)k)
    return;
  say("a block has changed\n");
  _exit(2);
}
static void put(table_t *t, size_t k, void *p, size_t n) {
  t->p[k] = (unsigned char *)p;
  t->n[k] = n;
  if (p != NULL && n > 0) t->p[k][0] = t->p[k][n / 2] = t->p[k][n - 1] = (unsigned char)k;
}

/* A block becomes smaller while there is no memory for another. */
static void shrink(void) {
  static const size_t from[] = {20000, 200000, 2000000, 5000000, 40000000};
  for (size_t i = 0; i < sizeof from / sizeof *from; i++)
    for (size_t to = from[i] - 1; to > 0; to /= 10) {
      unsigned char *p = malloc(from[i]);
      void **all = NULL;
      if (p == NULL) say("too little for the test\n"), _exit(1);
      p[0] = 7;
      bool is_exact = malloc_usable_size(p) == from[i]; /* secure grade */
      for (size_t size = 1 << 20; size >= 16; size /= 2)
        for (void **more; (more = malloc(size)) != NULL; all = more) *more = all;
      unsigned char *smaller = realloc(p, to);
      if (smaller == NULL || smaller[0] != 7) say("a block did not become smaller\n"), _exit(1);
      if (is_exact && malloc_usable_size(smaller) != to) say("it has another size\n"), _exit(1);
      free(smaller);
      for (void **next; all != NULL; all = next) {
        next = *all;
        free(all);
      }
    }
}

/* All sorts of calls of all sorts of sizes; `most` bounds a block. */
static void mix(table_t *t, uint64_t seed, int steps, size_t most) {
  uint64_t x = seed * 2 + 1;
  for (int i = 0; i < steps; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    size_t k = x >> 33 & 0xFF, n = x >> 20 & 0x1FF;
    if (x >> 60 == 0) n = (x >> 10) % most;
    else if (x >> 60 < 4) n *= 40;
    void *p;
    check(t, k);
    switch (x >> 57 & 7) {
      case 0:
        p = t->p[k] == NULL ? NULL : must_be_honest(realloc(t->p[k], n + 1), "realloc");
        if (p != NULL) put(t, k, p, n + 1);
        else check(t, k);
        break;
      case 1:
        free(t->p[k]);
        p = must_be_honest(aligned_alloc((size_t)16 << (x >> 50 & 7), n), "aligned_alloc");
        put(t, k, p, n);
        break;
      case 2:
        free(t->p[k]);
        p = must_be_honest(calloc(1, n), "calloc");
        for (size_t b = 0; p != NULL && b < n; b++)
          if (((unsigned char *)p)[b] != 0) {
            say("calloc gave dirt\n");
            _exit(2);
          }
        put(t, k, p, n);
        break;
      default: free(t->p[k]); put(t, k, must_be_honest(malloc(n), "malloc"), n);
    }
  }
  for (size_t k = 0; k < SLOTS; k++) {
    check(t, k);
    free(t->p[k]);
    put(t, k, NULL, 0);
  }
}

static void *body(void *argument) {
  static __thread table_t table;
  mix(&table, (uintptr_t)argument, 4000, 400000);
  return NULL;
}
static void threads(unsigned count) {
  pthread_t thread[16];
  unsigned started = 0;
  for (; started < count; started++)
    if (pthread_create(&thread[started], NULL, body, (void *)(uintptr_t)started) != 0) break;
  for (unsigned i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

static table_t table;
static void small(void) {
  mix(&table, 1, 1500, 100000);
  void *p = must_be_honest(malloc((size_t)70 << 20), "malloc of 70 MiB");
  void *q = p == NULL ? NULL : must_be_honest(realloc(p, (size_t)140 << 20), "realloc to 140 MiB");
  if (q != NULL) p = q;
  q = p == NULL ? NULL : must_be_honest(realloc(p, (size_t)30 << 20), "realloc to 30 MiB");
  if (q != NULL) p = q;
  free(p);
  free(must_be_honest(aligned_alloc((size_t)64 << 20, 100), "aligned_alloc of 64 MiB"));
}

/* First use of the allocator in several threads and in handlers at once. Under musl starting a
 * thread allocates nothing. */
static int arrived;
static void handler(int signal) {
  (void)signal;
  char *p = (char *)malloc(77);
  if (p == NULL) _exit(4);
  memset(p, 5, 77);
  free(p);
}
static void *first_body(void *argument) {
  table_t *t = (table_t *)argument;
  __atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < 5) {}
  put(t, 1, malloc(100), 100);
  put(t, 2, malloc(100), 100);
  put(t, 3, malloc(100000), 100000);
  return NULL;
}
static void first(void) {
  static table_t tables[4];
  pthread_t thread[4];
  signal(SIGUSR1, handler);
  for (int i = 0; i < 4; i++)
    if (pthread_create(&thread[i], NULL, first_body, &tables[i]) != 0) _exit(5);
  while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < 4) {}
  __atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL);
  for (int i = 0; i < 4; i++) pthread_kill(thread[i], SIGUSR1);
  raise(SIGUSR1);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 4; i++) {
    for (size_t k = 1; k <= 3; k++) {
      check(&tables[i], k);
      for (int other = 0; other < i; other++)
        if (tables[other].p[k] == tables[i].p[k]) _exit(6);
      free(tables[i].p[k]);
    }
  }
}

/* Half of a heap of mixed sizes is freed at random, several times over; then the
 * mappings are counted. */
static unsigned count_maps(void) {
  static char line[4096];
  unsigned count = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) count++;
  if (maps != NULL) fclose(maps);
  return count;
}
static void maps(void) {
  enum { N = 100000 };
  static void *p[N];
  uint64_t x = 9;
  unsigned most = 0;
  for (int round = 0; round < 6; round++) {
    for (int i = 0; i < N; i++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      if (p[i] != NULL && x >> 63) free(p[i]), p[i] = NULL;
      size_t most = i % 1000 == 3 ? 3000000 : i % 50 == 7 ? 60000 : 600, n = (x >> 30) % most;
      if (p[i] == NULL && (p[i] = malloc(n)) != NULL) memset(p[i], 1, n);
    }
    unsigned now = count_maps();
    if (now > most) most = now;
    usleep(80000); /* longer than memory waits before it goes back */
  }
  threads(8);
  for (int i = 0; i < N; i += 2) free(p[i]), p[i] = NULL;
  usleep(80000);
  for (int i = 0; i < 2000; i++) free(malloc(3000));
  unsigned now = count_maps();
  printf("%u\n", now > most ? now : most);
}

static const size_t MiB = (size_t)1 << 20;
static void must(const void *p, const char *what) {
  if (p != NULL) return;
  say(what);
  _exit(7);
}
static void mark_pages(unsigned char *p, size_t from, size_t to) {
  for (size_t i = from; i < to; i += MiB) p[i] = (unsigned char)(i / MiB % 255 + 1);
}
static void check_pages(const unsigned char *p, size_t size) {
  for (size_t i = 0; i < size; i += MiB)
    if (p[i] != i / MiB % 255 + 1) _exit(2);
}
/* Big blocks, one of them below half a GiB at first, that grow past each other. The limit has room
 * for what is missing, not for the old place and the new one. */
static void grow(void) {
  unsigned char *p[2];
  size_t size[2] = {300 * MiB, 1500 * MiB};
  for (int i = 0; i < 2; i++) {
    must(p[i] = (unsigned char *)malloc(size[i]), "malloc failed\n");
    mark_pages(p[i], 0, size[i]);
  }
  for (int step = 0; step < 6; step++) {
    int i = step % 2;
    size_t more = i == 0 ? 350 * MiB : 230 * MiB;
    void *q = realloc(p[i], size[i] + more);
    must(q, "realloc failed\n");
    p[i] = (unsigned char *)q;
    check_pages(p[i], size[i]);
    mark_pages(p[i], size[i], size[i] + more);
    size[i] += more;
  }
  for (int i = 0; i < 2; i++) free(p[i]);
}

/* All addresses but 256 GiB are somebody else's: vectors grow, and big blocks find most of the
 * rest. */
static void filled(void) {
  enum { VECTORS = 60, BLOCKS = 150 };
  static unsigned char *p[VECTORS], *q[BLOCKS];
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *hole = mmap(NULL, 262144 * MiB, PROT_NONE, flags, -1, 0);
  if (hole == MAP_FAILED) _exit(8);
  for (size_t size = (size_t)1 << 47; size >= MiB; size /= 2)
    while (mmap(NULL, size, PROT_NONE, flags, -1, 0) != MAP_FAILED) {}
  munmap(hole, 262144 * MiB);
  for (size_t size = 4096; size <= 2 * MiB; size += size / 4)
    for (int i = 0; i < VECTORS; i++) {
      must(p[i] = (unsigned char *)realloc(p[i], size), "realloc failed\n");
      p[i][size - 1] = 1;
    }
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < BLOCKS; i++)
      must(q[i] = (unsigned char *)malloc(600 * MiB), "malloc failed\n");
    for (int i = 0; i < BLOCKS; i++) free(q[i]);
    for (int i = 0; i < 30; i++)
      must(q[i] = (unsigned char *)malloc(4000 * MiB), "malloc failed\n");
    for (int i = 0; i < 30; i++) free(q[i]);
  }
}

/* Threads that reach the limit again and again, at once: how much is left of it for others. */
static size_t count_mebibytes(void) {
  enum { MOST = 4096 };
  static void *blocks[MOST];
  size_t n = 0, count;
  while (n < MOST && (blocks[n] = malloc(1 << 20)) != NULL) n++;
  for (count = n; n > 0;) free(blocks[--n]);
  return count;
}

static volatile bool crowd_begins;
static void *crowd_body(void *number) {
  enum { BLOCKS = 32, CALLS = 12000, LEAST = 1 << 20, SPREAD = 39 << 20 };
  char *blocks[BLOCKS] = {NULL};
  while (!crowd_begins) usleep(1000);
  uint64_t random = (uintptr_t)number * 2654435761u + 88172645463325252u;
  for (int i = 0; i < CALLS; i++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    char **block = &blocks[random % BLOCKS];
    free(*block);
    *block = *block != NULL ? NULL : malloc(LEAST + (random >> 8) % SPREAD);
    if (*block != NULL) **block = 1;
  }
  for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
  return NULL;
}

static void crowd(void) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 65536);
  for (size_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], &attributes, crowd_body, (void *)(i + 1)) != 0) _exit(3);
  size_t before = count_mebibytes();
  crowd_begins = true;
  for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  size_t after = count_mebibytes();
  fprintf(stderr, "%zu MiB before, %zu after\n", before, after);
  if (after * 100 < before * 98) _exit(1);
}

/* Threads take blocks of 1 MiB until they get NULL: how many there were at the first, and at last.
 * It is for address spaces that end: 32 bits, or a limit. */
static size_t taken, at_first;
static void *take_until_null(void *unused) {
  while (!crowd_begins) usleep(1000);
  while (malloc(1 << 20) != NULL) __atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
  size_t none = 0, now = __atomic_load_n(&taken, __ATOMIC_RELAXED);
  __atomic_compare_exchange_n(&at_first, &none, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return unused;
}

static void together(size_t count) {
  pthread_t threads[count];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 65536);
  for (size_t i = 0; i < count; i++)
    if (pthread_create(&threads[i], &attributes, take_until_null, NULL) != 0) _exit(3);
  crowd_begins = true;
  for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
  fprintf(stderr, "%zu blocks at the first NULL, %zu at last\n", at_first, taken);
}

/* What is free stays free where the system would not give it again: the limit is lower than what is
 * mapped. */
static void hoard(void) {
  enum { BLOCKS = 200, LEFT = 150 };
  static char *blocks[BLOCKS];
  struct rlimit limit = {100 << 20, RLIM_INFINITY};
  for (int i = 0; i < BLOCKS; i++) blocks[i] = memset(malloc(1 << 20), 1, 1 << 20);
  for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
  char *small = malloc(1 << 20);
  if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(3);
  for (int i = 0; i < 100; i++)
    if (malloc(400 << 20) != NULL) _exit(4);
  small = realloc(small, 2 << 20);
  if (small == NULL) _exit(5);
  size_t n = 0;
  while (n < LEFT && (blocks[n] = malloc(1 << 20)) != NULL) n++;
  fprintf(stderr, "%zu blocks of %d\n", n, LEFT);
  if (n < LEFT) _exit(1);
}

int malloc_trim(size_t pad); /* freehold has it with every libc */

/* What was trimmed is free for what does not come from malloc. */
static void others(void) {
  enum { BLOCKS = 60 };
  static char *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) blocks[i] = memset(malloc(10 << 20), 1, 10 << 20);
  for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
  malloc_trim(0);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (mmap(NULL, 560 << 20, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) _exit(1);
}

/* As much as there is, and after all calls were refused as much again. */
static void most(void) {
  size_t first = count_mebibytes(), second = count_mebibytes();
  printf("%zu %zu\n", first, second);
  fflush(stdout);
}

/* Blocks of 200,000 bytes until there are no more, in turns: nothing is lost. The secure grade
 * closes fewer pages in the later turns, and what it leaves open counts: so from the tenth on. */
static void again(void) {
  enum { MOST = 1 << 13, SIZE = 200000, TURNS = 30 };
  static char *blocks[MOST];
  size_t tenth = 0, n = 0;
  for (int turn = 1; turn <= TURNS; turn++) {
    for (n = 0; n < MOST && (blocks[n] = malloc(SIZE)) != NULL; n++) blocks[n][0] = 1;
    for (size_t i = 0; i < n; i++) free(blocks[i]);
    if (turn == 10) tenth = n;
  }
  fprintf(stderr, "%zu blocks in the tenth turn, %zu in the last\n", tenth, n);
  if (tenth < 50 || n * 10 < tenth * 9) _exit(1);
}

/* All mappings that the kernel allows a process are somebody else's, then half of them. */
static void mapped(void) {
  enum { MOST = 1 << 17 };
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void **pages = mmap(NULL, MOST * sizeof *pages, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (pages == MAP_FAILED) _exit(8);
  size_t n = 0;
  mix(&table, 2, 2000, 100000);
  while (n < MOST) { /* neighbours that the kernel cannot make one */
    void *page = mmap(NULL, 4096, n % 2 == 0 ? PROT_READ : PROT_NONE, flags, -1, 0);
    if (page == MAP_FAILED) break;
    pages[n++] = page;
  }
  if (n == MOST) _exit(9);
  small();
  mix(&table, 3, 20000, 3000000);
  for (size_t half = n / 2; n > half;) munmap(pages[--n], 4096);
  unsigned before = refused;
  small();
  mix(&table, 3, 20000, 3000000);
  if (refused != before) _exit(10);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "small";
  if (write(1, "main\n", 5) != 5) return 3; /* as far as this the C library came by itself */
  if (strcmp(mode, "small") == 0) small();
  else if (strcmp(mode, "mixed") == 0) small(), threads(4), mix(&table, 7, 20000, 3000000);
  else if (strcmp(mode, "threads") == 0) threads(8);
  else if (strcmp(mode, "first") == 0) first();
  else if (strcmp(mode, "maps") == 0) maps();
  else if (strcmp(mode, "grow") == 0) grow();
  else if (strcmp(mode, "filled") == 0) filled();
  else if (strcmp(mode, "crowd") == 0) crowd();
  else if (strcmp(mode, "hoard") == 0) hoard();
  else if (strcmp(mode, "others") == 0) others();
  else if (strcmp(mode, "most") == 0) most();
  else if (strcmp(mode, "again") == 0) again();
  else if (strcmp(mode, "shrink") == 0) shrink();
  else if (strcmp(mode, "mapped") == 0) mapped();
  else if (strcmp(mode, "together") == 0 && argc > 2) together(strtoul(argv[2], NULL, 10));
  else return 64;
  char text[64];
  int length = snprintf(text, sizeof text, "refused %u\n", refused);
  return strcmp(mode, "maps") == 0 || write(1, text, (size_t)length) == length ? 0 : 3;
}
