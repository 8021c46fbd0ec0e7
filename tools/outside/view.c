/* view.c - what is found in the target: where its memory is, and why
 * Contract: view.h. It is the library's own code that finds it: visit.h, pool.h, stats.h. */
#include "view.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../src/heap/stats.h"
#include "../../src/heap/visit.h"
#include "../../src/os/os.h"
#include "../../src/slab/holes.h"
#include "../../src/slab/span.h"
#include "../../src/stock/fresh.h"
#include "../../src/stock/huge.h"
#include "../../src/stock/pool.h"
#include "../../src/stock/users.h"
#include "../../src/stock/returned.h"
#include "adopt.h"
#include "target.h"
#include "threads.h"

/* ---- slabs ----------------------------------------------------------------------------------- */

static void add_to(view_class_t *sum, const view_class_t *more) {
  for (size_t i = 0; i < sizeof *sum / sizeof(uint64_t); i++)
    ((uint64_t *)sum)[i] += ((const uint64_t *)more)[i];
}

/* What is in memory on pages where no block lives. */
static uint64_t read_free_pages(const slab_t *s, unsigned c) {
  size_t size = class_size(c), page = os_page_size();
  uint64_t bytes = 0, fresh = atomic64_load_relaxed(&s->fresh);
  size_t carved = min_size(atomic32_load_relaxed(&s->carved), class_info[c].capacity);
  uintptr_t base = slab_base(s);
  uint32_t live = 0;
  for (uintptr_t block = base + size; block <= base + carved * size; block += size) {
    uint32_t pages = slab_pages_of(block, size);
    if ((pages & ~live) == 0 || (fresh & fresh_bit(block)) != 0) continue;
    if (os_resident((void *)align_down(block, page), page) == 0) continue;
    if (!slab_block_is_free(s, block)) live |= pages;
  }
  for (size_t at = 0; at < SLICE_SIZE; at += page)
    if ((live >> at / page & 1) == 0) bytes += os_resident((void *)(base + at), page);
  return bytes;
}

static void add_small(view_t *v, const slab_t *s, uint32_t word, void *base) {
  anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor));
  size_t size = class_size(word), capacity = class_info[word].capacity;
  uint64_t used = slab_used(s), live = used > a.count ? used - a.count : 0;
  if (used > capacity || a.count > used) v->changed++;
  if (live > capacity) live = capacity;
  view_class_t one = {.slabs = 1, .live = live * size};
  one.resident = os_resident(base, SLICE_SIZE);
  if (one.resident > one.live) one.free = one.resident - one.live;
  else one.untouched = one.live - one.resident;
  one.sparse = live * 4 < capacity;
  if (one.sparse != 0) {
    one.sparse_free = one.free;
    *(slab_owner(s) != NULL ? &one.owned_pages : &one.sparse_pages) = read_free_pages(s, word);
  }
  add_to(&v->classes[word], &one);
}

static void add_large(view_t *v, const slab_t *s, void *base) {
  uint64_t size = atomic64_load_relaxed(&s->size), page = os_page_size();
  uint64_t room = (uint64_t)atomic16_load_relaxed(&s->slices) << SLICE_SHIFT;
  uint64_t most = WINDOW_SIZE - (uintptr_t)base % WINDOW_SIZE;
  if (room > most || size > room) v->changed++;
  room = min_size(room, most);
  size = min_size(size, room);
  view_class_t one = {.slabs = 1, .live = size, .resident = os_resident(base, room)};
  uint64_t touched = os_resident(base, min_size(align_up(size, page), room));
  one.free = one.resident - touched;
  one.untouched = size > touched ? size - touched : 0;
  add_to(&v->classes[0], &one);
}

/* Each run of its pages is a large block. */
static void add_span(view_t *v, void *base) {
  view_class_t one = {.resident = os_resident(base, SPAN_SIZE)};
  uint64_t touched = 0;
  unsigned pages;
  for (char *p = base; p < (char *)base + SPAN_SIZE; p += SPAN_PAGE) {
    if (span_find(p, &pages) != p) continue;
    size_t size = (size_t)pages << SPAN_PAGE_SHIFT;
    one.slabs++;
    one.live += size;
    touched += os_resident(p, size);
  }
  one.untouched = one.live > touched ? one.live - touched : 0;
  v->idle_pages += one.resident > touched ? one.resident - touched : 0;
  add_to(&v->classes[0], &one);
}

static bool add_slab(slab_t *s, uint32_t word, void *context) {
  void *base = (void *)slab_base(s);
  if (slab_kind(word) == SLAB_LARGE) add_large(context, s, base);
  else if (slab_kind(word) == SLAB_SPAN) add_span(context, base);
  else if (word < CLASS_COUNT) add_small(context, s, word, base);
  else ((view_t *)context)->changed++;
  return true;
}

/* ---- heaps ----------------------------------------------------------------------------------- */

static bool is_in_arena(uintptr_t p) {
  for (size_t i = 0; i < arena_count(); i++) {
    const arena_t *a = arena_at(i);
    if (a != NULL && (void *)arena_of((void *)p) == (const void *)a) return true;
  }
  return false;
}

/* How many blocks a list has. Its pages were read one after another, so its parts may be of
 * different moments: then it leads to a block in use, which has no key, or to itself. */
static uint64_t count_list(view_t *v, uintptr_t block) {
  uintptr_t earlier = 0; /* moved forward each time that as many blocks again were seen */
  uint64_t n = 0;
  for (; block != 0; block = block_next(block), n++) {
    bool is_whole =
      block % 16 == 0 && is_in_arena(block) && target_has((void *)block) && block_is_free(block);
    if (!is_whole || block == earlier) {
      v->changed++;
      return is_whole ? 0 : n;
    }
    if ((n & (n - 1)) == 0) earlier = block;
  }
  return n;
}

/* What is in memory of the slices that a heap keeps. */
static uint64_t resident_slices(view_t *v, const heap_t *h) {
  unsigned left = h->singles + h->run_slices;
  uint64_t bytes = 0;
  for (unsigned n = 1; n <= RUN_MOST; n++)
    for (uint32_t number = h->magazine[n - 1]; number != 0;) {
      const slab_t *s = slab_numbered(number);
      if (left < n || !is_in_arena((uintptr_t)s) || !target_has(s)) return v->changed++, bytes;
      left -= n;
      bytes += os_resident((const void *)slab_base(s), (size_t)n << SLICE_SHIFT);
      number = s->next_in_magazine;
    }
  return bytes;
}

static void add_heap(view_t *v, heap_t *h, size_t number, bool is_claimed) {
  view_heap_t *one = &v->heaps[v->heap_count++];
  *one = (view_heap_t){.number = (uint32_t)number, .is_claimed = is_claimed};
  one->thread = (uint32_t)(users_thread(number) & (((uint64_t)1 << OS_THREAD_BITS / 2) - 1));
  one->rests = atomic32_load_relaxed(&h->resting_pages) != 0;
  one->is_lane = heap_tag(h) != NULL;
  one->slices = resident_slices(v, h);
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    size_t size = class_size(c), returned = (uint16_t)(h->returned_most[c] - h->returned_room[c]);
    one->bins += count_list(v, h->bin[c]) * size;
    one->lists += (returned + heap_fresh(h, c).count) * size;
  }
  v->kept_blocks += one->bins + one->lists;
  v->kept_slices += one->slices;
}

static uint64_t kept_by(const view_heap_t *h) { return h->bins + h->lists + h->slices; }

static int by_kept(const void *a, const void *b) {
  uint64_t first = kept_by(a), second = kept_by(b);
  return first < second ? 1 : -(first > second);
}

static void read_heaps(view_t *v) {
  size_t size = pool_size();
  v->heaps = realloc(v->heaps, (size + 1) * sizeof *v->heaps);
  if (v->heaps == NULL) abort();
  for (size_t i = 0; i < size; i++) {
    bool is_claimed;
    heap_t *h = pool_at(i, &is_claimed);
    if (h == NULL || !heap_was_used(h)) continue;
    v->metadata_resident += sizeof *h + sizeof *h->aside + sizeof *h->own;
    add_heap(v, h, i, is_claimed);
  }
  qsort(v->heaps, v->heap_count, sizeof *v->heaps, by_kept);
}

const char *view_heap_title(const view_heap_t *h, char text[64]) {
  const thread_t *thread = threads_find(h->thread);
  if (h->rests) return "at rest, for the next thread";
  if (!h->is_claimed) return "of a thread that has ended";
  if (h->is_lane) return "of a first-class heap";
  if (thread != NULL) snprintf(text, 64, "%u %s (%c)", thread->number, thread->name, thread->state);
  else if (h->thread != 0)
    snprintf(text, 64, "%u%s", h->thread, target_is_process() ? ", ended" : "");
  else snprintf(text, 64, "heap %u", h->number);
  return text;
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* What a heap counts, `heap_counts` has as well: a heap's own moves there now and then, all of it
 * when it ends. */
typedef struct {
  uint64_t binned[CLASS_COUNT], large_live, large_allocated, remote_frees, shared_frees, swaps;
} counts_t;
enum { COUNTS = sizeof(counts_t) / sizeof(uint64_t), COUNTS_TRIES = 32 };

/* False: the target has ended. */
static bool read_moved(counts_t *moved) {
  heap_counts_t its;
  if (target_read(adopt_address(&heap_counts), &its, sizeof its) != sizeof its) return false;
#define MOVED(field) moved->field = atomic64_load_relaxed(&its.field)
  for (unsigned c = 0; c < CLASS_COUNT; c++) MOVED(binned[c]);
  MOVED(large_live), MOVED(large_allocated);
  MOVED(remote_frees), MOVED(shared_frees), MOVED(swaps);
  return true;
}

static bool add_own(counts_t *sum, const heap_t *h) {
  heap_t its;
  if (target_read(adopt_address(h), &its, sizeof its) != sizeof its) return false;
  for (unsigned c = 0; c < CLASS_COUNT; c++) sum->binned[c] += heap_binned(&its, c);
#define ADD_OWN(field) sum->field += atomic64_load_relaxed(&its.field)
  ADD_OWN(large_live), ADD_OWN(large_allocated);
  ADD_OWN(remote_frees), ADD_OWN(shared_frees), ADD_OWN(swaps);
  return true;
}

static bool add_all_own(counts_t *sum) {
  for (size_t i = 0; i < pool_size(); i++) {
    bool is_claimed;
    const heap_t *h = pool_at(i, &is_claimed);
    if (h != NULL && heap_was_used(h) && !add_own(sum, h)) return false;
  }
  return true;
}

/* A count is good if nothing moved while the heaps were read: else what did is in it twice or not
 * at all, and a later one may be less. False: the target has ended. */
static bool read_counts(counts_t *good) {
  bool is_good[COUNTS] = {false};
  size_t left = COUNTS;
  for (int i = 1; i <= COUNTS_TRIES && left != 0; i++) {
    counts_t before, sum, after;
    if (!read_moved(&before)) return false;
    sum = before;
    if (!add_all_own(&sum) || !read_moved(&after)) return false;
    for (size_t k = 0; k < COUNTS; k++) {
      bool has_moved = ((uint64_t *)&before)[k] != ((uint64_t *)&after)[k];
      if (is_good[k] || (has_moved && i < COUNTS_TRIES)) continue;
      ((uint64_t *)good)[k] = ((uint64_t *)&sum)[k];
      is_good[k] = true;
      left--;
    }
  }
  return true;
}

/* heap_stats has them of the moments at which each page came here. */
static void renew_counts(fh_stats_t *stats) {
  counts_t good;
  if (!read_counts(&good)) return;
  stats->total.allocated = 0;
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    stats->classes[c - 1].allocated = good.binned[c];
    stats->total.allocated += good.binned[c];
  }
  stats->large_live = (int64_t)good.large_live < 0 ? 0 : good.large_live;
  stats->large_allocated = good.large_allocated;
  stats->remote_frees = good.remote_frees;
  stats->shared_frees = good.shared_frees;
  stats->swaps = good.swaps;
}

/* ---- all ------------------------------------------------------------------------------------- */

static void read_free_slices(view_t *v, const arena_t *a) {
  size_t mapped = min_size(atomic64_load_relaxed(&a->mapped), WINDOW_SLICES);
  for (size_t group = 0; group * 64 < mapped; group++) {
    uint64_t dirty = atomic64_load_relaxed(&arena_maps(a)->dirty[group]);
    for (dirty &= atomic64_load_relaxed(&a->free[group]); dirty != 0; dirty &= dirty - 1)
      v->idle += os_resident(arena_address(a, group * 64 + bits_lowest(dirty)), SLICE_SIZE);
  }
}

static void read_mappings(view_t *v) {
  for (size_t i = 0; i < arena_count(); i++) {
    const arena_t *a = arena_at(i);
    if (a == NULL) continue;
    v->metadata_resident += os_resident(a, ARENA_FIRST_SLICE << SLICE_SHIFT);
    read_free_slices(v, a);
  }
  const huge_t *b;
  for (size_t i = 0; (b = huge_next(&i)) != NULL;) {
    v->huge_live += atomic64_load_relaxed(&b->size);
    v->huge_resident += os_resident(huge_base(b), atomic64_load_relaxed(&b->mapped));
  }
}

static void read_all(void *context) {
  view_t *v = context;
  *v =
    (view_t){.stats = {.struct_size = sizeof v->stats}, .read_at = os_now_ns(), .heaps = v->heaps};
  heap_stats(&v->stats);
  renew_counts(&v->stats);
  visit_slabs(add_slab, v);
  for (unsigned c = 0; c < CLASS_COUNT; c++) add_to(&v->total, &v->classes[c]);
  read_heaps(v);
  read_mappings(v);
}

bool view_read(view_t *v) {
  threads_read();
  return adopt_run(read_all, v);
}
