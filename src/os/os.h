/* os.h - the porting contract: what freehold needs from a kernel                        layer 1: os
 * Owns:    the counts of system calls.   Called by: every layer above.   Calls: the kernel,
 *          getauxval, environ.
 * Threads: any. Nothing here locks, allocates or touches errno, with these exceptions.
 *          os_thread_start and os_backtrace_start may do all three. os_thread_set_leave locks in
 *          musl. os_thread_watch calls calloc in glibc if many keys were made before ours, so no
 *          heap is marked then. For opening, renaming and removing files see files_windows.c.
 *
 * A port defines these functions, in a folder of its own: linux, windows, or bsd for FreeBSD and
 * macOS. posix.c is for all but Windows; without.c answers for systems that lack something. No
 * other layer names a file of the kernel. Unit tests use test/unit/os_fake.c. */
#pragma once

#include "../base/atomic.h"
#include "../base/bits.h"

/* Counts of calls since start, for statistics. relaxed: sums on which nothing else depends. */
typedef struct {
  atomic64_t maps, unmaps, remaps, advices, failures;
} os_counts_t;
extern hidden os_counts_t os_counts;

hidden size_t os_page_size(void); /* a power of two, 4 KiB to 64 KiB; no system call */

/* Fresh zero memory, readable and writable, not counted against swap. Addresses and sizes are
 * multiples of the page size; these two functions and os_unmap round sizes up to one. */
hidden void *os_map(size_t size); /* anywhere; NULL on failure */
/* Likewise, but a child of fork finds it zero. */
hidden void *os_map_unshared(size_t size);
typedef enum { OS_MAPPED, OS_OCCUPIED, OS_NO_MEMORY } os_map_result_t;
/* There or nowhere; OS_OCCUPIED: something else lies there. */
hidden os_map_result_t os_map_at(void *at, size_t size);
/* Likewise, but reserves only the addresses, without memory: os_move replaces them. */
hidden os_map_result_t os_reserve_at(void *at, size_t size);
/* An address from which on `size` bytes are free at this moment; NULL: none. */
hidden void *os_find(size_t size);
/* False: the addresses stay taken, but the memory is gone. */
hidden bool os_unmap(void *at, size_t size);
/* Moves the pages of [from, from + old_size) to [to, to + new_size), whatever lies there; `from` is
 * unmapped. Only growth needs memory. */
hidden bool os_move(void *from, size_t old_size, void *to, size_t new_size);
/* Grows or shrinks a mapping in place. */
hidden bool os_resize(void *at, size_t old_size, size_t new_size);
/* False: part of the range is unmapped, or it is several mappings; os_move may move the first ones
 * and fail. A program's advice on a part of a block divides it, and so does a child of fork. */
hidden bool os_is_one_mapping(void *at, size_t size);

/* Gives the pages back; they read as zero afterwards. */
hidden bool os_discard(void *at, size_t size);
typedef struct {
  void *at;
  size_t size;
} os_range_t;
/* The pages of the lowest run of bits, each of which is `unit` bytes from `base` on. */
static inline os_range_t os_range_of(void *base, size_t unit, uint64_t units) {
  unsigned first = bits_lowest(units), n = bits_ones_below(units >> first);
  return (os_range_t){(char *)base + first * unit, n * unit};
}
/* os_discard of several ranges, OS_RANGES_MOST at most, or only the first few. Returns how many
 * went; 0: the system refuses the first. */
enum { OS_RANGES_MOST = 6 }; /* more would need more stack than a kilobyte */
hidden size_t os_discard_some(const os_range_t *ranges, size_t n);
/* How many should be given at a time: 1 where several together take as long as each alone. */
hidden size_t os_ranges_at_once(void);
/* Closes pages to every access, or opens them again with what they held. False: the system has no
 * room for one more mapping. */
hidden bool os_protect(void *at, size_t size, bool is_open);
/* Closes pages to writes alone, or opens them again. */
hidden bool os_seal(void *at, size_t size, bool is_sealed);
/* Makes the pages present in one call; a hint. */
hidden bool os_populate(void *at, size_t size);
/* Maps huge pages of `page` bytes that the system has set aside, from that node (-1: from any), in
 * place of what is mapped there. Touch one only after os_populate has found it, and unmap it whole.
 * False: the system has too few, and the old mapping may be gone. */
hidden bool os_map_huge(void *at, size_t size, size_t page, int node);
/* Asks for huge pages, or asks for none. */
hidden void os_advise_huge(void *at, size_t size, bool huge);
/* Makes the pages one huge page: copies those in memory, and adds the others. Takes some tenths of
 * a millisecond, or as long as the system needs to find the memory. False: it made none. */
hidden bool os_collapse(void *at, size_t size);
/* The system's setting for huge pages, such as "never"; its length, or 0 if it does not say. */
enum { OS_HUGE_SETTING = 64 };
hidden size_t os_huge_setting(char word[OS_HUGE_SETTING]);
hidden bool os_has_huge_pages(void); /* Does it allow them? Asked once. */
/* Are all these pages in memory, and shared with no other process? False for pages that were never
 * written, or not since a fork. False in doubt. */
hidden bool os_is_private(const void *at, size_t size);
/* Bytes of the range that are in huge pages; 0 if the system does not say. */
hidden size_t os_huge_resident(const void *at, size_t size);
hidden uint64_t os_memory(void);   /* of the machine; 0: the system does not say */
hidden size_t os_processors(void); /* on which the process may run: 1 at least */
/* Bytes of the range that are in memory; all if the system does not say. */
hidden size_t os_resident(const void *at, size_t size);
/* Makes pages read as zero. Writes to those in memory and gives back the rest, which may be in
 * swap; or gives back all of them, where that is less work. */
hidden void os_zero(void *at, size_t size);
/* May this word be read? Uses no system call that a program's sandbox may refuse. */
hidden bool os_is_there(const void *word);
/* Copies bytes that may not be there; false: they are not. */
hidden bool os_copy(void *to, const void *from, size_t size);
/* May these bytes, 64 at most, be read? Slow. */
static inline bool os_is_readable(const void *at, size_t size) {
  char copy[64];
  return size <= sizeof copy && os_copy(copy, at, size);
}
/* May the process map less than its address space has room for (RLIMIT_AS, RLIMIT_DATA)? */
hidden bool os_is_space_limited(void);
/* What brk() has mapped: libc's own heap. */
hidden bool os_break_range(uintptr_t *from, uintptr_t *to);

/* A clock that only goes forward, a few milliseconds coarse; wraps. */
hidden uint32_t os_now_ms(void);
/* From one reading of it to another; 0 if `from` is the later one, read by another thread. */
static inline uint32_t os_ms_between(uint32_t from, uint32_t to) {
  enum { APART_MOST = 60000 };
  return to - from > UINT32_MAX - APART_MOST ? 0 : to - from;
}
hidden uint64_t os_now_ns(void); /* likewise, but fine; it does not wrap */
/* Processor time of the calling thread, ns: measures a call without whatever ran in between. */
hidden uint64_t os_spent_ns(void);
/* What the process has used since it began, even before an exec. 0: the system does not say. */
typedef struct {
  uint64_t elapsed_ms; /* since the process began; 0: the system does not say */
  uint64_t user_ms, system_ms, minor_faults, major_faults, peak_resident; /* the last in bytes */
} os_usage_t;
hidden void os_usage(os_usage_t *usage);
/* Chosen by the system, new each time; does not wait. */
hidden uint64_t os_random(void);
/* Where windows may begin: another address in each process. */
hidden uintptr_t os_space_start(void);
hidden uintptr_t os_space_end(void); /* of the program's address space */

/* NULL if unset, or if privileges are raised, since it cannot be trusted then. */
hidden const char *os_environment(const char *name);
hidden bool os_is_raised(void); /* are privileges raised, as by set-user-ID? */
/* Bytes written; 0 if there is no such link. */
hidden size_t os_read_link(const char *path, char *text, size_t size);
/* Writes all of it; false: a write failed. */
hidden bool os_write(int file, const char *text, size_t length);
/* -1: not possible. */
hidden int os_open(const char *path);   /* to read, not waiting for a writer */
hidden int os_create(const char *path); /* to write, from empty, readable by its owner only */
hidden int os_append(const char *path); /* to an existing file; also -1: a pipe with no reader */
/* To write and to map, readable by its owner only. An older file of that name is unlinked, not cut
 * short. -1: not possible, or it is no plain file, or a living process made it this way. */
hidden int os_create_shared(const char *path);
hidden int os_open_shared(const char *path); /* a file made that way; -1: not possible */
/* Grows such a file and maps the new part. Its room on the disk is allocated first, so that writing
 * to the mapping never fails. It reads as zero. NULL: no room, or not possible there. */
hidden void *os_map_file(int file, uint64_t offset, size_t size);
hidden void os_unmap_file(void *at, size_t size);
/* Is there something other than a plain file, such as a terminal or a pipe? */
hidden bool os_is_special(const char *path);
hidden size_t os_read(int file, char *text, size_t size); /* 0: that was all */
hidden void os_close(int file);
/* Reads the file with one call and closes it; 0: it is not there (-1), or empty. */
static inline size_t os_read_whole(int file, char *text, size_t size) {
  size_t got = file < 0 ? 0 : os_read(file, text, size);
  if (file >= 0) os_close(file);
  return got;
}
static inline size_t os_read_path(const char *path, char *text, size_t size) {
  return os_read_whole(os_open(path), text, size);
}
/* A file of /proc about the process, by its name there. The files of /proc/self are empty once the
 * first thread has ended; kernels before 3.17 have no others. */
#define OS_OF_PROCESS(name) "/proc/thread-self/" name, "/proc/self/" name
static inline int os_open_either(const char *path, const char *other) {
  int file = os_open(path);
  return file >= 0 ? file : os_open(other);
}
hidden bool os_rename(const char *from, const char *to);
hidden void os_remove(const char *path);
/* A copy with the lowest free number from `least` on, closed by exec; -1: there is none. */
hidden int os_duplicate(int file, int least);
/* Tells open files apart; 0 if `file` is not open. */
hidden uint64_t os_file_identity(int file);
hidden uint32_t os_process(void); /* its number */
/* Calls `handler` on that signal; false if the program already handles or ignores it. */
hidden bool os_on_signal(int number, void (*handler)(int number));
/* Calls `handler` with each address whose access faults, until somebody else installs a handler.
 * True: the fault was ours, and the system's default follows. False: as if there were no handler of
 * ours; an earlier one is called, and ours stays. It runs on the signal stack, if there is one. */
typedef bool os_fault_t(const void *address);
hidden bool os_on_fault(os_fault_t *handler);
_Noreturn hidden void os_abort(void);

/* Calls `leave` in each thread that called os_thread_watch, when it ends. os_thread_watch is false
 * if the system has no room for that; the heap then stays with the dead thread. */
typedef void os_leave_t(void *heap);
hidden void os_thread_set_leave(os_leave_t *leave);
hidden bool os_thread_watch(void *heap);
/* Calls `child` in each child that fork makes, before fork returns there; not after a bare system
 * call. C libraries lock in it, so call it at load. */
hidden void os_on_fork(void (*child)(void));

/* Says which thread of which process this is, as a number below 2^OS_THREAD_BITS; 0: not known. */
enum { OS_THREAD_BITS = 44 };
hidden uint64_t os_thread(void);
/* The lower half of that is the system's own number. */
static inline uint32_t os_thread_half(uint64_t thread) {
  return (uint32_t)(thread & (((uint64_t)1 << OS_THREAD_BITS / 2) - 1));
}
static inline uint32_t os_thread_number(void) { return os_thread_half(os_thread()); }
/* When it returns, each thread of the process has passed a seq_cst fence since the call began.
 * False: the system offers none. The first call may wait for the system, for milliseconds. */
hidden bool os_fence_threads(void);
/* The calling thread gets no signals until os_release_signals, which takes what this returns.
 * Signals for the thread's own faults still arrive, as do two that C libraries wait for. */
hidden uint64_t os_hold_signals(void);
hidden void os_release_signals(uint64_t before);
/* Is this thread of the process waiting for something other than a processor? False if the system
 * does not say. Only one thread at a time may ask. */
hidden bool os_thread_is_asleep(uint32_t number);
/* In a child of fork, before it opens files: it has one thread, `is_watched` if that has called
 * os_thread_watch. Closes the file that a parent's look had open. */
hidden void os_begin_in_child(bool is_watched);
/* Processor time of this thread of the process, ns. 0: not known. */
hidden uint64_t os_thread_spent_ns(uint32_t number);
/* Has this thread of `caller`'s process ended? Then its writes are visible. False in doubt. */
hidden bool os_thread_has_ended(uint64_t thread, uint64_t caller);

/* Starts a thread, with all signals blocked, that runs `run` once; false if it cannot. */
hidden bool os_thread_start(void (*run)(void));
hidden void os_sleep_ms(uint32_t ms); /* for the background thread alone */

/* ---- call stacks (unwind.c) ---- */
/* Lets os_backtrace find other files' tables; before, it uses frame pointers there. May lock, so
 * call it while the library is loaded. */
hidden void os_backtrace_start(void);
/* Return addresses, the innermost first, without the shared library's own; returns how many. Uses
 * unwind tables where there are any, or frame pointers alone. */
hidden unsigned os_backtrace(uintptr_t *frames, unsigned most, bool by_tables);

/* ---- what is mapped from files (images.c) ---- */
typedef struct {
  uintptr_t from, to; /* code */
  uint64_t offset;    /* of `from` in the file */
  const char *path;
  const unsigned char *build_id; /* of `build_id_length` bytes; 0: not known */
  size_t build_id_length;
} os_image_t;
typedef void os_image_visitor_t(const os_image_t *image, void *context);
/* Calls `visitor` with each mapping of code. `text`: buffer for reading. */
enum { OS_IMAGES_TEXT = 16 << 10 };
hidden void os_each_image(char text[OS_IMAGES_TEXT], os_image_visitor_t *visitor, void *context);
