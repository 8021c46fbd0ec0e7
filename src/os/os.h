/* os.h - the porting contract: what freehold needs from a kernel                        layer 1: os
 * Owns:    the counts of system calls.   Called by: every layer above.   Calls: the kernel,
 *          getauxval, environ.
 * Threads: any. Nothing here locks, allocates or touches errno, with these exceptions.
 *          os_thread_start and os_backtrace_start may do all of it. os_thread_set_leave locks in
 *          musl. os_thread_watch calls calloc in glibc if many keys were made before ours, so no
 *          heap is marked then. What opens, renames or removes files: files_windows.c.
 *
 * A port defines these functions, in a folder of its own: linux, windows, or bsd for FreeBSD and
 * macOS. posix.c is for all but Windows; without.c answers for systems that lack something. No
 * other layer names a file of the kernel's. test/unit/os_fake.c serves the unit tests. */
#pragma once

#include "../base/atomic.h"

/* Counts of calls since start, for statistics. relaxed: sums on which nothing else depends. */
typedef struct {
  atomic64_t maps, unmaps, remaps, advices, failures;
} os_counts_t;
extern hidden os_counts_t os_counts;

hidden size_t os_page_size(void); /* a power of two, 4 KiB to 64 KiB; no system call */

/* Fresh zero memory, readable and writable, not counted against swap. Addresses and sizes are
 * multiples of the page size; those of these two and of os_unmap are rounded up to one. */
hidden void *os_map(size_t size); /* anywhere; NULL on failure */
/* Likewise, but a child of fork finds it zero. */
hidden void *os_map_unshared(size_t size);
typedef enum { OS_MAPPED, OS_OCCUPIED, OS_NO_MEMORY } os_map_result_t;
/* There or nowhere; OS_OCCUPIED: something else lies there. */
hidden os_map_result_t os_map_at(void *at, size_t size);
/* Likewise, of addresses alone, without memory: os_move replaces them. */
hidden os_map_result_t os_reserve_at(void *at, size_t size);
/* Where so many addresses are free at this moment; NULL: nowhere. */
hidden void *os_find(size_t size);
/* False: the addresses stay taken, but not the memory. */
hidden bool os_unmap(void *at, size_t size);
/* Moves the pages of [from, from + old_size) to [to, to + new_size), whatever lies there; `from`
 * is unmapped. Only what it grows by needs memory. */
hidden bool os_move(void *from, size_t old_size, void *to, size_t new_size);
/* Grows or shrinks a mapping in place. */
hidden bool os_resize(void *at, size_t old_size, size_t new_size);
/* False: not all is mapped, or it is several mappings, of which os_move may move the first ones and
 * fail. What a program asks for a part of a block divides it, and so does a child of fork. */
hidden bool os_is_one_mapping(void *at, size_t size);

/* Gives the pages back; they read as zero afterwards. */
hidden bool os_discard(void *at, size_t size);
/* Closes pages to every access, or opens them again with what they held. False: the system has no
 * room for one more mapping. */
hidden bool os_protect(void *at, size_t size, bool is_open);
/* Closes pages to writes alone, or opens them again. */
hidden bool os_seal(void *at, size_t size, bool is_sealed);
/* Makes the pages present in one call; a hint. */
hidden bool os_populate(void *at, size_t size);
/* Huge pages of `page` bytes that the system has set aside, of that node (-1: of any), in the place
 * of what is mapped there. One is touched only after os_populate has found it, and unmapped whole.
 * False: it has not so many, and what was mapped there may be gone. */
hidden bool os_map_huge(void *at, size_t size, size_t page, int node);
/* Asks for huge pages, or asks for none. */
hidden void os_advise_huge(void *at, size_t size, bool huge);
/* Makes the pages one huge page: in memory they are copied, and others added. Takes some tenths of
 * a millisecond, or what the system needs to find the memory. False: it did not. */
hidden bool os_collapse(void *at, size_t size);
/* The word by which whoever runs the system allows huge pages, such as "never"; its length, 0: the
 * system does not say. */
enum { OS_HUGE_SETTING = 64 };
hidden size_t os_huge_setting(char word[OS_HUGE_SETTING]);
hidden bool os_has_huge_pages(void); /* Does it allow them? Asked once. */
/* Are all these pages in memory, and shared with no other process? Not if they were never written,
 * or have stayed as they were since a fork. False in doubt. */
hidden bool os_is_private(const void *at, size_t size);
/* Bytes of the range that are in huge pages; 0, if the system does not say. */
hidden size_t os_huge_resident(const void *at, size_t size);
hidden uint64_t os_memory(void);   /* of the machine; 0: the system does not say */
hidden size_t os_processors(void); /* on which the process may run: 1 at least */
/* Bytes of the range that are in memory; all, if the system does not say. */
hidden size_t os_resident(const void *at, size_t size);
/* Makes pages read as zero. Those in memory are written to, and the rest, which may be in swap, go;
 * or all go, where that is less work. */
hidden void os_zero(void *at, size_t size);
/* May this word be read? Without a system call that a program's sandbox may refuse. */
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
/* From one reading of it to another; 0 if another thread has read the first one later. */
static inline uint32_t os_ms_between(uint32_t from, uint32_t to) {
  enum { APART_MOST = 60000 };
  return to - from > UINT32_MAX - APART_MOST ? 0 : to - from;
}
hidden uint64_t os_now_ns(void); /* likewise, but fine; it does not wrap */
/* Processor time of the calling thread, ns: what a call cost, without what ran in between. */
hidden uint64_t os_spent_ns(void);
/* What the process has used since it began, also before an exec. 0: the system does not say. */
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

/* NULL if unset, or if privileges are raised: it cannot be trusted then. */
hidden const char *os_environment(const char *name);
hidden bool os_is_raised(void); /* are privileges raised, as by set-user-ID? */
/* Bytes written, 0 if there is none. */
hidden size_t os_read_link(const char *path, char *text, size_t size);
/* All of it; false: a write has failed. */
hidden bool os_write(int file, const char *text, size_t length);
/* -1: not possible. */
hidden int os_open(const char *path);   /* to read, without waiting for a writer */
hidden int os_create(const char *path); /* to write, anew, for its owner's eyes */
hidden int os_append(const char *path); /* to what is there; -1 also of a pipe without reader */
/* To write and to map, for its owner's eyes. What was there under that name is somebody else's from
 * now on. -1: not possible, or it is no plain file, or a living process has made it so. */
hidden int os_create_shared(const char *path);
hidden int os_open_shared(const char *path); /* what was made so; -1: not possible */
/* Maps a part of such a file that has got its room on the disk, so that writing to the mapping
 * never fails; the file grows. It reads as zero. NULL: no room, or none that can be had so. */
hidden void *os_map_file(int file, uint64_t offset, size_t size);
hidden void os_unmap_file(void *at, size_t size);
/* Is something there that is no plain file, such as a terminal or a pipe? */
hidden bool os_is_special(const char *path);
hidden size_t os_read(int file, char *text, size_t size); /* 0: that was all */
hidden void os_close(int file);
/* What one call reads of the file, which is closed; 0: it is not there (-1), or empty. */
static inline size_t os_read_whole(int file, char *text, size_t size) {
  size_t got = file < 0 ? 0 : os_read(file, text, size);
  if (file >= 0) os_close(file);
  return got;
}
static inline size_t os_read_path(const char *path, char *text, size_t size) {
  return os_read_whole(os_open(path), text, size);
}
/* What /proc says of the process, by a file's name there. The files of /proc/self are empty once
 * the first thread has ended; kernels before 3.17 have no others. */
#define OS_OF_PROCESS(name) "/proc/thread-self/" name, "/proc/self/" name
static inline int os_open_either(const char *path, const char *other) {
  int file = os_open(path);
  return file >= 0 ? file : os_open(other);
}
hidden bool os_rename(const char *from, const char *to);
hidden void os_remove(const char *path);
/* The lowest free number from `least` on, closed by exec; -1: there is none. */
hidden int os_duplicate(int file, int least);
/* Tells open files apart; 0 if `file` is not open. */
hidden uint64_t os_file_identity(int file);
hidden uint32_t os_process(void); /* its number */
/* Calls `handler` on that signal; false if the program has said what is to be done then. */
hidden bool os_on_signal(int number, void (*handler)(int number));
/* Calls `handler` with each address that may not be touched, from now until somebody else says what
 * is to be done then. True: it was ours, and the system does what it does by default. False: as if
 * there had been none; a handler that was there before is called, and ours stays. It runs on the
 * signal stack, if there is one. */
typedef bool os_fault_t(const void *address);
hidden bool os_on_fault(os_fault_t *handler);
_Noreturn hidden void os_abort(void);

/* Calls `leave` in each thread that called os_thread_watch, when it ends. os_thread_watch is false
 * if the system has no room for it; the heap then stays with the dead thread. */
typedef void os_leave_t(void *heap);
hidden void os_thread_set_leave(os_leave_t *leave);
hidden bool os_thread_watch(void *heap);
/* Calls `child` in each child that fork makes, before fork returns there; not after a bare system
 * call. C libraries lock for it: at load. */
hidden void os_on_fork(void (*child)(void));

/* Which thread of which process this is, a number below 2^OS_THREAD_BITS; 0: not known. */
enum { OS_THREAD_BITS = 44 };
hidden uint64_t os_thread(void);
/* The lower half of that is the system's own number. */
static inline uint32_t os_thread_half(uint64_t thread) {
  return (uint32_t)(thread & (((uint64_t)1 << OS_THREAD_BITS / 2) - 1));
}
static inline uint32_t os_thread_number(void) { return os_thread_half(os_thread()); }
/* Each thread of the process has passed a fence of both kinds, as seq_cst has it, since the call
 * began. False: the system makes none. The first call may wait for the system, for milliseconds. */
hidden bool os_fence_threads(void);
/* The calling thread gets no signals until os_release_signals, which is given what this returns.
 * Left out are those of its own mistakes, and two that C libraries wait for. */
hidden uint64_t os_hold_signals(void);
hidden void os_release_signals(uint64_t before);
/* Does the thread of that number, of this process, wait for something else than a processor? False
 * if the system does not say. One thread at a time asks. */
hidden bool os_thread_is_asleep(uint32_t number);
/* In a child of fork, before it opens files: what such a look of a parent's thread had open. */
hidden void os_close_parents_look(void);
/* Processor time of the thread of that number, of this process, ns. 0: not known. */
hidden uint64_t os_thread_spent_ns(uint32_t number);
/* The thread is one of `caller`'s process, and has ended: what it wrote is seen. False in doubt. */
hidden bool os_thread_has_ended(uint64_t thread, uint64_t caller);

/* Starts a thread with no signals that runs `run` (once); false if none can be had. */
hidden bool os_thread_start(void (*run)(void));
hidden void os_sleep_ms(uint32_t ms); /* for the background thread alone */

/* ---- call stacks (unwind.c) ---- */
/* Lets os_backtrace know the tables of other files: until then it goes by frame pointers there. May
 * lock, so it is called while the library is loaded. */
hidden void os_backtrace_start(void);
/* Return addresses, the innermost first, without the shared library's own; how many there are. By
 * unwind tables where there are any, or by frame pointers alone. */
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
/* Calls `visitor` with each mapping of code. `text`: room for what is read meanwhile. */
enum { OS_IMAGES_TEXT = 16 << 10 };
hidden void os_each_image(char text[OS_IMAGES_TEXT], os_image_visitor_t *visitor, void *context);
