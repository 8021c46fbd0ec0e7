/* patched_test.c - a program that is linked with nothing of freehold's, and loads freehold.dll:
 * from then on its malloc, and that of its libraries, is freehold's */
#include <malloc.h>

#include "plugin.h"

static bool (*owns)(const void *p);
static void *freehold;

static void load_freehold(void) {
  freehold = LoadLibraryA("freehold.dll");
  *(void **)&owns = plugin_find(freehold, "fh_owns");
}

TEST(patched, what_the_program_allocates_from_then_on_is_freeholds, "") {
  load_freehold();
  void *blocks[] = {malloc(10), calloc(10, 10), realloc(NULL, 100), _aligned_malloc(10, 64)};
  for (int i = 0; i < 4; i++) CHECK(blocks[i] != NULL && owns(blocks[i]));
  CHECK_GE(_msize(blocks[0]), (size_t)10);
  for (int i = 0; i < 3; i++) free(blocks[i]);
  _aligned_free(blocks[3]);
}

TEST(patched, a_library_that_was_loaded_before_allocates_from_freehold, "") {
  plugin_t plugin = plugin_load();
  load_freehold();
  void *p = plugin.malloc(100);
  CHECK(owns(p));
  p = plugin.realloc(p, 100000);
  CHECK(owns(p) && plugin.msize(p) >= 100000);
  free(p);
  plugin.free(malloc(10));
}

TEST(patched, a_library_that_is_loaded_later_allocates_from_freehold, "") {
  load_freehold();
  plugin_t plugin = plugin_load();
  void *p = plugin.malloc(100);
  CHECK(owns(p));
  free(p);
  plugin.free(malloc(10));
}

TEST(patched, a_function_that_is_looked_up_by_name_is_freeholds, "") {
  load_freehold();
  void *runtime = GetModuleHandleA("msvcrt.dll");
  void *(*found)(size_t) = (void *(*)(size_t))plugin_find(runtime, "malloc");
  void *p = found(10);
  CHECK(owns(p));
  ((void (*)(void *))plugin_find(runtime, "free"))(p);
}

TEST(patched, blocks_of_before_go_back_to_the_runtime, "") {
  char *before = malloc(100), *moves = strcpy(malloc(100), "moves");
  void *aligned = _aligned_malloc(100, 256);
  plugin_t plugin = plugin_load();
  void *theirs = plugin.malloc(1000);
  load_freehold();
  CHECK(!owns(before) && !owns(moves) && !owns(aligned) && !owns(theirs));
  CHECK_GE(_msize(before), (size_t)100);
  free(before);
  free(theirs);
  _aligned_free(aligned);
  moves = realloc(moves, 100000);
  CHECK(owns(moves));
  CHECK_SAME_TEXT(moves, "moves");
  free(moves);
}

TEST(patched, a_block_that_the_runtime_made_for_the_program_goes_back_to_it, "") {
  load_freehold();
  plugin_t plugin = plugin_load();
  char *theirs = plugin.strdup("theirs");
  CHECK(!owns(theirs));
  free(theirs);
}

TEST(patched, a_block_that_is_freed_twice_is_one_line, "") {
  load_freehold();
  void *p = malloc(100);
  EXPECT_ABORT((free(p), free(p)), "^freehold: double free: 0x[0-9a-f]+ in free\\(\\)$");
}

TEST(patched, the_library_may_be_loaded_twice, "") {
  load_freehold();
  load_freehold();
  CHECK(owns(malloc(10)));
}
