/* holders.c - sampled blocks, summed by call stack and size
 * Contract: holders.h. */
#include "holders.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The place of that stack and size, or the free one where it belongs. */
static uint32_t *place_of(holders_t *h, uint32_t stack, uint64_t size) {
  uint64_t mixed = (stack * UINT64_C(0x9E3779B97F4A7C15) ^ size) * UINT64_C(0xD6E8FEB86659FD93);
  for (size_t at = mixed >> 32;; at++) {
    uint32_t *place = &h->places[at & (h->place_count - 1)];
    h->looks++;
    if (*place == 0) return place;
    const holder_t *found = &h->all[*place - 1];
    if (found->stack == stack && found->size == size) return place;
  }
}

static void make_room(holders_t *h) {
  if (h->count < h->room) return;
  h->room = h->room * 2 + 512;
  h->place_count = 1024;
  while (h->place_count < 2 * h->room) h->place_count *= 2;
  free(h->places);
  h->all = realloc(h->all, h->room * sizeof *h->all);
  h->places = calloc(h->place_count, sizeof *h->places);
  if (h->all == NULL || h->places == NULL) abort();
  for (size_t i = 0; i < h->count; i++)
    *place_of(h, h->all[i].stack, h->all[i].size) = (uint32_t)i + 1;
}

holder_t *holders_add(holders_t *h, const holder_t *one) {
  make_room(h);
  uint32_t *place = place_of(h, one->stack, one->size);
  if (*place == 0) {
    h->all[h->count] = *one;
    *place = (uint32_t)++h->count;
    return &h->all[h->count - 1];
  }
  holder_t *sum = &h->all[*place - 1];
  sum->bytes += one->bytes;
  sum->samples += one->samples;
  if (one->youngest < sum->youngest) sum->youngest = one->youngest;
  if (one->oldest > sum->oldest) sum->oldest = one->oldest;
  return NULL;
}

void holders_add_stacks(holders_t *to, const holders_t *from) {
  for (size_t i = 0; i < from->count; i++) {
    holder_t one = from->all[i];
    one.size = 0;
    holders_add(to, &one);
  }
}

static int by_bytes(const void *a, const void *b) {
  const holder_t *first = a, *second = b;
  if (first->bytes != second->bytes) return first->bytes < second->bytes ? 1 : -1;
  return first->stack < second->stack ? -1 : first->stack > second->stack;
}

void holders_sort(holders_t *h) {
  if (h->count != 0) qsort(h->all, h->count, sizeof *h->all, by_bytes);
}

void holders_empty(holders_t *h) {
  h->count = 0;
  if (h->places != NULL) memset(h->places, 0, h->place_count * sizeof *h->places);
}

void holders_free(holders_t *h) {
  free(h->all);
  free(h->places);
  *h = (holders_t){.all = NULL};
}
