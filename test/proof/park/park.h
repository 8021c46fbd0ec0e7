/* park.h - a thread stopped, interrupted or ended at every instruction of an allocator
 *
 * One process sweeps one operation with one action. A thread of it, the subject, runs the operation
 * in single steps. Before each instruction that lies in the allocator's text the process is copied
 * (snapshot.h). In the copy the action is taken right there, everybody works on, and what they have
 * and what the allocator says of itself is checked. The copy ends, and the subject takes its next
 * step. So every point finds the same situation, undisturbed by the points before it.
 *
 *   library.c     the allocator: the functions to call, and where its text lies
 *   step.c        the trap flag
 *   snapshot.c    copies of the process, with its threads
 *   shadow.c      what every block that is held should contain
 *   round.c       what the others do while the subject is stopped
 *   operation.c   operations of any allocator; freehold.c: those that only freehold has
 *   action.c      what is done at a point, and what must hold afterwards
 *   oracle.c      freehold's own invariants, and what was lost
 *   traced.c      its event trace
 *   deaths.c      a thousand threads that die
 *   park.c        arguments, the sweep, one line of JSON */
#ifndef PARK_PARK_H
#define PARK_PARK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../../include/freehold/freehold.h"

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

/* Ends the copy, or the whole program, with a line that says what is wrong. */
_Noreturn void park_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) park_fail("%s:%d: %s", __FILE_NAME__, __LINE__, #condition);                 \
  } while (0)

/* ---- library.c ------------------------------------------------------------------------------- */

/* The allocator under test. All but malloc and free may be NULL unless it is freehold: what it
 * lacks is not another library's function of that name. */
typedef struct {
  void *(*malloc)(size_t size);
  void *(*calloc)(size_t count, size_t size);
  void *(*realloc)(void *p, size_t size);
  void *(*aligned_alloc)(size_t alignment, size_t size);
  void (*free)(void *p);
  size_t (*usable_size)(const void *p);
  void (*free_sized)(void *p, size_t size);
  void (*delete_sized)(void *p, size_t size);
  void (*free_aligned_sized)(void *p, size_t alignment, size_t size);
  void (*delete_aligned_sized)(void *p, size_t size, size_t alignment);
  size_t (*malloc_batch)(size_t size, size_t count, void **blocks);
  void (*free_batch)(void *const *blocks, size_t count);
  void (*collect)(bool force);
  size_t (*good_size)(size_t size);
  bool (*expand)(void *p, size_t size);
  bool (*owns)(const void *p);
  bool (*stats_get)(fh_stats_t *stats);
  uint64_t (*thread_allocated)(void);
  uint64_t (*thread_freed)(void);
  bool (*trace_start)(const char *path);
  bool (*trace_stop)(void);
  struct mallinfo2 (*mallinfo2)(void);
  bool (*option_set)(const char *name, int64_t value);
  fh_heap_t *(*heap_new)(void);
  void *(*heap_malloc)(fh_heap_t *heap, size_t size);
  void *(*heap_calloc)(fh_heap_t *heap, size_t count, size_t size);
  void *(*heap_aligned_alloc)(fh_heap_t *heap, size_t alignment, size_t size);
  void *(*heap_realloc)(fh_heap_t *heap, void *p, size_t size);
  bool (*profile_start)(size_t interval);
  bool (*profile_write)(int file, fh_profile_t kind);
  void (*profile_hooks)(fh_profile_hook_t *allocated, fh_profile_hook_t *freed, void *context);
  void (*heap_delete)(fh_heap_t *heap);
  void (*heap_collect)(fh_heap_t *heap);
  void (*heap_set_quota)(fh_heap_t *heap, size_t bytes);
  bool (*heap_stats_get)(fh_heap_t *heap, fh_heap_stats_t *stats);
  fh_heap_t *(*heap_of)(const void *p);
  void (*heap_destroy)(fh_heap_t *heap);
  bool (*heap_visit)(fh_heap_t *heap, fh_visitor_t *visitor, void *context);
  bool (*heap_visit_areas)(fh_heap_t *heap, fh_area_visitor_t *visitor, void *context);
  fh_heap_t *(*heap_set_default)(fh_heap_t *heap);
  size_t (*arena_add)(void *address, size_t size, unsigned flags);
} api_t;
extern api_t api;

/* Loads the library of that path; NULL: the process's own malloc. `without_start` loads a copy
 * whose constructors do not run. */
void library_load(const char *path, bool without_start);
bool library_is_freehold(void);
size_t huge_size(void); /* of blocks for each of which it asks the system */
/* an entry point that an operation with these flags needs, or NULL */
const char *library_lacks(unsigned flags);
bool library_has(uintptr_t instruction);
size_t library_offset(uintptr_t instruction); /* in the file's address space */
size_t library_text_size(void);
/* A symbol of freehold that is hidden, from the file's own table; of a thread-local one, where it
 * lies in a thread's block. */
void *library_hidden(const char *name);
size_t library_hidden_tls(const char *name);
char *library_tls(void); /* the calling thread's block */

/* ---- step.c ---------------------------------------------------------------------------------- */

/* While the calling thread is stepping, `at_point` is called before each of its instructions that
 * lies in the library's text, in a handler of SIGTRAP. */
typedef void step_point_t(uintptr_t instruction);
/* there: the next instruction is a swap, and expects what stands here */
bool step_would_cas(const void *word);
bool step_holds_signals(void); /* the subject has its signals held back at this point */
void step_install(void);
void step_begin(step_point_t *at_point);
void step_end(void);
/* the rest of a longer operation runs at full speed */
void step_set_limit(uint64_t steps);
bool step_was_cut(void);
/* all steps of the calling thread, wherever they lay */
uint64_t step_taken(void);

/* ---- snapshot.c ------------------------------------------------------------------------------ */

/* The threads that a copy takes along: the calling one, and the helper, which otherwise waits. */
void snapshot_start_helper(void);
void in_helper(void (*body)(void)); /* the helper runs it; waits for its end */
void in_thread(void (*body)(void)); /* a thread of its own runs it; waits for its end */
void snapshot_note_subject(void);   /* called by the subject, once */

enum { COPIES_MOST = 16, WHY_SIZE = 400 };
void snapshot_set_limit(unsigned ms); /* of processor time; a copy that takes more hangs */
/* Copies the process, calling thread included: true in the copy. The original goes on, but waits
 * while it has `most` copies. */
bool snapshot_take(unsigned long point, uintptr_t instruction, unsigned most);
void snapshot_finish(void); /* waits for all copies */
typedef enum { COPY_PASSED, COPY_FAILED, COPY_HUNG } copy_end_t;
/* the caller's */
void at_copy_end(unsigned long point, uintptr_t instruction, copy_end_t end, const char *why);
void snapshot_wake_helper(void (*body)(void)); /* in the copy: the helper lives again and runs it */
void snapshot_wait_for_subject(void);          /* by the helper: the subject's thread has ended */
_Noreturn void snapshot_end(void);             /* of the copy: all went well */
_Noreturn void snapshot_die(void);             /* of the calling thread, by a raw system call */
/* `word` is no longer `value`; and says so to those who wait. */
void wait_while(volatile int *word, int value);
void set_and_wake(volatile int *word, int value);

/* ---- shadow.c -------------------------------------------------------------------------------- */

/* Blocks with contents that tell whose they are. All fail if a block overlaps another or its
 * contents are not what they were. `hold` takes a block that the caller has got already. */
void *hold(void *p, size_t size);
void release(void *p);                      /* forgets it; the caller frees or resizes it */
void *hold_untouched(void *p, size_t size); /* with no contents of its own */
void *get(size_t size);
void put(void *p);
void *resize(void *p, size_t size);
bool is_held(const void *p);
void shadow_check(void);
/* A visit of the process shows each block once that is held all the time, and at most so many that
 * nobody holds. */
void shadow_check_visit(size_t strangers);
void shadow_put_all(void);
void put_ends(size_t size); /* of that size and not given: the first and the last */
void put_others(size_t size, const void *but); /* all of that size but one */

/* ---- round.c --------------------------------------------------------------------------------- */

/* Blocks of the subject that the others free. */
void give(void *p);
bool is_given(const void *p);
void round_whole(void);                     /* by the helper: everything that a thread may want */
void round_short(void);                     /* by anybody: small, large, moved, aligned */
void round_in_child(void);                  /* in the child of a fork */
void round_counted(void);                   /* the same kinds of work, each instruction counted */
void round_leave_out_big(bool is_left_out); /* growth and huge blocks, from now on */
typedef struct {
  const char *name;
  uint64_t worst;
} round_worst_t;
size_t round_worst(const round_worst_t **table); /* shared by all copies */

/* ---- operation.c, freehold.c ----------------------------------------------------------------- */

typedef struct {
  const char *name;
  void (*run)(void);     /* the subject, in steps; NULL: the end of its thread */
  void (*prepare)(void); /* the subject before it, or NULL */
  void (*finish)(void);  /* the subject after it: holds what it got; or NULL */
  const char *options;   /* of freehold; NULL: none */
  unsigned flags;
  /* in handlers at the points, until it is true: others have done what it is about; or NULL */
  bool (*meanwhile)(void);
} operation_t;
enum {
  QUICK = 1, /* part of ./dev test */
  /* the subject has no blocks, and its thread has used nothing yet */
  IS_BARE = 2,
  FIRST_USE = 4, /* the library's constructors have not run */
  NESTED = 8,    /* in a handler that has interrupted a malloc */
  LATE = 16,     /* when the allocator has been told that the thread ends */
  MOVES = 64,    /* two blocks are the subject's for a while */
  /* the entry points that it needs beside malloc and free */
  REALLOCS = 512,
  ALIGNS = 1024,
  CALLOCS = 2048,
  /* the subject has a heap that it is about to use or to give back, beside its own */
  HEAP_IN_HAND = 256,
  PASSES_OVER = 128, /* a range of slices is nobody's for ever */
  /* another thread has died and left its heap, which no copy of the process can know */
  OTHER_DIED = 4096,
  /* a first-class heap is lost with the subject, and all that is in it */
  WITH_HEAP = 32,
  /* others' calls are sampled too, and what the unwinder does is not counted */
  IS_SAMPLED = 16384,
  LANE_LEFT = 8192, /* ... and so it is whatever happens: a thread has left a lane */
  /* every byte of a block is written to, as option fill wants it: others use no blocks above MiB */
  FILLS = 32768,
  MOVES_TRACE = 65536, /* begins or ends the trace: it is not yet what it will be */
};

/* instructions after the first one of a call that is interrupted */
enum { WELL_INSIDE = 80 };

extern const operation_t portable_operations[], freehold_operations[];
extern const size_t portable_operation_count, freehold_operation_count;
extern void *got[8];              /* by the operation */
void operation_give_blocks(void); /* by the subject */
/* Frees blocks that are not held any longer; what it had not come to is freed by the second. */
void free_in_turn(void **blocks, size_t n);
void free_rest_of_turn(void);
void limit_memory(bool is_limited); /* no further mapping; a copy is not limited */
void spend_memory(bool is_spent);   /* freehold's own limit is reached; nor is that a copy's */

/* ---- action.c -------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  void (*take)(void);   /* at the point, by the subject, in the copy */
  void (*helper)(void); /* from then on, by the helper */
  bool loses;           /* something may be lost, within bounds */
  bool portable;
  bool when_changed; /* only where what others can see is not what it was at the last point */
  bool by_signal;    /* by a handler: not where the subject gets no signals */
} action_t;
extern const action_t actions[];
extern const size_t action_count;
void action_start(void); /* after the library was loaded */
bool action_suits(const action_t *action, const operation_t *operation);
/* Runs the operation in steps; the end of a thread begins when the caller's thread ends. */
void action_run_subject(const operation_t *operation, step_point_t *at_point);

/* ---- oracle.c -------------------------------------------------------------------------------- */

typedef struct {
  uint64_t heaps, slabs, slices, blocks, large;
} loss_t;
void oracle_load(void);
void oracle_touch(void);               /* reads what copies will read, so that it is mapped */
uint64_t oracle_digest(void);          /* of all that a thread may find that another has changed */
bool oracle_bin_is_empty(size_t size); /* does the caller's next malloc have to refill it? */
bool oracle_class_is_used_up(size_t size); /* ... out of a slab that it does not own yet? */
bool oracle_heap_is_used_up(fh_heap_t *heap, size_t size);
bool oracle_pool_is_empty(void);           /* the next heap needs a mapping */
uintptr_t oracle_arena_end(const void *p); /* where the arena of block `p` grows next */
/* is the caller's next free of another's block remembered, no more? */
bool oracle_is_chained(const void *p);
bool oracle_magazine_is_empty(void); /* the caller's */
bool oracle_heap_is_marked(void);    /* the caller's, by a fast operation */
bool oracle_heap_is_busy(void);      /* the caller's, by any other */
extern size_t blocks_in_hand;        /* that are to be freed: of a batch more than one */
void oracle_check_own_heap(void);    /* the calling thread has it alone */
void oracle_note_own_heap(void);     /* as if it had begun in this process */
void oracle_forget_own_heap(void);   /* as if no thread had it */
size_t oracle_traced(void);          /* bytes of the chunk to which the caller's trace goes */
/* heaps of threads that end let go of everything */
void oracle_let_nobody_rest(void);
void oracle_enter_lane(fh_heap_t *heap); /* as if a thread were inside its first lane */
void oracle_leave_lane(void);            /* which it had entered */
bool oracle_lane_is_due(void);           /* does it have bins to give back, when next left? */
/* as if the caller had taken as many blocks as its heap can count */
void oracle_note_binned(size_t size);
/* With its next block the heap tries again to own slabs of a class whose blocks others free. */
void oracle_note_trial_due(size_t size);
/* The span of block p is said to have so many pages in a row, and has not. */
void oracle_note_stale_room(const void *p, unsigned pages);
/* With its next bin the heap looks which blocks of the returned list lie in sparse slabs. */
void oracle_note_sift_due(size_t size);
/* The next sampled block of that size comes behind so many others, once the bin is empty. */
void oracle_sample_after(size_t size, unsigned blocks, size_t interval);
/* At the end of its next slow call the heap trims the last of its classes. */
void oracle_note_last_trim_due(void);
/* At the end of its next slow call the heap looks at the clock, and how short memory is. */
void oracle_note_look_due(void);
/* Does the subject take what sleepers keep? In a copy, which finds nobody at it, it goes on. */
bool oracle_is_taking(void);
void oracle_go_on_taking(void);
/* The caller's last free was in another window than any. */
void oracle_note_other_window(void);
/* The next free of a run looks how many pages are free. */
void oracle_note_look_at_runs_due(void);
bool oracle_keeps_runs(void); /* does the thread's heap keep any? */
/* Of the caller's own heap. Its outbox gets wide, or takes chains again, when so many more frees
 * have found no slot. It is wide. The next refill ends it, or a round of its slots in which few had
 * chains. It takes no new chains. */
void oracle_note_crowded(unsigned frees);
void oracle_check_wide(void);
void oracle_note_wide_ends(void);
void oracle_note_round_ends(void);
void oracle_note_wide_closes(void);
void oracle_note_taken(void); /* the caller's own heap, by a thread that does no more */
/* ... and whether it has used that class since it began to watch it. */
void oracle_note_watch_due(size_t size);
void oracle_note_request_over(void);       /* it was long ago */
size_t oracle_memory_in_use(void);         /* bytes that count for memory_limit */
void oracle_note_pressure(unsigned level); /* as the last look found it */
/* As the command `freehold` asks from outside. */
void oracle_ask_for_memory(void);
void oracle_ask_for_samples(size_t interval);
void oracle_note_container(size_t limit, size_t room, bool is_short);
void oracle_note_lost_reader(void); /* one that has been at the container's files for long */
/* Moments: the caller ... */
/* is about to swap the word of the first places for heaps */
bool oracle_would_claim_heap(void);
bool oracle_is_lane_collected(fh_heap_t *heap); /* ... is collecting in the heap's first lane */
/* ... the word that says who stands in for its heap */
bool oracle_would_attach_nested(void);
/* ... a word of the bitmap of block p's arena */
bool oracle_would_claim_slices(const void *p);
bool oracle_would_grow(const void *p);       /* ... how much of that arena is mapped */
bool oracle_would_cas_anchor(const void *p); /* ... the anchor of block p's slab */
bool oracle_has_window_claimed(void);        /* has claimed a window and not said what for */
bool oracle_has_slab(const void *p);         /* owns block p's slab */
/* that slab is partial, and its bit is not set */
bool oracle_has_to_publish(const void *p);
bool oracle_hint_is_gone(const void *p); /* the hint for such slabs is clear */
/* Everything was freed and collected, and no other thread runs: all is valid, and nothing left, or
 * what may be lost. LOSS_RANGE: a range of slices. The others: what a lost thread may cost, one
 * that was moving a block, one with a further heap in its hands, or a lost first-class heap as
 * well. */
typedef enum { LOSS_NONE, LOSS_RANGE, LOSS_THREAD, LOSS_MOVE, LOSS_IN_HAND, LOSS_HEAP } loss_kind_t;
void oracle_check(loss_kind_t may_lose);
void oracle_check_structures(void); /* valid, whatever was lost */

/* ---- traced.c -------------------------------------------------------------------------------- */

void traced_load(void);
void traced_name(void); /* by the original, once: the file of the traces to come */
void traced_start(void);
void traced_stop(void);
/* Before a copy is made; in the original after that, and in the copy. */
void traced_keep(void);
void traced_kept(void);
void traced_adopt(bool subject_is_lost);
/* By the helper, when the subject has ended: what it does is recorded if there is a trace, and that
 * can be ended, and another one begin. `moves`: the subject was about to begin or end it. */
void traced_check(bool moves);

/* Memory that all copies share. */
typedef struct {
  loss_t worst_loss;
  unsigned counted_rounds;
} shared_t;
extern shared_t *shared;
void *shared_memory(size_t size);

/* So many threads die; prints what each costs; 0 if that is within the bound, else 1. */
int deaths(unsigned threads);

#endif
