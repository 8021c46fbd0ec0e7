/* tape.h - what a recorded program asked of malloc, ready to be asked again: the format
 *
 * A tape has the calls of each thread by themselves, as native/tape.c makes them of a trace. A
 * block is known by its slot, a word for one block after another. Each call has a turn: how often
 * its slot has changed before it, modulo TAPE_TURNS. So a free waits for the malloc whose block it
 * was in the recording, in whichever thread that is. A thread that ended ends again after the call
 * that was the last before, in whichever thread: a slot tells it. Nothing else is waited for.
 *
 *   tape_head_t, tape_thread_t for each thread in the order of their first calls, then the calls
 *   call     a byte: kind, a flag, the lowest bits of the turn; the others, if flagged; the slot;
 *            the size, of what allocates; the logarithm of the alignment, of aligned alone. Tell
 *            and leave are no calls of malloc: they change an empty slot.
 *
 * A slot is a difference to the one before, zigzag. Numbers are varints, as in src/support/trace.h;
 * little endian. */
#ifndef BENCH_TAPE_H
#define BENCH_TAPE_H

#include <stdbool.h>
#include <stdint.h>

#define TAPE_MAGIC "fh-tape"
enum { TAPE_VERSION = 2, TAPE_TURN_BITS = 21, TAPE_TURNS = 1 << TAPE_TURN_BITS };
enum { TAPE_KIND_MASK = 7, TAPE_MORE_TURN = 8, TAPE_LOW_SHIFT = 4, TAPE_LOW_TURNS = 16 };
enum { TAPE_CALL_MOST = 40 };
typedef enum {
  TAPE_END,
  TAPE_MALLOC,
  TAPE_CALLOC,
  TAPE_ALIGNED,
  TAPE_FREE,
  TAPE_REALLOC,
  TAPE_TELL,
  TAPE_LEAVE
} tape_kind_t;

typedef struct {
  char magic[8];
  uint32_t version, threads;
  uint32_t slots, at_once;       /* at_once: threads between their first calls and ends, at most */
  uint64_t calls, allocations;   /* allocations: with those that realloc made */
  uint64_t asked, peak, peak_at; /* bytes: since start, at most at a time; after which call */
} tape_head_t;

typedef struct {
  uint64_t offset, size; /* in the file; bytes */
} tape_thread_t;

typedef struct {
  tape_kind_t kind;
  unsigned turn;
  uint32_t slot;
  uint64_t size;
  unsigned alignment_shift;
} tape_call_t;

static inline unsigned char *tape_put_number(unsigned char *at, uint64_t n) {
  for (; n > 127; n >>= 7) *at++ = (unsigned char)(n | 128);
  *at++ = (unsigned char)n;
  return at;
}

static inline const unsigned char *tape_get_number(const unsigned char *at, uint64_t *n) {
  *n = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    *n |= (uint64_t)(*at & 127) << shift;
    if (*at++ < 128) break;
  }
  return at;
}

static inline bool tape_has_size(tape_kind_t kind) {
  return kind == TAPE_MALLOC || kind == TAPE_CALLOC || kind == TAPE_ALIGNED || kind == TAPE_REALLOC;
}

/* At most TAPE_CALL_MOST bytes; `*last` is the slot of the thread's call before. */
static inline unsigned char *tape_put(unsigned char *at, const tape_call_t *c, uint32_t *last) {
  int64_t step = (int64_t)c->slot - (int64_t)*last;
  *last = c->slot;
  bool is_high = c->turn >= TAPE_LOW_TURNS;
  *at++ = (unsigned char)(c->kind | (is_high ? TAPE_MORE_TURN : 0) |
                          c->turn % TAPE_LOW_TURNS << TAPE_LOW_SHIFT);
  if (is_high) at = tape_put_number(at, c->turn / TAPE_LOW_TURNS);
  at = tape_put_number(at, (uint64_t)step << 1 ^ (uint64_t)(step >> 63));
  if (tape_has_size(c->kind)) at = tape_put_number(at, c->size);
  if (c->kind == TAPE_ALIGNED) *at++ = (unsigned char)c->alignment_shift;
  return at;
}

static inline const unsigned char *tape_get(const unsigned char *at, tape_call_t *c,
                                            uint32_t *last) {
  uint64_t step, high = 0;
  unsigned char first = *at++;
  c->kind = (tape_kind_t)(first & TAPE_KIND_MASK);
  if (first & TAPE_MORE_TURN) at = tape_get_number(at, &high);
  c->turn = (unsigned)(high * TAPE_LOW_TURNS + (first >> TAPE_LOW_SHIFT)) % TAPE_TURNS;
  at = tape_get_number(at, &step);
  *last += (uint32_t)(step >> 1 ^ (0 - (step & 1)));
  c->slot = *last;
  if (tape_has_size(c->kind)) at = tape_get_number(at, &c->size);
  if (c->kind == TAPE_ALIGNED) c->alignment_shift = *at++;
  return at;
}

#endif
