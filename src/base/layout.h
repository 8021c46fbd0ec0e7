/* layout.h - what a reader in another process needs to know of this one              layer 0: base
 * Owns:    nothing.   Called by: everyone who has a variable that leads to the rest.
 *          Calls: nothing.
 * Threads: any: constants.
 *
 * The command `freehold` reads a process or a core file with the library's own code. It copies each
 * variable that has a row here into its own variable of that name. Memory that these point to is
 * read at the same addresses, so both must have the same types. Sizes and places of fields that may
 * differ between two versions have rows too; the command refuses a process in which one differs. */
#pragma once

#include "base.h"

enum { LAYOUT_VERSION = 1 | SECURE << 16 }; /* raise the 1 if a meaning changes, but no size */

typedef struct {
  char name[48];
  const volatile void *at; /* of a variable; NULL: a size or a field's place */
  uint64_t value;          /* a variable's size, or that size or place */
} aligned_to(64) layout_row_t;

/* Keeps the section with linkers that drop whatever nothing refers to by name (lld, Rust's). */
#if defined(__has_attribute)
#if __has_attribute(retain)
#define LAYOUT_STAYS used, retain
#endif
#endif
#ifndef LAYOUT_STAYS
#define LAYOUT_STAYS used
#endif
#if defined(__APPLE__)
#define LAYOUT_SECTION "__DATA,freehold_layout"
#else
#define LAYOUT_SECTION "freehold_layout"
#endif
#define LAYOUT_ROW(label, text, where, number)                                                     \
  _Static_assert(sizeof text <= sizeof((layout_row_t *)NULL)->name, text);                         \
  static const layout_row_t layout_##label                                                         \
    __attribute__((LAYOUT_STAYS, section(LAYOUT_SECTION))) = {text, where, number}
#define LAYOUT_VARIABLE(name) LAYOUT_ROW(name, #name, &name, sizeof name)
#define LAYOUT_SIZE(type) LAYOUT_ROW(type, #type, NULL, sizeof(type))
#define LAYOUT_FIELD(type, field)                                                                  \
  LAYOUT_ROW(type##_##field, #type "." #field, NULL, offsetof(type, field))

/* What the note in the file leads to. */
typedef struct {
  char magic[16]; /* LAYOUT_MAGIC */
  uint32_t version, row_size;
  const layout_row_t *rows, *end;
  char library[16]; /* its version */
} layout_t;
#define LAYOUT_MAGIC "freehold layout"
