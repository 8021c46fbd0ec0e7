/* fmt.h - text into a caller's buffer                                                 layer 0: base
 * Owns:    nothing.   Called by: os, support, secure, api, tools.
 *          Calls: the drain that the caller gave.
 * Threads: one writer to a fmt_t; any number of them at once. No allocation, no locale, no errno,
 *          no stdio: safe in a signal handler and after a detected corruption.
 * Holds:   T1 used < size: there is always room for the zero byte at the end (size 0: nothing is
 *             ever stored)
 *          T2 total == bytes ever appended, whether or not there was room for them */
#pragma once

#include "base.h"

#if __SIZEOF_LONG__ == 8 && !defined(__APPLE__)
#define FMT_CHECKED __attribute__((format(printf, 2, 3)))
#else /* %lu has 64 bits all the same */
#define FMT_CHECKED
#endif

/* Takes text away when the buffer is full: whole lines, unless one line alone fills the buffer. */
typedef void fmt_drain_t(const char *text, size_t length, void *context);

typedef struct {
  char *text;         /* const */
  size_t size;        /* const: bytes at `text` */
  fmt_drain_t *drain; /* const; NULL: text that does not fit is cut */
  void *context;      /* const: the drain's */
  size_t used;        /* bytes of `text` written and not yet drained */
  size_t total;       /* bytes appended since the start */
} fmt_t;

hidden void fmt_start(fmt_t *f, char *text, size_t size, fmt_drain_t *drain, void *context);
hidden void fmt_flush(fmt_t *f);      /* hands the drain the rest */
hidden const char *fmt_end(fmt_t *f); /* adds the zero byte; "" if the size is 0 */
hidden bool fmt_is_valid(const fmt_t *f);

/* ---- appending ---- */
hidden void fmt_bytes(fmt_t *f, const char *text, size_t length);
hidden void fmt_text(fmt_t *f, const char *text);
/* Like printf: %s, %c, %p, %u, %lu and %#lx. A width, which may be *, aligns %lu right and %-s
 * left; nothing is cut. */
FMT_CHECKED hidden void fmt_print(fmt_t *f, const char *format, ...);
hidden void fmt_char(fmt_t *f, char c);
hidden void fmt_spaces(fmt_t *f, size_t count);
hidden void fmt_decimal(fmt_t *f, uint64_t n);
hidden void fmt_signed(fmt_t *f, int64_t n);
hidden void fmt_hex(fmt_t *f, uint64_t n);                                      /* 0x7f00 */
hidden void fmt_hex_bytes(fmt_t *f, const unsigned char *bytes, size_t length); /* 7f00 */
hidden void fmt_size(fmt_t *f, uint64_t bytes);       /* 512, 64.0K, 1.5G: by 1024 */
hidden void fmt_exact_size(fmt_t *f, uint64_t bytes); /* 50000, 64K, 1G: loses nothing */
hidden void fmt_percent(fmt_t *f, uint64_t part, uint64_t whole); /* 12.5%; - of nothing */

/* Others' text in a message: control characters become '?', anything beyond `limit` bytes "...". */
hidden void fmt_shown(fmt_t *f, const char *text, size_t length, size_t limit);

/* A file's name: `pattern` with `process` for each %p and, unless `number` is NULL, `*number` for
 * each %n. True: the pattern has a %p. */
hidden bool fmt_pattern(fmt_t *f, const char *pattern, uint32_t process, const uint32_t *number);

/* Columns: the text aligned right, never cut. */
hidden void fmt_size_right(fmt_t *f, uint64_t bytes, size_t width);
hidden void fmt_percent_right(fmt_t *f, uint64_t part, uint64_t whole, size_t width);

/* ---- JSON ----
 * The members of the outermost object and the elements of every array have lines of their own, so
 * that text tools can work on it too. `name` is NULL inside an array. At most 32 levels. */
typedef struct {
  fmt_t *out;
  unsigned depth;  /* containers now open */
  uint32_t arrays; /* bit d - 1: the container at depth d is an array */
  bool first;      /* the innermost container is empty so far */
} fmt_json_t;

hidden void fmt_json_start(fmt_json_t *j, fmt_t *out);
hidden void fmt_json_object(fmt_json_t *j, const char *name);
hidden void fmt_json_array(fmt_json_t *j, const char *name);
hidden void fmt_json_close(fmt_json_t *j);
hidden void fmt_json_number(fmt_json_t *j, const char *name, uint64_t n);
hidden void fmt_json_signed(fmt_json_t *j, const char *name, int64_t n);
hidden void fmt_json_text(fmt_json_t *j, const char *name, const char *text);
