/* pprof.h - writes profiles as pprof reads them: profile.proto                         layer 8: api
 * Owns:    nothing: a pprof_t is the caller's.   Called by: profile.c.   Calls: os.
 * Threads: one writer for each pprof_t; any number of these at once, also in signal handlers. No
 *          allocation: memory comes from the system. */
#pragma once

#include "../os/os.h"

typedef struct {
  uint64_t key; /* the number of its string */
  uint64_t value;
} pprof_label_t;

enum { PPROF_OUT = 32 << 10, PPROF_MESSAGE = 8 << 10, PPROF_MAPPINGS = 1024, PPROF_FRAMES = 256 };
typedef struct {
  int file;
  bool has_failed;
  uint64_t strings;   /* written so far */
  size_t value_types; /* likewise */
  size_t used;        /* bytes of `out` */
  size_t seen_size;   /* a power of two */
  size_t seen_count;
  struct {
    uintptr_t from, to;
  } mappings[PPROF_MAPPINGS]; /* number 1 first */
  size_t mapping_count;
  unsigned char out[PPROF_OUT], message[PPROF_MESSAGE];
  char text[OS_IMAGES_TEXT];
  uintptr_t seen[]; /* addresses that have a location: open addressing */
} pprof_t;

/* Not an address: marks the place between two stacks. */
#define PPROF_FREED_BY ((uintptr_t)1)

/* A profile to `file` with up to `frames` different addresses. NULL: no memory. */
hidden pprof_t *pprof_begin(int file, size_t frames);
/* The string's number. */
hidden uint64_t pprof_string(pprof_t *p, const char *text);
/* Says what the next value of each sample is. */
hidden void pprof_value_type(pprof_t *p, const char *type, const char *unit);
/* Up to PPROF_FRAMES frames; one value of each type. */
hidden void pprof_sample(pprof_t *p, const uintptr_t *frames, size_t count, const uint64_t *values,
                         const pprof_label_t *labels, size_t label_count);
/* `period`: bytes for each sample; `comment` may be NULL. False if not all could be written. Ends
 * `p`. */
hidden bool pprof_end(pprof_t *p, uint64_t period, const char *comment);
