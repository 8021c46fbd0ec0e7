/* report_test.c - the statistics as text and as JSON, from figures that are known. The test is the
 * layer below and the rest of its own layer: it makes the figures up. */
#include "core.h"

#include "../../include/freehold/freehold.h"
#include "../../src/api/api.h"
#include "../../src/support/timing.h"
#include "../../src/heap/stats.h"
#include "../../src/heap/upkeep.h"

atomic32_t api_started;
void api_start_now(void) {}
const char *fh_version_string(void) { return "9.8.7"; }

static char output[1 << 15];
static size_t output_length;
void api_output(const char *text, size_t length) {
  CHECK_LT(output_length + length, sizeof output);
  memcpy(output + output_length, text, length);
  output_length += length;
}

/* Each field has a number of its own. */
static fh_stats_t figures;
void heap_stats(fh_stats_t *stats) { *stats = figures; }
void heap_stats_each(heap_stats_row_t *row, void *context) {
  row(&(heap_stats_t){.thread = 71, .net_bytes = -2048, .slabs = 3, .live_bytes = 4096}, context);
  row(&(heap_stats_t){.heap = 0x1234, .slabs = 1, .free_bytes = 1 << 20}, context);
}

/* What it finds kept. */
enum { KEPT = 3, KEPT_BYTES = 300 };
void heap_collect(bool force) {
  CHECK(!force);
  figures.total.live -= KEPT;
  figures.live_bytes -= KEPT_BYTES;
}

static void fill_class(fh_class_stats_t *c, size_t block_size, uint64_t n) {
  *c = (fh_class_stats_t){block_size, n + 1, n + 2, n + 3, n + 4, n + 5, {1, n / 100, 2, n / 200}};
}
static void fill(void) {
  uint64_t *to = &figures.mapped;
  for (uint64_t i = 1; to < (uint64_t *)&figures.total; i++) *to++ = i * 1111111;
  to = &figures.elapsed_ms;
  for (uint64_t i = 31; to < (uint64_t *)(&figures + 1); i++) *to++ = i * 1111111;
  fill_class(&figures.total, 0, 7000000);
  fill_class(&figures.classes[0], 16, 1000);
  fill_class(&figures.classes[9], 160, 2000);
  figures.classes[20] = (fh_class_stats_t){.block_size = 336, .live = 5}; /* never used */
}
static void print(bool json) {
  fill();
  output_length = 0;
  fh_stats_print(json);
  output[output_length] = '\0';
}

/* Shows the first line that differs. */
static void check_text(const char *text, const char *expected) {
  for (int line = 1; *text != '\0' || *expected != '\0'; line++) {
    int length = (int)strcspn(text, "\n"), wanted = (int)strcspn(expected, "\n");
    if (length != wanted || memcmp(text, expected, (size_t)length) != 0)
      FAIL("line %d: \"%.*s\", not \"%.*s\"", line, length, text, wanted, expected);
    text += length + (text[length] != '\0');
    expected += wanted + (expected[wanted] != '\0');
  }
}

TEST(report, the_text_is_what_it_always_was, "") {
  print(false);
  check_text(
    output,
    "freehold 9.8.7\n"
    "memory\n"
    "  mapped                  1.1M   address space in 28888886 arenas\n"
    "  committed               2.1M   at most 8.5M\n"
    "  live                    7.4M  350.0% of committed\n"
    "  resident                3.2M  300.0% of mapped\n"
    "  huge pages             41.3M 1300.0% of resident\n"
    "  dirty                   4.2M   free, not yet given back\n"
    "  purged                  5.3M   given back since start\n"
    "  metadata                6.4M  600.0% of mapped\n"
    "  container              43.4M  pressure            46666662  raised              "
    "47777773\n"
    "system calls\n"
    "  mmap                14444443  munmap              15555554  mremap              "
    "16666665\n"
    "  madvise             17777776  refused             18888887\n"
    "sharing\n"
    "  remote frees        19999998  285.7% of blocks allocated\n"
    "  to nobody's slabs   41111107  587.3% of blocks allocated\n"
    "  put back in swaps   21111109\n"
    "  swaps repeated      22222220\n"
    "  slabs adopted       23333331  published           24444442\n"
    "threads\n"
    "  now                 25555553  heaps ever          26666664  nested calls        "
    "27777775\n"
    "process\n"
    "  ms since start      34444441  ms in user code     35555552  ms in the kernel    "
    "36666663\n"
    "  minor faults        37777774  major faults        38888885\n"
    "  peak resident          38.1M\n"
    "blocks         live        peak     allocated requested   slabs    <1/4   <1/2   <3/4   full\n"
    "     16        1003        1004          1002      1001    1005   0.1%   1.0%   0.2%   0.5%\n"
    "    160        2003        2004          2002      2.0K    2005   0.0%   1.0%   0.1%   0.5%\n"
    "  total     7000003     7000004       7000002      6.7M 7000005   0.0%   1.0%   0.0%   0.5%\n"
    "  large     9999999                  11111110\n"
    "   huge    12222221                  13333332\n"
    "  empty    42222218\n");
}

TEST(report, the_json_object_is_what_it_always_was, "") {
  print(true);
  check_text(
    output,
    "{\n"
    "  \"freehold\": \"9.8.7\",\n"
    "  \"mapped\": 1111111,\n"
    "  \"committed\": 2222222,\n"
    "  \"resident\": 3333333,\n"
    "  \"dirty\": 4444444,\n"
    "  \"purged\": 5555555,\n"
    "  \"metadata\": 6666666,\n"
    "  \"live_bytes\": 7777777,\n"
    "  \"peak_committed\": 8888888,\n"
    "  \"large_live\": 9999999,\n"
    "  \"large_allocated\": 11111110,\n"
    "  \"huge_live\": 12222221,\n"
    "  \"huge_allocated\": 13333332,\n"
    "  \"mmaps\": 14444443,\n"
    "  \"munmaps\": 15555554,\n"
    "  \"mremaps\": 16666665,\n"
    "  \"madvises\": 17777776,\n"
    "  \"failed_calls\": 18888887,\n"
    "  \"remote_frees\": 19999998,\n"
    "  \"swaps\": 21111109,\n"
    "  \"swap_retries\": 22222220,\n"
    "  \"adoptions\": 23333331,\n"
    "  \"publications\": 24444442,\n"
    "  \"threads\": 25555553,\n"
    "  \"heaps\": 26666664,\n"
    "  \"nested\": 27777775,\n"
    "  \"arenas\": 28888886,\n"
    "  \"elapsed_ms\": 34444441,\n"
    "  \"user_ms\": 35555552,\n"
    "  \"system_ms\": 36666663,\n"
    "  \"minor_faults\": 37777774,\n"
    "  \"major_faults\": 38888885,\n"
    "  \"peak_resident\": 39999996,\n"
    "  \"shared_frees\": 41111107,\n"
    "  \"empty_live\": 42222218,\n"
    "  \"huge_resident\": 43333329,\n"
    "  \"collapsed\": 44444440,\n"
    "  \"container_limit\": 45555551,\n"
    "  \"pressure\": 46666662,\n"
    "  \"pressure_raises\": 47777773,\n"
    "  \"reserved\": 48888884,\n"
    "  \"total\": {\"block_size\": 0, \"requested\": 7000001, \"allocated\": 7000002, "
    "\"live\": 7000003, \"peak\": 7000004, \"slabs\": 7000005, \"fullness\": {\"below_1_4\": "
    "1, \"below_1_2\": 70000, \"below_3_4\": 2, \"up_to_1\": 35000}},\n"
    "  \"classes\": [\n"
    "    {\"block_size\": 16, \"requested\": 1001, \"allocated\": 1002, \"live\": 1003, "
    "\"peak\": 1004, \"slabs\": 1005, \"fullness\": {\"below_1_4\": 1, \"below_1_2\": 10, "
    "\"below_3_4\": 2, \"up_to_1\": 5}},\n"
    "    {\"block_size\": 160, \"requested\": 2001, \"allocated\": 2002, \"live\": 2003, "
    "\"peak\": 2004, \"slabs\": 2005, \"fullness\": {\"below_1_4\": 1, \"below_1_2\": 20, "
    "\"below_3_4\": 2, \"up_to_1\": 10}}\n"
    "  ],\n"
    "  \"slow_paths\": {},\n"
    "  \"by_heap\": []\n"
    "}\n");
}

static void timing_note(timing_kind_t kind, uint64_t ns) {
  os_fake.now_ms = 12345;
  timing_end(kind, os_now_ns() - ns);
}

TEST(report, how_long_slow_paths_took_stands_behind_the_blocks, "") {
  for (int i = 0; i < 95; i++) timing_note(TIMING_REFILL, 1500);
  for (int i = 0; i < 5; i++) timing_note(TIMING_REFILL, 70000);
  timing_note(TIMING_PURGE, 1000000);
  print(false);
  check_text(strstr(output, "slow paths"),
             "slow paths     times     p50 us     p90 us     p99 us    most us\n"
             "  refill         100        2.0        2.0       70.0       70.0\n"
             "  purge            1     1000.0     1000.0     1000.0     1000.0\n");
  print(true);
  check_text(strstr(output, "  \"slow_paths\""),
             "  \"slow_paths\": {\"refill\": {\"times\": 100, \"p50_ns\": 2048, \"p90_ns\": 2048, "
             "\"p99_ns\": 70000, \"most_ns\": 70000}, \"purge\": {\"times\": 1, \"p50_ns\": "
             "1000000, \"p90_ns\": 1000000, \"p99_ns\": 1000000, \"most_ns\": 1000000}},\n"
             "  \"by_heap\": []\n"
             "}\n");
}

TEST(report, with_stats_detail_each_heap_has_a_row, "") {
  core_option(OPTION_stats_detail, 1);
  print(false);
  check_text(strstr(output, "heaps\n"),
             "heaps\n"
             "    thread       net     slabs      live      free\n"
             "        71     -2.0K         3      4.0K         0\n"
             "         0         0         1         0      1.0M  of heap 0x1234\n");
  print(true);
  check_text(strstr(output, "  \"by_heap\""),
             "  \"by_heap\": [\n"
             "    {\"thread\": 71, \"heap\": 0, \"net_bytes\": -2048, \"slabs\": 3, "
             "\"live_bytes\": 4096, \"free_bytes\": 0},\n"
             "    {\"thread\": 0, \"heap\": 4660, \"net_bytes\": 0, \"slabs\": 1, "
             "\"live_bytes\": 0, \"free_bytes\": 1048576}\n"
             "  ]\n"
             "}\n");
}

TEST(report, at_exit_the_last_line_says_how_much_at_most_is_not_freed, "") {
  fill();
  figures.total.live = 5, figures.large_live = 20, figures.huge_live = 100,
  figures.empty_live = 1000;
  figures.live_bytes = 2048;
  output_length = 0;
  api_report(false, true);
  output[output_length] = '\0';
  check_text(
    strstr(output, "not freed"),
    "not freed: at most 1125 blocks, 2.0K (with what threads keep for their next calls)\n");
}

TEST(report, one_arena_is_one_and_not_many, "") {
  fill();
  figures.arenas = 1;
  output_length = 0;
  fh_stats_print(false);
  output[output_length] = '\0';
  CHECK(strstr(output, "address space in 1 arena\n") != NULL);
}
