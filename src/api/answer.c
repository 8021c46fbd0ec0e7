/* answer.c - does what the command `freehold` asks of the process                      layer 8: api
 * Owns:    nothing.   Called by: whoever finds news.
 *          Calls: callback.c, tracing.c, stock, arena, support, os.
 * Threads: any; also a signal handler's, in the midst of its calls. No heap is marked.
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
  uint64_t value = atomic64_load_relaxed(&outside_request.value);
  outside_request.text[sizeof outside_request.text - 1] = '\0';
  if (os_is_raised()) return EPERM;
  switch (kind) {
    case ASKED_TRACE: return api_trace_begin(outside_request.text);
    case ASKED_NO_TRACE: return api_trace_stop();
    case ASKED_SAMPLES: return sample_start(value) ? 0 : ENOMEM;
    case ASKED_OPTION: return set_option(outside_request.text, (int64_t)value);
    case ASKED_TRIM: return budget_ask(), 0;
    default: return EINVAL;
  }
}

/* One of the threads that find it answers. */
static void take_request(void) {
  uint32_t wanted =
    atomic32_load_relaxed(&outside_request.wanted); /* relaxed: the swap reads again */
  if (wanted == ASKED_NOTHING) return;
  if (atomic32_load_relaxed(&outside_request.process) != os_process()) return; /* a parent's */
  if (!atomic32_cas_acquire(&outside_request.wanted, &wanted, ASKED_NOTHING)) return; /* S-asked */
  uint32_t number = atomic32_load_relaxed(&outside_request.number);
  atomic32_store_relaxed(&outside_request.error, (uint32_t)fulfil((asked_kind_t)wanted));
  atomic32_store_release(&outside_request.answered, number); /* S-asked */
}

cold void api_news(void) {
  if (api_report_news()) take_request();
}
