/* huge_pages.c - huge pages that the kernel makes of small ones: Linux                  layer 1: os
 * Contract: os.h. A kernel before 6.1 makes none on request, and one before 6.7 does not say which
 * pages are huge. */
#define _GNU_SOURCE
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "../../base/bits.h"
#include "call.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* The kernel takes the logarithm of the page size, and a mask of nodes. */
bool os_map_huge(void *at, size_t size, size_t page, int node) {
  enum { FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB, SIZE_SHIFT = 26 };
  enum { BIND = 2, NODES = 1024 };
  uint64_t nodes[NODES / 64] = {0};
  int flags = FLAGS | (int)(bits_lowest(page) << SIZE_SHIFT);
  long got = OS_CALL(mmap, at, size, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (!call_succeeded(&os_counts.maps, got)) return false;
  if (node < 0) return true;
  nodes[node / 64] |= (uint64_t)1 << node % 64;
  return OS_CALL(mbind, at, size, BIND, nodes, NODES + 1, 0) == 0;
}

bool os_collapse(void *at, size_t size) {
  return call_succeeded(&os_counts.advices, OS_CALL(madvise, at, size, MADV_COLLAPSE, 0, 0, 0));
}

/* The file lists all settings, with the current one in brackets: "always [madvise] never". */
size_t os_huge_setting(char word[OS_HUGE_SETTING]) {
  const char *path = "/sys/kernel/mm/transparent_hugepage/enabled";
  size_t length = os_read_path(path, word, OS_HUGE_SETTING);
  const char *from = memchr(word, '[', length), *end = word + length;
  const char *to = from == NULL ? NULL : memchr(from, ']', (size_t)(end - from));
  if (to == NULL) return 0;
  length = (size_t)(to - from) - 1;
  memmove(word, from + 1, length);
  return length;
}

bool os_has_huge_pages(void) {
  enum { UNKNOWN, YES, NO };
  static atomic32_t known; /* relaxed: every thread finds the same */
  uint32_t has = atomic32_load_relaxed(&known);
  char word[OS_HUGE_SETTING];
  if (has != UNKNOWN) return has == YES;
  has = os_huge_setting(word) == 0 || word[0] == 'n' ? NO : YES;
  atomic32_store_relaxed(&known, has);
  return has == YES;
}

/* Checks `n` pages from `first` on. `file` has a word of flags for each. */
static bool are_private(int file, size_t first, size_t n) {
  enum { WORDS = 32 };
  const uint64_t all = (uint64_t)1 << 63 | (uint64_t)1 << 56; /* in memory; mapped once */
  uint64_t words[WORDS];
  for (size_t done = 0, part; done < n; done += part) {
    part = min_size(n - done, WORDS);
    size_t bytes = part * sizeof *words, from = (first + done) * sizeof *words;
    if (OS_CALL(pread64, file, words, bytes, from, 0, 0) != (long)bytes) return false;
    for (size_t i = 0; i < part; i++)
      if ((words[i] & all) != all) return false;
  }
  return true;
}

bool os_is_private(const void *at, size_t size) {
  size_t page = os_page_size();
  int file = os_open_either(OS_OF_PROCESS("pagemap"));
  if (file < 0) return false;
  bool is_private = are_private(file, (uintptr_t)at / page, size / page);
  os_close(file);
  return is_private;
}

/* What PAGEMAP_SCAN takes and returns, according to the kernel's documentation. */
typedef struct {
  uint64_t size, flags, start, end, walk_end, regions, region_count, most_pages;
  uint64_t inverted, all_of, any_of, wanted;
} scan_t;
typedef struct {
  uint64_t start, end, kind;
} region_t;
#define SCAN_CALL _IOWR('f', 16, scan_t)
enum { IS_HUGE = 1 << 6 };

size_t os_huge_resident(const void *at, size_t size) {
  region_t regions[16];
  uint64_t end = (uintptr_t)at + size;
  scan_t scan = {.size = sizeof scan,
                 .start = (uintptr_t)at,
                 .end = end,
                 .walk_end = end,
                 .regions = (uintptr_t)regions,
                 .region_count = 16,
                 .all_of = IS_HUGE,
                 .wanted = IS_HUGE};
  int file = os_open_either(OS_OF_PROCESS("pagemap"));
  size_t found = 0;
  long n = file < 0 ? -1 : 0;
  do {
    if (n >= 0) n = OS_CALL(ioctl, file, SCAN_CALL, &scan, 0, 0, 0);
    for (long i = 0; i < n; i++) found += regions[i].end - regions[i].start;
    scan.start = scan.walk_end;
  } while (n > 0 && scan.start < end); /* Bound: the pages; each round goes on behind the last */
  if (file >= 0) os_close(file);
  return found;
}
