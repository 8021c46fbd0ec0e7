/* symbols.h - what the target's code addresses are called
 * Owns:    libdw's session.   Called by: why.c.   Calls: target.h, libdw. */
#ifndef OUTSIDE_SYMBOLS_H
#define OUTSIDE_SYMBOLS_H

#include <stdint.h>
#include <stdio.h>

/* "remember_session (leak.c:31)", "cache<...>::add(int) (cache.h:7)", "malloc (libc.so.6)", or the
 * address. */
void symbols_write(FILE *out, uintptr_t return_address);

#endif
