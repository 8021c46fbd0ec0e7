/* operations.c - bytes as calls of the core in several threads, each block against a shadow record
 *
 * Input: a byte for the number of threads, then three bytes for each operation: what, on which
 * slot, how much. The threads take them in turn. A slot's record says what block stands in it and
 * what must be in the block. A thread that uses a slot holds it for so long, and passes over one
 * that is held. Calls of the fake system can be made to fail, its clock moves when an operation
 * says so. In the end all is freed, and nothing may be lost. */
#define TEST_WITHOUT_MAIN
#include "../unit/heaps.h"

#include "../../src/arena/places.h"
#include "operations.h"

enum { THREADS_MOST = 4, OPERATION_BYTES = 3, SLOTS = 64, FULLY_STAMPED = 4096, STAMPS = 1024 };

typedef struct {
  atomic32_t is_held; /* acquire, release: the record goes with it */
  unsigned char *block;
  size_t size;
  unsigned char seed;
} slot_t;

static slot_t slots[SLOTS];
static struct {
  atomic32_t is_held;
  fh_heap_t *heap;
} first_class;              /* whose blocks are in slots like all others, until it is deleted */
static atomic32_t may_fail; /* in this run a system call was made to fail */
/* slices that such failures have cost so far; moves of pages before this run */
static uint64_t lost, moves;
static uint64_t missing; /* mapped slices that are neither free nor an arena's own */

/* ---- the record ------------------------------------------------------------------------------ */

static size_t step_of(size_t size) { return size <= FULLY_STAMPED ? 1 : size / STAMPS | 1; }
static unsigned char stamp_at(const slot_t *s, size_t i) {
  return (unsigned char)(s->seed + i * 7);
}

static void stamp(slot_t *s) {
  for (size_t i = 0, step = step_of(s->size); i < s->size; i += step) s->block[i] = stamp_at(s, i);
}

/* What was stamped as a block of `size` bytes, and of which `kept` are still there. */
static void check_stamp(const slot_t *s, const unsigned char *block, size_t kept) {
  for (size_t i = 0, step = step_of(s->size); i < kept; i += step)
    if (block[i] != stamp_at(s, i))
      FAIL("byte %zu of a block of %zu bytes has changed", i, s->size);
}

static void put(slot_t *s, void *block, size_t size, unsigned char seed) {
  if (block == NULL) {
    CHECK(atomic32_load_relaxed(&may_fail) != 0);
    return;
  }
  CHECK_GE(heap_usable_size(block, "fuzz"), size);
  *s = (slot_t){s->is_held, block, size, seed};
  stamp(s);
}

static void drop(slot_t *s) {
  if (s->block != NULL) check_stamp(s, s->block, s->size);
  fast_free(s->block);
  s->block = NULL;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Four of eight are small, some large ones many MiB; one is huge, and a few of those take two
 * windows. */
static size_t size_of(uint8_t what, uint8_t much) {
  switch (much & 7) {
    case 4: return (size_t)much * 64;
    case 5: return (size_t)much * 512 + what;
    case 6: return (size_t)much * (what < 0xE0 ? 16384 : 524288) + what;
    case 7: return (much < 0xE0 ? HUGE_LEAST : WINDOW_SIZE) + (size_t)much * 65536;
    default: return (size_t)(much >> 3) * 16 + (what >> 4);
  }
}

static void do_malloc(slot_t *s, size_t size, uint8_t seed) {
  drop(s);
  put(s, fast_malloc(size), size, seed);
}
static void do_calloc(slot_t *s, size_t size, uint8_t seed) {
  drop(s);
  unsigned char *block = heap_calloc(1, size);
  for (size_t i = 0; block != NULL && i < size; i += step_of(size)) CHECK_EQ(block[i], 0);
  put(s, block, size, seed);
}
static void do_aligned(slot_t *s, size_t size, uint8_t seed) {
  size_t alignment = (size_t)16 << seed % 18;
  drop(s);
  void *block = fast_aligned(alignment, size);
  CHECK_EQ((uintptr_t)block % alignment, (uintptr_t)0);
  put(s, block, size, seed);
}
static void do_realloc(slot_t *s, size_t size, uint8_t seed) {
  if (s->block == NULL || size == 0) return;
  check_stamp(s, s->block, s->size);
  unsigned char *block = any_realloc(s->block, size, "realloc");
  if (block == NULL) return check_stamp(s, s->block, s->size);
  check_stamp(s, block, min_size(size, s->size));
  put(s, block, size, seed);
}
static void do_expand(slot_t *s, size_t size, uint8_t seed) {
  if (s->block != NULL && heap_expand(s->block, size, "expand")) put(s, s->block, size, seed);
}
static void do_free(slot_t *s, size_t size, uint8_t seed) {
  (void)size, (void)seed;
  drop(s);
}

/* As a signal handler does that interrupts a call. */
static void do_nested(slot_t *s, size_t size, uint8_t seed) {
  heap_t *h = heap_enter();
  do_malloc(s, size, seed);
  if (h != NULL) heap_exit(h);
}

static void do_first_class(slot_t *s, size_t size, uint8_t seed) {
  uint32_t no = 0;
  if (!atomic32_cas_acquire(&first_class.is_held, &no, 1)) return;
  fh_heap_t *heap = first_class.heap;
  if (heap == NULL) {
    first_class.heap = firstclass_new();
  } else if (seed % 16 == 0) {
    firstclass_delete(heap);
    first_class.heap = NULL;
  } else {
    drop(s);
    put(s,
        seed % 2 ? firstclass_aligned(heap, 1, size)
                 : heap_clear(firstclass_aligned(heap, 1, size), size),
        size, seed);
  }
  atomic32_store_release(&first_class.is_held, 0);
}

/* A heap of this call's own, that ends with all its blocks. */
static void do_destroy(slot_t *s, size_t size, uint8_t seed) {
  (void)s;
  fh_heap_t *heap = firstclass_new();
  if (heap == NULL) return;
  for (int i = 0; i < seed % 8; i++) {
    unsigned char *block = firstclass_aligned(heap, 1, size + 1);
    if (block != NULL) block[0] = block[size] = seed;
  }
  firstclass_destroy(heap);
}

static void do_collect(slot_t *s, size_t size, uint8_t seed) {
  (void)s, (void)size;
  heap_collect(seed % 2);
}
/* Another thread may be moving a block piece by piece. On its way back pages can be moved or
 * mapped, or they are lost (promises.md): not all of that is made to fail from now on. */
static void do_fail(slot_t *s, size_t size, uint8_t seed) {
  static const uint32_t kinds[] = {OS_FAKE_MAPPING, OS_FAKE_CHANGING, OS_FAKE_ADVISING,
                                   OS_FAKE_ANY & ~(1u << OS_FAKE_UNMAP | 1u << OS_FAKE_MOVE)};
  (void)s;
  atomic32_store_relaxed(&may_fail, 1);
  os_fake_fail(kinds[seed % 4], 1 + size % 8, seed >> 7);
}
static void do_wait(slot_t *s, size_t size, uint8_t seed) {
  (void)s, (void)size;
  os_fake.now_ms += seed * 4;
  purge_tick();
}
static void do_end(slot_t *s, size_t size, uint8_t seed) {
  (void)s, (void)size, (void)seed;
  os_fake_end_thread();
}
static void do_set_options(slot_t *s, size_t size, uint8_t seed) {
  (void)s;
  option_set(OPTION_purge_delay_ms, seed % 4 == 0 ? 0 : seed % 4 == 1 ? -1 : seed);
  option_set(OPTION_magazine, (int64_t)(size % MiB(1)));
}

static void (*const operations[16])(slot_t *s, size_t size, uint8_t seed) = {
  do_malloc, do_malloc, do_calloc,      do_aligned, do_realloc, do_realloc, do_expand, do_free,
  do_free,   do_nested, do_first_class, do_destroy, do_collect, do_fail,    do_wait,   do_end,
};

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct {
  const uint8_t *from, *end;
  size_t stride;
} stream_t;

static void do_one(const uint8_t *bytes) {
  slot_t *s = &slots[bytes[1] % SLOTS];
  uint32_t no = 0;
  size_t size = size_of(bytes[0], bytes[2]);
  if (!atomic32_cas_acquire(&s->is_held, &no, 1)) return;
  if (bytes[0] == 0xFF) do_set_options(s, size, bytes[1]);
  else operations[bytes[0] % 16](s, size, bytes[1]);
  atomic32_store_release(&s->is_held, 0);
}

static void *run_stream(void *context) {
  const stream_t *stream = context;
  for (const uint8_t *at = stream->from; stream->end - at >= OPERATION_BYTES;) {
    do_one(at);
    if ((size_t)(stream->end - at) < stream->stride) break;
    at += stream->stride;
  }
  os_fake_end_thread();
  return NULL;
}

/* Windows belong to arenas, to empty blocks or to nobody, heaps are given back but this thread's
 * own, and records are used again. */
static void check_nothing_is_kept(void) {
  size_t arenas = 0, heaps = 0, first = os_space_start() >> WINDOW_SHIFT;
  for (size_t i = first; i < first + WINDOWS; i++) {
    tenant_t kind = map_kind((uintptr_t)atomic_ptr_load_relaxed(&window_map[i]));
    CHECK(kind == TENANT_NONE || kind == TENANT_ARENA || kind == TENANT_EMPTY);
    arenas += kind == TENANT_ARENA;
  }
  CHECK_EQ(arenas, arena_count());
  for (size_t i = 0; i < pool_size(); i++) {
    bool is_claimed;
    pool_at(i, &is_claimed);
    heaps += is_claimed;
  }
  CHECK_LE(heaps, (size_t)1);
  /* SLOTS and some more are live at a time */
  CHECK_LE(huge_pool_size(), (size_t)2 * PLACES_IN_CHUNK);
}

static uint64_t count_missing(void) {
  uint64_t there = arena_count() * ARENA_FIRST_SLICE;
  for (size_t i = 0; i < arena_count(); i++)
    for (size_t w = 0; w < ARENA_WORDS; w++)
      there += bits_count(atomic64_load_relaxed(&arena_at(i)->free[w]));
  return atomic64_load_relaxed(&arena_counts.mapped) - there;
}

/* Everything comes back, except the slices that a moved block has left if they could not be mapped
 * again. */
static void clean_up(void) {
  os_fake_fail(0, 0, false);
  for (int i = 0; i < SLOTS; i++) drop(&slots[i]);
  firstclass_delete(first_class.heap);
  first_class.heap = NULL;
  option_set(OPTION_purge_delay_ms, option_info[OPTION_purge_delay_ms].fallback);
  option_set(OPTION_magazine, option_info[OPTION_magazine].fallback);
  heap_collect(true);
  CHECK_EQ(
    atomic64_load_relaxed(&heap_counts.large_live) + atomic64_load_relaxed(&heap_counts.huge_live),
    (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.huge_bytes), (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  CHECK_EQ(slab_tally_sum(TALLY_LIVE) + slab_tally_sum(TALLY_FREE), (uint64_t)0);
  if (atomic32_load_relaxed(&may_fail) == 0) CHECK_EQ(count_missing(), missing);
  missing = count_missing();
  if (atomic32_load_relaxed(&may_fail) == 0 || os_fake.calls[OS_FAKE_MOVE] == moves)
    CHECK_EQ(committed(), lost);
  lost = committed();
  for (size_t i = 0; i < arena_count(); i++)
    CHECK(arena_is_valid(arena_at(i)) && partial_is_valid(arena_at(i)));
  check_nothing_is_kept();
}

void operations_run(const uint8_t *bytes, size_t count) {
  if (count == 0) return;
  size_t threads = 1 + bytes[0] % THREADS_MOST;
  pthread_t thread[THREADS_MOST];
  stream_t stream[THREADS_MOST];
  atomic32_store_relaxed(&may_fail, 0);
  moves = os_fake.calls[OS_FAKE_MOVE];
  for (size_t i = 0; i < threads; i++) {
    const uint8_t *from = bytes + min_size(count, 1 + i * OPERATION_BYTES);
    stream[i] = (stream_t){from, bytes + count, threads * OPERATION_BYTES};
    CHECK_EQ(pthread_create(&thread[i], NULL, run_stream, &stream[i]), 0);
  }
  for (size_t i = 0; i < threads; i++) CHECK_EQ(pthread_join(thread[i], NULL), 0);
  clean_up();
}
