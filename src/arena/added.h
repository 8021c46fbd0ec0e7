/* added.h - arenas in memory that was not mapped for them                           layer 3: arena
 * Owns:    nothing.   Called by: api.   Calls: slices, map, os.
 * Threads: any. Progress: of two that want one window the second passes it by.
 *
 * The program brings memory (fh_arena_add), or huge pages are taken that the system has set aside
 * (option `reserve_huge_pages`). An added arena has the slices from `first` up to `end` of its
 * window, and never gets others. They are never unmapped or moved; if they are pinned they do not
 * go back to the system either, and do not count as dirty. */
#pragma once

#include "../base/base.h"

/* All whole slices of the memory that can be used become free ones; their bytes. */
hidden size_t added_put(void *at, size_t size, bool is_zero, bool is_pinned);
/* Takes huge pages of that node (-1: of any) for so many bytes, and has them made present. What the
 * system has not got, or not soon enough, is not taken; the bytes of those that are there. */
hidden size_t added_reserve(size_t size, int node);
