/* asked.h - what the command `freehold` asks of a process                          layer 2: support
 * Owns:    asked_request.   Called by: answer.c, tools.   Calls: nothing.
 * Threads: any.
 * Sync:    S-asked  the command's writes, `wanted` last -> the thread that takes the request
 *                   (acquire); `answer` (release) -> the command, which reads it.
 *
 * The command writes a request into the process's memory: its text, value and process, then
 * `wanted`, and then budget.news. Some slow call finds it, and answers. Until then `wanted` says
 * ASKED_TAKEN, so that the command writes no other text. If the thread never answers, the next
 * request waits a while, then replaces this one. */
#pragma once

#include "../base/atomic.h"

typedef enum {
  ASKED_NOTHING,
  ASKED_TRACE, /* to the file `text` */
  ASKED_NO_TRACE,
  ASKED_SAMPLES, /* one block in `value` bytes; 0: none */
  ASKED_OPTION,  /* the option named `text` becomes `value` */
  ASKED_TRIM,    /* memory is short for a while: budget_ask */
  ASKED_TAKEN,   /* a thread is at work on it */
} asked_kind_t;

/* A request's number, which the command chooses, above `low`: the kind asked for, or the answer. */
static inline uint64_t asked_word(uint32_t number, uint32_t low) {
  return (uint64_t)number << 32 | low;
}
static inline uint32_t asked_number(uint64_t word) { return (uint32_t)(word >> 32); }

enum { ASKED_TEXT_MOST = 4096 };
typedef struct {
  atomic64_t wanted;  /* asked_word: asked_kind_t; S-asked */
  atomic64_t answer;  /* asked_word: an errno value, or 0: done; S-asked */
  atomic64_t value;   /* relaxed: before `wanted` */
  atomic32_t process; /* whom it is for, as children inherit it. relaxed: likewise */
  char text[ASKED_TEXT_MOST];
} asked_t;
extern hidden asked_t asked_request;
