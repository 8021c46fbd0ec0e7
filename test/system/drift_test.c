/* drift_test.c - blocks are replaced at random for a while; what is in memory stays near what is
 * live */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../test.h"

enum { SLOTS_MOST = 8000, MB = 1000000 };

/* `large` of a hundred blocks have `low` to `high` bytes, the others 16.5 to 19.5 KB. */
typedef struct {
  size_t large, low, high, live, operations;
} mix_t;

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
  check_drift(&(mix_t){5, 60000, 65000, 100 * MB, 60000});
}

TEST(drift, blocks_of_66_to_130_KB, "L3") {
  check_drift(&(mix_t){100, 66000, 130000, 100 * MB, 20000});
}

TEST(drift, blocks_of_33_to_64_KB, "L3") {
  check_drift(&(mix_t){100, 33000, 64000, 100 * MB, 20000});
}

/* ---- threads that free each other's blocks, one thread at a time ---- */

enum { TEAM = 16, TEAM_SLOTS = 28000, TURN = 10000, TURNS = 25 };
static char *team_blocks[TEAM_SLOTS];
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static size_t turn, team_live;
static uint64_t team_random = 88172645463325252u;

static void team_replace(size_t k) {
  size_t size = 128 + next(&team_random) % 897;
  if (team_blocks[k] != NULL) team_live -= *(size_t *)team_blocks[k];
  free(team_blocks[k]);
  team_blocks[k] = malloc(size);
  memset(team_blocks[k], 1, size);
  *(size_t *)team_blocks[k] = size;
  team_live += size;
}

static void *take_turns(void *number) {
  for (size_t t = (size_t)number; t < (size_t)TEAM * TURNS; t += TEAM) {
    pthread_mutex_lock(&turn_lock);
    while (turn != t) pthread_cond_wait(&turn_changed, &turn_lock);
    for (int i = 0; i < TURN; i++) team_replace(next(&team_random) % TEAM_SLOTS);
    turn++;
    pthread_cond_broadcast(&turn_changed);
    pthread_mutex_unlock(&turn_lock);
  }
  pthread_mutex_lock(&turn_lock); /* none ends, and lets go of its slabs, before all are done */
  while (turn < (size_t)TEAM * TURNS) pthread_cond_wait(&turn_changed, &turn_lock);
  if (number == 0) CHECK_LE(100 * resident() / team_live, 350u);
  turn++;
  pthread_cond_broadcast(&turn_changed);
  while (turn < (size_t)TEAM * TURNS + TEAM) pthread_cond_wait(&turn_changed, &turn_lock);
  pthread_mutex_unlock(&turn_lock);
  return NULL;
}

TEST(drift, threads_that_free_each_others_blocks_do_not_each_keep_slabs_for_them, "") {
  pthread_t threads[TEAM];
  for (size_t i = 0; i < TEAM; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, take_turns, (void *)i), 0);
  for (size_t i = 0; i < TEAM; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
}
