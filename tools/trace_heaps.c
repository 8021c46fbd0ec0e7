/* trace_heaps.c - which blocks of a trace each first-class heap has
 * Contract: trace_heaps.h. */
#include "trace_heaps.h"

#include <stdlib.h>

/* The heap's record, or the free one where it belongs. */
static trace_heap_t *find_heap(const trace_heaps_t *h, uintptr_t heap) {
  size_t at = (size_t)(heap * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (h->room - 1);
  while (h->table[at].heap != 0 && h->table[at].heap != heap) at = (at + 1) & (h->room - 1);
  return &h->table[at];
}

/* Those without blocks go. */
static bool grow_heaps(trace_heaps_t *h) {
  trace_heaps_t wider = *h;
  size_t having = 0;
  for (size_t i = 0; i < h->room; i++) having += h->table[i].count != 0;
  for (wider.room = 64; wider.room < having * 4;) wider.room *= 2;
  wider.table = calloc(wider.room, sizeof *wider.table);
  if (wider.table == NULL) return false;
  wider.used = having;
  for (size_t i = 0; i < h->room; i++)
    if (h->table[i].count != 0) *find_heap(&wider, h->table[i].heap) = h->table[i];
    else free(h->table[i].blocks);
  free(h->table);
  *h = wider;
  return true;
}

static int lower_first(const void *a, const void *b) {
  uintptr_t first = *(const uintptr_t *)a, second = *(const uintptr_t *)b;
  return (first > second) - (first < second);
}

/* What lives stays, once. */
static void sift(const trace_heaps_t *h, trace_heap_t *of) {
  size_t kept = 0;
  qsort(of->blocks, of->count, sizeof *of->blocks, lower_first);
  for (size_t i = 0; i < of->count; i++) {
    uintptr_t address = of->blocks[i];
    bool is_new = kept == 0 || of->blocks[kept - 1] != address;
    if (is_new && h->lives(h->context, of->heap, address)) of->blocks[kept++] = address;
  }
  of->count = kept;
}

static bool make_room(const trace_heaps_t *h, trace_heap_t *of) {
  if (of->count < of->room) return true;
  if (of->count != 0) sift(h, of);
  if (of->room != 0 && of->count <= of->room / 2) return true;
  size_t room = of->count * 2 < 16 ? 16 : of->count * 2;
  uintptr_t *blocks = realloc(of->blocks, room * sizeof *blocks);
  if (blocks == NULL) return false;
  of->blocks = blocks;
  of->room = room;
  return true;
}

bool trace_heaps_note(trace_heaps_t *h, uintptr_t heap, uintptr_t address) {
  if (h->used * 2 >= h->room && !grow_heaps(h)) return false;
  trace_heap_t *of = find_heap(h, heap);
  h->used += of->heap == 0;
  of->heap = heap;
  if (!make_room(h, of)) return false;
  of->blocks[of->count++] = address;
  return true;
}

trace_heap_t trace_heaps_take(trace_heaps_t *h, uintptr_t heap) {
  trace_heap_t none = {.heap = heap}, *of = h->room == 0 ? &none : find_heap(h, heap), had = *of;
  if (of->heap != heap || of == &none) return none;
  *of = none;
  return had;
}

void trace_heaps_free(trace_heaps_t *h) {
  for (size_t i = 0; i < h->room; i++) free(h->table[i].blocks);
  free(h->table);
  h->table = NULL;
  h->room = h->used = 0;
}
