/* files_test.c - tests of os/files, on the kernel itself */
#include "../test.h"

#include "../../src/os/linux/files.c"

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

static int open_state(const char *of) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self%s/stat", of);
  int file = os_open(path);
  atomic32_store_relaxed(&look_file, (uint32_t)file + 1);
  return file;
}
TEST(files, a_child_closes_what_a_look_at_a_thread_had_open_and_nothing_else, "") {
  char task[32];
  snprintf(task, sizeof task, "/task/%d", (int)getpid());
  CHECK(!os_thread_is_asleep((uint32_t)getpid())); /* it looks itself */
  CHECK_GT(atomic32_load_relaxed(&look_file), 0u);
  int file = open_state(task);
  os_begin_in_child(true);
  CHECK_EQ(fcntl(file, F_GETFD), -1);
  CHECK_EQ(os_open("/proc/self/stat"), file);
  os_begin_in_child(true); /* once */
  CHECK_GE(fcntl(file, F_GETFD), 0);
  CHECK_EQ(open_state(""), file + 1);
  os_begin_in_child(true);
  CHECK_GE(fcntl(file + 1, F_GETFD), 0);
  CHECK_EQ(open_state(task), file + 2);
  fcntl(file + 2, F_SETFL, 0); /* as a program opens it */
  os_begin_in_child(true);
  CHECK_GE(fcntl(file + 2, F_GETFD), 0);
}
