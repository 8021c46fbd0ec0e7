/* measures.c - two measures of an allocator that no list of cases can be fitted to
 *
 *   measures random-writes SEED TRIALS   "TRIALS AT-ITS-FREE AT-THE-END"
 *     Each trial, in a process of its own: among LIVE_BLOCKS blocks of random sizes one byte within
 *     REACH bytes before or behind a random block is changed. How many trials end by a signal or an
 *     error by the time that this block is freed, and by the time that all are.
 *   measures reuse SIZE TRIALS           "MIN MEDIAN MIN MEDIAN MOST"
 *     How many blocks of SIZE bytes are allocated until the address that was freed last is handed
 *     out again. First with all of them kept, then with each freed before the next. MOST means
 *     that it did not come back. */
#define TEST_WITHOUT_MAIN
#include "../../system/entry.h"

enum { LIVE_BLOCKS = 64, REACH = 64, AT_ITS_FREE = 10, LOOKS = 100000 };

static uint64_t seed_of(uint64_t trial) {
  uint64_t x = (trial + 1) * 0x9E3779B97F4A7C15u;
  for (int i = 0; i < 4; i++) random_next(&x);
  return x;
}
/* 1 to 4,096 bytes, as many between any two powers of two. */
static size_t size_of(uint64_t *state) {
  uint64_t bits = random_next(state) % 12;
  return ((size_t)1 << bits) + random_next(state) % ((size_t)1 << bits);
}

/* Runs in a child; its exit code, or 0 if it was ended. Code 1 means that nothing was noticed. */
static int child_of(int (*body)(uint64_t), uint64_t argument) {
  pid_t pid = fork();
  if (pid < 0) FAIL("fork: errno %d", errno);
  if (pid == 0) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 2);
    _exit(body(argument));
  }
  int status;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* ---- random writes --------------------------------------------------------------------------- */

static int *reached; /* shared with the child: has the block's free returned? */

static int random_write(uint64_t seed) {
  char *live[LIVE_BLOCKS];
  size_t sizes[LIVE_BLOCKS];
  uint64_t state = seed;
  for (int i = 0; i < LIVE_BLOCKS; i++) live[i] = NULL;
  for (int i = 0; i < 6 * LIVE_BLOCKS; i++) { /* some were replaced, so others lie free */
    int k = i < LIVE_BLOCKS ? i : (int)(random_next(&state) % LIVE_BLOCKS);
    free(live[k]);
    sizes[k] = size_of(&state);
    live[k] = (char *)malloc(sizes[k]);
    if (live[k] == NULL) _exit(3);
    memset(live[k], 'L', sizes[k]);
  }
  int k = (int)(random_next(&state) % LIVE_BLOCKS);
  size_t at = random_next(&state) % ((size_t)2 * REACH);
  char *p = at < REACH ? live[k] - 1 - at : live[k] + sizes[k] + (at - REACH);
  *(volatile char *)launder(p) ^= (char)(1 + random_next(&state) % 255);
  free(live[k]);
  *reached = 1;
  for (int i = 0; i < LIVE_BLOCKS; i++) {
    if (i != k) free(live[i]);
  }
  return 1;
}

static void random_writes(uint64_t seed, int trials) {
  int at_free = 0, at_end = 0;
  reached =
    (int *)mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (reached == MAP_FAILED) FAIL("mmap: errno %d", errno);
  for (int i = 0; i < trials; i++) {
    *reached = 0;
    int code = child_of(random_write, seed_of(seed * 1000003 + (uint64_t)i));
    if (code == 3) FAIL("no memory");
    at_free += code != 1 && *reached == 0;
    at_end += code != 1;
  }
  printf("%d %d %d\n", trials, at_free, at_end);
}

/* ---- reuse ----------------------------------------------------------------------------------- */

static size_t reuse_size;
static bool reuse_keeps;
static int *looks; /* shared with the child */

static int reuse_most(void) {
  size_t most = ((size_t)8 << 30) / reuse_size;
  return most < LOOKS ? (int)most : LOOKS;
}
static int look_for_it(uint64_t seed) {
  char *live[LIVE_BLOCKS];
  uint64_t state = seed;
  for (int i = 0; i < LIVE_BLOCKS; i++) live[i] = (char *)malloc(reuse_size);
  for (int i = 0; i < LIVE_BLOCKS; i++) {
    int k = (int)(random_next(&state) % LIVE_BLOCKS);
    free(live[k]);
    live[k] = (char *)malloc(reuse_size);
  }
  char *p = live[random_next(&state) % LIVE_BLOCKS];
  free(launder(p));
  int count = 1, most = reuse_most();
  for (; count < most; count++) {
    char *q = (char *)launder(malloc(reuse_size));
    if (q == NULL) count = most; /* not as long as there were addresses for others */
    if (q == p || q == NULL) break;
    if (!reuse_keeps) free(q);
  }
  *looks = count;
  return 1;
}
static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void reuse(int trials) {
  static int found[1001];
  if (trials > 1001) trials = 1001;
  looks = (int *)mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (looks == MAP_FAILED) FAIL("mmap: errno %d", errno);
  for (int keeps = 1; keeps >= 0; keeps--) {
    reuse_keeps = keeps;
    for (int i = 0; i < trials; i++) {
      if (child_of(look_for_it, seed_of((uint64_t)i)) != 1) FAIL("trial %d ended early", i);
      found[i] = *looks;
    }
    qsort(found, (size_t)trials, sizeof found[0], by_value);
    printf("%d %d ", found[0], found[trials / 2]);
  }
  printf("%d\n", reuse_most());
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "random-writes") == 0) {
    random_writes(strtoull(argv[2], NULL, 10), atoi(argv[3]));
  } else if (argc == 4 && strcmp(argv[1], "reuse") == 0) {
    reuse_size = strtoull(argv[2], NULL, 10);
    reuse(atoi(argv[3]));
  } else {
    test_say("measures random-writes SEED TRIALS, or measures reuse SIZE TRIALS\n");
    return 3;
  }
  return 0;
}
