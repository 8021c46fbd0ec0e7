/* step.c - single steps by the trap flag, about 55,000 a second */
#include "park.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#if !defined(__x86_64__)
#error "the trap flag is this processor's own affair"
#endif

enum { TRAP_FLAG = 0x100 };

static __thread step_point_t *volatile stepping; /* NULL: the next trap takes the flag away */
static __thread volatile uint64_t taken;
static uint64_t most; /* 0: no limit */
static volatile bool was_cut;
/* the registers, as they are before the instruction */
static __thread const greg_t *volatile before;
static __thread volatile bool holds_signals;

static void on_trap(int signal, siginfo_t *info, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  (void)signal, (void)info;
  if (stepping != NULL) {
    int kept = errno;
    taken++;
    before = registers;
    holds_signals = sigismember(&((ucontext_t *)context)->uc_sigmask, SIGUSR1) == 1;
    if (most != 0 && taken > most) {
      was_cut = true;
      stepping = NULL;
    } else if (library_has((uintptr_t)registers[REG_RIP])) stepping((uintptr_t)registers[REG_RIP]);
    errno = kept;
  }
  if (stepping == NULL) registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
}

void step_install(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGTRAP, &action, NULL) != 0) park_fail("no handler for SIGTRAP");
}

void step_begin(step_point_t *at_point) {
  taken = 0;
  stepping = at_point;
  __asm__ volatile("subq $128, %%rsp; pushfq; orl $0x100, (%%rsp); popfq; addq $128, %%rsp" ::
                     : "memory", "cc");
}

enum { LOCK = 0xF0, REX = 0x40, REX_WIDE = 8, TWO_BYTES = 0x0F, COMPARE_AND_EXCHANGE = 0xB1 };

/* A compare-and-swap expects rax. The value alone tells which word it swaps, for few others have
 * the same. */
bool step_would_cas(const void *word) {
  const unsigned char *at = (const unsigned char *)(uintptr_t)before[REG_RIP];
  uint64_t expected = (uint64_t)before[REG_RAX];
  if (*at++ != LOCK) return false;
  unsigned rex = (*at & 0xF0) == REX ? *at++ : 0;
  if (at[0] != TWO_BYTES || at[1] != COMPARE_AND_EXCHANGE) return false;
  return memcmp(word, &expected, (rex & REX_WIDE) != 0 ? 8 : 4) == 0;
}

bool step_holds_signals(void) { return holds_signals; }
void step_end(void) { stepping = NULL; }
void step_set_limit(uint64_t steps) { most = steps; }
bool step_was_cut(void) { return was_cut; }
uint64_t step_taken(void) { return taken; }
