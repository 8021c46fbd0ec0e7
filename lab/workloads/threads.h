/* threads.h - threads for workloads: started together, in chains of successors, joined by queues
 *
 * Threads: a `queue_t` is shared and locked (the lock is the workload's: what is measured are the
 *          blocks that pass, a batch at a time). A `chain_t` belongs to whichever thread of the
 *          chain is alive.
 * Holds:   stacks come from one mapping of our own. So a program's mappings are its allocator's,
 *          except for a constant few, and no thread start is slowed by mmap. */
#ifndef BENCH_THREADS_H
#define BENCH_THREADS_H

#include <pthread.h>
#include <stdatomic.h>

#include "bench.h"

enum { BENCH_STACK = 128 * 1024 };

static inline bool bench_thread_try(pthread_t *thread, char *stack, void *(*body)(void *),
                                    void *argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  int error = pthread_attr_setstack(&attributes, stack, BENCH_STACK);
  if (error == 0) error = pthread_create(thread, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  errno = error;
  return error == 0;
}

static inline void bench_thread_start(pthread_t *thread, char *stack, void *(*body)(void *),
                                      void *argument) {
  if (!bench_thread_try(thread, stack, body, argument)) {
    bench_fail(BENCH_SYSTEM, "cannot start a thread: %s", strerror(errno));
  }
}

/* ---- a team: `count` threads at once --------------------------------------------------------- */

typedef struct team {
  size_t count;
  char *stacks;
  pthread_t *threads;
} team_t;

/* Thread i runs body(arguments + i * size). */
static inline team_t team_start(size_t count, void *(*body)(void *), void *arguments, size_t size) {
  team_t team = {count, bench_pages(count * BENCH_STACK, false),
                 bench_pages(count * sizeof(pthread_t), true)};
  for (size_t i = 0; i < count; i++) {
    bench_thread_start(&team.threads[i], team.stacks + i * BENCH_STACK, body,
                       (char *)arguments + i * size);
  }
  return team;
}

static inline void team_join(const team_t *team) {
  for (size_t i = 0; i < team->count; i++) pthread_join(team->threads[i], NULL);
}

/* ---- chains: each thread starts its successor and dies --------------------------------------- */

typedef struct chain {
  bool (*live)(void *life); /* one thread's life; true: let there be another */
  void *life;               /* what is handed from thread to thread */
  char *stacks;             /* two: the successor stands on the one that is not its predecessor's */
  unsigned long births;
  pthread_t self, predecessor;
  atomic_bool ended;
} chain_t;

static inline void *chain_body(void *argument) {
  chain_t *chain = argument;
  pthread_t self = pthread_self();
  if (chain->births++ > 0) pthread_join(chain->predecessor, NULL);
  bool more = chain->live(chain->life);
  chain->predecessor = self;
  if (more) {
    pthread_t successor;
    bench_thread_start(&successor, chain->stacks + chain->births % 2 * BENCH_STACK, chain_body,
                       chain);
  } else {
    chain->self = self;
    atomic_store(&chain->ended, true);
  }
  return NULL;
}

static inline void chain_start(chain_t *chain, bool (*live)(void *life), void *life) {
  *chain = (chain_t){.live = live, .life = life, .stacks = bench_pages(2 * BENCH_STACK, false)};
  pthread_t first;
  bench_thread_start(&first, chain->stacks, chain_body, chain);
}

static inline void chain_join(chain_t *chain) {
  while (!atomic_load(&chain->ended)) bench_sleep(0.0002);
  pthread_join(chain->self, NULL);
}

/* ---- queues of batches of blocks ------------------------------------------------------------- */

enum { QUEUE_BATCH = 128, QUEUE_BATCHES = 16 };

typedef struct batch {
  size_t count; /* 0: the producer has ended */
  void *blocks[QUEUE_BATCH];
} batch_t;

typedef struct queue {
  pthread_mutex_t lock;
  pthread_cond_t filled, emptied;
  size_t first, length;
  batch_t batches[QUEUE_BATCHES];
} queue_t;

static inline void queue_make(queue_t *q) {
  pthread_mutex_init(&q->lock, NULL);
  pthread_cond_init(&q->filled, NULL);
  pthread_cond_init(&q->emptied, NULL);
}

static inline void queue_put(queue_t *q, const batch_t *batch) {
  pthread_mutex_lock(&q->lock);
  while (q->length == QUEUE_BATCHES) pthread_cond_wait(&q->emptied, &q->lock);
  q->batches[(q->first + q->length++) % QUEUE_BATCHES] = *batch;
  pthread_cond_signal(&q->filled);
  pthread_mutex_unlock(&q->lock);
}

static inline void queue_get(queue_t *q, batch_t *batch) {
  pthread_mutex_lock(&q->lock);
  while (q->length == 0) pthread_cond_wait(&q->filled, &q->lock);
  *batch = q->batches[q->first];
  q->first = (q->first + 1) % QUEUE_BATCHES;
  q->length--;
  pthread_cond_signal(&q->emptied);
  pthread_mutex_unlock(&q->lock);
}

#endif
