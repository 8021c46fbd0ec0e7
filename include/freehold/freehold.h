/* freehold.h - the public C interface of freehold, a lock-free general-purpose memory allocator.
 *
 * The C, POSIX and glibc names (malloc, free, aligned_alloc ...) come with the library as well;
 * this header adds the same family under the prefix fh_, and functions that no standard has.
 *
 * True of every function below unless it says otherwise:
 *   Units     sizes and alignments are bytes, times are milliseconds.
 *   Errors    a function that returns a pointer returns NULL and sets errno to ENOMEM when there is
 *             no memory; sizes above PTRDIFF_MAX and overflowing products fail at once. A detected
 *             corruption (double free, interior, misaligned or foreign pointer) writes one line to
 *             the output callback or standard error, and aborts.
 *   Threads   may be called by any thread at any time; never takes a lock or waits for another
 *             thread. A block of libc's own heap goes to libc, which has locks.
 *   Signals   may be called in a signal handler, even one that interrupted an allocator function.
 *   Fork      may be called in the child of a fork of a process with several threads.
 */
#ifndef FREEHOLD_H
#define FREEHOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version stands here and nowhere else; the build reads it from these lines. */
#define FH_VERSION_MAJOR 1
#define FH_VERSION_MINOR 0
#define FH_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#if !defined(_WIN32)
#define FH_API __attribute__((visibility("default")))
#elif defined(FH_SHARED) /* the library itself */
#define FH_API __declspec(dllexport)
#else
#define FH_API
#endif
#define FH_MALLOC __attribute__((malloc, warn_unused_result))
#define FH_SIZE(...) __attribute__((alloc_size(__VA_ARGS__)))
#else
#define FH_API
#define FH_MALLOC
#define FH_SIZE(...)
#endif

/* ---- version --------------------------------------------------------------------------------- */

/* Major * 10000 + minor * 100 + patch of the running library (the header's may differ). Ours. */
FH_API int fh_version(void);

/* The same as text, such as "1.0.0", followed by "-secure" in the secure grade and by "-debug" in
 * the checked build. Static storage. Ours. */
FH_API const char *fh_version_string(void);

/* ---- the family of malloc -------------------------------------------------------------------- */

/* A block of at least `size` bytes, aligned for every type (16 bytes when size >= 16). malloc(0)
 * returns a unique pointer, at which nothing may be read or written. C23 7.24.3.6. */
FH_API void *fh_malloc(size_t size) FH_MALLOC FH_SIZE(1);

/* `count * size` bytes, all zero. C23 7.24.3.2. */
FH_API void *fh_calloc(size_t count, size_t size) FH_MALLOC FH_SIZE(1, 2);

/* Changes the size of block `p` to `size`, moving it if need be; the common prefix keeps its
 * contents. On failure the old block is untouched. realloc(NULL, n) is malloc(n); realloc(p, 0)
 * frees p and returns NULL, as glibc does. C23 7.24.3.7. */
FH_API void *fh_realloc(void *p, size_t size) FH_SIZE(2);

/* fh_realloc(p, count * size), ENOMEM when the product overflows. POSIX 2024. */
FH_API void *fh_reallocarray(void *p, size_t count, size_t size) FH_SIZE(2, 3);

/* Gives block `p` back; NULL is allowed. Keeps errno. C23 7.24.3.3, POSIX 2024. */
FH_API void fh_free(void *p);

/* fh_free for a caller that knows the size it asked for, or the size fh_malloc_at_least returned.
 * If the block has less, or more than malloc or realloc would have given it for that size, it is
 * reported as a corruption ("wrong size"): docs/promises.md, section 5. C23 7.24.3.4. */
FH_API void fh_free_sized(void *p, size_t size);

/* Likewise for a block of fh_aligned_alloc(alignment, size). C23 7.24.3.5. */
FH_API void fh_free_aligned_sized(void *p, size_t alignment, size_t size);

/* A block aligned to `alignment`, a power of two up to 1 GiB; NULL and EINVAL if it is not a power
 * of two, ENOMEM if it is larger. C23 7.24.3.1. */
FH_API void *fh_aligned_alloc(size_t alignment, size_t size) FH_MALLOC FH_SIZE(2);

/* The same with the result in `*p`; returns 0, EINVAL (alignment no power of two or not a multiple
 * of sizeof(void *)) or ENOMEM, leaving `*p` and errno alone on failure. POSIX. */
FH_API int fh_posix_memalign(void **p, size_t alignment, size_t size);

/* How many bytes of block `p` may be used: at least as many as asked for, constant for the block's
 * life, all of them writable; 0 for NULL. glibc's malloc_usable_size. */
FH_API size_t fh_usable_size(const void *p);

/* The usable size that a request of `size` bytes would get; `size` itself if that is more than the
 * address space has. A block of more than 16 and up to 128 KiB may have an eighth more, if it was
 * used before. A sampled or guarded block may have another size, and so may one that a thread got
 * beyond memory_limit. Ours; jemalloc's nallocx, macOS's malloc_good_size. */
FH_API size_t fh_good_size(size_t size);

/* `count * size` bytes, all zero, aligned as by fh_aligned_alloc; errors as there. Ours. */
FH_API void *fh_calloc_aligned(size_t alignment, size_t count, size_t size) FH_MALLOC FH_SIZE(2, 3);

/* fh_realloc whose block is aligned to `alignment` afterwards, whichever call `p` comes from. The
 * block stays in place if it is aligned there and has room. EINVAL, and `p` untouched, if the
 * alignment is not a power of two. The bytes beyond the old size may be anything. Ours. */
FH_API void *fh_realloc_aligned(void *p, size_t alignment, size_t size) FH_SIZE(3);

/* fh_realloc after which the bytes from `old_size` up to `size` are zero, whatever was there. With
 * `old_size` the caller says how many of the block's bytes to keep: at most its usable size; more
 * is reported as a corruption ("wrong size"). So it does not matter how `p` was allocated, or what
 * was written behind `old_size`. Pages that nobody has touched stay untouched. For NULL it is
 * calloc(1, size). Ours; the idea is OpenBSD's recallocarray. */
FH_API void *fh_realloc_zeroed(void *p, size_t old_size, size_t size) FH_SIZE(3);

/* The calls above, which also store in `*actual` how many bytes the block really has: what
 * fh_usable_size would say, 0 if the call returns NULL. All of these bytes belong to the caller.
 * Those that the plain call does not clear may be anything; if it clears, all are zero up to
 * `*actual`. `actual` may be NULL. Ours; P0901. */
FH_API void *fh_malloc_at_least(size_t size, size_t *actual) FH_MALLOC FH_SIZE(1);
FH_API void *fh_calloc_at_least(size_t count, size_t size, size_t *actual) FH_MALLOC FH_SIZE(1, 2);
FH_API void *fh_realloc_at_least(void *p, size_t size, size_t *actual) FH_SIZE(2);
FH_API void *fh_aligned_alloc_at_least(size_t alignment, size_t size, size_t *actual) FH_MALLOC
  FH_SIZE(2);
FH_API void *fh_calloc_aligned_at_least(size_t alignment, size_t count, size_t size,
                                        size_t *actual) FH_MALLOC FH_SIZE(2, 3);
FH_API void *fh_realloc_aligned_at_least(void *p, size_t alignment, size_t size, size_t *actual)
  FH_SIZE(3);
FH_API void *fh_realloc_zeroed_at_least(void *p, size_t old_size, size_t size, size_t *actual)
  FH_SIZE(3);

/* A copy of the string; fh_strndup copies at most its first `most` bytes, and adds a zero byte.
 * Freed like any block. C23 7.26.2.6 and 7.26.2.7, POSIX. (libc's own strdup, asprintf, getline and
 * realpath use malloc, and so freehold's blocks, too.) */
FH_API char *fh_strdup(const char *text) FH_MALLOC;
FH_API char *fh_strndup(const char *text, size_t most) FH_MALLOC;

/* Puts `count` blocks of fh_malloc(size) into `blocks`, in one call; returns how many. If there are
 * fewer than `count`, memory was short (ENOMEM), and the rest of the array is unchanged. Each block
 * is freed like any other, in any order, by itself or in a batch. A thread that is stopped
 * permanently inside keeps what it had taken. Ours; the idea is jemalloc's batch_alloc. */
FH_API size_t fh_malloc_batch(size_t size, size_t count, void **blocks);

/* fh_free of each of `count` pointers, in order; any may be NULL, and the blocks may be of any size
 * and origin. The array is not changed. A pointer to no live block is reported when its turn comes.
 * If a handler jumps out of the call, the program keeps those whose turn had not come. Keeps errno.
 * Ours. */
FH_API void fh_free_batch(void *const *blocks, size_t count);

/* Resizes block `p` to `size` bytes in place, or does nothing: true if at least `size` bytes are
 * usable now. May also shrink (size smaller than the block): then memory behind the new end goes
 * back if that is worthwhile. Ours; mimalloc's mi_expand. */
FH_API bool fh_expand(void *p, size_t size);

/* Names that programs look for at run time (weak, or by dlsym) exist too, without prefix.
 *   size_t nallocx(size_t size, int flags)          fh_good_size; 0: too much
 *   void sdallocx(void *p, size_t size, int flags)  fh_free_sized
 *   size_t malloc_size(void *p)                     fh_usable_size
 * 2 to the power of the low six bits of `flags` is the alignment. __size_returning_new, and
 * operator new with the hint __hot_cold_t, are declared in freehold/new.hpp. Names by which
 * programs recognize jemalloc (mallctl) or tcmalloc (MallocExtension) do not exist: programs would
 * go on to use the rest of that interface. jemalloc, gperftools, LLVM. */

/* Does `p` point into memory from which freehold hands out blocks, whether or not a block is there?
 * O(1); false for NULL, the stack, static data and libc's heap. Ours. */
FH_API bool fh_owns(const void *p);

/* ---- first-class heaps ----------------------------------------------------------------------- */

/* A separate heap: its blocks never share a slab with another heap's, and all of them can be freed
 * at once. Any thread may allocate from it, and free, fh_free or fh_realloc its blocks. Ours; the
 * idea is mimalloc's. */
typedef struct fh_heap fh_heap_t;

/* A new heap without blocks, one for each request if you like: what it costs to make, use and end
 * it depends on its contents, however large the process is. NULL and ENOMEM if memory is short.
 * Ours. */
FH_API fh_heap_t *fh_heap_new(void);

/* What a heap begins with; zero is the default for each. */
typedef struct fh_heap_options {
  size_t struct_size; /* the caller's sizeof(fh_heap_options_t): later versions add to the end */
  size_t quota;       /* as in fh_heap_set_quota */
  const char *name;   /* copied, 31 bytes of it; NULL: none */
} fh_heap_options_t;

/* fh_heap_new with options; NULL and EINVAL if this library does not know the struct_size. Ours. */
FH_API fh_heap_t *fh_heap_new_with(const fh_heap_options_t *options);

/* How many bytes the heap may have in slabs (whole ones of 64 KiB) and in large and huge blocks; 0:
 * any number. A call that would pass the quota gets NULL and ENOMEM. The quota is compared, not
 * reserved: threads that allocate at the same moment may pass it by what each asked for. So may a
 * block that realloc makes larger in place or by moving its pages. While there is a quota, calls
 * that need a slab or a large block take a step for each thread that was ever in the heap at once
 * with others. Ours. */
FH_API void fh_heap_set_quota(fh_heap_t *heap, size_t bytes);

typedef struct fh_heap_stats {
  size_t struct_size;   /* the caller's sizeof(fh_heap_stats_t): later versions add to the end */
  uint64_t slab_bytes;  /* its slabs, whole: blocks of up to 16 KiB, live and free ones */
  uint64_t large_bytes; /* its live large and huge blocks */
  uint64_t quota;       /* 0: none */
  char name[32];        /* ended by a zero byte */
} fh_heap_stats_t;

/* Fills `*stats`; one step for each thread that was in the heap at once with others. False if this
 * library does not know the struct_size. Ours. */
FH_API bool fh_heap_stats_get(fh_heap_t *heap, fh_heap_stats_t *stats);

/* Gives back what the heap keeps of freed blocks, except where another call is in it just now.
 * Emptied slabs go back by themselves, except two for each thread that was inside at once, and
 * those of which a thread keeps freed blocks or was inside just then. Takes time in proportion to
 * its slabs. Ours. */
FH_API void fh_heap_collect(fh_heap_t *heap);

/* The heap that live block `p` comes from. NULL if it comes from none or from one that has ended,
 * or if `p` is NULL or outside freehold's memory. A pointer into the middle of a block ends the
 * process, as if it were freed. Ours. */
FH_API fh_heap_t *fh_heap_of(const void *p);

/* fh_malloc, fh_calloc and fh_aligned_alloc whose block comes from `heap`: what they return, and
 * the errors ENOMEM and (alignment not a power of two) EINVAL, are the same. Any number of threads
 * and signal handlers may be inside at once. Ours. */
FH_API void *fh_heap_malloc(fh_heap_t *heap, size_t size) FH_MALLOC FH_SIZE(2);
FH_API void *fh_heap_calloc(fh_heap_t *heap, size_t count, size_t size) FH_MALLOC FH_SIZE(2, 3);
FH_API void *fh_heap_aligned_alloc(fh_heap_t *heap, size_t alignment, size_t size) FH_MALLOC
  FH_SIZE(3);

/* From now on malloc, operator new and their kin take the blocks of the calling thread from `heap`,
 * as fh_heap_malloc does. realloc works like fh_heap_realloc. NULL: from the thread's own heap, as
 * at first. Returns the previous choice. While a heap is chosen, every call of this thread takes
 * the slow path. The heap may be the default of any number of threads; it must not end before they
 * have chosen another or ended. Not for signal handlers. Ours; the idea is mimalloc's. */
FH_API fh_heap_t *fh_heap_set_default(fh_heap_t *heap);

/* fh_strdup and fh_strndup likewise. Ours. */
FH_API char *fh_heap_strdup(fh_heap_t *heap, const char *text) FH_MALLOC;
FH_API char *fh_heap_strndup(fh_heap_t *heap, const char *text, size_t most) FH_MALLOC;

/* fh_realloc whose new block, if one is needed, comes from `heap`; a block that has room in place
 * stays with the heap that it came from. (After fh_realloc itself a block of a heap may be the
 * heap's or anybody's.) Ours. */
FH_API void *fh_heap_realloc(fh_heap_t *heap, void *p, size_t size) FH_SIZE(3);

/* Ends the heap; its live blocks stay valid and are freed like any other. No other call may be
 * using the heap. Takes time in proportion to its slabs, and one step for each 55 large blocks that
 * it had at its peak. Ours. */
FH_API void fh_heap_delete(fh_heap_t *heap);

/* Ends the heap and frees all its blocks at once. No other call may be using the heap or its
 * blocks. Takes time as above, and a step for each live block above 16 KiB; none for smaller ones.
 * Ours. */
FH_API void fh_heap_destroy(fh_heap_t *heap);

/* Called for each live block; return false to stop. It must not allocate from or free into the
 * visited heap. It may leave by longjmp or an exception; then one part of a visited heap is not
 * used again until the heap ends. */
typedef bool fh_visitor_t(void *block, size_t usable, void *context);

/* Visits the live blocks of `heap`, or of the whole process if heap is NULL; true if the visitor
 * never said stop. Blocks that other threads allocate or free meanwhile may or may not be seen.
 * Blocks freed before are not seen, except perhaps the last eight that another thread freed while
 * it was alone in the process. Memory is never unmapped during the visit unless another thread
 * frees it. The visit of a heap looks only at that heap's slabs, unless another call is allocating
 * from it or visiting it: then it looks at all slabs of the process. Ours. */
FH_API bool fh_heap_visit(fh_heap_t *heap, fh_visitor_t *visitor, void *context);

/* Where blocks lie: a slab, or one larger block. */
typedef struct fh_area {
  void *start;
  size_t size;       /* bytes from there on */
  size_t block_size; /* bytes of each of its blocks */
  size_t used;       /* blocks that live, or are kept by a thread for its next calls */
} fh_area_t;
typedef bool fh_area_visitor_t(const fh_area_t *area, void *context);

/* fh_heap_visit for areas instead of blocks; blocks of no bytes lie in none. The part of an area
 * that is not in use is free, or was never used. In the secure grade a block has some bytes that
 * are not the program's. Ours; the idea is mimalloc's mi_heap_visit_blocks. */
FH_API bool fh_heap_visit_areas(fh_heap_t *heap, fh_area_visitor_t *visitor, void *context);

/* ---- upkeep ---------------------------------------------------------------------------------- */

/* Gives back what the calling thread keeps for its next calls, and what ended threads left for
 * others; with `force` also every dirty page, whatever the purge options say. With `force`, what
 * sleeping threads keep goes back as well, where it can be taken (docs/promises.md, section 4).
 * Other threads then give back what they keep in their next calls on the slow path. Takes time in
 * proportion to the slabs and heaps. It waits for no thread; the first time that there are sleeping
 * threads, the system may take some milliseconds. The calling thread's signals are held back
 * meanwhile. Ours. */
FH_API void fh_collect(bool force);

/* Gives freehold some of the program's own memory to hand out blocks from: huge pages, memory of a
 * node or a device, a static buffer. Returns how many of its bytes blocks may use from now on, 0 if
 * none. They are used before more is mapped.
 *   It must be readable and writable until the process ends, and nobody else may touch it.
 *   Slices of 64 KiB are used. Each aligned GiB of addresses in which it lies begins with 2.2 MiB
 * of records, and does not use its last 64 KiB. Where the memory does not cover that beginning, the
 * records are mapped there; if something else lies there, the GiB is skipped. So memory that begins
 * at a multiple of 1 GiB can always be used.
 *   It is never unmapped or moved. Its pages go back to the system, when they are free, only with
 * FH_ARENA_PURGE; without it they do not count as `dirty`.
 *   In a child of fork it must be private, like other memory: both would write to shared memory.
 * The kernel needs a free hugetlb page for each that parent or child writes to, and kills the child
 * (SIGBUS) if there is none.
 * EINVAL if a flag is unknown or there are no such addresses, ENOMEM if none of it can be used.
 * Ours; the idea is mimalloc's mi_manage_os_memory. */
enum {
  FH_ARENA_ZERO = 1, /* all of it reads as zero now */
  FH_ARENA_PURGE = 2 /* it is private and anonymous: madvise(MADV_DONTNEED) makes it zero */
};
FH_API size_t fh_arena_add(void *address, size_t size, unsigned flags);

/* Called by the thread that allocates, now and then on the slow path, before a realloc moves
 * anything and also when an allocation fails. fh_heap_new, fh_heap_malloc and their kin call it
 * only when an allocation fails, except in the secure grade and with options that see every call.
 * It is the place for deferred work, such as freeing in small portions. The heartbeat grows by one
 * each time; force is true inside fh_collect(true). It may allocate and free. NULL removes it.
 * Ours; the idea is mimalloc's. */
typedef void fh_deferred_t(bool force, uint64_t heartbeat, void *context);
FH_API void fh_on_deferred_free(fh_deferred_t *callback, void *context);

/* How near the memory in use is to `memory_soft`, or to the limit of the container (cgroup):
 * docs/limits.md. */
typedef enum fh_pressure {
  FH_PRESSURE_NONE,
  FH_PRESSURE_NEAR, /* caches shrink, free memory goes back at once */
  FH_PRESSURE_OVER  /* beyond memory_soft, or almost at the container's limit */
} fh_pressure_t;

/* Called when the level has changed, and about once a second while it is FH_PRESSURE_OVER. Then
 * `bytes_over` says by how much `memory_soft` is passed (0: only the container is the reason). It
 * is the place to drop caches. It is called by a thread that allocates on the slow path, or
 * reallocates; it may allocate and free, and is not called from within itself. It must not leave by
 * longjmp or an exception. Compilers assume that malloc changes none of the program's variables, so
 * those that the callback changes should be volatile or atomic. Options memory_soft and container.
 * NULL removes it. Ours. */
typedef void fh_pressure_callback_t(fh_pressure_t level, uint64_t bytes_over, void *context);
FH_API void fh_pressure_set(fh_pressure_callback_t *callback, void *context);

/* Where text goes (default: standard error): statistics, warnings and errors, in whole lines, one
 * or several at a time, without a zero byte at the end. It must not allocate from freehold when the
 * message is an error. NULL restores the default. Ours. */
typedef void fh_output_t(const char *text, size_t length, void *context);
FH_API void fh_on_output(fh_output_t *callback, void *context);

/* Called with an errno value. EFAULT for heap corruption, after its message was written; the
 * process aborts when the callback returns. ENOMEM when an allocation fails, and EINVAL when
 * fh_option_set does: these two write no message. Mistakes in the text of options write a line and
 * do not call it. Ours. */
typedef void fh_error_t(int error, void *context);
FH_API void fh_on_error(fh_error_t *callback, void *context);

/* ---- options --------------------------------------------------------------------------------- */

/* Options are read from the target text of the symbolic link /etc/freehold.conf, the environment
 * variable FREEHOLD_OPTIONS and the program's symbol `fh_options`, later ones winning;
 * docs/options.md lists them. The text is "name:value,name:value"; sizes may end in K, M, G, T, P,
 * E (powers of 1024). Programs with raised privileges (AT_SECURE) ignore the environment, and
 * options that name files. A program defines the symbol itself:
 * const char *fh_options = "purge_delay_ms:10"; */
extern const char *fh_options;

/* The value in force; false if there is no option of that name. Ours. */
FH_API bool fh_option_get(const char *name, int64_t *value);

/* Sets an option at run time; false, changing nothing, if no option has that name, the value is out
 * of range, or the option can only be set at start. Ours. */
FH_API bool fh_option_set(const char *name, int64_t value);

/* ---- statistics ------------------------------------------------------------------------------ */

/* clang-format off */
/* One size class, or in `total` all of them. Counts are blocks; a figure that only the detailed
 * mode knows (option stats_detail) is marked (d) and 0 otherwise. */
typedef struct fh_class_stats {
  size_t   block_size;   /* bytes of one block; 0 in the total */
  uint64_t requested;    /* (d) bytes asked for since start, except aligned blocks */
  uint64_t allocated;    /* blocks handed to threads since start */
  uint64_t live;         /* blocks in the program's hands, or kept by a thread for its next calls */
  uint64_t peak;         /* most that `live` has been, as nearly as is said below */
  uint64_t slabs;        /* slabs of this class */
  uint64_t fullness[4];  /* slabs by share of live blocks: below 1/4, 1/2, 3/4, up to 1 */
} fh_class_stats_t;

enum { FH_CLASSES = 72 };

typedef struct fh_stats {
  size_t   struct_size;     /* the caller's sizeof(fh_stats_t): later versions add to the end */
  /* memory, in bytes */
  uint64_t mapped;          /* address space of ours */
  uint64_t committed;       /* of that, in slabs, large and huge blocks, or kept for these */
  uint64_t resident;        /* what the kernel says is in memory (mincore), of `mapped` */
  uint64_t dirty;           /* free, but not yet given back */
  uint64_t purged;          /* given back since start */
  /* descriptors and maps, which are part of `mapped`, and heaps and records of huge and empty
   * blocks, which are not; touched or untouched */
  uint64_t metadata;
  uint64_t live_bytes;      /* block sizes of live small blocks, and sizes of large and huge ones */
  uint64_t peak_committed;  /* most that `committed` has been */
  /* blocks */
  uint64_t large_live;      /* live blocks above 16 KiB inside an arena */
  uint64_t large_allocated; /* such blocks since start */
  uint64_t huge_live;       /* live blocks with a mapping of their own */
  uint64_t huge_allocated;  /* such blocks since start */
  /* system calls */
  uint64_t mmaps;           /* calls of mmap */
  uint64_t munmaps;         /* calls of munmap */
  uint64_t mremaps;         /* calls of mremap */
  uint64_t madvises;        /* calls of madvise, process_madvise and mprotect */
  uint64_t failed_calls;    /* of these four, refused by the kernel */
  /* sharing */
  uint64_t remote_frees;    /* blocks given back to slabs that another thread owns */
  /* chains of blocks that were put back into slabs of others or of nobody by a compare-and-swap */
  uint64_t swaps;
  uint64_t swap_retries;    /* compare-and-swaps on slabs, of any kind, that were repeated */
  uint64_t adoptions;       /* FULL slabs taken over by a thread that freed blocks of them */
  uint64_t publications;    /* times that a slab was made available to all */
  /* threads */
  /* heaps in use now: of threads, also of those that were killed, and of signal handlers that have
   * interrupted the allocator; none of fh_heap_t */
  uint64_t threads;
  uint64_t heaps;           /* heaps made, less those given back to the system */
  uint64_t nested;          /* calls that interrupted one of their thread, or met a taker */
  /* memory */
  uint64_t arenas;          /* arenas in `mapped` */
  fh_class_stats_t total;
  fh_class_stats_t classes[FH_CLASSES];
  /* process */
  uint64_t elapsed_ms;      /* since the process began; 0: the system does not say */
  uint64_t user_ms;         /* processor time of all threads outside the kernel */
  uint64_t system_ms;       /* processor time in the kernel */
  uint64_t minor_faults;    /* page faults that nothing was read for */
  uint64_t major_faults;    /* page faults for which a disk was read */
  uint64_t peak_resident;   /* most bytes of the whole process that were in memory */
  /* sharing */
  /* blocks given back to slabs that nobody owns: full ones, whichever thread has filled them, and
   * those out of which all threads borrow; also what was borrowed and not used */
  uint64_t shared_frees;
  /* blocks */
  /* live blocks of no bytes, which are in no other figure of live blocks */
  uint64_t empty_live;
  /* memory, in bytes */
  /* what the kernel says is in huge pages, of `resident`; 0 before Linux 6.7 */
  uint64_t huge_resident;
  uint64_t collapsed;       /* huge pages that were made of small ones since start (option thp) */
  /* least limit of the control groups around the process; 0: none was found, or looked for */
  uint64_t container_limit;
  uint64_t pressure;        /* level of pressure now: 0 none, 1 near a bound, 2 over it */
  uint64_t pressure_raises; /* times that this level rose */
  uint64_t reserved;        /* huge pages that were taken at start (option reserve_huge_pages) */
} fh_stats_t;
/* clang-format on */

/* Fills `*stats` without stopping any thread, so figures of running threads may be a moment apart.
 * It looks at each slab, large block and heap, and asks the kernel about each page: it takes time
 * in proportion to them (mallinfo2 does not). What the process has used is what getrusage says of
 * all its threads since it began, even before an exec; 0 where that is refused. False if this
 * library does not know the struct_size. Ours. */
FH_API bool fh_stats_get(fh_stats_t *stats);

/* Writes the statistics through the output callback: text for people, or one JSON object. Ours. */
FH_API void fh_stats_print(bool json);

/* Writes the JSON object into `buffer` of `size` bytes, cut if need be, with a zero byte at the
 * end; returns the whole length, as snprintf does. Ours. */
FH_API size_t fh_stats_json(char *buffer, size_t size);

/* Bytes that the calling thread has allocated, or has freed, whichever thread allocated them. Both
 * counts begin with the thread's first call of either, which returns 0. Differences tell what a
 * piece of work used. They are exact, in bytes of blocks. So a request for 100 bytes counts as 112,
 * one for 20,000 as whole pages, and one for none as none. A block that a profile samples has its
 * own pages, and counts as these. If realloc leaves a block in place, or moves its pages, what it
 * adds or takes away counts. Memory that freehold needs for itself does not count, nor do blocks of
 * libc's own heap. In a signal handler the interrupted call may count in part. In
 * the secure grade a block counts as freed when it may be used again. Neither call locks or asks
 * the system. They take time in proportion to the blocks in the thread's lists for its next calls.
 * These are usually a few hundred, at most 64 KiB of each size below 1 KiB, and 16 MiB of each
 * other. A thread that never asks pays for two additions in a slow call. Ours; like jemalloc's
 * thread.allocated. */
FH_API uint64_t fh_thread_allocated(void);
FH_API uint64_t fh_thread_freed(void);

/* ---- profiles -------------------------------------------------------------------------------- */

/* From now on samples one block in about `interval` bytes, or none if that is 0. 512 KiB is a good
 * choice, 64 GiB the most. Each byte has the same chance. A sampled block takes whole pages, and
 * its call stack is kept. The option `profile` does this at load. False and ENOMEM if there is no
 * memory for call stacks. Any thread, also in signal handlers: it never waits. A call that is
 * sampled needs up to 8 KiB of stack. The command `freehold profile --start` asks a running process
 * to do this. Ours; the idea is tcmalloc's. */
FH_API bool fh_profile_start(size_t interval);

/* Figures are sums of weights, which are unbiased estimates for all blocks. */
typedef enum fh_profile {
  /* by call stack: allocated since the first start; live at the peak, to three percent; live */
  FH_PROFILE_HEAP,
  FH_PROFILE_BLOCKS,   /* each live sample, with labels: thread, heap (fh_heap_t), age_ms */
  FH_PROFILE_LIFETIMES /* freed blocks, by where they were allocated and freed; their lifetimes */
} fh_profile_t;

/* Writes a profile to an open file, in the format of pprof (profile.proto, not compressed), with
 * mappings and build ids; pprof finds the symbols. Sizes are those of blocks. False with errno
 * EINVAL (no such kind), ENODATA (sampling was never started) or EIO (no memory, or not all could
 * be written). Any thread, also in signal handlers; it waits for no other thread. Takes time in
 * proportion to the call stacks; for FH_PROFILE_BLOCKS, to the memory mapped. Ours. */
FH_API bool fh_profile_write(int file, fh_profile_t kind);

/* For a profiler of the program's own: called for each sampled block when it is allocated, and when
 * it is freed. `bytes` is what the block stands for: its size times 1 / (1 - exp(-size /
 * interval)). A block that realloc makes larger or smaller counts as freed and allocated. The
 * thread is in the middle of the call, perhaps in a signal handler. A hook may allocate and free,
 * but gets no calls for that; it must not leave by longjmp or an exception. In `freed` the block is
 * only an address: no other call accepts it any more. NULL removes a hook; threads that are about
 * to call it may still do so. Each different pair of hook and context keeps 32 bytes permanently.
 * Any thread, not for signal handlers; without fh_profile_start nothing is sampled. Ours. */
typedef void fh_profile_hook_t(void *block, size_t size, uint64_t bytes, void *context);
FH_API void fh_profile_hooks(fh_profile_hook_t *allocated, fh_profile_hook_t *freed, void *context);

/* ---- traces ---------------------------------------------------------------------------------- */

/* Begins an event trace in the file `path`, as the option `trace` does at start. A thread's calls
 * are recorded from its first one that the fast path cannot do. That comes at the latest when a
 * list of free blocks is used up. From then on its fast paths are closed, until the trace ends. In
 * the trace, frees of earlier blocks have no allocation. False with errno EALREADY (there is a
 * trace, or another thread begins or ends one), EINVAL (no name), EIO (the file cannot be made) or
 * ENOSPC (no room for it). Any thread, also in signal handlers; it waits for no other thread.
 * Ours. */
FH_API bool fh_trace_start(const char *path);

/* Ends the trace, so that another one may begin. Each thread's fast paths open again with its next
 * call. A thread that is recording a call at that moment may still write it to the file. Each
 * thread gives up its part of the file, 64 KiB, in one of its next slow calls. If the file was
 * removed, its room on the disk is freed with the last part. False with errno ESRCH: there is no
 * trace to a file, it also has rings (option `trace_ring`), or another thread begins or ends it.
 * Threads and handlers as above. Ours. */
FH_API bool fh_trace_stop(void);

#ifdef __cplusplus
}
#endif
#endif
