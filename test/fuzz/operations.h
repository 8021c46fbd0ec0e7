/* operations.h - what the fuzz target and the replay of its corpus share */
#ifndef TEST_FUZZ_OPERATIONS_H
#define TEST_FUZZ_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>

/* Does what the bytes say; aborts if a block or slice is lost or spoilt. */
void operations_run(const uint8_t *bytes, size_t count);

#endif
