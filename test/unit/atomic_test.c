/* atomic_test.c - tests of base/atomic.h: what not every processor does by itself */
#include "../test.h"

#include "../../src/base/atomic.h"

TEST(atomic, a_part_of_a_word_is_swapped_and_what_lies_beside_it_stays, "") {
  union {
    uint32_t word;
    uint8_t bytes[4];
    uint16_t halves[2];
  } w = {0x44332211};
  for (unsigned i = 0; i < 4; i++) {
    uint32_t seen = w.bytes[i];
    CHECK(atomic_cas_part(&w.bytes[i], UINT8_MAX, &seen, 0xA0 + i));
  }
  CHECK_EQ(w.word, 0xA3A2A1A0u);
  uint32_t low = 0xA1A0, high = 0xA3A2;
  CHECK(atomic_cas_part(&w.halves[1], UINT16_MAX, &high, 0x5678));
  CHECK(atomic_cas_part(&w.halves[0], UINT16_MAX, &low, 0x1234));
  CHECK_EQ(w.word, 0x56781234u);
}

TEST(atomic, a_part_that_is_another_is_told_and_left, "") {
  uint32_t word = 0x44332211, seen = 7;
  CHECK(!atomic_cas_part((char *)&word + 2, UINT8_MAX, &seen, 9));
  CHECK_EQ(seen, 0x33u);
  CHECK_EQ(word, 0x44332211u);
  uint8_t byte = 0;
  CHECK(!atomic8_cas_part(&word, &byte, 9));
  CHECK(byte == 0x11 && atomic8_cas_part(&word, &byte, 9));
  CHECK_EQ(word, 0x44332209u);
}
