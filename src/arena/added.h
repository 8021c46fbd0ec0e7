/* added.h - arenas in memory that was not mapped for them                           layer 3: arena
 * Owns:    nothing.   Called by: api.   Calls: slices, map, os.
 * Threads: any. Progress: if two threads want one window, the second skips it.
 *
 * The program brings memory (fh_arena_add), or the system has set huge pages aside (option
 * `reserve_huge_pages`). An added arena has the slices from `first` up to `end` of its window, and
 * never gets others. They are never unmapped or moved. Pinned ones never go back to the system and
 * do not count as dirty. */
#pragma once

#include "../base/base.h"

/* Makes all usable whole slices of the memory free ones; returns their bytes. */
hidden size_t added_put(void *at, size_t size, bool is_zero, bool is_pinned);
/* Takes huge pages of that node (-1: of any) for so many bytes, and makes them present, as far as
 * the system has them, and soon enough. Returns the bytes of those that are there. */
hidden size_t added_reserve(size_t size, int node);
