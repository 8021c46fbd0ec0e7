/* emulator.c - what arch.txt says of the emulator, as tests. One that fails says that the emulator
 * has learnt something: then the tests that are left out for it can be run. */
#include "../test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { PAGES = 8 };

static size_t page(void) { return (size_t)sysconf(_SC_PAGESIZE); }
static char *map(size_t size) {
  char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(at != MAP_FAILED);
  return at;
}
static size_t resident_pages(char *at) {
  unsigned char in[PAGES];
  if (mincore(at, PAGES * page(), in) != 0) return SIZE_MAX;
  size_t n = 0;
  for (size_t i = 0; i < PAGES; i++) n += in[i] & 1;
  return n;
}

TEST(emulator, advice_to_populate_succeeds_and_populates_nothing, "") {
  char *at = map(PAGES * page());
  CHECK_EQ(madvise(at, PAGES * page(), MADV_POPULATE_WRITE), 0);
  CHECK_EQ(resident_pages(at), (size_t)0);
}

TEST(emulator, advice_that_a_child_gets_zeros_succeeds_and_it_gets_a_copy, "") {
  char *at = map(page());
  CHECK_EQ(madvise(at, page(), MADV_WIPEONFORK), 0);
  *at = 7;
  test_child_t c;
  if (test_fork(&c, 60)) _exit(*at);
  test_reap(&c);
  CHECK_EQ(WEXITSTATUS(c.status), 7);
}

TEST(emulator, no_address_is_too_high_to_be_mapped, "") {
  uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
  void *above = (void *)((uintptr_t)1 << (64 - __builtin_clzll(stack)));
  CHECK_EQ(mmap(above, page(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
           above);
}

TEST(emulator, a_process_cannot_be_read_by_process_vm_readv, "") {
  char from = 7, to = 0;
  struct iovec here = {&to, 1}, there = {&from, 1};
  CHECK_EQ(syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0), -1L);
  CHECK_EQ(errno, ENOSYS);
}

TEST(emulator, the_programs_code_is_none_in_the_mappings_of_thread_self, "") {
  char line[512];
  size_t found = 0;
  FILE *file = fopen("/proc/thread-self/maps", "r");
  CHECK_NE(file, NULL);
  while (fgets(line, sizeof line, file) != NULL) {
    uintptr_t from, to;
    char rights[5];
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, rights) == 3 && rights[2] == 'x')
      found += (uintptr_t)&page - from < to - from;
  }
  CHECK_EQ(found, (size_t)0);
}

TEST(emulator, closed_pages_are_none_to_mincore, "") {
  char *at = map(PAGES * page());
  memset(at, 7, PAGES * page());
  CHECK_EQ(mprotect(at + page(), page(), PROT_NONE), 0);
  CHECK_EQ(resident_pages(at), SIZE_MAX);
  CHECK_EQ(errno, ENOMEM);
}

/* Where the emulator's own addresses are others than the program's. */
TEST(emulator, of_32_bits_pagemap_does_not_show_the_programs_pages, "") {
  enum { ENTRY = 8 }; /* bytes for each page */
  char *at = map(page());
  uint64_t entry = 0;
  *at = 7;
  int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  CHECK_EQ(pread(file, &entry, ENTRY, (off_t)((uintptr_t)at / page() * ENTRY)), (ssize_t)ENTRY);
  CHECK_EQ(close(file), 0);
  CHECK(sizeof at == 8 || entry == 0);
}

TEST(emulator, a_limit_of_the_address_space_limits_nothing, "") {
  struct rlimit limit = {16 << 20, 16 << 20};
  CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  map(64 << 20);
}

static void *do_nothing(void *argument) { return argument; }
static size_t resident_bytes(void) {
  unsigned long all, resident;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%lu %lu", &all, &resident) == 2);
  fclose(file);
  return resident * page();
}
TEST(emulator, a_thread_that_ended_leaves_memory_behind, "") {
  enum { THREADS = 400, LEFT = 4 << 10 };
  size_t before = resident_bytes();
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, do_nothing, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
  }
  CHECK_GE(resident_bytes(), before + THREADS * LEFT);
}
