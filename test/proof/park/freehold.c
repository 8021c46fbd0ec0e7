/* freehold.c - what the subject is stopped in: the transitions that only freehold has
 *
 * Together with operation.c these execute the lines of src/heap, src/stock, src/slab and
 * src/arena; ./dev prove --coverage lists those that none does. Sizes are chosen by how many blocks
 * a slab of 64 KiB has: 3 of 16,000 bytes, 67 of 900, 92 of 700, 162 of 400. */
#include "park.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MANY = 1024 };

static void *block[MANY];
static size_t size;
static unsigned count;

/* ---- what situations are made of ------------------------------------------------------------- */

static void allocate(void) {
  for (unsigned i = 0; i < count; i++) block[i] = get(size);
}
static void let_go(unsigned from, unsigned to, unsigned step) {
  for (unsigned i = from; i < to; i += step) release(block[i]);
}
static void free_some(unsigned from, unsigned to, unsigned step) {
  for (unsigned i = from; i < to; i += step) put(block[i]);
}

/* Until the next malloc of that size has to refill its bin. */
static void drain(size_t of) {
  while (!oracle_bin_is_empty(of)) get(of);
}

/* Until it takes a slab that is not the caller's yet. */
static void use_up(size_t of) {
  while (!oracle_class_is_used_up(of)) get(of);
}

static void own(size_t of, unsigned n) {
  size = of;
  count = n;
  allocate();
  drain(of);
}

static void collect_softly(void) { api.collect(false); }
static void collect_hard(void) { api.collect(true); }

/* By a thread that has ended: its heap rests with all that it has. */
static void leave_resting(size_t of, unsigned n) {
  size = of;
  count = n;
  in_thread(allocate);
}

/* Its heap is at an end too: nobody owns the slabs. */
static void leave(size_t of, unsigned n) {
  leave_resting(of, n);
  in_helper(collect_hard);
}

static void hold_one(void) { hold(got[0], size); }
static void malloc_one(void) { got[0] = api.malloc(size); }
static void malloc_limited(void) {
  limit_memory(true);
  got[0] = api.malloc(size);
  limit_memory(false);
}
static void free_first(void) { api.free(block[0]); }

/* A large block of one slice: others of that size are runs of pages. */
static void *get_in_slice(size_t of) { return hold(api.aligned_alloc(KIB(64), of), of); }
static void *get_slice(void) { return get_in_slice(KIB(64)); }
static void malloc_in_slice(void) { got[0] = api.aligned_alloc(KIB(64), size); }

/* ---- refilling a bin ------------------------------------------------------------------------- */

static void own_free_blocks(void) {
  own(400, 200);
  use_up(400);
  free_some(0, 60, 1);
}
static void put_sixty(void) {
  free_some(0, 60, 1);
  api.collect(false);
}
static void blocks_freed_by_others(void) {
  own(400, 200);
  use_up(400);
  in_helper(put_sixty);
}
static void slabs_worth_a_trial(void) {
  blocks_freed_by_others();
  get(400);
  use_up(400);
  oracle_note_trial_due(400);
}
static void fresh_end(void) { own(400, 30); }
static void free_twenty(void) {
  free_some(5, 25, 1);
  api.collect(false);
}
/* The owner has little on its list, others have freed more, and some of the slab is fresh. */
static void others_freed_more(void) {
  own(400, 30);
  in_helper(free_twenty);
  free_some(26, 28, 1);
}
static void slabs_used_up(void) {
  own(700, 92 * 3);
  use_up(700);
}

/* Half of the blocks of somebody who has ended, freed by a thread that does not want the slabs. */
static void free_halves(void) {
  free_some(0, count, 2);
  api.collect(false);
}
static void partial_slab(void) {
  slabs_used_up();
  leave(700, 92 * 2);
  in_helper(free_halves);
}
static void slab_in_magazine(void) {
  own(900, 67 * 3);
  use_up(900);
  own(6000, 30);
  put_others(6000, NULL);
  size = 900;
}
static void returned_blocks(void) {
  leave(200, 300);
  get(200);
  free_some(0, 24, 1);
  drain(200);
}
/* Of the second of two slabs. */
static void free_most(void) {
  free_some(330, 400, 1);
  free_some(410, 600, 1);
  api.collect(false);
}
/* The first and the last of the list lie in a slab in which little else lives, and it is time to
 * look at that. */
static void returned_blocks_of_sparse(void) {
  leave(200, 600);
  get(200);
  free_some(400, 403, 1);
  free_some(0, 3, 1);
  free_some(403, 405, 1);
  drain(200);
  in_helper(free_most);
  oracle_note_sift_due(200);
}
static void somebody_rests(void) { leave_resting(400, 50); }
/* As much rests as may, so this thread's heap cannot: it lets go of slabs that are
 * full, half full and empty. */
static void cannot_rest(void) {
  oracle_let_nobody_rest();
  for (size_t of = 450; of <= 3600; of *= 2) {
    own(of, (unsigned)(3 * 65536 / of));
    free_some(0, count / 3, 1);
    free_some(count / 3, 2 * count / 3, 2);
  }
}
/* Much of a class was used whose blocks are no larger than a page: the next slices come in a
 * burst. */
static void fast_growth(void) {
  own(900, 500);
  do get(900);
  while (!oracle_class_is_used_up(900) || !oracle_magazine_is_empty());
}
/* ... in a large heap, and there as a huge page. */
static void fast_growth_to_a_frame(void) {
  own(900, 500);
  for (int i = 0; i < 8; i++) hold_untouched(api.malloc(MIB(31)), MIB(31));
  while (((uintptr_t)get_slice() + KIB(64)) % MIB(2) != 0) continue;
  do get(900);
  while (!oracle_class_is_used_up(900) || !oracle_magazine_is_empty());
}
/* The next call that trims passes the last class, and then ends a heap at rest. */
static void trim_due_and_somebody_rests(void) {
  somebody_rests();
  get(400);
  oracle_note_last_trim_due();
}
static void more_than_can_be_counted(void) {
  own_free_blocks();
  oracle_note_binned(400);
}
static void second_of_class(void) {
  own(16, 1);
  size = 16;
}
static void second_of_lent_class(void) { own(2000, 1); }
/* A slab all of whose blocks were handed out once, and some given back. */
static void used_up_of_lent_class(void) {
  own(KIB(4), 15);
  free_some(0, 15, 4);
  collect_softly();
}
static void few_of_lent_class(void) {
  size = 2000;
  count = 2;
  allocate();
}
/* What the heap may keep of the class is full. Then a block is needed, and there is none. Then the
 * heap may keep more. */
static void full_list(void) {
  own(16000, 40);
  free_some(0, 20, 1);
}
static void list_full_and_missed(void) {
  full_list();
  get(16000);
  drain(16000);
}
static void long_list(void) {
  list_full_and_missed();
  get(16000);
  drain(16000);
}
static void long_list_little_used(void) {
  long_list();
  free_some(20, 21, 1);
}
static void long_list_full(void) {
  long_list();
  free_some(20, 40, 1);
}
static void first_with_partial(void) { leave(740, 20); }
/* All that was ever carved of the slab is held, and some of it is fresh. */
static void allocate_and_drain(void) {
  allocate();
  drain(size);
}
static void first_with_fresh_end(void) {
  size = 740;
  count = 20;
  in_thread(allocate_and_drain);
  in_helper(collect_hard);
}
static void free_three(void) {
  free_some(0, 3, 1);
  api.collect(false);
}
/* Others free blocks of the slab as soon as it has an owner again. */
static bool others_free_of_taken(void) {
  if (!oracle_has_slab(block[0])) return false;
  in_helper(free_three);
  return true;
}
static void free_further(void) {
  free_some(60, 64, 1);
  api.collect(false);
}
static bool others_free_at_the_cas(void) {
  if (!oracle_would_cas_anchor(block[0])) return false;
  in_helper(free_further);
  return true;
}
/* The slab has been taken since it was published, so its group's hint is stale. */
static void get_three(void) {
  for (int i = 0; i < 3; i++) get(700);
}
static void hint_is_stale(void) {
  leave(700, 20);
  in_helper(get_three);
}
static bool others_publish_behind_the_hint(void) {
  if (!oracle_hint_is_gone(block[0])) return false;
  in_helper(collect_softly);
  return true;
}

/* ---- slabs that empty ------------------------------------------------------------------------ */

static void last_of_first_slab(void) {
  own(900, 20);
  free_some(1, 20, 1);
  drain(900);
  put_others(900, block[0]);
  release(block[0]);
}
static void last_of_second_slab(void) {
  own(900, 67 * 3);
  put_others(900, block[0]);
  release(block[0]);
}
/* Its magazine is full. */
static void last_of_many_slabs(void) {
  own(16000, 120);
  free_some(0, 120, 1);
  last_of_second_slab();
}
/* It has given back more slices than its magazine holds, and that is empty again. */
static void slices_missed(void) {
  own(16000, 120);
  free_some(0, 120, 1);
  get_in_slice(size = 20000);
}
/* The list of what was freed was full as the heap gave it up, for slices went back. */
static void list_missed(void) {
  own(6000, 300);
  free_some(0, 300, 1);
}
static void last_medium(void) {
  own(6000, 30);
  put_others(6000, block[0]);
  release(block[0]);
}

/* ---- frees of blocks in slabs without an owner ----------------------------------------------- */

enum { WIDE_LEAST = 256 }; /* slots: outbox.h */
enum { SOME = 16 };        /* frees of others' blocks: less than a chain */

/* Sixteen wait in a chain already, with two more of them it is published. */
static void full_and_unwanted(void) {
  leave(900, 67 * 2);
  free_some(SOME, 2 * SOME, 1);
  let_go(0, SOME, 1);
}
static void full_and_wanted(void) {
  own(900, 4);
  get(900); /* of a class of which it owns a slab it keeps no others' */
  drain(900);
  full_and_unwanted();
}
static void free_sixteen(void) { free_in_turn(block, SOME); }
static void free_all_but_four(void) {
  free_some(4, count, 1);
  api.collect(false);
}
static void partial_and_last(void) {
  leave(900, 20);
  in_helper(free_all_but_four);
  let_go(0, 4, 1);
}
static void free_four(void) { free_in_turn(block, 4); }
static void full_and_big(void) {
  leave(16000, 6);
  let_go(0, 6, 1);
}
/* A slab of three blocks, nobody's. One that comes back is published at once, and makes it worth
 * taking. */
static void one_of_three(void) {
  leave(16000, 3);
  let_go(0, 1, 1);
}
static void two_of_three(void) {
  leave(16000, 3);
  let_go(0, 2, 1);
}
static void free_two(void) { free_in_turn(block, 2); }
static void free_third(void) {
  put(block[2]);
  api.collect(false);
}
static bool others_free_first(void) {
  if (!oracle_would_cas_anchor(block[0])) return false;
  in_helper(free_third);
  return true;
}
static void free_second_and_third(void) {
  free_some(1, 3, 1);
  api.collect(false);
}
static bool others_empty_it(void) {
  if (!oracle_has_to_publish(block[0])) return false;
  in_helper(free_second_and_third);
  return true;
}
static void free_six(void) { free_in_turn(block, 6); }
static void of_many_slabs(void) {
  leave(16000, 3 * SOME);
  for (unsigned i = 0; i < SOME; i++) block[i] = block[3 * i];
  let_go(0, SOME, 1);
}

static void use_much(void) {
  for (int i = 0; i < 3; i++) get(MIB(31));
}
/* Blocks of one slab of another heap, in a process that looks for huge pages; so many more of it
 * wait in a chain, or were published. */
static void of_other(unsigned before) {
  enum { OWNED_AT_LAST = 24 }; /* the helper's first lie in slabs that are nobody's */
  size = 48;
  count = OWNED_AT_LAST + before + SOME;
  in_helper(allocate);
  in_helper(use_much);
  free_some(OWNED_AT_LAST, OWNED_AT_LAST + before, 1);
  for (unsigned i = 0; i < SOME; i++) block[i] = block[OWNED_AT_LAST + before + i];
}
static void few_of_other(void) {
  of_other(0);
  let_go(0, 4, 1);
}
static void many_of_other(void) {
  of_other(500);
  let_go(0, SOME, 1);
}

static size_t slot_of(const void *p) { return (uintptr_t)p / KIB(64) % 64; }
static void allocate_in_one_slot(void) {
  block[0] = get(300);
  while ((slot_of(get_slice()) + 1) % 64 != slot_of(block[0])) continue;
  block[1] = get(500);
  get(500); /* so that one that comes back has to wait for others */
  if (slot_of(block[1]) != slot_of(block[0])) park_fail("the slices are not next to each other");
}
/* Blocks of two slabs whose chains would have the same place, and one of them waits in it. */
static void two_in_one_slot(void) {
  in_helper(allocate_in_one_slot);
  put(block[1]);
  let_go(0, 1, 1);
}

static void crowded_next(void) {
  two_in_one_slot();
  in_helper(oracle_forget_own_heap);
  oracle_note_own_heap();
  oracle_note_crowded(1);
}
/* The calling thread's outbox. Such a thread is the only one that has a heap. */
static void get_wide(void) {
  put(block[1]);
  oracle_note_crowded(1);
  put(block[0]);
  oracle_check_wide();
}
static void allocate_and_be_unknown(void) {
  allocate_in_one_slot();
  oracle_forget_own_heap();
}
static void wide(void) {
  in_helper(allocate_and_be_unknown);
  oracle_note_own_heap();
  get_wide();
  in_helper(oracle_note_own_heap);
}
static void wide_and_of_other(void) {
  wide();
  of_other(8);
  let_go(0, SOME, 1);
}
/* The next frees make a chain due. */
static void wide_and_gathered(void) {
  wide();
  of_other(28);
  let_go(0, SOME, 1);
}
/* It expects the next block to be freed in another window. */
static void wide_and_other_window(void) {
  wide_and_of_other();
  oracle_note_other_window();
}
/* The next of its frees empty slabs. */
static void wide_and_whole_slabs(void) {
  leave(16000, 10 + SOME);
  wide();
  free_some(2, 10, 1);
  for (unsigned i = 0; i < SOME; i++) block[i] = block[10 + i];
  let_go(0, SOME, 1);
}
/* It takes no new chains. */
static void wide_that_closes(void) {
  wide();
  oracle_note_wide_closes();
  of_other(8);
  let_go(0, SOME, 1);
}
/* Its thread is alone no more, as it sees at the next free that has no chain. */
static void wide_beside_another(void) {
  wide_and_of_other();
  oracle_note_crowded(1);
}
/* Of two slabs whose chains would have the same place in a wide outbox. */
static void *far_apart[2];
static void allocate_far_apart(void) {
  get(700); /* so that one that comes back does not empty the slab */
  far_apart[0] = get(700);
  size_t slot = (uintptr_t)far_apart[0] / KIB(64) % WIDE_LEAST;
  for (int i = 0; i < 8; i++) hold_untouched(api.malloc(MIB(31)), MIB(31));
  while (((uintptr_t)get_slice() / KIB(64) + 1) % WIDE_LEAST != slot) continue;
  far_apart[1] = get(900);
  get(900);
  if ((uintptr_t)far_apart[1] / KIB(64) % WIDE_LEAST != slot) park_fail("that is another slot");
}
/* One of these is in a chain. The next free makes the other, which was fetched, evict it. */
static void wide_and_two_in_one_slot(void) {
  wide();
  in_helper(allocate_far_apart);
  of_other(8);
  put(far_apart[0]);
  free_some(0, 8, 1);
  put(far_apart[1]);
  free_some(8, 15, 1);
  release(block[0] = block[15]);
  oracle_note_crowded(9);
}
static void wide_with_chains(void) {
  wide();
  of_other(12);
  size = 700;
}
static void wide_and_larger_next(void) {
  wide_with_chains();
  size = KIB(20);
}
static void chain_and_larger_next(void) {
  in_helper(allocate_in_one_slot);
  put(block[1]);
  size = KIB(20);
}
static void wide_with_its_end(void) {
  wide_with_chains();
  oracle_note_wide_ends();
}
/* The thread is alone, so that refills go on with rounds. */
static void wide_and_alone(void) {
  wide_with_chains();
  in_helper(oracle_forget_own_heap);
}
static void wide_and_alone_and_larger_next(void) {
  wide_and_alone();
  size = KIB(20);
}
static void wide_with_a_round_s_end(void) {
  wide_and_alone();
  oracle_note_round_ends();
}
static void free_sixty_to_all(void) {
  free_some(0, 60, 1);
  api.collect(false);
}
/* The slab from which the heap is to refill has blocks in a chain. */
static void wide_and_slab_to_take(void) {
  own(400, 200);
  use_up(400);
  for (int i = 0; i < 80; i++) get_slice(); /* the next refill does not look at its slot */
  leave(400, 150);
  in_helper(free_sixty_to_all);
  wide();
  free_some(60, 69, 1); /* eight are just fetched; ten would be published */
}
static void use_and_get_wide(void) {
  put(get(64));
  get_wide();
}
static void somebody_sleeps_wide(void) {
  allocate_and_be_unknown();
  in_helper(use_and_get_wide);
  oracle_note_own_heap();
}

static void *large_block; /* in the first window */

/* ---- arenas ---------------------------------------------------------------------------------- */

static void grow_next(void) { size = MIB(20); }
static void fill_holes(void) {
  limit_memory(true);
  for (size_t of = MIB(16); of >= KIB(64); of /= 2)
    for (void *p; (p = api.malloc(of)) != NULL;) hold_untouched(p, of);
  limit_memory(false);
}
/* The first window has no room for a block of this size, and no hole for any. */
static size_t unmapped(const void *in_window) { return -oracle_arena_end(in_window) % MIB(1024); }
static void full_window(void) {
  large_block = get(KIB(140));
  size = MIB(31);
  while (unmapped(large_block) >= size) hold_untouched(api.malloc(size), size);
  fill_holes();
}
/* Nor is any of it left to be mapped. */
static void fill_window(void) {
  full_window();
  size_t rest = unmapped(large_block);
  if (rest != 0) hold_untouched(api.malloc(rest), rest);
}
static void window_used_up(void) {
  fill_window();
  size = KIB(140);
}
static void slabs_and_window_used_up(void) {
  slabs_used_up();
  fill_window();
  use_up(700);
  size = 700;
}
static void get_large(void) { hold_untouched(api.malloc(MIB(31)), MIB(31)); }
static bool others_add_arena(void) {
  if (!oracle_has_window_claimed()) return false;
  in_helper(get_large);
  return true;
}
/* A step of growth is larger than what is wanted. */
static void much_is_mapped(void) {
  void *p = get_slice();
  for (int i = 0; i < 4; i++) hold_untouched(api.malloc(MIB(31)), MIB(31));
  while ((uintptr_t)p + KIB(64) != oracle_arena_end(p))
    p = hold_untouched(api.aligned_alloc(KIB(64), KIB(64)), KIB(64));
  size = KIB(140);
}
static void grow_at_once(void) {
  large_block = get(KIB(140));
  grow_next();
}
static void grow_and_free(void) { put(hold_untouched(api.malloc(MIB(20)), MIB(20))); }
static bool others_grow(void) {
  if (!oracle_would_grow(large_block)) return false;
  in_helper(grow_and_free);
  return true;
}
static void slices_for_one(void) {
  large_block = get(KIB(140));
  put(get(MIB(5)));
  size = MIB(5);
}
/* Free runs of several lengths, the lowest of which has whole words of the bitmap. */
static void slices_for_a_few(void) {
  enum { APART = 40 };
  void *apart[APART], *much = get(MIB(12));
  for (int i = 0; i < APART; i++) apart[i] = get(KIB(64) * (i % 2 == 0 ? 6 + (size_t)i % 8 : 1));
  put(much);
  for (int i = 0; i < APART; i += 2)
    if ((char *)apart[i] > (char *)much) put(apart[i]);
  size = KIB(300);
}
static void get_five(void) { get(MIB(5)); }
static bool others_claim_first(void) {
  if (!oracle_would_claim_slices(large_block)) return false;
  in_helper(get_five);
  return true;
}
static void first_word_full(void) {
  own(16000, 40);
  block[0] = get(KIB(140));
  size = MIB(20);
}
static void large_in_first_word(void) {
  void *p = get(KIB(140));
  own(16000, 40);
  release(block[0] = p);
}
static void big(void) { size = KIB(200); }
static void purged(void) {
  own(MIB(20), 1);
  free_some(0, 1, 1);
  api.collect(true);
}
static void calloc_one(void) { got[0] = api.calloc(1, size); }
static void few_pages_in_memory(void) {
  size = MIB(1);
  put(hold_untouched(api.malloc(size), size));
}
static void all_pages_in_memory(void) {
  size = MIB(1);
  void *p = api.malloc(size);
  memset(p, 1, size);
  api.free(p);
}
/* Enough to fill the bucket (patience.c) when it is claimed again. */
static void much_purged(void) {
  own(MIB(40), 1);
  free_some(0, 1, 1);
  api.collect(true);
  size = MIB(34);
}
static void patient(void) {
  much_purged();
  own(MIB(34), 1);
  own(KIB(140), 1);
  let_go(0, 1, 1);
  sleep(5);
}

/* Somebody's mapping where the next slices, or the next windows, would be. */
static void occupy(uintptr_t at) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  void *got = mmap((void *)at, 4096, PROT_NONE, flags, -1, 0);
  if (got != (void *)at) park_fail("cannot map %zx", at);
}
static void grow_over_taken(void) {
  uintptr_t end = oracle_arena_end(get(KIB(140)));
  size = MIB(20);
  occupy(end + KIB(64));
}
/* The last of what is mapped is free, and too little. */
static uintptr_t free_the_end(void) {
  void *p = get(MIB(20));
  uintptr_t end = oracle_arena_end(p);
  size = MIB(31);
  put(p);
  return end;
}
static void end_is_free(void) { free_the_end(); }
static void end_is_free_and_taken_behind(void) { occupy(free_the_end()); }
static void occupy_windows(unsigned n) {
  uintptr_t window = (uintptr_t)get(huge_size()) >> 30;
  size = huge_size();
  for (unsigned i = 1; i <= n; i++) occupy((window + i) << 30);
}
static void window_taken(void) { occupy_windows(1); }
static void windows_taken(void) { occupy_windows(100); }
/* What fits into a lower hole goes there. */
static void get_behind(const void *p, size_t of) {
  while ((char *)get(of) < (const char *)p) continue;
}
/* No more address space than there is now: what is unmapped may be mapped elsewhere. */
static void malloc_with_more(size_t more) {
  char text[32] = "";
  int file = open("/proc/self/statm", O_RDONLY);
  if (read(file, text, sizeof text - 1) <= 0) park_fail("no /proc/self/statm");
  close(file);
  rlim_t mapped = (rlim_t)strtoul(text, NULL, 10) * (rlim_t)getpagesize();
  struct rlimit limit = {mapped + more, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) park_fail("setrlimit");
  got[0] = api.malloc(size);
  limit_memory(false);
}
static void malloc_in_what_is_mapped(void) { malloc_with_more(0); }
/* There is room for the block, but not for the kernel to look for a window for it. */
static void malloc_huge_limited(void) { malloc_with_more(size + MIB(2)); }
/* Two ranges of free groups, and nothing else is free. */
static void free_groups(void) {
  void *first = get(MIB(31));
  get_behind(first, KIB(140));
  void *second = get(MIB(31));
  get_behind(second, KIB(140));
  fill_holes();
  put(first);
  put(second);
  size = MIB(40);
  usleep(1100 * 1000); /* what was refused while holes were filled is tried again (grow.c) */
}
static void free_groups_for_huge(void) {
  put(hold_untouched(api.malloc(huge_size()), huge_size()));
  free_groups();
  size = huge_size();
}
static void too_few_free_groups(void) {
  free_groups();
  size = MIB(100);
}
static void unmapped_groups(void) {
  free_groups();
  malloc_in_what_is_mapped();
  if (got[0] == NULL) park_fail("free slices were not unmapped");
  hold(got[0], size);
  fill_holes();
  size = MIB(4);
}
/* Beside what was unmapped some slices are free, and only both together suffice. */
static void unmapped_beside_free(void) {
  free_groups();
  malloc_in_what_is_mapped();
  hold(got[0], size);
  size = MIB(31);
}
static void unmapped_and_one_slice(void) {
  unmapped_groups();
  size = KIB(64);
}
/* The last block of a window that has no room for more: what was looked for there in vain may be
 * there now. */
static void last_of_window(void) {
  uintptr_t end = ((uintptr_t)get(KIB(140)) & -(uintptr_t)MIB(1024)) + MIB(1024) - KIB(64);
  void *p = NULL;
  for (size_t of = MIB(16); of >= KIB(64); of /= 16)
    while ((uintptr_t)p + of < end) p = hold_untouched(api.malloc(of), of);
  get(MIB(31));
  get(400);
  release(block[0] = p);
}

static void window_between(void) {
  void *p = get(huge_size());
  get(huge_size());
  put(p);
  size = MIB(1400);
}

/* ---- memory that is short -------------------------------------------------------------------- */

static void hold_if_any(void) {
  if (got[0] != NULL) hold(got[0], size);
}
static void huge_next(void) { size = huge_size(); }
/* So many windows that the kernel is asked for room first. */
static void many_windows_next(void) { size = MIB(17 * 1024); }
/* More than all addresses are. */
static void impossible_next(void) { size = (size_t)1 << 48; }
static void hold_one_untouched(void) { hold_untouched(got[0], size); }
static void realloc_limited(void) {
  limit_memory(true);
  got[0] = api.realloc(block[0], MIB(3));
  limit_memory(false);
  if (got[0] == NULL) hold(block[0], KIB(600));
}
static void hold_moved_if_any(void) {
  if (got[0] != NULL) hold(got[0], MIB(3));
}
static void next_to_free(void) {
  own(KIB(140), 4);
  free_some(1, 2, 1);
  let_go(0, 1, 1);
}
static void large_in_other_arena(void) {
  full_window();
  block[0] = get(MIB(31));
  own(400, 4);
  release(block[0] = get(MIB(31)));
}
static void next_to_used(void) {
  own(KIB(140), 4);
  let_go(0, 1, 1);
}
static bool is_expanded;
/* Blocks of a few pages, in several spans; some were freed, and the heap keeps none. */
enum { RUNS = 40 };
static void some_runs(void) {
  own(KIB(40), RUNS);
  for (unsigned i = 0; i < RUNS; i += 4) put(block[i]), block[i] = NULL;
  for (unsigned i = 1; i < RUNS; i += 8) put(block[i]), block[i] = NULL;
}
static void run_next(void) {
  some_runs();
  size = KIB(28);
}
static void long_run_next(void) {
  some_runs();
  size = KIB(120);
}
/* Where pages went back to the system. */
static void gone_run_next(void) {
  own(KIB(128), 9);
  put(block[3]), block[3] = NULL;
  size = KIB(120);
}
static void first_run_next(void) { size = KIB(20); }
static void run_to_free(void) {
  some_runs();
  release(block[0] = block[6]);
}
static void last_run_to_free(void) {
  own(KIB(128), 9);
  for (unsigned i = 1; i < 9; i++) put(block[i]);
  release(block[0]);
}
/* Bursts of more runs than a heap keeps. A free then gives several back. Once none is left, malloc
 * claims several. */
enum { BURST = 72, KEPT = 32 };
static void run_to_free_in_burst(void) {
  own(KIB(20), BURST);
  for (unsigned i = 1; i <= KEPT; i++) put(block[i]), block[i] = NULL;
  release(block[0]);
}
static void run_to_free_of_too_many(void) {
  run_to_free_in_burst();
  if (!api.option_set("magazine", 0)) park_fail("no bound");
  oracle_note_look_due();
}
static void run_next_in_burst(void) {
  own(KIB(20), BURST);
  for (unsigned i = 0; i < BURST; i++) put(block[i]), block[i] = NULL;
  unsigned i = 0;
  while (oracle_keeps_runs()) block[i++] = get(KIB(20));
  while (!oracle_keeps_runs()) block[i++] = get(KIB(20)); /* until small holes are filled */
  while (oracle_keeps_runs()) block[i++] = get(KIB(20));
}
/* 2 MiB of runs for which the heap had no room: with the last one it gives up other things. */
enum { MUCH_GIVEN = 16 };
static void give_runs(unsigned first) {
  own(KIB(128), MUCH_GIVEN + 1);
  for (unsigned i = first; i < MUCH_GIVEN; i++) put(block[i]), block[i] = NULL;
}
static void much_given_but_one(void) {
  give_runs(1);
  release(block[0]);
}
static void much_given(void) {
  give_runs(0);
  size = KIB(128);
}
static void allocate_runs(void) { own(KIB(40), RUNS); }
static void run_of_other(void) {
  in_helper(allocate_runs);
  release(block[0]);
}
/* The system keeps what is locked, and has just been asked. */
static void run_beside_locked(void) {
  some_runs();
  if (mlock(block[6], KIB(4)) != 0) park_fail("pages cannot be locked: see ulimit -l");
  put(block[6]);
  release(block[0] = block[7]);
}
/* The system has kept pages of so many spans in a row, two blocks in each. */
static void refused_of(unsigned spans) {
  own(KIB(128), 12);
  for (unsigned i = 0; i < 10; i += 2) {
    if (mlock(block[i], KIB(4)) != 0) park_fail("pages cannot be locked: see ulimit -l");
    if (i / 2 < spans) put(block[i]), block[i] = NULL;
  }
}
static void refused_of_three(void) {
  refused_of(3);
  release(block[0] = block[6]);
  block[6] = NULL;
}
static void refused_of_four(void) {
  refused_of(4);
  release(block[0] = block[8]);
  block[8] = NULL;
}
/* It keeps them still, and there is room for more than these. */
static void refused_within_budget(void) {
  refused_of_four();
  if (!api.option_set("purge_budget", KIB(64))) park_fail("no budget");
  oracle_note_look_at_runs_due();
}
static void restore_budget(void) {
  if (!api.option_set("purge_budget", 0)) park_fail("no budget");
}
/* More pages are free than there may be, in its span and in its neighbour. There has been another
 * thread. */
static void run_beyond_budget(void) {
  leave_resting(100, 1);
  some_runs();
  if (!api.option_set("purge_budget", KIB(64))) park_fail("no budget");
  oracle_note_look_at_runs_due();
  release(block[0] = block[6]);
}
static void run_kept(void) {
  some_runs();
  put(block[6]);
}
/* The way to a free run of just that length leads nowhere, as after one who stopped on it. */
static void run_not_where_it_is_said(void) {
  some_runs();
  size = KIB(120);
  oracle_note_stale_room(block[2], 30);
}
static void run_before_free(void) {
  some_runs();
  release(block[0] = block[3]);
}
static void grow_run(void) { got[0] = api.realloc(block[0], KIB(60)); }
static void hold_grown_run(void) { hold(got[0], KIB(60)); }
static void expand_run(void) { is_expanded = api.expand(block[0], KIB(60)); }
static void hold_expanded_run(void) { hold(block[0], is_expanded ? KIB(60) : KIB(40)); }
static void run_between(void) {
  some_runs();
  release(block[0] = block[2]);
  block[2] = NULL;
}
/* And the heap keeps a run that is longer than what it may become. */
static void run_between_and_kept(void) {
  run_between();
  put(get(KIB(52)));
}
static void grow_run_a_little(void) { got[0] = api.realloc(block[0], KIB(44)); }
static void hold_run_a_little(void) { hold(got[0], KIB(44)); }
static void large_to_shorten(void) { release(block[0] = get(MIB(1))); }
static void shorten_to_run(void) { got[0] = api.realloc(block[0], KIB(90)); }
static void hold_shortened(void) { hold(got[0], KIB(90)); }
static void shrink_run(void) { got[0] = api.realloc(block[0], KIB(20)); }
static void hold_shrunk_run(void) { hold(got[0], KIB(20)); }

/* A heap that allocates much may keep the slices of a few blocks. */
static void earned_large(void) {
  own(KIB(140), 3);
  for (unsigned i = 0; i < 20; i++) put(get(size));
}
static void kept_and_grow_next(void) {
  earned_large();
  grow_next();
}
static void room_for_large(void) {
  earned_large();
  let_go(0, 1, 1);
}
static void no_room_for_large(void) {
  earned_large();
  free_some(1, 3, 1);
  let_go(0, 1, 1);
}
/* Six slices are used again by blocks that need less of them. Their tails are more than there may
 * be, and the next slice that is kept was used as a whole too. */
static void many_tails(void) {
  for (unsigned i = 0; i < 30; i++) block[i] = get_slice();
  free_some(0, 6, 1);
  size = KIB(20);
  for (unsigned i = 0; i < 6; i++) get_in_slice(size);
  put(block[6]);
}
/* Below it lies one that was used as far as the next block goes. */
static void nearest_is_second(void) {
  many_tails();
  put(get_in_slice(size));
  put(block[7]);
}
static void others_large(void) {
  size = KIB(140);
  count = 1;
  in_helper(allocate);
  let_go(0, 1, 1);
}
/* As many as a thread frees before it gets a heap, and one. */
enum { LONE = 8 };
static void others_small(void) {
  size = 100;
  count = 1;
  in_helper(allocate);
  let_go(0, count, 1);
}
static void others_many(void) {
  size = 100;
  count = LONE + 1;
  in_helper(allocate);
  let_go(0, count, 1);
}
/* The next of them gets the thread a heap. */
static void others_freed(void) {
  others_many();
  for (unsigned i = 1; i <= LONE; i++) api.free(block[i]);
}
/* A thread that ended without a word has left its heap. It was not the first to have one. */
static void use_heap(void) { put(get(400)); }
static void use_heap_and_die(void) {
  use_heap();
  snapshot_die();
}
static void somebody_died(void) {
  in_helper(use_heap);
  in_thread(use_heap_and_die);
  size = 400;
}
static void some_dirty(void) {
  own(KIB(200), 20);
  free_some(0, 20, 2);
}
/* A large heap, and some of it dense: the next look makes a huge page of that. */
enum { IN_FRAMES = 48, OF_FRAME = KIB(128) };
static void dense_frame(void) {
  for (unsigned i = 0; i < IN_FRAMES; i++) {
    block[i] = hold_untouched(api.aligned_alloc(KIB(64), OF_FRAME), OF_FRAME);
    memset(block[i], 1, OF_FRAME);
  }
  hold_untouched(api.malloc(MIB(31)), MIB(31));
  hold_untouched(api.malloc(MIB(31)), MIB(31));
  memset(library_hidden("frames"), 0, 4 * sizeof(uint32_t));
}
static void dense_frame_refused(void) {
  dense_frame();
  for (unsigned i = 0; i < IN_FRAMES; i++)
    if (madvise(block[i], OF_FRAME, MADV_NOHUGEPAGE) != 0) park_fail("madvise");
}
/* The frame that is next is the last of the last arena, and not mapped. */
static void last_frame_next(void) {
  dense_frame();
  enum { NEXT = 6 }; /* behind two times three words: frames.c */
  ((uint32_t *)library_hidden("frames"))[NEXT] = (uint32_t)(MIB(1024) / MIB(2)) - 1;
}
/* A few slices of each are free: that alone gives no page of them back. */
static void huge_frames_with_holes(void) {
  dense_frame();
  for (int i = 0; i < 4; i++) {
    memset(library_hidden("frames"), 0, 4 * sizeof(uint32_t));
    api.collect(false);
  }
  free_some(7, IN_FRAMES, 16);
}
static void huge_frames_overdue(void) {
  huge_frames_with_holes();
  let_go(0, 1, 1);
  usleep(100 * 1000);
}
/* The lock is not inherited by the copies of the process, so it is part of the operation. */
static void collect_locked(void) {
  if (mlock(block[4], 1) != 0) park_fail("a page cannot be locked: see ulimit -l");
  collect_hard();
}
static void free_locked(void) {
  if (mlock(block[0], 1) != 0) park_fail("a page cannot be locked: see ulimit -l");
  api.free(block[0]);
}
static void expand_it(void) { is_expanded = api.expand(block[0], KIB(180)); }
static void expand_less(void) { is_expanded = api.expand(block[0], KIB(10)); }
static void hold_expanded_less(void) { hold(block[0], is_expanded ? KIB(10) : KIB(140)); }
static void hold_expanded(void) { hold(block[0], is_expanded ? KIB(180) : KIB(140)); }

/* ---- bounds of memory ------------------------------------------------------------------------ */

static void look_is_due(void) {
  fresh_end();
  oracle_note_look_due();
}
static void much_in_use(void) { hold_untouched(api.malloc(MIB(20)), MIB(20)); }
static void look_at_much(void) {
  much_in_use();
  look_is_due();
}
static void look_at_class_at_rest(void) {
  much_in_use();
  own(200, 600);
  free_some(0, 100, 1);
  look_is_due();
  oracle_note_watch_due(200);
}
/* The look has given the class up. */
static void class_given_up(void) {
  look_at_class_at_rest();
  put(get(KIB(140)));
  size = 200;
  drain(size);
}
enum { PRESSURE_IS_NEAR = 1, PRESSURE_IS_OVER };
static void look_when_eased(void) {
  look_at_much();
  oracle_note_pressure(PRESSURE_IS_OVER);
}
static void look_in_full_container(void) {
  look_at_much();
  oracle_note_container(MIB(40), MIB(1), true);
}
static void look_past_lost_reader(void) {
  look_at_much();
  oracle_note_lost_reader();
}
static void tight_large(void) {
  earned_large();
  oracle_note_pressure(PRESSURE_IS_NEAR);
}
static void tight_long_list(void) {
  long_list_little_used();
  oracle_note_pressure(PRESSURE_IS_NEAR);
}
static void tight_partial(void) {
  partial_slab();
  oracle_note_pressure(PRESSURE_IS_NEAR);
}
static void tight_to_free(void) {
  room_for_large();
  oracle_note_pressure(PRESSURE_IS_NEAR);
}

/* The limit is reached, and the class has nothing. A block that is refused opens the reserve. */
static void limit_reached(void) {
  size = 1000;
  use_up(size);
  spend_memory(true);
}
/* The same, where not a byte more may be in use. */
static void limit_near(void) {
  limit_reached();
  if (!api.option_set("memory_limit", (int64_t)oracle_memory_in_use())) park_fail("no limit");
}
/* The same, where spans have free pages, and what is wanted is a block of such. */
static void limit_with_runs(void) {
  own(KIB(40), RUNS);
  for (unsigned i = 0; i < RUNS; i += 2) put(block[i]), block[i] = NULL;
  limit_near();
}
/* And a block that is to grow, for whose copy there is no room. */
static void limit_for_growth(void) {
  own(KIB(40), RUNS);
  release(block[RUNS] = get(MIB(2)));
  for (unsigned i = 0; i < RUNS; i += 2) put(block[i]), block[i] = NULL;
  limit_near();
}
static void limit_for_growth_of_huge(void) {
  own(KIB(40), RUNS);
  block[RUNS] = api.malloc(huge_size());
  for (unsigned i = 0; i < RUNS; i += 2) put(block[i]), block[i] = NULL;
  limit_near();
}
static void grow_huge_at_limit(void) { got[0] = api.realloc(block[RUNS], huge_size() + KIB(300)); }
static void hold_huge_at_limit(void) {
  spend_memory(false);
  if (got[0] == NULL) hold_untouched(block[RUNS], huge_size());
  else hold_untouched(got[0], huge_size() + KIB(300));
}
/* A block of another class for which there is nothing. */
static void limit_for_less(void) {
  release(block[0] = get(10000));
  use_up(100);
  spend_memory(true);
}
static void limit_for_shorter(void) {
  large_to_shorten();
  limit_near();
}
static void hold_shortened_at_limit(void) {
  spend_memory(false);
  hold_shortened();
}
static void shrink_at_limit(void) { got[0] = api.realloc(block[0], 100); }
static void hold_shrunk_at_limit(void) {
  spend_memory(false);
  hold(got[0], 100);
}
static void grow_at_limit(void) { got[0] = api.realloc(block[RUNS], MIB(2) + KIB(300)); }
static void hold_grown_at_limit(void) {
  spend_memory(false);
  if (got[0] == NULL) hold(block[RUNS], MIB(2));
  else hold(got[0], MIB(2) + KIB(300));
}
/* The system keeps all of these. */
static void limit_with_locked_runs(void) {
  own(KIB(40), RUNS);
  for (unsigned i = 0; i < RUNS; i += 2) {
    if (mlock(block[i], KIB(40)) != 0) park_fail("pages cannot be locked: see ulimit -l");
    put(block[i]), block[i] = NULL;
  }
  limit_near();
}
/* It kept them, until a moment ago. */
static void limit_with_unlocked_runs(void) {
  limit_with_locked_runs();
  if (api.malloc(KIB(140)) != NULL) park_fail("the limit is not reached");
  if (munlockall() != 0) park_fail("pages cannot be unlocked");
  usleep(110 * 1000); /* they are looked for again */
}
/* Nothing at all may be in use. */
static void limit_for_run(void) {
  limit_with_runs();
  spend_memory(true);
  size = KIB(28);
}
static void reserve_opened(void) {
  limit_reached();
  if (api.malloc(KIB(140)) != NULL) park_fail("the limit is not reached");
}
static void reserve_in_use(void) {
  use_up(500);
  reserve_opened();
  hold(api.malloc(size), size);
  size = 500;
}
static void reserve_to_be_closed(void) {
  reserve_opened();
  spend_memory(false);
  oracle_note_look_due();
}
/* Another process has asked for something. */
static void memory_asked_for(void) {
  big();
  oracle_ask_for_memory();
}
static void memory_was_asked_for(void) {
  memory_asked_for();
  put(get(size));
  oracle_note_look_due();
}
static void memory_asked_for_no_more(void) {
  memory_was_asked_for();
  oracle_note_request_over();
}
static void samples_asked_for(void) {
  big();
  oracle_ask_for_samples(KIB(64));
}
static void hold_if_any_below_limit(void) {
  spend_memory(false);
  hold_if_any();
}

/* ---- bytes of a thread ----------------------------------------------------------------------- */

static void ask_bytes(void) {
  uint64_t allocated = api.thread_allocated(), freed = api.thread_freed();
  if ((int64_t)allocated < 0 || (int64_t)freed < 0) park_fail("less than no bytes");
}
static void few_put_off(void) {
  of_other(0);
  free_some(0, 2, 1);
}
static void many_gathered(void) {
  of_other(500);
  free_some(0, SOME / 2, 1);
}
static void asked_fresh_end(void) {
  ask_bytes();
  fresh_end();
}
static void asked_that_cannot_rest(void) {
  ask_bytes();
  cannot_rest();
}
static void asked_and_somebody_rests(void) {
  ask_bytes();
  somebody_rests();
}
static void asked_and_somebody_died(void) {
  ask_bytes();
  somebody_died();
}

/* ---- traces ---------------------------------------------------------------------------------- */

static void name_and_start_trace(void) {
  traced_name();
  traced_start();
}
static void fresh_end_when_traced(void) {
  in_helper(name_and_start_trace);
  fresh_end();
}
/* The caller's next event finds no room where the last one is. */
static void fill_traced(void) {
  enum { FULL = (64 << 10) - 192 };
  void *last = NULL;
  put(get(KIB(140))); /* from a slow call on each one is traced */
  for (size_t before = 0, now; (now = oracle_traced()) <= FULL; before = now) {
    if (now <= before) park_fail("%zu bytes are traced, then %zu", before, now);
    if (last != NULL) put(last), last = NULL;
    else last = get(16);
  }
}
static void fresh_end_when_full(void) {
  fresh_end();
  fill_traced();
}
static void fresh_end_when_file_is_full(void) {
  fresh_end_when_traced();
  fill_traced();
}
static void large_when_traced(void) {
  own(KIB(140), 2);
  let_go(0, 1, 1);
  in_helper(name_and_start_trace);
}
static void hold_traced(void) { hold(api.malloc(100), 100); }
static void first_when_traced(void) {
  in_helper(name_and_start_trace);
  size = 100;
}

/* ---- blocks that move ------------------------------------------------------------------------ */

static void large_that_moves(void) {
  own(KIB(600), 2);
  let_go(0, 1, 1);
}
static void move_it(void) { got[0] = api.realloc(block[0], MIB(3)); }
/* The kernel moves no pages that lie in two mappings. */
static void large_in_two_mappings(void) {
  large_that_moves();
  if (madvise((char *)block[0] + KIB(256), KIB(64), MADV_DONTDUMP) != 0) park_fail("madvise");
}
static void hold_moved(void) { hold(got[0], MIB(3)); }

static void resize_it(void) { got[0] = api.realloc(block[0], size); }
static void hold_resized(void) { hold_untouched(got[0], size); }
static void huge_before(size_t before, size_t after) {
  block[0] = api.malloc(before);
  size = after;
}
/* So many have their own mapping that the kernel is asked for more. */
static void many_that_moved(void) {
  for (int i = 0; i < 17; i++) {
    void *p = api.malloc(KIB(600));
    get(KIB(600));
    hold_untouched(api.realloc(p, MIB(3)), MIB(3));
  }
  large_that_moves();
}
/* A block too small for that is copied, to slices for a quarter more. */
static void large_to_be_copied(void) {
  own(KIB(320), 2);
  let_go(0, 1, 1);
}
static void large_to_be_copied_to_dirty(void) {
  put(get(KIB(1200)));
  large_to_be_copied();
}
static void grow_a_little(void) { got[0] = api.realloc(block[0], KIB(321)); }
static void hold_grown(void) { hold(got[0], KIB(321)); }
static void large_at_the_end(void) {
  block[0] = api.malloc(MIB(3));
  size = MIB(40);
}
static void large_that_grows_much(void) {
  block[0] = api.malloc(MIB(3));
  size = MIB(300);
}
/* Others whose pages moved have died. */
static void large_that_leaps(void) {
  for (int i = 0; i < 3; i++) {
    void *p = api.malloc(KIB(600));
    get(KIB(600));
    api.free(api.realloc(p, MIB(3)));
  }
  large_that_moves();
}
static void huge_that_shrinks_much(void) {
  void *p = api.malloc(MIB(6));
  get(MIB(2));
  block[0] = api.realloc(p, MIB(9));
  size = MIB(4);
}
static void huge_that_grows(void) { huge_before(MIB(600), MIB(1400)); }
/* The kernel grows no two mappings as one. */
static void huge_in_two_mappings(void) {
  huge_that_grows();
  if (madvise(block[0], KIB(64), MADV_DONTDUMP) != 0) park_fail("madvise");
}
static void huge_that_shrinks(void) { huge_before(MIB(1400), MIB(600)); }
static void huge_that_moves(void) {
  huge_that_grows();
  occupy((uintptr_t)block[0] + MIB(1024));
}
/* It has three pieces, and there is room for one more and for what is missing. */
enum { BEFORE_PIECES = 9, AFTER_PIECES = 12, ONE_PIECE_MORE = AFTER_PIECES - BEFORE_PIECES + 5 };
enum { TOO_LITTLE = AFTER_PIECES - BEFORE_PIECES + 2 }; /* for a second piece to move */
static size_t mapped_before;
static void note_mapped(void) {
  char text[32] = "";
  int file = open("/proc/self/statm", O_RDONLY);
  if (file < 0 || read(file, text, sizeof text - 1) <= 0) park_fail("statm");
  close(file);
  mapped_before = strtoul(text, NULL, 10) * 4096;
}
static void huge_of_three(void (*before)(void)) {
  void *large = api.malloc(MIB(6));
  get(MIB(2)); /* no hole below holds that: it lies behind */
  block[0] = api.realloc(large, MIB(BEFORE_PIECES));
  size = MIB(AFTER_PIECES);
  occupy((uintptr_t)block[0] + MIB(BEFORE_PIECES));
  before();
  note_mapped();
}
/* Likewise in an arena, whose slices cannot be mapped again when their pages have moved. */
static void large_of_pieces(void) {
  block[0] = api.malloc(MIB(BEFORE_PIECES));
  size = MIB(AFTER_PIECES);
  get_behind(block[0], KIB(600));
  fill_holes();
  note_mapped();
}
static void nothing(void) {}
static void huge_beside_free(void) { huge_of_three(nothing); }
static void huge_of_pieces(void) { huge_of_three(fill_holes); }
static void resize_with(size_t more) {
  struct rlimit limit = {mapped_before + more, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
  resize_it();
  limit_memory(false);
}
static void resize_limited(void) { resize_with(MIB(ONE_PIECE_MORE)); }
static void resize_refused(void) { resize_with(MIB(TOO_LITTLE)); }
static void hold_resized_if_any(void) {
  if (got[0] != NULL) hold_resized();
  else hold_untouched(block[0], MIB(BEFORE_PIECES));
}

/* ---- first-class heaps ----------------------------------------------------------------------- */

static fh_heap_t *heap;

static void make_heap(void) {
  heap = api.heap_new();
  size = 100;
}
static void end_heap(void) { api.heap_delete(heap); }
static void make_used_heap(void) {
  make_heap();
  for (unsigned i = 0; i < 50; i++) block[i] = hold(api.heap_malloc(heap, 3000), 3000);
  block[50] = hold(api.heap_malloc(heap, KIB(140)), KIB(140));
  block[51] = hold(api.heap_malloc(heap, huge_size()), huge_size());
}
/* With large blocks in two chunks of its index, most of which others have freed. */
enum { LARGE_FROM = 52, LARGE_TO = LARGE_FROM + 64, IN_CHUNK = 55, LARGE_KEPT = 21 };
static void free_most_of_large(void) {
  for (unsigned i = LARGE_FROM; i < LARGE_TO; i++)
    if ((i - LARGE_FROM) % LARGE_KEPT != 0) put(block[i]);
}
static void make_much_used_heap(void) {
  make_used_heap();
  for (unsigned i = LARGE_FROM; i < LARGE_TO; i++)
    block[i] = hold(api.heap_malloc(heap, KIB(20)), KIB(20));
  in_helper(free_most_of_large);
}
static void make_doomed_heap(void) {
  make_much_used_heap();
  let_go(0, LARGE_FROM, 1);
  let_go(LARGE_FROM, LARGE_TO, LARGE_KEPT);
}
static void make_heap_with_large(void) {
  make_heap();
  size = KIB(600);
  block[0] = hold(api.heap_malloc(heap, size), size);
}
static void large_of_heap(void) {
  make_heap_with_large();
  let_go(0, 1, 1);
}
static void heap_shrinks(void) { got[0] = api.heap_realloc(heap, block[0], 5000); }
static void large_of_heap_at_limit(void) {
  large_of_heap();
  spend_memory(true);
}
static void hold_heap_shrunk_at_limit(void) {
  spend_memory(false);
  hold(got[0], 5000);
  end_heap();
}
static void large_of_deleted_heap(void) {
  large_of_heap();
  api.heap_delete(heap);
}
static void free_and_end(void) {
  api.free(block[0]);
  end_heap();
}
static void first_large_of_heap(void) {
  make_heap();
  hold(api.heap_malloc(heap, 100), 100);
  size = KIB(20);
}
static void large_of_full_chunk(void) {
  first_large_of_heap();
  for (unsigned i = 0; i < IN_CHUNK; i++) hold(api.heap_malloc(heap, size), size);
}
static void make_heap_after_another(void) {
  make_heap();
  put(hold(api.heap_malloc(heap, 100), 100));
  end_heap();
  make_heap();
}
static void use_up_two_slabs(size_t of_size) {
  size = of_size;
  for (int slabs = 0; slabs < 2; slabs++) {
    do hold(api.heap_malloc(heap, size), size);
    while (!oracle_heap_is_used_up(heap, size));
  }
}
static void make_heap_used_up(void) {
  make_heap();
  use_up_two_slabs(3000);
}
/* Slabs of a class that it does not use any more. */
static void make_heap_emptied(void) {
  make_heap();
  for (unsigned i = 0; i < 80; i++) block[i] = hold(api.heap_malloc(heap, 3000), 3000);
  oracle_enter_lane(heap); /* else slabs that are emptied go back at once */
  for (unsigned i = 0; i < 80; i++) put(block[i]);
  oracle_leave_lane();
}
/* All but the first slab is free, and of the second one the first block lives. */
static void make_heap_almost_emptied(void) {
  make_heap();
  for (unsigned i = 0; i < 80; i++) block[i] = hold(api.heap_malloc(heap, 3000), 3000);
  unsigned second = 1;
  while (((uintptr_t)block[second] ^ (uintptr_t)block[0]) < KIB(64)) second++;
  for (unsigned i = 79; i > second; i--) put(block[i]);
  release(block[second]);
  block[0] = block[second];
}
static void make_heap_almost_emptied_entered(void) {
  make_heap_almost_emptied();
  oracle_enter_lane(heap);
}
/* By another thread, so that the subject has no heap: it frees the last block by itself. */
static void others_make_heap_almost_emptied(void) {
  make_heap_almost_emptied();
  api.collect(false);
}
static void heap_almost_emptied_by_others(void) { in_helper(others_make_heap_almost_emptied); }
static void heap_almost_emptied_by_others_entered(void) {
  heap_almost_emptied_by_others();
  oracle_enter_lane(heap);
}
static void no_room_for_heap(void) {
  use_up(sizeof(void *) + sizeof(uint64_t) + 32); /* an fh_heap_t */
  spend_memory(true);
}
static void reserve_for_heap(void) {
  no_room_for_heap();
  if (api.malloc(KIB(140)) != NULL) park_fail("the limit is not reached");
}
static void new_heap_if_any(void) { heap = api.heap_new(); }
static void end_heap_if_any(void) {
  spend_memory(false);
  if (heap != NULL) end_heap();
}
static void set_quota(void) { api.heap_set_quota(heap, MIB(1)); }
static void look_at_heap(void) {
  fh_heap_stats_t stats = {.struct_size = sizeof stats};
  if (!api.heap_stats_get(heap, &stats) || stats.slab_bytes == 0) park_fail("a heap has nothing");
}
static void ask_for_heap_of_large(void) {
  if (api.heap_of(block[50]) != heap || api.heap_of(block[51]) != heap)
    park_fail("a large block is not its heap's");
}
static void make_heap_when_asked(void) {
  ask_bytes();
  make_heap();
}
static void make_heap_with_quota(void) {
  make_heap_used_up();
  api.heap_set_quota(heap, KIB(64));
}
/* With two lanes. */
static void make_heap_with_quota_entered(void) {
  make_heap_used_up();
  oracle_enter_lane(heap);
  hold(api.heap_malloc(heap, size), size);
  oracle_leave_lane();
  api.heap_set_quota(heap, KIB(128));
  size = 700;
}
static void collect_heap(void) { api.heap_collect(heap); }
static void medium_next(void) { size = 3000; }
static void make_heap_to_be_asked_for(void) {
  make_heap();
  block[0] = api.heap_malloc(heap, size); /* nobody else has it */
}
static void hold_first_and_end_heap(void) {
  hold(block[0], size);
  end_heap();
}
static void ask_for_heap(void) {
  if (api.heap_of(block[0]) != heap) park_fail("a block is not its heap's");
}
static bool has_heap_ended;
static bool others_end_the_heap(void) {
  if (!oracle_is_lane_collected(heap)) return false;
  in_helper(end_heap);
  return has_heap_ended = true;
}
static void end_heap_if_not_ended(void) {
  if (!has_heap_ended) end_heap();
}
static void make_heap_swept_once(void) {
  make_heap_emptied();
  use_up_two_slabs(8192);
}
static void make_entered_heap(void) {
  make_heap();
  put(hold(api.heap_malloc(heap, 100), 100));
  oracle_enter_lane(heap);
}
static void heap_malloc_one(void) { got[0] = api.heap_malloc(heap, size); }
static void hold_heap_one(void) {
  hold_one();
  end_heap();
}
static void hold_heap_if_any(void) {
  if (got[0] != NULL) hold_one();
  end_heap();
}
static void leave_and_end_heap(void) {
  oracle_leave_lane();
  end_heap();
}
static void hold_one_and_leave(void) {
  hold_one();
  leave_and_end_heap();
}
static void heap_takes(void) {
  got[0] = api.heap_malloc(heap, 100);
  got[1] = api.heap_calloc(heap, 10, 10);
  got[2] = api.heap_aligned_alloc(heap, 64, 100);
  got[3] = api.heap_malloc(heap, KIB(80));
}
static void hold_heaps(void) {
  for (unsigned i = 0; i < 3; i++) hold(got[i], 100);
  hold(got[3], KIB(80));
  end_heap();
}
static void heap_block_alone(void) {
  make_used_heap();
  release(block[0]);
}
static void heap_moves_limited(void) {
  limit_memory(true);
  got[0] = api.heap_realloc(heap, block[0], huge_size());
  limit_memory(false);
}
static void hold_unmoved(void) {
  if (got[0] != NULL) hold(got[0], huge_size());
  else hold(block[0], 3000);
  end_heap();
}
static bool is_shown(void *p, size_t usable, void *context) {
  (void)p, (void)usable;
  ++*(unsigned *)context;
  return true;
}
static void visit_heap(void) {
  unsigned shown = 0;
  if (!api.heap_visit(heap, is_shown, &shown) || shown == 0) park_fail("a heap is not shown");
}
static bool area_is_shown(const fh_area_t *area, void *context) {
  *(size_t *)context += area->used;
  return true;
}
static void visit_areas(void) {
  size_t used = 0;
  if (!api.heap_visit_areas(heap, area_is_shown, &used) || used == 0)
    park_fail("a heap has no areas");
}
static void choose_heap(void) {
  if (api.heap_set_default(heap) != NULL) park_fail("a heap was chosen before");
}
static void choose_no_heap(void) {
  if (api.heap_set_default(NULL) != heap) park_fail("the heap is not what was chosen");
}
static void choose_no_heap_and_end(void) {
  choose_no_heap();
  end_heap();
}
static void make_chosen_heap(void) {
  make_used_heap();
  choose_heap();
}
static void hold_of_chosen_heap(void) {
  if (api.heap_of(got[0]) != heap) park_fail("malloc has not taken the block of the chosen heap");
  hold_one();
  choose_no_heap_and_end();
}
static void realloc_first(void) { got[0] = api.realloc(block[0], 5000); }
static void make_chosen_heap_with_block(void) {
  heap_block_alone();
  choose_heap();
}
static void make_much_used_heap_entered(void) {
  make_much_used_heap();
  oracle_enter_lane(heap);
}
/* The lane was in use while all was collected: whoever leaves it gives back one bin. */
static void make_heap_with_trims_due(void) {
  make_much_used_heap_entered();
  api.collect(true);
  oracle_leave_lane();
  while (!oracle_lane_is_due()) visit_heap();
}
static void make_doomed_heap_entered(void) {
  make_doomed_heap();
  oracle_enter_lane(heap);
}
static void hold_moved_and_end(void) {
  hold(got[0], MIB(3));
  end_heap();
}
static void heap_moves(void) { got[0] = api.heap_realloc(heap, block[0], 5000); }
static void heap_moves_large(void) { got[0] = api.heap_realloc(heap, block[0], MIB(3)); }
static void hold_heap_moved(void) {
  hold(got[0], 5000);
  end_heap();
}
static void hold_resized_of_chosen(void) {
  choose_no_heap();
  hold_heap_moved();
}
static void destroy_heap(void) { api.heap_destroy(heap); }

/* ---- memory that the program brings ---------------------------------------------------------- */

#define GIB ((size_t)1 << 30)
enum { BROUGHT = 16 << 20 };
static char *brought;
/* In a GiB of which nothing else is in use: the library wants the beginning. */
static void bring_memory(void) {
  own(400, 10);
  char *room = mmap(NULL, 2 * GIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  brought = (char *)(((uintptr_t)room | (GIB - 1)) + 1) + BROUGHT;
  if (room == MAP_FAILED || mprotect(brought, BROUGHT, PROT_READ | PROT_WRITE) != 0)
    park_fail("no memory to bring");
  munmap(room, (size_t)(brought - room));
  munmap(brought + BROUGHT, 2 * GIB - (size_t)(brought + BROUGHT - room));
}
static void bring_used_memory(void) {
  bring_memory();
  memset(brought, 1, BROUGHT);
}
static void add_memory(void) {
  if (api.arena_add(brought, BROUGHT, FH_ARENA_ZERO) == 0) park_fail("the memory is of no use");
}
static void add_used_memory(void) {
  if (api.arena_add(brought, BROUGHT, FH_ARENA_PURGE) == 0) park_fail("the memory is of no use");
}
static void added_memory(void) {
  bring_memory();
  add_memory();
  own(KIB(140), 60); /* the first arena's rest, and some of it */
  free_some(0, 49, 1);
  let_go(49, 50, 1); /* a thread that dies may lose one */
}
static void free_of_added(void) { api.free(block[49]); }

/* ---- looking --------------------------------------------------------------------------------- */

static void look(void) {
  static fh_stats_t stats;
  stats.struct_size = sizeof stats;
  api.stats_get(&stats);
}
static void pass_row(const void *stats, void *context) { (void)stats, (void)context; }
static void look_heap_by_heap(void) {
  void (*each)(void (*row)(const void *stats, void *context), void *context);
  *(void **)&each = library_hidden("heap_stats_each");
  each(pass_row, NULL);
}
static void look_last(void) {
  void (*last)(void);
  *(void **)&last = library_hidden("heap_check_last");
  last();
}
static void look_at_sums(void) { api.mallinfo2(); }
static void visit(void) { shadow_check_visit(SIZE_MAX); }
static void *huge_block, *of_libc;
static void ask(void) {
  api.usable_size(block[0]);
  api.usable_size(of_libc);
  api.good_size(1000), api.good_size(KIB(20));
  api.owns(block[0]);
  api.owns(huge_block);
  api.owns(&size);
}
/* Of a size that the handlers do not free. */
static void a_few_for_good(void) { own(300, 10); }
static void all_kinds(void) {
  few_of_lent_class();
  a_few_for_good();
  get(KIB(140));
  huge_block = get(huge_size());
  of_libc = malloc(100);
}
static void libcs(void) { block[0] = malloc(100); }
static void some_kinds(void) {
  own(400, 10);
  get(KIB(140)), get(KIB(20));
  hold(api.aligned_alloc(MIB(512), KIB(4)), KIB(4)); /* huge, for its alignment */
}
static void had_much(void) {
  get(KIB(140));
  block[0] = get(MIB(20));
  get(KIB(140));
  put(block[0]);
}
static void libcs_resized(void) { got[0] = api.realloc(block[0], 200); }
static void end_libcs(void) {
  if (api.owns(got[0])) hold(got[0], 200);
  else free(got[0]);
}

/* ---- calls that are like others -------------------------------------------------------------- */

/* So many that the helper owns the slab of the last ones, of which two are to be freed. */
static void other_allocates(void) {
  size = 200;
  count = 40;
  in_helper(allocate);
  let_go(38, 40, 1);
  for (unsigned i = 0; i < 2; i++) {
    void *first = block[i];
    block[i] = block[38 + i];
    block[38 + i] = first;
  }
  get(200);
}
static void free_two_sized(void) {
  api.free_sized(block[0], 200);
  api.free_aligned_sized(block[1], 16, 200);
}
/* In the window where the fast free expects blocks. */
static void large_sized(void) {
  put(get(100));
  own(KIB(140), 2);
  let_go(0, 1, 1);
}
static void run_sized(void) { release(block[0] = get(KIB(40))); }
static void free_run_sized(void) { api.free_sized(block[0], KIB(40)); }
static void free_large_sized(void) { api.free_sized(block[0], KIB(140)); }
static void delete_large_sized(void) { api.delete_sized(block[0], KIB(140)); }
static void delete_two_sized(void) {
  api.delete_sized(block[0], 200);
  api.delete_sized(block[1], 200);
}
/* Over two refills of the bin. */
enum { BATCH = 24 };
static void malloc_batch(void) { count = (unsigned)api.malloc_batch(size, BATCH, block); }
static void hold_batch(void) {
  for (unsigned i = 0; i < count; i++) hold(block[i], size);
}
static void bin_of_few(void) {
  own(400, 40);
  put(get(400));
}
/* Borrowed ones, and those of a slab that is the caller's own, which all of them leave empty. */
static void batch_to_free(void) {
  own(900, 80);
  blocks_in_hand = count; /* the program's until their turn comes */
  let_go(0, count, 1);
}
/* Of slabs that nobody owns: some are kept for the next bin. */
static void medium_batch_to_free(void) {
  own(2000, 12);
  put(get(2000));
  blocks_in_hand = count;
  let_go(0, count, 1);
}
static void two_of_other(void) {
  other_allocates();
  blocks_in_hand = count = 2;
}
static void free_batch(void) { api.free_batch(block, count); }
static void aligned_to_delete(void) {
  own(200, 20);
  put(block[19]);
  block[0] = api.aligned_alloc(64, 200);
}
static void delete_aligned(void) { api.delete_aligned_sized(block[0], 200, 64); }
static void small_for_its_alignment(void) {
  own(200, 20);
  block[0] = api.aligned_alloc(512, 40);
}
static void free_small_aligned_sized(void) { api.free_aligned_sized(block[0], 512, 40); }
static void free_large_aligned_sized(void) { api.free_aligned_sized(block[0], KIB(4), KIB(140)); }
static void other_in_large_process(void) {
  other_allocates();
  api.free(block[1]);
  for (int i = 0; i < 3; i++) get(MIB(31));
}
static void resized_too_much(void) {
  if (api.realloc(block[0], (size_t)PTRDIFF_MAX + 1) != NULL) park_fail("realloc gives too much");
}
/* More in the bin than a heap gathers of one slab, 32 blocks, but not many more. */
static void a_few_of_small_class(void) {
  own(16, 1);
  for (unsigned i = 0; i < 30; i++) get(16);
}

/* ---- no heap to be had ----------------------------------------------------------------------- */

static fh_heap_t *heaps[128];
static unsigned heaps_made;

/* All places of the first chunk are taken, and memory is short. */
static void take_free_heaps(void) {
  for (heaps_made = 0; !oracle_pool_is_empty(); heaps_made++) {
    heaps[heaps_made] = api.heap_new();
    put(hold(api.heap_malloc(heaps[heaps_made], 100), 100));
  }
}
static void take_all_heaps(void) {
  other_allocates();
  take_free_heaps();
  api.free(block[1]);
}
static void others_take_all_heaps(void) {
  in_helper(take_free_heaps);
  size = 100;
}
static void take_all_heaps_and_hold(void) {
  take_all_heaps();
  hold(block[0], size);
}
static void end_all_heaps(void) {
  for (unsigned i = 0; i < heaps_made; i++) api.heap_delete(heaps[i]);
  hold_if_any();
}
/* The first chunk's are all in use, and of another's there is one. */
static void heap_of_next_chunk(void) {
  take_free_heaps();
  heaps[heaps_made] = api.heap_new();
  put(hold(api.heap_malloc(heaps[heaps_made], 100), 100));
}
static void end_heap_of_next_chunk(void) { api.heap_delete(heaps[heaps_made]); }
enum { ROOM_FOR_HEAPS = 16 }; /* then the next chunk is needed no more */
static void heap_of_next_chunk_and_room(void) {
  heap_of_next_chunk();
  for (unsigned i = 0; i < ROOM_FOR_HEAPS; i++) api.heap_delete(heaps[i]);
}
static void end_heaps_of_chunk(void) {
  for (unsigned i = ROOM_FOR_HEAPS; i < heaps_made; i++) api.heap_delete(heaps[i]);
}
static void free_limited(void) {
  limit_memory(true);
  api.free(block[0]);
  limit_memory(false);
}
static void a_few(void) { own(400, 10); }
static void a_few_and_one(void) {
  a_few();
  let_go(0, 1, 1);
}
static void first_with_nothing(void) { size = 100; }

/* ---- handlers, and the ends of threads ------------------------------------------------------ */

static bool a_handler_allocates(void) {
  static unsigned instructions;
  if (++instructions < WELL_INSIDE) return false;
  put(get(64));
  return true;
}
static bool a_handler_is_first(void) {
  if (!oracle_would_attach_nested()) return false;
  put(get(64));
  return true;
}

/* ---- what sleeping threads keep -------------------------------------------------------------- */

/* Bins, returned lists and owned slabs of small and medium classes, slices, a run of pages, and
 * frees put off. */
static void keep_much(void) {
  for (unsigned i = 0; i < 200; i++) block[i] = get(400);
  for (unsigned i = 200; i < 230; i++) block[i] = get(2048);
  for (unsigned i = 230; i < 234; i++) block[i] = get(KIB(140));
  put(get(KIB(20)));
  for (unsigned i = 0; i < 234; i += 1 + (i < 100)) put(block[i]);
  for (unsigned i = 500; i < 516; i++) put(block[i]);
}
static void somebody_sleeps(void) {
  in_helper(long_list);
  for (unsigned i = 500; i < 600; i++) block[i] = get(700);
  in_helper(keep_much);
}
static void keep_one(void) { put(get(400)); }
static void somebody_sleeps_with_little(void) { in_helper(keep_one); }
/* The subject itself: as if another were about to take what its heap keeps. */
static void taken_fresh_end(void) {
  fresh_end();
  oracle_note_taken();
}
static void taken_with_large(void) {
  own(KIB(140), 1);
  let_go(0, 1, 1);
  oracle_note_taken();
}
static void taken_with_run(void) {
  run_kept();
  size = KIB(20);
  oracle_note_taken();
}
static void taken_with_free_blocks(void) {
  own_free_blocks();
  ask_bytes();
  oracle_note_taken();
}

/* A handler has jumped out of a fast free before the free did anything. */
static sigjmp_buf out_of_free;
static void jump_when_marked(uintptr_t instruction) {
  (void)instruction;
  if (oracle_heap_is_marked()) siglongjmp(out_of_free, 1);
}
static void mark_left_behind(void) {
  own(400, 10);
  put(block[9]);
  if (sigsetjmp(out_of_free, 1) == 0) {
    step_begin(jump_when_marked);
    api.free(block[0]);
    park_fail("a free sets no mark");
  }
  step_end();
}

/* ... or out of a call that is not fast, which it has cut short for good. */
static void jump_when_busy(uintptr_t instruction) {
  (void)instruction;
  if (oracle_heap_is_busy()) siglongjmp(out_of_free, 1);
}
static void heap_left_behind(void) {
  own(400, 10);
  put(get(KIB(300)));
  if (sigsetjmp(out_of_free, 1) == 0) {
    step_begin(jump_when_busy);
    api.collect(false);
    park_fail("a collection sets no mark");
  }
  step_end();
}

/* The heap that rests is used by a thread whose own does not rest. */
static void use_it(void) { put(get(64)); }
static void use_in_thread(void) {
  oracle_let_nobody_rest();
  in_thread(use_it);
}
static bool others_use_the_resting(void) {
  if (!oracle_would_claim_heap()) return false;
  in_helper(use_in_thread);
  return true;
}

/* Slabs without an owner, with pages on which no block is in use. */
static void free_all_but_few(void) {
  for (unsigned i = 0; i < count; i++)
    if (i % 60 != 0) put(block[i]);
  api.collect(false);
}
static void thinned_out(void) {
  leave(700, 92);
  in_helper(free_all_but_few);
}
static void collect_locked_slab(void) {
  void *slab = (void *)((uintptr_t)block[0] & -(uintptr_t)KIB(64));
  if (mlock(slab, KIB(64)) != 0) park_fail("pages cannot be locked: see ulimit -l");
  collect_hard();
}
static void with_holes(void) {
  thinned_out();
  in_helper(collect_hard);
}
static void free_sixtieth(void) {
  put(block[60]);
  api.collect(false);
}
/* A look has seen what is free, and the next one is due. */
static void at_rest(void) {
  thinned_out();
  usleep(1100 * 1000);
  in_helper(free_sixtieth);
  usleep(1100 * 1000);
}
/* The same of pages between large blocks. */
static void runs_at_rest(void) {
  much_in_use();
  own(KIB(20), 40);
  for (unsigned i = 0; i < 40; i += 2) put(block[i]), block[i] = NULL;
  api.collect(false);
  usleep(1100 * 1000);
  look_is_due();
}
static bool others_free_of_thinned_out(void) {
  if (!oracle_would_cas_anchor(block[0])) return false;
  in_helper(free_sixtieth);
  return true;
}
static void resized_beside_holes(void) {
  with_holes();
  let_go(0, 1, 1);
  size = 690;
}
static void last_of_holes(void) {
  with_holes();
  let_go(0, 61, 60);
}
static void free_rest(void) {
  api.free(block[0]);
  api.free(block[60]);
  api.collect(false);
}

/* ---- sampling -------------------------------------------------------------------------------- */

enum { SAMPLE_EACH = 1, SAMPLE_SOME = 1500 }; /* bytes: every block, or a few of a bin */

static void sample(size_t interval) {
  if (!api.profile_start(interval)) park_fail("sampling does not start");
}
/* The next malloc of that size finds its bin empty, and is sampled. */
static void sample_next_of(size_t of) {
  own(of, 20);
  sample(SAMPLE_EACH);
}
static void sample_next_small(void) { sample_next_of(400); }
static void sample_next_large(void) { sample_next_of(KIB(140)); }
static void sample_next_huge(void) {
  sample(SAMPLE_EACH);
  size = huge_size();
}
/* The next bin is cut behind its second block. */
static void cut_next_bin(size_t of) {
  own(of, 20);
  sample(SAMPLE_SOME);
  oracle_sample_after(of, 2, SAMPLE_SOME);
}
static void cut_next_small(void) { cut_next_bin(400); }
static void cut_next_medium(void) {
  cut_next_bin(3000);
  free_some(0, 12, 1);
}
/* What was cut off the last bin is the next one. */
static void cut_before(void) {
  cut_next_small();
  get(size), get(size);
  oracle_sample_after(size, 2, SAMPLE_SOME);
}
static void one_sampled(size_t of) {
  sample_next_of(of);
  block[0] = get(of);
  give(get(of)); /* and the thread's stack of frees has a place */
  release(block[0]);
}
static void small_sampled(void) { one_sampled(400); }
static void sample_seldom(void) {
  sample(MIB(1024));
  size = KIB(140);
}
/* Borrowed blocks that were never used are next, and no sample is. */
static void fresh_next_when_sampled(void) {
  sample_seldom();
  size = 3000;
  get(size);
}
static void start_sampling(void) { sample(SAMPLE_SOME); }
static void large_sampled(void) { one_sampled(KIB(70)); } /* and grows within its slices */
static void huge_sampled(void) {
  sample_next_huge();
  block[0] = get(size);
  release(block[0]);
}
static void free_sized_sampled(void) { api.free_sized(block[0], KIB(20)); }
static void large_when_sampled(void) {
  sample_seldom();
  release(block[0] = get(size));
}
static void run_when_sampled(void) {
  some_runs();
  sample_seldom();
  size = KIB(40);
  release(block[0] = block[3]);
}
static void grow_sampled(void) { got[0] = api.realloc(block[0], size * 3 / 2); }
static void hold_grown_sampled(void) { hold(got[0], size * 3 / 2); }
static void sample_heap(void) {
  make_used_heap();
  size = 100;
  sample(SAMPLE_EACH);
}
static int sink;
static void some_sampled(void) {
  sample(SAMPLE_EACH);
  for (unsigned i = 0; i < 10; i++) put(get(400));
  get(400), get(KIB(140));
  if ((sink = open("/dev/null", O_WRONLY)) < 0) park_fail("no /dev/null");
}
static void somebody_sleeps_sampled(void) {
  somebody_sleeps();
  sample(SAMPLE_EACH);
}
static void hear(void *p, size_t of, uint64_t bytes, void *context) {
  if (of > bytes) park_fail("%p stands for less than itself, %p", p, context);
}
static void set_hooks(void) { api.profile_hooks(hear, hear, NULL); }
static void sample_next_hooked(void) {
  sample_next_small();
  set_hooks();
}
static void small_sampled_hooked(void) {
  small_sampled();
  set_hooks();
}
static void write_profile(void) {
  for (fh_profile_t kind = FH_PROFILE_HEAP; kind <= FH_PROFILE_LIFETIMES; kind++)
    if (!api.profile_write(sink, kind)) park_fail("no profile");
}

/* ---- blocks behind guards, by the option ---- */

static void guarded_to_free(void) {
  size = 100;
  block[0] = get(size);
  release(block[0]);
}
static void guarded_to_ask(void) {
  size = 120; /* which no handler frees */
  block[0] = get(size);
}
static void guarded_next(void) { size = 3000; }
static void guarded_large_next(void) { size = KIB(140); }
static void unguarded_next(void) { size = KIB(300); }
/* Of the next slots a few are free, and have not rested. */
static void no_slot_next(void) {
  size = 100;
  for (unsigned i = 0; i < 512; i++) block[i] = get(size);
  free_some(0, 512, 13);
}
static void grow_guarded(void) { got[0] = api.realloc(block[0], size * 2); }
static void hold_grown_guarded(void) { hold(got[0], size * 2); }
static void calloc_guarded(void) { got[0] = api.calloc(1, KIB(140)); }
static void hold_large_guarded(void) { hold(got[0], KIB(140)); }
static void ask_of_guarded(void) {
  if (api.usable_size(block[0]) != size || !api.owns(block[0]))
    park_fail("no size of a guarded one");
  visit(), look();
}

/* ---- blocks of no bytes ---- */

static void nothing_before(void) { block[0] = get(0); }
static void nothing_to_free(void) {
  nothing_before();
  release(block[0]);
}
static void nothing_grows(void) { got[0] = api.realloc(block[0], 5000); }
static void ask_of_nothing(void) {
  if (api.usable_size(block[0]) != 0 || !api.owns(block[0])) park_fail("no bytes are some");
  look();
}

/* ---- realloc that only frees, or is refused ---- */

static void first_to_nothing(void) {
  if (api.realloc(block[0], 0) != NULL) park_fail("realloc of no bytes gives something");
}
static void first_grows(void) { got[0] = api.realloc(block[0], 5000); }
static void hold_grown_first(void) { hold(got[0], 5000); }
static void heap_first_to_nothing(void) {
  if (api.heap_realloc(heap, block[0], 0) != NULL) park_fail("realloc of no bytes gives something");
}
static void heap_too_much(void) {
  if (api.heap_malloc(heap, (size_t)PTRDIFF_MAX + 1) != NULL) park_fail("malloc gives too much");
}

/* The library's constructor. */
static void start(void) {
  void (*load)(void);
  *(void **)&load = library_hidden("load");
  load();
}

const operation_t freehold_operations[] = {
  {"refill-private", malloc_one, own_free_blocks, hold_one, NULL, QUICK},
  {"refill-anchor", malloc_one, blocks_freed_by_others, hold_one, NULL, QUICK},
  {"refill-fresh-end", malloc_one, fresh_end, hold_one, NULL, 0},
  {"refill-fresh-slab", malloc_one, slabs_used_up, hold_one, NULL, 0},
  {"refill-others-instead", malloc_one, others_freed_more, hold_one, NULL, 0},
  {"refill-trial", malloc_one, slabs_worth_a_trial, hold_one, NULL, 0},
  {"refill-partial", malloc_one, partial_slab, hold_one, NULL, QUICK},
  {"refill-magazine", malloc_one, slab_in_magazine, hold_one, NULL, 0},
  {"refill-returned", malloc_one, returned_blocks, hold_one, NULL, 0},
  {"refill-sift", malloc_one, returned_blocks_of_sparse, hold_one, NULL, 0},
  {"refill-populate", malloc_one, fast_growth, hold_one, NULL, 0},
  {"refill-frame", malloc_one, fast_growth_to_a_frame, hold_one, NULL, 0},
  {"malloc-ends-rest", malloc_one, trim_due_and_somebody_rests, hold_one, NULL, 0},
  {"refill-uncounted", malloc_one, more_than_can_be_counted, hold_one, NULL, 0},
  {"refill-anchor-raced", malloc_one, blocks_freed_by_others, hold_one, NULL, 0,
   others_free_at_the_cas},
  {"refill-partial-raced", malloc_one, hint_is_stale, hold_one, NULL, 0,
   others_publish_behind_the_hint},
  {"malloc-second", malloc_one, second_of_class, hold_one, NULL, 0},
  {"malloc-second-lent", malloc_one, second_of_lent_class, hold_one, NULL, 0},
  {"malloc-lent-used-up", malloc_one, used_up_of_lent_class, hold_one, NULL, 0},
  {"malloc-lent", malloc_one, few_of_lent_class, hold_one, NULL, 0},
  {"malloc-list-was-full", malloc_one, full_list, hold_one, NULL, 0},
  {"malloc-list-little-used", malloc_one, long_list_little_used, hold_one, NULL, 0},
  {"malloc-list-full-missed", malloc_one, list_full_and_missed, hold_one, NULL, 0},
  {"collect-list-full", collect_softly, long_list_full, NULL, NULL, 0},
  {"malloc-first-partial", malloc_one, first_with_partial, hold_one, NULL, 0},
  {"malloc-first-raced", malloc_one, first_with_fresh_end, hold_one, NULL, 0, others_free_of_taken},
  {"free-last-of-first", free_first, last_of_first_slab, NULL, NULL, 0},
  {"free-last-to-magazine", free_first, last_of_second_slab, NULL, NULL, 0},
  {"malloc-slice-missed", malloc_in_slice, slices_missed, hold_one, "magazine:64K", 0},
  {"malloc-list-missed", malloc_one, list_missed, hold_one, "magazine:0", 0},
  {"free-last-beyond-due", free_first, last_of_many_slabs, NULL, "magazine:64K", 0},
  {"free-last-to-arena", free_first, last_of_second_slab, NULL, "magazine:0", QUICK},
  {"free-last-medium", free_first, last_medium, NULL, "magazine:0", 0},
  {"free-full-published", free_sixteen, full_and_unwanted, NULL, NULL, 0},
  {"free-full-adopted", free_sixteen, full_and_wanted, NULL, NULL, 0},
  {"free-partial-emptied", free_four, partial_and_last, NULL, NULL, 0},
  {"free-big-emptied", free_six, full_and_big, NULL, NULL, 0},
  {"free-raced", free_two, two_of_three, NULL, NULL, QUICK, others_free_first},
  {"free-published-empty", free_first, one_of_three, NULL, NULL, 0, others_empty_it},
  {"free-of-many-slabs", free_sixteen, of_many_slabs, NULL, "magazine:0", 0},
  {"free-of-other-held", free_four, few_of_other, NULL, NULL, 0},
  {"free-of-other-gathered", free_sixteen, many_of_other, NULL, NULL, 0},
  {"free-of-other-in-one-slot", free_first, two_in_one_slot, NULL, NULL, 0},
  {"free-gets-wide", free_first, crowded_next, NULL, NULL, 0},
  {"free-wide", free_sixteen, wide_and_of_other, NULL, NULL, 0},
  {"free-wide-gathered", free_sixteen, wide_and_gathered, NULL, NULL, 0},
  {"free-wide-other-window", free_sixteen, wide_and_other_window, NULL, NULL, 0},
  {"free-wide-emptied", free_sixteen, wide_and_whole_slabs, NULL, "magazine:0", 0},
  {"free-wide-closing", free_sixteen, wide_that_closes, NULL, NULL, 0},
  {"free-wide-beside-another", free_sixteen, wide_beside_another, NULL, NULL, 0},
  {"free-wide-in-one-slot", free_first, wide_and_two_in_one_slot, NULL, NULL, 0},
  {"malloc-wide", malloc_one, wide_and_alone, hold_one, NULL, 0},
  {"malloc-run-wide", malloc_one, wide_and_alone_and_larger_next, hold_one, NULL, 0},
  {"malloc-closes-wide", malloc_one, wide_with_chains, hold_one, NULL, 0},
  {"malloc-run-closes-wide", malloc_one, wide_and_larger_next, hold_one, NULL, 0},
  {"malloc-run-with-chain", malloc_one, chain_and_larger_next, hold_one, NULL, 0},
  {"malloc-ends-wide", malloc_one, wide_with_its_end, hold_one, NULL, 0},
  {"malloc-ends-round", malloc_one, wide_with_a_round_s_end, hold_one, NULL, 0},
  {"malloc-reclaims-wide", malloc_one, wide_and_slab_to_take, hold_one, NULL, 0},
  {"collect-wide", collect_hard, wide_with_chains, NULL, NULL, 0},
  {"thread-exit-wide", NULL, wide_with_chains, NULL, NULL, 0},
  {"grow", malloc_one, grow_next, hold_one, NULL, 0},
  {"grow-huge-pages", malloc_one, grow_next, hold_one, "thp:always", 0},
  {"grow-arena", malloc_one, full_window, hold_one, NULL, 0},
  {"free-other-arena", free_first, large_in_other_arena, NULL, NULL, 0},
  {"grow-together", malloc_one, grow_at_once, hold_one, NULL, 0, others_grow},
  {"grow-arena-together", malloc_one, full_window, hold_one, NULL, 0, others_add_arena},
  {"grow-arena-for-slab", malloc_one, slabs_and_window_used_up, hold_one, "magazine:0", 0},
  {"grow-arena-small-limited", malloc_limited, window_used_up, hold_if_any, NULL, PASSES_OVER},
  {"malloc-many-slices-raced", malloc_one, slices_for_one, hold_one, NULL, 0, others_claim_first},
  {"grow-first-word-full", malloc_one, first_word_full, hold_one, NULL, 0},
  {"grow-joined", malloc_one, end_is_free, hold_one, NULL, 0},
  {"grow-joined-over-taken", malloc_one, end_is_free_and_taken_behind, hold_one, NULL, PASSES_OVER},
  {"grow-over-taken", malloc_one, grow_over_taken, hold_one, NULL, PASSES_OVER},
  {"grow-limited", malloc_limited, grow_next, hold_if_any, NULL, PASSES_OVER},
  {"grow-step-limited", malloc_limited, much_is_mapped, hold_if_any, NULL, PASSES_OVER},
  {"grow-arena-limited", malloc_limited, full_window, hold_if_any, NULL, PASSES_OVER},
  {"grow-unmaps", malloc_in_what_is_mapped, free_groups, hold_one, NULL, PASSES_OVER},
  {"grow-unmaps-too-little", malloc_in_what_is_mapped, too_few_free_groups, hold_if_any, NULL,
   PASSES_OVER},
  {"grow-keeps", malloc_limited, free_groups, hold_if_any, NULL, PASSES_OVER},
  {"grow-maps-again", malloc_one, unmapped_groups, hold_one, NULL, 0},
  {"grow-maps-beside-free", malloc_one, unmapped_beside_free, hold_one, NULL, 0},
  {"grow-maps-slice-again", malloc_one, unmapped_and_one_slice, hold_one, NULL, 0},
  {"free-last-of-window", free_first, last_of_window, NULL, "magazine:0", 0},
  {"malloc-memory-asked-for", malloc_one, memory_asked_for, hold_one, NULL, 0},
  {"malloc-memory-was-asked-for", malloc_one, memory_was_asked_for, hold_one, NULL, 0},
  {"malloc-memory-asked-for-no-more", malloc_one, memory_asked_for_no_more, hold_one, NULL, 0},
  {"malloc-samples-asked-for", malloc_one, samples_asked_for, hold_one, NULL, 0},
  {"malloc-within-limit", malloc_one, big, hold_one, "memory_limit:64G", 0},
  {"first-use-of-container", malloc_one, first_with_nothing, hold_one, "memory_limit:90%",
   IS_BARE | FIRST_USE},
  {"malloc-tight", malloc_one, tight_large, hold_one, "memory_soft:1M", 0},
  {"malloc-tight-long-list", malloc_one, tight_long_list, hold_one, "memory_soft:64G", 0},
  {"malloc-tight-partial", malloc_one, tight_partial, hold_one, "memory_soft:1M", 0},
  {"free-tight", free_first, tight_to_free, NULL, "memory_soft:1M", 0},
  {"look-over-soft", malloc_one, look_at_much, hold_one, "memory_soft:1M", 0},
  {"look-eased", malloc_one, look_when_eased, hold_one, "memory_soft:64G", 0},
  {"look-at-class-at-rest", malloc_one, look_at_class_at_rest, hold_one, NULL, 0},
  {"malloc-given-up", malloc_one, class_given_up, hold_one, NULL, 0},
  {"look-for-container", malloc_one, look_at_much, hold_one, NULL, 0},
  {"look-in-container", malloc_one, look_in_full_container, hold_one, NULL, 0},
  {"look-past-lost-reader", malloc_one, look_past_lost_reader, hold_one, NULL, 0},
  {"malloc-refused", malloc_one, limit_reached, hold_if_any_below_limit, NULL, 0},
  {"malloc-refused-with-runs", malloc_one, limit_with_runs, hold_if_any_below_limit, NULL, 0},
  {"malloc-refused-with-locked-runs", malloc_one, limit_with_locked_runs, hold_if_any_below_limit,
   "magazine:0", 0},
  {"malloc-refused-with-unlocked-runs", malloc_one, limit_with_unlocked_runs,
   hold_if_any_below_limit, NULL, 0},
  {"malloc-refused-run", malloc_one, limit_for_run, hold_if_any_below_limit, NULL, 0},
  {"realloc-at-limit", grow_at_limit, limit_for_growth, hold_grown_at_limit, "magazine:64K", 0},
  {"realloc-huge-at-limit", grow_huge_at_limit, limit_for_growth_of_huge, hold_huge_at_limit, NULL,
   0},
  {"realloc-less-at-limit", shrink_at_limit, limit_for_less, hold_shrunk_at_limit, NULL, 0},
  {"malloc-reserve", malloc_one, reserve_opened, hold_if_any_below_limit, NULL, 0},
  {"malloc-reserve-again", malloc_one, reserve_in_use, hold_if_any_below_limit, NULL, 0},
  {"malloc-reserve-closes", malloc_one, reserve_to_be_closed, hold_one, NULL, 0},
  {"malloc-many-threads", malloc_one, partial_slab, hold_one, "caching_threads:1", 0},
  {"malloc-many-threads-medium", malloc_one, medium_next, hold_one, "caching_threads:1", 0},
  {"free-many-threads", free_four, few_of_other, NULL, "caching_threads:1", 0},
  {"malloc-huge-limited", malloc_limited, huge_next, hold_if_any, NULL, 0},
  {"malloc-huge-unmaps", malloc_in_what_is_mapped, free_groups_for_huge, hold_if_any, NULL,
   PASSES_OVER},
  {"malloc-huge-taken", malloc_one, window_taken, hold_one, NULL, 0},
  {"malloc-huge-probes", malloc_one, windows_taken, hold_one, NULL, 0},
  {"malloc-huge-probes-limited", malloc_huge_limited, windows_taken, hold_if_any, NULL,
   PASSES_OVER},
  {"malloc-huge-windows", malloc_one, many_windows_next, hold_one_untouched, NULL, 0},
  {"malloc-huge-impossible", malloc_one, impossible_next, hold_if_any, NULL, 0},
  {"malloc-huge-pages", malloc_one, huge_next, hold_one, "thp:always", 0},
  {"malloc-huge-between", malloc_one, window_between, hold_one, NULL, 0},
  {"realloc-limited", realloc_limited, large_that_moves, hold_moved_if_any, NULL,
   MOVES | PASSES_OVER},
  {"free-large-first-word", free_first, large_in_first_word, NULL, NULL, 0},
  {"reuse-purged", malloc_one, purged, hold_one, NULL, 0},
  {"reuse-regretted", malloc_one, much_purged, hold_one, NULL, 0},
  {"calloc-few-in-memory", calloc_one, few_pages_in_memory, hold_one, NULL, 0},
  {"calloc-all-in-memory", calloc_one, all_pages_in_memory, hold_one, NULL, 0},
  {"purge-calm", free_first, patient, NULL, "purge_budget:0", 0},
  {"malloc-large-tight", malloc_one, slices_for_a_few, hold_one, "magazine:0", 0},
  {"malloc-large-kept", malloc_one, earned_large, hold_one, NULL, 0},
  {"malloc-limited-kept", malloc_limited, kept_and_grow_next, hold_if_any, NULL, PASSES_OVER},
  {"malloc-run", malloc_one, run_next, hold_one, "magazine:64K", 0},
  {"malloc-run-long", malloc_one, long_run_next, hold_one, "magazine:64K", 0},
  {"malloc-run-first", malloc_one, first_run_next, hold_one, NULL, 0},
  {"malloc-run-gone", malloc_one, gone_run_next, hold_one, "magazine:0,purge_budget:0", 0},
  {"malloc-run-no-magazine", malloc_one, run_next, hold_one, "magazine:0", 0},
  {"malloc-run-kept", malloc_one, run_kept, hold_one, NULL, 0},
  {"malloc-run-in-burst", malloc_one, run_next_in_burst, hold_one, NULL, 0},
  {"free-run-in-burst", free_first, run_to_free_in_burst, NULL, NULL, 0},
  {"free-run-keeps-too-many", free_first, run_to_free_of_too_many, NULL, NULL, 0},
  {"malloc-run-elsewhere", malloc_one, run_not_where_it_is_said, hold_one, "magazine:64K", 0},
  {"free-run", free_first, run_to_free, NULL, "magazine:64K", 0},
  {"free-run-no-magazine", free_first, run_to_free, NULL, "magazine:0", 0},
  {"free-run-last", free_first, last_run_to_free, NULL, "magazine:0", 0},
  {"free-run-much-given", free_first, much_given_but_one, NULL, "magazine:0", 0},
  {"malloc-run-much-given", malloc_one, much_given, hold_one, "magazine:0", 0},
  {"free-run-to-system", free_first, run_to_free, NULL, "magazine:0,purge_budget:0", 0},
  {"free-run-to-system-last", free_first, last_run_to_free, NULL, "magazine:0,purge_budget:0", 0},
  {"free-run-beside-locked", free_first, run_beside_locked, NULL, "magazine:0,purge_budget:0", 0},
  {"free-run-refused-again", free_first, refused_of_three, NULL, "magazine:0,purge_budget:0", 0},
  {"free-run-refused-within-budget", free_first, refused_within_budget, restore_budget,
   "magazine:0,purge_budget:0", 0},
  {"free-run-with-neighbours", free_first, run_beyond_budget, NULL, "magazine:0", 0},
  {"free-run-after-refusals", free_first, refused_of_four, NULL, "magazine:0,purge_budget:0", 0},
  {"free-run-of-other", free_first, run_of_other, NULL, NULL, 0},
  {"free-run-first", free_first, run_of_other, NULL, NULL, IS_BARE},
  {"malloc-run-first-of-thread", malloc_one, first_run_next, hold_one, NULL, IS_BARE},
  {"realloc-run-grows", grow_run, run_before_free, hold_grown_run, "magazine:64K", 0},
  {"realloc-run-copied", grow_run_a_little, run_between, hold_run_a_little, "magazine:64K", MOVES},
  {"realloc-run-copied-to-longer", grow_run_a_little, run_between_and_kept, hold_run_a_little, NULL,
   MOVES},
  {"realloc-to-run", shorten_to_run, large_to_shorten, hold_shortened, NULL, MOVES},
  {"realloc-to-run-at-limit", shorten_to_run, limit_for_shorter, hold_shortened_at_limit,
   "magazine:64K", 0},
  {"realloc-run-shrinks", shrink_run, run_before_free, hold_shrunk_run, NULL, 0},
  {"realloc-run-shrinks-to-system", shrink_run, run_before_free, hold_shrunk_run, "purge_budget:0",
   0},
  {"expand-run", expand_run, run_before_free, hold_expanded_run, "magazine:64K", 0},
  {"collect-runs", collect_hard, some_runs, NULL, "magazine:64K", 0},
  {"visit-runs", visit, some_runs, NULL, NULL, IS_BARE},
  {"free-large-kept", free_first, room_for_large, NULL, NULL, 0},
  {"free-large-makes-room", free_first, no_room_for_large, NULL, NULL, 0},
  {"free-large-first-use", free_first, others_large, NULL, NULL, IS_BARE},
  {"malloc-tail-goes", malloc_in_slice, many_tails, hold_one, "purge_budget:0", 0},
  {"malloc-kept-nearest", malloc_in_slice, nearest_is_second, hold_one, "purge_budget:0", 0},
  {"free-first-use", free_first, others_small, NULL, NULL, IS_BARE},
  {"free-much-first-use", free_first, others_freed, NULL, NULL, IS_BARE},
  {"first-use-left-behind", malloc_one, somebody_died, hold_one, NULL, IS_BARE | OTHER_DIED},
  {"collect-left-behind", collect_hard, somebody_died, NULL, NULL, IS_BARE | OTHER_DIED},
  {"expand-to-less", expand_less, next_to_used, hold_expanded_less, NULL, 0},
  {"expand-refused", expand_it, next_to_used, hold_expanded, NULL, 0},
  {"expand", expand_it, next_to_free, hold_expanded, NULL, 0},
  {"realloc-moves-pages", move_it, large_that_moves, hold_moved, NULL, MOVES},
  {"realloc-pages-stay", move_it, large_in_two_mappings, hold_moved, NULL, MOVES},
  {"realloc-moves-pages-many", move_it, many_that_moved, hold_moved, NULL, MOVES},
  {"realloc-moves-pages-pieces", resize_limited, large_of_pieces, hold_resized_if_any, NULL,
   MOVES | PASSES_OVER},
  {"realloc-moves-pages-back", resize_refused, large_of_pieces, hold_resized_if_any, NULL,
   MOVES | PASSES_OVER},
  {"realloc-headroom", grow_a_little, large_to_be_copied, hold_grown, NULL, MOVES},
  {"realloc-headroom-dirty", grow_a_little, large_to_be_copied_to_dirty, hold_grown, NULL, MOVES},
  {"realloc-maps-behind", resize_it, large_at_the_end, hold_resized, NULL, 0},
  {"realloc-much", resize_it, large_that_grows_much, hold_resized, NULL, MOVES},
  {"realloc-leaps", move_it, large_that_leaps, hold_moved, NULL, MOVES},
  {"realloc-huge-shrinks-much", resize_it, huge_that_shrinks_much, hold_resized, NULL, 0},
  {"realloc-huge-grows", resize_it, huge_that_grows, hold_resized, NULL, 0},
  {"realloc-huge-grows-behind", resize_it, huge_in_two_mappings, hold_resized, NULL, 0},
  {"realloc-huge-shrinks", resize_it, huge_that_shrinks, hold_resized, NULL, 0},
  {"realloc-huge-moves", resize_it, huge_that_moves, hold_resized, NULL, 0},
  {"realloc-huge-unmaps", resize_limited, huge_beside_free, hold_resized_if_any, NULL, PASSES_OVER},
  {"realloc-huge-pieces", resize_limited, huge_of_pieces, hold_resized_if_any, NULL, PASSES_OVER},
  {"realloc-huge-back", resize_refused, huge_of_pieces, hold_resized_if_any, NULL, PASSES_OVER},
  {"collect", collect_softly, some_dirty, NULL, NULL, 0},
  {"collect-huge-page", collect_softly, dense_frame, NULL, NULL, 0},
  {"collect-huge-page-refused", collect_softly, dense_frame_refused, NULL, NULL, 0},
  {"collect-huge-page-ends", collect_softly, last_frame_next, NULL, NULL, 0},
  {"collect-huge-page-breaks", collect_hard, huge_frames_with_holes, NULL, NULL, 0},
  {"free-huge-page-spared", free_first, huge_frames_overdue, NULL, "purge_delay_ms:8", 0},
  {"collect-resting", collect_hard, somebody_rests, NULL, NULL, 0},
  {"collect-resting-raced", collect_hard, somebody_rests, NULL, NULL, 0, others_use_the_resting},
  {"collect-all", collect_hard, some_dirty, NULL, NULL, 0},
  {"collect-sleepers", collect_hard, somebody_sleeps, NULL, NULL, HEAP_IN_HAND},
  {"collect-sleepers-little", collect_hard, somebody_sleeps_with_little, NULL, NULL, HEAP_IN_HAND},
  {"collect-sleepers-sampled", collect_hard, somebody_sleeps_sampled, NULL, NULL,
   HEAP_IN_HAND | IS_SAMPLED},
  {"collect-sleepers-wide", collect_hard, somebody_sleeps_wide, NULL, NULL, HEAP_IN_HAND},
  {"malloc-while-taken", malloc_one, taken_fresh_end, hold_one, NULL, OTHER_DIED},
  {"malloc-run-while-taken", malloc_one, taken_with_run, hold_one, NULL, OTHER_DIED},
  {"free-large-while-taken", free_first, taken_with_large, NULL, NULL, OTHER_DIED},
  {"ask-bytes-while-taken", ask_bytes, taken_with_free_blocks, NULL, NULL, OTHER_DIED},
  {"thread-exit-taken", NULL, taken_with_free_blocks, NULL, NULL, OTHER_DIED},
  {"collect-locked", collect_locked, some_dirty, NULL, NULL, 0},
  {"collect-holes", collect_hard, thinned_out, NULL, NULL, 0},
  {"collect-at-rest", collect_softly, at_rest, NULL, NULL, 0},
  {"look-at-runs-at-rest", malloc_one, runs_at_rest, hold_one, "magazine:0", 0},
  {"collect-holes-locked", collect_locked_slab, thinned_out, NULL, NULL, 0},
  {"collect-holes-raced", collect_hard, thinned_out, NULL, NULL, 0, others_free_of_thinned_out},
  {"malloc-holes", malloc_one, with_holes, hold_one, NULL, 0},
  {"realloc-holes", resize_it, resized_beside_holes, hold_resized, NULL, 0},
  {"free-holes", free_rest, last_of_holes, NULL, NULL, 0},
  {"free-purges-at-once", free_first, next_to_free, NULL, "purge_delay_ms:0", 0},
  {"free-purges-locked", free_locked, next_to_free, NULL, "purge_budget:0", 0},
  {"free-purges", free_first, next_to_free, NULL, "purge_budget:0,purge_delay_ms:0", 0},
  {"malloc-grows-populated", malloc_one, grow_next, hold_one, "arena_populate:on", 0},
  {"arena-add", add_memory, bring_memory, NULL, NULL, 0},
  {"arena-add-used", add_used_memory, bring_used_memory, NULL, NULL, 0},
  {"free-added", free_of_added, added_memory, NULL, "magazine:0", 0},
  {"collect-added", collect_hard, added_memory, free_of_added, "magazine:0", 0},
  {"heap-set-default", choose_heap, make_used_heap, choose_no_heap_and_end, NULL, WITH_HEAP},
  {"heap-set-default-back", choose_no_heap, make_chosen_heap, end_heap, NULL, WITH_HEAP},
  {"malloc-of-chosen", malloc_one, make_chosen_heap, hold_of_chosen_heap, NULL, WITH_HEAP},
  {"realloc-to-chosen", realloc_first, make_chosen_heap_with_block, hold_resized_of_chosen, NULL,
   WITH_HEAP},
  {"heap-visit-areas", visit_areas, make_used_heap, end_heap, NULL, WITH_HEAP},
  {"heap-new", make_heap, NULL, end_heap, NULL, WITH_HEAP},
  {"heap-takes", heap_takes, make_used_heap, hold_heaps, NULL, WITH_HEAP},
  {"heap-realloc", heap_moves, heap_block_alone, hold_heap_moved, NULL, WITH_HEAP},
  {"heap-realloc-large", heap_moves_large, large_of_heap, hold_moved_and_end, NULL,
   WITH_HEAP | MOVES},
  {"heap-realloc-at-limit", heap_shrinks, large_of_heap_at_limit, hold_heap_shrunk_at_limit, NULL,
   WITH_HEAP},
  {"heap-realloc-limited", heap_moves_limited, heap_block_alone, hold_unmoved, NULL, WITH_HEAP},
  {"heap-malloc-first", heap_malloc_one, make_heap, hold_heap_one, NULL, WITH_HEAP},
  {"heap-malloc-entered", heap_malloc_one, make_entered_heap, hold_one_and_leave, NULL, WITH_HEAP},
  {"heap-malloc-used-up", heap_malloc_one, make_heap_used_up, hold_heap_one, NULL, WITH_HEAP},
  {"heap-malloc-sweeps", heap_malloc_one, make_heap_swept_once, hold_heap_one, NULL, WITH_HEAP},
  {"heap-free-emptied", free_first, make_heap_almost_emptied, end_heap, NULL, WITH_HEAP},
  {"heap-free-emptied-entered", free_first, make_heap_almost_emptied_entered, leave_and_end_heap,
   NULL, WITH_HEAP},
  {"heap-free-emptied-no-heap", free_first, heap_almost_emptied_by_others, end_heap, NULL,
   IS_BARE | WITH_HEAP},
  {"heap-free-emptied-no-heap-entered", free_first, heap_almost_emptied_by_others_entered,
   leave_and_end_heap, NULL, IS_BARE | WITH_HEAP},
  {"heap-new-refused", new_heap_if_any, no_room_for_heap, end_heap_if_any, NULL, WITH_HEAP},
  {"heap-new-reserve", new_heap_if_any, reserve_for_heap, end_heap_if_any, NULL, WITH_HEAP},
  {"heap-set-quota", set_quota, make_used_heap, end_heap, NULL, WITH_HEAP},
  {"heap-statistics", look_at_heap, make_used_heap, end_heap, NULL, WITH_HEAP},
  {"heap-of-large", ask_for_heap_of_large, make_used_heap, end_heap, NULL, WITH_HEAP},
  {"heap-malloc-asked", heap_malloc_one, make_heap_when_asked, hold_heap_one, NULL, WITH_HEAP},
  {"heap-malloc-over-quota", heap_malloc_one, make_heap_with_quota, hold_heap_if_any, NULL,
   WITH_HEAP},
  {"heap-malloc-over-quota-lanes", heap_malloc_one, make_heap_with_quota_entered, hold_heap_if_any,
   NULL, WITH_HEAP},
  {"heap-collect-one", collect_heap, make_heap_emptied, end_heap, NULL, WITH_HEAP},
  {"heap-of", ask_for_heap, make_heap_to_be_asked_for, hold_first_and_end_heap, NULL, WITH_HEAP},
  {"heap-collect", collect_hard, make_heap_emptied, end_heap, NULL, WITH_HEAP},
  {"heap-collect-raced", collect_hard, make_heap_emptied, end_heap_if_not_ended, NULL, WITH_HEAP,
   others_end_the_heap},
  {"heap-malloc-again", heap_malloc_one, make_heap_after_another, hold_heap_one, NULL, WITH_HEAP},
  {"heap-malloc-large", heap_malloc_one, first_large_of_heap, hold_heap_one, NULL, WITH_HEAP},
  {"heap-malloc-large-more", heap_malloc_one, large_of_full_chunk, hold_heap_one, NULL, WITH_HEAP},
  {"heap-free-large", free_first, large_of_heap, end_heap, NULL, WITH_HEAP},
  {"heap-free-large-deleted", free_first, large_of_deleted_heap, NULL, NULL, WITH_HEAP},
  {"heap-free-and-delete", free_and_end, large_of_heap, NULL, NULL, WITH_HEAP},
  {"heap-large-moves-pages", move_it, large_of_heap, hold_moved_and_end, NULL, WITH_HEAP | MOVES},
  {"heap-visit", visit_heap, make_much_used_heap, end_heap, NULL, WITH_HEAP},
  {"heap-visit-entered", visit_heap, make_much_used_heap_entered, leave_and_end_heap, NULL,
   WITH_HEAP},
  {"heap-visit-trims", visit_heap, make_heap_with_trims_due, end_heap, NULL, WITH_HEAP},
  {"heap-delete", end_heap, make_much_used_heap, NULL, NULL, WITH_HEAP},
  {"heap-delete-last-of-chunk", end_heap_of_next_chunk, heap_of_next_chunk_and_room,
   end_heaps_of_chunk, NULL, WITH_HEAP},
  {"heap-delete-entered", end_heap, make_much_used_heap_entered, NULL, NULL, WITH_HEAP | LANE_LEFT},
  {"heap-destroy", destroy_heap, make_doomed_heap, NULL, NULL, WITH_HEAP},
  {"heap-destroy-entered", destroy_heap, make_doomed_heap_entered, NULL, NULL,
   WITH_HEAP | LANE_LEFT},
  {"statistics", look, some_kinds, NULL, NULL, IS_BARE},
  {"statistics-by-heap", look_heap_by_heap, some_kinds, NULL, NULL, IS_BARE},
  {"look-last", look_last, own_free_blocks, NULL, NULL, 0},
  {"sums", look_at_sums, some_kinds, NULL, NULL, IS_BARE},
  {"visit", visit, all_kinds, NULL, NULL, IS_BARE},
  {"visit-after-much", visit, had_much, NULL, NULL, IS_BARE},
  {"ask", ask, all_kinds, NULL, NULL, 0},
  {"free-of-libc", free_first, libcs, NULL, NULL, 0},
  {"realloc-of-libc", libcs_resized, libcs, end_libcs, NULL, 0},
  {"realloc-to-nothing", first_to_nothing, last_of_second_slab, NULL, NULL, 0},
  {"realloc-empties", first_grows, last_of_second_slab, hold_grown_first, NULL, 0},
  {"heap-realloc-to-nothing", heap_first_to_nothing, heap_block_alone, end_heap, NULL, WITH_HEAP},
  {"heap-malloc-too-much", heap_too_much, make_used_heap, end_heap, NULL, WITH_HEAP},
  {"realloc-too-much", resized_too_much, a_few_for_good, NULL, NULL, 0},
  {"free-sized", free_two_sized, other_allocates, NULL, NULL, 0},
  {"free-sized-large", free_large_sized, large_sized, NULL, NULL, 0},
  {"free-sized-run", free_run_sized, run_sized, NULL, NULL, 0},
  {"delete-sized", delete_two_sized, other_allocates, NULL, NULL, 0},
  {"delete-sized-large", delete_large_sized, large_sized, NULL, NULL, 0},
  {"delete-aligned", delete_aligned, aligned_to_delete, NULL, NULL, 0},
  {"malloc-batch", malloc_batch, bin_of_few, hold_batch, NULL, MOVES},
  {"free-batch", free_batch, batch_to_free, NULL, NULL, MOVES},
  {"free-batch-medium", free_batch, medium_batch_to_free, NULL, NULL, MOVES},
  {"free-batch-of-other", free_batch, two_of_other, NULL, NULL, MOVES},
  {"free-aligned-sized-small", free_small_aligned_sized, small_for_its_alignment, NULL, NULL, 0},
  {"free-aligned-sized-large", free_large_aligned_sized, large_sized, NULL, NULL, 0},
  {"free-of-other-unseen", free_first, other_in_large_process, NULL, NULL, 0},
  {"malloc-counted", malloc_one, fresh_end, hold_one, "stats_detail:on", 0},
  {"malloc-filled", malloc_one, fresh_end, hold_one, "fill:both", FILLS},
  {"free-filled", free_first, a_few_and_one, NULL, "fill:both", FILLS},
  {"realloc-filled", first_grows, last_of_second_slab, hold_grown_first, "fill:both", FILLS},
  {"realloc-always-moves", first_grows, last_of_second_slab, hold_grown_first, "realloc_moves:on",
   0},
  {"malloc-traced", malloc_one, fresh_end, hold_one, "trace_ring:128K", 0},
  {"free-traced", free_first, a_few_and_one, NULL, "trace_ring:128K", 0},
  {"realloc-traced", first_grows, last_of_second_slab, hold_grown_first, "trace_ring:128K", 0},
  {"malloc-traced-full", malloc_one, fresh_end_when_full, hold_one, "trace_ring:128K", 0},
  {"malloc-trace-started-full", malloc_one, fresh_end_when_file_is_full, hold_one, NULL, 0},
  {"malloc-trace-started", malloc_one, fresh_end_when_traced, hold_one, NULL, 0},
  {"free-trace-started", free_first, large_when_traced, NULL, NULL, 0},
  {"trace-start", traced_start, traced_name, hold_traced, NULL, MOVES_TRACE},
  {"trace-stop", traced_stop, first_when_traced, hold_traced, NULL, MOVES_TRACE},
  {"first-use-trace-started", malloc_one, first_when_traced, hold_one, NULL, IS_BARE},
  {"malloc-uncached", malloc_one, fresh_end, hold_one, "caches:off", 0},
  {"free-uncached", free_first, a_few_and_one, NULL, "caches:off", 0},
  {"collect-lent", collect_softly, few_of_lent_class, NULL, NULL, 0},
  {"collect-small-class", collect_softly, a_few_of_small_class, NULL, NULL, 0},
  {"malloc-without-heap", malloc_limited, take_all_heaps_and_hold, end_all_heaps, NULL,
   NESTED | WITH_HEAP},
  {"free-without-heap", free_limited, take_all_heaps, end_all_heaps, NULL, NESTED | WITH_HEAP},
  {"first-use-without-heap", malloc_limited, others_take_all_heaps, end_all_heaps, NULL,
   IS_BARE | WITH_HEAP},
  {"first-use-interrupted", malloc_one, first_with_nothing, hold_one, NULL, IS_BARE,
   a_handler_allocates},
  {"nested-malloc", malloc_one, fresh_end, hold_one, NULL, NESTED | QUICK},
  {"nested-malloc-nested", malloc_one, fresh_end, hold_one, NULL, NESTED | HEAP_IN_HAND,
   a_handler_is_first},
  {"nested-free", free_first, a_few_and_one, NULL, NULL, NESTED},
  {"late-malloc", malloc_one, fresh_end, hold_one, NULL, LATE},
  {"late-free", free_first, a_few_and_one, NULL, NULL, LATE},
  {"first-use-resting", malloc_one, somebody_rests, hold_one, NULL, IS_BARE},
  {"thread-exit-no-rest", NULL, cannot_rest, NULL, NULL, 0},
  {"thread-exit-marked", NULL, mark_left_behind, NULL, NULL, 0},
  {"thread-exit-busy", NULL, heap_left_behind, NULL, NULL, OTHER_DIED},
  {"ask-bytes", ask_bytes, own_free_blocks, NULL, NULL, 0},
  {"ask-bytes-wide", ask_bytes, wide_with_chains, NULL, NULL, 0},
  {"ask-bytes-put-off", ask_bytes, few_put_off, NULL, NULL, 0},
  {"ask-bytes-gathered", ask_bytes, many_gathered, NULL, NULL, 0},
  {"ask-bytes-cut", ask_bytes, cut_before, NULL, NULL, IS_SAMPLED},
  {"first-use-asked", malloc_one, asked_and_somebody_rests, hold_one, NULL, IS_BARE},
  {"collect-resting-asked", collect_hard, asked_and_somebody_rests, NULL, NULL, 0},
  {"collect-left-behind-asked", collect_hard, asked_and_somebody_died, NULL, NULL,
   IS_BARE | OTHER_DIED},
  {"nested-malloc-asked", malloc_one, asked_fresh_end, hold_one, NULL, NESTED},
  {"thread-exit-asked", NULL, asked_fresh_end, NULL, NULL, 0},
  {"thread-exit-no-rest-asked", NULL, asked_that_cannot_rest, NULL, NULL, 0},
  {"sampled-malloc", malloc_one, sample_next_small, hold_one, NULL, QUICK | IS_SAMPLED},
  {"sampled-malloc-large", malloc_one, sample_next_large, hold_one, NULL, IS_SAMPLED},
  {"sampled-malloc-medium", malloc_one, cut_next_medium, hold_one, NULL, IS_SAMPLED},
  {"sampled-malloc-seldom", malloc_one, sample_seldom, hold_one, NULL, IS_SAMPLED},
  {"sampled-malloc-huge", malloc_one, sample_next_huge, hold_one, NULL, IS_SAMPLED},
  {"sampled-malloc-fresh", malloc_one, fresh_next_when_sampled, hold_one, NULL, IS_SAMPLED},
  {"sampled-malloc-behind", malloc_one, cut_before, hold_one, NULL, IS_SAMPLED},
  {"sampled-malloc-cut", malloc_one, cut_next_small, hold_one, NULL, IS_SAMPLED},
  {"sampled-malloc-limited", malloc_limited, sample_next_small, hold_if_any, NULL, IS_SAMPLED},
  {"sampled-free", free_first, small_sampled, NULL, NULL, QUICK | IS_SAMPLED},
  {"sampled-malloc-hooked", malloc_one, sample_next_hooked, hold_one, NULL, IS_SAMPLED},
  {"sampled-free-hooked", free_first, small_sampled_hooked, NULL, NULL, IS_SAMPLED},
  {"sampled-free-large", free_first, large_sampled, NULL, NULL, IS_SAMPLED},
  {"sampled-free-sized-large", free_sized_sampled, large_sampled, NULL, NULL, IS_SAMPLED},
  {"sampled-free-huge", free_first, huge_sampled, NULL, NULL, IS_SAMPLED},
  {"sampled-realloc", grow_sampled, small_sampled, hold_grown_sampled, NULL, IS_SAMPLED | MOVES},
  {"sampled-realloc-large", grow_sampled, large_sampled, hold_grown_sampled, NULL,
   IS_SAMPLED | MOVES},
  {"sampled-realloc-large-unseen", grow_sampled, large_when_sampled, hold_grown_sampled, NULL,
   IS_SAMPLED | MOVES},
  {"sampled-realloc-huge", grow_sampled, huge_sampled, hold_grown_sampled, NULL,
   IS_SAMPLED | MOVES},
  {"sampled-realloc-run", grow_sampled, run_when_sampled, hold_grown_sampled, "magazine:64K",
   IS_SAMPLED | MOVES},
  {"sampled-heap-malloc", heap_malloc_one, sample_heap, hold_heap_one, NULL,
   WITH_HEAP | IS_SAMPLED},
  {"sample-start", start_sampling, NULL, NULL, NULL, IS_SAMPLED},
  {"sampled-collect", collect_hard, some_sampled, NULL, NULL, IS_SAMPLED},
  {"profile-hooks", set_hooks, some_sampled, NULL, NULL, IS_SAMPLED},
  {"profile-write", write_profile, some_sampled, NULL, NULL, IS_SAMPLED},
  {"guarded-malloc", malloc_one, guarded_next, hold_one, "guard_interval:1", IS_SAMPLED},
  {"guarded-malloc-large", malloc_one, guarded_large_next, hold_one, "guard_interval:1",
   IS_SAMPLED},
  {"guarded-malloc-too-large", malloc_one, unguarded_next, hold_one, "guard_interval:1",
   IS_SAMPLED},
  {"guarded-malloc-no-slot", malloc_one, no_slot_next, hold_one, "guard_interval:1", IS_SAMPLED},
  {"guarded-malloc-limited", malloc_limited, guarded_next, hold_if_any, "guard_interval:1",
   IS_SAMPLED},
  {"guarded-calloc", calloc_guarded, NULL, hold_large_guarded, "guard_interval:1",
   CALLOCS | IS_SAMPLED},
  {"guarded-free", free_first, guarded_to_free, NULL, "guard_interval:1", QUICK | IS_SAMPLED},
  {"guarded-realloc", grow_guarded, guarded_to_free, hold_grown_guarded, "guard_interval:1",
   MOVES | REALLOCS | IS_SAMPLED},
  {"guarded-sampled-free", free_first, small_sampled, NULL, "guard_interval:1", IS_SAMPLED},
  {"ask-of-guarded", ask_of_guarded, guarded_to_ask, NULL, "guard_interval:1", IS_SAMPLED},
  {"malloc-nothing-first", malloc_one, NULL, hold_one, NULL, IS_BARE},
  {"malloc-nothing-again", malloc_one, nothing_before, hold_one, NULL, QUICK},
  {"malloc-nothing-limited", malloc_limited, NULL, hold_one, NULL, 0},
  {"free-nothing", free_first, nothing_to_free, NULL, NULL, QUICK},
  {"realloc-nothing", nothing_grows, nothing_to_free, hold_grown_first, NULL, MOVES | REALLOCS},
  {"ask-of-nothing", ask_of_nothing, nothing_before, NULL, NULL, 0},
  {"visit-nothing", visit, nothing_before, NULL, NULL, 0},
  {"start", start, NULL, NULL, NULL, IS_BARE | FIRST_USE},
  {"start-reserve", start, NULL, NULL, "reserve_huge_pages:4M", IS_BARE | FIRST_USE},
  {"start-guarded", start, NULL, NULL, "guard_interval:64K", IS_BARE | FIRST_USE | IS_SAMPLED},
  {"first-use", malloc_one, first_with_nothing, hold_one, NULL, IS_BARE | FIRST_USE},
};
const size_t freehold_operation_count = COUNT_OF(freehold_operations);
