/* drift_test.c - blocks are replaced at random for a while; what is in memory stays near what is
 * live */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../test.h"

enum { SLOTS_MOST = 8000, MB = 1000000 };

/* `large` of a hundred blocks have `low` to `high` bytes, the others 16.5 to 19.5 KB. */
typedef struct { size_t large, low, high, live, operations; } mix_t;

static char *blocks[SLOTS_MOST];
static size_t sizes[SLOTS_MOST];

static size_t resident(void) {
  char text[100] = "";
  int file = open("/proc/self/statm", O_RDONLY);
  CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0);
  close(file);
  return strtoul(strchr(text, ' '), NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static uint64_t next(uint64_t *x) {
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x >> 16;
}

static size_t replace(size_t k, size_t size) {
  size_t before = sizes[k];
  free(blocks[k]);
  blocks[k] = malloc(size);
  sizes[k] = size;
  memset(blocks[k], 1, size);
  return size - before;
}

static void check_drift(const mix_t *m) {
  uint64_t x = 88172645463325252u;
  size_t live = 0, slots = 0, before = resident();
  for (size_t i = 0; i < m->operations; i++) {
    size_t size = 16500 + next(&x) % 3000;
    if (next(&x) % 100 < m->large) size = m->low + next(&x) % (m->high - m->low);
    size_t k = live < m->live && slots < SLOTS_MOST ? slots++ : next(&x) % slots;
    live += replace(k, size);
  }
  size_t percent = 100 * (resident() - before) / live;
  CHECK_LE(percent, 122u);
  for (size_t k = 0; k < slots; k++) {
    free(blocks[k]);
    blocks[k] = NULL;
    sizes[k] = 0;
  }
}

TEST(drift, few_blocks_of_almost_a_slice_among_many_of_18_KB, "L3") {
  check_drift(&(mix_t){ 5, 60000, 65000, 100 * MB, 60000 });
}

TEST(drift, blocks_of_66_to_130_KB, "L3") {
  check_drift(&(mix_t){ 100, 66000, 130000, 100 * MB, 20000 });
}

TEST(drift, blocks_of_33_to_64_KB, "L3") {
  check_drift(&(mix_t){ 100, 33000, 64000, 100 * MB, 20000 });
}
