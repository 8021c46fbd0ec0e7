/* options.h - THE table of options                                                 layer 2: support
 * Owns:    the values in force and where they came from.   Called by: everyone above.   Calls: os,
 *          fmt.
 * Threads: any; loading twice at once is harmless. No lock, no allocation.
 * Sync:    a value is one word that nothing else depends on, so every access is relaxed. S-options
 *          options_load (release) -> a thread that finds it done (acquire): options read at start
 *          never change for a thread that has a heap, since its marks depend on one.
 * Holds:   O1 lowest <= value in force <= highest, for every option, at any time; before loading it
 *             is the default
 *
 * The parser, the bounds and docs/options.md all come from the table. A new option is one row here,
 * a list beside it if its values are words, and one test in test/unit/options_test.c. */
#pragma once

#include "../base/atomic.h"
#include "../base/fmt.h"

/* The words of each option of type word. option  name  value  word */
#define FH_OPTION_WORDS(W)                                                                         \
  W(thp, THP_AUTO, 0, "auto")                                                                      \
  W(thp, THP_NEVER, 1, "never")                                                                    \
  W(thp, THP_ALWAYS, 2, "always")                                                                  \
  W(stats, STATS_NONE, 0, "none")                                                                  \
  W(stats, STATS_EXIT, 1, "exit")                                                                  \
  W(stats, STATS_JSON, 2, "json")                                                                  \
  W(profile_stack, STACK_TABLES, 0, "tables")                                                      \
  W(profile_stack, STACK_FRAMES, 1, "frames")                                                      \
  W(fill, FILL_OFF, 0, "off")                                                                      \
  W(fill, FILL_ALLOC, 1, "alloc")                                                                  \
  W(fill, FILL_FREE, 2, "free")                                                                    \
  W(fill, FILL_BOTH, 3, "both")                                                                    \
  W(container, CONTAINER_AUTO, 0, "auto")                                                          \
  W(container, CONTAINER_IGNORE, 1, "ignore")                                                      \
  W(deepbind, DEEPBIND_IGNORE, 0, "ignore")                                                        \
  W(deepbind, DEEPBIND_KEEP, 1, "keep")

/* int, size (bytes), share (bytes, or a percentage as a negative number), bool, word or text.
 * START: read once, at the first use; ANY: at every use. The sentence is the documentation. */
#define OPTION_NO_LIMIT INT64_MAX
/* clang-format off */
/* name            type   default   lowest     highest     set at; what it does */
#define FH_OPTIONS(X)                                                                            \
  X(purge_delay_ms, int,   50,       -1,        600000,          ANY,                            \
    "Milliseconds that freed memory stays before it goes back to the system, with a later call " \
    "(see background); 0: at once, -1: never. Up to 64 times as long in a program that asks for " \
    "the same memory again and again.")                                                          \
  X(purge_budget,   size,  MiB(16),  0,         OPTION_NO_LIMIT, ANY,                            \
    "Bytes of freed memory, or a 64th of what is in use if that is more, that may wait for "     \
    "the delay. Up to 64 times as much, never more than the peak, in a program that asks for "   \
    "the same memory again and again. Free pages between large blocks may be as many again, and " \
    "a 64th to a sixth of those. What threads keep (magazine) does not count.")                  \
  X(arena_step,     size,  MiB(64),  KiB(64),   GiB(1),          START,                          \
    "Most address space mapped at a time: at first half of what is mapped, less where the "      \
    "system gives less, more where one block needs it.")                                         \
  X(thp,            word,  THP_AUTO, THP_AUTO,  THP_ALWAYS,      ANY,                            \
    "Transparent huge pages: auto keeps the first few MiB on small pages. Above 64 MiB it "      \
    "makes huge ones of what a heap is about to fill, and of what is dense and in memory. "      \
    "always and never pass that wish to the system, for all that is mapped from then on.")       \
  X(reserve_huge_pages, size, 0,     0,         GiB(16384),      START,                          \
    "Bytes of huge pages taken at start of those that the system has set aside "                 \
    "(vm.nr_hugepages): of 1G, if so much is wanted and there are such, else of 2M. They never " \
    "go back. What is not there, or not within five seconds and one for each GiB, is not "       \
    "taken: `verbose` and the statistic `reserved` say how much is.")                            \
  X(reserve_node,   int,   -1,       -1,        1023,            START,                          \
    "Number of the NUMA node from which reserve_huge_pages takes them; -1: from any.")           \
  X(arena_populate, bool,  false,    false,     true,            ANY,                            \
    "What is mapped for slices (arena_step) is made present at once, by one system call: fewer " \
    "page faults later, and all of that memory from the start.")                                 \
  X(populate,       size,  KiB(448), 0,         MiB(2),          ANY,                            \
    "Bytes made present at a time, at most 64K more than magazine, when a class below 1 KiB "    \
    "grows fast; 0 leaves each page to its first touch.")                                        \
  X(magazine,       size,  KiB(384), 0,         MiB(64),         ANY,                            \
    "Bytes of free slices of 64K that one thread may keep for itself, and as many in runs of "   \
    "pages, of freed blocks up to 128K. Four times as much of these if it needs them again. In " \
    "runs of 2 to 12 slices, of larger ones, four times as much if it allocates many. Where "    \
    "more than two processors run threads it may keep more, if all threads together have room: " \
    "sixteen times as much in runs, and 8M besides in single slices.")                           \
  X(caching_threads, int,  1024,     1,         1000000,         ANY,                            \
    "While more threads than this have called malloc and not ended, each keeps next to nothing " \
    "for its next calls, which take more time then.")                                            \
  X(background,     bool,  false,    false,     true,            START,                          \
    "A thread of the library's own gives memory back, also when the program sleeps, and what "   \
    "sleeping threads keep. A child of fork, and so a daemon that forks when it starts, has "    \
    "none.")                                \
  X(deepbind,       word,  DEEPBIND_IGNORE, DEEPBIND_IGNORE, DEEPBIND_KEEP, ANY,                 \
    "With the shared library: plug-ins opened with RTLD_DEEPBIND use this malloc too, or keep "  \
    "libc's.")                                                                                   \
  X(memory_limit,   share, 0,        -100,      OPTION_NO_LIMIT, ANY,                            \
    "Bytes in slabs, large and huge blocks (`committed` in the statistics) beyond which no more " \
    "is claimed, and allocation fails with ENOMEM; 0: no limit. What is free and still dirty "   \
    "does not count, nor what went back from between large blocks. A percentage is of what the " \
    "container has, else of the machine's memory.")                                              \
  X(memory_soft,    share, 0,        -100,      OPTION_NO_LIMIT, ANY,                            \
    "Bytes in use or still dirty that the library tries to stay below; 0: none. Near them all "  \
    "threads' caches shrink and free memory goes back at once; beyond them the callback of "     \
    "`fh_pressure_set` is called as well. Percentages as in `memory_limit`.")                    \
  X(container,      word,  CONTAINER_AUTO, CONTAINER_AUTO, CONTAINER_IGNORE, ANY,                \
    "auto: once 8M are in use the limit of the container (cgroup) is read every few seconds, "   \
    "and its quota of processors. Near the limit caches shrink as near `memory_soft`. ignore: "    \
    "it is not looked for.")                                                                       \
  X(stats,          word,  STATS_NONE, STATS_NONE, STATS_JSON,   ANY,                            \
    "Statistics on standard error when a process ends by exit, not by a signal or _exit. "        \
    "exit: text, and how much at most was not freed; json: one JSON object.")                     \
  X(stats_detail,   bool,  false,    false,     true,            START,                          \
    "Counts the bytes asked for in each size class too, except aligned blocks, and how long the "  \
    "slow paths take, and tells of each heap. Every call is slow then.")                         \
  X(profile,        text,  0,        0,         OPTION_NO_LIMIT, START,                          \
    "Samples allocations, and writes a heap profile for pprof to the file of that name when the " \
    "process ends by exit. In the name %p is the process's number, %n the file's, from 0 on.")   \
  X(profile_interval, size, KiB(512), 1,        GiB(64),         START,                          \
    "Bytes between two samples on average. Without `profile` it samples, too, and writes no "     \
    "file: for `freehold profile` and `freehold why`.")                                           \
  X(profile_stack,  word,  STACK_TABLES, STACK_TABLES, STACK_FRAMES, ANY,                        \
    "How call stacks are read: by unwind tables, and frame pointers where there are none, or by " \
    "frame pointers alone, which is faster, for programs that are compiled with them.")          \
  X(profile_growth, size,  0,        0,         OPTION_NO_LIMIT, START,                          \
    "Writes a profile also each time that so many bytes more live than when the last one was "   \
    "written; 0: never.")                                                                        \
  X(profile_signal, int,   0,        0,         64,              START,                          \
    "Writes one also on the signal of this number, if the program has no handler for it; 0: on " \
    "none.")                                                                                     \
  X(guard_interval, size,  0,        0,         GiB(64),         START,                          \
    "Bytes between two allocations, on average, whose block of up to 248K stands between pages "  \
    "that nobody can read. When it is freed nobody can read it either. An access gets a line "    \
    "with the call stacks of malloc and free, and SIGSEGV. With a profile its samples are "       \
    "guarded. 0: none.")                                                                         \
  X(fill,           word,  FILL_OFF, FILL_OFF,  FILL_BOTH,       START,                          \
    "alloc: new memory is filled with the byte 0xD0, also what realloc adds, but not calloc's; " \
    "free: freed memory with 0x5A. It finds programs that read what they did not write, or what " \
    "they have freed, and costs time on every call.")                                            \
  X(realloc_moves,  bool,  false,    false,     true,            START,                          \
    "realloc always moves the block, as long as there is memory: it finds programs that go on "  \
    "with the old address.")                                                                     \
  X(abort_on_oom,   bool,  false,    false,     true,            START,                          \
    "An allocation that fails ends the program with one line that has its size. No handler of "  \
    "operator new and no callback comes between.")                                               \
  X(caches,         bool,  true,     false,     true,            START,                          \
    "off: after each call a thread lets go of all that it keeps, first-class heaps excepted. "   \
    "Freed blocks are at once every thread's, and each call is slow.")                           \
  X(trace,          text,  0,        0,         OPTION_NO_LIMIT, START,                          \
    "Records every call of every thread to the file of that name, for `freehold trace`. In the " \
    "name %p is the process's number; where it is missing, a child of fork adds its own.")        \
  X(trace_ring,     size,  0,        0,         GiB(1),          START,                          \
    "Records only the last bytes of each thread, 128K at least, in memory if there is no "       \
    "trace; a double free then says who freed the block before, and where. 0: all is "           \
    "recorded.")                                                                                  \
  X(warnings,       bool,  true,     false,     true,            ANY,                            \
    "Lines about mistakes in options on standard error.")                                        \
  X(verbose,        bool,  false,    false,     true,            START,                          \
    "Lines on standard error at load: the version, the system's pages and huge pages, and each " \
    "option that has not its default value, with where that comes from.")
/* clang-format on */

/* Bytes of the longest text, and of all texts given, each with one more for its end. */
enum { OPTION_TEXT_MOST = 1023, OPTION_TEXTS = 4096 };

#define OPTION_VALUE(option, name, value, word) name = value,
enum { FH_OPTION_WORDS(OPTION_VALUE) };
#define OPTION_NUMBER(name, ...) OPTION_##name,
typedef enum { FH_OPTIONS(OPTION_NUMBER) OPTION_COUNT } option_t;

/* Where values come from, weakest first. */
#define OPTION_SOURCES(X)                                                                          \
  X(DEFAULT, "default")                                                                            \
  X(LINK, "/etc/freehold.conf")                                                                    \
  X(ENVIRONMENT, "FREEHOLD_OPTIONS")                                                               \
  X(PROGRAM, "fh_options")                                                                         \
  X(CALL, "fh_option_set")
#define OPTION_SOURCE_NUMBER(name, text) OPTION_FROM_##name,
typedef enum { OPTION_SOURCES(OPTION_SOURCE_NUMBER) OPTION_SOURCE_COUNT } option_source_t;
extern hidden const char *const option_source_name[OPTION_SOURCE_COUNT];

typedef enum { /* clang-format off */
  OPTION_KIND_int, OPTION_KIND_size, OPTION_KIND_share, OPTION_KIND_bool, OPTION_KIND_word,
  OPTION_KIND_text
} option_kind_t; /* clang-format on */
typedef enum { OPTION_SET_AT_START, OPTION_SET_AT_ANY } option_when_t;

typedef struct {
  const char *name, *what;
  int64_t fallback, lowest, highest;
  option_kind_t kind;
  option_when_t when;
} option_info_t;
extern hidden const option_info_t option_info[OPTION_COUNT];

extern hidden atomic64_t option_values[OPTION_COUNT];

static inline int64_t option_get(option_t option) {
  return (int64_t)atomic64_load_relaxed(&option_values[option]);
}
/* The value of an option that is a text; NULL: it is not set. */
static inline const char *option_text(option_t option) {
  return (const char *)(uintptr_t)option_get(option);
}
hidden option_source_t option_source(option_t option);

/* At run time; false, with no change, if the value is out of range or only counts at start. */
hidden bool option_set(option_t option, int64_t value);

/* OPTION_COUNT if there is no option of that name. */
hidden option_t option_find(const char *name, size_t length);

/* Text to value; false, with `*value` unchanged, if it is no value or out of range. */
hidden bool option_parse(option_t option, const char *text, size_t length, int64_t *value);

hidden void option_put_value(fmt_t *f, option_t option, int64_t value); /* 64K, on, auto, -1 */
hidden void option_put_range(fmt_t *f, option_t option);                /* -1..600000, on|off */

/* One line about a mistake, with its end of line. */
typedef void options_warn_t(const char *line, size_t length);

/* Reads all sources at the first call. Reports mistakes once, unless `warnings` is off. */
hidden void options_load(options_warn_t *warn);

hidden bool options_are_valid(void);
