/* memory.cc - memory as the C11 standard has it: what the instrumented code calls at each
 * access, answered by Relacy
 *
 * Relacy keeps, for each atomic word, its last three values with the vector clocks of their
 * writers, and for each plain datum the clocks of its last readers and writers. It picks the thread
 * that goes on and the value that a load finds. The words themselves lie where the code under test
 * has them: an address is looked up here at each access. What one execution wrote is undone before
 * the next one. */
#include <relacy/relacy.hpp>
#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef errno

#include <stdio.h>
#include <stdlib.h>

#include "checker.h"

namespace {

enum { TABLE_SIZE = 1 << 14, RANGES_MOST = 16, LOCAL_MOST = 64 };
enum { STACK_SIZE = 64 << 10, DEPTH_MOST = 20000 };

struct plain_t { /* eight bytes that are accessed plainly, in parts of two */
  uintptr_t at;
  uint32_t execution;
  rl::var_data *part[4];
  uint64_t original;
};

struct word_t {
  uintptr_t at;
  uint32_t execution;
  unsigned size;
  bool is_ignored, is_kept_together;
  rl::atomic_data *state;
  uint64_t value[rl::atomic_history_size], latest, original;
};

struct range_t {
  uintptr_t from, to;
  bool has(uintptr_t p) const { return p - from < to - from; }
};

struct ranges_t {
  range_t range[RANGES_MOST];
  unsigned count;
  void add(const void *from, size_t size) {
    if (count == RANGES_MOST) abort();
    range[count++] = {(uintptr_t)from, (uintptr_t)from + size};
  }
  bool have(uintptr_t p) const {
    for (unsigned i = 0; i < count; i++)
      if (range[i].has(p)) return true;
    return false;
  }
};

/* The entries of one execution; those of earlier ones count as empty. */
template <typename entry_t> struct table_t {
  entry_t entry[TABLE_SIZE];
  unsigned used[TABLE_SIZE / 2], count;

  entry_t *find(uintptr_t at, uint32_t execution, bool *is_new) {
    for (size_t i = at * 0x9E3779B97F4A7C15u >> 50;; i = (i + 1) % TABLE_SIZE) {
      entry_t *e = &entry[i];
      *is_new = e->execution != execution;
      if (!*is_new && e->at != at) continue;
      if (!*is_new) return e;
      if (count == TABLE_SIZE / 2) abort();
      used[count++] = (unsigned)i;
      *e = entry_t();
      e->at = at;
      e->execution = execution;
      return e;
    }
  }
};

table_t<plain_t> plains;
table_t<word_t> words;
uint32_t execution;
ranges_t ignored, kept_together;
struct {
  range_t range;
  rl::var_data *birth;
} mappings[RANGES_MOST];
unsigned mapping_count;
site_t *current_site;
void *thread_local_words;
size_t thread_local_size;
char failure[sizeof(verdict_t::what)];
void (*begin_word)(rl::atomic_data *state);
void (*order_discard)(bool is_before);

const char *const order_names[] = {"relaxed", "consume", "acquire",
                                   "release", "acq_rel", "seq_cst"};

template <typename... values>
[[noreturn]] void fail(rl::test_result_e kind, const char *format, values... v) {
  snprintf(failure, sizeof failure, format, v...);
  rl::ctx().fail_test(failure, kind, RL_INFO);
  abort();
}

template <typename... values> void log(const char *format, values... v) {
  char line[200];
  if (!rl::ctx().collecting_history()) return;
  snprintf(line, sizeof line, format, v...);
  rl::ctx().exec_log_msg(RL_INFO, line);
}

rl::thread_info_base &me() { return *rl::ctx().threadx_; }

/* ---- plain accesses -------------------------------------------------------------------------- */

bool is_on_stack(uintptr_t at) {
  return at - ((uintptr_t)__builtin_frame_address(0) - STACK_SIZE) < 2 * STACK_SIZE;
}

void check_birth(uintptr_t at) {
  for (unsigned i = 0; i < mapping_count; i++)
    if (mappings[i].range.has(at) && !mappings[i].birth->load(me()))
      fail(rl::test_result_data_race, "memory at %#lx is used by a thread that cannot know of it",
           at);
}

plain_t *plain_at(uintptr_t at) {
  bool is_new;
  plain_t *p = plains.find(at & ~(uintptr_t)7, execution, &is_new);
  if (is_new) p->original = *(uint64_t *)p->at;
  return p;
}

void access(uintptr_t at, size_t size, bool is_store, uintptr_t code) {
  if (is_on_stack(at) || ignored.have(at)) return;
  check_birth(at);
  for (uintptr_t part = at & ~(uintptr_t)1; part < at + size; part += 2) {
    rl::var_data *&state = plain_at(part)->part[part % 8 / 2];
    if (state == NULL) state = rl::ctx().var_ctor();
    if (is_store ? state->store(me()) : state->load(me())) continue;
    fail(rl::test_result_data_race, "data race at %#lx, code %#lx", at, code);
  }
  log("plain %s at %#lx, %lu bytes, code %#lx", is_store ? "store" : "load", at, size, code);
}

/* ---- atomic accesses ------------------------------------------------------------------------- */

/* Processors on which the low bytes of a number come first. */
uint64_t read_memory(const word_t *w) {
  uint64_t value = 0;
  memcpy(&value, (void *)w->at, w->size);
  return value;
}
void write_memory(const word_t *w, uint64_t value) { memcpy((void *)w->at, &value, w->size); }

void begin_words_life(word_t *w) {
  w->latest = read_memory(w);
  w->state = rl::ctx().atomic_ctor(w);
  begin_word(w->state);
  for (uint64_t &value : w->value) value = w->latest;
}

word_t *word_at(const volatile void *at, unsigned size) {
  bool is_new;
  word_t *w = words.find((uintptr_t)at, execution, &is_new);
  if (is_new) {
    w->size = size;
    w->original = read_memory(w);
    w->is_ignored = ignored.have(w->at);
    w->is_kept_together = kept_together.have(w->at);
    if (!w->is_ignored) begin_words_life(w);
  } else if (!w->is_ignored && read_memory(w) != w->latest) {
    /* A plain store, such as the program's into its block: it must be known here. */
    access(w->at, size, false, (uintptr_t)at);
    rl::ctx().atomic_dtor(w->state);
    begin_words_life(w);
  }
  return w;
}

/* The order in force at this operation, and when it fails; the site that announced it is used
 * up. */
struct orders_t {
  int order, failure;
  orders_t(int order, int failure = __ATOMIC_RELAXED) : order(order), failure(failure) {
    site_t *site = current_site;
    current_site = NULL;
    if (site == NULL) {
      if (order != __ATOMIC_RELAXED)
        fail(rl::test_result_user_assert_failed, "an order that sites.h does not announce");
      return;
    }
    site->written = order;
    site->written_failure = failure;
    if (site->order != ORDER_AS_WRITTEN) this->order = site->order;
    if (site->failure != ORDER_AS_WRITTEN) this->failure = site->failure;
  }
};

/* All threads of an execution run on one of the system's, so that what is local to a
 * thread is put aside. */
void let_others_run(const word_t *w) {
  char mine[LOCAL_MOST];
  memcpy(mine, thread_local_words, thread_local_size);
  rl::ctx().sched();
  order_discard(false);
  memcpy(thread_local_words, mine, thread_local_size);
  check_birth(w->at);
}

unsigned load_state(word_t *w, int order, bool is_latest) {
  rl::thread_info_base &t = me();
  switch (order) {
    case __ATOMIC_RELAXED:
      return is_latest ? t.atomic_load_relaxed_rmw(w->state) : t.atomic_load_relaxed(w->state);
    case __ATOMIC_SEQ_CST:
      return is_latest ? t.atomic_load_seq_cst_rmw(w->state) : t.atomic_load_seq_cst(w->state);
    default:
      return is_latest ? t.atomic_load_acquire_rmw(w->state) : t.atomic_load_acquire(w->state);
  }
}

unsigned store_state(word_t *w, int order) {
  switch (order) {
    case __ATOMIC_RELAXED: return me().atomic_store_relaxed(w->state);
    case __ATOMIC_SEQ_CST: return me().atomic_store_seq_cst(w->state);
    default: return me().atomic_store_release(w->state);
  }
}

unsigned change_state(word_t *w, int order) {
  bool aba;
  switch (order) {
    case __ATOMIC_RELAXED: return me().atomic_rmw_relaxed(w->state, aba);
    case __ATOMIC_ACQUIRE: return me().atomic_rmw_acquire(w->state, aba);
    case __ATOMIC_RELEASE: return me().atomic_rmw_release(w->state, aba);
    case __ATOMIC_ACQ_REL: return me().atomic_rmw_acq_rel(w->state, aba);
    default: return me().atomic_rmw_seq_cst(w->state, aba);
  }
}

void put(word_t *w, unsigned index, uint64_t value) {
  w->value[index] = w->latest = value;
  write_memory(w, value);
}

uint64_t load(const volatile void *at, unsigned size, int written) {
  orders_t orders(written);
  word_t *w = word_at(at, size);
  if (w->is_ignored) return read_memory(w);
  if (!w->is_kept_together) let_others_run(w);
  uint64_t value = w->value[load_state(w, orders.order, false)];
  log("load %#lx: %#lx%s, %s", w->at, value, value == w->latest ? "" : " (old)",
      order_names[orders.order]);
  return value;
}

void store(volatile void *at, unsigned size, uint64_t value, int written) {
  orders_t orders(written);
  word_t *w = word_at(at, size);
  if (w->is_ignored) return write_memory(w, value);
  if (!w->is_kept_together) let_others_run(w);
  put(w, store_state(w, orders.order), value);
  log("store %#lx: %#lx, %s", w->at, value, order_names[orders.order]);
}

template <typename change_t>
uint64_t change(volatile void *at, unsigned size, int written, change_t changed) {
  orders_t orders(written);
  word_t *w = word_at(at, size);
  if (w->is_ignored) {
    uint64_t old = read_memory(w);
    write_memory(w, changed(old));
    return old;
  }
  let_others_run(w);
  uint64_t old = w->latest;
  put(w, change_state(w, orders.order), changed(old));
  log("change %#lx: %#lx to %#lx, %s", w->at, old, w->latest, order_names[orders.order]);
  return old;
}

bool cas(volatile void *at, unsigned size, uint64_t *seen, uint64_t value, int written,
         int written_failure) {
  orders_t orders(written, written_failure);
  word_t *w = word_at(at, size);
  uint64_t old = w->is_ignored ? read_memory(w) : (let_others_run(w), w->latest);
  bool is_same = old == *seen;
  *seen = old;
  if (w->is_ignored) {
    if (is_same) write_memory(w, value);
    return is_same;
  }
  if (is_same) put(w, change_state(w, orders.order), value);
  else load_state(w, orders.failure, true);
  log(is_same ? "cas %#lx: %#lx to %#lx, %s" : "cas %#lx fails: %#lx, not to %#lx, %s", w->at, old,
      value, order_names[is_same ? orders.order : orders.failure]);
  return is_same;
}

/* ---- one execution --------------------------------------------------------------------------- */

void begin_execution() {
  for (unsigned i = 0; i < plains.count; i++) {
    plain_t *p = &plains.entry[plains.used[i]];
    /* constants are in memory that cannot be written */
    if (*(uint64_t *)p->at != p->original) *(uint64_t *)p->at = p->original;
  }
  for (unsigned i = 0; i < words.count; i++)
    write_memory(&words.entry[words.used[i]], words.entry[words.used[i]].original);
  plains.count = words.count = mapping_count = kept_together.count = 0;
  current_site = NULL;
  execution++;
}

void end_execution() {
  for (unsigned i = 0; i < plains.count; i++)
    for (rl::var_data *state : plains.entry[plains.used[i]].part)
      if (state != NULL) rl::ctx().var_dtor(state);
  for (unsigned i = 0; i < words.count; i++)
    if (words.entry[words.used[i]].state != NULL)
      rl::ctx().atomic_dtor(words.entry[words.used[i]].state);
  for (unsigned i = 0; i < mapping_count; i++) rl::ctx().var_dtor(mappings[i].birth);
}

const scenario_t *running;

template <unsigned count> struct suite_t : rl::test_suite<suite_t<count>, count> {
  /* A value that was there before the threads: every thread has seen nothing later. */
  static void begin_word_of(rl::atomic_data *state) {
    rl::atomic_data_impl<count> *data = static_cast<rl::atomic_data_impl<count> *>(state);
    unsigned index = me().atomic_init(state);
    for (rl::timestamp_t &seen : data->history_[index].first_seen_order_)
      seen = (rl::timestamp_t)-1;
  }
  /* What a thread has done before it discards memory comes before all that others do from then on.
   * The system stops them, or whoever touches such a page first takes the lock under which it
   * went. */
  static inline rl::sync_var<count> discards;
  static void order_discard_of(bool is_before) {
    if (is_before) discards.release(&me());
    else discards.acquire(&me());
  }
  void before() {
    begin_word = begin_word_of;
    order_discard = order_discard_of;
    discards.iteration_begin();
    memset(thread_local_words, 0, thread_local_size);
    begin_execution();
    running->before();
  }
  void thread(unsigned index) {
    memset(thread_local_words, 0, thread_local_size);
    running->thread(index);
  }
  void after() {
    memset(thread_local_words, 0, thread_local_size);
    running->after();
    end_execution();
  }
};

} /* namespace */

/* ---- for scenarios --------------------------------------------------------------------------- */

void checker_at(site_t *site) { current_site = site; }
void checker_ignore(const void *from, size_t size) { ignored.add(from, size); }
void checker_keep_together(const void *from, size_t size) {
  kept_together.add(from, size);
  for (unsigned i = 0; i < words.count; i++) {
    word_t *w = &words.entry[words.used[i]];
    w->is_kept_together = kept_together.have(w->at);
  }
}
void checker_fail(const char *what) { fail(rl::test_result_user_assert_failed, "%s", what); }
unsigned checker_choose(unsigned count) { return rl::rand(count); }

void checker_thread_local(void *from, size_t size) {
  if (size > LOCAL_MOST) abort();
  thread_local_words = from;
  thread_local_size = size;
  checker_ignore(from, size);
}

void checker_memory_changes(void *from, size_t size) {
  unsigned i = 0;
  while (i < mapping_count && mappings[i].range.from != (uintptr_t)from) i++;
  if (i == RANGES_MOST) abort();
  if (i == mapping_count) mappings[mapping_count++].birth = rl::ctx().var_ctor();
  mappings[i].range = {(uintptr_t)from, (uintptr_t)from + size};
  if (!mappings[i].birth->store(me()))
    fail(rl::test_result_data_race, "memory at %p is mapped or unmapped while it is in use", from);
}

void checker_memory_zeroed(void *from, size_t size) {
  range_t range = {(uintptr_t)from, (uintptr_t)from + size};
  order_discard(true);
  for (unsigned i = 0, count = plains.count; i < count; i++) {
    plain_t *p = &plains.entry[plains.used[i]];
    if (!range.has(p->at)) continue;
    access(p->at, 8, true, (uintptr_t)__builtin_return_address(0));
    *(uint64_t *)p->at = 0;
  }
  for (unsigned i = 0; i < words.count; i++) {
    const word_t *w = &words.entry[words.used[i]];
    if (!range.has(w->at)) continue;
    write_memory(w, 0);
    word_at((void *)w->at, w->size); /* 0 is its only value now, for every thread */
  }
}

verdict_t checker_search(const scenario_t *scenario, search_t search) {
  static const rl::scheduler_type_e kinds[] = {rl::sched_random, rl::sched_bound, rl::sched_full};
  std::ostream none(NULL);
  rl::test_params params;
  params.search_type = kinds[search.kind];
  params.context_bound = search.bound;
  params.iteration_count = search.executions;
  params.execution_depth_limit = DEPTH_MOST;
  params.output_stream = search.show ? &std::cout : &none;
  params.progress_stream = &none;
  running = scenario;
  failure[0] = 0;
  bool holds =
    scenario->threads == 2 ? rl::simulate<suite_t<2>>(params) : rl::simulate<suite_t<3>>(params);
  verdict_t verdict = {holds, params.stop_iteration, ""};
  if (!holds)
    snprintf(verdict.what, sizeof verdict.what, "%s",
             failure[0] != 0 ? failure : rl::test_result_str(params.test_result));
  return verdict;
}

/* ---- what the compiler calls ----------------------------------------------------------------- */

#define CODE ((uintptr_t)__builtin_return_address(0))
#define PLAIN(size)                                                                                \
  void __tsan_read##size(void *at) { access((uintptr_t)at, size, false, CODE); }                   \
  void __tsan_write##size(void *at) { access((uintptr_t)at, size, true, CODE); }                   \
  void __tsan_unaligned_read##size(void *at) { access((uintptr_t)at, size, false, CODE); }         \
  void __tsan_unaligned_write##size(void *at) { access((uintptr_t)at, size, true, CODE); }

#define ATOMIC(bits, type)                                                                         \
  type __tsan_atomic##bits##_load(const volatile type *at, int order) {                            \
    return (type)load(at, bits / 8, order);                                                        \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile type *at, type v, int order) {                         \
    store(at, bits / 8, v, order);                                                                 \
  }                                                                                                \
  type __tsan_atomic##bits##_exchange(volatile type *at, type v, int order) {                      \
    return (type)change(at, bits / 8, order, [v](uint64_t) { return (uint64_t)v; });               \
  }                                                                                                \
  type __tsan_atomic##bits##_fetch_add(volatile type *at, type v, int order) {                     \
    return (type)change(at, bits / 8, order,                                                       \
                        [v](uint64_t old) { return (uint64_t)(type)(old + v); });                  \
  }                                                                                                \
  type __tsan_atomic##bits##_fetch_or(volatile type *at, type v, int order) {                      \
    return (type)change(at, bits / 8, order, [v](uint64_t old) { return old | v; });               \
  }                                                                                                \
  type __tsan_atomic##bits##_fetch_and(volatile type *at, type v, int order) {                     \
    return (type)change(at, bits / 8, order, [v](uint64_t old) { return old & v; });               \
  }                                                                                                \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *seen, type v,        \
                                                     int order, int failure_order) {               \
    uint64_t wide = *seen;                                                                         \
    bool done = cas(at, bits / 8, &wide, v, order, failure_order);                                 \
    *seen = (type)wide;                                                                            \
    return done;                                                                                   \
  }

extern "C" {
void __tsan_init(void) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_atomic_signal_fence(int) {}
void __tsan_read_range(void *at, size_t size) { access((uintptr_t)at, size, false, CODE); }
void __tsan_write_range(void *at, size_t size) { access((uintptr_t)at, size, true, CODE); }
/* clang-format off */
PLAIN(1) PLAIN(2) PLAIN(4) PLAIN(8) PLAIN(16)
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t) /* clang-format on */
}
