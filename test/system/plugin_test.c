/* plugin_test.c - libraries that are opened late, and blocks that come from libc's own heap
 *
 * PLUGIN is a library linked with nothing; PLUGIN_LINKED one that is linked with libfreehold. Both
 * paths are given by the build. Runs with freehold preloaded; those of the group `late` run
 * without, so that the plugin brings it. */
#include "entry.h"

#include <dlfcn.h>

typedef void *plugin_malloc_t(size_t);
typedef void *plugin_aligned_t(size_t, size_t);
typedef char *plugin_strdup_t(const char *);
typedef void plugin_free_t(void *);

static void *open_plugin(const char *path, int mode) {
  void *handle = dlopen(path, mode);
  if (handle == NULL) FAIL("%s", dlerror());
  return handle;
}
static void *symbol(void *handle, const char *name) {
  void *address = dlsym(handle, name);
  if (address == NULL) FAIL("%s", dlerror());
  return address;
}

static const size_t sizes[] = {0,     1,     16,     24,     100,     1000,    5000,
                               20000, 65536, 130000, 140000, 1000000, 40000000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* ---- blocks of libc's heap ------------------------------------------------------------------- */

/* Opened so that its calls go to libc: what it allocates is not ours. */
static void *open_deep(void) {
  void *handle = open_plugin(PLUGIN, RTLD_NOW | RTLD_DEEPBIND);
  plugin_malloc_t *allocate = (plugin_malloc_t *)symbol(handle, "plugin_malloc");
  void *p = allocate(launder_size(100));
  if (fh_owns == NULL) FAIL("the allocator under test is another one");
  if (fh_owns(p)) SKIP("this C library binds the plugin to us all the same");
  free(p);
  return handle;
}

TEST(bound, a_plugin_opened_with_deepbind_shares_our_heap, "") {
  void *handle = open_plugin(PLUGIN, RTLD_NOW | RTLD_DEEPBIND);
  plugin_malloc_t *allocate = (plugin_malloc_t *)symbol(handle, "plugin_malloc");
  void (*release)(void *) = (void (*)(void *))symbol(handle, "plugin_free");
  for (int i = 0; i < SIZES; i++) {
    void *theirs = allocate(sizes[i]), *ours = malloc(launder_size(sizes[i]));
    CHECK(fh_owns != NULL && fh_owns(theirs));
    free(theirs);
    release(ours);
  }
}

TEST(deep, blocks_of_libc_may_be_freed_here, "") {
  void *handle = open_deep();
  static const char *const names[] = {"plugin_malloc", "plugin_malloc_in_thread"};
  for (int form = 0; form < 2; form++) {
    plugin_malloc_t *allocate = (plugin_malloc_t *)symbol(handle, names[form]);
    for (int i = 0; i < 20 * SIZES; i++) {
      size_t n = sizes[i % SIZES];
      void *p = allocate(n), *q = allocate(n);
      CHECK(p != NULL && q != NULL && !fh_owns(p));
      memset(p, 1, n);
      memset(q, 2, n);
      free(p);
      CHECK_BYTES(q, 2, n);
      free(q);
    }
  }
  plugin_aligned_t *aligned = (plugin_aligned_t *)symbol(handle, "plugin_aligned");
  for (size_t a = 16; a <= 65536; a *= 2)
    for (int i = 0; i < SIZES; i++) free(aligned(a, sizes[i]));
  char *text = ((plugin_strdup_t *)symbol(handle, "plugin_strdup"))("a line");
  CHECK_SAME_TEXT(text, "a line");
  free(text);
}

TEST(deep, blocks_of_libc_may_be_resized_and_asked_for_their_size, "") {
  void *handle = open_deep();
  static const char *const names[] = {"plugin_malloc", "plugin_malloc_in_thread"};
  for (int form = 0; form < 2; form++) {
    plugin_malloc_t *allocate = (plugin_malloc_t *)symbol(handle, names[form]);
    for (int i = 0; i < SIZES; i++) {
      for (int k = 0; k < SIZES; k++) {
        size_t from = sizes[i], to = sizes[k] == 0 ? 1 : sizes[k], kept = from < to ? from : to;
        void *p = allocate(from);
        CHECK_GE(malloc_usable_size(p), from);
        stamp(p, from, (uint64_t)(i + k));
        p = realloc(p, to);
        CHECK(p != NULL && is_prefix_stamped(p, kept, from, (uint64_t)(i + k)));
        free(p);
      }
      CHECK_NULL(realloc(allocate(sizes[i]), launder_size(0)));
    }
  }
}

TEST(deep, a_heap_of_the_programs_takes_blocks_of_libc_over, "") {
  plugin_malloc_t *allocate = (plugin_malloc_t *)symbol(open_deep(), "plugin_malloc");
  void *(*make)(void) = (void *(*)(void))symbol(RTLD_DEFAULT, "fh_heap_new");
  void *(*resize)(void *, void *, size_t) =
    (void *(*)(void *, void *, size_t))symbol(RTLD_DEFAULT, "fh_heap_realloc");
  void *heap = make();
  for (int i = 0; i < SIZES; i++) {
    void *p = allocate(sizes[i]);
    stamp(p, sizes[i], 5);
    p = resize(heap, p, sizes[i] + 100);
    CHECK(p != NULL && is_prefix_stamped(p, sizes[i], sizes[i], 5));
    CHECK_NULL(resize(heap, p, launder_size(0)));
    CHECK_NULL(resize(heap, allocate(sizes[i]), launder_size(0)));
  }
}

TEST(deep, other_ways_to_free_take_them_too, "") {
  void *handle = open_deep();
  plugin_malloc_t *allocate = (plugin_malloc_t *)symbol(handle, "plugin_malloc");
  CHECK(free_sized != NULL && free_aligned_sized != NULL);
  for (int i = 0; i < SIZES; i++) {
    free_sized(allocate(sizes[i]), sizes[i]);
    free_aligned_sized(allocate(sizes[i]), 16, sizes[i]);
    free(reallocarray(allocate(sizes[i]), 10, 10));
  }
}

static plugin_malloc_t *shared_allocate;
static void *body_foreign(void *argument) {
  uint64_t state = (uintptr_t)argument + 9;
  for (int i = 0; i < 3000; i++) {
    size_t n = random_size(&state);
    void *p = i % 2 == 0 ? shared_allocate(n) : malloc(n);
    CHECK(p != NULL);
    stamp(p, n, 3);
    if (i % 5 == 0) {
      p = realloc(p, n + 100);
      CHECK(p != NULL && is_prefix_stamped(p, n, n, 3));
    }
    free(p);
  }
  return NULL;
}
TEST(deep, many_threads_mix_blocks_of_both, "") {
  shared_allocate = (plugin_malloc_t *)symbol(open_deep(), "plugin_malloc");
  run_threads(6, body_foreign);
}

/* ---- a plugin that brings the library -------------------------------------------------------- */

typedef int plugin_answer_t(void);

static void use_and_close(int mode) {
  void *handle = open_plugin(PLUGIN_LINKED, mode);
  CHECK_GE(((plugin_answer_t *)symbol(handle, "plugin_version"))(), 10000);
  CHECK_EQ(((plugin_answer_t *)symbol(handle, "plugin_works"))(), 1);
  void *p = ((plugin_malloc_t *)symbol(handle, "plugin_malloc"))(launder_size(100));
  CHECK(p != NULL);
  ((plugin_free_t *)symbol(handle, "plugin_free"))(p);
  CHECK_EQ(dlclose(handle), 0);
}

TEST(late, a_library_linked_with_us_may_be_opened_and_closed_again_and_again, "") {
  for (int i = 0; i < 50; i++) use_and_close(i % 2 == 0 ? RTLD_NOW : RTLD_LAZY | RTLD_GLOBAL);
  tour_everything();
}

static void *body_opens(void *argument) {
  (void)argument;
  for (int i = 0; i < 10; i++) use_and_close(RTLD_NOW);
  return NULL;
}
TEST(late, threads_that_used_it_may_end_before_and_after_it_is_closed, "") {
  run_threads(8, body_opens);
  run_threads(8, body_opens);
}

static plugin_answer_t *works;
static int stage;
static void *body_outlives(void *argument) {
  (void)argument;
  CHECK_EQ(works(), 1);
  __atomic_add_fetch(&stage, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) < 10) usleep(1000);
  return NULL; /* the thread's heap is let go of now, if at all */
}
TEST(late, threads_may_outlive_the_library, "") {
  void *handle = open_plugin(PLUGIN_LINKED, RTLD_NOW);
  works = (plugin_answer_t *)symbol(handle, "plugin_works");
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) threads[i] = start_thread(body_outlives, NULL, 0);
  while (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) < 4) usleep(1000);
  CHECK_EQ(dlclose(handle), 0);
  __atomic_store_n(&stage, 10, __ATOMIC_RELEASE);
  for (int i = 0; i < 4; i++) join_thread(threads[i]);
  tour_everything();
}

TEST(late, opened_with_deepbind_its_own_calls_reach_the_library, "") {
  void *handle = open_plugin(PLUGIN_LINKED, RTLD_NOW | RTLD_DEEPBIND);
  CHECK_EQ(((plugin_answer_t *)symbol(handle, "plugin_works"))(), 1);
  void *p = ((plugin_malloc_t *)symbol(handle, "plugin_malloc"))(launder_size(1000));
  CHECK(p != NULL);
  ((plugin_free_t *)symbol(handle, "plugin_free"))(p);
  p = malloc(launder_size(1000)); /* libc's: the plugin's free is ours and hands it on */
  ((plugin_free_t *)symbol(handle, "plugin_free"))(p);
}
