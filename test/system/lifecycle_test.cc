/* lifecycle_test.cc - calls before main, at exit and from thread_local destructors
 *
 * The programs in here are this executable started anew: what they do at start they do in every
 * start, the run that lists or drives the tests included. */
#include "entry.h"

#include <atomic>
#include <sys/auxv.h>

/* ---- before main ----------------------------------------------------------------------------- */

static void *from_preinit, *from_constructor;

extern "C" {
static void in_preinit(int, char **, char **) {
  tour_everything();
  from_preinit = malloc(launder_size(300));
  stamp(from_preinit, 300, 2);
}
typedef void preinit_t(int, char **, char **);
__attribute__((section(".preinit_array"), used)) static preinit_t *const preinit = in_preinit;
}

__attribute__((constructor(101))) static void in_first_constructor() {
  tour_everything();
  from_constructor = realloc(from_preinit, launder_size(70000));
  stamp(from_constructor, 300, 3);
}

struct made_before_main {
  char *text;
  made_before_main() : text(new char[1000]) { stamp(text, 1000, 4); }
  ~made_before_main() {
    if (!is_stamped(text, 1000, 4)) _exit(9);
    delete[] text;
    tour_everything();
  }
};
static made_before_main early_object;

TEST(lifecycle, preinit_functions_and_constructors_may_allocate, "") {
  CHECK(is_stamped(from_constructor, 300, 3));
  CHECK(is_stamped(early_object.text, 1000, 4));
  if (fh_owns != nullptr) CHECK(fh_owns(from_constructor) && fh_owns(early_object.text));
  free(from_constructor);
}

static void *body_tour(void *) {
  tour_everything();
  return nullptr;
}
TEST(lifecycle, blocks_from_before_main_may_be_freed_by_another_thread, "") {
  auto body = [](void *) -> void * {
    from_constructor = realloc(from_constructor, 10);
    free(from_constructor);
    return nullptr;
  };
  join_thread(start_thread(body, nullptr, 0));
  run_threads(4, body_tour);
}

/* ---- thread_local ---------------------------------------------------------------------------- */

static std::atomic<int> local_destructions;
struct made_in_thread {
  void *p = malloc(launder_size(500));
  unsigned which = 0;
  ~made_in_thread() {
    free(p);
    if (which < ENTRY_TOURS) entry_tours[which].tour(malloc(launder_size(40)));
    else tour_everything();
    local_destructions++;
  }
};
static thread_local made_in_thread local_object;

TEST(lifecycle, every_entry_point_may_be_called_last_by_a_thread_local_destructor, "") {
  for (unsigned round = 0; round < 20; round++) {
    for (uintptr_t i = 0; i <= ENTRY_TOURS; i++) {
      auto body = [](void *argument) -> void * {
        local_object.which = static_cast<unsigned>(reinterpret_cast<uintptr_t>(argument));
        return nullptr;
      };
      join_thread(start_thread(body, reinterpret_cast<void *>(i), 0));
    }
  }
  CHECK_EQ(local_destructions.load(), 20 * (ENTRY_TOURS + 1));
}

/* ---- at exit --------------------------------------------------------------------------------- */

static void *busy_for_ever(void *argument) {
  uint64_t state = reinterpret_cast<uintptr_t>(argument) + 21;
  for (;;) {
    void *p[50];
    for (auto &block : p) block = malloc(random_size(&state));
    for (auto &block : p) free(block);
  }
}
static unsigned exit_tour;
static void at_exit() {
  void *given = malloc(launder_size(40));
  if (exit_tour < ENTRY_TOURS) entry_tours[exit_tour].tour(given);
  else free(given);
}
static void leave_in_the_middle_of_work() {
  for (uintptr_t i = 0; i < 3; i++)
    pthread_detach(start_thread(busy_for_ever, reinterpret_cast<void *>(i), 0));
  static made_before_main late_object; /* destroyed while the threads still work */
  local_object.which = ENTRY_TOURS;
  for (unsigned i = 0; i < 5; i++) CHECK_EQ(atexit(at_exit), 0);
  CHECK_EQ(atexit(tour_everything), 0);
  usleep(2000);
  exit(0);
}

TEST(lifecycle, program_that_exits_while_threads_work, "program") { leave_in_the_middle_of_work(); }

TEST(lifecycle, atexit_and_static_destructors_may_allocate_while_threads_work, "timeout=120") {
  for (int i = 0; i < 100; i++) CHECK_PROGRAM("lifecycle.program_that_exits_while_threads_work");
}

TEST(lifecycle, every_entry_point_may_be_called_last_at_exit, "") {
  for (exit_tour = 0; exit_tour < ENTRY_TOURS; exit_tour++) {
    test_child_t child;
    char how[96];
    if (test_fork(&child, 20)) {
      atexit(at_exit);
      exit(0);
    }
    test_reap(&child);
    if (!WIFEXITED(child.status) || WEXITSTATUS(child.status) != 0)
      FAIL("%s at exit: %s\n%s", entry_tours[exit_tour].name,
           test_status_text(child.status, how, sizeof how), child.text);
  }
}

TEST(lifecycle, program_that_returns_from_main_with_live_blocks, "program") {
  for (int i = 0; i < 1000; i++) stamp(malloc(launder_size(200)), 200, 1);
  run_threads(4, body_tour);
}
TEST(lifecycle, quick_exit_runs_its_handlers, "") {
  test_child_t child;
  if (test_fork(&child, 20)) {
    at_quick_exit(tour_everything);
    quick_exit(0);
  }
  test_reap(&child);
  CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
  CHECK_PROGRAM("lifecycle.program_that_returns_from_main_with_live_blocks");
}

/* The kernel's first eight random bytes are glibc's stack canary: an address must
 * not tell a part of them. */
enum { TOLD = 7 };
TEST(lifecycle, program_that_compares_its_addresses_with_the_kernels_random_bytes, "program") {
  uint64_t first;
  memcpy(&first, reinterpret_cast<const void *>(getauxval(AT_RANDOM)), sizeof first);
  uintptr_t window = reinterpret_cast<uintptr_t>(malloc(launder_size(100))) >> 30;
  _exit(window == 4096 + first % 16384 ? TOLD : 0);
}
TEST(lifecycle, addresses_do_not_tell_a_part_of_the_stack_canary, "") {
  int told = 0;
  for (int i = 0; i < 2; i++) { /* once may be chance */
    test_child_t program;
    test_program(&program,
                 "lifecycle.program_that_compares_its_addresses_with_the_kernels_random_bytes");
    told += WIFEXITED(program.status) && WEXITSTATUS(program.status) == TOLD;
  }
  CHECK_LT(told, 2);
}
