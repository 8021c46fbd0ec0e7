/* consumer.c - a program of somebody else's that links the installed library; 0 if
 * its malloc is ours */
#include <freehold/freehold.h>
#include <stdlib.h>

int main(void) {
  void *volatile p = malloc(100);
  int is_ours = fh_owns(p) && fh_version() / 10000 == FH_VERSION_MAJOR;
  free(p);
  return is_ours ? 0 : 1;
}
