/* checker.h - what the labels, the scenarios and the checker of the C11 memory model
 * know of each other
 *
 * The C files under test are compiled as they are, with -fsanitize=thread: the compiler then calls
 * a function before each plain access and instead of each atomic operation. memory.cc defines these
 * functions, not the compiler's library: it asks Relacy which thread goes on and which value an
 * atomic load finds, and whether a plain access races. */
#ifndef CHECKER_H
#define CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- places where the code under test uses an order that is not relaxed ---------------------- */

enum { ORDER_AS_WRITTEN = -1 };

typedef struct {
  const char *operation, *word, *file, *function;
  int order, failure; /* __ATOMIC_*: what to use instead; failure: of a swap that fails */
  /* __ATOMIC_*: as the code has it; ORDER_AS_WRITTEN: not executed so far */
  int written, written_failure;
} site_t;

extern site_t __start_sites[], __stop_sites[]; /* the linker's: all of them */

/* The atomic operation that follows is the one at `site`. */
void checker_at(site_t *site);

/* ---- scenarios ------------------------------------------------------------------------------- */

typedef struct {
  const char *name;     /* a sentence that says what it guards */
  unsigned threads;     /* 2 or 3 */
  unsigned is_long;     /* by so much less is the bound of its search (search_t) */
  void (*before)(void); /* alone, before the threads start; memory is as at the program's start */
  void (*thread)(unsigned me);
  void (*after)(void); /* alone, when all have ended */
} scenario_t;

/* The last one's name is NULL. */
extern const scenario_t slab_scenarios[], span_scenarios[], slice_scenarios[], place_scenarios[],
  heap_scenarios[];

/* The execution is wrong; does not return. */
void checker_fail(const char *what);
#define EXPECT(condition) ((condition) ? (void)0 : checker_fail(#condition))

/* One of `count` numbers: all of them are tried, or one at random. */
unsigned checker_choose(unsigned count);

/* Words that only count: they are left out of the model. */
void checker_ignore(const void *from, size_t size);
/* Words that other threads do not decide by: no other thread comes in between there. */
void checker_keep_together(const void *from, size_t size);

/* Thread-local words of the code under test: each thread of a scenario has its own,
 * 0 when it starts. */
void checker_thread_local(void *from, size_t size);

/* A thread maps or unmaps [from, from + size): whoever uses it must know of that. */
void checker_memory_changes(void *from, size_t size);
/* It reads as zero again. Who finds it so knows what the thread had done before. */
void checker_memory_zeroed(void *from, size_t size);

/* ---- searching ------------------------------------------------------------------------------- */

typedef enum { SEARCH_RANDOM, SEARCH_BOUNDED, SEARCH_ALL } search_kind_t;

typedef struct {
  search_kind_t kind;
  unsigned bound;      /* SEARCH_BOUNDED: that many times a thread is left before it ends */
  uint64_t executions; /* SEARCH_RANDOM: how many */
  bool show;           /* print a failing execution step by step */
} search_t;

typedef struct {
  bool holds;
  uint64_t executions;
  char what[200]; /* why not */
} verdict_t;

verdict_t checker_search(const scenario_t *scenario, search_t search);

#ifdef __cplusplus
}
#endif
#endif
