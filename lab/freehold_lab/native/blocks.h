/* blocks.h - the blocks of a trace that live, by address, while it is read
 *
 * Owns:    the table of blocks, which of them are a first-class heap's, and each thread's blocks
 *          that realloc has in hand.
 * Memory:  at most four records of 32 bytes for each block that lives at a moment, six while the
 *          table grows; two words more of a heap's. */
#ifndef NATIVE_BLOCKS_H
#define NATIVE_BLOCKS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../tools/trace_file.c"
#include "../../../tools/trace_heaps.c"

typedef struct {
  uintptr_t address; /* 0: none; 1: there was one */
  uintptr_t heap;
  uint64_t size;
  uint32_t slot; /* of a tape */
} block_t;

static block_t *table;
static size_t table_room, table_used, live;
static uint64_t live_bytes;

static void leave(const char *path, const char *what) {
  fprintf(stderr, "%s: '%s' %s\n", program_invocation_short_name, path, what);
  exit(EXIT_FAILURE);
}

static void *more(void *at, size_t size) {
  void *p = realloc(at, size);
  if (p == NULL) leave("memory", strerror(ENOMEM));
  return p;
}

static size_t place_of(uintptr_t address) {
  return (size_t)(address * 0x9E3779B97F4A7C15u >> 20) & (table_room - 1);
}

static block_t *find_block(uintptr_t address) {
  size_t at = place_of(address);
  while (table[at].address != 0 && table[at].address != address) at = (at + 1) & (table_room - 1);
  return &table[at];
}

static bool lives_in(const void *context, uintptr_t heap, uintptr_t address) {
  const block_t *b = find_block(address);
  (void)context;
  return b->address == address && b->heap == heap;
}
static trace_heaps_t heaps = {.lives = lives_in};

static void grow_table(void) {
  block_t *old = table;
  size_t room = table_room;
  table_room = 1 << 12;
  while (table_room < live * 2) table_room *= 2;
  table = memset(more(NULL, table_room * sizeof *table), 0, table_room * sizeof *table);
  table_used = 0;
  for (size_t i = 0; i < room; i++) {
    if (old[i].address <= 1) continue;
    *find_block(old[i].address) = old[i];
    table_used++;
  }
  free(old);
}

/* There is none of that address. The place of one that was is taken again, so what comes and goes
 * at one address leaves no trail behind. */
static void add_block(block_t b) {
  if (table_used * 4 >= table_room * 3) grow_table();
  size_t at = place_of(b.address);
  while (table[at].address > 1) at = (at + 1) & (table_room - 1);
  table_used += table[at].address == 0;
  table[at] = b;
  if (b.heap != 0 && !trace_heaps_note(&heaps, b.heap, b.address))
    leave("memory", strerror(ENOMEM));
  live++;
  live_bytes += b.size;
}

static bool drop_block(uintptr_t address, block_t *b) {
  block_t *at = table_room == 0 ? NULL : find_block(address);
  if (at == NULL || at->address != address) return false;
  *b = *at;
  at->address = 1;
  live--;
  live_bytes -= b->size;
  return true;
}

/* Calls `end` for each block of a heap that ends, or makes it no heap's. */
static void end_blocks(uintptr_t heap, void (*end)(const block_t *b, void *context),
                       void *context) {
  trace_heap_t had = trace_heaps_take(&heaps, heap);
  for (size_t i = 0; i < had.count; i++) {
    block_t b;
    if (!lives_in(NULL, heap, had.blocks[i])) continue;
    if (end == NULL) find_block(had.blocks[i])->heap = 0;
    else if (drop_block(had.blocks[i], &b)) end(&b, context);
  }
  free(had.blocks);
}

static void forget_blocks(void) {
  free(table);
  table = NULL;
  table_room = table_used = live = 0;
  live_bytes = 0;
  trace_heaps_free(&heaps);
}

/* ---- what realloc has in hand: more than one block where handlers interrupt ------------------ */

typedef struct {
  block_t *blocks;
  size_t count;
} moves_t;

/* A block that is not known has the address 0. */
static void begin_move(moves_t *m, uintptr_t address) {
  block_t b;
  if (!drop_block(address, &b)) b = (block_t){.address = 0};
  m->blocks = more(m->blocks, (m->count + 1) * sizeof *m->blocks);
  m->blocks[m->count++] = b;
}

static bool end_move(moves_t *m, block_t *b) {
  if (m->count == 0) return false;
  *b = m->blocks[--m->count];
  return true;
}

#endif
