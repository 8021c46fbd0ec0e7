/* users.c - which thread uses which heap                                             layer 5: stock
 * Contract: users.h. */
#include "users.h"

#include "../arena/places.h"
#include "../base/layout.h"
#include "../os/container.h"
#include "../os/os.h"
#include "../support/options.h"

enum { PLACES = PLACES_CHUNKS * PLACES_IN_CHUNK };
enum { PARENTS_LOOKS = 64 }; /* places that one search checks */

/* A word's bits above the thread count its writes: no value comes back before 2^19 changes. */
typedef struct {
  atomic32_t count;  /* words with a thread; a hint: changes after the word */
  atomic32_t stage;  /* users_stage_t */
  atomic32_t next;   /* where the search for heaps of parents' threads goes on */
  atomic32_t taking; /* 1: a thread is taking what others' heaps keep */
  atomic64_t words[PLACES];
  atomic_ptr_t marks[PLACES]; /* relaxed: a fence for all threads stands between their uses */
} users_t;
/* In a child of fork: the thread that forked has not noted its heap; it has; all places were
 * checked since. */
typedef enum { USERS_NEW, USERS_SETTLED, USERS_ALONE } users_stage_t;
#define USERS_THREAD (((uint64_t)1 << OS_THREAD_BITS) - 1)

static atomic_ptr_t users;     /* pages that a child of fork finds empty */
enum { PROCESSORS_LEAST = 2 }; /* assumed without asking, so that few processes ask */
static atomic32_t processors;  /* relaxed: all threads find the same; 0: not asked yet */
LAYOUT_SIZE(users_t);
LAYOUT_VARIABLE(users);

/* 1: a thread has the heap; a child of fork still knows this. If the word is 0 as well, it was a
 * thread of a parent. */
static large_table atomic16_t had_thread[PLACES];

static users_t *find_words(void) { return atomic_ptr_load_acquire(&users); } /* S-users */
bool users_are_known(void) { return find_words() != NULL; }

void users_make(void) {
  users_t *words = os_map_unshared(sizeof *words);
  void *none = NULL;
  if (words == NULL) return;
  atomic32_store_relaxed(&words->stage, USERS_ALONE);
  if (!atomic_ptr_cas_release(&users, &none, words)) os_unmap(words, sizeof *words); /* S-users */
}

uint64_t users_word(size_t number) {
  const users_t *u = find_words();
  return u == NULL ? 0 : atomic64_load_relaxed(&u->words[number]);
}
uint64_t users_thread(size_t number) { return users_word(number) & USERS_THREAD; }

void users_note_marks(size_t number, const void *marks) {
  users_t *u = find_words();
  if (u != NULL) atomic_ptr_store_relaxed(&u->marks[number], (void *)(uintptr_t)marks);
}

const void *users_marks(size_t number) {
  users_t *u = find_words();
  return u == NULL ? NULL : atomic_ptr_load_relaxed(&u->marks[number]);
}

/* If several threads want to change a word that is 0, one does. */
static bool change(users_t *u, size_t number, uint64_t before, uint64_t thread) {
  users_note_marks(number, NULL); /* first: a thread that takes the heap over empties it */
  int more = (thread != 0) - ((before & USERS_THREAD) != 0);
  uint64_t times = ((before >> OS_THREAD_BITS) + 1) | 1; /* odd: no word is 0 again */
  if (!atomic64_cas_relaxed(&u->words[number], &before, times << OS_THREAD_BITS | thread))
    return false;
  if (more != 0) atomic32_add_relaxed(&u->count, (uint32_t)more);
  return true;
}

void users_forget(size_t number) { atomic16_store_relaxed(&had_thread[number], 0); }

void users_note(size_t number, uint64_t thread) {
  users_t *u = find_words();
  if (u == NULL) return;
  if (thread == 0) users_forget(number);
  change(u, number, atomic64_load_relaxed(&u->words[number]), thread);
  if (users_count() > PROCESSORS_LEAST && atomic32_load_relaxed(&processors) == 0)
    atomic32_store_relaxed(&processors, (uint32_t)os_processors());
}

void users_begin(size_t number) {
  if (!users_are_known() && number != 0) users_make();
  if (users_are_known()) users_note(number, os_thread());
}

size_t users_running(void) {
  size_t known = atomic32_load_relaxed(&processors);
  size_t quota = atomic32_load_relaxed(&container.processors);
  if (quota != 0 && option_get(OPTION_container) == CONTAINER_AUTO) known = min_size(known, quota);
  return max_size(min_size(known, (size_t)users_count()), PROCESSORS_LEAST);
}

bool users_begin_taking(void) {
  uint32_t none = 0;
  return atomic32_cas_relaxed(&find_words()->taking, &none, 1);
}
void users_end_taking(void) { atomic32_store_relaxed(&find_words()->taking, 0); }
bool users_are_taking(void) {
  return users_are_known() && atomic32_load_relaxed(&find_words()->taking) != 0;
}

static out_of_line void remember(size_t number) { atomic16_store_relaxed(&had_thread[number], 1); }

void users_keep(size_t number) {
  const users_t *u = find_words();
  if (u != NULL && atomic64_load_relaxed(&u->words[number]) != 0) remember(number);
}

void users_leave(size_t number) {
  if (users_thread(number) != 0) users_note(number, 0);
}

/* In this order, nobody finds the heap before its last word, and the finder forgets it. */
void users_leave_behind(size_t number, uint64_t thread) {
  bool is_parents = thread == USERS_PARENTS;
  if (!is_parents && users_thread(number) == 0) users_note(number, os_thread());
  remember(number);
  if (!is_parents) users_note(number, thread);
}

static users_stage_t find_stage(void) {
  const users_t *u = find_words();
  return u == NULL ? USERS_ALONE : (users_stage_t)atomic32_load_relaxed(&u->stage);
}
bool users_are_settled(size_t number) {
  const users_t *u = find_words();
  return u == NULL || (find_stage() != USERS_NEW && atomic64_load_relaxed(&u->words[number]) != 0);
}

void users_settle(size_t number) {
  users_t *u = find_words();
  bool has_heap = number != USERS_NO_HEAP;
  uint64_t me = os_thread(), word = 0;
  if (u != NULL && has_heap) word = atomic64_load_relaxed(&u->words[number]);
  if (u == NULL || (word != 0 && me >> OS_THREAD_BITS / 2 != os_thread_number())) return;
  if (word == 0 && has_heap) users_note(number, me);
  if (has_heap) users_keep(number);
  if (find_stage() == USERS_NEW) atomic32_store_relaxed(&u->stage, USERS_SETTLED);
}

bool users_have_strays(void) { return find_stage() == USERS_SETTLED && users_count() > 1; }

/* `word`: the place's, read before. */
static bool is_parents(size_t number, uint64_t word) {
  return word == 0 && find_stage() != USERS_NEW && atomic16_load_relaxed(&had_thread[number]) != 0;
}

/* A handler may fork in the middle of this. In the child it may take the heap, a parent's there,
 * before it returns. Then the word is not what was written here: another has the heap. */
static bool take_over_word(users_t *u, size_t number, uint64_t word, uint64_t caller) {
  if (!change(u, number, word, caller) || users_thread(number) != caller) return false;
  users_forget(number);
  signal_fence();
  if (users_thread(number) == caller) return true;
  users_keep(number); /* as the thread that took it does */
  return false;
}

uint64_t users_take_dead(size_t number, uint64_t caller) {
  users_t *u = find_words();
  if (u == NULL) return 0;
  uint64_t word = atomic64_load_relaxed(&u->words[number]), thread = word & USERS_THREAD;
  if (is_parents(number, word)) thread = USERS_PARENTS;
  else if (thread == 0 || !os_thread_has_ended(thread, caller)) return 0;
  return take_over_word(u, number, word, caller) ? thread : 0;
}

size_t users_parents_sought(void) {
  users_t *u = find_words();
  return u != NULL ? atomic32_load_relaxed(&u->next) : 0;
}

bool users_take_parents(size_t places, size_t *number) {
  users_t *u = find_words();
  for (int looks = 0; u != NULL && looks < PARENTS_LOOKS; looks++) {
    *number = atomic32_add_relaxed(&u->next, 1);
    if (*number >= places) {
      atomic32_store_relaxed(&u->stage, USERS_ALONE);
      return false;
    }
    uint64_t word = atomic64_load_relaxed(&u->words[*number]);
    if (is_parents(*number, word) && take_over_word(u, *number, word, os_thread())) return true;
  }
  return false;
}

int32_t users_count(void) {
  const users_t *u = find_words();
  int32_t count = u == NULL ? 0 : (int32_t)atomic32_load_relaxed(&u->count);
  return count > 0 ? count : 0; /* a thread that died in the middle of a change is not counted */
}

bool users_are_many(void) { return unlikely(users_count() > option_get(OPTION_caching_threads)); }

bool users_are_valid(size_t places) {
  int32_t count = 0;
  for (size_t i = 0; i < places; i++) count += users_thread(i) != 0;
  HOLDS(P1, count == users_count());
  return true;
}
