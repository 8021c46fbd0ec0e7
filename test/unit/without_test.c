/* without_test.c - tests of os/without, as the systems have it that lack most */
#include "../test.h"

#include "../../src/os/os.h"

#if !defined(_WIN32)
#define _WIN32 1
#endif
#include "../../src/os/without.c"

static uint64_t memory;
static bool discards;
uint64_t os_memory(void) { return memory; }
bool os_discard(void *at, size_t size) {
  if (discards) memset(at, 0, size);
  return discards;
}
bool os_copy(void *to, const void *from, size_t size) {
  return from != NULL && memcpy(to, from, size) != NULL;
}

TEST(without, what_cannot_move_is_no_mapping_that_could_and_is_left_alone, "") {
  char page[64] = "here", to[64] = "there";
  CHECK(!os_is_one_mapping(page, sizeof page) && !os_move(page, 64, to, 64));
  CHECK(page[0] == 'h' && to[0] == 't');
}

TEST(without, there_are_no_huge_pages_and_no_page_is_known_to_be_private, "") {
  char page[64], word[OS_HUGE_SETTING];
  CHECK(!os_has_huge_pages() && os_huge_setting(word) == 0);
  CHECK(!os_map_huge(page, 64, 64, -1) && !os_collapse(page, 64) && !os_populate(page, 64));
  CHECK(!os_is_private(page, 64) && os_huge_resident(page, 64) == 0);
}

TEST(without, what_is_not_given_back_is_written_to_when_it_has_to_be_zero, "") {
  char page[64];
  for (int i = 0; i < 2; i++) {
    memset(page, 7, sizeof page);
    discards = i == 0;
    os_zero(page, sizeof page);
    CHECK_BYTES(page, 0, sizeof page);
  }
}

static void visit(const os_image_t *image, void *context) {
  (void)image;
  *(int *)context += 1;
}
TEST(without, no_stack_no_image_no_heap_of_libc_and_no_file_of_a_trace_is_found, "") {
  uintptr_t from = 1, to = 2, frame;
  int images = 0;
  os_backtrace_start();
  CHECK_EQ(os_backtrace(&frame, 1, true), 0u);
  os_each_image(NULL, visit, &images);
  CHECK_EQ(images, 0);
  CHECK(!os_break_range(&from, &to) && from == 0 && to == 0);
  CHECK(os_create_shared("x") == -1 && os_open_shared("x") == -1);
  CHECK_NULL(os_map_file(0, 0, 64));
}

TEST(without, without_a_container_percentages_are_of_the_machine_as_the_last_look_found_it, "") {
  memory = GiB(4);
  CHECK_EQ(container_memory(), (uint64_t)GiB(4));
  memory = GiB(2);
  CHECK_EQ(container_machine(), (uint64_t)GiB(4));
  container_look(1);
  CHECK_EQ(container_memory(), (uint64_t)GiB(2));
  CHECK_EQ(atomic64_load_relaxed(&container.limit), (uint64_t)0);
  CHECK_EQ(atomic32_load_relaxed(&container.processors), 0u);
}

TEST(without, a_word_is_there_if_it_can_be_copied, "") {
  uintptr_t word = 1;
  CHECK(os_is_there(&word) && !os_is_there(NULL));
}

TEST(without, without_signals_and_links_none_is_handled_or_read, "") {
  char text[8];
  CHECK(!os_on_signal(SIGINT, NULL) && !os_is_raised() && !os_is_special("x"));
  CHECK(os_read_link("x", text, sizeof text) == 0 && os_duplicate(2, 3) == -1);
}
