/* partial_test.c - tests of slab/partial: the partial bit against EMPTY, in each order in
 * which two threads can meet */
#include "slabs.h"

#include <signal.h>
#if !defined(_WIN32)
#include <ucontext.h>
#endif

enum { CLASS = 60 }; /* 5,632 bytes, 10 blocks */

static unsigned capacity(void) { return class_info[CLASS].capacity; }

/* A slab whose thread has made the anchor PARTIAL and come no further: all but `out`
 * blocks are back. */
static slab_t *just_made_partial(unsigned out) {
  slab_t *s = full_slab(CLASS);
  unsigned back = capacity() - out;
  for (unsigned i = 0; i < back; i++) block_link(blocks[i], i + 1 < back ? blocks[i + 1] : 0);
  atomic64_store_relaxed(&s->anchor,
                         anchor_pack(ANCHOR_PARTIAL, (uint16_t)blocks[0], back, capacity()));
  return s;
}
static slab_outcome_t free_last(slab_t *s) { return push_one(s, blocks[capacity() - 1], NULL); }

TEST(partial, empty_before_the_bit_is_found_by_the_thread_that_sets_the_bit, "S-partial") {
  slab_t *s = just_made_partial(1);
  CHECK(free_last(s) == SLAB_SHARED); /* no bit to clear: it walks away */
  CHECK(anchor(s).state == ANCHOR_EMPTY);
  CHECK(partial_publish(s));
  CHECK(!bit_is_set(s));
  CHECK(anchor(s).state == ANCHOR_OWNED);
  slab_release(s);
  CHECK_EQ(committed(), (uint64_t)0);
}

TEST(partial, empty_after_the_bit_is_found_by_the_thread_that_frees_last, "S-partial") {
  slab_t *s = just_made_partial(1);
  CHECK(!partial_publish(s));
  CHECK(bit_is_set(s));
  CHECK(free_last(s) == SLAB_IS_EMPTY);
  CHECK(!bit_is_set(s));
}

TEST(partial, an_empty_slab_whose_bit_a_third_thread_clears_is_the_third_threads, "S-partial") {
  slab_t *s = just_made_partial(1);
  CHECK(!partial_publish(s));
  /* the last free has swapped and not yet cleared the bit */
  block_link(blocks[capacity() - 1], slab_base(s) | anchor(s).avail);
  atomic64_store_relaxed(&s->anchor, anchor_pack(ANCHOR_EMPTY, (uint16_t)blocks[capacity() - 1],
                                                 capacity(), capacity()));
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
  CHECK_EQ(slab_used(s), 0u);
  CHECK(slab_is_valid(s));
  CHECK(!partial_unpublish(s, CLASS)); /* it comes too late */
  CHECK(anchor(s).state == ANCHOR_OWNED);
  CHECK_EQ(take_all(s), capacity());
}

TEST(partial, who_clears_the_bit_of_a_slab_that_lives_again_puts_it_back, "S-partial") {
  slab_t *s = just_made_partial(1);
  CHECK(!partial_publish(s));
  CHECK(!partial_unpublish(s, CLASS)); /* it meant an earlier life of the slab, which was empty */
  CHECK(bit_is_set(s));
  CHECK(anchor(s).state == ANCHOR_PARTIAL);
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
}

TEST(partial, a_slab_that_is_nobodys_any_more_is_not_touched_by_a_late_clearer, "S-partial") {
  slab_t *s = just_made_partial(1);
  CHECK(!partial_publish(s));
  CHECK(free_last(s) == SLAB_IS_EMPTY);
  slab_release(s);
  CHECK(!partial_unpublish(s, CLASS));
  CHECK(anchor(s).state == ANCHOR_NONE);
}

TEST(partial, the_hint_of_a_group_comes_back_with_the_next_bit_and_goes_when_the_group_is_searched,
     "S-group") {
  slab_t *s = just_made_partial(2);
  size_t group = arena_slice((void *)slab_base(s)) / 64;
  atomic64_t *hint = &arena_maps(arena_of(s))->partial_groups[CLASS][group / 64];
  for (int round = 0; round < 3; round++) {
    CHECK_EQ(atomic64_load_relaxed(hint) >> group % 64 & 1, (uint64_t)0);
    if (round == 0) CHECK(!partial_publish(s));
    else CHECK(slab_let_go(s) == SLAB_SHARED);
    CHECK_EQ(atomic64_load_relaxed(hint) >> group % 64 & 1, (uint64_t)1);
    CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
    CHECK_NULL(slab_find_partial(CLASS, &heap_b)); /* finds the group empty */
  }
}

/* Slabs of the second arena, so that its number counts; the first one's are all in use. */
static slab_t *partial_in_another_arena(void) {
  bool clean;
  CHECK(arena_claim(HALF_WINDOW, 1, &clean) != NULL);
  CHECK(arena_claim(HALF_WINDOW, 1, &clean) != NULL);
  CHECK(arena_claim(HALF_WINDOW, 1, &clean) != NULL);
  while (arena_of(arena_claim(1, 1, &clean)) == arena_at(0)) continue;
  slab_t *s = just_made_partial(2);
  CHECK_EQ(arena_of(s), arena_at(1));
  return s;
}

TEST(partial, a_slab_is_found_in_whichever_arena_and_an_arena_without_any_is_left_out, "S-group") {
  slab_t *s = partial_in_another_arena();
  size_t group = arena_slice((void *)slab_base(s)) / 64;
  arena_maps_t *maps = arena_maps(arena_of(s));
  CHECK(!partial_publish(s));
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
  CHECK_NULL(slab_find_partial(CLASS, &heap_b)); /* clears both hints */
  CHECK_EQ(atomic64_load_relaxed(&maps->partial_groups[CLASS][group / 64]), (uint64_t)0);
  atomic64_store_relaxed(&maps->partial_groups[CLASS][group / 64], ~(uint64_t)0);
  CHECK_NULL(slab_find_partial(CLASS, &heap_b)); /* nobody looks there */
  CHECK_NE(atomic64_load_relaxed(&maps->partial_groups[CLASS][group / 64]), (uint64_t)0);
  CHECK(slab_let_go(s) == SLAB_SHARED); /* until the next is published */
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
}

TEST(partial, a_slab_taken_over_brings_its_chain_its_count_and_no_neighbours, "I1") {
  slab_t *s = just_made_partial(3);
  s->next = s->prev = s;
  s->idleness = 1;
  partial_publish(s);
  CHECK_EQ(slab_find_partial(CLASS, &heap_c), s);
  CHECK_EQ(atomic_ptr_load_relaxed(&s->owner), (void *)&heap_c);
  CHECK_NULL(s->next);
  CHECK_NULL(s->prev);
  CHECK_EQ(s->idleness, 0);
  CHECK_EQ(slab_used(s), 3u);
  CHECK_EQ(take_all(s), capacity() - 3);
}

/* ---- what was read of a slab before the last free gave it away ----

 * The thread that empties a slab stands still between any two of its instructions, and another one
 * takes the slab, gives the slice back and uses it for something else. */

/* Another slab's bit: the one that the kind of a large block would lead to, were it a class. */
enum { GROUPS_AWAY = SLAB_IS_LARGE / CLASS_COUNT, BESIDE = SLAB_IS_LARGE % CLASS_COUNT };

static slab_t *emptied, *beside;
static unsigned reborn_as; /* a class, or SLAB_IS_LARGE */
static bool is_reborn;

static slab_t *partial_at(void *base, unsigned c) {
  unsigned count;
  slab_t *s = slab_new(base, c, &heap_a, NULL);
  slab_take_some(s, 1, &count);
  CHECK(slab_let_go(s) == SLAB_SHARED);
  return s;
}

static void be_born_again(void) {
  bool clean;
  void *base = (void *)slab_base(emptied);
  CHECK(arena_claim_at(base, 1, &clean));
  if (reborn_as != SLAB_IS_LARGE) partial_at(base, reborn_as);
  else atomic32_store_relaxed(&emptied->kind, SLAB_IS_LARGE);
}

static void die_again(void) {
  if (reborn_as == SLAB_IS_LARGE) {
    atomic32_store_relaxed(&emptied->kind, 0);
    arena_release((void *)slab_base(emptied), 1);
  } else {
    CHECK_EQ(slab_find_partial(reborn_as, &heap_b), emptied);
    slab_release(emptied);
  }
  is_reborn = false;
}

/* What the other thread does, whenever it can. True: it is done. */
unused static bool other_thread_looks(void) {
  if (!is_reborn) {
    if (anchor(emptied).state != ANCHOR_EMPTY) return false;
    CHECK_EQ(slab_find_partial(CLASS, &heap_b), emptied);
    CHECK(slab_let_go(emptied) == SLAB_IS_EMPTY);
    slab_release(emptied);
    be_born_again();
    is_reborn = true;
  }
  if (bit_is_set(beside)) return false;
  die_again(); /* the first thread goes on with it */
  partial_at((void *)slab_base(emptied), BESIDE);
  CHECK_EQ(slab_find_partial(BESIDE, &heap_c), emptied); /* heap_c owns it */
  return true;
}

/* The thread sanitizer's runtime holds locks of its own, which the handler would wait for. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(_WIN32)
enum { TRAP_FLAG = 0x100 };
static volatile bool is_stepping;

static void on_trap(int signal, siginfo_t *info, void *context) {
  greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
  (void)signal, (void)info;
  if (!is_stepping || other_thread_looks()) *flags &= ~(greg_t)TRAP_FLAG;
}

static slab_outcome_t free_last_in_steps(slab_t *s) {
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
  is_stepping = true;
  __asm__ volatile("subq $128, %%rsp; pushfq; orl $0x100, (%%rsp); popfq; addq $128, %%rsp" ::
                     : "memory", "cc");
  slab_outcome_t outcome = free_last(s);
  is_stepping = false;
  return outcome;
}
#else
static slab_outcome_t free_last_in_steps(slab_t *s) {
  SKIP("no single steps here");
  return free_last(s);
}
#endif

static void check_reborn_as(unsigned kind) {
  bool clean;
  emptied = just_made_partial(1);
  arena_t *a = arena_of(emptied);
  size_t slice = arena_slice((void *)slab_base(emptied)) + (size_t)GROUPS_AWAY * 64;
  CHECK(arena_claim(slice - ARENA_FIRST_SLICE, 1, &clean) != NULL);
  beside = partial_at(arena_address(a, slice), BESIDE);
  CHECK(!partial_publish(emptied));
  reborn_as = kind;
  CHECK(free_last_in_steps(emptied) == SLAB_SHARED); /* another thread had it */
  CHECK(is_reborn);
  CHECK(bit_is_set(beside));
  CHECK_EQ(slab_word(emptied), kind);
  CHECK(partial_is_valid(a));
  CHECK_EQ(slab_find_partial(BESIDE, &heap_b), beside);
  die_again();
  CHECK_NULL(slab_find_partial(BESIDE, &heap_b));
}

TEST(partial, who_emptied_a_slab_clears_no_other_bit_when_the_slice_has_become_a_large_block,
     "I6 S-partial") {
  check_reborn_as(SLAB_IS_LARGE);
}

TEST(partial, nor_when_it_has_become_a_slab_of_another_class, "I6 S-partial") {
  check_reborn_as(CLASS - 1);
}

TEST(partial, a_bit_of_an_owned_slab_or_one_of_another_class_is_found_by_its_invariant, "I6") {
  slab_t *s = just_made_partial(1);
  arena_t *a = arena_of(s);
  CHECK(!partial_publish(s));
  CHECK(partial_is_valid(a));
  EXPECT_ABORT((atomic32_store_relaxed(&s->kind, CLASS - 1), partial_is_valid(a)), "invariant I6");
  EXPECT_ABORT((atomic32_store_relaxed(&s->kind, SLAB_IS_LARGE), partial_is_valid(a)),
               "invariant I6");
  EXPECT_ABORT(
    (atomic64_store_relaxed(&s->anchor, anchor_pack(ANCHOR_OWNED, 0, 0, 0)), partial_is_valid(a)),
    "invariant I6");
}
