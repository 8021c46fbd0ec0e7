/* patched_test.c - a program that is linked with nothing of freehold's, and loads freehold.dll:
 * from then on its malloc, and that of its libraries, is freehold's */
#include <malloc.h>
#include <pthread.h>

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

TEST(patched, a_library_comes_and_goes_and_its_blocks_stay, "") {
  load_freehold();
  char *kept[20];
  for (int i = 0; i < 20; i++) {
    plugin_t plugin = plugin_load();
    kept[i] = strcpy(plugin.malloc(100), "stays");
    CHECK(owns(kept[i]));
    plugin_unload();
  }
  for (int i = 0; i < 20; i++) {
    CHECK_SAME_TEXT(kept[i], "stays");
    free(kept[i]);
  }
}

TEST(patched, freehold_stays_when_it_is_unloaded, "") {
  load_freehold();
  void *p = malloc(100);
  CHECK(FreeLibrary(freehold) && FreeLibrary(freehold));
  CHECK(owns(p) && owns(malloc(10)));
  free(p);
}

/* Of msvcrt.dll the program has its malloc; these have their own. */
static const char *const others[] = {"ucrtbase.dll", "msvcr120.dll", "msvcr100.dll"};
enum { OTHERS = sizeof others / sizeof *others };

static void use_runtime(const char *name) {
  void *runtime = LoadLibraryA(name);
  if (runtime == NULL) SKIP("there is no %s", name);
  void *(*allocate)(size_t) = (void *(*)(size_t))plugin_find(runtime, "malloc");
  char *(*duplicate)(const char *) = (char *(*)(const char *))plugin_find(runtime, "_strdup");
  void (*release)(void *) = (void (*)(void *))plugin_find(runtime, "free");
  void *p = allocate(100);
  CHECK(owns(p));
  release(p);
  char *theirs = duplicate("theirs");
  CHECK(!owns(theirs));
  free(theirs);
}

TEST(patched, a_runtime_that_was_there_before_allocates_from_freehold, "") {
  for (int i = 0; i < OTHERS; i++) LoadLibraryA(others[i]);
  load_freehold();
  for (int i = 0; i < OTHERS; i++) use_runtime(others[i]);
}

TEST(patched, a_runtime_that_is_loaded_later_allocates_from_freehold, "") {
  load_freehold();
  for (int i = 0; i < OTHERS; i++) use_runtime(others[i]);
}

TEST(patched, a_runtime_whose_blocks_the_program_may_have_stays, "") {
  void *runtime = LoadLibraryA(others[0]);
  load_freehold();
  char *(*duplicate)(const char *) = (char *(*)(const char *))plugin_find(runtime, "_strdup");
  char *theirs = duplicate("theirs");
  CHECK(FreeLibrary(runtime) && FreeLibrary(runtime));
  free(theirs);
}

TEST(patched, blocks_of_before_go_back_to_the_runtime, "") {
  char *before = malloc(100), *moves = strcpy(malloc(100), "moves");
  void *aligned = _aligned_malloc(100, 256);
  char *grows = strcpy(_aligned_malloc(100, 256), "grows");
  char *zeros = _aligned_malloc(100, 64);
  plugin_t plugin = plugin_load();
  void *theirs = plugin.malloc(1000);
  load_freehold();
  CHECK(!owns(before) && !owns(moves) && !owns(aligned) && !owns(theirs));
  CHECK_GE(_msize(before), (size_t)100);
  free(before);
  free(theirs);
  _aligned_free(aligned);
  size_t (*size_of)(void *, size_t, size_t) =
    (size_t(*)(void *, size_t, size_t))plugin_find(freehold, "_aligned_msize");
  void *(*renew)(void *, size_t, size_t, size_t) =
    (void *(*)(void *, size_t, size_t, size_t))plugin_find(freehold, "_aligned_recalloc");
  CHECK_GE(size_of(grows, 256, 0), (size_t)100);
  grows = _aligned_realloc(grows, 100000, 512);
  CHECK(owns(grows) && (uintptr_t)grows % 512 == 0);
  CHECK_SAME_TEXT(grows, "grows");
  size_t had = size_of(zeros, 64, 0);
  memset(zeros, 7, had);
  zeros = renew(zeros, 10, 1000, 64);
  CHECK(owns(zeros));
  CHECK_BYTES(zeros, 7, had);
  CHECK_BYTES(zeros + had, 0, 10000 - had);
  _aligned_free(grows), _aligned_free(zeros);
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
  EXPECT_ABORT((free(p), free(p)),
               "^freehold: double free: 0x[0-9a-f]+ in free\\(\\)" TEST_BLOCK "$");
}

static pthread_barrier_t meet;
static void *wait_and_allocate(void *unused) {
  (void)unused;
  pthread_barrier_wait(&meet); /* here it is loaded */
  pthread_barrier_wait(&meet);
  void *blocks[1000];
  for (int i = 0; i < 1000; i++) CHECK(owns(blocks[i] = malloc((size_t)i)));
  for (int i = 0; i < 1000; i++) free(blocks[i]);
  return &meet;
}

TEST(patched, threads_that_were_there_before_allocate_from_freehold, "") {
  pthread_t threads[3];
  void *result;
  pthread_barrier_init(&meet, NULL, 4);
  for (int i = 0; i < 3; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, wait_and_allocate, NULL), 0);
  pthread_barrier_wait(&meet);
  load_freehold();
  pthread_barrier_wait(&meet);
  for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], &result) == 0 && result != NULL);
}

TEST(patched, the_library_may_be_loaded_twice, "") {
  load_freehold();
  load_freehold();
  CHECK(owns(malloc(10)));
}
