/* answer.c - does what the command `freehold` asks of the process                      layer 8: api
 * Owns:    nothing.   Called by: whoever finds news.
 *          Calls: callback.c, tracing.c, stock, arena, support, os.
 * Threads: any, and signal handlers. No heap is marked.
 * Sync:    S-asked (asked.h). */
#include "api.h"

#include <errno.h>

#include "../../include/freehold/freehold.h"
#include "../stock/sample.h"
#include "../support/asked.h"

static int set_option(const char *name, int64_t value) {
  option_t option = option_find(name, strlen(name));
  return option != OPTION_COUNT && option_set(option, value) ? 0 : EINVAL;
}

/* 0, or errno. */
static int fulfil(asked_kind_t kind) {
  uint64_t value = atomic64_load_relaxed(&asked_request.value);
  asked_request.text[sizeof asked_request.text - 1] = '\0';
  if (os_is_raised()) return EPERM;
  switch (kind) {
    case ASKED_TRACE: return api_trace_begin(asked_request.text);
    case ASKED_NO_TRACE: return api_trace_stop();
    case ASKED_SAMPLES: return sample_start(value) ? 0 : ENOMEM;
    case ASKED_OPTION: return set_option(asked_request.text, (int64_t)value);
    case ASKED_TRIM: return budget_ask(), 0;
    default: return EINVAL;
  }
}

/* Of the threads that find the request, one answers. */
static void take_request(void) {
  uint64_t wanted = atomic64_load_acquire(&asked_request.wanted); /* S-asked */
  uint32_t number = asked_number(wanted);
  uint64_t taken = asked_word(number, ASKED_TAKEN);
  asked_kind_t kind = (asked_kind_t)(uint32_t)wanted;
  if (kind == ASKED_NOTHING || kind == ASKED_TAKEN) return;
  if (atomic32_load_relaxed(&asked_request.process) != os_process()) return; /* a parent's */
  if (!atomic64_cas_relaxed(&asked_request.wanted, &wanted, taken)) return;
  uint64_t answer = asked_word(number, (uint32_t)fulfil(kind));
  if (atomic64_load_relaxed(&asked_request.wanted) != taken) return; /* another took its place */
  atomic64_store_release(&asked_request.answer, answer);             /* S-asked */
  atomic64_cas_relaxed(&asked_request.wanted, &taken, asked_word(number, ASKED_NOTHING));
}

/* The request comes first, as a callback may never return. */
cold void api_news(void) {
  if (!api_take_news()) return;
  take_request();
  api_report_news();
}
