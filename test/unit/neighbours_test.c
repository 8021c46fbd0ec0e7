/* neighbours_test.c - blocks of several threads in the same slabs, in the secure grade: a free
 * looks at the bytes behind the block before it, whoever has that. Under ThreadSanitizer too. */
#include "heaps.h"

#include "../../src/secure/secure.h"

enum { THREADS = 4, HELD = 64, ROUNDS = 3000 };

/* What one thread has allocated another frees, or resizes and frees. */
static atomic_ptr_t handed_on[HELD];

static char *allocate(size_t size) {
  char *p = secure_allocate(NULL, 1, size, ORIGIN_MALLOC);
  CHECK(p != NULL);
  CHECK_BYTES(p, 0, size);
  memset(p, 7, size);
  return p;
}

static void free_or_resize(char *p, size_t size) {
  if (size % 2 == 0) return secure_free(p, ORIGIN_MALLOC, "test");
  char *q = secure_resize(NULL, p, size, "test");
  CHECK(q != NULL && q[0] == 7);
  secure_free(q, ORIGIN_MALLOC, "test");
}

static void exchange(unsigned me) {
  uint64_t state = me;
  for (int i = 0; i < ROUNDS; i++) {
    size_t size = 20 + core_next(&state) % 200;
    atomic_ptr_t *slot = &handed_on[core_next(&state) % HELD];
    void *p = allocate(size), *before = atomic_ptr_load_acquire(slot);
    if (atomic_ptr_cas_acq_rel(slot, &before, p)) p = before;
    if (p != NULL) free_or_resize(p, 20 + core_next(&state) % 200);
  }
}

TEST(neighbours, threads_free_and_resize_beside_each_others_blocks, "S-state S-states") {
  secure_start();
  core_threads(THREADS, exchange);
  for (int i = 0; i < HELD; i++)
    secure_free(atomic_ptr_load_relaxed(&handed_on[i]), ORIGIN_MALLOC, "test");
}

static atomic32_t running;
static void exchange_or_look(unsigned me) {
  if (me != 0) {
    exchange(me);
    atomic32_add_relaxed(&running, (uint32_t)-1);
    return;
  }
  while (atomic32_load_relaxed(&running) != 0) secure_end(); /* as at exit: looks at all blocks */
}

TEST(neighbours, they_are_looked_at_while_threads_free_and_resize_them, "S-state S-states") {
  secure_start();
  atomic32_store_relaxed(&running, THREADS - 1);
  core_threads(THREADS, exchange_or_look);
}
