/* stats.h - THE table of statistics                                                layer 2: support
 * Owns:    nothing.   Called by: stats.c, report.c, tools.   Calls: nothing; the counters of layers
 *          above are words here.
 * Threads: any: constants.
 *
 * Counting, text and JSON come from the table, as do docs/statistics.md and the structs of
 * freehold.h (build/tables writes them, tests compare). A new counter is one row at the end and one
 * test. A figure that a visit finds also has code in stats.c. */
#pragma once

/* The text has them in this order; the last one is a table. */
#define STATS_SECTIONS(X)                                                                          \
  X(MEMORY, "memory")                                                                              \
  X(CALLS, "system calls")                                                                         \
  X(SHARING, "sharing")                                                                            \
  X(THREADS, "threads")                                                                            \
  X(PROCESS, "process")                                                                            \
  X(BLOCKS, "blocks")

/* What follows a figure in the text: the end of the line, the next figure, or what it means. */
#define STATS_FOLLOWED_BY(X)                                                                       \
  X(END) X(NEXT) X(ARENAS) X(PEAK) X(WAITS) X(SINCE) X(COMMITTED) X(MAPPED) X(RESIDENT) X(ALLOCATED)

/* from    COUNTER a word that is counted up and down; TALLIED one of all tallies; SLICES one that
 *         counts slices; WITH_HUGE likewise, and huge blocks' bytes. HEAPS a word of each heap, and
 *         of heap_counts; VISIT what a visit of these finds; PROCESS a field of os_usage_t.
 * position  among the figures of its section in the text, where it has that label. 0: no place of
 *         its own; it stands behind another figure, or in the table of blocks. The sentence is the
 *         documentation. The order is the struct's: rows are added at the end. */
/* name  section  unit  from  position  label  what follows; what it is */
#define FH_STATISTICS(X, CLASSES)                                                                  \
  X(mapped, MEMORY, BYTES, WITH_HUGE(arena_counts.mapped), 1, "mapped", ARENAS,                    \
    "address space of ours")                                                                       \
  X(committed, MEMORY, BYTES, WITH_HUGE(arena_counts.committed), 2, "committed", PEAK,             \
    "of that, in slabs, large and huge blocks, or kept for these")                                 \
  X(resident, MEMORY, BYTES, VISIT("pages"), 4, "resident", MAPPED,                                \
    "what the kernel says is in memory (mincore), of `mapped`")                                    \
  X(dirty, MEMORY, BYTES, SLICES(arena_counts.dirty), 6, "dirty", WAITS,                           \
    "free, but not yet given back")                                                                \
  X(purged, MEMORY, BYTES, COUNTER(arena_counts.purged), 7, "purged", SINCE,                       \
    "given back since start")                                                                      \
  X(metadata, MEMORY, BYTES, VISIT("arenas"), 8, "metadata", MAPPED,                               \
    "descriptors and maps, which are part of `mapped`, and heaps and records of huge and "         \
    "empty blocks, which are not; touched or untouched")                                           \
  X(live_bytes, MEMORY, BYTES, VISIT("slabs and large blocks"), 3, "live", COMMITTED,              \
    "block sizes of live small blocks, and sizes of large and huge ones")                          \
  X(peak_committed, MEMORY, BYTES, SLICES(arena_counts.peak_committed), 0, "", END,                \
    "most that `committed` has been")                                                              \
  X(large_live, BLOCKS, COUNT, HEAPS(large_live), 0, "", END,                                      \
    "live blocks above 16 KiB inside an arena")                                                    \
  X(large_allocated, BLOCKS, COUNT, HEAPS(large_allocated), 0, "", END, "such blocks since start") \
  X(huge_live, BLOCKS, COUNT, COUNTER(heap_counts.huge_live), 0, "", END,                          \
    "live blocks with a mapping of their own")                                                     \
  X(huge_allocated, BLOCKS, COUNT, COUNTER(heap_counts.huge_allocated), 0, "", END,                \
    "such blocks since start")                                                                     \
  X(mmaps, CALLS, COUNT, COUNTER(os_counts.maps), 1, "mmap", NEXT, "calls of mmap")                \
  X(munmaps, CALLS, COUNT, COUNTER(os_counts.unmaps), 2, "munmap", NEXT, "calls of munmap")        \
  X(mremaps, CALLS, COUNT, COUNTER(os_counts.remaps), 3, "mremap", END, "calls of mremap")         \
  X(madvises, CALLS, COUNT, COUNTER(os_counts.advices), 4, "madvise", NEXT,                        \
    "calls of madvise, process_madvise and mprotect")                                              \
  X(failed_calls, CALLS, COUNT, COUNTER(os_counts.failures), 5, "refused", END,                    \
    "of these four, refused by the kernel")                                                        \
  X(remote_frees, SHARING, COUNT, HEAPS(remote_frees), 1, "remote frees", ALLOCATED,               \
    "blocks given back to slabs that another thread owns")                                         \
  X(swaps, SHARING, COUNT, HEAPS(swaps), 3, "put back in swaps", END,                              \
    "chains of blocks that were put back into slabs of others or of nobody by a compare-and-swap") \
  X(swap_retries, SHARING, COUNT, TALLIED(TALLY_RETRIES), 4, "swaps repeated", END,                \
    "compare-and-swaps on slabs, of any kind, that were repeated")                                 \
  X(adoptions, SHARING, COUNT, TALLIED(TALLY_ADOPTIONS), 5, "slabs adopted", NEXT,                 \
    "FULL slabs taken over by a thread that freed blocks of them")                                 \
  X(publications, SHARING, COUNT, TALLIED(TALLY_PUBLICATIONS), 6, "published", END,                \
    "times that a slab was made available to all")                                                 \
  X(threads, THREADS, COUNT, VISIT("heaps"), 1, "now", NEXT,                                       \
    "heaps in use now: of threads, also of those that were killed, and of signal handlers that "   \
    "have interrupted the allocator; none of fh_heap_t")                                           \
  X(heaps, THREADS, COUNT, VISIT("heaps"), 2, "heaps ever", NEXT,                                  \
    "heaps made, less those given back to the system")                                             \
  X(nested, THREADS, COUNT, COUNTER(heap_counts.nested), 3, "nested calls", END,                   \
    "calls that interrupted one of their thread, or met a taker")                                  \
  X(arenas, MEMORY, COUNT, VISIT("arenas"), 0, "", END, "arenas in `mapped`")                      \
  CLASSES                                                                                          \
  X(elapsed_ms, PROCESS, MS, PROCESS(elapsed_ms), 1, "ms since start", NEXT,                       \
    "since the process began; 0: the system does not say")                                         \
  X(user_ms, PROCESS, MS, PROCESS(user_ms), 2, "ms in user code", NEXT,                            \
    "processor time of all threads outside the kernel")                                            \
  X(system_ms, PROCESS, MS, PROCESS(system_ms), 3, "ms in the kernel", END,                        \
    "processor time in the kernel")                                                                \
  X(minor_faults, PROCESS, COUNT, PROCESS(minor_faults), 4, "minor faults", NEXT,                  \
    "page faults that nothing was read for")                                                       \
  X(major_faults, PROCESS, COUNT, PROCESS(major_faults), 5, "major faults", END,                   \
    "page faults for which a disk was read")                                                       \
  X(peak_resident, PROCESS, BYTES, PROCESS(peak_resident), 6, "peak resident", END,                \
    "most bytes of the whole process that were in memory")                                         \
  X(shared_frees, SHARING, COUNT, HEAPS(shared_frees), 2, "to nobody's slabs", ALLOCATED,          \
    "blocks given back to slabs that nobody owns: full ones, whichever thread has filled them, "   \
    "and those out of which all threads borrow; also what was borrowed and not used")              \
  X(empty_live, BLOCKS, COUNT, VISIT("empty blocks"), 0, "", END,                                  \
    "live blocks of no bytes, which are in no other figure of live blocks")                        \
  X(huge_resident, MEMORY, BYTES, VISIT("pages"), 5, "huge pages", RESIDENT,                       \
    "what the kernel says is in huge pages, of `resident`; 0 before Linux 6.7")                    \
  X(collapsed, MEMORY, COUNT, COUNTER(arena_counts.collapsed), 0, "", END,                         \
    "huge pages that were made of small ones since start (option thp)")                            \
  X(container_limit, MEMORY, BYTES, COUNTER(container.limit), 9, "container", NEXT,                \
    "least limit of the control groups around the process; 0: none was found, or looked for")      \
  X(pressure, MEMORY, COUNT, COUNTER(budget.level), 10, "pressure", NEXT,                          \
    "level of pressure now: 0 none, 1 near a bound, 2 over it")                                    \
  X(pressure_raises, MEMORY, COUNT, COUNTER(budget.raises), 11, "raised", END,                     \
    "times that this level rose")                                                                  \
  X(reserved, MEMORY, BYTES, COUNTER(arena_counts.reserved), 0, "", END,                           \
    "huge pages that were taken at start (option reserve_huge_pages)")

/* clang-format off */
/* One size class, and how many slabs are how full. type  name  how many; what it is */
#define FH_CLASS_STATISTICS(X)                                                                     \
  X(size_t, block_size,, "bytes of one block; 0 in the total")                                     \
  X(uint64_t, requested,, "(d) bytes asked for since start, except aligned blocks")                \
  X(uint64_t, allocated,, "blocks handed to threads since start")                                  \
  X(uint64_t, live,, "blocks in the program's hands, or kept by a thread for its next calls")      \
  X(uint64_t, peak,, "most that `live` has been, as nearly as is said below")                      \
  X(uint64_t, slabs,, "slabs of this class")                                                       \
  X(uint64_t, fullness, [4], "slabs by share of live blocks: below 1/4, 1/2, 3/4, up to 1")
/* One heap, with the option stats_detail: int64_t each. name  unit  title of its column  what it
 * is */
#define FH_HEAP_STATISTICS(X)                                                                      \
  X(thread, COUNT, "thread",                                                                       \
    "number of the thread that uses it; 0: none does, it is a lane of a first-class heap, or "     \
    "the process never had a second heap")                                                         \
  X(heap, COUNT, "", "address of the first-class heap to which it belongs; 0: of none")            \
  X(net_bytes, BYTES, "net",                                                                       \
    "bytes that its threads have taken, in large blocks too, less those that they gave back, "     \
    "whoever had taken these; of the first 256")                                                   \
  X(slabs, COUNT, "slabs", "slabs that it owns; it also borrows blocks of slabs of nobody")        \
  X(live_bytes, BYTES, "live",                                                                     \
    "live blocks in these slabs, with those that it keeps in its bins")                            \
  X(free_bytes, BYTES, "free", "free blocks in these slabs")
#define STATS_QUARTERS { "below_1_4", "below_1_2", "below_3_4", "up_to_1" }
/* clang-format on */
