/* attack.h - the frame of the attacks: one small mistake in a small program, chosen by its name
 *
 *   prog --list        the names of its cases
 *   prog CASE SIZE     makes that mistake with a block of SIZE bytes
 *
 * A program that nothing stopped ends with code 0 and one word. "survived": the mistake did what an
 * attacker wants. "prevented": it came to nothing, for what it wanted to see or get was not there.
 * "absent": the allocator or libc lacks the call. Code 3 means that the case could not be set up.
 * Whatever else ends the program is the allocator, or the kernel. */
#ifndef TEST_MISUSE_ATTACK_H
#define TEST_MISUSE_ATTACK_H

#define TEST_WITHOUT_MAIN
#include "../../system/entry.h"

typedef struct attack {
  const char *name;
  void (*run)(const struct attack *a, size_t n);
  size_t by;      /* how many bytes, or how far off */
  int how, after; /* of the enumerations below, or another small number */
} attack_t;

enum { ANY, LOOP, MEMCPY };               /* how it writes */
enum { NOTHING, FREE, NEIGHBOUR, CALLS }; /* what follows */
enum { LIVE = 'L', SECRET = 'S', BAD = 'A', NEW = 'N' };
enum { BLOCKS = 8, TRIES = 1000, LINKS = 16, RUN = 8 };

/* ---- how a case ends ------------------------------------------------------------------------- */

__attribute__((noreturn)) static inline void end_with(const char *word) {
  if (write(1, word, strlen(word)) < 0) _exit(3);
  exit(0); /* an allocator may look around once more at the end */
}
__attribute__((noreturn)) static inline void survived(void) { end_with("survived\n"); }
__attribute__((noreturn)) static inline void prevented(void) { end_with("prevented\n"); }
__attribute__((noreturn)) static inline void absent(void) { end_with("absent\n"); }
/* What was written so far stands nowhere; the case ends by what it gained. */
static inline void end_if_gained(bool gained) {
  if (gained) survived();
  prevented();
}

/* ---- what a case finds ----------------------------------------------------------------------- */

/* BLOCKS live blocks of one size, by address; `victim` has one before it and one behind. */
static char *blocks[BLOCKS];
static char *victim;
enum { VICTIM = 4 };
#define PREVIOUS (blocks[VICTIM - 1])
#define NEXT (blocks[VICTIM + 1])

static inline char *got(void *p) {
  if (p == NULL) _exit(3);
  return (char *)launder(p);
}
/* All of a small block; of a larger one its ends, to touch little. */
static inline void fill(char *p, size_t n, char byte) {
  enum { END = 4096 };
  if (n <= 4 * END) {
    memset(p, byte, n);
  } else {
    memset(p, byte, END);
    memset(p + n - END, byte, END);
  }
}
static inline int by_address(const void *a, const void *b) {
  const char *const *x = (const char *const *)a, *const *y = (const char *const *)b;
  return (*x > *y) - (*x < *y);
}
/* As qsort, which may allocate. */
static inline void sort_blocks(char **at, int count) {
  for (int i = 1; i < count; i++) {
    for (int k = i; k > 0 && by_address(&at[k - 1], &at[k]) > 0; k--) {
      char *p = at[k];
      at[k] = at[k - 1];
      at[k - 1] = p;
    }
  }
}
typedef void *allocate_t(size_t n);
static inline void set_up_by(allocate_t *allocate, size_t n) {
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = got(allocate(n));
    fill(blocks[i], n, LIVE);
  }
  sort_blocks(blocks, BLOCKS);
  victim = blocks[VICTIM];
}
static inline void set_up(size_t n) { set_up_by(malloc, n); }

/* ---- the mistakes that cases share ----------------------------------------------------------- */

static char bad[MiB_(1)]; /* all BAD, once `write_bad` copies it */

static inline void write_bad(char *at, size_t n, int how) {
  if (how == MEMCPY) {
    memset(bad, BAD, n);
    memcpy(launder(at), launder(bad), launder_size(n));
  } else {
    volatile char *to = (volatile char *)launder(at);
    for (size_t i = 0; i < n; i++) to[i] = BAD;
  }
}
/* From the byte before `end` downwards, as an index that runs below 0 does. */
static inline void write_bad_before(char *end, size_t n, int how) {
  if (how == MEMCPY) {
    write_bad(end - n, n, how);
  } else {
    volatile char *to = (volatile char *)launder(end);
    for (size_t i = 1; i <= n; i++) *(to - i) = BAD;
  }
}
/* COUNT further blocks, of this size and another, which are read, written and freed. */
static inline void work_on(size_t n, int count) {
  static char *more[TRIES];
  volatile char sum = 0;
  for (int i = 0; i < count; i++) {
    size_t size = i % 4 == 3 ? 100 : n;
    more[i] = got(malloc(size));
    sum += more[i][0] + more[i][size - 1];
    more[i][0] = more[i][size - 1] = LIVE;
  }
  for (int i = 0; i < count; i++) free(more[i]);
}
/* Is what stood in the block still there? The first bytes do not count: links may lie there. */
static inline bool has_run_of(const char *p, size_t n, char byte) {
  const volatile char *at = (const volatile char *)launder(p);
  size_t run = 0;
  for (size_t i = LINKS; i < n; i++) {
    run = at[i] == byte ? run + 1 : 0;
    if (run == RUN) return true;
  }
  return false;
}
/* How many blocks of a size a case looks through: more than a slab has. */
static inline int tries(size_t n) {
  size_t count = MiB_(4) / n;
  return count < 64 ? 64 : count > 20000 ? 20000 : (int)count;
}

/* ---- the program ----------------------------------------------------------------------------- */

static inline int attack_main(int argc, char **argv, const attack_t *attacks, size_t count) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (size_t i = 0; i < count; i++) puts(attacks[i].name);
    return 0;
  }
  for (size_t i = 0; argc == 3 && i < count; i++) {
    if (strcmp(argv[1], attacks[i].name) != 0) continue;
    attacks[i].run(&attacks[i], strtoul(argv[2], NULL, 10));
    survived();
  }
  test_say("%s --list, or %s CASE SIZE\n", argv[0], argv[0]);
  return 3;
}

#endif
