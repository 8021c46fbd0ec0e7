/* entry.h - every entry point of a C allocator that programs may call, and a tour of each
 *
 * The tests that include this are linked with nothing special: the allocator is whatever is
 * preloaded or linked in. Names that libc's headers lack are declared weak, so that a test can
 * say which one is missing. */
#ifndef TEST_SYSTEM_ENTRY_H
#define TEST_SYSTEM_ENTRY_H

#include "../test.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#if defined(_WIN32) /* an import is never weak */
#include "../windows/entry_port.h"
#define ENTRY_WEAK
#else
#include <sys/mman.h>
#define ENTRY_WEAK __attribute__((weak))
#endif

#ifdef __cplusplus
extern "C" {
#endif
ENTRY_WEAK void free_sized(void *p, size_t size);
ENTRY_WEAK void free_aligned_sized(void *p, size_t alignment, size_t size);
ENTRY_WEAK void cfree(void *p);
ENTRY_WEAK void *__libc_malloc(size_t size);
ENTRY_WEAK void *__libc_calloc(size_t count, size_t size);
ENTRY_WEAK void *__libc_realloc(void *p, size_t size);
ENTRY_WEAK void *__libc_memalign(size_t alignment, size_t size);
ENTRY_WEAK void *__libc_valloc(size_t size);
ENTRY_WEAK void *__libc_pvalloc(size_t size);
ENTRY_WEAK void __libc_free(void *p);
ENTRY_WEAK int fh_version(void);
ENTRY_WEAK bool fh_owns(const void *p);
ENTRY_WEAK void fh_collect(bool force);
ENTRY_WEAK void *fh_calloc_aligned(size_t alignment, size_t count, size_t size);
ENTRY_WEAK void *fh_realloc_aligned(void *p, size_t alignment, size_t size);
ENTRY_WEAK void *fh_realloc_zeroed(void *p, size_t old_size, size_t size);
ENTRY_WEAK size_t fh_malloc_batch(size_t size, size_t count, void **blocks);
ENTRY_WEAK void fh_free_batch(void *const *blocks, size_t count);
ENTRY_WEAK void sdallocx(void *p, size_t size, int flags);
#if !defined(__GLIBC__) && !defined(_WIN32) /* musl has none of these */
ENTRY_WEAK void *pvalloc(size_t size);
ENTRY_WEAK int malloc_trim(size_t pad);
#endif
#ifdef __cplusplus
}
#endif

/* Hides from the compiler where a value comes from: no warning, no assumption, no removed call. */
static inline void *launder(const volatile void *p) {
  void *q = (void *)(uintptr_t)p;
  __asm__ volatile("" : "+r"(q) : : "memory");
  return q;
}
static inline size_t launder_size(size_t n) {
  __asm__ volatile("" : "+r"(n));
  return n;
}

static inline size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* ---- contents that can be recognised --------------------------------------------------------- */

/* Fills block `p` so that each byte depends on where it is and on `seed`; long blocks at
 * their ends and every page. */
static inline void stamp(void *p, size_t n, uint64_t seed) {
  unsigned char *b = (unsigned char *)p;
  size_t step = n > 8192 ? 509 : 1;
  for (size_t i = 0; i < n; i += step) b[i] = (unsigned char)(seed + i * 31);
  if (n > 0) b[n - 1] = (unsigned char)(seed ^ 0x5A);
}
/* Does `p` still hold what `stamp` wrote? */
static inline bool is_stamped(const void *p, size_t n, uint64_t seed) {
  const unsigned char *b = (const unsigned char *)p;
  size_t step = n > 8192 ? 509 : 1;
  if (n > 0 && b[n - 1] != (unsigned char)(seed ^ 0x5A)) return false;
  for (size_t i = 0; i + 1 < n; i += step)
    if (b[i] != (unsigned char)(seed + i * 31)) return false;
  return true;
}
/* The same for the first `kept` of `n` stamped bytes. */
static inline bool is_prefix_stamped(const void *p, size_t kept, size_t n, uint64_t seed) {
  const unsigned char *b = (const unsigned char *)p;
  if (kept >= n) return is_stamped(p, n, seed);
  size_t step = n > 8192 ? 509 : 1;
  for (size_t i = 0; i < kept; i += step)
    if (b[i] != (unsigned char)(seed + i * 31)) return false;
  return true;
}

static inline uint64_t random_next(uint64_t *state) {
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return *state = x;
}
/* Sizes as programs ask for them: most are small, a few are large, one in thousands is huge. */
static inline size_t random_size(uint64_t *state) {
  uint64_t r = random_next(state), s = random_next(state);
  switch (r % 64) {
    case 0: return s % 300000;
    case 1:
    case 2:
    case 3: return s % 20000;
    case 4: return r / 64 % 64 == 0 ? s % (4u << 20) : s % 3000;
    default: return s % ((r >> 32) % 4 == 0 ? 1024 : 128);
  }
}

/* ---- the process ----------------------------------------------------------------------------- */

/* Reads a file of /proc without allocating; the length. */
static inline size_t read_file(const char *path, char *buffer, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  size_t length = 0;
  if (fd < 0) FAIL("%s: errno %d", path, errno);
  for (ssize_t n; length < size - 1 && (n = read(fd, buffer + length, size - 1 - length)) > 0;)
    length += (size_t)n;
  close(fd);
  buffer[length] = '\0';
  return length;
}
#if !defined(_WIN32)
static inline size_t resident_bytes(void) {
  char text[128];
  unsigned long total = 0, resident = 0;
  read_file("/proc/self/statm", text, sizeof text);
  sscanf(text, "%lu %lu", &total, &resident);
  return resident * page_size();
}
#endif

#define MiB_(n) ((size_t)(n) << 20)
#if defined(__GLIBC__) && !defined(sigev_notify_thread_id) /* as musl and the manual name it */
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* ---- threads --------------------------------------------------------------------------------- */

static inline pthread_t start_thread(void *(*body)(void *), void *argument, size_t stack) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  size_t least = (size_t)PTHREAD_STACK_MIN; /* 16 KiB or 128, by processor */
  if (stack > 0) CHECK_EQ(pthread_attr_setstacksize(&attributes, stack < least ? least : stack), 0);
  int error = pthread_create(&thread, &attributes, body, argument);
  if (error != 0) FAIL("pthread_create: %s", strerror(error));
  pthread_attr_destroy(&attributes);
  return thread;
}
static inline void join_thread(pthread_t thread) { CHECK_EQ(pthread_join(thread, NULL), 0); }

/* Runs `count` threads (at most 64) with their number as argument, and waits for them. */
static inline void run_threads(unsigned count, void *(*body)(void *)) {
  pthread_t threads[64];
  for (uintptr_t i = 0; i < count; i++) threads[i] = start_thread(body, (void *)i, 0);
  for (unsigned i = 0; i < count; i++) join_thread(threads[i]);
}

/* ---- a tour of every entry point ------------------------------------------------------------- */

/* Each takes a block that it may use up (another thread may have allocated it) and
 * leaves nothing allocated. */
typedef void entry_tour_t(void *given);

static inline void tour_use(void *p, size_t n) {
  CHECK(p != NULL);
  memset(p, 0x3C, n);
  free(p);
}
static inline void tour_malloc(void *given) {
  tour_use(malloc(launder_size(100)), 100);
  free(given);
}
static inline void tour_free(void *given) { free(given); }
static inline void tour_calloc(void *given) {
  tour_use(calloc(launder_size(10), 30), 300);
  free(given);
}
static inline void tour_realloc(void *given) { tour_use(realloc(given, launder_size(5000)), 5000); }
static inline void tour_realloc_null(void *given) {
  tour_use(realloc(launder(NULL), 70), 70);
  free(given);
}
static inline void tour_reallocarray(void *given) {
  tour_use(reallocarray(given, launder_size(30), 30), 900);
}
static inline void tour_aligned_alloc(void *given) {
  tour_use(aligned_alloc(launder_size(256), 512), 512);
  free(given);
}
static inline void tour_posix_memalign(void *given) {
  void *p = NULL;
  CHECK_EQ(posix_memalign(&p, launder_size(4096), 100), 0);
  tour_use(p, 100);
  free(given);
}
static inline void tour_memalign(void *given) {
  tour_use(memalign(launder_size(64), 100), 100);
  free(given);
}
static inline void tour_valloc(void *given) {
  tour_use(valloc(launder_size(100)), 100);
  free(given);
}
static inline void tour_pvalloc(void *given) {
  tour_use(pvalloc(launder_size(100)), 4096);
  free(given);
}
static inline void tour_usable(void *given) {
  CHECK_GE(malloc_usable_size(given), 1u);
  free(given);
}
static inline void tour_large(void *given) {
  tour_use(malloc(launder_size(200000)), 200000);
  free(given);
}
static inline void tour_huge(void *given) {
  char *p = (char *)malloc(launder_size((size_t)2 << 30));
  CHECK(p != NULL);
  p[0] = p[((size_t)2 << 30) - 1] = 1;
  free(p);
  free(given);
}
static inline void tour_trim(void *given) { free(given), malloc_trim(0); }
#if defined(__GLIBC__)
static inline void tour_mallinfo2(void *given) { (void)mallinfo2(), free(given); }
static inline void tour_mallopt(void *given) { mallopt(M_MMAP_THRESHOLD, 1 << 20), free(given); }
#endif
static inline void tour_free_sized(void *given) {
  void *p = malloc(launder_size(48));
  if (free_sized != NULL) free_sized(p, 48);
  else free(p);
  free(given);
}
static inline void tour_free_aligned_sized(void *given) {
  void *p = aligned_alloc(launder_size(128), 256);
  if (free_aligned_sized != NULL) free_aligned_sized(p, 128, 256);
  else free(p);
  free(given);
}
static inline void tour_calloc_aligned(void *given) {
  if (fh_calloc_aligned != NULL) tour_use(fh_calloc_aligned(64, 10, launder_size(30)), 300);
  free(given);
}
static inline void tour_realloc_aligned(void *given) {
  if (fh_realloc_aligned == NULL) free(given);
  else tour_use(fh_realloc_aligned(given, 64, launder_size(300)), 300);
}
static inline void tour_realloc_zeroed(void *given) {
  if (fh_realloc_zeroed == NULL) free(given);
  else tour_use(fh_realloc_zeroed(given, 10, launder_size(300)), 300);
}
static inline void tour_batch(void *given) {
  void *blocks[21];
  blocks[20] = given;
  if (fh_malloc_batch == NULL) return free(given);
  CHECK_EQ(fh_malloc_batch(launder_size(64), 20, blocks), 20u);
  for (int i = 0; i < 20; i++) memset(blocks[i], 0x3C, 64);
  fh_free_batch(blocks, 21);
}
static inline void tour_sdallocx(void *given) {
  if (sdallocx != NULL) sdallocx(given, 40, 0);
  else free(given);
}
static inline void tour_collect(void *given) {
  free(given);
  if (fh_collect != NULL) fh_collect(true);
}

static const struct {
  const char *name;
  entry_tour_t *tour;
} entry_tours[] = {
  {"malloc", tour_malloc},
  {"free", tour_free},
  {"calloc", tour_calloc},
  {"realloc", tour_realloc},
  {"realloc(NULL)", tour_realloc_null},
  {"reallocarray", tour_reallocarray},
  {"aligned_alloc", tour_aligned_alloc},
  {"posix_memalign", tour_posix_memalign},
  {"memalign", tour_memalign},
  {"valloc", tour_valloc},
  {"pvalloc", tour_pvalloc},
  {"malloc_usable_size", tour_usable},
  {"malloc of a large block", tour_large},
  {"malloc of a huge block", tour_huge},
#if defined(__GLIBC__)
  {"mallinfo2", tour_mallinfo2},
  {"mallopt", tour_mallopt},
#endif
  {"malloc_trim", tour_trim},
  {"free_sized", tour_free_sized},
  {"free_aligned_sized", tour_free_aligned_sized},
  {"fh_calloc_aligned", tour_calloc_aligned},
  {"fh_realloc_aligned", tour_realloc_aligned},
  {"fh_realloc_zeroed", tour_realloc_zeroed},
  {"fh_malloc_batch, fh_free_batch", tour_batch},
  {"sdallocx", tour_sdallocx},
  {"fh_collect", tour_collect},
};
enum { ENTRY_TOURS = sizeof entry_tours / sizeof entry_tours[0] };

/* All of them, one after another. */
static inline void tour_everything(void) {
  for (unsigned i = 0; i < ENTRY_TOURS; i++) {
    void *given = malloc(launder_size(40));
    CHECK(given != NULL);
    entry_tours[i].tour(given);
  }
}

#endif
