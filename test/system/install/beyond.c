/* beyond.c - a program that copies a byte too many, and does not free the block */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  char *p = malloc(16), from[32] = "0123456789012345";
  memcpy(p, from, 17); /* the default grade does not see it */
  printf("%s ends\n", p);
  return 0;
}
