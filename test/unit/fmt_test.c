/* fmt_test.c - tests of base/fmt */
#include "../test.h"

#include "../../src/base/fmt.h"

static char text[4096];
static fmt_t f;

static fmt_t *fresh(size_t size) {
  memset(text, '#', sizeof text);
  fmt_start(&f, text, size, NULL, NULL);
  return &f;
}

#define SAYS(expected, ...)                                                                        \
  do {                                                                                             \
    fresh(sizeof text);                                                                            \
    __VA_ARGS__;                                                                                   \
    CHECK_SAME_TEXT(fmt_end(&f), expected);                                                        \
  } while (0)

TEST(fmt, numbers_are_written_in_full_at_both_ends_of_their_range, "") {
  SAYS("0", fmt_decimal(&f, 0));
  SAYS("18446744073709551615", fmt_decimal(&f, UINT64_MAX));
  SAYS("-9223372036854775808", fmt_signed(&f, INT64_MIN));
  SAYS("9223372036854775807", fmt_signed(&f, INT64_MAX));
  SAYS("0x0", fmt_hex(&f, 0));
  SAYS("0xffffffffffffffff", fmt_hex(&f, UINT64_MAX));
}

TEST(fmt, a_size_is_rounded_to_one_decimal_of_the_unit_that_fits, "") {
  SAYS("0", fmt_size(&f, 0));
  SAYS("1023", fmt_size(&f, 1023));
  SAYS("1.0K", fmt_size(&f, 1024));
  SAYS("1.5K", fmt_size(&f, 1536));
  SAYS("1023.9K", fmt_size(&f, 1048473));
  SAYS("1.0M", fmt_size(&f, 1048575));
  SAYS("64.0M", fmt_size(&f, MiB(64)));
  SAYS("16.0E", fmt_size(&f, UINT64_MAX));
}

TEST(fmt, an_exact_size_loses_nothing, "") {
  SAYS("0", fmt_exact_size(&f, 0));
  SAYS("50000", fmt_exact_size(&f, 50000));
  SAYS("64K", fmt_exact_size(&f, KiB(64)));
  SAYS("1G", fmt_exact_size(&f, GiB(1)));
  SAYS("1025K", fmt_exact_size(&f, KiB(1025)));
  SAYS("8E", fmt_exact_size(&f, (uint64_t)1 << 63));
  SAYS("9223372036854775807", fmt_exact_size(&f, INT64_MAX));
}

TEST(fmt, a_share_is_right_even_of_the_greatest_numbers_and_of_nothing, "") {
  SAYS("-", fmt_percent(&f, 5, 0));
  SAYS("0.0%", fmt_percent(&f, 0, 7));
  SAYS("33.3%", fmt_percent(&f, 1, 3));
  SAYS("66.7%", fmt_percent(&f, 2, 3));
  SAYS("100.0%", fmt_percent(&f, UINT64_MAX, UINT64_MAX));
  SAYS("50.0%", fmt_percent(&f, UINT64_MAX / 2, UINT64_MAX));
}

TEST(fmt, bytes_have_two_hexadecimal_digits_each, "") {
  SAYS("007fa5ff", fmt_hex_bytes(&f, (const unsigned char *)"\x00\x7f\xa5\xff", 4));
  SAYS("", fmt_hex_bytes(&f, NULL, 0));
}

TEST(fmt, a_format_has_texts_and_numbers_and_addresses, "") {
  SAYS("", fmt_print(&f, "%s", ""));
  SAYS("7 of 18446744073709551615%", fmt_print(&f, "%u of %lu%%", 7u, UINT64_MAX));
  SAYS("a: 0x10, 0xff", fmt_print(&f, "%c: %p, %#lx", 'a', (void *)16, UINT64_C(255)));
}

TEST(fmt, columns_are_filled_and_never_cut, "") {
  SAYS("ab  |", fmt_print(&f, "%-4s|", "ab"));
  SAYS("abcdef", fmt_print(&f, "%-*s", 4, "abcdef"));
  SAYS("    42", fmt_print(&f, "%6lu", UINT64_C(42)));
  SAYS("  1.0K", fmt_size_right(&f, 1024, 6));
  SAYS(" 50.0%", fmt_percent_right(&f, 1, 2, 6));
  SAYS("1234", fmt_print(&f, "%*lu", 3, UINT64_C(1234)));
  fmt_spaces(fresh(sizeof text), 100);
  CHECK_EQ(f.used, 100u);
  CHECK_BYTES(text, ' ', 100);
}

TEST(fmt, text_of_others_is_shown_without_control_characters_and_cut, "") {
  SAYS("a?b?", fmt_shown(&f, "a\nb\x7f", 4, 10));
  SAYS("abc...", fmt_shown(&f, "abcdef", 6, 3));
  SAYS("abc", fmt_shown(&f, "abc", 3, 3));
}

TEST(fmt, what_does_not_fit_is_cut_but_counted, "T1 T2") {
  for (size_t size = 0; size <= 12; size++) {
    fresh(size);
    fmt_text(&f, "0123");
    fmt_decimal(&f, 456789);
    CHECK(fmt_is_valid(&f));
    CHECK_EQ(f.total, 10u);
    CHECK_EQ(f.used, size == 0 ? 0 : size - 1 < 10 ? size - 1 : 10);
    CHECK_EQ(strlen(fmt_end(&f)), f.used);
    CHECK_EQ(memcmp(fmt_end(&f), "0123456789", f.used), 0);
    CHECK_EQ(text[size == 0 ? 0 : size], '#');
  }
  fmt_start(&f, NULL, 0, NULL, NULL);
  fmt_text(&f, "nowhere");
  CHECK_SAME_TEXT(fmt_end(&f), "");
}

static char drained[65536];
static size_t drained_length, drained_calls;
static bool drained_whole_lines;

static void drain(const char *part, size_t length, void *context) {
  CHECK_EQ(context, (void *)&f);
  CHECK_LE(drained_length + length, sizeof drained);
  drained_whole_lines &= length > 0 && part[length - 1] == '\n';
  memcpy(drained + drained_length, part, length);
  drained_length += length;
  drained_calls++;
}

static void start_draining(size_t size) {
  drained_length = drained_calls = 0;
  drained_whole_lines = true;
  fmt_start(&f, text, size, drain, &f);
}

TEST(fmt, a_full_buffer_is_drained_by_whole_lines_and_nothing_is_lost, "T1 T2") {
  start_draining(64);
  for (unsigned i = 0; i < 1000; i++) {
    fmt_text(&f, "line ");
    fmt_decimal(&f, i);
    fmt_char(&f, '\n');
    CHECK(fmt_is_valid(&f));
  }
  CHECK(drained_whole_lines);
  fmt_flush(&f);
  CHECK_EQ(drained_length, f.total);
  CHECK_EQ(memcmp(drained, "line 0\nline 1\n", 14), 0);
  CHECK_EQ(memcmp(drained + drained_length - 9, "line 999\n", 9), 0);
  size_t calls = drained_calls;
  fmt_flush(&f);
  CHECK_EQ(drained_calls, calls);
}

TEST(fmt, a_line_longer_than_the_buffer_comes_out_in_parts, "T2") {
  static const char row[] =
    "a line of some length without an end of line in it, longer than the buffer is";
  start_draining(16);
  fmt_text(&f, row);
  fmt_flush(&f);
  CHECK_EQ(drained_length, sizeof row - 1);
  CHECK_EQ(memcmp(drained, row, sizeof row - 1), 0);
}

TEST(fmt, json_has_its_commas_lines_and_escapes, "") {
  fmt_json_t j;
  fmt_json_start(&j, fresh(sizeof text));
  fmt_json_object(&j, NULL);
  fmt_json_number(&j, "n", 7);
  fmt_json_text(&j, "t", "a\"b\\c\nd");
  fmt_json_object(&j, "o");
  fmt_json_signed(&j, "less", -1);
  fmt_json_close(&j);
  fmt_json_array(&j, "rows");
  fmt_json_object(&j, NULL);
  fmt_json_close(&j);
  fmt_json_number(&j, NULL, 2);
  fmt_json_close(&j);
  fmt_json_array(&j, "none");
  fmt_json_close(&j);
  fmt_json_close(&j);
  CHECK_SAME_TEXT(fmt_end(&f),
                  "{\n  \"n\": 7,\n  \"t\": \"a\\\"b\\\\c\\u000ad\",\n  \"o\": {\"less\": -1},\n"
                  "  \"rows\": [\n    {},\n    2\n  ],\n  \"none\": []\n}\n");
}
