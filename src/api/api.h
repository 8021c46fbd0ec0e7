/* api.h - what the files of the top layer share                                        layer 8: api
 * Owns:    nothing.     Called by: api alone.     Calls: start.c.
 * Threads: any, all functions. Sync: S-options (start.c). */
#pragma once

/* Almost all files of the layer need these; they include the rest themselves. */
#include "../../include/freehold/freehold.h"
#include "../arena/budget.h"
#include "../base/atomic.h"
#include "../base/fmt.h"
#include "../heap/fits.h"
#include "../heap/resize.h"
#include "../os/os.h"
#include "../secure/secure.h"
#include "../support/options.h"

/* One function by a second name. macOS has no aliases: there the second name is the only one, as
 * the first is libSystem's (macos.c). */
#if !defined(__APPLE__)
#define TWIN(name) FH_API __attribute__((alias(#name), copy(name)))
#else
#define TWIN(name) FH_API
#define FIRST_NAME(name) extern __typeof__(fh_##name) name __asm__("_fh_" #name)
FIRST_NAME(malloc);
FIRST_NAME(calloc);
FIRST_NAME(realloc);
FIRST_NAME(reallocarray);
FIRST_NAME(free);
FIRST_NAME(free_sized);
FIRST_NAME(free_aligned_sized);
FIRST_NAME(aligned_alloc);
FIRST_NAME(posix_memalign);
#endif

/* Loads the options and sets the reporter of `fatal`; any call after the first does nothing. The
 * first, by use or constructor, may happen in two threads and a signal handler at once. */
hidden void api_start_now(void);
hidden void api_close(void);
/* The opposite, unless an option wants to see every call. */
hidden void api_open(void);
/* Closed: an option wants to see every call, so each goes through closed.c. */
typedef enum { API_UNKNOWN, API_OPEN, API_CLOSED } api_state_t;
extern hidden atomic32_t api_started; /* api_state_t */
static inline void api_start(void) {
  if (unlikely(!atomic32_load_acquire(&api_started))) api_start_now(); /* S-options */
}

static inline bool api_is_open(void) {
  return atomic32_load_acquire(&api_started) == API_OPEN; /* S-options */
}
static inline bool api_is_closed(void) {
  return atomic32_load_acquire(&api_started) == API_CLOSED; /* S-options */
}

/* Sends whole lines of text to the output callback, or to standard error. */
hidden void api_output(const char *text, size_t length);

/* Calls the error callback, if there is one and it is not running already. */
hidden void api_error(int error);

/* `fatal` with a size that is no address. */
_Noreturn hidden void api_fatal_size(const char *what, size_t size, const char *call);
/* NULL with ENOMEM, after the error callback. */
hidden void *api_no_memory(void);
/* Likewise; with `abort_on_oom` the process ends with a line that names both arguments. `size`:
 * SIZE_MAX if a product overflowed. */
hidden void *api_no_memory_for(size_t size, const char *call);
/* NULL with EINVAL. */
hidden void *api_invalid(void);
/* Calls the callback for deferred work, if there is one and it is not running already. */
hidden void api_deferred(bool force);
/* Is there news, and may this thread report it? If so, no other thread will. */
hidden bool api_take_news(void);
/* Reports the budget's news: by the callback for pressure, or in a line about the container's
 * files. */
hidden void api_report_news(void);
/* Takes the news, answers a request of the command, and reports. Called where no heap is marked. */
hidden void api_news(void);
static always_inline bool api_has_news(void) { return atomic32_load_relaxed(&budget.news) != 0; }
static always_inline void api_look_for_news(void) {
  if (unlikely(api_has_news())) api_news();
}
hidden void api_sampled(void *block, size_t size, uint64_t bytes, bool is_freed);

typedef enum {
  CALLBACK_OUTPUT,
  CALLBACK_ERROR,
  CALLBACK_DEFERRED,
  CALLBACK_PRESSURE,
  CALLBACK_SAMPLED,
  CALLBACK_FREED,
  CALLBACK_COUNT
} callback_t;
hidden void api_callback_set(callback_t which, void *function, void *context);

/* For a block of libc's own heap; `fatal` if it is not one. */
hidden void api_foreign_free(void *p, const char *call);
hidden size_t api_foreign_size(const void *p, const char *call);
/* `block`, of `size` bytes, takes its place and is returned; NULL: the old block stays. */
hidden void *api_foreign_move(void *p, void *block, size_t size, const char *call);

/* Any call, when an option wants to see all calls or the fast path refuses this one (closed.c).
 * `heap`: a first-class one, or NULL. Blocks for calloc are not cleared yet. */
struct fh_heap;
hidden void *api_closed_allocate(struct fh_heap *heap, size_t alignment, size_t size,
                                 origin_t origin, bool is_calloc, const char *call);
hidden void *api_closed_realloc(struct fh_heap *heap, void *p, size_t size, const char *call);
hidden void api_closed_free(void *p, origin_t origin, const char *call);
hidden void api_closed_expanded(void *p, size_t size, bool is_done);
hidden void api_closed_heap_ends(struct fh_heap *heap, bool is_destroyed);

/* The fast paths, or in the secure grade the checking ones. */
static always_inline void *api_malloc_or(size_t size, origin_t origin, void *(*slow)(size_t size)) {
  return SECURE ? secure_malloc(size, origin, slow) : fast_malloc_or(size, slow);
}
static always_inline void *api_aligned_or(size_t alignment, size_t size, origin_t origin,
                                          void *(*slow)(size_t alignment, size_t size)) {
  if (!SECURE) return fast_aligned_or(alignment, size, slow);
  void *block = secure_aligned(alignment, size, origin);
  return likely(block != NULL) ? block : slow(alignment, size);
}

static always_inline void api_free_or(void *p, origin_t origin, const char *call,
                                      void (*slow)(void *p)) {
  if (!SECURE) return fast_free_or(p, false, slow);
  slab_t *s = fast_slab_here(p);
  if (unlikely(s == NULL)) return api_closed_free(p, origin, call);
  secure_free_small(s, p, SECURE_ANY_SIZE, origin, call);
}

/* What the entry points do when the fast path ends. */
hidden void *api_malloc_slow(size_t size);
hidden void *api_calloc_slow(size_t size); /* not cleared */
hidden void *api_aligned_slow(size_t alignment, size_t size, origin_t origin, const char *call);
hidden void *api_realloc(void *p, size_t size, const char *call);
hidden void api_free(void *p, const char *call);
hidden void api_free_slow(void *p);
hidden size_t api_usable_size(const void *p, const char *call);

/* Writes "freehold: <what>: <address> in <call>()", followed by what is known of the block. Calls
 * the error callback with EFAULT and aborts. */
_Noreturn hidden void api_fatal(const char *what, const void *address, const char *call);
/* Writes the block around `p`, live or free, if known. For a double free with rings: also who freed
 * it before, and where. Then, or with a profile on: also where the caller is, and where the block
 * was allocated if it is sampled. */
hidden void api_put_block(fmt_t *out, const char *what, const void *p);

/* A block allocated with an alignment must be freed with the same one. */
static always_inline void api_check_alignment(const void *p, size_t alignment, const char *call) {
  if (unlikely(((uintptr_t)p & (alignment - 1)) != 0)) fatal("wrong alignment", p, call);
}

/* Do what the option `profile` asks for, at load and at exit. */
hidden void api_profile_start(void);
hidden void api_profile_end(void);
/* Does what the option `guard_interval` asks for, at load. */
hidden void api_guard_start(void);
/* Begin and end a trace at run time: 0, or errno. */
hidden int api_trace_begin(const char *path);
hidden int api_trace_stop(void);
/* Do what the option `trace` asks for. */
hidden void api_trace_start(void);
hidden void api_trace_end(void);
/* Writes a line about an option whose `value` is a file name. */
hidden void api_report_mistake(option_t option, const char *value, const char *what);
/* False: no memory, or a write has failed. */
hidden bool api_profile_write(int file, fh_profile_t kind);

/* Write what the option `verbose` asks for; the statistics, at exit with what was not freed. */
hidden void api_report_at_load(void);
hidden void api_report(bool json, bool at_exit);
/* Write these figures. */
hidden void api_report_text(fmt_t *f, const fh_stats_t *s, bool at_exit);
hidden void api_report_json(fmt_t *f, const fh_stats_t *s);

/* Looks up libc's own functions; in a constructor, because the dynamic linker takes locks. */
hidden void api_foreign_start(void);
/* Finds out which C++ operators the program has replaced; once all names are bound. */
hidden void api_operators_start(void);
