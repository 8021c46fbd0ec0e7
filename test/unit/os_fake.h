/* os_fake.h - what a test may set and see of the fake system
 * Owns:    os_fake.   Called by: unit tests.   Calls: nothing.
 * Threads: set the fields while one thread runs; the counts are exact with any number of
 * threads. */
#ifndef OS_FAKE_H
#define OS_FAKE_H

#include "../../src/os/os.h"

typedef enum { /* clang-format off */
  OS_FAKE_MAP, OS_FAKE_MAP_AT, OS_FAKE_UNMAP, OS_FAKE_MOVE, OS_FAKE_RESIZE, OS_FAKE_DISCARD,
  OS_FAKE_POPULATE, OS_FAKE_COLLAPSE, OS_FAKE_PROTECT, OS_FAKE_ADVISE_HUGE, OS_FAKE_FIND,
  OS_FAKE_MAP_HUGE,
  OS_FAKE_CALLS
} os_fake_call_t; /* clang-format on */

#define OS_FAKE_ANY ((1u << OS_FAKE_CALLS) - 1)
#define OS_FAKE_MAPPING (1u << OS_FAKE_MAP | 1u << OS_FAKE_MAP_AT | 1u << OS_FAKE_FIND)
#define OS_FAKE_CHANGING (1u << OS_FAKE_MOVE | 1u << OS_FAKE_RESIZE)
#define OS_FAKE_ADVISING (1u << OS_FAKE_DISCARD | 1u << OS_FAKE_POPULATE)

typedef struct {
  size_t page_size; /* 4, 16 or 64 KiB */
  uint32_t now_ms;
  size_t most_mapped;  /* bytes that may be mapped at a time; more is OS_NO_MEMORY */
  size_t windows;      /* of address space; at first, and at most, 192 or 8 */
  uint32_t fail_calls; /* the kinds of calls that `fail_at` counts: bits by os_fake_call_t */
  uint64_t fail_at;    /* that one of them fails: 1 is the next; 0: none. Counts down */
  bool fail_on;        /* and all after it */
  bool fail_half;      /* a discard that fails has given back the first half of its pages */
  bool discards_many;  /* os_discard_some discards all ranges up to one that fails */
  void *divided_at;    /* where one mapping ends and another begins, or NULL */
  bool no_watch, no_threads, no_unshared; /* os_thread_watch, _start, os_map_unshared fail */
  bool is_random;       /* os_random gives other numbers each time, and in each process */
  bool no_huge_pages;   /* os_has_huge_pages says so */
  bool is_raised;       /* os_is_raised says so */
  bool is_shared;       /* os_is_private fails: after a fork */
  uint32_t collapse_ms; /* what os_collapse takes */
  uint32_t collapse_waits_ms, waited_ms; /* ... and how long it waits; ms waited in all */
  void (*collapsed)(void *at);           /* at the end of os_collapse; may call the core */
  uint32_t populate_ms;                  /* what os_populate takes */
  size_t huge_pages[4];                  /* of 2 MiB, that each node has set aside */
  size_t large_pages;                    /* of 1 GiB, likewise, of node 0 */
  bool no_room_in_file;                  /* os_map_file fails */
  /* before each call about a shared file; the thread may end there */
  void (*at_file)(void);
  uint64_t thread;                    /* what os_thread says, if not 0 */
  bool (*has_ended)(uint64_t thread); /* what os_thread_has_ended says, if not NULL */
  /* called after each fence for all threads, with its number from 1 on: did it succeed? NULL: there
   * are no such fences */
  bool (*at_fence)(unsigned number);
  unsigned fences;
  uint32_t awake;                        /* the thread that is not asleep */
  uint64_t (*spent_ns)(uint32_t thread); /* what os_thread_spent_ns says, if not NULL */
  atomic32_t looks;                      /* how often it was asked */
  atomic32_t clock_reads;
  void (*at_fine_clock)(void); /* before os_now_ns; may jump away */
  /* before each call; may call the core */
  void (*before)(os_fake_call_t call, void *at, size_t size);
  os_usage_t usage;                      /* what os_usage says */
  uint64_t memory;                       /* of the machine */
  size_t processors;                     /* likewise */
  const char *(*file)(const char *path); /* what stands in a file of /proc or /sys; NULL: none */
  const char *link;                      /* what os_read_link finds; NULL: nothing */
  const uintptr_t *frames;               /* what os_backtrace finds, `frame_count` of them */
  unsigned frame_count;
  os_image_t image;           /* all that os_each_image shows, if it has a path */
  void (*sleep)(uint32_t ms); /* what os_sleep_ms does besides moving the clock */
  void (*started)(void);      /* what os_thread_start was last given */
  size_t mapped;              /* bytes now mapped */
  size_t mappings;            /* pieces of the address space in which they lie */
  uint64_t calls[OS_FAKE_CALLS];
} os_fake_t;
extern hidden os_fake_t os_fake;

hidden void os_fake_fail(uint32_t calls, uint64_t at, bool and_all_after);
hidden bool os_fake_is_mapped(const void *at, size_t size); /* all of it */
hidden void os_fake_take(void *at, size_t size); /* somebody else's mapping lies there now */
hidden void os_fake_end_thread(void); /* the calling thread ends, as far as the core sees */

#endif
