/* glibc.c - the rest of glibc's malloc.h: reports and settings                         layer 8: api
 * Owns:    nothing.   Called by: the program.   Calls: heap, stock, arena, support, report.c;
 *          stdio in malloc_info alone.
 * Threads: any. Every answer is about freehold's memory; libc's own heap is never started. */
#if defined(__linux__)
#include "api.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "../heap/stats.h"
#include "../stock/pool.h"

/* Declared here, not by <malloc.h>: not every libc has both, and its prototypes carry attributes
 * that this layer's definitions do not want. */
struct mallinfo {
  int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
FH_API struct mallinfo mallinfo(void);
FH_API struct mallinfo2 mallinfo2(void);
FH_API int malloc_info(int options, FILE *file);
FH_API void malloc_stats(void);
FH_API int malloc_trim(size_t pad);
FH_API int mallopt(int parameter, int value);

/* Free blocks in the slabs of one class. */
static uint64_t free_blocks_of(const fh_class_stats_t *c) {
  if (c->block_size == 0 || c->block_size > SMALL_MOST) return 0;
  uint64_t room = c->slabs * class_info[class_of(c->block_size)].capacity;
  return room > c->live ? room - c->live : 0;
}

/* ---- mallinfo -------------------------------------------------------------------------------- */

/* glibc's words: arena is the memory from the system, ordblks the free blocks of slabs, uordblks
 * the memory in use, fordblks the rest, keepcost what malloc_trim could give back. Blocks with
 * their own mapping are in uordblks; hblks counts them. All are running sums: the call takes as
 * long in a large process as in a small one. They are what fh_stats_get counts. But blocks that
 * another thread has freed into its own slabs, and not looked at since, are in use here. That is at
 * most what 16 slabs of each class below 1 KiB hold. Blocks of no bytes count nowhere. */
static struct mallinfo2 info2(void) {
  struct mallinfo2 info = {0};
  uint64_t live, free, huge = atomic64_load_relaxed(&arena_counts.huge_bytes); /* relaxed: sums */
  api_start();
  heap_sums(&live, &free);
  info.keepcost = atomic64_load_relaxed(&arena_counts.dirty) << SLICE_SHIFT;
  info.arena = atomic64_load_relaxed(&arena_counts.committed) << SLICE_SHIFT;
  info.arena += huge + info.keepcost;
  info.ordblks = free;
  info.hblks = atomic64_load_relaxed(&heap_counts.huge_live);
  info.uordblks = live;
  info.fordblks = info.arena > live ? info.arena - live : 0;
  return info;
}

/* The old form has 32 bits: a figure that does not fit shows as the greatest one that does. */
static int narrow(size_t n) { return n > INT_MAX ? INT_MAX : (int)n; }

/* clang-format off */
struct mallinfo mallinfo(void) {
  struct mallinfo2 wide = info2();
  return (struct mallinfo){
    .arena = narrow(wide.arena),       .ordblks = narrow(wide.ordblks),
    .hblks = narrow(wide.hblks),       .hblkhd = narrow(wide.hblkhd),
    .uordblks = narrow(wide.uordblks), .fordblks = narrow(wide.fordblks),
    .keepcost = narrow(wide.keepcost),
  };
}

struct mallinfo2 mallinfo2(void) { return info2(); } /* clang-format on */

/* ---- malloc_info: XML with glibc's elements -------------------------------------------------- */

static void put_attribute(fmt_t *f, const char *name, uint64_t n) {
  fmt_print(f, " %s=\"%lu\"", name, n);
}

/* <element type="..." size="..."/>, with a count if it is not UINT64_MAX */
static void put_total(fmt_t *f, const char *element, const char *type, uint64_t count,
                      uint64_t size) {
  fmt_print(f, "<%s type=\"%s\"", element, type);
  if (count != UINT64_MAX) put_attribute(f, "count", count);
  put_attribute(f, "size", size);
  fmt_text(f, "/>\n");
}

static void put_totals(fmt_t *f, const fh_stats_t *stats, uint64_t free_blocks) {
  uint64_t from_system = stats->committed + stats->dirty;
  uint64_t unused_bytes = from_system > stats->live_bytes ? from_system - stats->live_bytes : 0;
  put_total(f, "total", "fast", 0, 0);
  put_total(f, "total", "rest", free_blocks, unused_bytes);
  put_total(f, "system", "current", UINT64_MAX, from_system);
  /* a lower bound: the peak of dirty memory is not kept */
  put_total(f, "system", "max", UINT64_MAX, max_size(from_system, stats->peak_committed));
  put_total(f, "aspace", "total", UINT64_MAX, stats->mapped);
  put_total(f, "aspace", "mprotect", UINT64_MAX, stats->mapped);
}

static void put_info(fmt_t *f, const fh_stats_t *stats) {
  uint64_t free_blocks = 0;
  fmt_text(f, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
  for (unsigned i = 0; i < FH_CLASSES; i++) {
    const fh_class_stats_t *c = &stats->classes[i];
    uint64_t count = free_blocks_of(c);
    if (count == 0) continue;
    free_blocks += count;
    fmt_text(f, "  <size");
    put_attribute(f, "from", i == 0 ? 1 : stats->classes[i - 1].block_size + 1);
    put_attribute(f, "to", c->block_size);
    put_attribute(f, "total", count * c->block_size);
    put_attribute(f, "count", count);
    fmt_text(f, "/>\n");
  }
  fmt_text(f, "</sizes>\n");
  put_totals(f, stats, free_blocks);
  fmt_text(f, "</heap>\n");
  put_totals(f, stats, free_blocks);
  fmt_text(f, "</malloc>\n");
}

static void write_to_file(const char *text, size_t length, void *file) {
  if (fwrite(text, 1, length, file) != length) return; /* the stream keeps the error */
}

int malloc_info(int options, FILE *file) {
  char buffer[2048];
  fh_stats_t stats = {.struct_size = sizeof stats};
  fmt_t f;
  if (options != 0) return EINVAL;
  fh_stats_get(&stats);
  fmt_start(&f, buffer, sizeof buffer, write_to_file, file);
  put_info(&f, &stats);
  fmt_flush(&f);
  return 0;
}

void malloc_stats(void) { fh_stats_print(false); }

/* ---- settings -------------------------------------------------------------------------------- */

/* 1 if any thread gave pages back to the system meanwhile. `pad` has no meaning here: there is no
 * top of the heap to keep. */
int malloc_trim(size_t pad) {
  (void)pad;
  uint64_t before = atomic64_load_relaxed(&arena_counts.purged); /* relaxed: a sum */
  fh_collect(true);
  return atomic64_load_relaxed(&arena_counts.purged) != before;
}

/* glibc's numbers. Parameters of its own structures are accepted, but have no effect. */
/* clang-format off */
enum { GLIBC_MXFAST = 1, GLIBC_NLBLKS, GLIBC_GRAIN, GLIBC_KEEP,
       GLIBC_ARENA_MAX = -8, GLIBC_ARENA_TEST, GLIBC_PERTURB, GLIBC_CHECK_ACTION, GLIBC_MMAP_MAX,
       GLIBC_MMAP_THRESHOLD, GLIBC_TOP_PAD, GLIBC_TRIM_THRESHOLD };

/* 1 on success, 0 for an unknown parameter or a value that glibc refuses. M_TRIM_THRESHOLD
 * sets the option purge_budget (a negative value: no limit). */
int mallopt(int parameter, int value) {
  switch (parameter) {
    case GLIBC_TRIM_THRESHOLD:
      return fh_option_set("purge_budget", value < 0 ? OPTION_NO_LIMIT : value);
    case GLIBC_MXFAST:
      return value >= 0 && value <= 80 * (int)sizeof(size_t) / 4;
    case GLIBC_MMAP_THRESHOLD:
      return value >= 0 && value <= 32 << 20;
    case GLIBC_NLBLKS: case GLIBC_GRAIN: case GLIBC_KEEP:
    case GLIBC_ARENA_MAX: case GLIBC_ARENA_TEST: case GLIBC_PERTURB:
    case GLIBC_CHECK_ACTION: case GLIBC_MMAP_MAX: case GLIBC_TOP_PAD:
      return 1;
    default:
      return 0;
  }
} /* clang-format on */

/* Names that a program's own functions of the same names may call. */
#ifdef __GLIBC__
TWIN(mallopt) int __libc_mallopt(int parameter, int value);
TWIN(mallinfo) struct mallinfo __libc_mallinfo(void);
#endif
#endif
