/* slice_scenarios.c - bitmap.c, arena.c, grow.c, purge.c and map.c: slices and windows that
 * are claimed and given back */
#include "../../../src/arena/added.h"
#include "../../../src/arena/grow.h"
#include "../../../src/arena/purge.h"
#include "../../../src/os/os.h"
#include "checker.h"
#include "system.h"

enum { RECORDS = 130 };

static atomic64_t bits[3];
static uint64_t record[RECORDS]; /* what a bit stands for; whoever has claimed it writes to it */

static void use(size_t first, size_t count) {
  for (size_t i = first; i < first + count; i++) record[i]++;
}

/* ---- bits of one word ------------------------------------------------------------------------ */

static void one_word_before(void) {
  system_restart();
  bitmap_release(bits, 3, 2);
}
static void one_word_after(void) { EXPECT(atomic64_load_relaxed(&bits[0]) == bits_run(3, 2)); }

static void claim_one(unsigned me) {
  (void)me;
  size_t found = bitmap_claim_one(bits, 1, 0);
  if (found == BITMAP_NONE) return;
  use(found, 1);
  bitmap_release(bits, found, 1);
}
static void claim_these(unsigned me) {
  if (!bitmap_claim_at(bits, me == 0 ? 4 : 3, me == 0 ? 1 : 2)) return;
  use(me == 0 ? 4 : 3, me == 0 ? 1 : 2);
  bitmap_release(bits, me == 0 ? 4 : 3, me == 0 ? 1 : 2);
}
static void claim_some(unsigned me) {
  uint64_t got = bitmap_claim_some(&bits[0], bits_run(me == 0 ? 4 : 3, me == 0 ? 1 : 2));
  for (uint64_t rest = got; rest != 0; rest &= rest - 1) {
    use(bits_lowest(rest), 1);
    bitmap_release(bits, bits_lowest(rest), 1);
  }
}
static void claim_each_way(unsigned me) {
  if (me == 0) claim_one(me);
  else if (me == 1) claim_these(me);
  else claim_some(me);
}

/* ---- runs over two words, with retreat ------------------------------------------------------- */

static void two_words_before(void) {
  system_restart();
  bitmap_release(bits, 62, 4);
}
static void two_words_after(void) {
  EXPECT(atomic64_load_relaxed(&bits[0]) == bits_run(62, 2) &&
         atomic64_load_relaxed(&bits[1]) == bits_run(0, 2));
}
static void claim_runs(unsigned me) {
  size_t n = me == 0 ? 3 : 2,
         found = me == 2 ? bitmap_claim_one(bits, 2, 1) : bitmap_find_run(bits, 2, 0, n, 1);
  if (me == 2) n = 1;
  else if (found != BITMAP_NONE && !bitmap_claim_at(bits, found, n)) return;
  if (found == BITMAP_NONE) return;
  use(found, n);
  bitmap_release(bits, found, n);
}

/* ---- what a search did not find -------------------------------------------------------------- */

/* Two slices come back that make a run of two over a border of words, while others search for one:
 * in the end nothing says that there is none. */
static lack_t lack;
static void lack_before(void) {
  system_restart();
  lack_end(&lack);
}
static size_t find_lowest(void) { return bitmap_find_run(bits, 2, 0, 2, 1); }
static size_t find_tight(void) { return bitmap_find_tight(bits, 2, 0, 2); }
static size_t claim_lowest(void) { return bitmap_claim_one(bits, 2, 0); }
static void search_in_vain(size_t (*find)(void), size_t n) {
  if (find() != BITMAP_NONE) return;
  lack_note(&lack, n);
  if (find() != BITMAP_NONE) lack_end(&lack);
}
static void lack_thread(unsigned me) {
  if (me == 2) return search_in_vain(find_lowest, 2);
  bitmap_release(bits, 63 + me, 1);
  lack_review(&lack, bits, 63 + me, 1);
}
static void lack_thread_tight(unsigned me) {
  if (me == 2) search_in_vain(find_tight, 2);
  else lack_thread(me);
}
static void lack_of_one_thread(unsigned me) {
  if (me != 0) return search_in_vain(find_lowest, 2);
  bitmap_release(bits, 63, 2);
  lack_forget(&lack);
}
static void lack_of_one_slice(unsigned me) {
  if (me != 0) return search_in_vain(claim_lowest, 1);
  bitmap_release(bits, 63, 1);
  lack_review(&lack, bits, 63, 1);
}

/* One is free, and the one behind it was unmapped meanwhile. */
static atomic64_t unmapped[2];
static size_t find_joined(void) { return bitmap_find_joined(bits, unmapped, 2, 2, 1); }
static void joined_before(void) {
  lack_before();
  bitmap_release(bits, 63, 1);
}
static void joined_thread(unsigned me) {
  if (me != 0) return search_in_vain(find_joined, 2);
  bitmap_release(unmapped, 64, 1);
  lack_forget(&lack);
}
static void lack_after(void) { EXPECT(!lack_covers(&lack, 2)); }

/* ---- an arena's slices ----------------------------------------------------------------------- */

/* Writes to a slice, which must read as zero if the arena says so. */
static void *claim_and_write(void) {
  bool is_clean;
  uint64_t *slice = arena_claim(1, 1, &is_clean);
  EXPECT(slice != NULL);
  EXPECT(!is_clean || slice[1] == 0);
  slice[1] = 1;
  return slice;
}

static void *slices[3];
static void fresh_before(void) { system_restart(); }
static void fresh_thread(unsigned me) { slices[me] = claim_and_write(); }
static void fresh_after(void) {
  EXPECT(slices[0] != slices[1] && slices[1] != slices[2] && slices[0] != slices[2]);
  EXPECT(atomic64_load_relaxed(&arena_counts.committed) == 3);
  for (size_t i = 0; i < arena_count(); i++) EXPECT(arena_at(i)->number == i);
}
static void found_thread(unsigned me) {
  if (me != 0) {
    slices[me] = claim_and_write();
    return;
  }
  for (size_t i = 0; i < arena_count(); i++) {
    arena_t *a = arena_at(i);
    EXPECT(a == NULL || a->number == i);
  }
}
static void found_after(void) { EXPECT(slices[1] != slices[2]); }

/* The program brings two slices, behind where a window's head is mapped. */
static char *brought(void) {
  size_t slice = ARENA_FIRST_SLICE + 2;
  return (char *)os_space_start() + 2 * WINDOW_SIZE + (slice << SLICE_SHIFT);
}
static void added_before(void) {
  system_restart();
  EXPECT(os_map_at(brought(), 2 * SLICE_SIZE) == OS_MAPPED);
}
static void added_thread(unsigned me) {
  if (me == 0) EXPECT(added_put(brought(), 2 * SLICE_SIZE, true, true) == 2 * SLICE_SIZE);
  else slices[me] = claim_and_write();
}
static void added_after(void) {
  EXPECT(map_find(brought()) == ((uintptr_t)arena_of(brought()) | TENANT_ARENA));
}
/* Two bring parts of one window. */
static size_t added_bytes[2];
static void added_twice_thread(unsigned me) {
  if (me == 2) slices[me] = claim_and_write();
  else added_bytes[me] = added_put(brought() + (me << SLICE_SHIFT), SLICE_SIZE, true, true);
}
static void added_twice_after(void) { EXPECT((added_bytes[0] == 0) != (added_bytes[1] == 0)); }

static void reuse_before(void) {
  system_restart();
  arena_release(claim_and_write(), 1);
}
static void reuse_thread(unsigned me) {
  if (me == 2) return purge_all();
  arena_release(claim_and_write(), 1);
}
static void reuse_after(void) {
  EXPECT(atomic64_load_relaxed(&arena_counts.committed) == 0);
  purge_all();
  EXPECT(atomic64_load_relaxed(&arena_counts.dirty) == 0);
}

static void count_bits(atomic64_t *word, uint64_t bits, void *count) {
  *(size_t *)count += bits_count(atomic64_load_relaxed(word) & bits);
}
static size_t free_slices(void) {
  size_t count = 0;
  bitmap_each_part(arena_at(0)->free, 0, WINDOW_SLICES, count_bits, &count);
  return count;
}

/* The only free slice is dirty: a purge has it for a moment, while another thread searches. */
static void only_one_before(void) {
  bool is_clean;
  system_restart();
  void *dirty = claim_and_write();
  EXPECT(arena_claim(free_slices(), 1, &is_clean) != NULL);
  arena_release(dirty, 1);
}
static void only_one_thread(unsigned me) {
  if (me == 0) purge_all();
  else slices_try(slices_claim, &lacks_free[0], arena_at(0), 1, 1);
}
static void only_one_after(void) { EXPECT(!slices_are_lacking(&lacks_free[0], 1, 1)); }

/* A window has room for what both need, and the system has no memory for the first of them. */
static void room_before(void) {
  system_restart();
  claim_and_write();
  arena_t *a = arena_at(0);
  checker_keep_together(a->free, sizeof a->free);
  atomic64_store_relaxed(&a->mapped, ARENA_END - 2);
  system_maps_that_fail = 1;
}
static void room_thread(unsigned me) {
  (void)me;
  slices_try(grow_claim, &lacks_room[0], arena_at(0), 2, 1);
}
static void room_after(void) {
  bool is_left = atomic64_load_relaxed(&arena_at(0)->mapped) + 2 <= ARENA_END;
  EXPECT(!is_left || !slices_are_lacking(&lacks_room[0], 2, 1));
}

/* Both need one slice more than is free below the end of what is mapped. That becomes the first
 * part of what one of them gets, or of what neither gets; it is not lost. */
static size_t joined, used_before;
static void join_before(void) {
  bool is_clean;
  system_restart();
  EXPECT(arena_claim(1, 1, &is_clean) != NULL);
  used_before = 1 + free_slices();
  EXPECT(arena_claim(free_slices(), 1, &is_clean) != NULL);
  EXPECT(arena_claim(1, 1, &is_clean) != NULL);
  used_before++;
  joined = free_slices() + 1;
}
static void join_thread(unsigned me) {
  bool is_clean;
  slices[me] = arena_claim(joined, 1, &is_clean);
  EXPECT(slices[me] != NULL);
  for (size_t i = 0; i < joined; i += joined - 1) {
    uint64_t *slice = (uint64_t *)((char *)slices[me] + (i << SLICE_SHIFT));
    EXPECT(!is_clean || slice[1] == 0);
    slice[1]++;
  }
}
static void join_after(void) {
  arena_t *a = arena_at(0);
  size_t first = arena_slice(slices[0]), second = arena_slice(slices[1]);
  EXPECT(first + joined <= second || second + joined <= first);
  EXPECT(atomic64_load_relaxed(&a->mapped) ==
         ARENA_FIRST_SLICE + used_before + 2 * joined + free_slices());
}

/* ---- windows --------------------------------------------------------------------------------- */

static atomic_ptr_t window_to_look_at;
static uint64_t tenants[3]; /* records of tenants, 8 bytes apart as their kinds want it */

static void windows_before(void) { system_restart(); }
static void windows_thread(unsigned me) {
  if (me == 2) {
    void *window = atomic_ptr_load_relaxed(&window_to_look_at);
    uintptr_t tenant = window == NULL ? TENANT_NONE : map_find(window);
    EXPECT(map_kind(tenant) != TENANT_HUGE || *(uint64_t *)map_record(tenant) != 0);
    return;
  }
  uint64_t *window = map_new(1, 4096);
  EXPECT(window != NULL);
  window[0] = tenants[me] = me + 1;
  map_set(window, 1, &tenants[me], TENANT_HUGE);
  atomic_ptr_store_relaxed(&window_to_look_at, window);
}
static void windows_again_thread(unsigned me) {
  void *window = map_new(1, 4096);
  EXPECT(window != NULL);
  *(uint64_t *)window = me;
  os_unmap(window, 4096);
  map_free(window, 1);
}
static void windows_after(void) {}

/* One gives back the lowest window while others search from there: who finds it taken must not
 * hide it. */
static void *lowest;
static void low_before(void) {
  system_restart();
  lowest = map_new(1, 4096);
  EXPECT(lowest != NULL);
}
static void low_thread(unsigned me) {
  if (me != 0) {
    EXPECT(map_new(1, 4096) != NULL);
    return;
  }
  os_unmap(lowest, 4096);
  map_free(lowest, 1);
}
static void low_after(void) {
  size_t first = os_space_start() >> WINDOW_SHIFT;
  while (atomic_ptr_load_relaxed(&window_map[first]) != NULL) first++;
  EXPECT(map_new(1, 4096) == (void *)(first << WINDOW_SHIFT));
}

const scenario_t slice_scenarios[] = {
  {"slices: one bit at a time", 3, 0, one_word_before, claim_one, one_word_after},
  {"slices: certain bits, or none of them", 3, 0, one_word_before, claim_these, one_word_after},
  {"slices: those of some bits that are free", 3, 0, one_word_before, claim_some, one_word_after},
  {"slices: each way of claiming against the others", 3, 0, one_word_before, claim_each_way,
   one_word_after},
  {"slices: runs over two words, given back where they meet", 3, 0, two_words_before, claim_runs,
   two_words_after},
  {"slices: two threads, runs over two words", 2, 0, two_words_before, claim_runs, two_words_after},
  {"slices: two that come back are a run, and a third thread searches", 3, 0, lack_before,
   lack_thread, lack_after},
  {"slices: likewise, and it searches for the tightest", 3, 0, lack_before, lack_thread_tight,
   lack_after},
  {"slices: some come back while a thread searches", 2, 0, lack_before, lack_of_one_thread,
   lack_after},
  {"slices: one comes back while a thread searches", 2, 0, lack_before, lack_of_one_slice,
   lack_after},
  {"slices: some are unmapped while a thread searches", 2, 0, joined_before, joined_thread,
   lack_after},
  {"slices: three threads make the first arena", 3, 1, fresh_before, fresh_thread, fresh_after},
  {"slices: an arena is looked at while it is made", 3, 0, fresh_before, found_thread, found_after},
  {"slices: memory is brought while another looks for some", 2, 0, added_before, added_thread,
   added_after},
  {"slices: two bring memory of one window", 3, 0, added_before, added_twice_thread,
   added_twice_after},
  {"slices: what is claimed clean is zero, also while others purge", 3, 0, reuse_before,
   reuse_thread, reuse_after},
  {"slices: one is purged while a thread searches", 2, 0, only_one_before, only_one_thread,
   only_one_after},
  {"slices: a window's room comes back while a thread searches", 2, 0, room_before, room_thread,
   room_after},
  {"slices: threads continue what is free at the end", 2, 0, join_before, join_thread, join_after},
  {"slices: a window's tenant is complete when it is found", 3, 0, windows_before, windows_thread,
   windows_after},
  {"slices: the lowest window that was given back is found", 3, 0, low_before, low_thread,
   low_after},
  {"slices: a window is used again", 3, 0, windows_before, windows_again_thread, windows_after},
  {NULL, 0, 0, NULL, NULL, NULL}};
