/* view.h - what is found in the target: where its memory is, and why
 * Owns:    view_t.   Called by: the commands.   Calls: adopt.h, threads.h, the library. */
#ifndef OUTSIDE_VIEW_H
#define OUTSIDE_VIEW_H

#include "../../include/freehold/freehold.h"
#include "../../src/stock/heap.h"

/* Of a size class; of number 0: of large blocks, whose `free` is their tails. Bytes, but slabs. */
typedef struct {
  uint64_t slabs, sparse;             /* sparse: less than a quarter of it is live */
  uint64_t live, resident, untouched; /* untouched: live, and in no memory */
  uint64_t free, sparse_free;         /* free and in memory; of that, in sparse slabs */
  uint64_t sparse_pages,
    owned_pages; /* of that, on pages where no block lives; of threads' slabs */
} view_class_t;

/* What one heap keeps for its next calls, in bytes; of slices, what is in memory. */
typedef struct {
  uint32_t number, thread; /* 0: not known */
  bool is_claimed, rests, is_lane;
  uint64_t bins, lists, slices;
} view_heap_t;

typedef struct {
  fh_stats_t stats;
  uint64_t read_at; /* ns of a clock that only goes forward: when the reading began */
  view_class_t classes[CLASS_COUNT], total;
  view_heap_t *heaps; /* those that were ever used; the ones that keep most come first */
  size_t heap_count;
  uint64_t kept_blocks, kept_slices; /* bytes, of all heaps */
  /* What is in memory of free slices that were not yet given back, and of free pages in spans. */
  uint64_t idle, idle_pages;
  uint64_t huge_live, huge_resident, metadata_resident;
  uint64_t changed; /* slabs and lists that changed while they were read */
} view_t;

/* Reads the target. False: it has ended, or cannot be read; a line on standard error says so. */
bool view_read(view_t *v);

/* The heap's thread, for people: "1234 io-worker S", "1234 ended", "at rest". */
const char *view_heap_title(const view_heap_t *h, char text[64]);

#endif
