/* layout.c - where a reader in another process finds the table of layout.h             layer 8: api
 * Owns:    layout_table, and a note in the file that says where it is.
 * Called by: nobody; tools/outside reads it.   Calls: nothing.
 * Threads: any: constants. */
#include "../../include/freehold/freehold.h"
#include "../base/layout.h"
#include "../stock/heap.h"
#include "../stock/huge.h"

LAYOUT_SIZE(arena_t);
LAYOUT_FIELD(arena_t, mapped);
LAYOUT_SIZE(arena_maps_t);
LAYOUT_FIELD(arena_maps_t, touched);
LAYOUT_FIELD(arena_maps_t, partial);
LAYOUT_SIZE(slab_t);
LAYOUT_FIELD(slab_t, used);
LAYOUT_FIELD(slab_t, kind);
LAYOUT_FIELD(slab_t, size);
LAYOUT_FIELD(slab_t, anchor);
LAYOUT_FIELD(slab_t, sampled);
LAYOUT_SIZE(heap_t);
LAYOUT_FIELD(heap_t, returned_most);
LAYOUT_FIELD(heap_t, binned);
LAYOUT_FIELD(heap_t, magazine);
LAYOUT_FIELD(heap_t, number);
LAYOUT_FIELD(heap_t, tag);
LAYOUT_SIZE(heap_aside_t);
LAYOUT_SIZE(heap_own_t);
LAYOUT_SIZE(huge_t);
LAYOUT_FIELD(huge_t, sampled);
LAYOUT_SIZE(sampled_t);

#if defined(__ELF__)
/* The linker's names for the section of all rows. */
extern hidden const layout_row_t __start_freehold_layout[], __stop_freehold_layout[];
extern hidden const layout_t layout_table;
const layout_t layout_table __attribute__((used)) = {
  LAYOUT_MAGIC,
  LAYOUT_VERSION,
  sizeof(layout_row_t),
  __start_freehold_layout,
  __stop_freehold_layout,
  TEXT_OF(FH_VERSION_MAJOR) "." TEXT_OF(FH_VERSION_MINOR) "." TEXT_OF(FH_VERSION_PATCH)};

/* Owner "freehold", type 1, and how far from here the table is. A core file has it too. */
__asm__(".pushsection .note.freehold, \"a\", %note\n"
        ".balign 4\n"
        ".long 9, 8, 1\n"
        ".asciz \"freehold\"\n"
        ".balign 4\n"
#if UINTPTR_MAX > UINT32_MAX
        ".quad layout_table - .\n"
#else
        ".long layout_table - ., 0\n"
#endif
        ".popsection\n");
#endif
