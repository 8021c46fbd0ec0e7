/* unwind_test.c - tests of os/unwind */
#include "../test.h"

/* In a program, whose own frames count; the archive has it for the shared library. */
#undef FH_SHARED
#include "../../src/os/unwind.c"

enum { DEPTH = 100, MOST = 64 };

static uintptr_t frames[MOST];

__attribute__((noinline)) static unsigned call_down(int depth, unsigned most) {
  unsigned count = depth > 0 ? call_down(depth - 1, most) : os_backtrace(frames, most);
  __asm__ volatile(""); /* no tail call */
  return count;
}

TEST(unwind, before_the_start_there_are_no_frames, "") { CHECK_EQ(call_down(3, MOST), 0u); }

TEST(unwind, frames_are_return_addresses_and_the_innermost_comes_first, "S-unwind") {
  CHECK(os_backtrace_start() && os_backtrace_start());
  unsigned shallow = call_down(2, MOST);
  uintptr_t here = frames[shallow - 1];
  unsigned deep = call_down(12, MOST);
  CHECK_EQ(deep, shallow + 10);
  CHECK_EQ(frames[deep - 1], here);                                 /* where the program began */
  for (unsigned i = 3; i < 12; i++) CHECK_EQ(frames[i], frames[2]); /* calls of itself */
}

TEST(unwind, of_a_deeper_stack_the_innermost_frames_are_kept, "") {
  CHECK(os_backtrace_start());
  CHECK_EQ(call_down(DEPTH, MOST), (unsigned)MOST);
  CHECK_EQ(frames[MOST - 1], frames[MOST - 2]);
  CHECK_EQ(call_down(DEPTH, 5), 5u);
}

static volatile unsigned in_handler;
static void handler(int number) {
  (void)number;
  in_handler = call_down(1, MOST);
}

TEST(unwind, a_signal_handlers_frames_go_on_to_what_it_interrupted, "") {
  CHECK(os_backtrace_start());
  unsigned outside = call_down(1, MOST);
  CHECK(os_on_signal(SIGUSR1, handler));
  raise(SIGUSR1);
  CHECK(in_handler > outside);
}
