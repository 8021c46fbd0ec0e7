/* keys_test.c - a program that has made many keys before the library makes its own
 *
 * glibc calls calloc then to note that a thread is watched, while the thread gets its heap. */
#include "entry.h"

enum { KEYS = 40, THREADS = 20 }; /* glibc has room for 32 in each thread */

static pthread_key_t last_key;

static void make_keys(void) {
  for (int i = 0; i < KEYS; i++) pthread_key_create(&last_key, NULL);
}
/* Before any constructor, the library's too. */
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = make_keys;

static void *allocate(void *context) {
  (void)context;
  for (size_t size = 1; size < 100000; size *= 3) {
    char *p = malloc(launder_size(size));
    if (p == NULL) return NULL;
    memset(p, 7, size);
    free(p);
  }
  return &last_key;
}

TEST(keys, a_thread_gets_its_heap_and_leaves_it_where_the_program_has_many_keys, "") {
  CHECK_GE(last_key, (pthread_key_t)KEYS - 1);
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    void *result;
    CHECK_EQ(pthread_create(&thread, NULL, allocate, NULL), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result != NULL);
  }
}
