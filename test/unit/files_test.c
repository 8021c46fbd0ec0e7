/* files_test.c - tests of os/files, on the kernel itself */
#include "../test.h"

#include "../../src/os/os.h"

TEST(files, the_range_of_brk_is_that_of_sbrk, "") {
  uintptr_t from, to;
  char *at = sbrk(4096);
  CHECK(os_break_range(&from, &to));
  CHECK(from <= (uintptr_t)at && (uintptr_t)at + 4096 <= to);
}

TEST(files, links_and_files_are_as_the_program_has_them, "") {
  char text[64] = "";
  CHECK_GT(os_read_link("/proc/self/exe", text, 1), 0u);
  CHECK_EQ(os_read_link("/proc/self/no such link", text, sizeof text), 0u);
  int ends[2];
  CHECK_EQ(pipe(ends), 0);
  int copy = os_duplicate(ends[1], 100);
  CHECK_GE(copy, 100);
  CHECK_EQ(os_file_identity(copy), os_file_identity(ends[1]));
  os_write(copy, "whole", 5);
  CHECK_EQ(read(ends[0], text, sizeof text), 5);
  close(copy);
  CHECK_EQ(os_file_identity(copy), (uint64_t)0);
  CHECK_EQ(os_duplicate(copy, 100), -1);
}
