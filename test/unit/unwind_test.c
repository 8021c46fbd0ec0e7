/* unwind_test.c - tests of os/unwind and os/cfi against the C runtime's unwinder */
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

#include "../test.h"

/* In a program, whose own frames count; the archive has it for the shared library. */
#undef FH_SHARED
#include "../../src/os/linux/cfi.c"
#include "../../src/os/linux/unwind.c"

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(__riscv)
TEST(unwind, of_a_processor_whose_registers_are_not_known_there_is_no_stack, "") {
  uintptr_t frame;
  os_backtrace_start();
  CHECK_EQ(os_backtrace(&frame, 1, true), 0u);
}
#else

enum { DEPTH = 100, MOST = 64 };

static uintptr_t frames[MOST], known[MOST];
static unsigned count, known_count;

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *unused) {
  int is_interrupted;
  (void)unused;
  uintptr_t ip = _Unwind_GetIPInfo(context, &is_interrupted);
  if (ip == 0 || known_count == MOST) return _URC_END_OF_STACK;
  known[known_count++] = is_interrupted ? ip + 1 : ip;
  return _URC_NO_REASON;
}

__attribute__((noinline)) static void look(void) {
  os_backtrace_start();
  count = os_backtrace(frames, MOST, true);
  known_count = 0;
  _Unwind_Backtrace(note, NULL);
}

#if defined(__riscv) /* there the runtime does not tell the frame in which a thread begins */
enum { UNTOLD = 1 };
#else
enum { UNTOLD = 0 };
#endif

/* Both stacks are the same from the caller of `look` on, to the end or the last frame kept. */
static bool is_as_known(void) {
  unsigned from = 0;
  while (from < 3 && frames[from] != known[1]) from++;
  unsigned ours = count - from, its = known_count - 1, both = ours < its ? ours : its;
  bool is_whole = ours - its <= UNTOLD || count == MOST || known_count == MOST;
  return from < 3 && is_whole && memcmp(frames + from, known + 1, both * sizeof *frames) == 0;
}

TEST(unwind, the_programs_file_is_found, "") {
  file_t own = find_own_file();
  bool stays = false;
  find_program_file();
  CHECK_EQ(atomic64_load_relaxed(&program_code), own.code);
  CHECK_EQ(atomic64_load_relaxed(&program_code_size), own.code_size);
  CHECK_EQ((const void *)atomic64_load_relaxed(&program_table), own.table);
  file_t none = {NULL, 0, 0};
  CHECK(find_unwind_table(&none, own.code, &stays) == own.table && stays);
  CHECK(find_unwind_table(&none, 16, &stays) == NULL && !stays);
}

__attribute__((noinline)) static void call_down(int depth) {
  if (depth > 0) call_down(depth - 1);
  else look();
  __asm__ volatile(""); /* no tail call */
}

TEST(unwind, before_the_start_only_the_own_files_frames_are_known, "") {
  CHECK(os_backtrace(frames, MOST, true) > 2);
  CHECK(frames[0] - (uintptr_t)os_backtrace < 4096);
  look();
  CHECK(is_as_known());
}

TEST(unwind, frames_are_those_that_the_runtimes_unwinder_finds, "") {
  for (int depth = 0; depth < 30; depth++) {
    call_down(depth);
    CHECK(is_as_known());
  }
}

TEST(unwind, of_a_deeper_stack_the_innermost_frames_are_kept, "") {
  call_down(DEPTH);
  CHECK_EQ(count, (unsigned)MOST);
  CHECK(is_as_known());
  CHECK_EQ(os_backtrace(frames, 5, true), 5u);
}

static int compare(const void *a, const void *b) {
  look();
  return *(const int *)a - *(const int *)b;
}

TEST(unwind, frames_of_other_files_are_found, "") {
  int numbers[] = {2, 1};
  qsort(numbers, 2, sizeof *numbers, compare);
  CHECK(is_as_known());
  CHECK(known_count > 4);
}

/* A variable part of the frame, and one that is aligned: the frame is found by other registers. */
__attribute__((noinline)) static void call_with_room(size_t size) {
  volatile char room[size];
  __attribute__((aligned(256))) volatile char aligned[256];
  room[0] = aligned[0] = 0;
  look();
  CHECK_EQ(room[0], aligned[0]);
}

TEST(unwind, frames_of_variable_size_and_alignment_are_found, "") {
  for (size_t size = 1; size < 5000; size += 77) {
    call_with_room(size);
    CHECK(is_as_known());
  }
}

static void *look_in_thread(void *unused) {
  call_down(3);
  return is_as_known() ? unused : NULL;
}

TEST(unwind, a_threads_stack_ends_where_it_began, "") {
  pthread_t thread;
  void *result;
  CHECK_EQ(pthread_create(&thread, NULL, look_in_thread, frames), 0);
  pthread_join(thread, &result);
  CHECK(result == frames);
}

static volatile bool was_as_known;
static void handler(int number) {
  (void)number;
  call_down(1);
  was_as_known = is_as_known();
}

__attribute__((noinline)) static void raise_on(void *stack, size_t size) {
  stack_t other = {.ss_sp = stack, .ss_size = size}, none = {.ss_flags = SS_DISABLE};
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  was_as_known = false;
  os_backtrace_start(); /* which no handler may call */
  CHECK_EQ(sigaltstack(stack != NULL ? &other : &none, NULL), 0);
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  sigaltstack(&none, NULL);
  CHECK(was_as_known);
  CHECK(known_count > 6);
}

TEST(unwind, a_signal_handlers_frames_go_on_to_what_it_interrupted, "") {
  static char stack[1 << 16];
  raise_on(NULL, 0);
  raise_on(stack, sizeof stack); /* another stack may be above or below */
}

#if defined(__x86_64__) /* which has single steps without a debugger */
/* Each instruction of a call, of a function that saves registers, and of the linker's stubs. */
static volatile unsigned steps, wrong_steps;
static void step_handler(int number) {
  (void)number;
  look();
  steps++;
  wrong_steps += !is_as_known();
}

TEST(unwind, at_each_instruction_the_frames_are_those_of_the_runtime, "") {
  struct sigaction action = {.sa_handler = step_handler};
  sigaction(SIGTRAP, &action, NULL);
  char text[100];
  steps = wrong_steps = 0;
  os_backtrace_start();
  __asm__ volatile("pushfq\n\torq $256, (%%rsp)\n\tpopfq" ::: "cc", "memory");
  snprintf(text, sizeof text, "%d %s %f", 12, "words", 1.5);
  __asm__ volatile("pushfq\n\tandq $-257, (%%rsp)\n\tpopfq" ::: "cc", "memory");
  CHECK(steps > 500);
  CHECK_EQ(wrong_steps, 0u);
}

#endif

/* Frame pointers, as code has them that was made at run time: no table speaks of it. It calls its
 * argument. */
#if defined(__x86_64__)
static const unsigned char made_code[] = {
  0x55,             /* push rbp */
  0x48, 0x89, 0xe5, /* mov rbp, rsp */
  0xff, 0xd7,       /* call rdi */
  0x5d,             /* pop rbp */
  0xc3,             /* ret */
};
static uintptr_t *return_of(ucontext_t *c) { return (uintptr_t *)c->uc_mcontext.gregs[REG_RSP]; }
#elif defined(__aarch64__)
static const uint32_t made_code[] = {
  0xa9bf7bfd, /* stp x29, x30, [sp, -16]! */
  0x910003fd, /* mov x29, sp */
  0xd63f0000, /* blr x0 */
  0xa8c17bfd, /* ldp x29, x30, [sp], 16 */
  0xd65f03c0, /* ret */
};
static uintptr_t *return_of(ucontext_t *c) { return (uintptr_t *)&c->uc_mcontext.regs[30]; }
#elif defined(__riscv)
static const uint32_t made_code[] = {
  0xff010113, /* addi sp, sp, -16 */
  0x00113423, /* sd ra, 8(sp) */
  0x00813023, /* sd s0, 0(sp) */
  0x01010413, /* addi s0, sp, 16 */
  0x000500e7, /* jalr a0 */
  0x00813083, /* ld ra, 8(sp) */
  0x00013403, /* ld s0, 0(sp) */
  0x01010113, /* addi sp, sp, 16 */
  0x00008067, /* ret */
};
static uintptr_t *return_of(ucontext_t *c) { return (uintptr_t *)&c->uc_mcontext.__gregs[1]; }
#endif

TEST(unwind, code_without_a_table_is_passed_by_its_frame_pointer, "") {
  enum { ANYTHING = PROT_READ | PROT_WRITE | PROT_EXEC };
  void *code = mmap(NULL, 4096, ANYTHING, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, made_code, sizeof made_code);
  __builtin___clear_cache(code, (char *)code + sizeof made_code);
  look();
  uintptr_t outermost = frames[count - 1];
  unsigned direct = count;
  ((void (*)(void (*)(void)))code)(look);
  CHECK_EQ(count, direct + 1);
  CHECK_EQ(frames[count - 1], outermost);
  munmap(code, 4096);
}

TEST(unwind, by_frame_pointers_alone_a_stack_may_be_shorter_and_is_never_wrong_memory, "") {
  CHECK(os_backtrace(frames, MOST, false) > 0);
}

/* A stack whose last return address, and all above, is anything, up to a page that is not there. */
static ucontext_t here, there;
static void look_and_go_back(void) {
  count = os_backtrace(frames, MOST, true);
  swapcontext(&there, &here);
}

TEST(unwind, a_stack_made_by_hand_ends_without_a_fault, "") {
  enum { SIZE = 1 << 16 };
  char *stack = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(stack + SIZE, SIZE);
  for (unsigned char fill = 0; fill < 255; fill += 15) {
    memset(stack, fill, SIZE);
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = SIZE;
    there.uc_link = NULL;
    makecontext(&there, look_and_go_back, 0);
    *return_of(&there) = 0x0101010101010101u * fill;
    swapcontext(&here, &there);
    CHECK(count >= 1 && count <= MOST);
  }
  munmap(stack, SIZE);
}
#endif
