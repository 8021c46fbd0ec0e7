/* files_windows_test.c - tests of os/files_windows, on the system itself */
#include "../test.h"

#include "../../src/os/os.h"

TEST(files, files_are_written_read_appended_to_renamed_and_removed, "") {
  char text[16], name[L_tmpnam + 8], other[L_tmpnam + 8];
  CHECK(tmpnam(name) != NULL && tmpnam(other) != NULL);
  CHECK(os_open(name) == -1);
  int file = os_create(name);
  CHECK(file != -1 && os_file_identity(file) != 0 && os_write(file, "one", 3));
  os_close(file);
  file = os_append(name);
  CHECK(file != -1 && os_write(file, " two", 4));
  os_close(file);
  CHECK(os_rename(name, other));
  file = os_open(other);
  CHECK_EQ(os_read(file, text, sizeof text), (size_t)7);
  CHECK(memcmp(text, "one two", 7) == 0);
  CHECK_EQ(os_read(file, text, sizeof text), (size_t)0);
  CHECK(!os_write(file, "three", 5));
  os_close(file);
  os_remove(other);
  CHECK(os_open(other) == -1 && os_append(other) == -1);
}

TEST(files, a_path_that_is_too_long_does_not_name_another_file, "") {
  char name[600] = "";
  for (int i = 0; i < 253; i++) strcat(name, ".\\");
  CHECK(os_open(strcat(name, "no-such-file")) == -1);
  CHECK(os_create(name) == -1); /* its first 512 characters would do */
}

/* Here wine shows the files of the system below. */
TEST(files, files_of_other_systems_are_not_read_though_they_may_be_there, "") {
  CHECK(os_open("\\etc\\passwd") != -1);
  CHECK(os_open("/etc/passwd") == -1);
}

TEST(files, a_write_that_follows_another_at_once_follows_it_in_the_file, "") {
  EXPECT_ABORT((os_write(2, "one ", 4), os_write(2, "two\n", 4), os_abort()), "^one two$");
}
