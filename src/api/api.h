/* api.h - what the files of the top layer share                                        layer 6: api
 * Owns:    nothing.     Called by: api alone.     Calls: nothing.
 * Threads: any, all functions. */
#ifndef API_API_H
#define API_API_H

#include "../base/fmt.h"

/* Loads the options and hangs the callbacks into the layers below; any call after the first does
 * nothing. The first may happen in two threads and a signal handler at once. Called by the core at
 * first use and by the constructor. */
hidden void api_start(void);

/* Text of whole lines to the output callback, or to standard error. */
hidden void api_output(const char *text, size_t length);

/* The error callback, if there is one and it is not what is running. */
hidden void api_error(int error);

/* What the core calls up for: see heap_hooks_t. */
hidden void api_no_memory(void);
hidden void api_deferred(bool force);
hidden bool api_foreign_free(void *p, const char *call);
hidden bool api_foreign_size(const void *p, const char *call, size_t *size);
hidden bool api_foreign_realloc(void *p, size_t size, const char *call, void **result);

/* Writes "freehold: <what>: <address> in <call>()", calls the error callback with EFAULT and
 * aborts. */
_Noreturn hidden void api_fatal(const char *what, const void *address, const char *call);

/* Looks libc's own functions up; in a constructor, because the dynamic linker takes locks. */
hidden void api_foreign_start(void);

#endif
