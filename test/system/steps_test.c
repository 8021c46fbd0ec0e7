/* steps_test.c - a signal between any two instructions of malloc and free
 *
 * The processor's trap flag raises SIGTRAP after each instruction; the handler counts, and does what the test wants at one
 * of them. So every window between a test and what relies on it is tried, not only those that a timer happens to hit. */
#include "../../include/freehold/freehold.h"
#include "entry.h"

#include <setjmp.h>
#include <sys/syscall.h>
#include <ucontext.h>

ENTRY_WEAK bool fh_stats_get(fh_stats_t *stats);

#if defined(__x86_64__)
#define TRAP_FLAG 0x100
#define START_STEPS() __asm__ volatile("subq $128, %%rsp; pushfq; orl $0x100, (%%rsp); popfq; addq $128, %%rsp" ::: "memory", "cc")
static void clear_trap_flag(void *context) { ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG; }
#else
#define START_STEPS() (void)0
static void clear_trap_flag(void *context) { (void)context; }
#endif

enum { BLOCKS = 400, SIZE = 880, CLASS_SIZE = 896, STEPS_MOST = 1200 };

static void *blocks[BLOCKS];
static volatile int step, wanted;
static volatile bool stepping;
static void (*volatile act)(void);

static void on_step(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  if (!stepping) clear_trap_flag(context);
  else if (step++ == wanted) act();
}

static void prepare(void (*action)(void)) {
  struct sigaction a;
#if !defined(__x86_64__)
  SKIP("single steps are this processor's own affair");
#endif
  if (fh_stats_get == NULL) SKIP("not freehold");
  memset(&a, 0, sizeof a);
  a.sa_sigaction = on_step;
  a.sa_flags = SA_SIGINFO | SA_NODEFER;
  CHECK_EQ(sigaction(SIGTRAP, &a, NULL), 0);
  act = action;
}

static void free_and_malloc(void *p) {
  stepping = true;
  START_STEPS();
  free(launder(p));
  void *q = launder(malloc(SIZE));
  free(q);
  stepping = false;
}

/* Every step of the fast paths, some of the slow ones, which are many. */
static int next_step(int at) { return at + (at < 150 ? 1 : 7); }

static fh_class_stats_t class_now(void) {
  static fh_stats_t s;
  s.struct_size = sizeof s;
  CHECK(fh_stats_get(&s));
  for (int i = 0; i < FH_CLASSES; i++)
    if (s.classes[i].block_size == CLASS_SIZE) return s.classes[i];
  FAIL("no class of %d bytes", CLASS_SIZE);
}

static void allocate_all(void) {
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(SIZE);
    stamp(blocks[i], SIZE, (uint64_t)i);
  }
}

static void free_all_but(int freed) {
  for (int i = 0; i < BLOCKS; i++) {
    if (i == freed) continue;
    CHECK(is_stamped(blocks[i], SIZE, (uint64_t)i));
    free(blocks[i]);
  }
}

/* ---- handlers that return -------------------------------------------------------------------------------------------- */

static void let_go_of_everything(void) { fh_collect(true); }

static void *allocate_all_in_thread(void *argument) {
  (void)argument;
  allocate_all();
  return NULL;
}

static void let_go_at_each_step(bool of_other_thread) {
  prepare(let_go_of_everything);
  for (wanted = 0; wanted < STEPS_MOST; wanted = next_step(wanted)) {
    int freed = BLOCKS - 1 - wanted % 40;
    step = 0;
    if (of_other_thread) join_thread(start_thread(allocate_all_in_thread, NULL, 0));
    else allocate_all();
    free_and_malloc(blocks[freed]);
    free_all_but(freed);
    fh_collect(true);
    if (class_now().slabs != 0) FAIL("step %d: %d slabs stay", wanted, (int)class_now().slabs);
    if (step <= wanted) return;
  }
}

TEST(steps, a_handler_may_let_go_of_every_slab_between_any_two_instructions, "timeout=240") { let_go_at_each_step(false); }
TEST(steps, the_same_while_a_block_of_another_thread_is_freed, "timeout=240") { let_go_at_each_step(true); }

static void *kept_by_handler[STEPS_MOST];
static void allocate_and_free(void) {
  void *p = malloc(SIZE), *q = malloc(SIZE);
  CHECK(p != NULL && q != NULL);
  free(p);
  kept_by_handler[wanted] = q;
  stamp(q, SIZE, (uint64_t)wanted + 1000);
}

TEST(steps, a_handler_may_allocate_and_free_between_any_two_instructions, "timeout=240") {
  prepare(allocate_and_free);
  for (wanted = 0; wanted < STEPS_MOST; wanted = next_step(wanted)) {
    int freed = BLOCKS - 1 - wanted % 40;
    step = 0;
    allocate_all();
    free_and_malloc(blocks[freed]);
    free_all_but(freed);
    for (int i = 0; i <= wanted; i++)
      CHECK(kept_by_handler[i] == NULL || is_stamped(kept_by_handler[i], SIZE, (uint64_t)i + 1000));
    if (step <= wanted) return;
  }
}

/* ---- handlers that do not return -------------------------------------------------------------------------------------- */

static sigjmp_buf outside;
static void jump(void) {
  stepping = false;
  siglongjmp(outside, 1);
}

/* A thread of its own for each step, for the jump spoils its heap. */
static void *jump_at_step(void *argument) {
  void *p = malloc(SIZE), *q = malloc(SIZE);
  (void)argument;
  stamp(q, SIZE, 7);
  step = 0;
  if (sigsetjmp(outside, 1) == 0) free_and_malloc(p);
  for (int i = 0; i < 40; i++) blocks[i] = malloc(SIZE);
  for (int i = 0; i < 40; i++) stamp(blocks[i], SIZE, (uint64_t)i);
  for (int i = 0; i < 40; i++) CHECK(is_stamped(blocks[i], SIZE, (uint64_t)i));
  CHECK(is_stamped(q, SIZE, 7));
  for (int i = 0; i < 40; i++) free(blocks[i]);
  free(q);
  return NULL;
}

TEST(steps, a_handler_may_jump_out_between_any_two_instructions, "timeout=240") {
  prepare(jump);
  for (wanted = 0; wanted < STEPS_MOST; wanted = next_step(wanted)) {
    join_thread(start_thread(jump_at_step, NULL, 0));
    if (step <= wanted) return;
  }
}

static void end_thread(void) { syscall(SYS_exit, 0); }

static void *end_at_step(void *argument) {
  (void)argument;
  step = 0;
  free_and_malloc(malloc(SIZE));
  return NULL;
}

TEST(steps, a_thread_may_be_killed_between_any_two_instructions, "timeout=240") {
  prepare(end_thread);
  for (wanted = 0; wanted < STEPS_MOST; wanted = next_step(wanted)) {
    join_thread(start_thread(end_at_step, NULL, 0));
    stepping = false;
    allocate_all();
    free_all_but(-1);
    if (step <= wanted) return;
  }
}
