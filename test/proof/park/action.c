/* action.c - what is done at a point, and what must hold afterwards
 *
 * In every copy the subject takes the action at the point, then ends its operation and its thread
 * if it still can. The helper has the last word: once the subject's thread has ended it frees all
 * blocks that anybody holds, collects, and asks the oracle. */
#include "park.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf outside;
static volatile int may_go_on;
static const operation_t *swept;

/* ---- the helper ------------------------------------------------------------------------------ */

static loss_kind_t loss_of_swept(bool thread_is_lost) {
  if ((swept->flags & OTHER_DIED) != 0) return LOSS_IN_HAND;
  if ((swept->flags & LANE_LEFT) != 0) return LOSS_HEAP;
  if (!thread_is_lost) return (swept->flags & PASSES_OVER) != 0 ? LOSS_RANGE : LOSS_NONE;
  if ((swept->flags & WITH_HEAP) != 0) return LOSS_HEAP;
  if ((swept->flags & HEAP_IN_HAND) != 0) return LOSS_IN_HAND;
  return (swept->flags & (MOVES | PASSES_OVER)) != 0 ? LOSS_MOVE : LOSS_THREAD;
}

_Noreturn static void judge(loss_kind_t may_lose) {
  snapshot_wait_for_subject();
  round_short();
  shadow_check();
  if (library_is_freehold()) traced_check((swept->flags & MOVES_TRACE) != 0);
  if (library_is_freehold()) shadow_check_visit(may_lose <= LOSS_RANGE ? 0 : SIZE_MAX);
  shadow_put_all();
  if (library_is_freehold()) {
    api.collect(true);
    oracle_check(may_lose);
  }
  snapshot_end();
}

static void work_then_let_go(void) {
  round_whole();
  set_and_wake(&may_go_on, 1);
  judge(loss_of_swept(false));
}

static void count_then_let_go(void) {
  round_counted();
  set_and_wake(&may_go_on, 1);
  judge(loss_of_swept(false));
}

static void judge_strictly(void) { judge(loss_of_swept(false)); }

static void work_after_loss(void) {
  snapshot_wait_for_subject();
  round_whole();
  free_rest_of_turn();
  judge(loss_of_swept(true));
}

/* ---- children -------------------------------------------------------------------------------- */

static bool is_child;
_Noreturn static void end_child(void) {
  round_in_child();
  exit(0);
}

/* `in_child` may return: the child's thread goes on where it was interrupted, and ends. */
static void fork_to(void (*in_child)(void)) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    is_child = true;
    return in_child();
  }
  if (child < 0 || waitpid(child, &status, 0) != child) park_fail("fork");
  if (WIFSIGNALED(status)) park_fail("the child gets signal %d", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) park_fail("the child fails");
}
static void fork_and_wait(void) { fork_to(end_child); }

static void fork_then_let_go(void) {
  fork_and_wait();
  set_and_wake(&may_go_on, 1);
  judge(loss_of_swept(false));
}

/* ---- the subject ----------------------------------------------------------------------------- */

static void stay(void) { wait_while(&may_go_on, 0); }

/* In the classes that the operations use, the interrupted one's among them. Frees blocks that it
 * finds, an old one and a new one, for these lie in different slabs, and leaves others. */
static void work_here(void) {
  static const size_t sizes[] = {16, 100, 200, 400, 720, 1000, 1500, 2000, 3000, 5000, 6000, 16000};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    put_ends(sizes[i]);
    get(sizes[i]);
    put(get(sizes[i]));
  }
  round_short();
}

static void let_go_here(void) {
  work_here();
  api.collect(true);
}

static void fork_and_go_on(void) { fork_to(let_go_here); }

static void jump(void) { siglongjmp(outside, 1); }
static void work_and_jump(void) {
  work_here();
  jump();
}

static void cancel(void) {
  pthread_cancel(pthread_self());
  park_fail("the thread is not cancelled");
}

const action_t actions[] = {
  {"PARK", stay, work_then_let_go, false, true, false, false},
  {"COUNT", stay, count_then_let_go, false, false, true, false},
  {"REENTER", work_here, judge_strictly, false, true, false, true},
  {"REENTER-COLLECT", let_go_here, judge_strictly, false, false, false, true},
  {"REENTER-LONGJMP", work_and_jump, work_after_loss, true, false, false, true},
  {"FORK", fork_and_wait, judge_strictly, false, true, false, true},
  {"FORK-HELPER", stay, fork_then_let_go, false, true, false, false},
  {"FORK-CHILD", fork_and_go_on, judge_strictly, false, false, false, true},
  {"DIE", snapshot_die, work_after_loss, true, false, false, true},
  {"CANCEL", cancel, work_after_loss, true, false, false, true},
};
const size_t action_count = COUNT_OF(actions);

/* Once a thread ends there is nowhere left to jump to. */
bool action_suits(const action_t *action, const operation_t *operation) {
  if (action->helper == count_then_let_go && (operation->flags & IS_SAMPLED) != 0) return false;
  return operation->run != NULL || action->take != work_and_jump;
}

/* ---- the operation --------------------------------------------------------------------------- */

static pthread_key_t last_key;
static step_point_t *volatile point;

static void run_to_the_end(const operation_t *operation) {
  int type;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
  step_begin(point);
  operation->run();
  step_end();
  pthread_setcanceltype(type, NULL);
  if (operation->finish != NULL) operation->finish();
  if (library_is_freehold()) oracle_check_own_heap();
}

/* A jump out of the operation ends here: the thread works on. */
static void run_or_jump(const operation_t *operation) {
  if (sigsetjmp(outside, 1) != 0) round_short();
  else run_to_the_end(operation);
}

/* The allocator's own key is older, so its destructor has run. The copies would not outlive the
 * thread that made them. */
static void at_thread_end(void *operation) {
  step_end();
  if ((((const operation_t *)operation)->flags & LATE) != 0) run_or_jump(operation);
  if (is_child) end_child();
  snapshot_finish();
}

void action_start(void) {
  if (pthread_key_create(&last_key, at_thread_end) != 0) park_fail("no key");
}

/* In a handler that has interrupted a malloc well inside. */
static void interrupt(uintptr_t instruction) {
  static unsigned instructions;
  (void)instruction;
  if (++instructions < WELL_INSIDE) return;
  step_end();
  run_or_jump(swept);
}

static void run_nested(void) {
  enum { NEW_CLASS = 5000 };
  step_begin(interrupt);
  void *p = api.malloc(NEW_CLASS);
  step_end();
  hold(p, NEW_CLASS);
}

void action_run_subject(const operation_t *operation, step_point_t *at_point) {
  int type;
  swept = operation;
  point = at_point;
  round_leave_out_big((operation->flags & FILLS) != 0);
  pthread_setspecific(last_key, operation);
  if ((operation->flags & LATE) != 0) return;
  if ((operation->flags & NESTED) != 0) {
    run_nested();
  } else if (operation->run != NULL) {
    run_or_jump(operation);
  } else {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    step_begin(point);
  }
}
