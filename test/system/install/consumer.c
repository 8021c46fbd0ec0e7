/* consumer.c - a program of somebody else's that links the installed library; 0 if
 * its malloc is ours, and of the grade that was asked for */
#if defined(IS_AMALGAMATION)
#include "freehold.h"
#else
#include <freehold/freehold.h>
#endif
#include <malloc.h>
#include <stdlib.h>

#ifndef IS_SECURE
#define IS_SECURE 0
#endif

int main(void) {
  void *volatile p = malloc(100);
  int is_ours = fh_owns(p) && fh_version() / 10000 == FH_VERSION_MAJOR;
  int is_secure = malloc_usable_size(p) == 100; /* the default grade says 112 */
  free(p);
  return is_ours && is_secure == IS_SECURE ? 0 : 1;
}
