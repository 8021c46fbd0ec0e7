/* images_test.c - tests of os/images */
#include "../test.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include "../../src/os/os.h"

static char text[OS_IMAGES_TEXT];

typedef struct {
  uintptr_t address; /* of code; what its mapping is, if it was found */
  unsigned found;
  size_t id_length;
  char path[256];
} seen_t;

static void look(const os_image_t *image, void *context) {
  seen_t *seen = context;
  CHECK(image->from < image->to && image->path[0] == '/');
  if (seen->address < image->from || seen->address >= image->to) return;
  seen->found++;
  seen->id_length = image->build_id_length;
  snprintf(seen->path, sizeof seen->path, "%s", image->path);
}

static seen_t find(const void *code) {
  seen_t seen = {(uintptr_t)code, 0, 0, ""};
  os_each_image(text, look, &seen);
  return seen;
}

TEST(images, code_of_the_program_and_of_libc_lies_in_one_mapping_each, "") {
  char self[256] = "";
  CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  seen_t program = find((const void *)find), libc = find(dlsym(RTLD_DEFAULT, "getsubopt"));
  CHECK_EQ(program.found, 1u);
  CHECK_EQ(strcmp(program.path, self), 0);
  CHECK_EQ(libc.found, 1u);
  CHECK(strstr(libc.path, "libc") != NULL && libc.id_length == 20);
}

TEST(images, what_is_no_code_or_no_file_is_not_shown, "") {
  int on_stack = 0;
  CHECK_EQ(find(&on_stack).found, 0u);
  CHECK_EQ(find(text).found, 0u);
}

TEST(images, many_mappings_are_read_part_by_part, "") {
  enum { MANY = 3000 }; /* more lines than there is room for at once */
  size_t page = os_page_size();
  int file = open("/proc/self/exe", O_RDONLY);
  char *at = mmap(NULL, 2 * MANY * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < MANY; i++)
    CHECK(mmap(at + 2 * i * page, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 0) !=
          MAP_FAILED);
  CHECK_EQ(find(at).found, 1u);
  CHECK_EQ(find(at + 2 * (MANY - 1) * page).found, 1u);
  CHECK_EQ(find(at + page).found, 0u);
  CHECK_EQ(find((const void *)find).found, 1u);
}
