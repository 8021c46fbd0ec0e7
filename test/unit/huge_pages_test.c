/* huge_pages_test.c - tests of os/huge_pages */
#include "../../src/os/os.h"
#include "../test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRAME = 2 << 20 };

/* 2 MiB of pages that are in memory, at a multiple of that. */
static char *frame(void) {
  char *p = mmap(NULL, 2 * FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  p = (char *)(((uintptr_t)p + FRAME - 1) & ~(uintptr_t)(FRAME - 1));
  memset(p, 1, FRAME);
  return p;
}

TEST(huge_pages, memory_is_private_when_all_of_its_pages_are_there_and_no_fork_shares_them, "") {
  char *p = frame();
  size_t page = os_page_size();
  CHECK(os_is_private(p, FRAME));
  CHECK_EQ(madvise(p + FRAME - page, page, MADV_DONTNEED), 0);
  CHECK(!os_is_private(p, FRAME));
  CHECK(os_is_private(p, FRAME - page));
  pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  CHECK(!os_is_private(p, page));
  p[0] = 2;
  CHECK(os_is_private(p, page));
  CHECK_EQ(kill(child, SIGKILL), 0);
  CHECK_EQ(waitpid(child, NULL, 0), child);
  CHECK(os_is_private(p, FRAME - page));
}

/* Where the system makes one, it says so, and what the pages held is there. */
TEST(huge_pages, pages_that_become_a_huge_one_keep_what_they_hold, "") {
  char *p = frame();
  bool is_made = os_collapse(p, FRAME);
  for (size_t i = 0; i < FRAME; i++) CHECK_EQ(p[i], 1);
  size_t huge = os_huge_resident(p, FRAME);
  CHECK(huge == 0 || (huge == FRAME && is_made));
  CHECK_EQ(os_huge_resident(p, os_page_size()) <= os_page_size(), true);
}

TEST(huge_pages, the_setting_of_whoever_runs_the_system_is_read, "") {
  char text[64] = "", word[OS_HUGE_SETTING + 2] = "[";
  int file = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);
  if (file >= 0) CHECK(read(file, text, sizeof text - 1) > 0);
  size_t length = os_huge_setting(word + 1);
  CHECK_EQ(length != 0, text[0] != '\0');
  strcpy(word + 1 + length, "]");
  CHECK(length == 0 || strstr(text, word) != NULL);
  bool may = text[0] != '\0' && strstr(text, "[never]") == NULL;
  CHECK_EQ(os_has_huge_pages(), may);
  CHECK_EQ(os_has_huge_pages(), may);
}
