/* users.c - which thread uses which heap                                             layer 5: stock
 * Contract: users.h. */
#include "users.h"

#include "../arena/places.h"
#include "../base/layout.h"
#include "../os/os.h"
#include "../support/options.h"

/* Above the thread a word has how often it was written, so that none comes back. */
typedef struct {
  atomic32_t count; /* words with a thread; a hint: it changes after its word */
  atomic64_t words[PLACES_CHUNKS * PLACES_IN_CHUNK];
} users_t;
#define USERS_THREAD (((uint64_t)1 << OS_THREAD_BITS) - 1)

static atomic_ptr_t users; /* zero pages, whoever mapped them */
LAYOUT_SIZE(users_t);
LAYOUT_VARIABLE(users);

static users_t *find_words(void) { return atomic_ptr_load_relaxed(&users); }
bool users_are_known(void) { return find_words() != NULL; }

void users_make(void) {
  size_t size = align_up(sizeof(users_t), os_page_size());
  void *none = NULL, *words = os_map_unshared(size);
  if (words != NULL && !atomic_ptr_cas_relaxed(&users, &none, words)) os_unmap(words, size);
}

uint64_t users_thread(size_t number) {
  const users_t *u = find_words();
  return u == NULL ? 0 : atomic64_load_relaxed(&u->words[number]) & USERS_THREAD;
}

void users_note(size_t number, uint64_t thread) {
  users_t *u = find_words();
  if (u == NULL) return;
  uint64_t before = atomic64_load_relaxed(&u->words[number]);
  int more = (thread != 0) - ((before & USERS_THREAD) != 0);
  uint64_t times = (before >> OS_THREAD_BITS) + 1;
  atomic64_store_relaxed(&u->words[number], times << OS_THREAD_BITS | thread);
  if (more != 0) atomic32_add_relaxed(&u->count, (uint32_t)more);
}

uint64_t users_end_dead(size_t number, uint64_t caller) {
  users_t *u = find_words();
  uint64_t word = u == NULL ? 0 : atomic64_load_relaxed(&u->words[number]);
  uint64_t thread = word & USERS_THREAD;
  if (thread == 0 || !os_thread_has_ended(thread, caller)) return 0;
  if (!atomic64_cas_relaxed(&u->words[number], &word, word - thread)) return 0;
  atomic32_add_relaxed(&u->count, (uint32_t)-1);
  return thread;
}

int32_t users_count(void) {
  const users_t *u = find_words();
  return u == NULL ? 0 : (int32_t)atomic32_load_relaxed(&u->count);
}

bool users_are_many(void) { return unlikely(users_count() > option_get(OPTION_caching_threads)); }

bool users_are_valid(size_t places) {
  int32_t count = 0;
  for (size_t i = 0; i < places; i++) count += users_thread(i) != 0;
  HOLDS(P1, count == users_count());
  return true;
}
