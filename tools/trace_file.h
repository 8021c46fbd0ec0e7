/* trace_file.h - a trace, read in the order of time
 * Owns:    trace_file_t.   Called by: trace.c, trace_sums.c, the laboratory's native programs.
 *          Calls: support/trace.h for the format, libc.
 * Memory:  a cursor of 152 bytes for each chunk of 64 KiB, and a word or two for each thread whose
 *          place is asked for. The file is mapped; of its pages those stay in memory that some
 *          thread was writing at the moment that is read. */
#ifndef TOOLS_TRACE_FILE_H
#define TOOLS_TRACE_FILE_H

#include "../src/support/trace.h"

typedef struct {
  trace_reader_t reader;
  trace_event_t next;
} trace_cursor_t;

typedef struct {
  const char *bytes;
  size_t size, chunks;
  const trace_head_t *head;
  trace_cursor_t *cursors; /* a heap by the time of `next` */
  size_t in_hand;
  bool is_cut;              /* something in it cannot be read */
  struct {                  /* the places of threads, by their serials */
    uint32_t serial, place; /* place: from 1; 0: none is here */
  } * threads;
  size_t room, thread_count;
} trace_file_t;

extern const char *const trace_kind_text[]; /* what each `trace_kind_t` is called */

/* NULL, or what is wrong with the file. */
const char *trace_file_open(trace_file_t *f, const char *path);
/* From the first event on, again. NULL, or what is wrong. */
const char *trace_file_rewind(trace_file_t *f);
bool trace_file_next(trace_file_t *f, trace_event_t *e); /* false: that was all */
/* The place of the event's thread among all that were asked for, from 0. A new one's is what
 * `thread_count` was. A rewind changes no place. SIZE_MAX: no memory. */
size_t trace_file_place(trace_file_t *f, const trace_event_t *e);

#endif
