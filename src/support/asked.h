/* asked.h - what the command `freehold` asks of a process                          layer 2: support
 * Owns:    asked_request.   Called by: answer.c, tools.   Calls: nothing.
 * Threads: any.
 * Sync:    S-asked  the command's writes, `wanted` last -> whoever takes the request (acquire);
 *                   `answer` (release) -> the command, which reads it.
 *
 * The command writes a request into the process's memory: its text, value and process, then the
 * word that asks, and then budget.news. Some slow call finds it, and answers. Meanwhile the word
 * says ASKED_TAKEN, so that the command writes no other text. Should the thread never come to the
 * answer, the next request waits a while, and takes its place. */
#pragma once

#include "../base/atomic.h"

typedef enum {
  ASKED_NOTHING,
  ASKED_TRACE, /* to the file `text` */
  ASKED_NO_TRACE,
  ASKED_SAMPLES, /* one block in `value` bytes; 0: none */
  ASKED_OPTION,  /* the one named `text` becomes `value` */
  ASKED_TRIM,    /* memory is short for a while: budget_ask */
  ASKED_TAKEN,   /* a thread is about it */
} asked_kind_t;

/* A request's number, which the command chooses, above what is asked or was answered. */
static inline uint64_t asked_word(uint32_t number, uint32_t low) {
  return (uint64_t)number << 32 | low;
}
static inline uint32_t asked_number(uint64_t word) { return (uint32_t)(word >> 32); }

enum { ASKED_TEXT_MOST = 4096 };
typedef struct {
  atomic64_t wanted;  /* asked_word: asked_kind_t; S-asked */
  atomic64_t answer;  /* asked_word: an error of errno's, or 0: it is done; S-asked */
  atomic64_t value;   /* relaxed: before `wanted` */
  atomic32_t process; /* whose it is: children inherit it. relaxed: likewise */
  char text[ASKED_TEXT_MOST];
} asked_t;
extern hidden asked_t asked_request;
