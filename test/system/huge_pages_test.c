/* huge_pages_test.c - what is dense in a large heap comes to lie in huge pages, and takes no more
 * memory */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../include/freehold/freehold.h"
#include "../test.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { BLOCKS = 1 << 20, HUGE_PAGE = 2 << 20, SECONDS_MOST = 60 };
static char *blocks[BLOCKS];

/* Whoever runs the system wants them, and it makes them. */
static bool has_huge_pages(void) {
  char text[100] = "";
  int file = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);
  if (file < 0 || read(file, text, sizeof text - 1) <= 0) return false;
  close(file);
  char *p = mmap(NULL, 2 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  p = (char *)(((uintptr_t)p + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
  memset(p, 1, HUGE_PAGE);
  return strstr(text, "[never]") == NULL && madvise(p, HUGE_PAGE, MADV_COLLAPSE) == 0;
}

static fh_stats_t stats(void) {
  bool (*get)(fh_stats_t * stats) = (bool (*)(fh_stats_t *))dlsym(RTLD_DEFAULT, "fh_stats_get");
  fh_stats_t s = {.struct_size = sizeof s};
  CHECK(get != NULL && get(&s));
  return s;
}

static void replace(size_t i, size_t size) {
  free(blocks[i]);
  blocks[i] = memset(malloc(size), 1, size);
}

static void replace_many(size_t n) {
  static uint64_t x = 1;
  while (n-- > 0) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    replace(x >> 44, 100);
  }
}

TEST(huge_pages, what_is_dense_comes_to_lie_in_them_and_takes_no_more_memory, "") {
  bool is_possible = has_huge_pages();
  for (size_t i = 0; i < BLOCKS; i++) replace(i, 100);
  replace_many(4 * BLOCKS); /* until its lists are as long as they get */
  fh_stats_t before = stats(), now = before;
  time_t end = time(NULL) + (is_possible ? SECONDS_MOST : 3);
  while (now.collapsed < 2 && time(NULL) < end) {
    replace_many(BLOCKS / 16);
    now = stats();
  }
  CHECK_EQ(now.collapsed != 0, is_possible);
  CHECK_LE(now.resident, before.resident + before.resident / 50);
  if (now.huge_resident != 0) CHECK_GE(now.huge_resident, (uint64_t)HUGE_PAGE);
}
