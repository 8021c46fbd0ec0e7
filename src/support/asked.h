/* asked.h - what the command `freehold` asks of a process                          layer 2: support
 * Owns:    outside_request.   Called by: answer.c, tools.   Calls: nothing.
 * Threads: any.
 * Sync:    S-asked  the command's writes, `wanted` last -> take_request (acquire);
 *                   take_request (release) -> the command, which reads `answered`.
 *
 * The command writes a request into the process's memory: its text, value and number, then what it
 * wants, and then budget.news. Some slow call finds it, and answers. */
#pragma once

#include "../base/atomic.h"

typedef enum {
  ASKED_NOTHING,
  ASKED_TRACE, /* to the file `text` */
  ASKED_NO_TRACE,
  ASKED_SAMPLES, /* one block in `value` bytes; 0: none */
  ASKED_OPTION,  /* the one named `text` becomes `value` */
  ASKED_TRIM,    /* memory is short for a while: budget_ask */
} asked_kind_t;

enum { ASKED_TEXT_MOST = 4096 };
typedef struct {
  atomic32_t wanted;           /* asked_kind_t; S-asked */
  atomic32_t process;          /* whose it is: children inherit it. relaxed: before `wanted` */
  atomic32_t number, answered; /* the same: that is the answer; S-asked */
  atomic32_t error;            /* errno's, or 0: done. relaxed: likewise */
  atomic64_t value;            /* relaxed: likewise */
  char text[ASKED_TEXT_MOST];
} asked_t;
extern hidden asked_t outside_request;
