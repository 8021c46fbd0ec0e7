/* stats.c - adds up what is counted everywhere                                        layer 6: heap
 * Contract: stats.h. Every count is a relaxed word with one writer. Adding them up here takes time,
 * so figures of running threads may be a moment apart. */
#include "stats.h"

#include "../os/container.h"
#include "../stock/stock.h"
#include "enter.h"
#include "visit.h"

/* The rows' counters, without what heaps count themselves. */
static void add_counters(fh_stats_t *stats, const os_usage_t *usage) {
#define STATS_COUNTER(counter) atomic64_load_relaxed(&counter)
#define STATS_TALLIED(count) slab_tally_sum(count)
#define STATS_SLICES(counter) (STATS_COUNTER(counter) << SLICE_SHIFT)
#define STATS_WITH_HUGE(counter) (STATS_SLICES(counter) + STATS_COUNTER(arena_counts.huge_bytes))
#define STATS_HEAPS(field) STATS_COUNTER(heap_counts.field)
#define STATS_VISIT(what) 0
#define STATS_PROCESS(field) usage->field
#define STATS_ADD(name, section, unit, from, ...) stats->name += STATS_##from;
  FH_STATISTICS(STATS_ADD, )
}

/* The rows of HEAPS. */
static void add_heap(fh_stats_t *stats, const heap_t *h) {
  stats->large_live += atomic64_load_relaxed(&h->large_live);
  stats->large_allocated += atomic64_load_relaxed(&h->large_allocated);
  stats->remote_frees += atomic64_load_relaxed(&h->remote_frees);
  stats->shared_frees += atomic64_load_relaxed(&h->shared_frees);
  stats->swaps += atomic64_load_relaxed(&h->swaps);
}

static void add_slab(fh_class_stats_t *c, const slab_t *s, uint32_t capacity) {
  uint32_t live = slab_live(s);
  size_t quarter = (size_t)live * 4 / capacity;
  c->live += live;
  c->slabs++;
  c->fullness[quarter < 4 ? quarter : 3]++;
}

static bool count_slab(slab_t *s, uint32_t word, void *context) {
  fh_stats_t *stats = context;
  if (slab_kind(word) == SLAB_LARGE) stats->live_bytes += atomic64_load_relaxed(&s->size);
  else if (slab_kind(word) == SLAB_SPAN) stats->live_bytes += span_live(s);
  else if (word < CLASS_COUNT) add_slab(&stats->classes[word - 1], s, class_info[word].capacity);
  return true;
}

static void add_heaps(fh_stats_t *stats) {
  for (size_t i = 0; i < pool_size(); i++) {
    bool is_claimed;
    heap_t *h = pool_at(i, &is_claimed);
    if (h == NULL || !heap_was_used(h)) continue;
    stats->heaps++;
    stats->threads += is_claimed && heap_tag(h) == NULL; /* including nested and left-behind ones */
    add_heap(stats, h);
    for (unsigned c = 1; c < CLASS_COUNT; c++) stats->classes[c - 1].allocated += heap_binned(h, c);
  }
}

static void add_classes(fh_stats_t *stats) {
  fh_class_stats_t *total = &stats->total;
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    fh_class_stats_t *class = &stats->classes[c - 1];
    class->block_size = class_size(c);
    class->allocated += atomic64_load_relaxed(&heap_counts.binned[c]);
    class->requested = atomic64_load_relaxed(&heap_counts.requested[c]);
    class->peak = slab_taken_peak(c, class->live);
    stats->live_bytes += class->live * class->block_size;
    total->requested += class->requested;
    total->allocated += class->allocated;
    total->live += class->live;
    total->slabs += class->slabs;
    for (unsigned i = 0; i < ARRAY_LENGTH(total->fullness); i++)
      total->fullness[i] += class->fullness[i];
  }
  total->peak = slab_taken_peak(0, total->live);
}

/* Its own head and slices, and nothing else in the window. Free clean slices are in no memory (A3),
 * so they are skipped: a program may have had much more. */
static void add_resident(fh_stats_t *stats, const arena_t *a) {
  size_t mapped = min_size(atomic64_load_relaxed(&a->mapped), WINDOW_SLICES);
  bool clean_is_resident = a->is_pinned || option_get(OPTION_arena_populate);
  const char *from = a->is_added ? arena_address(a, a->first) : (const void *)a;
  stats->resident += os_resident(a, ARENA_FIRST_SLICE << SLICE_SHIFT);
  for (size_t first = a->first, n; first < mapped; first += n) {
    n = min_size(64 - first % 64, mapped - first);
    uint64_t dirty = atomic64_load_relaxed(&arena_maps(a)->dirty[first / 64]);
    uint64_t in_use = ~atomic64_load_relaxed(&a->free[first / 64]) | dirty;
    if (!clean_is_resident && (in_use & bits_run(first % 64, (unsigned)n)) == 0) continue;
    stats->resident += os_resident(arena_address(a, first), n << SLICE_SHIFT);
  }
  stats->huge_resident += os_huge_resident(from, (size_t)((char *)arena_address(a, mapped) - from));
}

static void add_mappings(fh_stats_t *stats) {
  for (size_t i = 0; i < arena_count(); i++) {
    const arena_t *a = arena_at(i);
    if (a == NULL) continue;
    stats->arenas++;
    stats->metadata += ARENA_FIRST_SLICE << SLICE_SHIFT;
    add_resident(stats, a);
  }
  const huge_t *b;
  const guard_slot_t *s;
  for (size_t i = 0; (b = huge_next(&i)) != NULL;) { /* Bound: huge_pool_size() */
    size_t mapped = atomic64_load_relaxed(&b->mapped);
    stats->resident += os_resident(huge_base(b), mapped);
    stats->huge_resident += os_huge_resident(huge_base(b), mapped);
  }
  /* Bound: GUARD_SLOTS */
  for (size_t i = 0; (s = guard_next(&i)) != NULL;) stats->resident += guard_resident(s);
  stats->metadata += guard_metadata() + empty_metadata() + huge_pool_size() * sizeof(huge_t);
  stats->metadata += pool_metadata();
}

/* Blocks on the private lists of the heap's own slabs: the sums count them as live. */
static void subtract_private(const heap_t *h, uint64_t *live, uint64_t *free) {
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    for (slab_t *s = owned_first(h, c); s != NULL; s = s->next) { /* Bound: owned slabs */
      uint64_t blocks = slab_private_count(s);
      *live -= blocks * class_size(c);
      *free += blocks;
    }
}

void heap_sums(uint64_t *live, uint64_t *free) {
  *live = slab_tally_sum(TALLY_LIVE);
  *free = slab_tally_sum(TALLY_FREE);
  heap_t *h = heap_enter_own();
  if (h != NULL) {
    subtract_private(h, live, free);
    heap_exit(h);
  }
  if ((int64_t)*live < 0) *live = 0; /* read between two counts of a block */
  if ((int64_t)*free < 0) *free = 0;
  *live += atomic64_load_relaxed(&arena_counts.huge_bytes);
}

void heap_stats(fh_stats_t *stats) {
  os_usage_t usage;
  memset(&stats->mapped, 0, sizeof *stats - offsetof(fh_stats_t, mapped));
  visit_slabs(count_slab, stats);
  add_heaps(stats);
  add_classes(stats);
  add_mappings(stats);
  stats->live_bytes += atomic64_load_relaxed(&arena_counts.huge_bytes);
  stats->empty_live = empty_count();
  os_usage(&usage);
  add_counters(stats, &usage);
  if ((int64_t)stats->large_live < 0) stats->large_live = 0; /* read between a block's two counts */
}

/* ---- heap by heap ---------------------------------------------------------------------------- */

typedef struct {
  heap_stats_t *of; /* by heap number */
  size_t count;
} each_t;

/* NULL: nobody owns the slab, or its owner is gone. */
static heap_stats_t *sums_of_owner(const each_t *all, const slab_t *s) {
  const heap_t *h = slab_owner(s);
  bool is_claimed;
  uint32_t number = h == NULL ? UINT32_MAX : heap_number(h);
  return number < all->count && pool_at(number, &is_claimed) == h ? &all->of[number] : NULL;
}

static bool add_to_owner(slab_t *s, uint32_t word, void *context) {
  heap_stats_t *sums = word < CLASS_COUNT ? sums_of_owner(context, s) : NULL;
  fh_class_stats_t one = {0};
  if (sums == NULL) return true;
  add_slab(&one, s, class_info[word].capacity);
  sums->slabs++;
  sums->live_bytes += (int64_t)(one.live * class_size(word));
  sums->free_bytes += (int64_t)((class_info[word].capacity - one.live) * class_size(word));
  return true;
}

static void complete(heap_stats_t *sums, const heap_t *h, size_t number) {
  sums->thread = os_thread_half(users_thread(number));
  sums->heap = (int64_t)(uintptr_t)heap_tag(h);
  if (number < TALLIES_OWN)
    sums->net_bytes =
      (int64_t)atomic64_load_relaxed(&slab_counts.tallies[number].counts[TALLY_LIVE]);
}

void heap_stats_each(heap_stats_row_t *row, void *context) {
  each_t all = {.count = pool_size()};
  size_t size = max_size(all.count, 1) * sizeof *all.of;
  all.of = os_map(size);
  if (all.of == NULL) return;
  visit_slabs(add_to_owner, &all);
  for (size_t i = 0; i < all.count; i++) {
    bool is_claimed;
    const heap_t *h = pool_at(i, &is_claimed);
    if (h == NULL || !heap_was_used(h)) continue;
    complete(&all.of[i], h, i);
    if (is_claimed || all.of[i].slabs != 0 || all.of[i].net_bytes != 0) row(&all.of[i], context);
  }
  os_unmap(all.of, size);
}
