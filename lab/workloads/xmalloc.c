/* xmalloc.c - some threads only allocate, others only free, all through one list of batches */
#include "threads.h"

enum { THREADS_MOST = 256, BATCH_BLOCKS = 4096, BATCHES_MOST = 100, WRITTEN_MOST = 128 };

static const size_t sizes[] = {8,   12,  16,  24,  32,  48,   64,   96,  128,
                               192, 256, 384, 512, 768, 1024, 1536, 2048};

static long producers = 2, consumers = 2, batches = 5000;

/* Allocated by a producer and freed by a consumer, like the blocks in it. */
typedef struct parcel {
  struct parcel *next;
  void *blocks[BATCH_BLOCKS];
} parcel_t;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t filled, emptied;
  parcel_t *last; /* the last one in is the first one out */
  long length, taken;
} list = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .filled = PTHREAD_COND_INITIALIZER,
          .emptied = PTHREAD_COND_INITIALIZER};

static void list_put(parcel_t *parcel) {
  pthread_mutex_lock(&list.lock);
  while (list.length == BATCHES_MOST) pthread_cond_wait(&list.emptied, &list.lock);
  parcel->next = list.last;
  list.last = parcel;
  list.length++;
  pthread_cond_signal(&list.filled);
  pthread_mutex_unlock(&list.lock);
}

/* NULL when all have been taken. */
static parcel_t *list_take(void) {
  pthread_mutex_lock(&list.lock);
  while (list.last == NULL && list.taken < batches) pthread_cond_wait(&list.filled, &list.lock);
  parcel_t *parcel = list.last;
  if (parcel != NULL) {
    list.last = parcel->next;
    list.length--;
    list.taken++;
    pthread_cond_signal(&list.emptied);
    if (list.taken == batches) pthread_cond_broadcast(&list.filled);
  }
  pthread_mutex_unlock(&list.lock);
  return parcel;
}

typedef struct worker {
  long share; /* of a producer: its batches; -1: a consumer */
  long freed; /* by a consumer: blocks */
  bench_rng_t rng;
} worker_t;

static void produce(worker_t *w) {
  for (long i = 0; i < w->share; i++) {
    parcel_t *parcel = bench_malloc(sizeof *parcel);
    for (int j = 0; j < BATCH_BLOCKS; j++) {
      size_t size = sizes[bench_below(&w->rng, sizeof sizes / sizeof *sizes)];
      parcel->blocks[j] = memset(bench_malloc(size), j, size < WRITTEN_MOST ? size : WRITTEN_MOST);
    }
    list_put(parcel);
  }
}

static void consume(worker_t *w) {
  for (parcel_t *parcel; (parcel = list_take()) != NULL; w->freed += BATCH_BLOCKS) {
    for (int j = 0; j < BATCH_BLOCKS; j++) free(parcel->blocks[j]);
    free(parcel);
  }
}

static void *worker_body(void *argument) {
  worker_t *w = argument;
  if (w->share < 0) consume(w);
  else produce(w);
  return NULL;
}

static bench_option_t options[] = {
  BENCH_NUMBER("producers", producers, 1, THREADS_MOST, "threads that only allocate"),
  BENCH_NUMBER("consumers", consumers, 1, THREADS_MOST, "threads that only free"),
  BENCH_NUMBER("batches", batches, 1, 1 << 30, "batches in total, of 4,096 blocks each"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "xmalloc",
  .about =
    "asymmetric threads: some only allocate and some only free\n\n"
    "After Lever and Boreham (USENIX 2000) and Eder's xmalloc-test, as SuperMalloc has it. Blocks\n"
    "of 8 to 2,048 bytes, powers of two and half as much again, each size equally likely, written\n"
    "up to 128 bytes, pass in batches of 4,096 over one list with a lock that holds 100 batches;\n"
    "the last batch in is the first one out. The work is fixed, where the original runs for a\n"
    "fixed time.",
  .operation = "blocks that were allocated by one thread and freed by another",
  .example = "xmalloc --producers 1 --consumers 3",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  long threads = producers + consumers;
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  for (long i = 0; i < threads; i++) {
    workers[i].share = i < producers ? bench_share(batches, producers, i) : -1;
    workers[i].rng = bench_seed((uint64_t)i);
  }

  mark_t start = mark_now();
  team_t team = team_start((size_t)threads, worker_body, workers, sizeof *workers);
  team_join(&team);
  mark_t end = mark_now();
  long freed = 0;
  for (long i = 0; i < threads; i++) freed += workers[i].freed;

  json_start(&program);
  json_elapsed(start, end, freed);
  json_costs();
  json_end();
  return BENCH_OK;
}
