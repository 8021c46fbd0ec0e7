/* target.c - the entry of libFuzzer */
#include "operations.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  operations_run(bytes, count);
  return 0;
}
