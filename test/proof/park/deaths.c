/* deaths.c - what a thread that dies costs, from a thousand of them
 *
 * Each thread works a little, then ends by a bare system call at the next point of a malloc and a
 * free. All in one process: nothing is copied here, and the losses add up. */
#include "park.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile unsigned long points, wanted;

static void die_at_point(uintptr_t instruction) {
  (void)instruction;
  if (points++ == wanted) snapshot_die();
}

/* So many of each size that the thread comes to own a slab of it. */
static const size_t sizes[] = {200, 2000, 5000};
enum { OF_EACH = 20, SLAB_BYTES = 65536 };

static void work(void) {
  void *blocks[OF_EACH];
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    for (size_t k = 0; k < OF_EACH; k++) blocks[k] = api.malloc(sizes[i]);
    for (size_t k = 0; k < OF_EACH; k++) api.free(blocks[k]);
  }
}

static void *work_and_die(void *unused) {
  work();
  step_begin(die_at_point);
  void *p = api.malloc(200);
  api.free(p);
  p = api.malloc(700);
  api.free(p);
  step_end();
  return unused;
}

static void die_once(unsigned long point) {
  pthread_t thread;
  points = 0;
  wanted = point;
  if (pthread_create(&thread, NULL, work_and_die, NULL) != 0) park_fail("no thread");
  pthread_join(thread, NULL);
}

static fh_stats_t now(void) {
  fh_stats_t stats;
  api.collect(true);
  stats.struct_size = sizeof stats;
  EXPECT(api.stats_get(&stats));
  return stats;
}

/* The points of a thread that nothing happens to. */
static unsigned long count_points(void) {
  die_once((unsigned long)-1);
  return points;
}

static unsigned count;
static bool is_bounded;

static void die_and_compare(void) {
  unsigned long all = count_points();
  fh_stats_t before = now();
  for (unsigned i = 0; i < count; i++) die_once(i % all);
  fh_stats_t after = now();
  double heaps = (double)(after.threads - before.threads) / count,
         committed = (double)(after.committed - before.committed) / count,
         resident = (double)(after.resident - before.resident) / count;
  is_bounded = heaps <= 1 && committed <= (COUNT_OF(sizes) + 1) * SLAB_BYTES;
  printf(
    "{\"operation\": \"deaths\", \"action\": \"DEATHS\", \"points\": %lu, \"tried\": %u, "
    "\"passed\": %u, "
    "\"hung\": 0, \"failures\": [], \"heaps\": %.3f, \"committed\": %.0f, \"resident\": %.0f}\n",
    all, count, is_bounded ? count : 0, heaps, committed, resident);
  round_whole();
  shadow_put_all();
  oracle_check_structures();
}

int deaths(unsigned threads) {
  count = threads;
  step_install();
  in_thread(die_and_compare);
  return is_bounded ? 0 : 1;
}
