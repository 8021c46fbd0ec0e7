/* secrets_test.c - tests of slab/secrets, in the secure grade */
#include "../../src/slab/secrets.h"

#include "core.h"
#include "faults.h"

static uint64_t of_parent;
static void renew(void) {
  secrets_renew();
  secrets_renew();
  CHECK(atomic64_load_relaxed(&secrets.trailer) != of_parent);
  CHECK_EQ(atomic64_load_relaxed(&secrets.older[0]), of_parent);
  CHECK_EQ(atomic64_load_relaxed(&secrets.older[1]), (uint64_t)0);
}

TEST(secrets, a_child_of_fork_gets_one_secret_of_its_own_and_knows_its_parent_s, "") {
  os_fake.is_random = true;
  secrets_start();
  of_parent = atomic64_load_relaxed(&secrets.trailer);
  secrets_renew();
  CHECK_EQ(atomic64_load_relaxed(&secrets.trailer), of_parent);
  CHECK_EQ(in_child(renew), 0);
}

static unsigned depth;
static void renew_deeper(void) {
  uint64_t before = atomic64_load_relaxed(&secrets.trailer);
  secrets_renew();
  CHECK_EQ(atomic64_load_relaxed(&secrets.trailer) != before, depth < SECRETS_OLDER);
  for (unsigned i = 0; i < SECRETS_OLDER; i++)
    CHECK_EQ(atomic64_load_relaxed(&secrets.older[i]) != 0, i <= depth);
  if (depth++ < SECRETS_OLDER + 2) CHECK_EQ(in_child(renew_deeper), 0);
}

TEST(secrets, children_of_children_have_new_secrets_as_long_as_all_of_them_can_be_known, "") {
  os_fake.is_random = true;
  secrets_start();
  CHECK_EQ(in_child(renew_deeper), 0);
}

static bool are_sealed(void) { return faults((volatile char *)&secrets.cover, true); }
static void renew_and_look(void) {
  secrets_renew();
  CHECK(are_sealed());
}

TEST(secrets, nobody_writes_to_them_after_the_start, "") {
  os_fake.page_size = 4096;
  secrets_start();
  CHECK(are_sealed());
  CHECK_EQ(in_child(renew_and_look), 0);
}

static uint64_t started[8];
static void start_in_thread(unsigned number) {
  secrets_start();
  started[number] = atomic64_load_relaxed(&secrets.cover) ^ atomic64_load_relaxed(&secrets.trailer);
}

TEST(secrets, threads_that_start_at_once_come_to_the_same_secrets, "") {
  os_fake.page_size = 4096;
  os_fake.is_random = true;
  core_threads(8, start_in_thread);
  for (int i = 0; i < 8; i++) CHECK_EQ(started[i], started[0]);
  CHECK(atomic64_load_relaxed(&secrets.cover) != 0);
  CHECK(are_sealed());
}

static void find_no_word(void) { CHECK_EQ(atomic64_load_relaxed(secrets_word(3)), (uint64_t)0); }

TEST(secrets, a_word_of_a_heap_is_zero_in_a_child, "") {
  atomic64_store_relaxed(secrets_word(3), 7);
  CHECK_EQ(in_child(find_no_word), 0);
  CHECK_EQ(atomic64_load_relaxed(secrets_word(3)), (uint64_t)7);
}

TEST(secrets, where_the_system_says_nothing_of_forks_a_child_keeps_its_parent_s, "") {
  os_fake.no_unshared = true;
  secrets_start();
  CHECK(secrets_word(0) == NULL);
  secrets_renew();
  CHECK_EQ(atomic64_load_relaxed(&secrets.older[0]), (uint64_t)0);
}
