/* mappings_test.c - blocks whose pages lie in several mappings: what a program asks for a part of a
 * block divides it, and so does a child of fork that grows one */
#define _GNU_SOURCE
#include "../../include/freehold/freehold.h"
#include "entry.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#pragma weak fh_stats_get

enum { MIB = 1 << 20, FEW_MOVES = 4, STEP_CALLS = 4 };

static uint64_t mremap_calls(void) {
  static fh_stats_t s;
  s.struct_size = sizeof s;
  CHECK(fh_stats_get != NULL && fh_stats_get(&s));
  return s.mremaps;
}

/* The pages of `p` become several mappings. */
static void divide(char *p, size_t size) {
  char *second = (char *)(((uintptr_t)p | (page_size() - 1)) + 1);
  CHECK(madvise(second, size / 2, MADV_DONTDUMP) == 0);
}

/* Grows by steps of 1 MiB. Few of them may move the block: the kernel moves several mappings by
 * pieces at best, and a copy takes as long as the block is large. */
static char *grow(char *p, size_t from, size_t to) {
  size_t moves = 0;
  uint64_t before = mremap_calls();
  stamp(p, from, 7);
  for (size_t size = from + MIB; size <= to; size += MIB) {
    char *q = realloc(p, size);
    CHECK(q != NULL);
    moves += q != p;
    p = q;
    p[size - 1] = 1; /* another of the pages behind */
  }
  CHECK(is_prefix_stamped(p, from - 1, from, 7));
  CHECK_LE(moves, (size_t)FEW_MOVES);
  CHECK_LE(mremap_calls() - before, (uint64_t)(STEP_CALLS * (to - from) / MIB));
  return p;
}

TEST(mappings, a_block_of_an_arena_does_not_move_at_each_step, "") {
  char *p = malloc(8 * MIB);
  divide(p, 8 * MIB);
  free(grow(p, 8 * MIB, 300 * MIB));
}

TEST(mappings, a_block_with_a_mapping_of_its_own_grows_where_it_lies, "") {
  char *p = malloc((size_t)600 * MIB);
  divide(p, (size_t)600 * MIB);
  char *q = grow(p, (size_t)600 * MIB, (size_t)800 * MIB);
  CHECK(q < p + 20 * MIB && q + 80 * MIB > p + 20 * MIB);
  free(q);
}

TEST(mappings, slices_that_kept_advice_do_not_make_blocks_move_at_each_step, "") {
  char *before = malloc(100 * MIB), *p = malloc(100 * MIB), *behind = malloc(MIB);
  for (size_t at = 0; at < 50; at += 2) CHECK(madvise(p + at * MIB, MIB, MADV_DONTDUMP) == 0);
  free(p);
  char *q = malloc(100 * MIB);
  CHECK(q == p);
  free(grow(q, 100 * MIB, 300 * MIB));
  free(before);
  free(behind);
}

TEST(mappings, a_block_that_a_child_of_fork_grows_does_not_move_at_each_step, "") {
  enum { BLOCKS = 400 };
  static void *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    CHECK((blocks[i] = malloc(60000)) != NULL);
    stamp(blocks[i], 60000, (uint64_t)i);
  }
  for (int i = BLOCKS / 2; i < BLOCKS; i++) free(blocks[i]);
  char *p = malloc(8 * MIB);
  stamp(p, 8 * MIB, 1);
  free(p);
  test_child_t c;
  if (test_fork(&c, 60)) {
    free(grow(malloc(MIB), MIB, 300 * MIB));
    _exit(0);
  }
  test_reap(&c);
  CHECK(WIFEXITED(c.status) && WEXITSTATUS(c.status) == 0);
}

/* From Linux 6.17 on mremap moves the mappings before the one that it refuses to move. */
static void refuse_to_move(void *page) {
  int file = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
  if (file < 0) SKIP("no page faults can be asked for here: %m");
  struct uffdio_api api = {.api = UFFD_API};
  struct uffdio_register range = {.range = {(uintptr_t)page, page_size()},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
  CHECK(ioctl(file, UFFDIO_API, &api) == 0);
  CHECK(ioctl(file, UFFDIO_REGISTER, &range) == 0);
}

TEST(mappings, a_block_keeps_its_bytes_if_the_kernel_refuses_to_move_one_of_its_mappings, "") {
  enum { BEFORE = 80 * MIB, AFTER = 120 * MIB };
  char *p = realloc(malloc(BEFORE / 2), BEFORE);
  stamp(p, BEFORE, 3);
  refuse_to_move((char *)(((uintptr_t)p + BEFORE / 2 + MIB) & ~(uintptr_t)(page_size() - 1)));
  void *behind = p + BEFORE;
  behind = (void *)(((uintptr_t)behind + page_size() - 1) & ~(uintptr_t)(page_size() - 1));
  mmap(behind, page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  char *q = realloc(p, AFTER);
  CHECK(q != NULL && is_stamped(q, BEFORE, 3));
  free(q);
}
